// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

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

	"github.com/capt-provider/capt/test/provider/executor"
)

const defaultWorkspace = "default"

// Init implements executor.Executor.
func (p *simulation) Init(ctx context.Context, _ []string) error {
	return p.run(Init, func() error {
		if _, err := parse(p.workspace); err != nil {
			return err
		}
		return p.runStep(ctx, Init)
	})
}

// SelectWorkspace implements executor.Executor. The state is made by the first apply.
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

// Plan implements executor.Executor.
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

// Apply implements executor.Executor. New resources are in the cloud from its beginning, and in the state only at its
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

// Destroy implements executor.Executor. The outputs go first, so that one that fails or is stopped leaves none.
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

// Resources implements executor.Executor.
func (p *simulation) Resources(context.Context) ([]string, error) {
	state, err := p.store.state(p.selected)
	addresses := make([]string, 0, len(state.Resources))
	for _, r := range state.Resources {
		addresses = append(addresses, r.Address)
	}
	return addresses, err
}

// Outputs implements executor.Executor.
func (p *simulation) Outputs(context.Context) ([]executor.Output, error) {
	state, err := p.store.state(p.selected)
	return state.Outputs, err
}

// DeleteWorkspace implements executor.Executor.
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
