// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/test/builder"
)

// waiting makes a WorkspaceTemplateApply of a cluster whose Workspace is called w-<name>, and which waits for those of others.
func waiting(name string, others ...string) *infrav1.WorkspaceTemplateApply {
	apply := builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName("w-"+name))
	for _, other := range others {
		builder.WaitingForWorkspace("w-"+other, "")(apply)
	}
	return apply
}

func TestDependencyCyclesAreRefused(t *testing.T) {
	at := func(i int, text string) []finding {
		return []finding{{fmt.Sprintf("spec.waitForWorkspaces[%d]", i), field.ErrorTypeInvalid, text}}
	}
	there := func(namespace string, apply *infrav1.WorkspaceTemplateApply, others ...string) *infrav1.WorkspaceTemplateApply {
		apply.Namespace = namespace
		for _, other := range others {
			builder.WaitingForWorkspace("w-"+other, builder.Namespace)(apply)
		}
		return apply
	}
	from := func(apply *infrav1.WorkspaceTemplateApply, namespace string, others ...string) *infrav1.WorkspaceTemplateApply {
		for _, other := range others {
			builder.WaitingForWorkspace("w-"+other, namespace)(apply)
		}
		return apply
	}
	unnamed := func(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
		apply.Spec.WorkspaceName = ""
		return apply
	}
	const long = "WorkspaceTemplateApplies cannot depend on each other: a → b → c → a. Remove one of these dependencies"
	later := []string{"does not exist yet"}
	testApplies(t, applies.WorkspaceTemplateApply, map[string]applyRow{
		"without dependencies":            {world: []validation.Owner{vpc, waiting("b", "a")}, apply: waiting("a")},
		"waiting for a chain":             {world: []validation.Owner{vpc, waiting("b", "c"), waiting("c")}, apply: waiting("a", "b", "c")},
		"waiting for one that is missing": {world: []validation.Owner{vpc}, apply: waiting("a", "b")},
		"waiting for oneself":             {world: []validation.Owner{vpc}, apply: waiting("a", "b", "a"), errors: at(1, "Workspace w-a cannot depend on itself. Remove it from the list")},
		"a cycle of two":                  {world: []validation.Owner{vpc, waiting("b", "a")}, apply: waiting("a", "b"), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → b → a")},
		"a cycle of three":                {world: []validation.Owner{vpc, waiting("b", "c"), waiting("c", "a")}, apply: waiting("a", "x", "b"), errors: at(1, long)},
		"a cycle of others":               {world: []validation.Owner{vpc, waiting("b", "c"), waiting("c", "b")}, apply: waiting("a", "b")},
		"another who waits for itself":    {world: []validation.Owner{vpc, waiting("b", "b")}, apply: waiting("a", "b")},
		"the shortest of two is reported": {world: []validation.Owner{vpc, waiting("b", "c"), waiting("c", "a"), waiting("d", "a")}, apply: waiting("a", "b", "d"), errors: at(1, "WorkspaceTemplateApplies cannot depend on each other: a → d → a")},
		"two ways that meet":              {world: []validation.Owner{vpc, waiting("b", "d"), waiting("c", "d"), waiting("d")}, apply: waiting("a", "b", "c")},
		"what is stored does not count":   {world: []validation.Owner{vpc, waiting("a", "b"), waiting("b", "a")}, apply: waiting("a")},
		"what is stored has no name":      {world: []validation.Owner{vpc, unnamed(waiting("a")), waiting("b", "a")}, apply: waiting("a", "b"), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → b → a")},
		"one of that name elsewhere is another one": {
			world: []validation.Owner{vpc, waiting("b"), there("other", waiting("b"), "a")}, apply: waiting("a", "b")},
		"itself by that name elsewhere is another one": {world: []validation.Owner{vpc, there("other", waiting("a"))}, apply: from(waiting("a"), "other", "a")},
		"through other namespaces, which are not reported": {
			world: []validation.Owner{vpc, there("other", waiting("b", "c")), there("other", waiting("c"), "d"), waiting("d", "a")},
			apply: from(waiting("a"), "other", "b"), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → (another namespace) → d → a")},
		"the name that the scheme gives": {world: []validation.Owner{vpc, builder.WorkspaceTemplateApply("b", builder.WithWorkspaceName("b"), builder.WaitingForWorkspace("a", ""))},
			apply: builder.WorkspaceTemplateApply("a-apply", builder.WaitingForWorkspace("b", "")), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a-apply → b → a-apply")},
		"the name that the scheme will give": {world: []validation.Owner{builder.WorkspaceTemplateApply("b", builder.WithWorkspaceName("b"), builder.WaitingForWorkspace("a", ""))},
			apply: builder.WorkspaceTemplateApply("a", builder.WaitingForWorkspace("b", "")), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → b → a"), warnings: later},
		"the name in the cluster scope": {world: []validation.Owner{wide, builder.WorkspaceTemplateApply("b", builder.WithWorkspaceName("b"), builder.WaitingForWorkspace("a", ""))},
			apply: builder.WorkspaceTemplateApply("a", of("shared", "wide"), builder.WaitingForWorkspace("b", ""))},
	})
}

// Thousands that wait for each other cost no more than a few hundred looks, and each Workspace is looked for once.
func TestTheSearchForACycleTerminates(t *testing.T) {
	world := newWorld(vpc)
	for i := range 3000 {
		world.add(waiting(fmt.Sprint(i), fmt.Sprint(i+1), fmt.Sprint((i*7)%3000)))
	}
	findings, err := applies.WorkspaceTemplateApply(context.Background(), world, waiting("a", "0"))
	require.NoError(t, err)
	assert.Empty(t, findings.Errors)
	assert.LessOrEqual(t, world.looks["ClaimantsOf"], 1002)
}

// An error that was there before an update is known by its text.
func TestTheSameCycleIsReportedEveryTime(t *testing.T) {
	world := newWorld(vpc, waiting("b", "d", "e"), waiting("c", "e", "d"), waiting("d", "a"), waiting("e", "a"))
	for range 50 {
		findings, err := applies.WorkspaceTemplateApply(context.Background(), world, waiting("a", "c", "b"))
		require.NoError(t, err)
		assertRefused(t, findings.Errors, finding{"spec.waitForWorkspaces[0]", field.ErrorTypeInvalid, "WorkspaceTemplateApplies cannot depend on each other: a → c → e → a"})
	}
}
