// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress prints how the objects of a cluster change their state.
package progress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Kinds are the kinds that a cluster consists of, from the Cluster down to the Workspaces.
var Kinds = []schema.GroupVersionKind{
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "CAPTCluster"},
	{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "CAPTControlPlane"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "WorkspaceTemplateApply"},
	{Group: "tf.m.upbound.io", Version: "v1beta1", Kind: "Workspace"},
	{Group: "tf.upbound.io", Version: "v1beta1", Kind: "Workspace"},
}

// Table prints one line per object when its state changes.
type Table struct {
	client  client.Client
	out     io.Writer
	started time.Time
	printed map[string]string
}

// NewTable returns a table whose clock starts now.
func NewTable(c client.Client, out io.Writer) *Table {
	return &Table{client: c, out: out, started: time.Now(), printed: map[string]string{}}
}

// interval is the polling interval. Shorter states are not printed.
const interval = 300 * time.Millisecond

// Until prints changes until the objects satisfy a condition.
func (t *Table) Until(ctx context.Context, satisfied func(objects []unstructured.Unstructured) bool) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		objects, err := List(ctx, t.client)
		if err != nil {
			return err
		}
		t.print(objects)
		if satisfied(objects) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// List returns all objects of Kinds. Kinds that are not installed are skipped.
func List(ctx context.Context, c client.Client) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, kind := range Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
		all = append(all, list.Items...)
	}
	return all, nil
}

func (t *Table) print(objects []unstructured.Unstructured) {
	seen := map[string]bool{}
	for i := range objects {
		object := &objects[i]
		name := object.GetKind() + "/" + object.GetName()
		seen[name] = true
		t.line(name, summary(object))
	}
	gone := []string{}
	for name := range t.printed {
		if !seen[name] {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		t.line(name, "gone")
		delete(t.printed, name)
	}
}

func (t *Table) line(name, text string) {
	if t.printed[name] == text {
		return
	}
	t.printed[name] = text
	fmt.Fprintf(t.out, "%5.1fs  %-58s %s\n", time.Since(t.started).Seconds(), name, text)
}

// Explain prints all conditions of all objects.
func Explain(out io.Writer, objects []unstructured.Unstructured) {
	for i := range objects {
		fmt.Fprintf(out, "%s/%s\n", objects[i].GetKind(), objects[i].GetName())
		for _, condition := range conditionsOf(&objects[i]) {
			fmt.Fprintf(out, "  %-28s %-8s %s\n", condition.Type, condition.Status, why(condition))
		}
	}
}
