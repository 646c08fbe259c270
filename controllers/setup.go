// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers wires CAPT's controllers to a manager.
package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/captcluster"
	"github.com/capt-provider/capt/controllers/captcontrolplane"
	"github.com/capt-provider/capt/controllers/captmachinepool"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/planrequest"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
)

// Scheme returns a scheme with every typed kind that CAPT reads or writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	utilruntime.Must(infrav1.AddToScheme(scheme))
	utilruntime.Must(controlplanev1.AddToScheme(scheme))
	return scheme
}

// Options of all controllers.
type Options struct {
	// WatchFilterValue restricts CAPT to objects with that value of Cluster API's watch label.
	WatchFilterValue string
	// Namespace is the only namespace that is watched; empty means all.
	Namespace string
	// Concurrency is the number of objects of a kind that are reconciled at the same time.
	Concurrency int
	// StatePrefix is part of the names of the Terraform states of new Workspaces, so that management clusters can share a backend.
	StatePrefix string
	// DefaultRollout is the policy of WorkspaceTemplates without spec.rollout; the zero value is none.
	DefaultRollout infrav1.WorkspaceTemplateRollout
	// Tokens creates the tokens in kubeconfigs; nil when this manager creates none.
	Tokens kubeconfig.Tokens
	// PlanLogs reads what Terraform would change; nil when this manager does not read it.
	PlanLogs previews.PlanReader
	// PlanCheckDelay is until when Workspaces whose last run was an apply are planned once more; zero means never.
	PlanCheckDelay time.Duration
	// ProveNewWorkspaces holds each new Workspace until a plan shows that its state exists, and that Terraform would change no resource.
	ProveNewWorkspaces bool
	// HealthProbes makes CAPT probe the API servers of control planes.
	HealthProbes bool
	// Recovery makes CAPT recover from failures of Terraform.
	Recovery bool
	// SkipCRDMigrationPhases are the phases of Cluster API's CRD migrator that are skipped.
	SkipCRDMigrationPhases []crdmigrator.Phase
}

// ParsePhases returns the phases that the flag --skip-crd-migration-phases names. The CRD migrator would refuse others only when it
// starts.
func ParsePhases(names []string) ([]crdmigrator.Phase, error) {
	phases := make([]crdmigrator.Phase, 0, len(names))
	for _, name := range names {
		known := []crdmigrator.Phase{crdmigrator.StorageVersionMigrationPhase, crdmigrator.CleanupManagedFieldsPhase}
		phase := crdmigrator.Phase(name)
		if !slices.Contains(known, phase) {
			return nil, fmt.Errorf("%q is not a phase; valid values are %s and %s", name, known[0], known[1])
		}
		phases = append(phases, phase)
	}
	return phases, nil
}

// watchFilterOf is WatchFilterValue, except for templates and PlanRequests: all managers share them, and compute the same status.
func (o Options) watchFilterOf(object client.Object) string {
	switch object.(type) {
	case *infrav1.WorkspaceTemplate, *infrav1.PlanRequest:
		return ""
	}
	return o.WatchFilterValue
}

// The metrics server authenticates and authorizes its clients with these requests.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// SetupWithManager adds all controllers to a manager, and their metrics to the registry of controller-runtime, which panics if they are
// already there.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	workspaces := &workspace.Client{Client: mgr.GetClient(), Uncached: mgr.GetAPIReader()}
	gate, err := adoption.Setup(ctx, mgr, adoption.Options{
		Workspaces: workspaces, Namespace: options.Namespace, SkipPhases: options.SkipCRDMigrationPhases, Metrics: ctrlmetrics.Registry,
	})
	if err != nil {
		return err
	}
	reconciles := metrics.NewReconciles(ctrlmetrics.Registry)
	secrets := engine.NewSecrets(mgr.GetCache(), mgr.GetAPIReader())
	engineFor := func(name string) engine.Engine {
		return engine.Engine{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder(name), State: &engine.StateCache{}, WatchFilterValue: options.WatchFilterValue,
			Uncached: mgr.GetAPIReader(), Secrets: secrets, Gate: gate, Metrics: reconciles,
		}
	}
	control := controller.Options{MaxConcurrentReconciles: options.Concurrency}
	if err := indexClusters(ctx, mgr); err != nil {
		return err
	}
	metrics.NewObjects(ctrlmetrics.Registry, metrics.ObjectsOptions{Cache: mgr.GetClient(), Elected: mgr.Elected(), Watches: func(object client.Object) bool {
		return engine.Engine{WatchFilterValue: options.watchFilterOf(object)}.Watches(object)
	}})
	if err := setupTemplates(ctx, mgr, engineFor("workspacetemplate-controller"), options, control); err != nil {
		return err
	}
	if err := setupApplies(ctx, mgr, engineFor("workspacetemplateapply-controller"), workspaces, options, control); err != nil {
		return err
	}
	if err := setupPlanRequests(mgr, engineFor("planrequest-controller"), options, control); err != nil {
		return err
	}
	var recoveries *metrics.Recovery
	if options.Recovery {
		recoveries = metrics.NewRecovery(ctrlmetrics.Registry)
	}
	ownerFor := func(name string) owner.Reconciler {
		return owner.Reconciler{Engine: engineFor(name), Namespace: options.Namespace, Recovery: recoveries}
	}
	clusters := &captcluster.Reconciler{Reconciler: ownerFor("captcluster-controller")}
	if err := clusters.SetupWithManager(ctx, mgr, control); err != nil {
		return fmt.Errorf("setting up CAPTClusters: %w", err)
	}
	controlPlanes := &captcontrolplane.Reconciler{
		Reconciler: ownerFor("captcontrolplane-controller"), Cache: mgr.GetCache(), Tokens: options.Tokens, Workspaces: workspaces,
		FargateMetrics: metrics.NewFargate(ctrlmetrics.Registry), Kubeconfigs: metrics.NewKubeconfigs(ctrlmetrics.Registry),
	}
	if options.HealthProbes {
		if err := controlPlanes.AddProbes(mgr, metrics.NewHealth(ctrlmetrics.Registry)); err != nil {
			return fmt.Errorf("setting up health probes: %w", err)
		}
	}
	if err := controlPlanes.SetupWithManager(ctx, mgr, control); err != nil {
		return fmt.Errorf("setting up CAPTControlPlanes: %w", err)
	}
	return setupMachinePools(ctx, mgr, ownerFor("captmachinepool-controller"), options.HealthProbes, control)
}

