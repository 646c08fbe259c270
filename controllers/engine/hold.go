// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// definitionInterval is how often to check whether the deletion of a CustomResourceDefinition was allowed. This is too rare for a watch.
const definitionInterval = 15 * time.Second

// deletedDefinition returns the CustomResourceDefinition (of the object's kind, of Cluster or, for a CAPTMachinePool, of MachinePool) that is being deleted, which is why the object is
// being deleted; nil when there is none. One that must not be deleted comes before one whose annotation allows the deletion. It reads from the
// API server, because objects can be deleted before the cache has the deletion of their definition.
func (e Engine) deletedDefinition(ctx context.Context, obj client.Object) (deleted *metav1.PartialObjectMetadata, err error) {
	if e.Uncached == nil {
		return nil, nil
	}
	gvk, err := e.Client.GroupVersionKindFor(obj)
	if err != nil {
		return nil, err
	}
	own, _ := meta.UnsafeGuessKindToResource(gvk)
	resources := []schema.GroupResource{own.GroupResource(), {Group: clusterv1.GroupVersion.Group, Resource: "clusters"}}
	if _, ok := obj.(*infrav1.CAPTMachinePool); ok {
		resources = append(resources, schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinepools"})
	}
	for _, resource := range resources {
		found, err := Get(ctx, e.Uncached, client.ObjectKey{Name: resource.String()}, Metadata("CustomResourceDefinition"))
		if err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", resource, err)
		}
		switch {
		case found == nil || found.DeletionTimestamp.IsZero():
		case !desired.AllowsDelete(found):
			return found, nil
		default:
			deleted = found
		}
	}
	return deleted, nil
}

// deletionHeld returns why nothing of an object may be deleted although it is being deleted, and what ends the reconcile then; nil when nothing holds
// the deletion, or a watch causes the next reconcile.
func (e Engine) deletionHeld(ctx context.Context, obj Object) (held *desired.Blocked, wait, err error) {
	if obj.GetDeletionTimestamp().IsZero() {
		return nil, nil, nil
	}
	definition, err := e.deletedDefinition(ctx, obj)
	switch {
	case err != nil:
		return nil, nil, err
	case definition != nil && !desired.AllowsDelete(definition):
		return &desired.Blocked{Reason: infrav1.DefinitionDeletingReason, Message: fmt.Sprintf(
			"CustomResourceDefinition %s is being deleted, so nothing is destroyed. %s set the annotation %s of the definition to \"true\": %s",
			definition.Name, desired.HowToKeep, naming.AllowDeleteAnnotation, desired.DeletionContinues,
		)}, Wait("the deletion of CustomResourceDefinition "+definition.Name+" to be allowed", definitionInterval), nil
	case desired.IsDeletionProtected(obj):
		return desired.DeletionProtected(""), nil, nil
	}
	return nil, nil, nil
}

// HeldByUsers returns why nothing of an owner that is being deleted may be destroyed: a Cluster or a MachinePool that is not being deleted refers to
// it. It is nil if nothing holds the deletion, and if the definition of the object is deleted with the permission of a user.
func (e Engine) HeldByUsers(ctx context.Context, obj Object) (*desired.Blocked, error) {
	const name = "this object"
	held, err := HeldByUsers(ctx, e.Client, obj, name)
	// Before anything of it is destroyed, the API server confirms that nothing holds the deletion: the caches are not synchronized.
	confirm := e.Uncached != nil && !obj.GetDeletionTimestamp().IsZero() && !DeletionContinues(obj) && !desired.AllowsDelete(obj)
	if held == nil && err == nil && confirm {
		held, err = heldByUsers(ctx, e.Uncached, obj, name)
	}
	if held == nil || err != nil {
		return nil, err
	}
	if definition, err := e.deletedDefinition(ctx, obj); definition != nil || err != nil {
		return nil, err
	}
	return held, nil
}

