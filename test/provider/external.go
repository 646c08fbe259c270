// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"fmt"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capt-provider/capt/test/provider/api"
	"github.com/capt-provider/capt/test/provider/executor"
)

// external is the Terraform state of one Workspace, during one reconcile.
type external struct {
	inputs

	options Options
	exec    executor.Executor
}

// Observe plans and reads the state. Without anything to change, the Workspace is available.
func (e *external) Observe(ctx context.Context, w workspace) (managed.ExternalObservation, error) {
	none := managed.ExternalObservation{}
	differs, err := e.plan(ctx)
	if err != nil {
		return none, err
	}
	resources, err := e.exec.Resources(ctx)
	if err != nil {
		return none, fmt.Errorf("cannot list Terraform resources: %w", err)
	}
	if meta.WasDeleted(w) && len(resources) == 0 {
		if err := e.exec.DeleteWorkspace(ctx); err != nil {
			return none, fmt.Errorf("cannot delete Terraform workspace: %w", err)
		}
	}
	details, err := e.outputs(ctx)
	if err != nil {
		return none, err
	}
	exists := len(resources)+len(details) > 0
	if w.Observation().Checksum, err = e.exec.Checksum(ctx); err != nil {
		return none, fmt.Errorf("cannot calculate workspace checksum: %w", err)
	}
	if !differs {
		w.SetConditions(xpv1.Available())
	}
	if meta.WasDeleted(w) && !exists {
		if err := e.options.Executors.Forget(w.GetUID()); err != nil {
			return none, err
		}
	}
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: !differs, ConnectionDetails: details}, nil
}

// plan reports whether there is anything to change. A module that is being deleted need not have a plan any more: its
// state decides.
func (e *external) plan(ctx context.Context) (bool, error) {
	options, err := e.runOptions(ctx, e.Parameters().PlanArgs)
	if err != nil {
		return false, err
	}
	count(e.workspace, operationPlan)
	differs, err := e.exec.Plan(ctx, options)
	switch {
	case err != nil && meta.WasDeleted(e.workspace):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot diff (i.e. plan) Terraform configuration: %w", err)
	}
	return differs, nil
}

// Create applies for the first time. Outputs are shown after the next observation: the reconciler writes annotations next, and
// takes the status from the answer.
func (e *external) Create(ctx context.Context, _ workspace) (managed.ExternalCreation, error) {
	details, err := e.apply(ctx)
	return managed.ExternalCreation{ConnectionDetails: details}, err
}

// Update applies again. Until it has ended, the Workspace shows what it showed before.
func (e *external) Update(ctx context.Context, w workspace) (managed.ExternalUpdate, error) {
	details, err := e.apply(ctx)
	if err == nil {
		w.SetConditions(xpv1.Available())
	}
	return managed.ExternalUpdate{ConnectionDetails: details}, err
}

func (e *external) apply(ctx context.Context) (managed.ConnectionDetails, error) {
	options, err := e.runOptions(ctx, e.Parameters().ApplyArgs)
	if err != nil {
		return nil, err
	}
	count(e.workspace, operationApply)
	if err := e.exec.Apply(ctx, options); err != nil {
		return nil, fmt.Errorf("cannot apply Terraform configuration: %w", err)
	}
	return e.outputs(ctx)
}

// Delete removes the resources of a deleted Workspace. The next reconcile verifies that they are gone.
func (e *external) Delete(ctx context.Context, _ workspace) (managed.ExternalDelete, error) {
	options, err := e.runOptions(ctx, e.Parameters().DestroyArgs)
	if err != nil {
		return managed.ExternalDelete{}, err
	}
	count(e.workspace, operationDestroy)
	if err := e.exec.Destroy(ctx, options); err != nil {
		return managed.ExternalDelete{}, fmt.Errorf("cannot destroy Terraform configuration: %w", err)
	}
	return managed.ExternalDelete{}, nil
}

// Disconnect has nothing to do: an executor runs only while it is called.
func (e *external) Disconnect(context.Context) error { return nil }

// outputs reads the outputs and puts the ones that are not sensitive into the status. The checksum goes with the old
// ones: what changes outputs changed the working directory. All outputs are connection details: strings as they are and
// everything else as JSON.
func (e *external) outputs(ctx context.Context) (managed.ConnectionDetails, error) {
	outputs, err := e.exec.Outputs(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list Terraform outputs: %w", err)
	}
	shown, details := map[string]extensionsv1.JSON{}, managed.ConnectionDetails{}
	for _, o := range outputs {
		raw, err := json.Marshal(o.Value)
		if err != nil {
			return nil, fmt.Errorf("cannot encode Terraform output %s: %w", o.Name, err)
		}
		if !o.Sensitive {
			shown[o.Name] = extensionsv1.JSON{Raw: raw}
		}
		details[o.Name] = raw
		if text, ok := o.Value.(string); ok && o.String {
			details[o.Name] = []byte(text)
		}
	}
	*e.Observation() = api.Observation{Outputs: shown}
	return details, nil
}
