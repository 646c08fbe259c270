// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// waitingChange returns the hash of the change of a user that waits for an approval.
func (env *environment) waitingChange(name string) string {
	env.Helper()
	env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "is not applied yet: ")
	apply := &infrav1.WorkspaceTemplateApply{}
	require.True(env, env.Exists(apply, name))
	require.NotEmpty(env, apply.Status.Change.Revision)
	return apply.Status.Change.Revision
}

func TestAChangeOfOneUserWaitsForItsPreviewAndItsApproval(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := &environment{shared.NewEnvironment(t, scope)}
		env.User(strings.Replace(env.Template(fixture.VPCTemplate, fixture.SizedVPCModule(), "vpc_name", "size"), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+previewed+"}\n", 1))
		for _, name := range []string{"a", "b"} {
			env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, name, "variables: {vpc_name: "+name+", size: small}"))
		}
		env.awaitReady("a", "b")
		env.awaitStage(infrav1.RolloutComplete)
		applied, applies := len(env.Operations("a", scripted.Apply)), &infrav1.WorkspaceTemplateApply{}

		env.Edit(applies, "a", `{"spec":{"variables":{"size":"large"}}}`)
		waiting := env.waitingChange("a")
		env.awaitNoPreviews("a")
		env.Edit(applies, "a", `{"metadata":{"annotations":{"`+naming.ApproveAnnotation+`":"0123456789ab"}}}`)
		env.Await(applies, "a", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "is 0123456789ab, which is not the hash of this content")
		require.Never(t, func() bool { return len(env.Operations("a", scripted.Apply)) != applied }, aWhile, tick)
		assert.Equal(t, infrav1.RolloutComplete, env.template().Status.Rollout.Stage, "the rollout of the template does not wait")

		env.Captctl("template", "approve-change", env.Namespace+"/a", "--revision="+waiting, "--yes")
		env.awaitReady("a", "b")
		assert.Greater(t, len(env.Operations("a", scripted.Apply)), applied)
		require.True(t, env.Exists(applies, "a"))
		assert.NotEmpty(t, applies.Annotations[naming.ApprovedByAnnotation])

		// The Secret is not part of the plan.
		env.Edit(&infrav1.WorkspaceTemplateApply{}, "b", `{"spec":{"writeConnectionSecretToRef":{"name":"outputs"}}}`)
		env.Eventually(func() string {
			name, found := secretOf(env, "b")
			return fixture.Unless(found && name == "outputs", "the Workspace of b is not updated")
		})
		env.awaitReady("b")
		env.awaitNoPreviews("a", "b")
	})
}

// An approval is of what the plan shows, also if it includes what is destroyed.
func TestAnApprovalOfAChangeWaitsForItsPlan(t *testing.T) {
	t.Parallel()
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	env.User(strings.Replace(env.Template(fixture.VPCTemplate, fixture.SizedVPCModule(), "vpc_name", "size"), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+previewed+"}\n", 1))
	apply, approved := &infrav1.WorkspaceTemplateApply{}, map[string]string{}
	for _, name := range []string{"a", "b"} {
		env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, name, "variables: {vpc_name: "+name+", size: small}"))
		env.awaitReady(name)
		require.NoError(t, env.Scripts.SetScript(env.previewKey(name), scripted.Script{Plan: scripted.Step{Hang: true}}))
		env.Edit(apply, name, `{"spec":{"variables":{"size":"large"}}}`)
		env.Await(apply, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.PreviewingChangeReason, "Terraform plans it first")
		approved[name] = apply.Status.Change.Revision
		out := env.Captctl("template", "approve-change", env.Namespace+"/"+name, "--revision="+approved[name], "--yes")
		assert.Contains(t, out, "the approval takes effect when it has")
		env.Await(apply, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.PreviewingChangeReason, "The approval takes effect then")
	}
	env.never(aWhile, func() bool {
		return len(env.Operations("a", scripted.Apply))+len(env.Operations("b", scripted.Apply)) != 2
	})

	env.Captctl("template", "approve-change", env.Namespace+"/b", "--revision="+approved["b"], "--yes", "--allow-destroy")
	env.never(aWhile, func() bool { return len(env.Operations("b", scripted.Apply)) != 1 })
	for _, name := range []string{"a", "b"} {
		require.NoError(t, env.Scripts.SetScript(env.previewKey(name), scripted.Script{}))
		env.Eventually(func() string {
			return fixture.Unless(len(env.Operations(name, scripted.Apply)) == 2, "it is not applied with its plan")
		})
	}
	env.awaitReady("a", "b")
}

// secretOf returns the connection Secret of the Workspace of a user.
func secretOf(env *environment, name string) (string, bool) {
	env.Helper()
	spec, _ := env.Workspace(name).Object["spec"].(map[string]any)
	ref, _ := spec["writeConnectionSecretToRef"].(map[string]any)
	secret, found := ref["name"].(string)
	return secret, found
}