// DeletionContinues reports whether an object is being deleted and reports that nothing holds that. A paused object reports only the pause.
func DeletionContinues(obj Object) bool {
	deleting := conditions.Get(obj, infrav1.DeletingCondition)
	if deleting == nil || deleting.Status != metav1.ConditionTrue || conditions.IsTrue(obj, clusterv1.PausedCondition) {
		return false
	}
	return !slices.Contains([]string{infrav1.UsedByClusterReason, infrav1.UsedByMachinePoolReason, infrav1.DeletionProtectedReason, infrav1.DefinitionDeletingReason}, deleting.Reason)
}

// HeldByUsers is Engine.HeldByUsers for an object that another one controls, from the cache. name is how the message names the object.
func HeldByUsers(ctx context.Context, cached client.Reader, object client.Object, name string) (*desired.Blocked, error) {
	if object.GetDeletionTimestamp().IsZero() || desired.AllowsDelete(object) {
		return nil, nil
	}
	var indexed []client.ListOption
	if ref := claim.ReferenceTo(object); ref.IsDefined() {
		indexed = append(indexed, client.MatchingFields{claim.ClusterIndex: claim.ClusterKey(ref)})
	}
	return heldByUsers(ctx, cached, object, name, indexed...)
}

func heldByUsers(ctx context.Context, reader client.Reader, object client.Object, name string, options ...client.ListOption) (*desired.Blocked, error) {
	if pool, ok := object.(*infrav1.CAPTMachinePool); ok {
		var list clusterv1.MachinePoolList
		if err := reader.List(ctx, &list, client.InNamespace(pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the MachinePools that refer to this object: %w", err)
		}
		machinePools := make([]*clusterv1.MachinePool, 0, len(list.Items))
		for i := range list.Items {
			machinePools = append(machinePools, &list.Items[i])
		}
		return desired.HeldByMachinePools(machinePools, pool, name), nil
	}
	clusters, err := referringClusters(ctx, reader, object, options...)
	return desired.HeldByClusters(clusters, name), err
}

// ClusterConflict returns the condition that is True while more than one Cluster refers to an object.
func ClusterConflict(clusters []*clusterv1.Cluster) Condition {
	if len(clusters) < 2 {
		return False(infrav1.ClusterConflictCondition, infrav1.NoClusterConflictReason, "")
	}
	names := make([]string, len(clusters))
	for i, cluster := range clusters {
		names[i] = cluster.Name
	}
	return True(infrav1.ClusterConflictCondition, infrav1.ClusterConflictReason, fmt.Sprintf(
		"Clusters %s refer to this object, which can belong to one Cluster only: none of them can be deleted. Change the names in spec.infrastructureRef and spec.controlPlaneRef of each Cluster that is a copy",
		strings.Join(names, ", ")))
}

// reportFinalizers reports that only finalizers of other controllers are left on an object.
func (e Engine) reportFinalizers(obj Object) {
	gvk, err := e.Client.GroupVersionKindFor(obj)
	message := terraform.WaitingForFinalizers(obj, strings.ToLower(gvk.Kind))
	if err != nil || message == "" {
		return
	}
	if done := conditions.GetMessage(obj, infrav1.DeletingCondition); done != "" && !strings.Contains(done, message) { // The gate may have kept it.
		message = done + "; " + message
	}
	Set(obj, True(infrav1.DeletingCondition, infrav1.WaitingForFinalizersReason, message))
	if conditions.Has(obj, infrav1.ReadyCondition) {
		Set(obj, False(infrav1.ReadyCondition, infrav1.DeletingReason, message))
	}
}

// holdDeletion ends the reconcile of an object that is being deleted by mistake: it reports that, and neither deletes what the object controls
// nor removes a finalizer.
func holdDeletion[O Object, F, P any](ctx context.Context, e Engine, obj O, held *desired.Blocked, wait error, phases Phases[O, F, P]) error {
	before := obj.DeepCopyObject().(O)
	Set(obj, True(infrav1.DeletingCondition, held.Reason, held.Message))
	if conditions.Has(obj, infrav1.ReadyCondition) {
		Set(obj, False(infrav1.ReadyCondition, held.Reason, held.Message))
	}
	if err := writeStatus(ctx, e, before, obj, phases); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return wait
}
