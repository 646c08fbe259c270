// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
)

// UpdateWarnings warns of a template update that reaches existing Workspaces: Terraform runs in each of them, or, if the update changes the
// ProviderConfig, none of them gets it. It is not an error, because the change may be intended, in the second case for new
// WorkspaceTemplateApplies.
func UpdateWarnings(ctx context.Context, reader validation.Reader, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
	before, after := old.Spec.Template.Spec, template.Spec.Template.Spec
	if equality.Semantic.DeepEqual(before, after) { // Other fields are not rendered.
		return nil, nil
	}
	users, err := reader.UsersOf(ctx, validation.KeyOf(template))
	if err != nil || users.Applies == 0 {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(before.ProviderConfigRef, after.ProviderConfigRef) {
		return []string{fmt.Sprintf(
			"spec.template.spec.providerConfigRef: %d WorkspaceTemplateApply objects use this template; their Workspaces keep their ProviderConfig, and get no update of this template until annotation %s of the WorkspaceTemplateApply names the new one",
			users.Applies, naming.AllowProviderConfigAnnotation)}, nil
	}
	if template.RolloutPolicy().IsStaged() {
		return []string{stagedWarning(template, users)}, nil
	}
	return []string{fmt.Sprintf(
		"spec.template.spec: %d WorkspaceTemplateApply objects in %d Clusters use this template: their Workspaces are rendered again, and Terraform applies what changes. captctl diff -f shows the changes of a file before it is applied",
		users.Applies, users.Clusters)}, nil
}

// stagedWarning describes how an update reaches users in stages.
func stagedWarning(template *infrav1.WorkspaceTemplate, users validation.Users) string {
	warning := fmt.Sprintf("spec.template.spec: %d WorkspaceTemplateApply objects in %d Clusters use this template: they are updated to revision %s in stages, as the rollout policy of the template requires. status.rollout shows the progress",
		users.Applies, users.Clusters, rollout.HashOf(template))
	switch template.RolloutPolicy().Approval {
	case infrav1.RolloutApprovalAlways:
		warning += fmt.Sprintf(". To start the rollout, set annotation %s to that revision", naming.ApproveAnnotation)
	case infrav1.RolloutApprovalOnChanges:
		warning += fmt.Sprintf(". Those for which Terraform would change something are updated when annotation %s is that revision", naming.ApproveAnnotation)
	case infrav1.RolloutApprovalNone:
	}
	return warning
}
