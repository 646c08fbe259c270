// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspacetemplateapply turns a WorkspaceTemplateApply into one Workspace, and tells what becomes of it.
package workspacetemplateapply

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
)

// Reconciler of WorkspaceTemplateApplies.
type Reconciler struct {
	engine.Engine
	Workspaces *workspace.Client
	// Uncached reads Secrets, which are never cached with their values.
	Uncached client.Reader
	Clock    clock.PassiveClock
	// Turns paces updates of Workspaces.
	Turns *Turns

	recollection
	rota rota
	// Namespace is the only one the cache holds; empty means all. Templates of other namespaces are read past it then, and do
	// not wake anybody.
	Namespace string
	// StatePrefix is part of the names of the Terraform states of new Workspaces.
	StatePrefix string
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=workspaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=list
// By this right, policies and webhooks recognize the manager, whatever its account is called.
// +kubebuilder:rbac:groups=capt.cluster.x-k8s.io,resources=guards,verbs=bypass

// Reconcile one WorkspaceTemplateApply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.WorkspaceTemplateApply{}, engine.Phases[*infrav1.WorkspaceTemplateApply, Facts, Action]{
		Observe: r.observe,
		Plan:    func(apply *infrav1.WorkspaceTemplateApply, f *Facts) (Action, error) { return decide(apply, f), nil },
		Act: func(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, _ Action) error {
			return r.act(ctx, apply, f)
		},
		Status:    func(apply *infrav1.WorkspaceTemplateApply, f *Facts, _ Action) { status(apply, f) },
		OnDeleted: r.gone,
		EventConditions: []string{
			infrav1.ReadyCondition, infrav1.DeletingCondition, infrav1.AdoptionRequiredCondition, infrav1.WorkspaceConflictCondition,
		},
		IsWarning: warning,
	})
}
