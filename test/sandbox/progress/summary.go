// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress prints how the objects of a cluster change their state.
package progress

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// conditionsOf returns status.conditions of an object of any kind; none if they are not well-formed.
func conditionsOf(object *unstructured.Unstructured) []metav1.Condition {
	all, _ := conditions.UnstructuredGetAll(object)
	return all
}

// IsTrue reports whether an object has a condition with status True.
func IsTrue(object *unstructured.Unstructured, kind string) bool {
	return meta.IsStatusConditionTrue(conditionsOf(object), kind)
}

// summary is the state of an object in one line, and why it is not ready.
func summary(object *unstructured.Unstructured) string {
	state := stateOf(object)
	all := conditionsOf(object)
	main, ready := meta.FindStatusCondition(all, "Available"), meta.FindStatusCondition(all, "Ready")
	if main == nil { // Available is for objects that serve requests.
		main = ready
	}
	switch {
	case main == nil:
		return cmp.Or(state, "Waiting")
	case main.Status != "True":
		return strings.TrimSpace(state + "  " + why(*main) + unhealthy(all, main))
	case state == "Deleting":
		return state
	case ready != nil && ready.Status == metav1.ConditionFalse:
		return strings.TrimSpace(state + "  Available  " + why(*ready) + unhealthy(all, ready))
	case state == "" || state == "Ready":
		return "Ready" + unhealthy(all, main)
	default:
		return state + "  Ready" + unhealthy(all, main)
	}
}

// stateOf returns status.state or status.phase of an object.
func stateOf(object *unstructured.Unstructured) string {
	if object.GetDeletionTimestamp() != nil {
		return "Deleting"
	}
	for _, field := range []string{"state", "phase"} {
		if value, _, _ := unstructured.NestedString(object.Object, "status", field); value != "" {
			return value
		}
	}
	return ""
}

// unhealthy describes further conditions whose status False is always an error, unless the main condition names them.
func unhealthy(all []metav1.Condition, main *metav1.Condition) string {
	var text strings.Builder
	for _, condition := range all {
		switch condition.Type {
		case "Synced", "RemoteConnectionProbe":
			if condition.Status == "False" && condition.Message != main.Message && !strings.Contains(main.Message, condition.Type) {
				fmt.Fprintf(&text, "  %s: %s", condition.Type, why(condition))
			}
		}
	}
	return text.String()
}

// messageWidth limits the length of a line.
const messageWidth = 110

func why(condition metav1.Condition) string {
	message := strings.Join(strings.Fields(condition.Message), " ")
	if len(message) > messageWidth {
		message = strings.ToValidUTF8(message[:messageWidth], "") + "…"
	}
	if message == "" {
		return condition.Reason
	}
	return condition.Reason + ": " + message
}
