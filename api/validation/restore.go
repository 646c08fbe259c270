// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// RestoreFields restores the fields of an object that an update omits: its identity, and fields of spec that CAPT wrote.
func RestoreFields(old, object metav1.Object) {
	keepIdentity(old, object)
	switch object := object.(type) {
	case *controlplanev1.CAPTControlPlane:
		keepControlPlane(old.(*controlplanev1.CAPTControlPlane), object)
	case *infrav1.CAPTMachinePool:
		before := &old.(*infrav1.CAPTMachinePool).Spec
		object.Spec.ProviderID = cmp.Or(object.Spec.ProviderID, before.ProviderID)
		// Cluster API deletes the nodes that are not in the list, and a manifest that was exported has those of its time.
		if len(object.Spec.ProviderIDList) == 0 || !annotations.IsExternallyManaged(object) {
			object.Spec.ProviderIDList = slices.Clone(before.ProviderIDList)
		}
	case *infrav1.WorkspaceTemplate:
		before := &old.(*infrav1.WorkspaceTemplate).Spec
		object.Spec.Substitution = cmp.Or(object.Spec.Substitution, before.Substitution)
		object.Spec.PassVariables = cmp.Or(object.Spec.PassVariables, before.PassVariables)
	}
}

// SetTemplateDefaults sets the defaults of substitution and passVariables of a new template. Those that are written in v1beta1 have none, nor has one that was stored without it, and that
// clusterctl move or a restore creates again: its Workspaces exist. A finalizer of CAPT shows that.
func SetTemplateDefaults(template *infrav1.WorkspaceTemplate) {
	if slices.Contains(template.Finalizers, infrav1.WorkspaceTemplateFinalizer) || slices.Contains(template.Finalizers, infrav1.LegacyWorkspaceTemplateFinalizer) {
		return
	}
	template.Spec.Substitution = cmp.Or(template.Spec.Substitution, infrav1.SubstitutionFields)
	template.Spec.PassVariables = cmp.Or(template.Spec.PassVariables, infrav1.PassDeclared)
}

// keepControlPlane corrects an endpoint in the invalid form of CAPT v0.3, or removes it so that the controller writes it again.
func keepControlPlane(old, controlPlane *controlplanev1.CAPTControlPlane) {
	if controlPlane.Spec.Version != old.Spec.Version { // An unchanged version keeps its form: a write of other fields must not change spec.version.
		CompleteVersion(controlPlane)
	}
	if controlPlane.Spec.ControlPlaneEndpoint.IsZero() {
		controlPlane.Spec.ControlPlaneEndpoint = RepairEndpoint(old.Spec.ControlPlaneEndpoint)
	}
}

// CompleteVersion changes spec.version to the form that Cluster API's contract requires: a semantic version with the prefix v. It ignores
// an invalid version, which validation rejects.
func CompleteVersion(controlPlane *controlplanev1.CAPTControlPlane) {
	if version, err := ParseKubernetesVersion(controlPlane.Spec.Version); err == nil {
		controlPlane.Spec.Version = version.Semantic
	}
}

// Hub fields are fields that older versions do not have. In objects of an older version, their values are in the conversion-data
// annotation. A manifest in Git does not have the annotation, so kubectl replace, and every tool that writes whole objects, omits it. Such
// a write must not remove these fields, and must not set them through a forged annotation. So the functions of this file copy them from the
// old object.

// RestoreHubFields restores the fields that older versions do not have.
func RestoreHubFields(ctx context.Context, reader Reader, old, object metav1.Object) error {
	switch object := object.(type) {
	case *infrav1.CAPTCluster:
		return restoreCAPTCluster(ctx, reader, old.(*infrav1.CAPTCluster), object)
	case *controlplanev1.CAPTControlPlane:
		return restoreControlPlane(ctx, reader, old.(*controlplanev1.CAPTControlPlane), object)
	case *infrav1.WorkspaceTemplate:
		restoreTemplate(old.(*infrav1.WorkspaceTemplate), object)
	case *infrav1.WorkspaceTemplateApply:
		return restoreApply(ctx, reader, old.(*infrav1.WorkspaceTemplateApply), object)
	}
	return nil
}

