// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package graphreader reads the objects of a control plane's dependency graph (api/graph), and finds the graphs that an object belongs to.
// Everything is read from the cache.
package graphreader

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
)

// maxApplies limits the WorkspaceTemplateApplies in each direction. Real clusters have a handful.
const maxApplies = 256

// Reader reads objects of graphs.
type Reader struct {
	// Cache also has the metadata of Secrets.
	Cache client.Reader
	// Namespace is the only namespace in the cache; empty means all.
	Namespace string
}

type apply = infrav1.WorkspaceTemplateApply // Its name is long.

// Observe adds everything that the graph has besides control plane, Cluster and CAPTCluster.
func (r Reader) Observe(ctx context.Context, o *graph.Objects) error {
	if err := r.observeApplies(ctx, o); err != nil {
		return fmt.Errorf("reading WorkspaceTemplateApplies: %w", err)
	}
	if err := r.observePools(ctx, o); err != nil {
		return fmt.Errorf("reading CAPTMachinePools: %w", err)
	}
	o.Secrets = sets.New[string]()
	templates := workspacetemplate.Lookup{Cached: r.Cache}
	for _, node := range o.Graph().Nodes() {
		key := types.NamespacedName{Namespace: node.Namespace, Name: node.Name}
		switch {
		case node.Kind == graph.SecretKind && key.Namespace == o.ControlPlane.Namespace:
			found, err := engine.Get(ctx, r.Cache, key, engine.Metadata("Secret"))
			if err != nil {
				return fmt.Errorf("reading Secret %s: %w", key.Name, err)
			}
			if found != nil {
				o.Secrets.Insert(key.Name)
			}
		case node.Kind == graph.TemplateKind && r.caches(key.Namespace):
			if _, known := o.Templates[key]; known {
				continue
			}
			template, err := templates.Permitted(ctx, key, o.ControlPlane.Namespace)
			if err != nil {
				return err
			}
			o.Templates[key] = template
		}
	}
	return nil
}

func (r Reader) caches(namespace string) bool { return r.Namespace == "" || r.Namespace == namespace }

// observePools reads the machine pools of the Cluster.
func (r Reader) observePools(ctx context.Context, o *graph.Objects) error {
	var list infrav1.CAPTMachinePoolList
	own := client.MatchingLabels{clusterv1.ClusterNameLabel: o.Cluster.Name}
	if err := r.Cache.List(ctx, &list, client.InNamespace(o.ControlPlane.Namespace), own, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		o.Pools = append(o.Pools, &list.Items[i])
	}
	slices.SortFunc(o.Pools, func(a, b *infrav1.CAPTMachinePool) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// observeApplies reads the WorkspaceTemplateApplies of the control plane, what they depend on, and what depends on them.
func (r Reader) observeApplies(ctx context.Context, o *graph.Objects) error {
	namespace := o.ControlPlane.Namespace
	controlPlane, vpc, profiles := o.Owned()
	seeds, err := r.list(ctx, client.InNamespace(namespace), client.MatchingFields{index.Controller: string(o.ControlPlane.UID)})
	if err != nil {
		return err
	}
	addOns, err := r.list(ctx, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: o.Cluster.Name})
	if err != nil {
		return err
	}
	seeds = append(seeds, addOns...) // They may wait for each other.
	for _, name := range append([]string{controlPlane, vpc}, profiles...) {
		if name == "" {
			continue
		}
		found, err := engine.Get(ctx, r.Cache, client.ObjectKey{Namespace: namespace, Name: name}, &apply{})
		if err != nil {
			return err
		}
		if found != nil {
			seeds = append(seeds, found)
		}
	}
	upstream, err := closure(ctx, seeds, r.dependencies)
	if err != nil {
		return err
	}
	// Before it exists, other objects may wait for it.
	missing := &apply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controlPlane}}
	seeds = slices.DeleteFunc(append(seeds, missing), func(a *apply) bool { return a.Name == vpc })
	downstream, err := closure(ctx, seeds, r.dependents)
	if err != nil {
		return err
	}
	for _, found := range append(upstream, downstream...) {
		if found != missing {
			o.Put(found)
		}
	}
	return nil
}

