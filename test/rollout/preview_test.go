// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const previewed = "preview: Always, approval: OnChanges"

// previewKey is the key of the preview of a user, which must exist.
func (env *environment) previewKey(name string) types.NamespacedName {
	env.Helper()
	return fixture.PreviewKey(env, env, env.Scope, types.NamespacedName{Namespace: env.Namespace, Name: name})
}

func (env *environment) preview(name string) *unstructured.Unstructured {
	env.Helper()
	options := []client.ListOption{client.InNamespace(fixture.ScopeNamespace(env.Scope, env.Namespace)), client.HasLabels{naming.PreviewLabel}}
	for _, preview := range fixture.List(env, env.Client, env.Scope.GroupVersionKind(), options...) {
		if preview.GetAnnotations()[naming.PreviewOfAnnotation] == env.Namespace+"/"+name {
			return &preview
		}
	}
	return nil
}

func (env *environment) awaitNoPreviews(names ...string) {
	env.Helper()
	env.Eventually(func() string {
		for _, name := range names {
			if env.preview(name) != nil {
				return "the preview of " + name + " exists"
			}
		}
		return ""
	})
}

// operationsOf counts operations of the previews of a user, which may be gone.
func (env *environment) operationsOf(name string, operation scripted.Operation) (count int) {
	env.Helper()
	journal, err := env.Scripts.Journal()
	require.NoError(env, err)
	for _, entry := range journal {
		if entry.Operation == operation && strings.HasPrefix(entry.Name, name+"-preview-") && strings.Contains(entry.ExternalName, env.Namespace) {
			count++
		}
	}
	return count
}

func inScopes(t *testing.T, test func(t *testing.T, scope terraform.Scope)) {
	t.Helper()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			test(t, scope)
		})
	}
}

// A change of arguments of the plan changes the Workspace, and nothing that Terraform would apply.
func TestAnEditWithAnEmptyPlanPassesWithoutApproval(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := newEnvironmentIn(t, scope, previewed+", canary: {count: 1, soakSeconds: 3600}, maxConcurrent: 1")
		users := []string{"a", "b", "c", "d", "e", "f", "g"} // More than previews at a time.
		env.use(users...)
		env.awaitReady(users...)
		env.awaitStage(infrav1.RolloutComplete)
		before := map[string]int{}
		for _, name := range users {
			before[name] = len(env.Operations(name, scripted.Apply))
		}

		env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"template":{"spec":{"forProvider":{"planArgs":["-parallelism=5"]}}}}}`)
		most := 0
		env.Eventually(func() string {
			all := fixture.List(env, env.Client, scope.GroupVersionKind(), client.InNamespace(fixture.ScopeNamespace(scope, env.Namespace)), client.HasLabels{naming.PreviewLabel})
			most = max(most, len(all))
			template := env.template()
			s := template.Status.Rollout
			return fixture.Unless(s.Revision == rollout.HashOf(template) && s.Stage == infrav1.RolloutComplete, "the rollout is at stage %s", s.Stage)
		})
		assert.LessOrEqual(t, most, 5, "previews at the same time")
		completed := env.template().Status.Rollout
		assert.Equal(t, int32(len(users)), *completed.PreviewedEmpty)
		assert.Zero(t, *completed.PreviewedChanges)
		assert.Zero(t, *completed.PreviewFailed)
		env.awaitReady(users...)
		for _, name := range users {
			assert.Equal(t, completed.Revision, env.revision(name))
			assert.Len(t, env.Operations(name, scripted.Apply), before[name], "nothing was applied for %s", name)
			for _, operation := range []scripted.Operation{scripted.Apply, scripted.Destroy} {
				assert.Zero(t, env.operationsOf(name, operation), "a preview must only observe")
			}
			assert.Positive(t, env.operationsOf(name, scripted.Plan))
		}
		env.awaitNoPreviews(users...)
		assert.Len(t, env.Cloud(), len(users))
	})
}

func TestAnEditThatDestroysWaitsForApproval(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := newEnvironmentIn(t, scope, previewed)
		env.use("a", "b")
		env.awaitReady("a", "b")
		first := env.awaitStage(infrav1.RolloutComplete)
		applied := len(env.Operations("a", scripted.Apply))

		revision := env.edit(destroying)
		env.awaitReason(infrav1.RolloutWaitingReason, "Terraform would change: "+env.Namespace+"/a, "+env.Namespace+"/b", naming.ApproveAnnotation+" to "+revision)
		status := env.awaitStage(infrav1.RolloutWaitingForApproval)
		assert.Equal(t, int32(2), *status.PreviewedChanges)
		env.awaitNoPreviews("a", "b")
		env.never(aWhile, func() bool { return env.revision("a") != first.Revision || len(env.Cloud()) != 2 })
		assert.Len(t, env.Operations("a", scripted.Apply), applied)
		versions := env.template().ResourceVersion
		env.never(aWhile, func() bool { return env.template().ResourceVersion != versions || env.preview("a") != nil })

		env.annotate(naming.ApproveAnnotation, revision)
		env.awaitReason(infrav1.RolloutWaitingReason, naming.ApproveDestroyAnnotation)
		env.never(aWhile, func() bool { return env.revision("a") != first.Revision || len(env.Cloud()) != 2 })
		env.annotate(naming.ApproveDestroyAnnotation, revision)
		env.awaitStage(infrav1.RolloutComplete)
		assert.Empty(t, env.Cloud(), "it is approved")
	})
}

const (
	canaries = `
