// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const (
	timeout = 5 * time.Minute
	tick    = 10 * time.Millisecond
)

var (
	key  = types.NamespacedName{Namespace: "ns", Name: "ws"}
	none = executor.RunOptions{}
	four = `
resource "terraform_data" "a" {}
resource "terraform_data" "b" {}
resource "terraform_data" "c" {}
resource "terraform_data" "d" {}
output "id" { value = terraform_data.a.id }
`
)

// open opens a module as a provider's process would that just started.
func open(t *testing.T, dir, module string) executor.Executor {
	t.Helper()
	factory, err := scripted.New(dir)
	require.NoError(t, err)
	e, err := factory.Open(t.Context(), executor.Module{
		UID: "uid", Key: key, Annotations: map[string]string{"crossplane.io/external-name": "ours"},
		Files: map[string][]byte{"main.tf": []byte(module)},
	})
	require.NoError(t, err)
	require.NoError(t, e.SelectWorkspace(t.Context(), "ours"))
	return e
}

func differs(t *testing.T, e executor.Executor) bool {
	t.Helper()
	differs, err := e.Plan(t.Context(), none)
	require.NoError(t, err)
	return differs
}

func TestStateAndResourcesSurviveTheProvider(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, four)
	require.NoError(t, first.Init(t.Context(), nil))
	require.True(t, differs(t, first))
	require.NoError(t, first.Apply(t.Context(), none))
	before, err := first.Outputs(t.Context())
	require.NoError(t, err)

	second := open(t, dir, four)
	require.False(t, differs(t, second))
	addresses, err := second.Resources(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"terraform_data.a", "terraform_data.b", "terraform_data.c", "terraform_data.d"}, addresses)
	after, err := second.Outputs(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)

	require.NoError(t, second.Destroy(t.Context(), none))
	require.NoError(t, second.DeleteWorkspace(t.Context()))
	require.NoError(t, second.DeleteWorkspace(t.Context()), "the default workspace is left alone")
	states, err := scripted.At(dir).States()
	require.NoError(t, err)
	require.Empty(t, states)
	cloud, err := scripted.At(dir).Cloud()
	require.NoError(t, err)
	require.Empty(t, cloud)
}

func TestAnUpdateKeepsWhatStays(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir, four).Apply(t.Context(), none))
	before, err := scripted.At(dir).States()
	require.NoError(t, err)

	e := open(t, dir, `resource "terraform_data" "b" {}`)
	require.True(t, differs(t, e))
	require.NoError(t, e.Apply(t.Context(), none))
	cloud, err := scripted.At(dir).Cloud()
	require.NoError(t, err)
	require.Equal(t, before["ours"].Resources[1:2], cloud)
}

func TestDriftIsPlannedUntilItIsApplied(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, four)
	require.NoError(t, e.Apply(t.Context(), none))
	require.NoError(t, scripted.At(dir).SetDefaultScript(scripted.Script{Drift: "changed by hand"}))
	require.True(t, differs(t, e))
	require.NoError(t, e.Apply(t.Context(), none))
	require.False(t, differs(t, e))
}

