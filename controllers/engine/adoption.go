// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// KeepStatus leaves the status of an object as CAPT v0.3 left it: conditions about adoption and pause are all that is written until
// the object is adopted. One whose adoption was rolled back awaits it again until its status is computed again: nothing else shows that.
func KeepStatus(obj Object, paused string, required Condition) {
	SetOnce(obj, PausedCondition(paused))
	if required.Status != metav1.ConditionFalse || adoption.LegacyStatus(0, obj.GetConditions()) {
		SetOnce(obj, required)
	}
	// A request that was refused before is no reason to lose readiness. CAPT v0.3 did not know this reason.
	if conditions.GetReason(obj, infrav1.ReadyCondition) == infrav1.WriteRefusedReason {
		conditions.Delete(obj, infrav1.ReadyCondition)
	}
}

// IsMigrating reports whether captctl migrate is writing an object, or was interrupted while it was. What is computed from half of its writes
// would be wrong, and alarm users: the status is kept.
func IsMigrating(obj Object) bool {
	return obj.GetAnnotations()[clusterv1.PausedAnnotation] == naming.MigrationPause
}

// SetOnce sets a condition, unless its status is False and it has never been True.
func SetOnce(obj Object, condition Condition) {
	if condition.Status != metav1.ConditionFalse || conditions.Has(obj, condition.Type) {
		Set(obj, condition)
	}
}

// keepsStatus reports whether a refused request must not change the summary of an object, because the object has not been adopted
// and nothing would restore the summary. The first reconcile of an object has no condition about adoption yet.
func keepsStatus(obj Object, summary string) bool {
	if required := conditions.Get(obj, infrav1.AdoptionRequiredCondition); required != nil {
		return required.Status != metav1.ConditionFalse
	}
	if known := conditions.Get(obj, summary); known != nil {
		return known.ObservedGeneration == 0
	}
	return adoption.LegacyStatus(0, obj.GetConditions()) // CAPT v0.3 wrote no Ready on a CAPTCluster.
}
