// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// PlannedTemplate returns a template as it would be with the content of a PlanRequest. stored is nil if it does not exist.
func PlannedTemplate(request *infrav1.PlanRequest, stored *infrav1.WorkspaceTemplate) *infrav1.WorkspaceTemplate {
	key := request.TemplateKey()
	planned := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	request.Spec.Template.Spec.DeepCopyInto(&planned.Spec)
	if stored == nil {
		SetTemplateDefaults(planned)
		return planned
	}
	planned.ObjectMeta, planned.Status = *stored.ObjectMeta.DeepCopy(), *stored.Status.DeepCopy()
	RestoreFields(stored, planned)
	return planned
}

// ValidatePlanRequest checks the content of a PlanRequest as if it was written to the template. The policy of rollouts does not matter: nothing is applied.
func ValidatePlanRequest(ctx context.Context, reader Reader, request *infrav1.PlanRequest) (findings Findings, err error) {
	key := request.TemplateKey()
	if key.Name == "" {
		return findings, nil
	}
	stored, err := Get[*infrav1.WorkspaceTemplate](ctx, reader, key)
	if err != nil {
		return findings, err
	}
	path := field.NewPath("spec", "template")
	planned := PlannedTemplate(request, stored)
	found := ValidateWorkspaceTemplate(planned)
	if stored != nil {
		permitting := *planned
		permitting.Spec.AllowedNamespaces = stored.Spec.AllowedNamespaces // The content must not disclose who else refers to the template.
		lost, err := lostRestrictions(ctx, reader, stored, &permitting)
		if err != nil {
			return findings, err
		}
		found.Warnings = slices.Concat(found.Warnings, lost, lostOutputs(stored, planned))
	}
	for _, e := range found.Errors {
		e.Field = path.String() + "." + e.Field
	}
	findings.Refuse(found.Errors...)
	for _, warning := range found.Warnings {
		if strings.HasPrefix(warning, "spec.") { // Annotations are those of the stored template.
			findings.Warnings = append(findings.Warnings, path.String()+"."+warning)
		}
	}
	switch {
	case stored == nil:
		findings.Warn(path.Child("name"), "WorkspaceTemplate %s does not exist, so it has no users, and nothing is planned. captctl validate and captctl template render check the file of a new template", key)
	case stored.Spec.WorkspaceScope.OrDefault() != planned.Spec.WorkspaceScope.OrDefault():
		findings.Refuse(Forbidden(path.Child("spec", "workspaceScope"), "is immutable: WorkspaceTemplate %s has scope %s. Create another WorkspaceTemplate", key, stored.Spec.WorkspaceScope.OrDefault()))
	}
	return findings, nil
}
