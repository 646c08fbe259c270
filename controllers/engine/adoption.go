// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
)

// KeepStatus updates only the conditions about adoption and pause, and keeps the rest of the status as CAPT v0.3 wrote it. It is for objects
// that have not been adopted, or whose adoption was rolled back. paused is the result of Paused, required is the condition AdoptionRequired.
func KeepStatus(obj Object, paused string, required Condition) {
	SetNegativePolarity(obj, PausedCondition(paused))
	if required.Status != metav1.ConditionFalse || legacy.LegacyStatus(0, obj.GetConditions()) {
		SetNegativePolarity(obj, required)
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

// IsMigrating reports whether captctl migrate is writing an object, or was interrupted. A status computed from half of its writes would be
// wrong, so the status is kept.
func IsMigrating(obj Object) bool {
	return obj.GetAnnotations()[clusterv1.PausedAnnotation] == naming.MigrationPause
}

// keepsSummary reports whether a refused request must not change the summary of an object, because the object has not been adopted
// and no reconcile would restore the summary. The first reconcile of an object has no condition about adoption yet.
func keepsSummary(obj Object, summary string) bool {
	if required := conditions.Get(obj, infrav1.AdoptionRequiredCondition); required != nil {
		return required.Status != metav1.ConditionFalse
	}
	if known := conditions.Get(obj, summary); known != nil {
		return known.ObservedGeneration == 0
	}
	return legacy.LegacyStatus(0, obj.GetConditions()) // CAPT v0.3 wrote no Ready on a CAPTCluster.
}
