// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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

// stepForClusterAPI is what to do if Cluster API holds a deletion; nil if it does not.
func stepForClusterAPI(c *Cluster) *Next {
	if c.Cause.Condition != clusterv1.ClusterDeletingCondition || c.Cause.Kind != "Cluster" && c.Cause.Kind != machinePoolKind {
		return nil
	}
	return &Next{
		Step: "See what keeps the objects that Cluster API waits for: the finalizers and conditions of each. Do not remove the finalizer of Cluster API: the Cluster would be gone before what belongs to it.",
		Commands: []string{
			fmt.Sprintf("kubectl get machines,machinesets,machinedeployments,machinepools -n %s -l %s=%s", c.Namespace, clusterv1.ClusterNameLabel, c.Name),
			"kubectl -n capi-system get pods",
		},
	}
}
