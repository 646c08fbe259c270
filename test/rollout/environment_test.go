// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout_test rolls out edits of WorkspaceTemplates in stages. API server, CAPT and Cluster API are real, and Terraform follows a
// script.
package rollout_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

const (
	tick   = 200 * time.Millisecond
	aWhile = 3 * time.Second
)

// environment is a namespace with a template for VPCs.
type environment struct{ *fixture.Environment }

// newEnvironment creates a template with a policy, in JSON without braces.
func newEnvironment(t *testing.T, policy string) *environment {
	t.Helper()
	return newEnvironmentIn(t, terraform.ScopeNamespaced, policy)
}

// newEnvironmentIn is newEnvironment with Workspaces of a scope.
func newEnvironmentIn(t *testing.T, scope terraform.Scope, policy string) *environment {
	t.Helper()
	env := &environment{shared.NewEnvironment(t, scope)}
	document := env.VPCTemplate(fixture.VPCModule)
	env.User(strings.Replace(document, "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+policy+"}\n", 1))
	return env
}

// use creates users of the template.
func (env *environment) use(names ...string) {
	env.Helper()
	for _, name := range names {
		env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, name, fmt.Sprintf("variables: {vpc_name: %s}", name)))
	}
}

func (env *environment) awaitReady(names ...string) {
	env.Helper()
	for _, name := range names {
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	}
}

// edit changes the module, and returns the hash of the new revision. It keeps the policy.
func (env *environment) edit(module string) string {
	env.Helper()
	env.User(env.withPolicy(module))
	return rollout.HashOf(env.template())
}

func (env *environment) withPolicy(module string) string {
	env.Helper()
	policy := env.template().Spec.Rollout
	fields := fmt.Sprintf("{strategy: Staged, maxConcurrent: %d", policy.ConcurrencyLimit())
	if policy.Approval != "" {
		fields += ", approval: " + string(policy.Approval)
	}
	if policy.IsPreviewed() {
		fields += ", preview: Always"
	}
	if canary := policy.Canary; canary.Count > 0 {
		fields += fmt.Sprintf(", canary: {count: %d, soakSeconds: %d}", canary.Count, canary.SoakSeconds)
	} else if canary.Selector != nil {
		fields += ", canary: {selector: {matchLabels: {canary: 'yes'}}}"
	}
	return strings.Replace(env.VPCTemplate(module), "\nspec:\n", "\nspec:\n  rollout: "+fields+"}\n", 1)
}

func (env *environment) template() *infrav1.WorkspaceTemplate {
	env.Helper()
	return env.templateNamed(fixture.VPCTemplate)
}

func (env *environment) templateNamed(name string) *infrav1.WorkspaceTemplate {
	env.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.True(env, env.Exists(template, name))
	return template
}

func (env *environment) annotate(key, value string) {
	env.Helper()
	env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

// awaitStage waits until the rollout of the current content has reached a stage.
func (env *environment) awaitStage(stage infrav1.RolloutStage) infrav1.WorkspaceTemplateRolloutStatus {
	env.Helper()
	return env.awaitStageOf(fixture.VPCTemplate, stage)
}

func (env *environment) awaitStageOf(name string, stage infrav1.RolloutStage) infrav1.WorkspaceTemplateRolloutStatus {
	env.Helper()
	var template *infrav1.WorkspaceTemplate
	env.Eventually(func() string {
		template = env.templateNamed(name)
		s := template.Status.Rollout
		return fixture.Unless(s.Revision == rollout.HashOf(template) && s.Stage == stage, "the rollout of %s is at stage %s", s.Revision, s.Stage)
	})
	return template.Status.Rollout
}

// awaitReason waits for a reason of condition RollingOut.
func (env *environment) awaitReason(reason string, parts ...string) {
	env.Helper()
	env.Await(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, infrav1.RollingOutCondition, metav1.ConditionTrue, reason, parts...)
}

// revision returns the revision that is assigned to a user.
func (env *environment) revision(name string) string {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.True(env, env.Exists(apply, name))
	return apply.Spec.TemplateRevision
}

// never requires that something does not happen for a while. Unlike require.Never, it never outlives the test: reads that the end of the test cancels
// would fail.
func (env *environment) never(while time.Duration, happened func() bool) {
	env.Helper()
	for end := time.Now().Add(while); time.Now().Before(end); time.Sleep(tick) {
		require.False(env, happened())
	}
}
