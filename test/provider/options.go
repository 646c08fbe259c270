// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1beta1 "github.com/capt-provider/capt/test/provider/api/cluster/v1beta1"
	namespacedv1beta1 "github.com/capt-provider/capt/test/provider/api/namespaced/v1beta1"
	"github.com/capt-provider/capt/test/provider/executor"
)

// The defaults of provider-terraform's flags.
const (
	DefaultPollInterval = 10 * time.Minute
	DefaultTimeout      = 20 * time.Minute

	minBackoff = time.Second
	maxBackoff = time.Minute
)

// Scope is one of the two kinds of Workspace.
type Scope string

// The scopes.
const (
	// ScopeCluster is tf.upbound.io/v1beta1.
	ScopeCluster Scope = "Cluster"
	// ScopeNamespaced is tf.m.upbound.io/v1beta1.
	ScopeNamespaced Scope = "Namespaced"
)

// Options configure the controllers. The zero value of each field but Executors means the real provider's
// default.
type Options struct {
	// Executors carry the Workspaces out. Required.
	Executors executor.Factory

	// Counters count what is run. Default: unused counters.
	Counters *Counters

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

	// Scopes to serve; the CRDs of each have to be installed. Default: both.
	Scopes []Scope
}

func (o *Options) complete() error {
	if o.Executors == nil {
		return errors.New("provider: Options.Executors is required")
	}
	if o.Counters == nil {
		o.Counters = NewCounters()
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
	if len(o.Scopes) == 0 {
		o.Scopes = []Scope{ScopeCluster, ScopeNamespaced}
	}
	return nil
}

// SetupWithManager adds the API groups to the manager's scheme and one controller a scope to the manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	if err := errors.Join(clusterv1beta1.AddToScheme(mgr.GetScheme()), namespacedv1beta1.AddToScheme(mgr.GetScheme())); err != nil {
		return fmt.Errorf("provider: cannot add the API groups to the scheme: %w", err)
	}
	for _, name := range o.Scopes {
		s, err := newScope(name)
		if err != nil {
			return err
		}
		if err := setupScope(mgr, s, o); err != nil {
			return fmt.Errorf("provider: cannot set up the controller of %s Workspaces: %w", name, err)
		}
	}
	return nil
}

func setupScope(mgr ctrl.Manager, s scope, o Options) error {
	sameNameIsFine := true
	return ctrl.NewControllerManagedBy(mgr).
		Named("workspace-"+s.gvk().Group).
		For(s.newObject(), builder.WithPredicates(desiredStateChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.MaxConcurrentReconciles,
			RateLimiter:             newBackoff(),
			SkipNameValidation:      &sameNameIsFine,
		}).
		Complete(&reconciler{
			client: mgr.GetClient(), reader: mgr.GetAPIReader(),
			scope: s, options: o, backoff: newBackoff(),
		})
}

// newBackoff makes waits of 1, 2, 4 and so on up to 60 s. The controller's queue and the reconciler each need one: the
// queue forgets about failures whenever the reconciler asks for a wait of its own.
func newBackoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff)
}

func newScope(name Scope) (scope, error) {
	switch name {
	case ScopeCluster:
		return clusterScope{}, nil
	case ScopeNamespaced:
		return namespacedScope{}, nil
	default:
		return nil, fmt.Errorf("provider: unknown scope %q", name)
	}
}
