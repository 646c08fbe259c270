// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/owners"
)

// An older version has no words for some fields. What is in them travels in the conversion-data annotation, which a manifest in
// Git does not have: kubectl replace, and every tool that writes objects whole, leaves it out. Such a write says nothing of
// those fields, and must not wipe them. Nor may it write them, by an annotation of its own making. So they are what they were.

// keepCluster is that for a CAPTCluster. What belongs to one source of the VPC goes with it.
func keepCluster(ctx context.Context, world validation.World, old, captCluster *infrav1.CAPTCluster) error {
	before, now := &old.Spec.VPC, &captCluster.Spec.VPC
	now.ConnectionSecretRef = infrav1.LocalSecretReference{}
	if now.ExistingID == before.ExistingID {
		now.ConnectionSecretRef = before.ConnectionSecretRef
	}
	if now.Template.IsDefined() && before.Template.IsDefined() {
		now.Template.Variables = maps.Clone(before.Template.Variables)
		return keepPinned(ctx, world, old.Namespace, before.Template.Ref, &now.Template.Ref)
	}
	return nil
}

// keepControlPlane is that for a CAPTControlPlane. An endpoint that adoption has repaired is not broken again.
func keepControlPlane(ctx context.Context, world validation.World, old, controlPlane *controlplanev1.CAPTControlPlane) error {
	before, now := old.Spec.DeepCopy(), &controlPlane.Spec
	now.Variables, now.Kubeconfig, now.EndpointProbe, now.Recovery = before.Variables, before.Kubeconfig, before.EndpointProbe, before.Recovery
	if before.Timeouts.SecretSeconds != 0 && now.Timeouts != (controlplanev1.Timeouts{}) {
		now.Timeouts.SecretSeconds = before.Timeouts.SecretSeconds
	}
	if repaired := owners.Endpoint(now.ControlPlaneEndpoint); repaired == before.ControlPlaneEndpoint {
		now.ControlPlaneEndpoint = repaired
	}
	return keepPinned(ctx, world, old.Namespace, before.WorkspaceTemplateRef, &now.WorkspaceTemplateRef)
}

// keepTemplate is that for a WorkspaceTemplate.
func keepTemplate(_ context.Context, _ validation.World, old, template *infrav1.WorkspaceTemplate) error {
	before, now := old.Spec.DeepCopy(), &template.Spec
	now.WorkspaceScope, now.AllowedNamespaces, now.PublishOutputs = before.WorkspaceScope, before.AllowedNamespaces, before.PublishOutputs
	if was, is := before.Template.Spec.ProviderConfigRef, now.Template.Spec.ProviderConfigRef; was != nil && is != nil && was.Name == is.Name {
		is.Kind = was.Kind
	}
	was, is := &before.Template.Spec.ForProvider, &now.Template.Spec.ForProvider
	if was.Source == is.Source && is.Source != terraform.SourceInline {
		is.RemotePullPolicy = was.RemotePullPolicy
	}
	return nil
}

// keepApply is that for a WorkspaceTemplateApply. That it retains its Workspace could be said in v1beta1. But what captctl said on
// adoption, no older manifest knows: without this, such a manifest would have the Workspace of a helper destroyed with it.
func keepApply(ctx context.Context, world validation.World, old, apply *infrav1.WorkspaceTemplateApply) error {
	for i := range apply.Spec.WaitForSecrets {
		now := &apply.Spec.WaitForSecrets[i]
		now.Keys = nil
		for _, before := range old.Spec.WaitForSecrets {
			if before.Name == now.Name && before.Namespace == now.Namespace {
				now.Keys = slices.Clone(before.Keys)
			}
		}
	}
	// A whole replacement removes captctl from managedFields, so that the field itself is known only the first time.
	if old.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain && (adoption.Helper(old) != "" || adoption.KeepsSpotRole(old) || writtenByMigration(old.ManagedFields, "spec", "deletionPolicy")) {
		apply.Spec.DeletionPolicy = old.Spec.DeletionPolicy
	}
	return keepPinned(ctx, world, old.Namespace, old.Spec.TemplateRef, &apply.Spec.TemplateRef)
}

// keepPinned keeps a reference to a template that captctl migrate created to reproduce a Workspace. Manifests of CAPT v0.3 name the
// template that the Workspace has drifted from, and Terraform would apply the drift.
func keepPinned(ctx context.Context, world validation.World, namespace string, before infrav1.WorkspaceTemplateReference, now *infrav1.WorkspaceTemplateReference) error {
	if before.Key(namespace) == now.Key(namespace) {
		return nil
	}
	template, err := world.WorkspaceTemplate(ctx, before.Key(namespace))
	if err == nil && template != nil && template.Labels[naming.PinnedLabel] == "true" {
		*now = before
	}
	return err
}

// writtenByMigration reports whether captctl migrate was the last to write a field.
func writtenByMigration(managed []metav1.ManagedFieldsEntry, path ...any) bool {
	field := fieldpath.MakePathOrDie(path...)
	return slices.ContainsFunc(managed, func(entry metav1.ManagedFieldsEntry) bool {
		if entry.Manager != naming.MigrationFieldManager || entry.FieldsV1 == nil {
			return false
		}
		fields := fieldpath.NewSet()
		return fields.FromJSON(entry.FieldsV1.GetRawReader()) == nil && fields.Has(field)
	})
}
