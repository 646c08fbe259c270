// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package neverempty tests, with a provider that polls often, that modules are reported whose plan is never empty.
package neverempty

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(options *sandbox.Options) {
		options.ProviderArgs = append(options.ProviderArgs, "--poll=3s")
		options.ManagerArgs = append(options.ManagerArgs, "--plan-check-delay=15s")
	}))
}

func TestAModuleWhosePlanIsNeverEmpty(t *testing.T) {
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	policy := "\nspec:\n  rollout: {strategy: Staged, preview: Always, approval: OnChanges}\n"
	env.User(strings.Replace(env.VPCTemplate(fixture.VPCModule), "\nspec:\n", policy, 1))
	env.SetScript("a", scripted.Script{Drift: scripted.Perpetual})
	apply := &infrav1.WorkspaceTemplateApply{}
	for _, name := range []string{"a", "b"} {
		env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, name, "variables: {vpc_name: "+name+"}"))
		env.Await(apply, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	}
	env.Await(apply, "a", infrav1.PlanNeverEmptyCondition, metav1.ConditionTrue, infrav1.PlanHasChangesReason, "Terraform would update terraform_data.vpc, although it has just applied this content")
	preview := env.WorkspaceKey("a").Name + "-preview"
	env.Eventually(func() string {
		return fixture.Unless(!strings.Contains(env.Kubectl("get", "workspaces.tf.m.upbound.io", "-o=name"), "-preview-"), "%s exists", preview)
	})
	require.True(t, env.Exists(apply, "a"))
	version := apply.ResourceVersion
	require.Never(t, func() bool { return !env.Exists(apply, "a") || apply.ResourceVersion != version }, 10*time.Second, time.Second, "it is written at each poll")
	require.True(t, env.Exists(apply, "b"))
	assert.False(t, conditions.Has(apply, infrav1.PlanNeverEmptyCondition))
	previews := 0
	journal, err := env.Scripts.Journal()
	require.NoError(t, err)
	for _, entry := range journal {
		if strings.Contains(entry.Name, "-preview-") && entry.Operation == scripted.Plan {
			previews++
		}
	}
	assert.InDelta(t, 2, previews, 1, "only a is planned, and once: the provider looks at each preview twice")

	env.SetScript("a", scripted.Script{}) // The module is corrected.
	env.Await(apply, "a", infrav1.PlanNeverEmptyCondition, metav1.ConditionFalse, infrav1.PlanEmptyReason)
}
