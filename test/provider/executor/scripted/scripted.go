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
	"context"
	"crypto/md5" //nolint:gosec // a fingerprint, and the one provider-terraform shows in status
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/test/provider/executor"
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
	return &simulation{store: f.environment, workspace: m}, nil
}

// Version0 reports whether the provider treats a Workspace as versions before v1 do.
func (f factory) Version0(key types.NamespacedName) bool {
	script, _, err := f.environment.script(key)
	return err == nil && script.Version0
}

// There are no working directories.
func (factory) Forget(types.UID) error { return nil }

// simulation is the Executor of one Workspace.
type simulation struct {
	store     *Store
	workspace executor.Module
	// selected is the Terraform workspace; empty before SelectWorkspace.
	selected string
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
		step := script.step(op)
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
func (p *simulation) SelectWorkspace(_ context.Context, name string) error {
	p.selected = name
	return nil
}

// desired is the module with its variables, and the state that it is held against.
func (p *simulation) desired(o executor.RunOptions) (*module, State, error) {
	m, err := parse(p.workspace)
	if err != nil {
		return nil, State{}, err
	}
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
		script, _, err := p.store.script(p.workspace.Key)
		differs = state.Applied != m.fingerprint() || state.Drift != script.Drift
		return err
	})
	return differs, err
}

// New resources are in the cloud from its beginning, and in the state only at its
// end: a provider that is killed in between leaves resources that no state knows.
func (p *simulation) Apply(ctx context.Context, o executor.RunOptions) error {
	return p.run(Apply, func() error {
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
		script, _, err := p.store.script(p.workspace.Key)
		if err != nil {
			return err
		}
		state.Resources = append(state.Resources, made...)
		var surplus []Resource
		state.Resources, surplus = split(state.Resources, func(r Resource) bool { return slices.Contains(m.addresses, r.Address) })
		state.Applied, state.Drift, state.Outputs = m.fingerprint(), script.Drift, m.evaluate(p.selected, state)
		return errors.Join(p.store.save(p.selected, state), p.store.remove(surplus))
	})
}

// make makes the resources that the state does not have.
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
	return p.run(Destroy, func() error {
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
