// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Store is the folder in which scripted Executors live. Several processes may use it.
type Store struct{ dir string }

// At is the environment in a folder.
func At(dir string) *Store { return &Store{dir: dir} }

func (w *Store) scripts() string { return filepath.Join(w.dir, "scripts") }
func (w *Store) runs() string    { return filepath.Join(w.dir, "runs") }
func (w *Store) states() string  { return filepath.Join(w.dir, "states") }
func (w *Store) cloud() string   { return filepath.Join(w.dir, "cloud") }
func (w *Store) journal() string { return filepath.Join(w.dir, "journal.jsonl") }

// Resource is one resource in the pretended cloud.
type Resource struct {
	// ID is unique among all resources there ever were.
	ID string `json:"id"`
	// Address is the resource's place in the module.
	Address string `json:"address"`
	// ExternalName is the Terraform workspace that made it.
	ExternalName string `json:"externalName"`
	// Namespace, Name and UID are those of the Workspace that made it.
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// State is what Terraform knows of the resources.
type State struct {
	// Applied is the fingerprint of the module and the variables of the last apply that succeeded.
	Applied string `json:"applied,omitempty"`
	// Drift is what the script said of drift then.
	Drift     string            `json:"drift,omitempty"`
	Resources []Resource        `json:"resources,omitempty"`
	Outputs   []executor.Output `json:"outputs,omitempty"`
}

// id is that of the resource at an address, empty when there is none.
func (s State) id(address string) string {
	for _, r := range s.Resources {
		if r.Address == address {
			return r.ID
		}
	}
	return ""
}

// Cloud lists the resources that exist, whether a state knows them or not.
func (w *Store) Cloud() ([]Resource, error) {
	var all []Resource
	err := eachFile(w.cloud(), func(path string) error {
		var r Resource
		err := read(path, &r)
		if err == nil {
			all = append(all, r)
		}
		return err
	})
	return all, err
}

// States lists the states by Terraform workspace. A state that has no resources is listed until it is deleted.
func (w *Store) States() (map[string]State, error) {
	all := map[string]State{}
	err := eachFile(w.states(), func(path string) error {
		var s State
		name, err := url.PathUnescape(strings.TrimSuffix(filepath.Base(path), ".json"))
		if err == nil {
			err = read(path, &s)
		}
		if err == nil {
			all[name] = s
		}
		return err
	})
	return all, err
}

// Orphans lists the resources that no state knows.
func (w *Store) Orphans() ([]Resource, error) {
	// The cloud is read first: what is recorded in between is not an orphan.
	cloud, err := w.Cloud()
	if err != nil {
		return nil, err
	}
	states, err := w.States()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, s := range states {
		for _, r := range s.Resources {
			known[r.ID] = true
		}
	}
	var orphans []Resource
	for _, r := range cloud {
		if !known[r.ID] {
			orphans = append(orphans, r)
		}
	}
	return orphans, nil
}

func (w *Store) statePath(name string) string {
	return filepath.Join(w.states(), url.PathEscape(name)+".json")
}

// state reads a state; one that is not there is empty.
func (w *Store) state(name string) (State, error) {
	var s State
	err := read(w.statePath(name), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	return s, err
}

func (w *Store) save(name string, s State) error { return write(w.statePath(name), s) }

// make puts a new resource into the cloud.
func (w *Store) make(r Resource) (Resource, error) {
	r.ID = string(uuid.NewUUID())
	return r, write(filepath.Join(w.cloud(), r.ID+".json"), r)
}

func (w *Store) remove(resources []Resource) error {
	for _, r := range resources {
		err := os.Remove(filepath.Join(w.cloud(), r.ID+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// eachFile visits the files of a folder that are whole and still there.
func eachFile(dir string, visit func(path string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue // It is being written.
		}
		if err := visit(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func read(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func write(path string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return state.WriteFile(path, data)
}

// Operation is what an Executor was asked for.
type Operation string

// The operations in the journal.
const (
	Init    Operation = "init"
	Plan    Operation = "plan"
	Apply   Operation = "apply"
	Destroy Operation = "destroy"
)

// Entry is one operation.
type Entry struct {
	Operation    Operation `json:"operation"`
	Namespace    string    `json:"namespace,omitempty"`
	Name         string    `json:"name"`
	UID          types.UID `json:"uid"`
	ExternalName string    `json:"externalName"`
	Start        time.Time `json:"start"`
	// End is zero while the operation runs, and stays so when the provider was killed meanwhile.
	End   time.Time `json:"end,omitzero"`
	Error string    `json:"error,omitempty"`
	// Process is the number of the provider's process.
	Process int `json:"process"`
}

// Of reports whether the operation was one of that Workspace.
func (e Entry) Of(key types.NamespacedName) bool {
	return e.Namespace == key.Namespace && e.Name == key.Name
}

// line is a line of the journal: an entry when the operation begins, only its end later.
type line struct {
	ID    string    `json:"id"`
	Begun *Entry    `json:"begun,omitempty"`
	End   time.Time `json:"end,omitzero"`
	Error string    `json:"error,omitempty"`
}

// Journal lists all operations in the order in which they began.
func (w *Store) Journal() ([]Entry, error) {
	file, err := os.Open(w.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()

	var entries []Entry
	index := map[string]int{}
	for reader := bufio.NewReader(file); ; {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return entries, nil // What has no end yet is being written.
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		if l.Begun != nil {
			index[l.ID] = len(entries)
			entries = append(entries, *l.Begun)
			continue
		}
		if i, ok := index[l.ID]; ok {
			entries[i].End, entries[i].Error = l.End, l.Error
		}
	}
}

func (w *Store) begin(e Entry) (string, error) {
	id := string(uuid.NewUUID())
	return id, w.append(line{ID: id, Begun: &e})
}

func (w *Store) end(id string, failure error) error {
	l := line{ID: id, End: time.Now()}
	if failure != nil {
		l.Error = failure.Error()
	}
	return w.append(l)
}

// append writes a line at once: lines of several writers do not mix.
func (w *Store) append(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(w.journal(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	return errors.Join(err, file.Close())
}
