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
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate/retry"
)

// GroupVersionKind returns the kind of an object in the version that captctl reads and writes.
func (r ObjectRef) GroupVersionKind() (schema.GroupVersionKind, error) {
	for _, kind := range ReadOrWritten() {
		if kind.Group == r.Group && kind.Kind == r.Kind {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%s of group %q is not a kind that a migration reads or writes", r, r.Group)
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
		if ref := p.CAPTClusters[i].Spec.WorkspaceTemplateApplyRef; ref != nil {
			refs = append(refs, infrastructure("WorkspaceTemplateApply", p.CAPTClusters[i].Namespace, ref.Name))
		}
	}
	for i := range p.ControlPlanes {
		if ref := p.ControlPlanes[i].Spec.WorkspaceTemplateApplyRef; ref != nil {
			refs = append(refs, infrastructure("WorkspaceTemplateApply", p.ControlPlanes[i].Namespace, ref.Name))
		}
	}
	return refs
}

// surroundings are the templates and recorded Workspaces of WorkspaceTemplateApplies.
func (p *partial) surroundings() (refs []ObjectRef) {
	for i := range p.CAPTClusters {
		if template := p.CAPTClusters[i].Spec.VPC.Template; template != nil {
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

// read adds an object and its namespace, each once.
func (p *partial) read(ctx context.Context, ref ObjectRef) error {
	ref.UID = ""
	if p.seen[ref] {
		return nil
	}
	p.seen[ref] = true
	kind, err := ref.GroupVersionKind()
	if ref.Kind == "Namespace" {
		kind, err = corev1.SchemeGroupVersion.WithKind(ref.Kind), nil
	}
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err = p.reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", ref, err)
	}
	if err := p.add(object); err != nil || ref.Namespace == "" {
		return err
	}
	return p.read(ctx, ObjectRef{Kind: "Namespace", Name: ref.Namespace})
}