// Related returns a WorkspaceTemplateApply with those that depend on it and those on which it depends: the graphs of their owners have it.
func (r Reader) Related(ctx context.Context, of *apply) ([]*apply, error) {
	dependents, err := closure(ctx, []*apply{of}, r.dependents)
	if err != nil {
		return nil, err
	}
	dependencies, err := closure(ctx, []*apply{of}, r.dependencies)
	return append(dependents, dependencies[min(1, len(dependencies)):]...), err
}

// closure returns objects and everything that next leads to, each once.
func closure(ctx context.Context, from []*apply, next func(context.Context, *apply) ([]*apply, error)) (found []*apply, err error) {
	known := sets.New[client.ObjectKey]()
	for pending := from; len(pending) > 0; pending = pending[1:] {
		key := client.ObjectKeyFromObject(pending[0])
		if known.Has(key) || len(found) == maxApplies {
			continue
		}
		known.Insert(key)
		found = append(found, pending[0])
		more, err := next(ctx, pending[0])
		if err != nil {
			return nil, err
		}
		pending = append(slices.Clip(pending), more...)
	}
	return found, nil
}

// dependencies returns those that provide the Workspaces and write the Secrets that a WorkspaceTemplateApply waits for.
func (r Reader) dependencies(ctx context.Context, of *apply) (found []*apply, err error) {
	for _, dependency := range of.Spec.WaitForWorkspaces {
		key := of.DependencyKey(dependency)
		if !r.caches(key.Namespace) {
			continue
		}
		providers, err := r.list(ctx, client.InNamespace(key.Namespace), client.MatchingFields{index.WorkspaceName: key.Name})
		if err != nil {
			return nil, err
		}
		found = append(found, providers...)
	}
	for _, dependency := range of.Spec.WaitForSecrets {
		writers, err := r.list(ctx, client.InNamespace(of.Namespace), client.MatchingFields{index.ConnectionSecret: of.Namespace + "/" + dependency.Name})
		if err != nil {
			return nil, err
		}
		found = append(found, writers...)
	}
	return found, nil
}

// dependents returns those that wait for the Workspace or the connection Secret of a WorkspaceTemplateApply.
func (r Reader) dependents(ctx context.Context, of *apply) (found []*apply, err error) {
	var fields []client.MatchingFields
	for _, name := range graph.WorkspaceNames(of) {
		fields = append(fields, client.MatchingFields{index.WaitForWorkspace: of.Namespace + "/" + name})
	}
	if ref := of.Spec.WriteConnectionSecretToRef; ref != nil {
		fields = append(fields, client.MatchingFields{index.WaitForSecret: of.Namespace + "/" + ref.Name})
	}
	for _, field := range fields {
		waiting, err := r.list(ctx, field)
		if err != nil {
			return nil, err
		}
		found = append(found, waiting...)
	}
	return found, nil
}

// list returns objects of the cache in a fixed order, so that a limit always cuts off the same ones. They must not be changed.
func (r Reader) list(ctx context.Context, options ...client.ListOption) ([]*apply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Cache.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	found := make([]*apply, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	slices.SortFunc(found, func(a, b *apply) int {
		return strings.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String())
	})
	return found, nil
}

// Changed passes creations, deletions, and updates that change a graph.
func Changed() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || StateChanged(e.ObjectOld, e.ObjectNew)
	}}
}

// StateChanged reports whether two versions of an object differ in what a graph has of it.
func StateChanged(before, after client.Object) bool {
	was, ok := before.(graph.Object)
	is, alsoOK := after.(graph.Object)
	return ok && alsoOK && !graph.SameState(was, is)
}
