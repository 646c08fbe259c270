// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

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

// Count counts the operations of one kind that were begun for a Workspace.
func (w *Store) Count(key types.NamespacedName, op Operation) (int, error) {
	entries, err := w.Journal()
	n := 0
	for _, e := range entries {
		if e.Operation == op && e.Of(key) {
			n++
		}
	}
	return n, err
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
