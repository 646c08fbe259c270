// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package captcontrolplane provides the EKS control plane of a Cluster, which Terraform creates: the WorkspaceTemplateApply, the
// endpoint, the kubeconfigs and the Fargate profiles.
package captcontrolplane

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
)

// Reconciler of CAPTControlPlanes.
type Reconciler struct {
	engine.Engine
	// Uncached reads Secrets, which are never cached with their values, and what must not be missed during deletion.
	Uncached client.Reader
	// Cache reads from the cache only: Secrets as metadata, which Client would read from the API server.
	Cache client.Reader
	// Tokens creates tokens for the kubeconfigs of clusters; nil when this manager creates none.
	Tokens kubeconfig.Tokens
	// Probes connect to the API servers; nil when this manager probes none.
	Probes *probe.Pool
	// FargateMetrics are the metrics of Fargate profiles.
	FargateMetrics *metrics.Fargate
	// Recovery has the metrics of recovery; nil when this manager recovers no control planes.
	Recovery *metrics.Recovery
	// Workspaces reads Workspaces for recovery.
	Workspaces Workspaces
	// Kubeconfigs has the metric of tokens.
	Kubeconfigs *metrics.Kubeconfigs
	// Namespace is the only namespace in the cache; empty means all.
	Namespace string
}

// Workspaces is what this controller needs of the port to Terraform.
type Workspaces interface {
	// NotFailing returns what shows that the Workspace of a WorkspaceTemplateApply does not fail any more, according to the API server; empty if nothing
	// does.
	NotFailing(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error)
}

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// The API server allows setting an owner reference again only to clients that may delete the Secret.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete

// Reconcile one CAPTControlPlane.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &controlplanev1.CAPTControlPlane{}, engine.Phases[*controlplanev1.CAPTControlPlane, Facts, *Plan]{
		Observe: r.observe,
		Plan:    plan,
		// Independent phases: an error of one must not prevent the renewal of a token or the reconciliation of profiles.
		Act: engine.InOrder(
			engine.Independent(
				r.reconcileControlPlane,
				engine.InOrder(r.reconcileKubeconfig, r.publishEndpoint),
				r.reconcileFargateProfiles,
				r.reconcileProbes,
				r.reconcileRecovery,
			),
			r.awaitTimeouts,
		),
		Status:    status,
		Situation: situation,
		Details:   details,
		EventConditions: []string{
			controlplanev1.InitializedCondition, controlplanev1.ReadyCondition, controlplanev1.DegradedCondition, controlplanev1.DependencyCycleCondition,
			controlplanev1.RecoveringCondition, infrav1.VPCReplacedCondition, controlplanev1.DeletingCondition, infrav1.FieldsConsumedCondition, infrav1.ClusterConflictCondition,
		},
		IsWarning: isWarning,
		Events:    fargate.Events,
		OnDeleted: func(_ context.Context, key client.ObjectKey) error {
			r.forget(key)
			return nil
		},
	})
}

// AddProbes makes the manager probe the API servers of control planes. It must be called before SetupWithManager.
func (r *Reconciler) AddProbes(mgr ctrl.Manager, m *metrics.Health) error {
	r.Probes = probe.NewPool(m, r.mustProbe)
	return mgr.Add(r.Probes)
}

// forget removes what this process has about an object that no longer exists.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.FargateMetrics.Forget(key)
	r.Recovery.Forget(key)
	r.Kubeconfigs.Report(key, time.Time{})
	if r.Probes != nil {
		r.Probes.Forget(key)
	}
}