// Cluster API and users edit the version of the control plane; the cluster stays as it is until that is approved.
func TestAnUpgradeOfAControlPlaneWaitsForItsApproval(t *testing.T) {
	t.Parallel()
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	module := strings.NewReplacer(`"tags"`, `"kubernetes_version"`, "var.tags", "var.kubernetes_version").Replace(fixture.ControlPlaneModule)
	template := env.Template(fixture.ControlPlaneTemplate, module, "cluster_name", "kubernetes_version")
	env.User(strings.Replace(template, "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+previewed+"}\n", 1),
		fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-0123}"), fixture.CAPTControlPlane(fixture.Demo))
	env.AwaitState(infrav1.StateReady, controlplanev1.ReadyReason)

	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"version":"v1.36.0"}}`)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "run: kubectl")
	held := env.AwaitState(infrav1.StateConfiguring, infrav1.WaitingForApprovalReason)
	assert.Equal(t, "v1.35.0", held.Status.Version, "the running version is reported")
	env.Captctl("template", "approve-change", env.Namespace+"/"+fixture.Demo, "--revision="+env.waitingChange(fixture.ControlPlane), "--yes")
	upgraded := env.AwaitState(infrav1.StateReady, controlplanev1.ReadyReason)
	assert.Equal(t, "v1.36.0", upgraded.Status.Version)
}

// Terraform keeps the state of an object that is pointed at another template, and would destroy what only the former module has. No template has a policy.
func TestAControlPlaneThatIsPointedAtAnotherTemplateKeepsItsCluster(t *testing.T) {
	t.Parallel()
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	other := strings.ReplaceAll(fixture.ControlPlaneModule, `"terraform_data" "eks"`, `"terraform_data" "other"`)
	env.User(env.ControlPlaneTemplate(fixture.ControlPlaneModule), env.Template("other", other, "cluster_name", "tags"), env.Template("copy", fixture.ControlPlaneModule, "cluster_name", "tags"),
		fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-0123}"), fixture.CAPTControlPlane(fixture.Demo))
	env.AwaitState(infrav1.StateReady, controlplanev1.ReadyReason)
	applied := len(env.Operations(fixture.ControlPlane, scripted.Apply))
	move := func(template string) {
		env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"workspaceTemplateRef":{"name":"`+template+`"}}}`)
	}

	move("other")
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "approve-change "+env.Namespace+"/"+fixture.ControlPlane+" --allow-destroy")
	env.AwaitState(infrav1.StateConfiguring, infrav1.WaitingForApprovalReason)
	assert.Len(t, env.Operations(fixture.ControlPlane, scripted.Apply), applied)
	move(fixture.ControlPlaneTemplate)
	env.AwaitState(infrav1.StateReady, controlplanev1.ReadyReason)
	move("copy")
	env.Eventually(func() string {
		apply := &infrav1.WorkspaceTemplateApply{}
		return fixture.Unless(env.Exists(apply, fixture.ControlPlane) && apply.Status.AppliedTemplate == env.Namespace+"/copy", "it was applied from %s", apply.Status.AppliedTemplate)
	})
	env.AwaitState(infrav1.StateReady, controlplanev1.ReadyReason)
	assert.Len(t, env.Operations(fixture.ControlPlane, scripted.Apply), applied, "an equal template is not applied again")

	move("other")
	revision := env.waitingChange(fixture.ControlPlane)
	env.Captctl("template", "approve-change", env.Namespace+"/"+fixture.Demo, "--revision="+revision, "--allow-destroy", "--yes")
	env.AwaitState(infrav1.StateReady, controlplanev1.ReadyReason)
	assert.Greater(t, len(env.Operations(fixture.ControlPlane, scripted.Apply)), applied)
}

