// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package applies

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// validateClaim checks that no other WorkspaceTemplateApply has the same Workspace: in the namespace, and for cluster-scoped Workspaces in
// all namespaces. Errors do not name an object of another namespace, which the user may not be allowed to read.
func validateClaim(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (field.ErrorList, error) {
	name := WorkspaceName(apply, template)
	if name == "" {
		return nil, nil
	}
	claimants, err := claimantsOf(ctx, reader, apply, name)
	if err != nil {
		return nil, err
	}
	path := field.NewPath("spec", "workspaceName")
	for i := range claimants {
		if other := &claimants[i]; other.Namespace == apply.Namespace && other.Name != apply.Name {
			return field.ErrorList{field.Invalid(path, name, claimConflict(apply, other, name))}, nil
		}
	}
	if scope, known := scopeOf(apply, template); !known || scope != terraform.ScopeCluster {
		return nil, nil
	}
	for i := range claimants {
		if claimants[i].Namespace == apply.Namespace {
			continue
		}
		if clusterWide, err := hasClusterScope(ctx, reader, &claimants[i]); err != nil {
			return nil, err
		} else if clusterWide {
			return field.ErrorList{field.Invalid(path, name,
				"a WorkspaceTemplateApply of another namespace owns this cluster-scoped Workspace. Choose another name")}, nil
		}
	}
	return nil, nil
}

// claimantsOf lists the WorkspaceTemplateApplies whose Workspace has a given name, sorted by name: webhooks recognize an error that existed
// before an update by its text, so the text must not depend on the order of the list.
func claimantsOf(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	claimants, err := reader.ClaimantsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	implicit, err := implicitClaimant(ctx, reader, apply, name)
	if err != nil {
		return nil, err
	}
	claimants = append(claimants, implicit...)
	slices.SortFunc(claimants, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
	return claimants, nil
}

// claimConflict returns the message that two WorkspaceTemplateApplies of a namespace have the same Workspace, with what to do next.
func claimConflict(apply, other *infrav1.WorkspaceTemplateApply, name string) string {
	byScheme := func(apply *infrav1.WorkspaceTemplateApply) string {
		return naming.Workspace(terraform.ScopeNamespaced, validation.KeyOf(apply))
	}
	if byScheme(apply) == name && byScheme(other) == name {
		return "WorkspaceTemplateApply " + other.Name + ` owns this Workspace: the Workspace name is the name of the WorkspaceTemplateApply without "-apply", which is the same for both. Rename the WorkspaceTemplateApply`
	}
	return "WorkspaceTemplateApply " + other.Name + " owns this Workspace. Remove spec.workspaceName, or rename the WorkspaceTemplateApply"
}

// implicitClaimant finds the WorkspaceTemplateApply whose Workspace gets the same name by the naming scheme, and whose spec.workspaceName
// is still empty because it was created before its template.
func implicitClaimant(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	key := types.NamespacedName{Namespace: apply.Namespace, Name: naming.ApplyWithSameWorkspace(apply.Name)}
	other, err := reader.WorkspaceTemplateApply(ctx, key)
	if err != nil || other == nil || other.Spec.WorkspaceName != "" {
		return nil, err
	}
	template, permitted, err := validation.PermittedTemplate(ctx, reader, other.TemplateKey(), other.Namespace)
	if err != nil || !permitted || WorkspaceName(other, template) != name {
		return nil, err
	}
	return []infrav1.WorkspaceTemplateApply{*other}, nil
}

// scopeOf returns the scope of the recorded Workspace, or the scope of the template; false if neither is known.
func scopeOf(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (terraform.Scope, bool) {
	if scope, ok := apply.Status.WorkspaceRef.Scope(); ok {
		return scope, true
	}
	if template == nil {
		return "", false
	}
	return template.Spec.WorkspaceScope.OrDefault(), true
}

// hasClusterScope reports whether the Workspace of a WorkspaceTemplateApply is, or will be, cluster-scoped. It returns false if that is
// unknown.
func hasClusterScope(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	if scope, ok := apply.Status.WorkspaceRef.Scope(); ok {
		return scope == terraform.ScopeCluster, nil
	}
	template, permitted, err := validation.PermittedTemplate(ctx, reader, apply.TemplateKey(), apply.Namespace)
	return permitted && template.Spec.WorkspaceScope == terraform.ScopeCluster, err
}
