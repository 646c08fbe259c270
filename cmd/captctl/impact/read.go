// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// Reader reads the fleet.
type Reader struct {
	client.Reader
	// Namespace is the one of objects that are named without one, and the only one that is read if the user may not read all.
	Namespace string
	// Warnings gets once what the user may not read.
	Warnings io.Writer

	warned sets.Set[string]
	graph  *graph.Graph
	only   string // Only is the namespace that is read; empty for all.
	// configs are the ProviderConfigs that were read.
	configs sets.Set[graph.Key]
}

// Read returns the impact of an object.
func (r *Reader) Read(ctx context.Context, object Object) (*Impact, error) {
	r.only, r.configs = "", sets.New[graph.Key]()
	all, err := cli.ReadObjects(ctx, r, "")
	if apierrors.IsForbidden(err) {
		r.warn(fmt.Sprintf("only namespace %s is read: %v", r.Namespace, err))
		r.only = r.Namespace
		all, err = cli.ReadObjects(ctx, r, r.only)
	}
	if err != nil {
		return nil, err
	}
	var templates infrav1.WorkspaceTemplateList
	if err := r.List(ctx, &templates, client.InNamespace(r.only)); err != nil {
		return nil, err
	}
	var applies []*infrav1.WorkspaceTemplateApply
	for _, apply := range all.Applies {
		applies = append(applies, apply)
	}
	r.build(all, applies, templates.Items)
	for _, scope := range terraform.Scopes() {
		if err := r.addWorkspaces(ctx, scope, applies); err != nil {
			return nil, err
		}
	}
	root, err := object.find(r.graph, r.Namespace)
	if err != nil {
		return nil, err
	}
	return of(r.graph, root, applies), nil
}

// warn prints a warning once, also if --watch reads often.
func (r *Reader) warn(text string) {
	if r.warned == nil {
		r.warned = sets.New[string]()
	}
	if !r.warned.Has(text) {
		r.warned.Insert(text)
		fmt.Fprintln(r.Warnings, "Warning: "+text)
	}
}

// build builds the graph of the objects of CAPT.
func (r *Reader) build(all *cli.Objects, applies []*infrav1.WorkspaceTemplateApply, templates []infrav1.WorkspaceTemplate) {
	known := map[types.NamespacedName]*infrav1.WorkspaceTemplate{}
	for key, template := range cli.Indexed(templates) {
		known[key] = template
	}
	byNamespace := map[string][]*infrav1.WorkspaceTemplateApply{}
	for _, apply := range applies {
		byNamespace[apply.Namespace] = append(byNamespace[apply.Namespace], apply)
	}
	var members []*graph.Objects
	var others []*clusterv1.Cluster // They have no control plane yet, or no more.
	for i := range all.Clusters {
		c := &all.Clusters[i]
		captCluster, controlPlane := all.Of(c)
		if controlPlane == nil {
			others = append(others, c)
			continue
		}
		members = append(members, &graph.Objects{
			ControlPlane: controlPlane, Cluster: c, CAPTCluster: captCluster, Applies: byNamespace[c.Namespace], Templates: known, Secrets: sets.New[string](),
		})
	}
	r.graph = graph.Fleet(members, applies)
	for _, c := range others {
		if captCluster, _ := all.Of(c); captCluster != nil {
			r.graph.AddNode(graph.NodeOf(c))
			r.addCAPTCluster(graph.NodeOf(c).Key, captCluster)
		}
	}
	for _, template := range known {
		r.graph.AddNode(graph.NodeOf(template))
	}
	for _, node := range r.graph.Nodes() {
		if node.Kind == graph.SecretKind { // They are not read.
			r.graph.AddNode(graph.Node{Key: node.Key, Ready: metav1.ConditionUnknown})
		}
	}
}

func (r *Reader) addCAPTCluster(of graph.Key, captCluster *infrav1.CAPTCluster) {
	node := graph.NodeOf(captCluster)
	r.graph.AddNode(node)
	r.graph.AddEdge(graph.Edge{From: of, To: node.Key})
	if name := captCluster.Spec.WorkspaceTemplateApplyRef.Name; name != "" {
		r.graph.AddEdge(graph.Edge{From: node.Key, To: graph.Key{Kind: "WorkspaceTemplateApply", Namespace: node.Namespace, Name: name}})
	}
}

