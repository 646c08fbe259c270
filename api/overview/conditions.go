// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Condition of an object of a Cluster.
type Condition struct {
	Kind             string `json:"kind"` // Kind and Name of the object.
	Name             string `json:"name"`
	metav1.Condition `json:",inline"`
}

// Conditions returns those that a Ready Cluster at rest does not have, first those of objects that wait for none of the others. Of the Cluster
// itself, only those that say more than the conditions of CAPT's objects.
func (o *Objects) Conditions() (list []Condition) {
	for _, object := range append(o.all(), o.Cluster) {
		for _, condition := range object.GetConditions() {
			if _, is := object.(*clusterv1.Cluster); is && condition.Type != clusterv1.ClusterRemoteConnectionProbeCondition {
				continue
			}
			if (condition.Status == metav1.ConditionTrue) == isNegative(condition.Type) || explainsFailure(condition.Reason) {
				list = append(list, Condition{graph.NodeOf(object).Kind, object.GetName(), condition})
			}
		}
	}
	return list
}

// isNegative reports whether the normal status of a condition is False.
func isNegative(condition string) bool {
	return slices.Contains([]string{
		clusterv1.PausedCondition, infrav1.AdoptionRequiredCondition, infrav1.DeletingCondition, infrav1.CreateRecoverableCondition,
		infrav1.WorkspaceConflictCondition, infrav1.VPCReplacedCondition, controlplanev1.CreatingCondition, controlplanev1.FailedCondition, controlplanev1.DegradedCondition,
		controlplanev1.RecoveringCondition, controlplanev1.DependencyCycleCondition, controlplanev1.FargateProfileCreatingCondition,
		controlplanev1.FargateProfileFailedCondition,
	}, condition)
}

// explainsFailure reports whether a condition with its normal status explains why a failure is not repaired: recovery waits, or cannot help.
func explainsFailure(reason string) bool {
	switch reason {
	case controlplanev1.RecoveryBlockedReason, controlplanev1.RecoveryExhaustedReason, controlplanev1.WaitingForRetryReason, infrav1.CreateNotRecoverableReason:
		return true
	}
	return false
}
