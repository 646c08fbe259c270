// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
