// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/changes"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// source has the objects that determine Workspaces. Each kind is listed once; a template, of which a fleet has few, is read when it is needed.
type source struct {
	reader    client.Reader
	namespace string // Namespace to which all is limited; empty for all.
	one       bool   // One Cluster is compared, so that its Workspaces are read one by one: a list of cluster-scoped ones would have the whole fleet.

	clusters      []clusterv1.Cluster
	captClusters  map[types.NamespacedName]*infrav1.CAPTCluster
	controlPlanes map[types.NamespacedName]*controlplanev1.CAPTControlPlane
	applies       map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
	templates     map[types.NamespacedName]*infrav1.WorkspaceTemplate // Nil if it does not exist.
	namespaces    map[string]labels.Set                               // Nil if it does not exist.
	workspaces    map[terraform.Scope]map[types.NamespacedName]*unstructured.Unstructured
	unlistable    map[terraform.Scope]error // Why the Workspaces of a scope could not be listed, so that this is not tried again.
	// edited are the objects of files, by kind and key.
	edited map[string]bool
}

func read(ctx context.Context, reader client.Reader, namespace string) (*source, error) {
	all, err := cli.ReadObjects(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	return &source{
		reader: reader, namespace: namespace,
		clusters: all.Clusters, captClusters: all.CAPTClusters, controlPlanes: all.ControlPlanes, applies: all.Applies,
		templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{}, namespaces: map[string]labels.Set{},
		workspaces: map[terraform.Scope]map[types.NamespacedName]*unstructured.Unstructured{}, unlistable: map[terraform.Scope]error{}, edited: map[string]bool{},
	}, nil
}

// template returns a template; nil if it does not exist.
func (s *source) template(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	if known, ok := s.templates[key]; ok {
		return known, nil
	}
	template := &infrav1.WorkspaceTemplate{}
	err := s.reader.Get(ctx, key, template)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading WorkspaceTemplate %s: %w", key, err)
	}
	if err != nil {
		template = nil
	}
	s.templates[key] = template
	return template, nil
}

func (s *source) labelsOf(ctx context.Context, name string) (labels.Set, error) {
	if known, ok := s.namespaces[name]; ok {
		return known, nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := s.reader.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	s.namespaces[name] = namespace.Labels // Also if it does not exist.
	return namespace.Labels, nil
}

// workspace returns a Workspace; nil if it does not exist.
func (s *source) workspace(ctx context.Context, scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if scope == terraform.ScopeCluster {
		key.Namespace = ""
	}
	if s.one {
		workspace := &unstructured.Unstructured{}
		workspace.SetGroupVersionKind(scope.GroupVersionKind())
		err := s.reader.Get(ctx, key, workspace)
		if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
			if err != nil {
				workspace = nil
			}
			return workspace, nil
		}
		return nil, fmt.Errorf("reading Workspace %s: %w", key, err)
	}
	if s.workspaces[scope] == nil {
		var list unstructured.UnstructuredList
		kind := scope.GroupVersionKind()
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.reader.List(ctx, &list, client.InNamespace(map[bool]string{false: s.namespace}[scope == terraform.ScopeCluster])); err != nil && !meta.IsNoMatchError(err) {
			s.unlistable[scope] = fmt.Errorf("listing Workspaces: %w", err)
		}
		s.workspaces[scope] = cli.Indexed(list.Items)
	}
	return s.workspaces[scope][key], s.unlistable[scope]
}

// fleet returns the objects as package changes needs them.
func (s *source) fleet(ctx context.Context) *changes.Fleet {
	return &changes.Fleet{
		Source: changes.Source{
			TemplateOf: func(key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) { return s.template(ctx, key) },
			LabelsOf:   func(namespace string) (labels.Set, error) { return s.labelsOf(ctx, namespace) },
			WorkspaceOf: func(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error) {
				return s.workspace(ctx, scope, namespace, name)
			},
		},
		Clusters: s.clusters, CAPTClusters: s.captClusters, ControlPlanes: s.controlPlanes, Applies: s.applies, Evidence: legacy.EvidenceFor, Held: notAdopted,
	}
}

// notAdopted is why the manager writes nothing for an object that CAPT v0.3 created.
func notAdopted(object metav1.Object) string {
	apply, ok := object.(*infrav1.WorkspaceTemplateApply)
	if ok && legacy.UnadoptedWorkspace(apply) == "" || !ok && !legacy.IsPending(object) {
		return ""
	}
	return "CAPT v0.3 created it, and it has not been adopted; captctl migrate plan shows what an adoption changes"
}

// isAffected reports whether a file has the unit, its template, or one of its owners.
func (s *source) isAffected(u *changes.Unit) bool {
	apply := u.Apply()
	template := infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: apply.TemplateKey().Namespace, Name: apply.TemplateKey().Name}}
	objects := append([]validation.Owner{apply, &template}, u.Others...)
	if u.Owner != nil {
		objects = append(objects, u.Owner)
	}
	return slices.ContainsFunc(objects, func(object validation.Owner) bool { return s.edited[editKey(object)] })
}

// lookup is a validation.Reader of the objects, as they are edited.
type lookup struct {
	validation.Objects
	source *source
}

func (s *source) lookup() validation.Reader {
	found := lookup{source: s}
	for i := range s.clusters {
		found.Objects = append(found.Objects, &s.clusters[i])
	}
	for _, object := range s.captClusters {
		found.Objects = append(found.Objects, object)
	}
	for _, object := range s.controlPlanes {
		found.Objects = append(found.Objects, object)
	}
	for _, object := range s.applies {
		found.Objects = append(found.Objects, object)
	}
	return found
}

// WorkspaceTemplate implements validation.Reader.
func (l lookup) WorkspaceTemplate(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	return l.source.template(ctx, key)
}

// NamespaceLabels implements validation.Reader.
func (l lookup) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	return l.source.labelsOf(ctx, name)
}