// Node groups follow the version of the control plane, and edits of their template, as the policy of the template requires.
func TestNodeGroupsArePreviewedApprovedAndRolledOutInStages(t *testing.T) {
	t.Parallel()
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	nodeGroups := func(module string) string {
		return strings.Replace(env.NodeGroupTemplate(module), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+previewed+", canary: {count: 1, soakSeconds: 1}}\n", 1)
	}
	env.User(env.ControlPlaneTemplate(fixture.ControlPlaneModule), nodeGroups(fixture.NodeGroupModule),
		fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-0123}"), fixture.CAPTControlPlane(fixture.Demo))
	pools, applies := []string{"blue", "green"}, []string{}
	awaitVersion := func(version string) {
		t.Helper()
		for _, name := range pools {
			pool := &infrav1.CAPTMachinePool{}
			env.Await(pool, name, infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, infrav1.NodeGroupReadyReason)
			env.Eventually(func() string {
				return fixture.Unless(env.Exists(pool, name) && pool.Status.Version == version, "it has version %s", pool.Status.Version)
			})
		}
	}
	for _, name := range pools {
		env.User(fixture.CAPTMachinePool(name, fixture.NodeGroupTemplate), fixture.MachinePool(fixture.Demo, name, 1, ""))
		applies = append(applies, naming.MachinePoolWorkspaceTemplateApply(name))
	}
	awaitVersion("v1.35.0")
	env.awaitStageOf(fixture.NodeGroupTemplate, infrav1.RolloutComplete)

	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"version":"v1.36.0"}}`)
	for i, name := range pools {
		env.Await(&infrav1.CAPTMachinePool{}, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "run: kubectl")
		assert.Len(t, env.Operations(applies[i], scripted.Apply), 1)
	}
	env.Captctl("template", "approve-change", "-n", env.Namespace, "--all", "--revision="+env.waitingChange(applies[0])+","+env.waitingChange(applies[1]), "--yes")
	awaitVersion("v1.36.0")

	edited := time.Now()
	env.User(nodeGroups(strings.Replace(fixture.NodeGroupModule, "${var.nodegroup_name} ", "${var.nodegroup_name}, ", 1)))
	env.Await(&infrav1.WorkspaceTemplate{}, fixture.NodeGroupTemplate, infrav1.RollingOutCondition, metav1.ConditionTrue, infrav1.RolloutWaitingReason,
		"Terraform would change: "+env.Namespace+"/"+applies[0]+", "+env.Namespace+"/"+applies[1])
	status := env.Captctl("template", "status", env.Namespace+"/"+fixture.NodeGroupTemplate, "-o", "wide")
	for i, name := range pools {
		assert.Regexp(t, applies[i]+` +CAPTMachinePool/`+name+` +demo +Waiting`, status)
		assert.Len(t, env.Operations(applies[i], scripted.Apply), 2)
	}
	env.Captctl("template", "approve", env.Namespace+"/"+fixture.NodeGroupTemplate, "--revision="+rollout.HashOf(env.templateNamed(fixture.NodeGroupTemplate)), "--yes")
	env.awaitStageOf(fixture.NodeGroupTemplate, infrav1.RolloutComplete)
	awaitVersion("v1.36.0")
	first, second := env.Operations(applies[0], scripted.Apply)[2], env.Operations(applies[1], scripted.Apply)[2]
	if second.Start.Before(first.Start) {
		first, second = second, first
	}
	assert.True(t, first.Start.After(edited) && !second.Start.Before(first.End), "the canary is not alone")
}

// A user that moves to another template has a revision that this one does not have. It must not block the rollout of its new template.
func TestAUserMovesToAnotherTemplate(t *testing.T) {
	t.Parallel()
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	policy := "\nspec:\n  rollout: {strategy: Staged, " + previewed + "}\n"
	for name, arguments := range map[string]string{fixture.VPCTemplate: "", "other": "\n        planArgs: [-parallelism=5]"} {
		document := env.Template(name, fixture.SizedVPCModule(), "vpc_name", "size")
		env.User(strings.NewReplacer("\nspec:\n", policy, "\n        source: Inline", arguments+"\n        source: Inline").Replace(document))
	}
	applies, move := &infrav1.WorkspaceTemplateApply{}, `{"spec":{"templateRef":{"name":"other"},"variables":{"size":%q}}}`
	for _, name := range []string{"a", "b"} {
		env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, name, "variables: {vpc_name: "+name+", size: small}"))
	}
	env.awaitReady("a", "b")
	env.awaitStage(infrav1.RolloutComplete)
	applied := len(env.Operations("b", scripted.Apply))

	env.Edit(applies, "a", fmt.Sprintf(move, "small")) // Terraform would change nothing.
	env.Eventually(func() string {
		return fixture.Unless(strings.Contains(fmt.Sprint(env.Workspace("a").Object["spec"]), "parallelism"), "the Workspace of a is not updated")
	})
	env.awaitReady("a")

	env.Edit(applies, "b", fmt.Sprintf(move, "large"))
	env.Await(&infrav1.WorkspaceTemplate{}, "other", infrav1.RollingOutCondition, metav1.ConditionTrue, infrav1.RolloutWaitingReason, "Terraform would change: "+env.Namespace+"/b")
	env.Captctl("template", "approve", env.Namespace+"/other", "--revision=1", "--yes")
	waiting := env.waitingChange("b")
	assert.Len(t, env.Operations("b", scripted.Apply), applied, "the approval of the revision is not one of the change")
	env.Captctl("template", "approve-change", env.Namespace+"/b", "--revision="+waiting, "--yes")
	env.awaitReady("a", "b")
	env.Await(&infrav1.WorkspaceTemplate{}, "other", infrav1.RollingOutCondition, metav1.ConditionFalse, infrav1.RolledOutReason)
}
