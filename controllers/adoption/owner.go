// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

type subject struct {
	engine.Object
	ref infrav1.WorkspaceTemplateApplyReference
	// observed is status.observedGeneration, and recorded the name in status.workspaceTemplateApply.
	observed int64
	recorded string
}

func subjectOf(c *controlplanev1.CAPTControlPlane) subject {
	return subject{c, c.Spec.WorkspaceTemplateApplyRef, c.Status.ObservedGeneration, claim.ExpectationOfControlPlane(c, "").Recorded}
}

func (s subject) isLegacy() bool { return legacy.LegacyStatus(s.observed, s.GetConditions()) }

func (g *Gate) checkCAPTCluster(ctx context.Context, captCluster *infrav1.CAPTCluster) (v engine.GateDecision, err error) {
	s := subject{captCluster, captCluster.Spec.WorkspaceTemplateApplyRef, captCluster.Status.ObservedGeneration, claim.ExpectationOfCAPTCluster(captCluster, "").Recorded}
	v = s.decision()
	if captCluster.Spec.VPC.Template.IsDefined() {
		v.Correct, err = g.correctVPC(ctx, captCluster)
	} else {
		v.Block, err = g.blockOfExistingVPC(ctx, s)
	}
	if keep := v.Keep; keep != nil {
		v.Keep = func(obj engine.Object, s engine.Situation) {
			keep(obj, s)
			reportReadiness(captCluster, s)
		}
	}
	return v, err
}

// decision about an owner, which depends on the owner alone.
//
// Before adoption, the cloud resources are unchanged: the owner is as ready as CAPT v0.3 left it. An owner without a status has nothing to
// keep. One that was adopted and rolled back stays Ready.
//
// After adoption, the owner may be reconciled before its WorkspaceTemplateApply. An adoption causes no Terraform run, so "Provisioning"
// would be wrong, and every adopted cluster would be Degraded for a moment. The state is reported as soon as the WorkspaceTemplateApply
// was observed in its current generation. A refused request, or a conflict with another owner, is reported at once.
func (s subject) decision() engine.GateDecision {
	v := engine.GateDecision{Inherited: s.isLegacy()}
	if v.Inherited {
		v.Advice = legacy.CheckAdvice
	}
	if !s.GetDeletionTimestamp().IsZero() {
		return v
	}
	if v.Inherited {
		v.BlockMissing, v.BlockConflict = s.blockMissing, func(conflict string) *desired.Blocked {
			return required("this object was created by CAPT v0.3 and has not been adopted: %s", conflict)
		}
	}
	v.Keeps = func(obj engine.Object, now engine.Situation) bool {
		switch {
		case isMigrating(obj):
			return true
		case now.Held:
			return s.isLegacy() || conditions.IsTrue(obj, infrav1.ReadyCondition)
		}
		return now.Settling && (s.isLegacy() || conditions.IsTrue(obj, infrav1.AdoptionRequiredCondition))
	}
	v.Keep = func(obj engine.Object, now engine.Situation) { keepStatus(obj, now.Paused, now.Decision) }
	return v
}

// blockMissing returns the Block of an owner whose WorkspaceTemplateApply does not exist. A reference that CAPT v0.3 did not record is for a new one.
func (s subject) blockMissing(context.Context) (*desired.Blocked, error) {
	if s.recorded != s.ref.Name {
		return nil, nil
	}
	return required("spec.workspaceTemplateApplyRef (workspaceTemplateApplyName in v1beta1) names WorkspaceTemplateApply %s, which CAPT v0.3 recorded and which does not exist: a new one would create the cloud resources a second time. "+
		"Restore it from a backup, and adopt it with captctl migrate (see captctl migrate check). If none of its cloud resources are left, delete and recreate this object", s.ref.Name), nil
}

// blockOfExistingVPC returns the Block of a CAPTCluster with an existing VPC, which is adopted with the control plane of its Cluster: it has no
// WorkspaceTemplateApply that could show whether the cluster was adopted.
func (g *Gate) blockOfExistingVPC(ctx context.Context, s subject) (*desired.Blocked, error) {
	if !s.isLegacy() || !s.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	cluster, err := engine.OwnerCluster(ctx, g.Client, g.Uncached, s)
	if err != nil || cluster == nil || cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" {
		return nil, err
	}
	key := client.ObjectKey{Namespace: s.GetNamespace(), Name: cluster.Spec.ControlPlaneRef.Name}
	controlPlane, err := engine.Get(ctx, g.Client, key, &controlplanev1.CAPTControlPlane{})
	if err != nil {
		return nil, fmt.Errorf("reading CAPTControlPlane %s: %w", key.Name, err)
	}
	if controlPlane == nil {
		return nil, nil
	}
	reader := owner.Reader{Cached: g.Client, Uncached: g.Uncached, Gate: g, GateDecision: subjectOf(controlPlane).decision()}
	apply, err := reader.Observe(ctx, controlPlane, controlPlane.Spec.WorkspaceTemplateApplyRef, claim.ExpectationOfControlPlane(controlPlane, cluster.Name))
	if err != nil || !apply.Held {
		return nil, err
	}
	return required("CAPTControlPlane %s of the same Cluster was created by CAPT v0.3 and has not been adopted: nothing is written. Adopt the cluster with captctl migrate (see captctl migrate check)", key.Name), nil
}

