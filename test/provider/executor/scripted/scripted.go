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
	"fmt"
	"os"
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

// Open implements executor.Factory.
func (f factory) Open(_ context.Context, m executor.Module) (executor.Executor, error) {
	return &simulation{store: f.environment, workspace: m}, nil
}

// Version0 reports whether the provider treats a Workspace as versions before v1 do.
func (f factory) Version0(key types.NamespacedName) bool {
	script, _, err := f.environment.script(key)
	return err == nil && script.Version0
}

// Forget implements executor.Factory. There are no working directories.
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
