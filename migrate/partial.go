// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate/retry"
)

// GroupVersionKind returns the kind of an object in the version that captctl reads and writes.
func (r ObjectRef) GroupVersionKind() (schema.GroupVersionKind, error) {
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, kind := range Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	for _, kind := range kinds {
		if kind.Group == r.Group && kind.Kind == r.Kind {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%s of group %q is not a kind that a migration reads or writes", r, r.Group)
}

// ReadObjects takes a snapshot of some objects only, with the templates and namespaces of their WorkspaceTemplateApplies and the CAPTCluster of
// their Clusters. What does not exist is left out.
func ReadObjects(ctx context.Context, reader client.Reader, refs []ObjectRef, now time.Time) (*Snapshot, error) {
	p := partial{
		reader: reader, seen: map[ObjectRef]bool{}, namespaces: map[string]bool{},
		Snapshot: &Snapshot{Taken: now},
	}
	for _, ref := range refs {
		if err := p.read(ctx, ref); err != nil {
			return nil, err
		}
	}
	for _, related := range []func() []ObjectRef{p.networks, p.applies, p.surroundings} {
		for _, ref := range related() {
			if err := p.read(ctx, ref); err != nil {
				return nil, err
			}
		}
	}
	return p.Snapshot, nil
}

type partial struct {
	*Snapshot
	reader     client.Reader
	seen       map[ObjectRef]bool
	namespaces map[string]bool
}

// networks are the CAPTClusters of Clusters.
func (p *partial) networks() (refs []ObjectRef) {
	for i := range p.Clusters {
		if ref := p.Clusters[i].Spec.InfrastructureRef; ref.Kind == "CAPTCluster" {
			refs = append(refs, ObjectRef{Group: ref.APIGroup, Kind: ref.Kind, Namespace: p.Clusters[i].Namespace, Name: ref.Name})
		}
	}
	return refs
}

// applies are the WorkspaceTemplateApplies that owners refer to.
func (p *partial) applies() (refs []ObjectRef) {
	for i := range p.CAPTClusters {
		if ref := p.CAPTClusters[i].Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
			refs = append(refs, infrastructure("WorkspaceTemplateApply", p.CAPTClusters[i].Namespace, ref.Name))
		}
	}
	for i := range p.ControlPlanes {
		if ref := p.ControlPlanes[i].Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
			refs = append(refs, infrastructure("WorkspaceTemplateApply", p.ControlPlanes[i].Namespace, ref.Name))
		}
	}
	return refs
}

// surroundings are the templates and recorded Workspaces of WorkspaceTemplateApplies.
func (p *partial) surroundings() (refs []ObjectRef) {
	for i := range p.CAPTClusters {
		if template := p.CAPTClusters[i].Spec.VPC.Template; template.IsDefined() {
			key := template.Ref.Key(p.CAPTClusters[i].Namespace)
			refs = append(refs, infrastructure("WorkspaceTemplate", key.Namespace, key.Name))
		}
	}
	for i := range p.ControlPlanes {
		key := p.ControlPlanes[i].Spec.WorkspaceTemplateRef.Key(p.ControlPlanes[i].Namespace)
		refs = append(refs, infrastructure("WorkspaceTemplate", key.Namespace, key.Name))
	}
	for i := range p.Applies {
		apply := &p.Applies[i]
		template := apply.TemplateKey()
		refs = append(refs, infrastructure("WorkspaceTemplate", template.Namespace, template.Name))
		if ref := apply.Status.WorkspaceRef; ref != nil {
			group, _, _ := strings.Cut(ref.APIVersion, "/")
			refs = append(refs, ObjectRef{Group: group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return refs
}

func infrastructure(kind, namespace, name string) ObjectRef {
	return ObjectRef{Group: infrav1.GroupVersion.Group, Kind: kind, Namespace: namespace, Name: name}
}

func (p *partial) read(ctx context.Context, ref ObjectRef) error {
	ref.UID = ""
	if p.seen[ref] {
		return nil
	}
	p.seen[ref] = true
	kind, err := ref.GroupVersionKind()
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err = p.get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", ref, err)
	}
	if err := p.namespace(ctx, ref.Namespace); err != nil {
		return err
	}
	switch {
	case kind.Kind == "Cluster":
		return appendTyped(&p.Clusters, object)
	case kind == terraform.ScopeCluster.GroupVersionKind():
		p.ClusterWideWorkspaces = append(p.ClusterWideWorkspaces, *object)
		return nil
	case kind == terraform.ScopeNamespaced.GroupVersionKind():
		p.NamespacedWorkspaces = append(p.NamespacedWorkspaces, *object)
		return nil
	}
	return p.add(object)
}

func (p *partial) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return retry.Do(ctx, func(ctx context.Context) error { return p.reader.Get(ctx, key, object) })
}

func (p *partial) namespace(ctx context.Context, name string) error {
	if name == "" || p.namespaces[name] {
		return nil
	}
	p.namespaces[name] = true
	namespace := corev1.Namespace{}
	if err := p.get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return fmt.Errorf("reading namespace %s: %w", name, err)
	}
	p.Namespaces = append(p.Namespaces, namespace)
	return nil
}