variable "vpc_name" { type = string }
variable "secret" {
  type      = string
  sensitive = true
}
output "vpc_id" { value = "vpc-0" }
resource "terraform_data" "same" { input = var.secret }
`
	beforeChange = canaries + `
resource "terraform_data" "updated" { input = var.vpc_name }
resource "terraform_data" "replaced" {
  input            = var.secret
  triggers_replace = ["canary-one"]
}
resource "terraform_data" "gone" { input = "canary-gone" }
`
	afterChange = canaries + `
resource "terraform_data" "updated" { input = "${var.vpc_name}-canary-changed" }
resource "terraform_data" "replaced" {
  input            = var.secret
  triggers_replace = ["canary-two"]
}
resource "terraform_data" "new" { input = "canary-new" }
output "added" { value = "canary-added" }
`
)

func TestAPreviewShowsWhatTerraformWouldChange(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := &environment{shared.NewEnvironment(t, scope)}
		of := func(module string) string {
			document := env.Template(fixture.VPCTemplate, module, "vpc_name", "secret")
			return strings.Replace(document, "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+previewed+"}\n", 1)
		}
		env.User(of(beforeChange), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: canary-name, secret: canary-secret}"))
		env.awaitReady("a")
		env.awaitStage(infrav1.RolloutComplete)

		env.User(of(afterChange))
		env.awaitStage(infrav1.RolloutWaitingForApproval)
		env.awaitNoPreviews("a")
		a := &infrav1.WorkspaceTemplateApply{}
		require.True(t, env.Exists(a, "a"))
		resource := func(name string, action infrav1.PlanAction, reason string) infrav1.PlannedResource {
			return infrav1.PlannedResource{Address: "terraform_data." + name, Type: "terraform_data", Action: action, Reason: reason}
		}
		assert.Equal(t, &infrav1.PlannedChanges{
			Counts: []infrav1.PlannedCount{
				{Action: infrav1.PlanReplace, Count: 1}, {Action: infrav1.PlanDelete, Count: 1}, {Action: infrav1.PlanUpdate, Count: 1}, {Action: infrav1.PlanCreate, Count: 1},
			},
			Destroys: []string{"terraform_data"},
			Resources: []infrav1.PlannedResource{
				resource("replaced", infrav1.PlanReplace, "cannot_update"), resource("gone", infrav1.PlanDelete, "delete_because_no_resource_config"),
				resource("updated", infrav1.PlanUpdate, ""), resource("new", infrav1.PlanCreate, ""),
			},
			Outputs: 1,
		}, a.Status.Preview.Changes)
		version := a.ResourceVersion
		env.never(aWhile, func() bool {
			require.True(t, env.Exists(a, "a"))
			return a.ResourceVersion != version
		})
		events := &eventsv1.EventList{}
		require.NoError(t, env.List(t.Context(), events, client.InNamespace(env.Namespace)))
		text, err := json.Marshal([]any{a.Status, env.template().Status, events})
		require.NoError(t, err)
		assert.NotContains(t, string(text), "canary-")
	})
}

// With -json, provider-terraform does not keep the error of a plan.
func TestAPlanThatFailsStopsTheRollout(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "preview: Always")
	env.use("a", "b")
	env.awaitReady("a", "b")
	old := env.awaitStage(infrav1.RolloutComplete).Revision
	require.NoError(t, env.Scripts.SetScript(env.previewKey("a"), scripted.Script{Plan: scripted.Step{Stderr: "\nError: Unsupported argument\n"}}))

	revision := env.edit(changed)
	env.awaitReason(infrav1.RolloutStoppedReason, "the plan fails for: "+env.Namespace+"/a", "Unsupported argument", naming.ResumeAnnotation+" to "+revision)
	env.awaitNoPreviews("a", "b")
	assert.Equal(t, []string{old, old}, []string{env.revision("a"), env.revision("b")})
	env.annotate(naming.ResumeAnnotation, revision)
	env.awaitStage(infrav1.RolloutComplete)
}

// The objects are deleted while Terraform plans.
func TestAPreviewIsDeletedWithItsObject(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := newEnvironmentIn(t, scope, previewed)
		env.use("a", "b")
		env.awaitReady("a", "b")
		env.awaitStage(infrav1.RolloutComplete)
		for _, name := range []string{"a", "b"} {
			require.NoError(t, env.Scripts.SetScript(env.previewKey(name), scripted.Script{Plan: scripted.Step{Hang: true}}))
		}
		env.edit(changed)
		env.Eventually(func() string {
			return fixture.Unless(env.preview("a") != nil && env.preview("b") != nil, "there are no previews")
		})
		preview := env.preview("a")
		assert.Equal(t, env.Workspace("a").GetAnnotations()["crossplane.io/external-name"], preview.GetAnnotations()["crossplane.io/external-name"])
		assert.NotContains(t, preview.GetAnnotations(), naming.ClaimAnnotation)

		env.Remove(&infrav1.WorkspaceTemplateApply{}, "a")
		require.NoError(t, env.Scripts.SetScript(client.ObjectKeyFromObject(preview), scripted.Script{}))
		env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, "a")
		env.awaitNoPreviews("a")
		require.Len(t, env.Cloud(), 1, "only the resources of a are destroyed")

		env.edit(fixture.VPCModule) // The edit is reverted.
		require.NoError(t, env.Scripts.SetScript(env.previewKey("b"), scripted.Script{}))
		env.awaitNoPreviews("b")
	})
}

// A user of a shared template can set the annotation in which CAPT records the state of a Workspace. The rollout of the others ends.
func TestAnObjectWithoutAWorkspaceDoesNotStopARollout(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, previewed)
	env.use("b")
	env.awaitReady("b")
	env.awaitStage(infrav1.RolloutComplete)
	forged := `metadata: {annotations: {` + naming.ExternalNameAnnotation + `: x}, name: `
	document := fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: a}", "waitForSecrets: [{name: missing}]")
	require.Contains(t, document, "metadata: {name: ")
	env.User(strings.Replace(document, "metadata: {name: ", forged, 1))
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.ReadyCondition, metav1.ConditionFalse, "")
	revision := env.edit(changed)
	env.awaitReason(infrav1.RolloutWaitingReason, naming.ApproveAnnotation+" to "+revision)
	env.annotate(naming.ApproveAnnotation, revision)
	env.awaitStage(infrav1.RolloutComplete)
	assert.Equal(t, revision, env.revision("b"))
	require.Nil(t, env.Workspace("a"))
}