// correctVPC returns the function that replaces the ID that CAPT v0.3 recorded, which may be outdated, with the one that Terraform reports.
func (g *Gate) correctVPC(ctx context.Context, captCluster *infrav1.CAPTCluster) (func(engine.Object), error) {
	s, ref := &captCluster.Status, captCluster.Spec.WorkspaceTemplateApplyRef
	if s.ObservedGeneration != 0 || s.VPC.ID == "" || !ref.IsDefined() {
		return nil, nil
	}
	apply, err := engine.Get(ctx, g.Client, client.ObjectKey{Namespace: captCluster.Namespace, Name: ref.Name}, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil || apply.Status.Outputs[terraform.OutputVPCID] == "" {
		return nil, err
	}
	return func(engine.Object) { s.VPC.ID = apply.Status.Outputs[terraform.OutputVPCID] }, nil
}

// reportReadiness reports in the condition Ready what CAPT v0.3 reported in status.ready alone: kubectl get and Cluster API read the condition.
func reportReadiness(captCluster *infrav1.CAPTCluster, s engine.Situation) {
	vpc := conditions.Get(captCluster, infrav1.VPCReadyCondition)
	if !s.Held || vpc == nil || conditions.Has(captCluster, infrav1.ReadyCondition) {
		return
	}
	ready := engine.False(infrav1.ReadyCondition, vpc.Reason, vpc.Message)
	if ptr.Deref(captCluster.Status.Initialization.Provisioned, false) {
		ready = engine.True(infrav1.ReadyCondition, infrav1.ReadyReason, "")
	}
	ready.Since = vpc.LastTransitionTime.Time
	engine.Set(captCluster, ready)
}

// Watch implements engine.Gate: CAPTClusters with an existing VPC are adopted together with a control plane.
func (g *Gate) Watch(b *builder.Builder, kind client.Object) *builder.Builder {
	if _, ok := kind.(*infrav1.CAPTCluster); !ok {
		return b
	}
	return b.Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(g.adoptedWith), builder.WithPredicates(onAdoption()))
}

// onAdoption passes a control plane that was adopted, maybe before its first reconcile, or deleted.
func onAdoption() predicate.Predicate { return predicate.Or(owner.Updated(adopted), owner.Deleted()) }

func adopted(before, after client.Object) bool {
	required := func(object client.Object) bool {
		controlPlane := object.(*controlplanev1.CAPTControlPlane)
		if condition := conditions.Get(controlPlane, infrav1.AdoptionRequiredCondition); condition != nil {
			return condition.Status != metav1.ConditionFalse
		}
		return controlPlane.Status.ObservedGeneration == 0
	}
	return required(before) && !required(after)
}

// adoptedWith returns the CAPTClusters that are adopted together with a control plane.
func (g *Gate) adoptedWith(ctx context.Context, controlPlane client.Object) []ctrl.Request {
	return engine.Requests(ctx, g.Client, &infrav1.CAPTClusterList{}, func(object client.Object) bool {
		c := object.(*infrav1.CAPTCluster)
		return !c.Spec.VPC.Template.IsDefined() && conditions.IsTrue(c, infrav1.AdoptionRequiredCondition)
	}, client.InNamespace(controlPlane.GetNamespace()))
}

// keepStatus updates only the conditions about adoption and pause, and keeps the rest of the status as CAPT v0.3 wrote it. It is for objects
// that have not been adopted, or whose adoption was rolled back. required is the condition AdoptionRequired.
func keepStatus(obj engine.Object, paused string, required engine.Condition) {
	engine.SetNegativePolarity(obj, engine.PausedCondition(paused))
	if required.Status != metav1.ConditionFalse || legacy.LegacyStatus(0, obj.GetConditions()) {
		engine.SetNegativePolarity(obj, required)
	}
	ready := conditions.Get(obj, infrav1.ReadyCondition)
	switch {
	case ready == nil:
	case ready.Reason == infrav1.WriteRefusedReason: // CAPT v0.3 did not use this reason: this version wrote the condition, and it is outdated.
		conditions.Delete(obj, infrav1.ReadyCondition)
	case paused == "":
		ready.Message = withoutPause(ready.Message)
	}
}

// withoutPause returns a message without what engine.WithPause added to it.
func withoutPause(message string) string {
	if strings.HasPrefix(message, "paused: ") {
		return ""
	}
	if _, rest, paused := strings.Cut(message, "): "); paused && strings.HasPrefix(message, "paused (") {
		return rest
	}
	return message
}
