// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupWorkspaceTemplateApply(mgr ctrl.Manager, cached, live lookup.Reader) error {
	return register(mgr, workspaceTemplateApplyDefaulter(lookup.Live{Reader: live, Cached: cached}), workspaceTemplateApplyValidator(cached))
}

func workspaceTemplateApplyDefaulter(reader validation.Reader) *defaulter[*infrav1.WorkspaceTemplateApply] {
	return &defaulter[*infrav1.WorkspaceTemplateApply]{
		reader: reader, create: defaultWorkspaceName, keepHubFields: validation.ApplyHubFields,
		sign: signApproval[*infrav1.WorkspaceTemplateApply],
	}
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

func workspaceTemplateApplyValidator(reader validation.Reader) validator[*infrav1.WorkspaceTemplateApply] {
	return validator[*infrav1.WorkspaceTemplateApply]{
		reader: reader,
		spec:   func(apply *infrav1.WorkspaceTemplateApply) any { return apply.Spec },
		check:  validation.ValidateWorkspaceTemplateApply,
		change: validation.ValidateWorkspaceTemplateApplyUpdate,
		warn: warnOfUnpinning("WorkspaceTemplateApply",
			func(apply *infrav1.WorkspaceTemplateApply) infrav1.WorkspaceTemplateReference {
				return apply.Spec.TemplateRef
			},
			func(apply *infrav1.WorkspaceTemplateApply) string { return apply.Name }),
	}
}