func TestWhileAnApplyRunsItsResourcesAreOrphans(t *testing.T) {
	dir := t.TempDir()
	environment := scripted.At(dir)
	require.NoError(t, environment.SetScript(key, scripted.Script{Apply: scripted.Step{Hang: true}}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	e := open(t, dir, four)
	go func() { done <- e.Apply(ctx, none) }()
	require.Eventually(t, func() bool {
		orphans, err := environment.Orphans()
		return err == nil && len(orphans) == 4 && orphans[0].ExternalName == "ours"
	}, timeout, tick)
	journal, err := environment.Journal()
	require.NoError(t, err)
	require.Len(t, journal, 1)
	require.Zero(t, journal[0].End)

	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	orphans, err := environment.Orphans()
	require.NoError(t, err)
	require.Empty(t, orphans, "an apply that is asked to stop saves what it made")
	require.True(t, differs(t, e))
}

func TestAScriptMayChangeItsMind(t *testing.T) {
	dir := t.TempDir()
	environment := scripted.At(dir)
	require.NoError(t, environment.SetScript(key, scripted.Script{Apply: scripted.Step{Hang: true}}))
	done := make(chan error, 1)
	e := open(t, dir, four)
	go func() { done <- e.Apply(t.Context(), none) }()
	require.Eventually(t, func() bool { journal, err := environment.Journal(); return err == nil && len(journal) == 1 }, timeout, tick)

	require.NoError(t, environment.SetScript(key, scripted.Script{Apply: scripted.Step{Stderr: "\nError: Quota exceeded\n"}}))
	require.ErrorContains(t, <-done, "Terraform encountered an error. Summary: Quota exceeded. To see the full error run: echo")
	cloud, err := environment.Cloud()
	require.NoError(t, err)
	require.Empty(t, cloud, "what failed was not made")
	require.NoError(t, environment.SetScript(key, scripted.Script{}))
	require.NoError(t, e.Apply(t.Context(), none))
}

func TestAStepTakesItsTime(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, scripted.At(dir).SetDefaultScript(scripted.Script{Plan: scripted.Step{Delay: 70 * time.Millisecond}}))
	require.True(t, differs(t, open(t, dir, four)))
	journal, err := scripted.At(dir).Journal()
	require.NoError(t, err)
	require.GreaterOrEqual(t, journal[0].End.Sub(journal[0].Start), 70*time.Millisecond)
}

func TestAFailureMayEndByItself(t *testing.T) {
	dir := t.TempDir()
	script := scripted.Script{Init: scripted.Step{Stderr: "\nError: x\n", Times: 2}}
	require.NoError(t, scripted.At(dir).SetDefaultScript(script))
	require.Error(t, open(t, dir, four).Init(t.Context(), nil))
	require.Error(t, open(t, dir, four).Init(t.Context(), nil), "the provider may be another one")
	require.NoError(t, open(t, dir, four).Init(t.Context(), nil))

	require.NoError(t, scripted.At(dir).SetDefaultScript(script))
	require.Error(t, open(t, dir, four).Init(t.Context(), nil), "a script that is written again restarts the count")
}

func TestAFailureMayComeHalfWay(t *testing.T) {
	dir := t.TempDir()
	half := scripted.Step{Stderr: "\nError: x\n", Times: 1, Partial: true}
	require.NoError(t, scripted.At(dir).SetDefaultScript(scripted.Script{Apply: half, Destroy: half}))
	e := open(t, dir, four)
	count := func() int {
		resources, err := e.Resources(t.Context())
		require.NoError(t, err)
		cloud, err := scripted.At(dir).Cloud()
		require.NoError(t, err)
		require.Len(t, cloud, len(resources))
		return len(resources)
	}
	require.Error(t, e.Apply(t.Context(), none))
	require.Equal(t, 2, count())
	require.True(t, differs(t, e))
	require.NoError(t, e.Apply(t.Context(), none))
	require.Equal(t, 4, count())
	require.Error(t, e.Destroy(t.Context(), none))
	require.Equal(t, 2, count())
	require.NoError(t, e.Destroy(t.Context(), none))
	require.Zero(t, count())
}

func TestTheJournalRecordsEveryOperation(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, scripted.At(dir).SetDefaultScript(scripted.Script{Destroy: scripted.Step{Stderr: "\nError: x\n"}}))
	e := open(t, dir, four)
	require.NoError(t, e.Init(t.Context(), nil))
	require.True(t, differs(t, e))
	require.NoError(t, e.Apply(t.Context(), none))
	require.Error(t, e.Destroy(t.Context(), none))

	journal, err := scripted.At(dir).Journal()
	require.NoError(t, err)
	var operations []scripted.Operation
	for i, entry := range journal {
		operations = append(operations, entry.Operation)
		require.True(t, entry.Of(key))
		require.Equal(t, types.UID("uid"), entry.UID)
		require.Equal(t, "ours", entry.ExternalName)
		require.False(t, entry.End.Before(entry.Start))
		require.Equal(t, entry.Operation == scripted.Destroy, entry.Error != "")
		require.True(t, i == 0 || !entry.Start.Before(journal[i-1].End))
	}
	require.Equal(t, []scripted.Operation{scripted.Init, scripted.Plan, scripted.Apply, scripted.Destroy}, operations)
}

func TestTheChecksumIsThatOfTheFiles(t *testing.T) {
	sum := func(module string) string {
		sum, err := open(t, t.TempDir(), module).Checksum(t.Context())
		require.NoError(t, err)
		return sum
	}
	require.Equal(t, sum(four), sum(four))
	require.NotEqual(t, sum(four), sum(four+"\n"))
}
