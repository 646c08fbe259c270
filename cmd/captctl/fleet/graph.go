// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
)

// namespaceNotAllowed is the reason of a template that does not allow the namespace of the Cluster, and cannot be used.
const namespaceNotAllowed = "NamespaceNotAllowed"

var errNotAllowed = errors.New(namespaceNotAllowed)

func graphObjects(found *overview.Objects, applies []*infrav1.WorkspaceTemplateApply) *graph.Objects {
	return &graph.Objects{
		ControlPlane: found.ControlPlane, Cluster: found.Cluster, CAPTCluster: found.CAPTCluster, Applies: applies,
		Templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{}, Secrets: sets.New[string](),
	}
}

// newTree returns the part of a graph that belongs to a Cluster.
func newTree(g *graph.Graph, found *overview.Objects) *Tree {
	root := graph.NodeOf(found.Cluster).String()
	return &Tree{metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Tree"}, root, g.Document(relatives(g, found).Has)}
}

// relatives are what the control plane depends on, and what depends on it or on its WorkspaceTemplateApply.
func relatives(g *graph.Graph, found *overview.Objects) sets.Set[graph.Key] {
	self, own := graph.NodeOf(found.ControlPlane).Key, graph.Key{
		Kind: "WorkspaceTemplateApply", Namespace: found.Cluster.Namespace, Name: found.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name,
	}
	keys := sets.New(self, graph.NodeOf(found.Cluster).Key)
	for _, node := range slices.Concat(g.Upstream(self), g.Downstream(self, own)) {
		keys.Insert(node.Key)
	}
	return keys
}

// reportedTree returns the graph of a Cluster with the state of templates and Secrets that its control plane reports: it reads nothing. It is nil
// without a control plane.
func (f *fleet) reportedTree(found *overview.Objects) *Tree {
	if found.ControlPlane == nil {
		return nil
	}
	reported := map[graph.Key]controlplanev1.Dependency{}
	applies := slices.Clone(found.Applies)
	for _, dependency := range found.ControlPlane.Status.Dependencies {
		reported[graph.Key{Kind: dependency.Kind, Namespace: dependency.Namespace, Name: dependency.Name}] = dependency
		apply := f.applies[client.ObjectKey{Namespace: dependency.Namespace, Name: dependency.Name}]
		if dependency.Kind == "WorkspaceTemplateApply" && apply != nil && !slices.Contains(applies, apply) {
			applies = append(applies, apply)
		}
	}
	g := graphObjects(found, applies).Graph()
	for _, node := range g.Nodes() {
		if node.Kind != graph.TemplateKind && node.Kind != graph.SecretKind {
			continue
		}
		state, known := reported[node.Key]
		if !known && node.Namespace != found.Cluster.Namespace {
			state = reported[graph.Key{Kind: node.Kind, Name: graph.Elsewhere}] // The one that is least ready.
		}
		g.AddNode(graph.Node{Key: node.Key, Ready: state.Ready, Reason: state.Reason})
	}
	return newTree(g, found)
}

// readTree reads what the graph of a Cluster has besides its objects: other WorkspaceTemplateApplies, and the templates and Secrets that it refers to.
func readTree(ctx context.Context, reader client.Reader, found *overview.Objects) (*Tree, error) {
	if found.ControlPlane == nil {
		return withoutControlPlane(found), nil
	}
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, client.InNamespace(found.Cluster.Namespace)); err != nil {
		return nil, err
	}
	objects := graphObjects(found, nil)
	for i := range applies.Items {
		objects.Applies = append(objects.Applies, &applies.Items[i])
	}
	g := objects.Graph()
	related := relatives(g, found)
	var states []graph.Node // States that the objects do not imply.
	for _, node := range g.Nodes() {
		if !related.Has(node.Key) {
			continue
		}
		switch err := readNode(ctx, reader, objects, node.Key); {
		case apierrors.IsForbidden(err):
			states = append(states, graph.Node{Key: node.Key})
		case errors.Is(err, errNotAllowed):
			states = append(states, graph.Node{Key: node.Key, Ready: metav1.ConditionFalse, Reason: namespaceNotAllowed})
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		}
	}
	g = objects.Graph()
	for _, state := range states {
		g.AddNode(state)
	}
	return newTree(g, found), nil
}

// withoutControlPlane is the tree of a Cluster whose control plane does not exist yet, or was deleted before the VPC.
func withoutControlPlane(found *overview.Objects) *Tree {
	g, cluster := graph.New(), graph.NodeOf(found.Cluster)
	g.AddNode(cluster)
	if ref := found.Cluster.Spec.ControlPlaneRef; found.Cluster.DeletionTimestamp == nil && ref.Name != "" {
		g.AddEdge(graph.Edge{From: cluster.Key, To: graph.Key{Kind: ref.Kind, Namespace: cluster.Namespace, Name: ref.Name}})
	}
	if found.CAPTCluster != nil {
		vpc := graph.NodeOf(found.CAPTCluster)
		g.AddNode(vpc)
		g.AddEdge(graph.Edge{From: cluster.Key, To: vpc.Key})
		for _, apply := range found.Applies {
			node := graph.NodeOf(apply)
			g.AddNode(node)
			g.AddEdge(graph.Edge{From: vpc.Key, To: node.Key})
			if apply.Spec.WorkspaceName != "" {
				workspace := node
				workspace.Key = graph.Key{Kind: "Workspace", Namespace: apply.Namespace, Name: apply.Spec.WorkspaceName}
				g.AddNode(workspace)
				g.AddEdge(graph.Edge{From: node.Key, To: workspace.Key})
			}
		}
	}
	return &Tree{metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Tree"}, cluster.String(), g.Document(func(graph.Key) bool { return true })}
}

// readNode reads a template, or the metadata of a Secret of the Cluster's namespace.
func readNode(ctx context.Context, reader client.Reader, objects *graph.Objects, of graph.Key) error {
	key, namespace := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, objects.Cluster.Namespace
	switch {
	case of.Kind == graph.SecretKind && of.Namespace == namespace:
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(graph.SecretKind))
		err := reader.Get(ctx, key, secret)
		if err == nil {
			objects.Secrets.Insert(key.Name)
		}
		return err
	case of.Kind == graph.TemplateKind:
		template := &infrav1.WorkspaceTemplate{}
		objects.Templates[key] = nil
		if err := reader.Get(ctx, key, template); err != nil {
			return err
		}
		permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
			home := &corev1.Namespace{}
			err := reader.Get(ctx, client.ObjectKey{Name: namespace}, home)
			return home.Labels, err
		})
		switch {
		case err != nil:
			return err
		case !permitted:
			return errNotAllowed
		}
		objects.Templates[key] = template
	}
	return nil
}