// restoreCAPTCluster restores the fields of a CAPTCluster that v1beta1 does not have. Fields of a VPC source are restored only if the
// write keeps that source.
func restoreCAPTCluster(ctx context.Context, reader Reader, old, captCluster *infrav1.CAPTCluster) error {
	captCluster.Spec.DeletionProtection = old.Spec.DeletionProtection
	before, now := &old.Spec.VPC, &captCluster.Spec.VPC
	now.ConnectionSecretRef = infrav1.LocalSecretReference{}
	if now.ExistingID == before.ExistingID {
		now.ConnectionSecretRef = before.ConnectionSecretRef
	}
	if now.Template.IsDefined() && before.Template.IsDefined() {
		now.Template.Variables, now.Template.TimeoutSeconds = maps.Clone(before.Template.Variables), before.Template.TimeoutSeconds
		return keepPinned(ctx, reader, old.Namespace, before.Template.Ref, &now.Template.Ref)
	}
	return nil
}

// restoreControlPlane restores the fields of a CAPTControlPlane that v1beta1 does not have, and the endpoint that adoption corrected.
func restoreControlPlane(ctx context.Context, reader Reader, old, controlPlane *controlplanev1.CAPTControlPlane) error {
	before, now := old.Spec.DeepCopy(), &controlPlane.Spec
	now.Variables, now.Kubeconfig, now.EndpointProbe, now.Recovery = before.Variables, before.Kubeconfig, before.EndpointProbe, before.Recovery
	now.DeletionProtection, now.EKSClusterName = before.DeletionProtection, before.EKSClusterName
	if before.Timeouts.SecretSeconds != 0 && now.Timeouts != (controlplanev1.Timeouts{}) {
		now.Timeouts.SecretSeconds = before.Timeouts.SecretSeconds
	}
	if repaired := RepairEndpoint(now.ControlPlaneEndpoint); repaired == before.ControlPlaneEndpoint {
		now.ControlPlaneEndpoint = repaired
	}
	return keepPinned(ctx, reader, old.Namespace, before.WorkspaceTemplateRef, &now.WorkspaceTemplateRef)
}

// restoreTemplate restores the fields of a WorkspaceTemplate that v1beta1 does not have.
func restoreTemplate(old, template *infrav1.WorkspaceTemplate) {
	before, now := old.Spec.DeepCopy(), &template.Spec
	now.WorkspaceScope, now.AllowedNamespaces, now.PublishOutputs = before.WorkspaceScope, before.AllowedNamespaces, before.PublishOutputs
	now.Rollout, now.Substitution = before.Rollout, before.Substitution
	now.PassVariables, now.Inputs = before.PassVariables, before.Inputs
	if was, is := before.Template.Spec.ProviderConfigRef, now.Template.Spec.ProviderConfigRef; was != nil && is != nil && was.Name == is.Name {
		is.Kind = was.Kind
	}
	was, is := &before.Template.Spec.ForProvider, &now.Template.Spec.ForProvider
	if was.Source == is.Source && is.Source != terraform.SourceInline {
		is.RemotePullPolicy = was.RemotePullPolicy
	}
}

// restoreApply restores the fields of a WorkspaceTemplateApply that v1beta1 does not have. It also restores the deletion policy
// Retain, which v1beta1 has, if captctl migrate set it on adoption: manifests from before the adoption do not have it, and the Workspace of
// a helper would be destroyed with the helper.
func restoreApply(ctx context.Context, reader Reader, old, apply *infrav1.WorkspaceTemplateApply) error {
	for name, was := range old.Spec.Variables { // In v1beta1, all values are strings.
		if apply.Spec.Variables.Has(name) && apply.Spec.Variables.Text(name) == old.Spec.Variables.Text(name) {
			apply.Spec.Variables[name] = was
		}
	}
	for i := range apply.Spec.WaitForSecrets {
		now := &apply.Spec.WaitForSecrets[i]
		now.Keys = nil
		for _, before := range old.Spec.WaitForSecrets {
			if before.Name == now.Name && before.Namespace == now.Namespace {
				now.Keys = slices.Clone(before.Keys)
			}
		}
	}
	// A replacement of the whole object removes captctl from managedFields, so managedFields prove this only for the first replacement.
	if old.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain && (legacy.HelperRole(old) != "" || legacy.IsSpotRoleHelper(old) || writtenByMigration(old.ManagedFields, "spec", "deletionPolicy")) {
		apply.Spec.DeletionPolicy = old.Spec.DeletionPolicy
	}
	apply.Spec.TemplateRevision, apply.Spec.TerraformState = old.Spec.TemplateRevision, old.Spec.TerraformState
	return keepPinned(ctx, reader, old.Namespace, old.Spec.TemplateRef, &apply.Spec.TemplateRef)
}

