// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// WorkspaceTemplateApply is the converter of WorkspaceTemplateApply.
var WorkspaceTemplateApply = conversion.NewHubSpokeConverter(&infrav1.WorkspaceTemplateApply{},
	conversion.NewSpokeConverter(&infrav1beta1.WorkspaceTemplateApply{},
		ConvertWorkspaceTemplateApplyHubToV1Beta1, ConvertWorkspaceTemplateApplyV1Beta1ToHub),
)

var (
	workspaceTemplateApplyUp   = preserve.New(workspaceTemplateApplyToHub, workspaceTemplateApplyToSpoke)
	workspaceTemplateApplyDown = preserve.New(workspaceTemplateApplyToSpoke, workspaceTemplateApplyToHub)
)

// ConvertWorkspaceTemplateApplyV1Beta1ToHub converts a v1beta1 WorkspaceTemplateApply to the hub. Dependencies on two Secrets or Workspaces
// with the same name in different namespaces are converted unchanged, although v1beta2 does not allow them.
//
// spec.workspaceName stays empty, because conversion must not derive spec from status. captctl migrate sets it on adoption.
func ConvertWorkspaceTemplateApplyV1Beta1ToHub(_ context.Context, src *infrav1beta1.WorkspaceTemplateApply, dst *infrav1.WorkspaceTemplateApply) error {
	return workspaceTemplateApplyUp.Convert(src, dst)
}

// ConvertWorkspaceTemplateApplyHubToV1Beta1 converts a WorkspaceTemplateApply of the hub to v1beta1.
func ConvertWorkspaceTemplateApplyHubToV1Beta1(_ context.Context, src *infrav1.WorkspaceTemplateApply, dst *infrav1beta1.WorkspaceTemplateApply) error {
	return workspaceTemplateApplyDown.Convert(src, dst)
}

func workspaceTemplateApplyToHub(in *infrav1beta1.WorkspaceTemplateApply, out *infrav1.WorkspaceTemplateApply) {
	out.Spec = infrav1.WorkspaceTemplateApplySpec{
		TemplateRef:                templateRefToHub(in.Spec.TemplateRef),
		Variables:                  copyMap(in.Spec.Variables),
		WriteConnectionSecretToRef: convertPointer(in.Spec.WriteConnectionSecretToRef, secretRefToHub),
		WaitForSecrets: convertList(in.Spec.WaitForSecrets, func(s infrav1beta1.SecretReference) infrav1.SecretDependency {
			return infrav1.SecretDependency{Name: s.Name, Namespace: s.Namespace}
		}),
		WaitForWorkspaces: convertList(in.Spec.WaitForWorkspaces, func(w infrav1beta1.WorkspaceReference) infrav1.WorkspaceDependency {
			return infrav1.WorkspaceDependency{Name: w.Name, Namespace: deref(w.Namespace)}
		}),
		DeletionPolicy: deletionPolicyToHub(in.Spec.RetainWorkspaceOnDelete),
	}
	out.Status = infrav1.WorkspaceTemplateApplyStatus{
		Conditions:      crossplaneConditionsToHub(in.Status.Conditions),
		WorkspaceName:   deref(in.Status.WorkspaceName),
		Applied:         statusToHub(in.Status.Applied),
		LastAppliedTime: copyPointer(in.Status.LastAppliedTime),
	}
}

func workspaceTemplateApplyToSpoke(in *infrav1.WorkspaceTemplateApply, out *infrav1beta1.WorkspaceTemplateApply) {
	out.Spec = infrav1beta1.WorkspaceTemplateApplySpec{
		TemplateRef:                templateRefToSpoke(in.Spec.TemplateRef),
		WriteConnectionSecretToRef: convertPointer(in.Spec.WriteConnectionSecretToRef, secretRefToSpoke),
		Variables:                  copyMap(in.Spec.Variables),
		WaitForSecrets: convertList(in.Spec.WaitForSecrets, func(s infrav1.SecretDependency) infrav1beta1.SecretReference {
			return infrav1beta1.SecretReference{Name: s.Name, Namespace: s.Namespace}
		}),
		WaitForWorkspaces: convertList(in.Spec.WaitForWorkspaces, func(w infrav1.WorkspaceDependency) infrav1beta1.WorkspaceReference {
			return infrav1beta1.WorkspaceReference{Name: w.Name, Namespace: optional(w.Namespace)}
		}),
		RetainWorkspaceOnDelete: deletionPolicyToSpoke(in.Spec.DeletionPolicy),
	}
	out.Status = infrav1beta1.WorkspaceTemplateApplyStatus{
		WorkspaceName:   optional(in.Status.WorkspaceName),
		Applied:         statusToSpoke(in.Status.Applied),
		LastAppliedTime: copyPointer(in.Status.LastAppliedTime),
		Conditions:      crossplaneConditionsToSpoke(in.Status.Conditions),
	}
}

func secretRefToHub(in infrav1beta1.SecretReference) terraform.SecretReference {
	return terraform.SecretReference{Name: in.Name, Namespace: in.Namespace}
}

func secretRefToSpoke(in terraform.SecretReference) infrav1beta1.SecretReference {
	return infrav1beta1.SecretReference{Name: in.Name, Namespace: in.Namespace}
}
