// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/test/builder"
)

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: builder.Namespace, Name: name}
}

func TestAWorkspaceHasOneOwner(t *testing.T) {
	apply, named, in := builder.WorkspaceTemplateApply, builder.WithWorkspaceName, builder.WithNamespace
	recorded := builder.WithRecordedWorkspace(builder.Workspace("w", builder.AtRest))
	recordedWide := builder.WithRecordedWorkspace(builder.Workspace("w", builder.AtRest, builder.InClusterScope()))
	refused := func(text string) []finding { return []finding{{"spec.workspaceName", field.ErrorTypeInvalid, text}} }
	const less, set = `the Workspace name is the name of the WorkspaceTemplateApply without "-apply", which is the same for both`, ". Remove spec.workspaceName"
	const elsewhere = "a WorkspaceTemplateApply of another namespace owns this cluster-scoped Workspace. Choose another name"
	notYet := []string{"does not exist yet"}
	testApplies(t, applies.WorkspaceTemplateApply, map[string]applyRow{
		"its own name":                                     {world: []validation.Owner{vpc, apply("a", named("w"))}, apply: apply("a", named("w"))},
		"another name":                                     {world: []validation.Owner{vpc, apply("b", named("v"))}, apply: apply("a", named("w"))},
		"one that is taken":                                {world: []validation.Owner{vpc, apply("b", named("w"))}, apply: apply("a", named("w")), errors: refused("WorkspaceTemplateApply b owns this Workspace" + set)},
		"one that a scheme takes":                          {world: []validation.Owner{vpc, apply("b", named("a"))}, apply: apply("a"), errors: refused("WorkspaceTemplateApply b owns this Workspace" + set)},
		"x-apply beside x":                                 {world: []validation.Owner{vpc, apply("x", named("x"))}, apply: apply("x-apply", named("x")), errors: refused("WorkspaceTemplateApply x owns this Workspace: " + less)},
		"x beside x-apply":                                 {world: []validation.Owner{vpc, apply("x-apply", named("x"))}, apply: apply("x"), errors: refused(less)},
		"x beside an x-apply that has no name yet":         {world: []validation.Owner{vpc, apply("x-apply")}, apply: apply("x"), errors: refused(less)},
		"x beside an x-apply of another name":              {world: []validation.Owner{vpc, apply("x-apply", named("other"))}, apply: apply("x")},
		"x beside an x-apply whose Workspace is not known": {world: []validation.Owner{vpc, apply("x-apply", of("", "later"))}, apply: apply("x")},
		"x beside x-apply in the cluster scope":            {world: []validation.Owner{wide, apply("x-apply", of("shared", "wide"))}, apply: apply("x", of("shared", "wide"), builder.WithVariables(nil)), warnings: []string{"${cluster_name}"}},
		"taken, though the template is not there":          {world: []validation.Owner{apply("b", named("w"))}, apply: apply("a", named("w")), errors: refused("WorkspaceTemplateApply b"), warnings: notYet},
		"no name and no template":                          {world: []validation.Owner{apply("x-apply", named("x"))}, apply: apply("x"), warnings: notYet},
		"the same in another namespace":                    {world: []validation.Owner{vpc, apply("b", in("other"), named("w"))}, apply: apply("a", named("w"))},
		"cluster-wide in another namespace":                {world: []validation.Owner{wide, apply("b", in("other"), named("w"), of("shared", "wide"))}, apply: apply("a", named("w"), of("shared", "wide")), errors: refused(elsewhere)},
		"recorded cluster-wide in another namespace":       {world: []validation.Owner{wide, apply("b", in("other"), named("w"), recordedWide)}, apply: apply("a", named("w"), of("shared", "wide")), errors: refused(elsewhere)},
		"recorded cluster-wide, and the template gone":     {world: []validation.Owner{apply("b", in("other"), named("w"), recordedWide)}, apply: apply("a", named("w"), recordedWide), errors: refused(elsewhere), warnings: notYet},
		"namespaced in another namespace":                  {world: []validation.Owner{wide, apply("b", in("other"), named("w"), recorded)}, apply: apply("a", named("w"), of("shared", "wide"))},
		"of a scope it is not known":                       {world: []validation.Owner{wide, apply("b", in("other"), named("w"))}, apply: apply("a", named("w"), of("shared", "wide"))},
		"the own scope is unknown":                         {world: []validation.Owner{wide, apply("b", in("other"), named("w"), recordedWide)}, apply: apply("a", named("w")), warnings: notYet},
	})
}

// An error that was there before an update is known by its text.
func TestTheSameOfSeveralClaimantsIsNamedEveryTime(t *testing.T) {
	world := newWorld(vpc)
	for _, name := range []string{"e", "d", "c", "b"} {
		world.add(builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName("w")))
	}
	for range 50 {
		findings, err := applies.WorkspaceTemplateApply(context.Background(), world, builder.WorkspaceTemplateApply("a", builder.WithWorkspaceName("w")))
		require.NoError(t, err)
		assertRefused(t, findings.Errors, finding{"spec.workspaceName", field.ErrorTypeInvalid, "WorkspaceTemplateApply b owns this Workspace"})
	}
}

func TestNothingOfAnotherNamespaceIsReported(t *testing.T) {
	other := builder.WorkspaceTemplateApply("secret-project", builder.WithNamespace("secret-team"), builder.WithWorkspaceName("w"), of("shared", "wide"),
		builder.WaitingForWorkspace("w", builder.Namespace))
	findings, err := applies.WorkspaceTemplateApply(context.Background(), newWorld(wide, other),
		builder.WorkspaceTemplateApply("a", builder.WithWorkspaceName("w"), of("shared", "wide"), builder.WaitingForWorkspace("w", "secret-team")))
	require.NoError(t, err)
	require.Len(t, findings.Errors, 2)
	assert.NotContains(t, findings.Errors.ToAggregate().Error(), "secret")
}

func TestANameThatIsNotForANewWorkspaceIsWarnedAbout(t *testing.T) {
	apply, named, recorded := builder.WorkspaceTemplateApply, builder.WithWorkspaceName, builder.WithRecordedWorkspace(builder.Workspace("w", builder.AtRest))
	adopted := []string{"no Workspace is created with this name: only an existing Workspace can be adopted"}
	testApplies(t, applies.ChosenWorkspaceName, map[string]applyRow{
		"no name":                               {world: []validation.Owner{vpc}, apply: apply("a")},
		"the name of the scheme":                {world: []validation.Owner{vpc}, apply: apply("a-apply", named("a"))},
		"another name":                          {world: []validation.Owner{vpc}, apply: apply("a", named("w")), warnings: adopted},
		"another name, recorded":                {world: []validation.Owner{vpc}, apply: apply("a", named("w"), recorded)},
		"another name, and no template":         {apply: apply("a", named("w"))},
		"the name that CAPT v0.3 gave":          {world: []validation.Owner{wide}, apply: apply("a-apply", named("a"), of("shared", "wide")), warnings: adopted},
		"the name of the scheme, cluster scope": {world: []validation.Owner{wide}, apply: apply("a", named(naming.Workspace(terraform.ScopeCluster, nameOf("a"))), of("shared", "wide"))},
	})
}