// keepPinned restores a reference to a template that captctl migrate created to reproduce a Workspace. Manifests of CAPT v0.3 refer to the
// original template, which no longer matches the Workspace: Terraform would apply the difference.
func keepPinned(ctx context.Context, reader Reader, namespace string, before infrav1.WorkspaceTemplateReference, now *infrav1.WorkspaceTemplateReference) error {
	if before.Key(namespace) == now.Key(namespace) {
		return nil
	}
	template, err := PermittedTemplate(ctx, reader, before.Key(namespace), namespace)
	if template != nil && template.Labels[naming.PinnedLabel] == "true" {
		*now = before
	}
	return err
}

// writtenByMigration reports whether captctl migrate owns a field according to managedFields.
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

// IdentityField is a field that determines which cloud resources an object has, or what is applied to them. Admission, the policy capt-written-once and
// its tests use these fields. The records in status are not among them: users cannot write status, and conversion takes no status from annotations
// (webhooks/conversion/preserve).
type IdentityField struct {
	// Path of the field.
	Path *field.Path
	// Value points to the field; empty means absent.
	Value *string
	// Assigned is true if only CAPT may set the field, to any value; users may remove it. The other fields can be set once, by anyone who can write
	// the object. Only captctl migrate may remove them, to roll back an adoption.
	Assigned bool
	// AtCreation is true for an assigned field that never changes after the creation of the object. Its value is assigned by users with the right to migrate.
	AtCreation bool
}

// IdentityOf returns the fields of an object. The fields of a Fargate profile exist as long as the profile does.
func IdentityOf(object metav1.Object) []IdentityField {
	spec := field.NewPath("spec")
	reference := func(path *field.Path, ref *infrav1.WorkspaceTemplateApplyReference) IdentityField {
		return IdentityField{Path: path.Child("workspaceTemplateApplyRef", "name"), Value: &ref.Name}
	}
	switch o := object.(type) {
	case *infrav1.CAPTCluster:
		return []IdentityField{reference(spec, &o.Spec.WorkspaceTemplateApplyRef)}
	case *controlplanev1.CAPTControlPlane:
		fields := []IdentityField{reference(spec, &o.Spec.WorkspaceTemplateApplyRef), {Path: spec.Child("eksClusterName"), Value: &o.Spec.EKSClusterName}}
		for i := range o.Spec.FargateProfiles {
			profile := &o.Spec.FargateProfiles[i]
			fields = append(fields, reference(spec.Child("fargateProfiles").Key(profile.Name), &profile.WorkspaceTemplateApplyRef))
		}
		return fields
	case *infrav1.CAPTMachinePool:
		return []IdentityField{reference(spec, &o.Spec.WorkspaceTemplateApplyRef)}
	case *infrav1.WorkspaceTemplateApply:
		return []IdentityField{
			{Path: spec.Child("workspaceName"), Value: &o.Spec.WorkspaceName},
			{Path: spec.Child("terraformState", "name"), Value: &o.Spec.TerraformState.Name, Assigned: true, AtCreation: true},
			{Path: spec.Child("terraformState", "providerConfig"), Value: &o.Spec.TerraformState.ProviderConfig, Assigned: true, AtCreation: true},
			{Path: spec.Child("templateRevision"), Value: &o.Spec.TemplateRevision, Assigned: true},
		}
	}
	return nil
}

// keepIdentity restores the fields that an update omits, for example when a manifest without them replaces the object. A field that CAPT assigns may be
// removed.
func keepIdentity(old, object metav1.Object) {
	before := byPath(old)
	for _, f := range IdentityOf(object) {
		if *f.Value == "" && (!f.Assigned || f.AtCreation) {
			*f.Value = before[f.Path.String()]
		}
	}
}

// AssignedFields returns the fields that only CAPT may assign, and that an update sets to another value. The old object of a new one is empty.
func AssignedFields(old, object metav1.Object) []IdentityField {
	before := byPath(old)
	var found []IdentityField
	for _, f := range IdentityOf(object) {
		if f.Assigned && *f.Value != "" && *f.Value != before[f.Path.String()] {
			found = append(found, f)
		}
	}
	return found
}

func byPath(object metav1.Object) map[string]string {
	values := map[string]string{}
	for _, f := range IdentityOf(object) {
		values[f.Path.String()] = *f.Value
	}
	return values
}
