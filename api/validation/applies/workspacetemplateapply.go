// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package applies has the rules for WorkspaceTemplateApplies.
package applies

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// WorkspaceName returns the name of the Workspace of a WorkspaceTemplateApply: spec.workspaceName, or the name of the naming scheme, which
// depends on the scope of the template. It is empty if spec has no name and template is nil.
func WorkspaceName(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) string {
	if apply.Spec.WorkspaceName != "" || template == nil || apply.Name == "" {
		return apply.Spec.WorkspaceName
	}
	return naming.Workspace(template.Spec.WorkspaceScope, validation.KeyOf(apply))
}

// IsStateUnknown reports whether the name of the Terraform state for spec.workspaceName is unknown. This is the case if the naming scheme
// gives another name, so that the field may name an adopted Workspace, whose state can have any name; and if status, which users cannot
// write, records no Workspace.
func IsStateUnknown(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) bool {
	return apply.Spec.WorkspaceName != "" && apply.Status.WorkspaceRef == nil && template != nil && apply.Name != "" &&
		apply.Spec.WorkspaceName != naming.Workspace(template.Spec.WorkspaceScope, validation.KeyOf(apply))
}

// ValidateNewWorkspaceName warns about a new WorkspaceTemplateApply whose spec.workspaceName cannot be the name of a new Workspace. It is
// only a warning, because the Workspace may exist, or be restored after the object.
func ValidateNewWorkspaceName(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) (findings validation.Findings, err error) {
	template, permitted, err := validation.PermittedTemplate(ctx, reader, apply.TemplateKey(), apply.Namespace)
	if err == nil && permitted && IsStateUnknown(apply, template) {
		findings.Warn(field.NewPath("spec", "workspaceName"),
			"no Workspace is created with this name: only an existing Workspace can be adopted. For a new Workspace, remove the field")
	}
	return findings, err
}

// ValidateWorkspaceTemplateApply checks a WorkspaceTemplateApply, on creation and on update.
func ValidateWorkspaceTemplateApply(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) (validation.Findings, error) {
	spec := field.NewPath("spec")
	variables := spec.Child("variables")
	findings := validation.Findings{Errors: modules.ValidateAppliedVariableNames(apply.Spec.Variables, variables)}
	findings.Add(validateNamespaces(apply, spec))
	findings.Refuse(validateWorkspaceName(apply, spec)...)

	template, found, err := validation.TemplateReference(ctx, reader, apply.Spec.TemplateRef, apply.Namespace, spec.Child("templateRef"))
	if err != nil {
		return findings, err
	}
	findings.Add(found)
	if template != nil {
		findings.Add(modules.ValidateVariableValues(template, apply.Spec.Variables, variables.Key))
		// Controllers set all their variables for every template, so unused ones are normal.
		if metav1.GetControllerOf(apply) == nil {
			findings.Warnings = append(findings.Warnings, modules.UnusedVariableWarnings(template, apply.Spec.Variables, variables)...)
		}
	}
	if err := warnOfRetainConflict(ctx, reader, apply, spec, &findings); err != nil {
		return findings, err
	}
	for _, rule := range []func(context.Context, validation.Reader, *infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplate) (field.ErrorList, error){validateClaim, validateDependencies} {
		errs, err := rule(ctx, reader, apply, template)
		if err != nil {
			return findings, err
		}
		findings.Refuse(errs...)
	}
	return findings, nil
}

// ValidateWorkspaceTemplateApplyUpdate checks what an update of a WorkspaceTemplateApply changes.
func ValidateWorkspaceTemplateApplyUpdate(ctx context.Context, reader validation.Reader, old, apply *infrav1.WorkspaceTemplateApply) (field.ErrorList, error) {
	errs := validateIdentityUpdate(old, apply)
	moved, err := validateScopeUpdate(ctx, reader, old, apply)
	return append(errs, moved...), err
}