// setupMachinePools adds the controller of CAPTMachinePools, and the watches of nodes if the manager connects to clusters.
func setupMachinePools(ctx context.Context, mgr ctrl.Manager, r owner.Reconciler, connect bool, control controller.Options) error {
	pools := &captmachinepool.Reconciler{Reconciler: r}
	if connect {
		pools.Nodes = nodes.NewWatcher()
		if err := mgr.Add(pools.Nodes); err != nil {
			return fmt.Errorf("setting up the watches of nodes: %w", err)
		}
	}
	if err := pools.SetupWithManager(ctx, mgr, control); err != nil {
		return fmt.Errorf("setting up CAPTMachinePools: %w", err)
	}
	return nil
}

func setupApplies(ctx context.Context, mgr ctrl.Manager, e engine.Engine, workspaces *workspace.Client, options Options, control controller.Options) error {
	applies := &workspacetemplateapply.Reconciler{
		Engine:      e,
		Workspaces:  workspaces,
		Clock:       clock.RealClock{},
		RateLimiter: serialize.NewRateLimiter(),
		Unclaimed:   metrics.NewUnclaimed(ctrlmetrics.Registry),
		Namespace:   options.Namespace, StatePrefix: options.StatePrefix, DefaultRollout: options.DefaultRollout, Plans: options.PlanLogs,
		PlanMetrics: metrics.NewPlans(ctrlmetrics.Registry), PlanCheckDelay: options.PlanCheckDelay, ProveNew: options.ProveNewWorkspaces,
	}
	metrics.NewPreviews(ctrlmetrics.Registry, applies.CountPreviews)
	if err := applies.SetupWithManager(ctx, mgr, control); err != nil {
		return fmt.Errorf("setting up WorkspaceTemplateApplies: %w", err)
	}
	return nil
}

func setupTemplates(ctx context.Context, mgr ctrl.Manager, e engine.Engine, options Options, control controller.Options) error {
	templates := &workspacetemplate.Reconciler{Engine: e, Clock: clock.RealClock{}, DefaultRollout: options.DefaultRollout}
	templates.WatchFilterValue = options.watchFilterOf(&infrav1.WorkspaceTemplate{})
	if err := templates.SetupWithManager(ctx, mgr, control); err != nil {
		return fmt.Errorf("setting up WorkspaceTemplates: %w", err)
	}
	return nil
}

func setupPlanRequests(mgr ctrl.Manager, e engine.Engine, options Options, control controller.Options) error {
	requests := &planrequest.Reconciler{Engine: e, Clock: clock.RealClock{}}
	requests.WatchFilterValue = options.watchFilterOf(&infrav1.PlanRequest{})
	if err := requests.SetupWithManager(mgr, control); err != nil {
		return fmt.Errorf("setting up PlanRequests: %w", err)
	}
	return nil
}

func indexClusters(ctx context.Context, mgr ctrl.Manager) error {
	keys := func(cluster client.Object) []string { return claim.ClusterKeys(cluster.(*clusterv1.Cluster)) }
	if err := mgr.GetFieldIndexer().IndexField(ctx, &clusterv1.Cluster{}, claim.ClusterIndex, keys); err != nil {
		return fmt.Errorf("indexing Clusters: %w", err)
	}
	return nil
}
