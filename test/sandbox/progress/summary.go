// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress shows people how the objects of a cluster move from state to state.
package progress

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition is the part of a condition that people read.
type Condition struct {
	Type, Status, Reason, Message string
}

// Conditions reads status.conditions of an object of any kind.
func Conditions(object *unstructured.Unstructured) []Condition {
	items, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var conditions []Condition
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string {
			value, _ := fields[name].(string)
			return value
		}
		conditions = append(conditions, Condition{text("type"), text("status"), text("reason"), text("message")})
	}
	return conditions
}

// IsTrue says whether an object has a condition with status True.
func IsTrue(object *unstructured.Unstructured, kind string) bool {
	return find(Conditions(object), kind).Status == "True"
}

// find returns the condition of a type, or none at all.
func find(conditions []Condition, kind string) Condition {
	for _, condition := range conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return Condition{}
}

// summary is an object's state in one line: what it says it is doing, and why it is not ready if it is not.
func summary(object *unstructured.Unstructured) string {
	state := stateOf(object)
	conditions := Conditions(object)
	main, found := mainCondition(conditions)
	ready := find(conditions, "Ready")
	switch {
	case !found:
		return cmp.Or(state, "Waiting")
	case main.Status != "True":
		return strings.TrimSpace(state + "  " + why(main) + unhealthy(conditions, main))
	case state == "Deleting":
		return state
	case ready.Status == "False":
		return strings.TrimSpace(state + "  Available  " + why(ready) + unhealthy(conditions, ready))
	case state == "" || state == "Ready":
		return "Ready" + unhealthy(conditions, main)
	default:
		return state + "  Ready" + unhealthy(conditions, main)
	}
}

// stateOf is what an object of any kind calls its own state, if its kind has one.
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

// mainCondition is the one that sums the object up: Cluster API calls it Available on what serves requests, and Ready
// elsewhere.
func mainCondition(conditions []Condition) (Condition, bool) {
	for _, kind := range []string{"Available", "Ready"} {
		if condition := find(conditions, kind); condition.Type != "" {
			return condition, true
		}
	}
	return Condition{}, false
}

// unhealthy names further conditions that say something is wrong, of those where False always means that, unless the
// main condition has named them already.
func unhealthy(conditions []Condition, main Condition) string {
	var text strings.Builder
	for _, condition := range conditions {
		switch condition.Type {
		case "Synced", "RemoteConnectionProbe":
			if condition.Status == "False" && condition.Message != main.Message && !strings.Contains(main.Message, condition.Type) {
				fmt.Fprintf(&text, "  %s: %s", condition.Type, why(condition))
			}
		}
	}
	return text.String()
}

// messageWidth keeps a line a line.
const messageWidth = 110

func why(condition Condition) string {
	message := strings.Join(strings.Fields(condition.Message), " ")
	if len(message) > messageWidth {
		message = strings.ToValidUTF8(message[:messageWidth], "") + "…"
	}
	if message == "" {
		return condition.Reason
	}
	return condition.Reason + ": " + message
}