// validateIdentityUpdate rejects changes of identity variables when a Workspace may exist. Before that, users can correct them, and the
// owner keeps the value.
func validateIdentityUpdate(old, apply *infrav1.WorkspaceTemplateApply) field.ErrorList {
	workspace := RecordedWorkspace(old)
	if workspace == "" {
		return nil
	}
	var errs field.ErrorList
	for _, identity := range naming.IdentityVariables() {
		if before := old.Spec.Variables[identity]; before != "" && apply.Spec.Variables[identity] != before {
			errs = append(errs, validation.Forbidden(field.NewPath("spec", "variables").Key(identity),
				"cannot be changed or removed: Terraform would destroy the cloud resources of Workspace %s and create others. Restore the value. For another cluster or VPC, create another WorkspaceTemplateApply",
				workspace))
		}
	}
	return errs
}

// validateScopeUpdate rejects a template whose scope is not the scope of the recorded Workspace.
func validateScopeUpdate(ctx context.Context, reader validation.Reader, old, apply *infrav1.WorkspaceTemplateApply) (field.ErrorList, error) {
	scope, recorded := old.Status.WorkspaceRef.Scope()
	if !recorded || old.TemplateKey() == apply.TemplateKey() {
		return nil, nil
	}
	template, permitted, err := validation.PermittedTemplate(ctx, reader, apply.TemplateKey(), apply.Namespace)
	if err != nil || !permitted || template.Spec.WorkspaceScope.OrDefault() == scope {
		return nil, err
	}
	return field.ErrorList{validation.Forbidden(field.NewPath("spec", "templateRef"),
		"Workspace %s has scope %s, but WorkspaceTemplate %s has scope %s, and a Workspace cannot move to another scope. Refer to a template with scope %s, or create another WorkspaceTemplateApply",
		old.Status.WorkspaceRef.Name, scope, apply.TemplateKey(), template.Spec.WorkspaceScope.OrDefault(), scope)}, nil
}

// validateNamespaces rejects references to Secrets of other namespaces. The connection Secret of a helper of CAPT v0.3 may be in another
// namespace, because it must be possible to restore and to move existing clusters; rendering then permits only the Secret that the
// Workspace already writes.
func validateNamespaces(apply *infrav1.WorkspaceTemplateApply, spec *field.Path) (findings validation.Findings) {
	check := func(namespace string, path *field.Path) {
		if namespace != "" && namespace != apply.Namespace {
			findings.Refuse(validation.Forbidden(path.Child("namespace"), "must be %q, the namespace of the WorkspaceTemplateApply. Remove the field", apply.Namespace))
		}
	}
	switch ref := apply.Spec.WriteConnectionSecretToRef; {
	case ref == nil:
	case ref.Namespace != "" && ref.Namespace != apply.Namespace && legacy.HelperRole(apply) != "":
		findings.Warn(spec.Child("writeConnectionSecretToRef", "namespace"), "is not %q, the namespace of the WorkspaceTemplateApply: works only if its Workspace, which CAPT v0.3 created, already writes this Secret", apply.Namespace)
	default:
		check(ref.Namespace, spec.Child("writeConnectionSecretToRef"))
	}
	for i := range apply.Spec.WaitForSecrets {
		check(apply.Spec.WaitForSecrets[i].Namespace, spec.Child("waitForSecrets").Index(i))
	}
	return findings
}

// validateWorkspaceName checks that spec.workspaceName, if it is set, is a valid object name.
func validateWorkspaceName(apply *infrav1.WorkspaceTemplateApply, spec *field.Path) field.ErrorList {
	name := apply.Spec.WorkspaceName
	if name == "" || len(utilvalidation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("workspaceName"), name,
		`is not a valid Workspace name (RFC 1123). Use lower-case letters, digits, "-" and ".", and begin and end with a letter or digit`)}
}

// RecordedWorkspace returns the name of the Workspace that status records, or that CAPT v0.3 created without recording it; empty when
// there is none.
func RecordedWorkspace(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(claim.RecordedWorkspace(apply).Name, legacy.UnadoptedWorkspace(apply))
}
