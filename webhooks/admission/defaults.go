// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// setDefaults sets the defaults of a new object: the WorkspaceTemplateApply of a VPC that has a template and of a control plane, the Workspace of a
// WorkspaceTemplateApply, and the whole version of a control plane. A control plane without a template gets no reference: validation rejects it.
func setDefaults(ctx context.Context, reader validation.Reader, object any) error {
	switch object := object.(type) {
	case *infrav1.CAPTCluster:
		if object.Spec.VPC.Template.IsDefined() {
			return defaultReference(ctx, reader, object, &object.Spec.WorkspaceTemplateApplyRef, legacy.ExpectationOfCAPTCluster(object, ""))
		}
	case *controlplanev1.CAPTControlPlane:
		validation.CompleteVersion(object)
		if object.Spec.WorkspaceTemplateRef.Name != "" {
			return defaultReference(ctx, reader, object, &object.Spec.WorkspaceTemplateApplyRef, legacy.ExpectationOfControlPlane(object, ""))
		}
	case *infrav1.WorkspaceTemplateApply:
		return defaultWorkspaceName(ctx, reader, object)
	}
	return nil
}

// defaultReference sets the reference to the WorkspaceTemplateApply that the controller will create, with the name of the naming scheme, except in these
// cases, in which the controller sets it later:
//
//   - A WorkspaceTemplateApply with that name exists: the user must decide whether it belongs to the owner (AdoptionRequired).
//   - The namespace has a WorkspaceTemplateApply of CAPT v0.3 without a controller: it may belong to the owner. Only the controller can
//     determine that, because it knows the Cluster (claim.Expectation.Candidates).
//   - The status of the owner records cloud resources: the owner was restored from a backup, and its WorkspaceTemplateApply may be
//     restored next, with any name.
//   - The owner has only generateName.
func defaultReference(ctx context.Context, reader validation.Reader, owner validation.Owner, ref *infrav1.WorkspaceTemplateApplyReference, want claim.Expectation) error {
	if ref.IsDefined() || owner.GetName() == "" || want.ProvisionedField != "" {
		return nil
	}
	apply, err := reader.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: owner.GetNamespace(), Name: want.SchemeName})
	if err != nil || apply != nil {
		return err
	}
	if found, err := reader.HasUnownedLegacy(ctx, owner.GetNamespace()); err != nil || found {
		return err
	}
	ref.Name = want.SchemeName
	return nil
}

// defaultWorkspaceName sets spec.workspaceName of a new object, except in these cases:
//
//   - There is no template that the object may use: the scope of the Workspace is unknown, and the controller sets the name later.
//   - Validation will reject the object: with a name, the rule would treat it as restored from a backup, and allow it.
//   - The object is restored from CAPT v0.3: with a name it would count as adopted, and get a second Workspace.
func defaultWorkspaceName(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) error {
	if apply.Spec.WorkspaceName != "" || apply.Name == "" || legacy.UnadoptedWorkspace(apply) != "" {
		return nil
	}
	reserved, err := validation.ValidateNewWorkspaceTemplateApply(ctx, reader, apply)
	if err != nil || len(reserved.Errors) > 0 {
		return err
	}
	template, _, err := validation.TemplateReference(ctx, reader, apply.Spec.TemplateRef, apply.Namespace, field.NewPath("spec", "templateRef"))
	if err != nil {
		return err
	}
	if template != nil && template.Spec.WorkspaceScope.OrDefault() == terraform.ScopeCluster {
		found, err := reader.HasUnclaimedWorkspace(ctx, naming.LegacyWorkspace(apply.Name))
		if err != nil || found { // The controller determines whether the Workspace belongs to another object.
			return err
		}
	}
	apply.Spec.WorkspaceName = validation.WorkspaceName(apply, template)
	return nil
}
