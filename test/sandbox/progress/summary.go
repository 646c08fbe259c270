// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress prints how the objects of a cluster change their state.
package progress

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition is the part of a condition that is printed.
type Condition struct {
	Type, Status, Reason, Message string
}

// Conditions returns status.conditions of an object of any kind.
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

// IsTrue reports whether an object has a condition with status True.
func IsTrue(object *unstructured.Unstructured, kind string) bool {
	return find(Conditions(object), kind).Status == "True"
}

// find returns the condition of a type, or an empty one.
func find(conditions []Condition, kind string) Condition {
	for _, condition := range conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return Condition{}
}

// summary is the state of an object in one line, and why it is not ready.
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

// mainCondition is the condition that summarizes the object: Available for objects that serve requests, otherwise Ready.
func mainCondition(conditions []Condition) (Condition, bool) {
	for _, kind := range []string{"Available", "Ready"} {
		if condition := find(conditions, kind); condition.Type != "" {
			return condition, true
		}
	}
	return Condition{}, false
}

// unhealthy describes further conditions whose status False is always an error, unless the main condition names them.
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

// messageWidth limits the length of a line.
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
