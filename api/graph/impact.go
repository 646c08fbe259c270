// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Impact is what an edit or the deletion of an object can affect.
type Impact struct {
	metav1.TypeMeta `json:",inline"`
	Root            string `json:"root"` // Root is the name of the node of the object.
	// Graph has the object and what depends on it, directly or not. Its edges lead from an object to those that depend on it.
	Graph      Document `json:"graph"`
	Clusters   []string `json:"clusters"`   // Clusters are the nodes that are Clusters, sorted.
	Workspaces []string `json:"workspaces"` // Workspaces are the nodes that are Workspaces, sorted.
}

// Kinds that are nodes of the graph of a fleet only.
const (
	ConfigMapKind             = "ConfigMap"
	ProviderConfigKind        = "ProviderConfig"
	clusterProviderConfigKind = "ClusterProviderConfig"
)

// kinds are those of objects that others can depend on. The value is true for those of which CAPT knows all objects.
func kinds() map[string]bool {
	return map[string]bool{
		clusterKind: true, captClusterKind: true, controlPlaneKind: true, TemplateKind: true, applyKind: true,
		workspaceKind: false, SecretKind: false, ConfigMapKind: false, ProviderConfigKind: false, clusterProviderConfigKind: false,
	}
}

// ParseKey returns the object that KIND/NAME or KIND/NAMESPACE/NAME names.
func ParseKey(text string) (Key, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 1, "")
	}
	if len(parts) != 3 || parts[2] == "" {
		return Key{}, fmt.Errorf("%q: must be KIND/NAME or KIND/NAMESPACE/NAME", text)
	}
	for kind := range kinds() {
		if strings.EqualFold(kind, parts[0]) {
			return Key{kind, parts[1], parts[2]}, nil
		}
	}
	return Key{}, fmt.Errorf("no object of CAPT depends on the kind %q; use one of %s", parts[0], strings.Join(sets.List(sets.KeySet(kinds())), ", "))
}

// Find returns the node of an object. Without a namespace, it is the one in the default namespace, or one that has no namespace.
func (g *Graph) Find(key Key, namespace string) (Key, error) {
	var elsewhere []string
	for _, node := range g.Nodes() {
		switch {
		case node.Kind != key.Kind || node.Name != key.Name:
		case node.Namespace == key.Namespace, key.Namespace == "" && node.Namespace == namespace:
			return node.Key, nil
		default:
			elsewhere = append(elsewhere, node.Key.String())
		}
	}
	named := key.Kind + " " + strings.TrimPrefix(key.Namespace+"/"+key.Name, "/")
	switch {
	case len(elsewhere) > 0 && key.Namespace == "":
		return key, fmt.Errorf("there is no %s in namespace %s; did you mean %s?", named, namespace, strings.Join(elsewhere, " or "))
	case kinds()[key.Kind]:
		return key, fmt.Errorf("there is no %s, or you may not read it; kubectl get %s -A lists all", named, strings.ToLower(key.Kind))
	}
	return key, fmt.Errorf("no object of CAPT that you may read refers to %s", named)
}

// ImpactOf returns the impact of an object of the graph.
func (g *Graph) ImpactOf(root Key, applies []*infrav1.WorkspaceTemplateApply) *Impact {
	reached := sets.New(root)
	for _, node := range g.Downstream(root) {
		reached.Insert(node.Key)
	}
	written := map[string]string{} // The WorkspaceTemplateApply by its Workspace.
	for _, apply := range applies {
		workspace, named := WorkspaceOf(apply)
		if key := NodeOf(apply).Key; named && reached.Has(key) && workspace != root {
			reached.Insert(workspace)
			written[workspace.String()] = key.String()
		}
	}
	document := g.Document(reached.Has)
	i := &Impact{
		Root:  root.String(),
		Graph: Document{Nodes: document.Nodes, Edges: map[string][]string{}}, Clusters: []string{}, Workspaces: []string{},
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
		case node.Kind == clusterKind:
			i.Clusters = append(i.Clusters, name)
		case node.Kind == workspaceKind:
			i.Workspaces = append(i.Workspaces, name)
		case node.Kind == SecretKind && len(i.Graph.Edges[name]) == 0 && name != i.Root:
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
