// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package scripted simulates the execution of Workspaces as tests configure it: it is as slow, as stuck and as broken as
// their scripts say, and cheap enough for thousands of Workspaces.
//
// It reads inline modules as OpenTofu does, as far as variables, locals, terraform_data and outputs go; what it cannot
// evaluate becomes a made-up string. States and resources are files in a folder that models a remote backend and a
// cloud: they survive the provider, and a test reads them through Store.
package scripted

import (
	"bufio"
	"context"
	"crypto/md5" //nolint:gosec // a fingerprint, and the one provider-terraform shows in status
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// annotationExternalName names the Terraform workspace of a Workspace before it is selected.
const annotationExternalName = "crossplane.io/external-name"

// pollInterval is how often a waiting operation looks at its script again.
const pollInterval = 20 * time.Millisecond

type factory struct{ environment *Store }

// New returns a Factory whose Executors live in the folder, which is made when it is not there.
func New(dir string) (executor.Factory, error) {
	w := At(dir)
	for _, sub := range []string{w.scripts(), w.runs(), w.states(), w.cloud()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the folder of the scripted executor: %w", err)
		}
	}
	return factory{w}, nil
}

func (f factory) Open(_ context.Context, m executor.Module) (executor.Executor, error) {
	p := &simulation{store: f.environment, workspace: m}
	script, _, err := f.environment.script(m.Key)
	if step := p.step(script, open); err == nil && step.Stderr != "" {
		err = errors.New(step.Stderr)
	}
	return p, err
}

// Version0 reports whether the provider treats a Workspace as versions before v1 do.
func (f factory) Version0(key types.NamespacedName) bool {
	script, _, err := f.environment.script(key)
	return err == nil && script.Version0
}

// There are no working directories.
func (factory) Forget(types.UID) error { return nil }

type simulation struct {
	store     *Store
	workspace executor.Module
	// selected is the Terraform workspace; empty before SelectWorkspace.
	selected string
	// options are those of the last operation.
	options executor.RunOptions
}

// step is a step of the script. It does not fail unless the module, its address or a variable has the text of While.
func (p *simulation) step(script Script, op Operation) Step {
	step, all := script.step(op), fmt.Sprintf("%s %s %v", p.workspace.Files, p.workspace.Remote, p.options.Vars)
	for _, file := range p.options.VarFiles {
		all += string(file.Data)
	}
	if !strings.Contains(all, step.While) {
		step.Stderr = ""
	}
	return step
}

// run keeps the journal around an operation.
func (p *simulation) run(op Operation, do func() error) error {
	entry := Entry{
		Operation: op,
		Namespace: p.workspace.Key.Namespace, Name: p.workspace.Key.Name, UID: p.workspace.UID,
		ExternalName: p.workspace.Annotations[annotationExternalName],
		Start:        time.Now(),
		Process:      os.Getpid(),
	}
	id, err := p.store.begin(entry)
	if err != nil {
		return err
	}
	failure := do()
	if err := p.store.end(id, failure); err != nil {
		return err
	}
	return failure
}

// play waits as the script says, looking again and again since it may change, and returns the failure it asks for.
func (p *simulation) runStep(ctx context.Context, op Operation) error {
	began := time.Now()
	run, counted := 0, ""
	for {
		script, written, err := p.store.script(p.workspace.Key)
		if err != nil {
			return err
		}
		step := p.step(script, op)
		if step.Times > 0 && counted != written {
			if run, err = p.store.countRun(p.workspace.Key, op, written); err != nil {
				return err
			}
			counted = written
		}
		left := step.Delay - time.Since(began)
		if !step.Hang && left <= 0 {
			return step.failure(run)
		}
		if step.Hang || left > pollInterval {
			left = pollInterval
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shutdown while running terraform command: %w", ctx.Err())
		case <-time.After(left):
		}
	}
}

const defaultWorkspace = "default"

func (p *simulation) Init(ctx context.Context, _ []string) error {
	return p.run(Init, func() error {
		if _, err := parse(p.workspace); err != nil {
			return err
		}
		return p.runStep(ctx, Init)
	})
}

// The state is made by the first apply.
func (p *simulation) SelectWorkspace(ctx context.Context, name string) error {
	p.selected = name
	return p.runStep(ctx, selection)
}

// desired is the module with its variables, and the state that it is held against.
func (p *simulation) desired(o executor.RunOptions) (*module, State, error) {
	m, err := parse(p.workspace)
	if err != nil {
		return nil, State{}, err
	}
	p.options = o
	if err := m.assign(p.workspace.Env, o); err != nil {
		return nil, State{}, err
	}
	state, err := p.store.state(p.selected)
	return m, state, err
}

func (p *simulation) Plan(ctx context.Context, o executor.RunOptions) (differs bool, err error) {
	err = p.run(Plan, func() error {
		m, state, err := p.desired(o)
		if err != nil {
			return err
		}
		if err := p.runStep(ctx, Plan); err != nil {
			return err
		}
		drift, err := p.drift(state)
		if differs = state.Applied != m.fingerprint() || state.Drift != drift; differs && o.Log != nil {
			changes, outputs := p.planned(m, state, drift)
			o.Report(printed(isJSON(o), state, state.Drift != drift, changes, outputs), err)
		}
		return err
	})
	var failed *executor.FailedError
	if errors.As(err, &failed) {
		if isJSON(o) { // The CLI prints errors to standard output.
			err = executor.Failure("")
		}
		o.Report("", err)
	}
	return differs, err
}

