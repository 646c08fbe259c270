// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package impact finds what depends on an object, in all namespaces that the user may read.
package impact

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// Impact is what an edit or the deletion of an object can affect.
type Impact struct {
	metav1.TypeMeta `json:",inline"`
	Root            string `json:"root"` // Root is the name of the node of the object.
	// Graph has the object and what depends on it, directly or not. Its edges lead from an object to those that depend on it.
	Graph      graph.Document `json:"graph"`
	Clusters   []string       `json:"clusters"`   // Clusters are the nodes that are Clusters, sorted.
	Workspaces []string       `json:"workspaces"` // Workspaces are the nodes that are Workspaces, sorted.
}

// kinds are those of objects that others can depend on. The value is true for those of which CAPT knows all objects.
func kinds() map[string]bool {
	return map[string]bool{
		"Cluster": true, "CAPTCluster": true, "CAPTControlPlane": true, graph.TemplateKind: true, "WorkspaceTemplateApply": true,
		terraform.WorkspaceKind: false, graph.SecretKind: false, configMapKind: false, providerConfigKind: false, clusterProviderConfigKind: false,
	}
}

// Kinds that are nodes here only.
const (
	configMapKind             = "ConfigMap"
	providerConfigKind        = "ProviderConfig"
	clusterProviderConfigKind = "ClusterProviderConfig"
)

// Object is the object that the user names.
type Object struct{ kind, namespace, name string }

// Parse returns the object of KIND/NAME or KIND/NAMESPACE/NAME.
func Parse(text string) (Object, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 1, "")
	}
	if len(parts) != 3 || parts[2] == "" {
		return Object{}, fmt.Errorf("%q: must be KIND/NAME or KIND/NAMESPACE/NAME", text)
	}
	for kind := range kinds() {
		if strings.EqualFold(kind, parts[0]) {
			return Object{kind, parts[1], parts[2]}, nil
		}
	}
	return Object{}, fmt.Errorf("no object of CAPT depends on the kind %q; use one of %s", parts[0], strings.Join(sets.List(sets.KeySet(kinds())), ", "))
}

// find returns the node of an object. Without a namespace, it is the one in the default namespace, or one that has no namespace.
func (o Object) find(g *graph.Graph, namespace string) (graph.Key, error) {
	key := graph.Key{Kind: o.kind, Namespace: o.namespace, Name: o.name}
	var elsewhere []string
	for _, node := range g.Nodes() {
		switch {
		case node.Kind != o.kind || node.Name != o.name:
		case node.Namespace == o.namespace, o.namespace == "" && node.Namespace == namespace:
			return node.Key, nil
		default:
			elsewhere = append(elsewhere, node.Key.String())
		}
	}
	switch {
	case len(elsewhere) > 0 && o.namespace == "":
		return key, fmt.Errorf("there is no %s %s in namespace %s; did you mean %s?", o.kind, o.name, namespace, strings.Join(elsewhere, " or "))
	case kinds()[o.kind]:
		return key, fmt.Errorf("there is no %s, or you may not read it; kubectl get %s -A lists all", o, strings.ToLower(o.kind))
	}
	return key, fmt.Errorf("no object of CAPT that you may read refers to %s", o)
}

// String is how messages name the object.
func (o Object) String() string {
	if o.namespace == "" {
		return o.kind + " " + o.name
	}
	return o.kind + " " + o.namespace + "/" + o.name
}

// of returns the impact of an object of the graph.
func of(g *graph.Graph, root graph.Key, applies []*infrav1.WorkspaceTemplateApply) *Impact {
	reached := sets.New(root)
	for _, node := range g.Downstream(root) {
		reached.Insert(node.Key)
	}
	written := map[string]string{} // The WorkspaceTemplateApply by its Workspace.
	for _, apply := range applies {
		workspace, named := graph.WorkspaceOf(apply)
		if key := graph.NodeOf(apply).Key; named && reached.Has(key) && workspace != root {
			reached.Insert(workspace)
			written[workspace.String()] = key.String()
		}
	}
	document := g.Document(reached.Has)
	i := &Impact{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Impact"}, Root: root.String(),
		Graph: graph.Document{Nodes: document.Nodes, Edges: map[string][]string{}}, Clusters: []string{}, Workspaces: []string{},
	}
	for from, edges := range document.Edges {
		for _, to := range edges {
			if written[to] != from { // A WorkspaceTemplateApply waits for its Workspace, but a change reaches the Workspace through it.
				i.Graph.Edges[to] = append(i.Graph.Edges[to], from)
			}
		}
	}
	for workspace, apply := range written {
		i.Graph.Edges[apply] = append(i.Graph.Edges[apply], workspace)
	}
	i.clean()
	return i
}

// clean sorts, and removes Secrets on which nothing depends: each Cluster has kubeconfigs.
func (i *Impact) clean() {
	unused := sets.New[string]()
	for name, node := range i.Graph.Nodes {
		switch {
		case node.Kind == "Cluster":
			i.Clusters = append(i.Clusters, name)
		case node.Kind == terraform.WorkspaceKind:
			i.Workspaces = append(i.Workspaces, name)
		case node.Kind == graph.SecretKind && len(i.Graph.Edges[name]) == 0 && name != i.Root:
			unused.Insert(name)
			delete(i.Graph.Nodes, name)
		}
	}
	for from, edges := range i.Graph.Edges {
		slices.Sort(edges)
		if i.Graph.Edges[from] = slices.DeleteFunc(slices.Compact(edges), unused.Has); len(i.Graph.Edges[from]) == 0 {
			delete(i.Graph.Edges, from)
		}
	}
	slices.Sort(i.Clusters)
	slices.Sort(i.Workspaces)
}
