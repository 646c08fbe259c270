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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate/retry"
)

// GroupVersionKind returns the kind of an object in the version that captctl reads and writes.
func (r ObjectRef) GroupVersionKind() (schema.GroupVersionKind, error) {
	for _, kind := range append(ReadOrWritten(), corev1.SchemeGroupVersion.WithKind("Namespace")) {
		if kind.Group == r.Group && kind.Kind == r.Kind {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%s of group %q is not a kind that a migration reads or writes", r, r.Group)
}

// Get reads an object; nil if it does not exist.
func Get(ctx context.Context, reader client.Reader, ref ObjectRef) (*unstructured.Unstructured, error) {
	kind, err := ref.GroupVersionKind()
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err = reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return object, nil
}

// ReadObjects takes a snapshot of some objects and what they refer to, with their namespaces. What does not exist is left out.
func ReadObjects(ctx context.Context, reader client.Reader, refs []ObjectRef, now time.Time) (*Snapshot, error) {
	p := partial{reader: retry.Reader(reader), seen: map[ObjectRef]bool{}, Snapshot: &Snapshot{Taken: now}}
	named := func() []ObjectRef { return refs }
	for _, related := range []func() []ObjectRef{named, p.networks, p.applies, p.surroundings} {
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
	reader client.Reader
	seen   map[ObjectRef]bool
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
			refs = append(refs, infrastructure("WorkspaceTemplateApply", types.NamespacedName{Namespace: p.CAPTClusters[i].Namespace, Name: ref.Name}))
		}
	}
	for i := range p.ControlPlanes {
		if ref := p.ControlPlanes[i].Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
			refs = append(refs, infrastructure("WorkspaceTemplateApply", types.NamespacedName{Namespace: p.ControlPlanes[i].Namespace, Name: ref.Name}))
		}
	}
	return refs
}

// surroundings are the templates and recorded Workspaces of WorkspaceTemplateApplies.
func (p *partial) surroundings() (refs []ObjectRef) {
	for i := range p.CAPTClusters {
		if template := p.CAPTClusters[i].Spec.VPC.Template; template.IsDefined() {
			refs = append(refs, infrastructure("WorkspaceTemplate", template.Ref.Key(p.CAPTClusters[i].Namespace)))
		}
	}
	for i := range p.ControlPlanes {
		refs = append(refs, infrastructure("WorkspaceTemplate", p.ControlPlanes[i].Spec.WorkspaceTemplateRef.Key(p.ControlPlanes[i].Namespace)))
	}
	for i := range p.Applies {
		apply := &p.Applies[i]
		refs = append(refs, infrastructure("WorkspaceTemplate", apply.TemplateKey()))
		if ref := apply.Status.WorkspaceRef; ref != nil {
			group, _, _ := strings.Cut(ref.APIVersion, "/")
			refs = append(refs, ObjectRef{Group: group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return refs
}

func infrastructure(kind string, key types.NamespacedName) ObjectRef {
	return ObjectRef{Group: infrav1.GroupVersion.Group, Kind: kind, Namespace: key.Namespace, Name: key.Name}
}

// read adds an object and its namespace, each once.
func (p *partial) read(ctx context.Context, ref ObjectRef) error {
	ref.UID = ""
	if p.seen[ref] {
		return nil
	}
	p.seen[ref] = true
	object, err := Get(ctx, p.reader, ref)
	if err != nil || object == nil {
		return err
	}
	if err := p.add(object); err != nil || ref.Namespace == "" {
		return err
	}
	return p.read(ctx, ObjectRef{Kind: "Namespace", Name: ref.Namespace})
}