// drift is what the script of the Workspace says, or that of the Workspace that made the resources: a preview sees them, too.
func (p *simulation) drift(state State) (string, error) {
	script, _, err := p.store.script(p.workspace.Key)
	if err == nil && script.Drift == "" && len(state.Resources) > 0 {
		made := state.Resources[0]
		script, _, err = p.store.script(types.NamespacedName{Namespace: made.Namespace, Name: made.Name})
	}
	if script.Drift == Perpetual {
		script.Drift += time.Now().String()
	}
	return script.Drift, err
}

// New resources are in the cloud from its beginning, and in the state only at its
// end: a provider that is killed in between leaves resources that no state knows.
func (p *simulation) Apply(ctx context.Context, o executor.RunOptions) error {
	err := p.run(Apply, func() error {
		m, state, err := p.desired(o)
		if err != nil {
			return err
		}
		made, err := p.make(m, state)
		if err != nil {
			return err
		}
		if err := p.runStep(ctx, Apply); err != nil {
			return errors.Join(err, p.breakOff(err, state, made))
		}
		state.Resources = append(state.Resources, made...)
		var surplus []Resource
		state.Resources, surplus = split(state.Resources, func(r Resource) bool { return slices.Contains(m.addresses, r.Address) })
		drift, err := p.drift(state)
		if err != nil {
			return err
		}
		state.Applied, state.Drift, state.Outputs = m.fingerprint(), drift, m.evaluate(p.selected, state)
		e := newEvaluation(m, state)
		for i := range state.Resources {
			state.Resources[i].Arguments = e.arguments(state.Resources[i].Address)
		}
		return errors.Join(p.store.save(p.selected, state), p.store.remove(surplus))
	})
	o.Report("Apply complete!\n", err)
	return err
}

func (p *simulation) make(m *module, state State) ([]Resource, error) {
	var made []Resource
	for _, address := range m.addresses {
		if state.id(address) != "" {
			continue
		}
		r, err := p.store.make(Resource{
			Address: address, ExternalName: p.selected,
			Namespace: p.workspace.Key.Namespace, Name: p.workspace.Key.Name, UID: p.workspace.UID,
		})
		if err != nil {
			return made, err
		}
		made = append(made, r)
	}
	return made, nil
}

// breakOff leaves what an apply leaves that did not succeed. One that fails by its script has made nothing, or half. One
// that was asked to stop saves what it made, as OpenTofu does.
func (p *simulation) breakOff(failure error, state State, made []Resource) error {
	kept := len(made)
	var failed failedError
	if errors.As(failure, &failed) {
		kept = 0
		if failed.partial {
			kept = (len(made) + 1) / 2
		}
	}
	if kept > 0 {
		state.Resources = append(state.Resources, made[:kept]...)
		if err := p.store.save(p.selected, state); err != nil {
			return err
		}
	}
	return p.store.remove(made[kept:])
}

// The outputs go first, so that one that fails or is stopped leaves none.
func (p *simulation) Destroy(ctx context.Context, o executor.RunOptions) error {
	err := p.run(Destroy, func() error {
		_, state, err := p.desired(o)
		if err != nil {
			return err
		}
		failure := p.runStep(ctx, Destroy)
		gone := len(state.Resources)
		if failure != nil {
			gone = 0
			var failed failedError
			if errors.As(failure, &failed) && failed.partial {
				gone = (len(state.Resources) + 1) / 2
			}
		}
		return errors.Join(failure,
			p.store.remove(state.Resources[:gone]), p.store.save(p.selected, State{Resources: state.Resources[gone:]}))
	})
	o.Report("Destroy complete!\n", err)
	return err
}

func (p *simulation) Resources(context.Context) ([]string, error) {
	state, err := p.store.state(p.selected)
	addresses := make([]string, 0, len(state.Resources))
	for _, r := range state.Resources {
		addresses = append(addresses, r.Address)
	}
	return addresses, err
}

func (p *simulation) Outputs(context.Context) ([]executor.Output, error) {
	state, err := p.store.state(p.selected)
	return state.Outputs, err
}

