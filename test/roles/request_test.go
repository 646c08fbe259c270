// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"encoding/json"
	"os"
	"path/filepath"
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

// A pipeline that may only request plans plans an edited template for its users, and can neither store it nor change them.
func TestAContentThatIsNotStoredIsPlannedForAPipeline(t *testing.T) {
	t.Parallel()
	pipeline := newUser(t, terraform.ScopeNamespaced, "capt-plan-requester", &infrav1.PlanRequestList{})
	env := pipeline.Environment
	of := func(module string) string { return env.Template(fixture.VPCTemplate, module, "vpc_name", "secret") }
	env.User(of(beforePlan), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: canary-name, secret: canary-secret}"))
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
