// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider is a controller for Workspaces that behaves like Crossplane's provider-terraform v1.1, for tests
// and for trying CAPT out without a cluster that has Crossplane. It serves both scopes, tf.upbound.io and tf.m.upbound.io.
//
// What a Workspace shows at each moment of its life, and in which order, is the contract: conditions, annotations,
// the finalizer, the connection Secret. The real provider can take its place in every test. Most of it comes from
// crossplane-runtime's managed reconciler itself; this package adds what provider-terraform observes and applies.
package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capt-provider/capt/test/provider/api"
	"github.com/capt-provider/capt/test/provider/executor"
)

// Options configure the controllers.
type Options struct {
	// Executors carry the Workspaces out.
	Executors executor.Factory
	// PollInterval is how often a Workspace at rest is planned again.
	PollInterval time.Duration
	// Timeout is how long all commands of one reconcile may take together.
	Timeout time.Duration
	// MaxConcurrentReconciles is how many Workspaces of each scope are worked on at a time.
	MaxConcurrentReconciles int
	// CreationGracePeriod is how long after a create the absence of resources and outputs is not believed: nothing
	// happens with such a Workspace meanwhile, its deletion included. Without it, a Workspace deleted soon after its creation is gone at once.
	CreationGracePeriod time.Duration
}

// SetupWithManager adds the Workspaces to the manager's scheme and one controller a scope to the manager. The manager's client must not
// cache Secrets and ConfigMaps: they are few, and a cache may be stale.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := api.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("provider: cannot add Workspaces to the scheme: %w", err)
	}
	if scripts, ok := o.Executors.(interface {
		Version0(workspace types.NamespacedName) bool
	}); ok {
		mgr = version0{mgr, scripts.Version0}
	}
	return errors.Join(
		setupScope(mgr, o, &api.ClusterWorkspace{}, api.ClusterWorkspaceKind),
		setupScope(mgr, o, &api.NamespacedWorkspace{}, api.NamespacedWorkspaceKind),
	)
}

func setupScope(mgr ctrl.Manager, o Options, kind client.Object, gvk schema.GroupVersionKind) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("workspace-"+gvk.Group).
		For(kind, builder.WithPredicates(resource.DesiredStateChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.MaxConcurrentReconciles,
			RateLimiter:             ratelimiter.NewController(),
		}).
		Complete(managed.NewReconciler(mgr, resource.ManagedKind(gvk),
			managed.WithTypedExternalConnector(&connector{client: mgr.GetClient(), options: o}),
			managed.WithManagementPolicies(),
			managed.WithCreationGracePeriod(o.CreationGracePeriod),
			managed.WithPollInterval(o.PollInterval),
			managed.WithTimeout(o.Timeout),
		))
}

// version0 is a manager whose client writes the status of some Workspaces as a provider before v1 did: without the generation in
// conditions.
type version0 struct {
	ctrl.Manager
	is func(types.NamespacedName) bool
}

// GetClient returns the client that the reconciler uses.
func (m version0) GetClient() client.Client { return version0Client{m.Manager.GetClient(), m.is} }

type version0Client struct {
	client.Client
	is func(types.NamespacedName) bool
}

func (c version0Client) Status() client.SubResourceWriter {
	return version0Status{c.Client.Status(), c.is}
}

type version0Status struct {
	client.SubResourceWriter
	is func(types.NamespacedName) bool
}

func (s version0Status) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	if s.is(client.ObjectKeyFromObject(o)) {
		var status *api.Status
		switch w := o.(type) {
		case *api.ClusterWorkspace:
			status = &w.Status
		case *api.NamespacedWorkspace:
			status = &w.Status
		}
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration = 0
		}
	}
	return s.SubResourceWriter.Update(ctx, o, options...)
}

// runs is shared by both controllers: a registry takes a name once.
var runs = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capt_test_provider_runs_total",
	Help: "Terraform commands started for a Workspace, by operation: init, plan, apply, destroy.",
}, []string{"operation", "group", "namespace", "name"})

func init() { metrics.Registry.MustRegister(runs) }

const (
	operationInit    = "init"
	operationPlan    = "plan"
	operationApply   = "apply"
	operationDestroy = "destroy"
)

func count(w workspace, operation string) {
	group := api.NamespacedWorkspaceKind.Group
	if w.GetNamespace() == "" {
		group = api.ClusterWorkspaceKind.Group
	}
	runs.WithLabelValues(operation, group, w.GetNamespace(), w.GetName()).Inc()
}

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
