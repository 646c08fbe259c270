// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api"
	"github.com/capt-provider/capt/test/provider/executor"
)

// workspace is a Workspace of either scope.
type workspace interface {
	resource.Managed
	Parameters() *api.Parameters
	Observation() *api.Observation
}

// connector prepares the working directories of one scope.
type connector struct {
	client  client.Client
	options Options
}

// Connect prepares the working directory and selects the Terraform workspace. A working directory that did not change since the last
// observation is not initialized again.
func (c *connector) Connect(ctx context.Context, w workspace) (managed.TypedExternalClient[workspace], error) {
	config, err := c.useProviderConfig(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve provider config: %w", err)
	}
	e := &external{inputs: inputs{c.client, w}, options: c.options}
	module, err := e.module(ctx, config)
	if err != nil {
		return nil, err
	}
	if e.exec, err = c.options.Executors.Open(ctx, module); err != nil {
		return nil, err
	}
	if err := c.initialize(ctx, e.exec, w, config); err != nil {
		return nil, err
	}
	if err := e.exec.SelectWorkspace(ctx, meta.GetExternalName(w)); err != nil {
		return nil, fmt.Errorf("cannot select Terraform workspace: %w", err)
	}
	return e, nil
}

func (c *connector) initialize(ctx context.Context, exec executor.Executor, w workspace, config *providerConfig) error {
	if known := w.Observation().Checksum; known != "" {
		checksum, err := exec.Checksum(ctx)
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
	count(w, operationInit)
	if err := exec.Init(ctx, append(args, w.Parameters().InitArgs...)); err != nil {
		return fmt.Errorf("cannot initialize Terraform configuration: %w", err)
	}
	return nil
}
