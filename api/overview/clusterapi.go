// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
)

// ofClusterAPI are the finalizers of Cluster API. It removes them when everything that belongs to the object is deleted.
var ofClusterAPI = []string{clusterv1.ClusterFinalizer, clusterv1.MachinePoolFinalizer}

// waitingForFinalizers is the cause of an object of Cluster API that is being deleted: what Cluster API waits for, or else finalizers of other
// controllers; nil if it waits for none.
func (o *Objects) waitingForFinalizers(kind string, object graph.Object) *Cause {
	if object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	cause := &Cause{Kind: kind, Name: object.GetName(), Reason: infrav1.WaitingForFinalizersReason, Since: *object.GetDeletionTimestamp()}
	if slices.ContainsFunc(object.GetFinalizers(), func(finalizer string) bool { return slices.Contains(ofClusterAPI, finalizer) }) {
		cause.Condition, cause.Message = clusterv1.ClusterDeletingCondition, "waiting for Cluster API, which has not reported on the deletion; check that it runs"
		deleting := meta.FindStatusCondition(object.GetConditions(), clusterv1.ClusterDeletingCondition)
		switch {
		case ptr.Deref(o.Cluster.Spec.Paused, false):
			cause.Reason, cause.Message = clusterv1.PausedReason, "Cluster API deletes nothing while spec.paused of the Cluster is true"
		case deleting != nil && deleting.Status == metav1.ConditionTrue:
			cause.Reason, cause.Message, cause.Since = deleting.Reason, "Cluster API waits: "+strings.TrimPrefix(deleting.Message, "* "), deleting.LastTransitionTime
		}
		return cause
	}
	cause.Message = terraform.WaitingForFinalizers(object, strings.ToLower(kind))
	if cause.Message == "" {
		return nil
	}
	return cause
}

// namesTheCluster corrects the message of an object that no Cluster owns: the Cluster that refers to it exists, so Cluster API has to make it the owner.
func (c *Cause) namesTheCluster() {
	if c != nil && c.Reason == infrav1.WaitingForOwnerReason && c.Kind != machinePoolKind && c.Kind != "CAPT"+machinePoolKind {
		c.Message = "waiting for Cluster API to make the Cluster the owner of " + c.Kind + " " + c.Name
	}
}

// stepForClusterAPI is what to do if Cluster API holds a deletion, or has not set the owner of an object for long; nil otherwise.
func stepForClusterAPI(c *Cluster, now time.Time) *Next {
	const pods, log = "kubectl -n capi-system get pods", "kubectl -n capi-system logs deployment/capi-controller-manager --tail=50"
	switch {
	case c.Cause.Reason == infrav1.WaitingForOwnerReason && now.Sub(c.Cause.Since.Time) >= reasons.Grace:
		return &Next{
			Step:     "Cluster API sets the owner of what a Cluster refers to. See whether it runs and finds the kinds of CAPT: its log has why not.",
			Commands: []string{"captctl check", pods, log},
		}
	case c.Cause.Condition != clusterv1.ClusterDeletingCondition || c.Cause.Kind != "Cluster" && c.Cause.Kind != machinePoolKind:
		return nil
	}
	return &Next{
		Step: "See what keeps the objects that Cluster API waits for: the finalizers and conditions of each. Its log has what it cannot do. Do not remove the finalizer of Cluster API: the Cluster would be gone before what belongs to it.",
		Commands: []string{
			fmt.Sprintf("kubectl get machines,machinesets,machinedeployments,machinepools -n %s -l %s=%s", c.Namespace, clusterv1.ClusterNameLabel, c.Name), pods, log,
		},
	}
}

// WrongReferenceReason is the reason of a Cluster that refers to an object of another kind than that of CAPT.
const WrongReferenceReason = "WrongReference"

// wrongReference is the cause of a Cluster one of whose references has another kind than the object of CAPT of this name, or another kind of CAPT; nil
// without one.
func (o *Objects) wrongReference() *Cause {
	spec := &o.Cluster.Spec
	for _, r := range []struct {
		field, kind, group string
		ref                clusterv1.ContractVersionedObjectReference
		exists             bool
	}{
		{"infrastructureRef", "CAPTCluster", infrav1.GroupVersion.Group, spec.InfrastructureRef, o.CAPTCluster != nil},
		{"controlPlaneRef", "CAPTControlPlane", controlplanev1.GroupVersion.Group, spec.ControlPlaneRef, o.ControlPlane != nil},
	} {
		if (r.exists || strings.HasPrefix(r.ref.Kind, "CAPT")) && (r.ref.Kind != r.kind || r.ref.APIGroup != r.group) && r.ref.IsDefined() && !o.deleting() {
			return &Cause{
				Kind: "Cluster", Name: o.Cluster.Name, Reason: WrongReferenceReason, Since: o.Cluster.CreationTimestamp,
				Message: fmt.Sprintf("spec.%s of the Cluster refers to %s %s (%s), not to %s %s (%s)", r.field, r.ref.Kind, r.ref.Name, r.ref.APIGroup, r.kind, r.ref.Name, r.group),
			}
		}
	}
	return nil
}

// correctReferences is what to do about a reference of the Cluster to an object that does not exist, or has another kind.
func (o *Objects) correctReferences(c *Cause) *Next {
	if c.Kind == machinePoolKind { // The message says it.
		return nil
	}
	return &Next{Step: "Correct the references of the Cluster, or create what they name in its namespace.", Commands: []string{
		"kubectl get captclusters,captcontrolplanes -n " + o.Cluster.Namespace, fmt.Sprintf("kubectl edit cluster -n %s %s", o.Cluster.Namespace, o.Cluster.Name),
	}}
}
