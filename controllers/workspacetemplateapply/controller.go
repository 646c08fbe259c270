// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspacetemplateapply reconciles WorkspaceTemplateApplies: each renders a WorkspaceTemplate to one Workspace, and reports its state.
package workspacetemplateapply

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
)

// Reconciler of WorkspaceTemplateApplies.
type Reconciler struct {
	engine.Engine
	Workspaces *workspace.Client
	// Uncached reads Secrets, whose values are never cached.
	Uncached client.Reader
	Clock    clock.PassiveClock
	// RateLimiter limits updates of Workspaces.
	RateLimiter *serialize.RateLimiter
	// Unclaimed has the metric of Workspaces that the provider has not started to reconcile.
	Unclaimed *metrics.Unclaimed
	// Namespace is the only namespace in the cache; empty means all. Templates of other namespaces are read from the API server, and their
	// changes cause no reconciles.
	Namespace string
	// DefaultRollout is the policy of templates without spec.rollout.
	DefaultRollout infrav1.WorkspaceTemplateRollout
	// StatePrefix is part of the names of the Terraform states of new Workspaces.
	StatePrefix string

	serializer serialize.Serializer
	inputs     failedInputs
	slots      previews.Slots
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=workspaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=providerconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=tf.m.upbound.io,resources=clusterproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=list
// By this permission, policies and webhooks recognize the manager, whatever the name of its ServiceAccount.
// +kubebuilder:rbac:groups=capt.cluster.x-k8s.io,resources=guards,verbs=bypass

// Reconcile one WorkspaceTemplateApply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.WorkspaceTemplateApply{}, engine.Phases[*infrav1.WorkspaceTemplateApply, Facts, Plan]{
		Observe: r.observe, Plan: plan, Act: r.act, Status: status, Situation: situation, OnDeleted: r.onDeleted,
		EventConditions: []string{
			infrav1.ReadyCondition, infrav1.DeletingCondition, engine.DecisionCondition, infrav1.WorkspaceConflictCondition,
		},
		IsWarning: func(condition metav1.Condition) bool { return infrav1.RequiresUserAction(condition.Reason) },
	})
}

// CountPreviews returns how many objects have a preview, and how many wait for one to end.
func (r *Reconciler) CountPreviews() (running, waiting int) { return r.slots.Count() }

// lastObserved returns what this process last observed of an object.
func (r *Reconciler) lastObserved(apply *infrav1.WorkspaceTemplateApply) *lastSeen {
	return engine.StateOf[lastSeen](r.State, client.ObjectKeyFromObject(apply))
}

// onDeleted is called for an object that no longer exists.
func (r *Reconciler) onDeleted(ctx context.Context, key client.ObjectKey) error {
	r.forget(key)
	return r.Workspaces.DeleteOrphanedPreview(ctx, key)
}

// forget removes an object that no longer exists from its queues.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.Unclaimed.Report(key, 0)
	r.serializer.Forget(key)
	r.inputs.Set(key, nil)
	r.slots.Release(key, r.Clock.Now())
	r.RateLimiter.Cancel(key, r.Clock.Now())
}
