// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/test/provider/executor"
)

// world is what Terraform would find outside: states by Terraform workspace, kept while Executors come and go.
type world struct {
	states map[string]*state

	// fail makes an operation fail; an apply fails half way, with a resource in the state.
	fail map[operation]error
	// during is called inside of each operation.
	during func(operation)

	initArgs  []string
	forgotten []types.UID
}

type state struct {
	applied   string
	resources []string
	outputs   []executor.Output
}

func newWorld() *world {
	return &world{states: map[string]*state{"default": {}}, fail: map[operation]error{}, during: func(operation) {}}
}

func (w *world) Open(_ context.Context, m executor.Module) (executor.Executor, error) {
	return &pretender{world: w, module: m}, nil
}

func (w *world) Forget(uid types.UID) error {
	w.forgotten = append(w.forgotten, uid)
	return nil
}

func (w *world) run(op operation) error {
	w.during(op)
	return w.fail[op]
}

// pretender is an Executor whose module is its own text: it applies the text, and outputs it.
type pretender struct {
	*world
	module  executor.Module
	current string
}

func (p *pretender) desired(o executor.RunOptions) string {
	return fmt.Sprintf("%s%v%v", p.module.Files["main.tf"], o.Vars, o.VarFiles)
}

func (p *pretender) Init(_ context.Context, args []string) error {
	p.initArgs = args
	return p.run(operationInit)
}

func (p *pretender) SelectWorkspace(_ context.Context, name string) error {
	p.current = name
	if p.states[name] == nil {
		p.states[name] = &state{}
	}
	return nil
}

func (p *pretender) Plan(_ context.Context, o executor.RunOptions) (bool, error) {
	return p.states[p.current].applied != p.desired(o), p.run(operationPlan)
}

func (p *pretender) Apply(_ context.Context, o executor.RunOptions) error {
	if err := p.run(operationApply); err != nil {
		return err
	}
	s := p.states[p.current]
	s.applied, s.resources = p.desired(o), []string{"terraform_data.a"}
	s.outputs = []executor.Output{
		{Name: "list", Value: []any{"a", 1.0}},
		{Name: "text", String: true, Value: string(p.module.Files["main.tf"])},
		{Name: "token", String: true, Sensitive: true, Value: "hidden"},
	}
	return nil
}

func (p *pretender) Destroy(context.Context, executor.RunOptions) error {
	if err := p.run(operationDestroy); err != nil {
		return err
	}
	*p.states[p.current] = state{}
	return nil
}

func (p *pretender) Resources(context.Context) ([]string, error) {
	return slices.Clone(p.states[p.current].resources), nil
}

func (p *pretender) Outputs(context.Context) ([]executor.Output, error) {
	return slices.Clone(p.states[p.current].outputs), nil
}

func (p *pretender) DeleteWorkspace(ctx context.Context) error {
	delete(p.states, p.current)
	return p.SelectWorkspace(ctx, "default")
}

func (p *pretender) Checksum(context.Context) (string, error) {
	return fmt.Sprintf("%x", p.module.Files["main.tf"]), nil
}

// workspaces lists the Terraform workspaces there are.
func (w *world) workspaces() []string { return slices.Sorted(maps.Keys(w.states)) }
