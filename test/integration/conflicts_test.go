// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// foreign creates a Workspace of another client under the name of the Workspace of a WorkspaceTemplateApply that does not exist yet.
func foreign(env *fixture.Environment, apply string) *unstructured.Unstructured {
	env.Helper()
	workspace, config := fixture.NewWorkspace(env.Scope, env.WorkspaceKey(apply)), map[string]any{"name": env.Namespace}
	if env.Scope == terraform.ScopeNamespaced {
		config["kind"] = "ClusterProviderConfig"
	}
	workspace.Object["spec"] = map[string]any{
		"providerConfigRef": config, "forProvider": map[string]any{"source": "Inline", "module": "output \"mine\" { value = true }\n"},
	}
	require.NoError(env, env.Create(env.Context(), workspace))
	return workspace
}

// The object has not recorded the name of its Workspace yet, so the name that it would get must be enough to find it.
func TestAnObjectContinuesWhenTheForeignWorkspaceIsGone(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		theirs := foreign(env, fixture.VPC)
		env.User(env.Everything()...)
		apply := &infrav1.WorkspaceTemplateApply{}
		env.Await(apply, fixture.VPC, infrav1.WorkspaceConflictCondition, metav1.ConditionTrue, infrav1.WorkspaceConflictReason,
			"belongs to another object", "CAPT continues when it no longer exists", "delete Cluster demo, and create it with a CAPTCluster of another name")
		require.Empty(env, apply.Spec.WorkspaceName)

		require.NoError(env, env.Delete(env.Context(), theirs))
		env.Await(apply, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
		env.AwaitVPC()
	})
}

// Two objects get the same name by the naming scheme. Admission cannot know that before there is a template.
func TestAnObjectContinuesWhenTheOlderOneIsGone(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	names := []string{"twin", "twin-apply"}
	for _, name := range names {
		env.User(applied(name, `variables: {vpc_name: one}`))
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
	}
	env.User(env.VPCTemplate(fixture.VPCModule))
	env.Eventually(func() string { // The older one continues.
		for i, name := range names {
			if env.MissingCondition(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason) == "" {
				names = []string{name, names[1-i]}
				return ""
			}
		}
		return "neither object is Ready"
	})
	env.Await(&infrav1.WorkspaceTemplateApply{}, names[1], infrav1.WorkspaceConflictCondition, metav1.ConditionTrue, infrav1.WorkspaceConflictReason)

	env.Remove(&infrav1.WorkspaceTemplateApply{}, names[0])
	env.awaitUpToDate(names[1])
	require.Equal(t, 1, env.workspaces())
}
