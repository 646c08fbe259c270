// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package captcluster provides the VPC of a Cluster: an existing one, or one that Terraform creates.
package captcluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// Reconciler of CAPTClusters.
type Reconciler struct {
	engine.Engine
	// Uncached reads from the API server what must not be missed during deletion.
	Uncached client.Reader
	// Namespace is the only namespace in the cache; empty means all.
	Namespace string
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconcile one CAPTCluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.CAPTCluster{}, engine.Phases[*infrav1.CAPTCluster, Facts, *Plan]{
		Observe:         r.observe,
		Plan:            plan,
		Act:             engine.InOrder(r.reconcileVPC, r.await),
		Status:          status,
		Situation:       situation,
		Details:         details,
		EventConditions: []string{infrav1.ReadyCondition, infrav1.VPCReplacedCondition, infrav1.DeletingCondition, engine.DecisionCondition, infrav1.FieldsConsumedCondition, infrav1.ClusterConflictCondition},
		IsWarning:       func(condition metav1.Condition) bool { return infrav1.RequiresUserAction(condition.Reason) },
		Events:          vpcEvents,
	})
}
