// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/controllers/engine"
)

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
