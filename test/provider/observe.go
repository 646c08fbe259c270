// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capt-provider/capt/test/provider/api/managed"
	"github.com/capt-provider/capt/test/provider/executor"
)

// connect prepares the working directory and selects the Terraform workspace. A working directory that did not change
// since the last observation is not initialized again.
func (n *round) connect(context.Context) *outcome {
	if err := n.open(n.external); err != nil {
		return failed(fmt.Errorf("connect failed: %w", err))
	}
	return nil
}

func (n *round) open(ctx context.Context) error {
	config, err := n.scope.providerConfig(ctx, n.reader, n.workspace)
	if err != nil {
		return fmt.Errorf("failed to resolve provider config: %w", err)
	}
	if err := n.scope.trackUsage(ctx, n.reader, n.client, n.workspace); err != nil {
		return fmt.Errorf("failed to resolve provider config: cannot track provider config usage: %w", err)
	}
	module, err := inputs{n.reader}.module(ctx, n.workspace, n.scope, config)
	if err != nil {
		return err
	}
	if n.exec, err = n.options.Executors.Open(ctx, module); err != nil {
		return err
	}
	if err := n.initialize(ctx, config); err != nil {
		return err
	}
	if err := n.exec.SelectWorkspace(ctx, n.object().GetAnnotations()[annotationExternalName]); err != nil {
		return fmt.Errorf("cannot select Terraform workspace: %w", err)
	}
	return nil
}

func (n *round) initialize(ctx context.Context, config *managed.ProviderConfigSpec) error {
	if known := n.status().AtProvider.Checksum; known != "" {
		checksum, err := n.exec.Checksum(ctx)
		if err != nil {
			return fmt.Errorf("cannot calculate workspace checksum: %w", err)
		}
		if checksum == known {
			return nil
		}
	}
	var args []string
	if config.BackendFile != nil {
		args = append(args, "-backend-config="+fileBackend)
	}
	n.count(operationInit)
	if err := n.exec.Init(ctx, append(args, n.module().InitArgs...)); err != nil {
		return fmt.Errorf("cannot initialize Terraform configuration: %w", err)
	}
	return nil
}

// observe plans and reads the state. Without anything to change, the Workspace is available.
func (n *round) observe(context.Context) *outcome {
	if err := n.look(n.external); err != nil {
		return failed(fmt.Errorf("observe failed: %w", err))
	}
	return nil
}

func (n *round) look(ctx context.Context) error {
	differs, err := n.plan(ctx)
	if err != nil {
		return err
	}
	resources, err := n.exec.Resources(ctx)
	if err != nil {
		return fmt.Errorf("cannot list Terraform resources: %w", err)
	}
	if isDeleted(n.object()) && len(resources) == 0 {
		if err := n.exec.DeleteWorkspace(ctx); err != nil {
			return fmt.Errorf("cannot delete Terraform workspace: %w", err)
		}
	}
	outputs, err := n.outputs(ctx)
	if err != nil {
		return err
	}
	checksum, err := n.exec.Checksum(ctx)
	if err != nil {
		return fmt.Errorf("cannot calculate workspace checksum: %w", err)
	}
	n.status().AtProvider.Checksum = checksum
	if !differs {
		n.mark(available())
	}
	n.seen = observation{exists: len(resources)+len(outputs) > 0, differs: differs, outputs: outputs}
	return nil
}

// plan reports whether there is anything to change. A module that is being deleted need not have a plan any more: its
// state decides.
func (n *round) plan(ctx context.Context) (bool, error) {
	options, err := inputs{n.reader}.runOptions(ctx, n.workspace, n.module().PlanArgs)
	if err != nil {
		return false, err
	}
	n.count(operationPlan)
	differs, err := n.exec.Plan(ctx, options)
	switch {
	case err != nil && isDeleted(n.object()):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot diff (i.e. plan) Terraform configuration: %w", err)
	}
	return differs, nil
}

// outputs reads the outputs and puts the ones that are not sensitive into the status. The checksum goes with the old
// ones: what changes outputs changed the working directory.
func (n *round) outputs(ctx context.Context) ([]executor.Output, error) {
	outputs, err := n.exec.Outputs(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list Terraform outputs: %w", err)
	}
	shown := make(map[string]extensionsv1.JSON, len(outputs))
	for _, o := range outputs {
		if o.Sensitive {
			continue
		}
		if raw, err := json.Marshal(o.Value); err == nil {
			shown[o.Name] = extensionsv1.JSON{Raw: raw}
		}
	}
	n.status().AtProvider = managed.WorkspaceObservation{Outputs: shown}
	return outputs, nil
}

// requireExistence is the error of a Workspace that may look but finds nothing.
func (n *round) requireExistence(context.Context) *outcome {
	if !n.seen.exists && n.policy().observeOnly() {
		return failed(errors.New("observe failed: external resource does not exist"))
	}
	return nil
}

// awaitCreation does not believe in absence shortly after a create.
func (n *round) awaitCreation(context.Context) *outcome {
	created := stamped(n.object(), annotationCreateSucceeded)
	if n.seen.exists || created.IsZero() || time.Since(created) >= n.options.CreationGracePeriod {
		return nil
	}
	return &outcome{keepStatus: true, next: nextBackoff}
}

func (n *round) count(op operation) {
	n.options.Counters.count(n.object(), n.scope.gvk().Group, op)
}