// addWorkspaces adds what the Workspaces of a scope refer to: WorkspaceTemplateApplies depend on it.
func (r *Reader) addWorkspaces(ctx context.Context, scope terraform.Scope, applies []*infrav1.WorkspaceTemplateApply) error {
	owners := map[graph.Key]graph.Key{}
	for _, apply := range applies {
		if key, named := graph.WorkspaceOf(apply); named {
			owners[key] = graph.NodeOf(apply).Key
		}
	}
	namespace, kind := r.only, scope.GroupVersionKind()
	if scope == terraform.ScopeCluster {
		namespace = ""
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	switch err := r.List(ctx, &list, client.InNamespace(namespace)); {
	case meta.IsNoMatchError(err):
		return nil
	case apierrors.IsForbidden(err):
		r.warn(fmt.Sprintf("what Workspaces refer to (Secrets, ConfigMaps, ProviderConfigs) is not shown: %v", err))
		return nil
	case err != nil:
		return err
	}
	for i := range list.Items {
		workspace := &list.Items[i]
		owner, owned := owners[graph.Key{Kind: terraform.WorkspaceKind, Namespace: workspace.GetNamespace(), Name: workspace.GetName()}]
		if !owned {
			continue
		}
		if err := r.addReferences(owner, workspace); err != nil {
			return err
		}
		if err := r.addProviderConfig(ctx, owner, workspace); err != nil {
			return err
		}
	}
	return nil
}

// addReferences adds the Secrets and ConfigMaps that a Workspace reads.
func (r *Reader) addReferences(owner graph.Key, workspace *unstructured.Unstructured) error {
	spec, err := render.SpecOf(workspace)
	if err != nil {
		return err
	}
	for _, ref := range spec.References(nil) {
		if !ref.Connection {
			name, _, _ := strings.Cut(ref.Object, "/")
			r.uses(owner, graph.Key{Kind: ref.Kind, Namespace: cmp.Or(*ref.Namespace, workspace.GetNamespace()), Name: name})
		}
	}
	return nil
}

// addProviderConfig adds the ProviderConfig of a Workspace, with its credentials.
func (r *Reader) addProviderConfig(ctx context.Context, owner graph.Key, workspace *unstructured.Unstructured) error {
	kind, name, namespaced := strings.Cut(render.ProviderConfigOf(workspace), "/")
	key := graph.Key{Kind: kind, Name: name}
	switch {
	case !namespaced:
		key = graph.Key{Kind: providerConfigKind, Name: kind}
	case kind == providerConfigKind:
		key.Namespace = workspace.GetNamespace()
	}
	r.uses(owner, key)
	if r.configs.Has(key) {
		return nil
	}
	r.configs.Insert(key)
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(workspace.GroupVersionKind().GroupVersion().WithKind(key.Kind))
	switch err := r.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, config); {
	case apierrors.IsForbidden(err):
		r.warn(fmt.Sprintf("Secrets with credentials of the %s %s are not shown: %v", key.Kind, key.Name, err))
	case client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err):
		return err
	}
	credentials, _, _ := unstructured.NestedSlice(config.Object, "spec", "credentials")
	for _, entry := range credentials {
		fields, _ := entry.(map[string]any)
		secret, _, _ := unstructured.NestedString(fields, "secretRef", "name")
		namespace, _, _ := unstructured.NestedString(fields, "secretRef", "namespace")
		if secret != "" {
			r.uses(key, graph.Key{Kind: graph.SecretKind, Namespace: cmp.Or(namespace, key.Namespace), Name: secret})
		}
	}
	return nil
}

// uses adds a dependency on an object that is not read.
func (r *Reader) uses(from, to graph.Key) {
	r.graph.AddEdge(graph.Edge{From: from, To: to})
	r.graph.AddNode(graph.Node{Key: to, Ready: metav1.ConditionUnknown})
}
