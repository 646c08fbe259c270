// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

const (
	plannedVariables = `
variable "vpc_name" { type = string }
variable "secret" {
  type      = string
  sensitive = true
}
output "vpc_id" { value = "vpc-0" }
`
	beforePlan = plannedVariables + `
resource "terraform_data" "updated" { input = var.vpc_name }
resource "terraform_data" "replaced" {
  input            = var.secret
  triggers_replace = ["canary-one"]
}
`
	afterPlan = plannedVariables + `
resource "terraform_data" "updated" { input = "${var.vpc_name}-canary-changed" }
resource "terraform_data" "replaced" {
  input            = var.secret
  triggers_replace = ["canary-two"]
}
resource "terraform_data" "new" { input = "canary-new" }
`
)

// A pipeline that may only request plans can neither store the edited template nor change its users.
func TestAContentThatIsNotStoredIsPlannedForAPipeline(t *testing.T) {
	t.Parallel()
	pipeline := newUser(t, terraform.ScopeNamespaced, "capt-plan-requester", &infrav1.PlanRequestList{})
	env := pipeline.Environment
	other := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	of := func(module string) string {
		document := env.Template(fixture.VPCTemplate, module, "vpc_name", "secret")
		return strings.Replace(document, "\nspec:\n", "\nspec:\n  allowedNamespaces: {names: ["+other.Namespace+"]}\n", 1)
	}
	env.User(of(beforePlan), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: canary-name, secret: canary-secret}"))
	other.User(strings.Replace(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "b", "variables: {vpc_name: canary-other, secret: canary-secret}"),
		"templateRef: {name: "+fixture.VPCTemplate, "templateRef: {namespace: "+env.Namespace+", name: "+fixture.VPCTemplate, 1))
	other.Await(&infrav1.WorkspaceTemplateApply{}, "b", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	template, a := &infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(template, fixture.VPCTemplate))
	workspace := fixture.Workspace(env, env.Client, env.Scope, env.WorkspaceKey("a"))

	file := filepath.Join(t.TempDir(), "template.yaml")
	require.NoError(t, os.WriteFile(file, []byte(of(afterPlan)), 0o600))
	printed, warned, err := pipeline.captctl("plan", "-f", file, "-o", "markdown")
	require.NoError(t, err, warned)
	for _, line := range []string{"for 1 Workspace\n", "-/+ terraform_data.replaced (cannot_update)", "~ terraform_data.updated", "+ terraform_data.new"} {
		assert.Contains(t, printed, line)
	}
	assert.Contains(t, printed, "2 of 2 WorkspaceTemplateApplies have a plan; Terraform would change: ", "that of the other namespace may not be read")
	b := &infrav1.WorkspaceTemplateApply{}
	require.True(t, other.Exists(b, "b"))
	require.Len(t, b.Status.Plans, 1)
	assert.Equal(t, infrav1.PreviewChanges, b.Status.Plans[0].Plan.Result)
	require.True(t, env.Exists(a, "a"))
	require.Len(t, a.Status.Plans, 1)
	status, err := json.Marshal(a.Status)
	require.NoError(t, err)
	assert.NotContains(t, printed+warned+string(status), "canary-")
	after := &infrav1.WorkspaceTemplate{}
	require.True(t, env.Exists(after, fixture.VPCTemplate))
	assert.Equal(t, template.Generation, after.Generation)
	assert.Equal(t, workspace.GetGeneration(), fixture.Workspace(env, env.Client, env.Scope, env.WorkspaceKey("a")).GetGeneration())

	request := &infrav1.PlanRequest{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "invalid"}}
	request.Spec.Template = infrav1.PlannedTemplate{Name: fixture.VPCTemplate, Spec: *template.Spec.DeepCopy()}
	request.Spec.Template.Spec.Template.Spec.ForProvider.Module = "resource {"
	require.ErrorContains(t, pipeline.API.Create(t.Context(), request), "spec.template.spec.template.spec.forProvider.module")
	assert.True(t, apierrors.IsForbidden(pipeline.API.Update(t.Context(), after)))
	assert.True(t, apierrors.IsForbidden(pipeline.API.Update(t.Context(), a)))
}
