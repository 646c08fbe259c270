// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capt-provider/capt/test/provider/api"
	"github.com/capt-provider/capt/test/provider/executor"
)

// The defaults of provider-terraform's flags.
const (
	DefaultPollInterval = 10 * time.Minute
	DefaultTimeout      = 20 * time.Minute
)

// Options configure the controllers. The zero value of each field but Executors means the real provider's
// default.
type Options struct {
	// Executors carry the Workspaces out. Required.
	Executors executor.Factory

	// PollInterval is how often a Workspace at rest is planned again. Default: 10 min.
	PollInterval time.Duration

	// Timeout is how long all commands of one reconcile may take together. Default: 20 min.
	Timeout time.Duration

	// MaxConcurrentReconciles is how many Workspaces of each scope are worked on at a time. Default: 1.
	MaxConcurrentReconciles int

	// CreationGracePeriod is how long after a create the absence of resources and outputs is not believed: nothing
	// happens with such a Workspace meanwhile, its deletion included. The real provider has 30 s. Default: none, so
	// that a Workspace deleted soon after its creation is gone at once.
	CreationGracePeriod time.Duration
}

func (o *Options) complete() error {
	if o.Executors == nil {
		return errors.New("provider: Options.Executors is required")
	}
	if o.PollInterval == 0 {
		o.PollInterval = DefaultPollInterval
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxConcurrentReconciles == 0 {
		o.MaxConcurrentReconciles = 1
	}
	return nil
}

// SetupWithManager adds the Workspaces to the manager's scheme and one controller a scope to the manager. The manager's client must not
// cache Secrets and ConfigMaps: they are few, and a cache may be stale.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
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