func (p *simulation) DeleteWorkspace(context.Context) error {
	name := p.selected
	if name == defaultWorkspace {
		return nil
	}
	p.selected = defaultWorkspace
	err := os.Remove(p.store.statePath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Checksum implements executor.Executor: a fingerprint of the files that the working directory would have.
func (p *simulation) Checksum(context.Context) (string, error) {
	sum := md5.New() //nolint:gosec // see the import
	for _, files := range []map[string][]byte{p.workspace.Files, p.workspace.EntrypointFiles} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(sum, "%q %q\n", name, files[name])
		}
	}
	fmt.Fprintf(sum, "%q %q\n", p.workspace.Remote, p.workspace.Entrypoint)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func split(all []Resource, wanted func(Resource) bool) (kept, rest []Resource) {
	for _, r := range all {
		if wanted(r) {
			kept = append(kept, r)
		} else {
			rest = append(rest, r)
		}
	}
	return kept, rest
}

// Script says how the operations of a Workspace go. The zero value lets everything succeed at once.
type Script struct {
	// Open only fails, with Stderr as it is: an error of the provider before Terraform runs, for example because it cannot fetch the module.
	Open   Step `json:"open,omitzero"`
	Select Step `json:"select,omitzero"`

	Init    Step `json:"init,omitzero"`
	Plan    Step `json:"plan,omitzero"`
	Apply   Step `json:"apply,omitzero"`
	Destroy Step `json:"destroy,omitzero"`

	// Drift is what the resources look like outside: whenever it is not what it was at the last apply, a plan differs. With Perpetual, each plan does.
	Drift string `json:"drift,omitempty"`

	// Version0 leaves observedGeneration out of the conditions of the Workspace, as provider-terraform v0.18 to v0.21 do.
	Version0 bool `json:"version0,omitempty"`
}

// Perpetual is the Drift of a module whose plan is never empty, for example because a provider returns another value at each read.
const Perpetual = "perpetual"

// Step says how one operation goes.
type Step struct {
	// Delay is how long the operation takes.
	Delay time.Duration `json:"delay,omitempty"`
	// Hang keeps the operation from ending until the script says otherwise.
	Hang bool `json:"hang,omitempty"`
	// Stderr makes the operation fail with this text.
	Stderr string `json:"stderr,omitempty"`
	// Times limits the failure to that many runs since the script was written; 0 means unlimited.
	Times int `json:"times,omitempty"`
	// While limits the failure to runs in which the module, its address or a variable has this text.
	While string `json:"while,omitempty"`
	// Partial lets an apply that fails make the first half of its resources, and a destroy remove the first half.
	Partial bool `json:"partial,omitempty"`
}

// failedError is a failure that a script asked for.
type failedError struct {
	error
	partial bool
}

func (e failedError) Unwrap() error { return e.error }

// failure is what the step makes of its run of that number, counted from 1.
func (s Step) failure(run int) error {
	if s.Stderr == "" || s.Times > 0 && run > s.Times {
		return nil
	}
	return failedError{executor.Failure(s.Stderr), s.Partial}
}

func (s Script) step(op Operation) Step {
	switch op {
	case open:
		return s.Open
	case selection:
		return s.Select
	case Init:
		return s.Init
	case Plan:
		return s.Plan
	case Apply:
		return s.Apply
	case Destroy:
		return s.Destroy
	}
	return Step{}
}

// SetScript gives a Workspace its script, with effect on the operation that runs, too. The namespace of a Workspace in the
// cluster scope is empty.
func (w *Store) SetScript(key types.NamespacedName, s Script) error {
	return w.writeScript(scriptName(key), s)
}

// SetDefaultScript gives a script to every Workspace that has none of its own.
func (w *Store) SetDefaultScript(s Script) error { return w.writeScript(defaultScript, s) }

const defaultScript = "default.json"

func scriptName(key types.NamespacedName) string { return key.Namespace + "_" + key.Name + ".json" }

func (w *Store) writeScript(name string, s Script) error {
	if err := os.MkdirAll(w.scripts(), 0o700); err != nil {
		return err
	}
	return write(filepath.Join(w.scripts(), name), scriptFile{Script: s, ID: string(uuid.NewUUID())})
}

// scriptFile is a script as it is written. The ID distinguishes two writes of the same content.
type scriptFile struct {
	Script
	ID string `json:"id"`
}

// script reads a Workspace's script, and returns what distinguishes it from the same one written again.
func (w *Store) script(key types.NamespacedName) (Script, string, error) {
	for _, name := range []string{scriptName(key), defaultScript} {
		var s scriptFile
		switch err := read(filepath.Join(w.scripts(), name), &s); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return s.Script, "", fmt.Errorf("cannot read the script %s: %w", name, err)
		}
		return s.Script, s.ID, nil
	}
	return Script{}, "", nil
}

// countRun returns how many times an operation was run since the script was written, this run included. The count
// survives the provider: a script that fails once fails once.
func (w *Store) countRun(key types.NamespacedName, op Operation, written string) (int, error) {
	type count struct {
		Written string
		Runs    int
	}
	path := filepath.Join(w.runs(), strings.TrimSuffix(scriptName(key), ".json")+"_"+string(op)+".json")
	var c count
	if err := read(path, &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if c.Written != written {
		c = count{Written: written}
	}
	c.Runs++
	return c.Runs, write(path, c)
}

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
	// Arguments are those of the last apply, as JSON.
	Arguments map[string]string `json:"arguments,omitempty"`
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
	return process.WriteFile(path, data)
}

// Operation is what an Executor was asked for.
type Operation string

// The operations in the journal.
const (
	Init    Operation = "init"
	Plan    Operation = "plan"
	Apply   Operation = "apply"
	Destroy Operation = "destroy"

	open      Operation = "open" // open and selection are not in the journal.
	selection Operation = "select"
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
