// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
)

func clusterRef(namespace, name string) migrate.ObjectRef {
	return migrate.ObjectRef{Group: "cluster.x-k8s.io", Kind: "Cluster", Namespace: namespace, Name: name}
}

// twoUnits is a plan of a Cluster that can be adopted, and, if asked for, of one that needs a decision.
func twoUnits(t *testing.T, withUndecided bool) *plan.Plan {
	t.Helper()
	object := migrate.ObjectRef{Group: "controlplane.cluster.x-k8s.io", Kind: "CAPTControlPlane", Namespace: "team-a", Name: "demo", UID: "plane-1"}
	p := &plan.Plan{ClusterUID: "uid-of-kube-system", Units: []plan.Unit{{
		Object: clusterRef("team-a", "demo"), State: plan.Adoptable, Members: []plan.Member{{Object: object}},
		Steps: []plan.Step{{Object: object, Why: "spec refers to it", Fields: []plan.Field{{Path: "/spec/workspaceTemplateApplyRef", After: json.RawMessage(`{"name":"demo"}`)}}}},
	}}}
	if withUndecided {
		shop := object
		shop.Namespace, shop.Name, shop.UID = "team-b", "shop", "plane-2"
		p.Units = append(p.Units, plan.Unit{Object: clusterRef("team-b", "shop"), State: plan.NeedsDecision, Members: []plan.Member{{Object: shop}}})
		p.Findings = []migrate.Finding{{Severity: migrate.Ambiguous, Reason: planner.ReasonMultipleCandidates, Object: shop, Message: "two WorkspaceTemplateApplies"}}
	}
	require.NoError(t, p.Seal())
	return p
}

// saved writes a plan to a file.
func saved(t *testing.T, p *plan.Plan) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plan.json")
	file, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, p.Write(file))
	require.NoError(t, file.Close())
	return name
}

func TestCheckPrintsUnitsFindingsChecksAndNextSteps(t *testing.T) {
	env := undecided()
	env.report = check.Report{Stage: check.Untouched, Checks: []check.Check{
		{Name: check.CheckClusterAPI, Status: check.OK, Message: "served"},
		{Name: check.CheckLegacy, Status: check.Warning, Message: "CAPT v0.3 runs", Commands: []string{"kubectl -n capt-system scale deployment/old --replicas=0"}},
	}}
	out, errOut, err := env.run(t, "migrate", "check")
	require.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)
	assert.Contains(t, out, "Ambiguous: CAPTControlPlane default/demo (MultipleCandidates)")
	assert.Contains(t, out, "Decisions: uncomment one line of each entry, save it as decisions.yaml, and run: captctl migrate plan --decisions decisions.yaml --out plan.json\n\napiVersion: ")
	assert.Contains(t, out, "Checks: 2 of 3 are OK\n  Warning  CAPT v0.3: CAPT v0.3 runs\n")
	assert.Contains(t, out, "1. Stop CAPT v0.3.\n     kubectl -n capt-system scale deployment/old --replicas=0\n2. Install this version")
	assert.Contains(t, errOut, "Reading objects", "progress is on standard error")
	assert.Empty(t, env.checked.Before, "the stage is found by looking")

	out, errOut, err = env.run(t, "migrate", "check", "-o", "json")
	require.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	assert.Contains(t, out, `"kind": "Check"`)
	assert.Contains(t, out, `"step": "Stop CAPT v0.3."`)
	assert.Empty(t, errOut, "a program gets no progress")
	out, _, _ = env.run(t, "migrate", "check", "-o", "wide")
	assert.Contains(t, out, "  OK       Cluster API: served\n")
}

func TestCheckFailsIfACheckFailed(t *testing.T) {
	env := undecided()
	env.report = check.Report{Stage: check.Apply, Checks: []check.Check{{Name: check.CheckDefinitions, Status: check.Failed, Message: "not installed"}}}
	out, _, err := env.run(t, "migrate", "check")
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err), "before what is undecided")
	assert.EqualError(t, err, "1 check failed")
	assert.Contains(t, out, "  Failed   definitions: not installed\n")
	assert.Contains(t, out, "Resolve the failed checks")
}

func TestCheckOfAFleetThatCannotBeReadPrintsTheChecks(t *testing.T) {
	env := undecided()
	env.report = check.Report{Checks: []check.Check{{Name: check.CheckPermissions, Status: check.Warning, Message: "a right is missing", Commands: []string{"kubectl create x"}}}}
	env.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "workspacetemplates"}, "", nil)
	}
	out, _, err := env.run(t, "migrate", "check")
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
	assert.ErrorContains(t, err, "captctl migrate check lists the missing permissions")
	assert.Contains(t, out, "a right is missing")
	assert.Contains(t, out, "1. Grant the missing permissions.\n     kubectl create x\n")
}

func TestCheckOfAnEmptyClusterSaysThatThereIsNothingToDo(t *testing.T) {
	env := &environment{objects: []client.Object{namespace("kube-system"), namespace("team-a")}}
	out, _, err := env.run(t, "migrate", "check", "-n", "team-a")
	require.NoError(t, err)
	assert.Contains(t, out, "There are no objects of CAPT v0.3 in namespace team-a.")
	assert.Contains(t, out, "1. There is nothing to adopt.")
	_, _, err = env.run(t, "migrate", "check", "-n", "typo")
	assert.EqualError(t, err, "namespace typo does not exist")
}

func TestPlanIsSavedAndShownAlsoIfSomethingIsUndecided(t *testing.T) {
	env := undecided()
	file := filepath.Join(t.TempDir(), "plan.json")
	out, _, err := env.run(t, "migrate", "plan", "--out", file, "--detailed-exitcode")
	assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	assert.Contains(t, out, "(MultipleCandidates)")
	printed, _, err := env.run(t, "migrate", "show", file, "-o", "json")
	require.NoError(t, err)
	assert.Equal(t, content(t, file), printed, "a plan is the same in a file and in a pipe")

	decisions := filepath.Join(t.TempDir(), "decisions.yaml")
	require.NoError(t, os.WriteFile(decisions, []byte("apiVersion: migrate.capt.cluster.x-k8s.io/v1\nkind: Decisions\nowners: [{uid: plane-1, skip: true}]\n"), 0o600))
	out, _, err = env.run(t, "migrate", "plan", "--decisions", decisions)
	require.NoError(t, err)
	assert.Contains(t, out, "Skipped")
}

func TestDetailedExitCodeOfPlan(t *testing.T) {
	nothing := &environment{objects: []client.Object{namespace("kube-system")}}
	out, _, err := nothing.run(t, "migrate", "plan", "--detailed-exitcode")
	require.NoError(t, err)
	assert.Contains(t, out, "There is nothing to apply.")
}

func TestShowPrintsFieldsBeforeAndAfter(t *testing.T) {
	env := &environment{}
	file := saved(t, twoUnits(t, true))
	out, _, err := env.run(t, "migrate", "show", file)
	require.NoError(t, err)
	assert.Regexp(t, `team-b/shop +NeedsDecision +- +0 +MultipleCandidates`, out)
	out, _, err = env.run(t, "migrate", "show", file, "--diff")
	require.NoError(t, err)
	assert.Contains(t, out, "team-a/demo\n  CAPTControlPlane team-a/demo: spec refers to it\n    + spec.workspaceTemplateApplyRef:\n    +   name: demo\n")
	assert.Nil(t, env.config, "no cluster was connected to")
}

func TestApplyAsksOnATerminal(t *testing.T) {
	file := saved(t, twoUnits(t, false))
	env := &environment{terminal: true, answer: "y\n"}
	out, errOut, err := env.run(t, "migrate", "apply", file)
	assert.EqualError(t, err, "canceled: nothing was written")
	assert.Contains(t, out, "team-a/demo", "what is about to be applied is shown")
	assert.Contains(t, errOut, `Only "yes" is accepted`)
	assert.Nil(t, env.plan)

	env.answer = "yes\n"
	_, _, err = env.run(t, "migrate", "apply", file)
	require.NoError(t, err)
	require.NotNil(t, env.plan)
	out, errOut, err = env.run(t, "migrate", "apply", file, "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, errOut, "team-a/demo")
	assert.True(t, json.Valid([]byte(out)), "the output is the document alone")

	pipe := &environment{}
	_, _, err = pipe.run(t, "migrate", "apply", file)
	assert.ErrorContains(t, err, "add --yes")
	assert.Nil(t, pipe.config)
}

func TestApplyGivesTheRunWhatItNeeds(t *testing.T) {
	env := undecided()
	env.result = apply.Result{Units: []apply.UnitResult{{Unit: "team-a/demo", Outcome: apply.Applied, Writes: 3}}, Backup: &apply.Backup{Host: "laptop", File: "/b.tar.gz", Checksum: "abc"}}
	p, dir := twoUnits(t, false), t.TempDir()
	alone := migrate.ObjectRef{Group: "infrastructure.cluster.x-k8s.io", Kind: "WorkspaceTemplateApply", Namespace: "a", Name: "b"}
	p.Units = append(p.Units, plan.Unit{Object: alone, State: plan.Adopted})
	require.NoError(t, p.Seal())
	file := saved(t, p)
	out, _, err := env.run(t, "migrate", "apply", file, "--yes", "--cluster", "team-a/demo", "--unit", "WorkspaceTemplateApply/a/b", "--max-failures", "2", "--concurrency", "3",
		"--wait", "7m", "--qps", "7", "--burst", "9", "--fix-cluster-endpoints", "--backup", filepath.Join(dir, "b.tar.gz"), "--journal-namespace", "here")
	require.NoError(t, err)
	o := env.applied
	assert.Equal(t, []string{"team-a/demo", "WorkspaceTemplateApply/a/b"}, o.Units)
	assert.Equal(t, []any{2, 3, 7 * time.Minute, true, false, "here"}, []any{o.MaxFailures, o.Concurrency, o.Wait, o.FixClusterEndpoints, o.DryRun, o.Namespace})
	assert.InDelta(t, 7, env.config.QPS, 0)
	assert.Equal(t, 9, env.config.Burst)
	assert.Regexp(t, `team-a/demo +Applied +3`, out)
	assert.Contains(t, out, "captctl migrate rollback "+env.plan.ID)
	backup, err := o.Backup(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "b.tar.gz"), backup.File)
}

func TestApplyChecksFirst(t *testing.T) {
	env := undecided()
	_, _, err := env.run(t, "migrate", "apply", saved(t, twoUnits(t, false)), "--dry-run")
	require.NoError(t, err, "a dry run asks nothing")
	assert.True(t, env.applied.DryRun)
	require.NoError(t, env.applied.Check(t.Context()))
	assert.Equal(t, check.Apply, env.checked.Before)
	env.report.Checks = []check.Check{
		{Name: check.CheckLegacy, Status: check.Failed, Message: "CAPT v0.3 runs. It must not run together with this version"},
		{Name: check.CheckPermissions, Status: check.Failed, Message: "2 permissions are missing", Objects: []string{"patch x", "create y"}},
	}
	assert.Equal(t, "checks failed:\n  CAPT v0.3: CAPT v0.3 runs\n  permissions: 2 permissions are missing\n  patch x\n  create y\ncaptctl migrate check shows the commands, and with -o wide all details",
		cli.Line(env.applied.Check(t.Context())))
}

func TestApplyOfAnUndecidedClusterNeedsADecision(t *testing.T) {
	env := undecided()
	file := saved(t, twoUnits(t, true))
	_, _, err := env.run(t, "migrate", "apply", file, "--yes", "--cluster", "team-b/shop")
	assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	assert.Nil(t, env.plan, "there is nothing to apply")

	_, _, err = env.run(t, "migrate", "apply", file, "--yes", "--cluster", "team-a/demo")
	require.NoError(t, err)
	env.runError = migrate.Partly.Errorf("1 of 2 failed")
	env.result.Units = []apply.UnitResult{{Unit: "team-a/demo", Outcome: apply.Failed, Message: "no:\n  it is busy"}}
	out, _, err := env.run(t, "migrate", "apply", file, "--yes")
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
	assert.Regexp(t, `team-a/demo +Failed +0 +no: it is busy`, out)
}

// recorded adds the journal of a plan to an environment.
func recorded(t *testing.T, env *environment, p *plan.Plan, at time.Time, units map[string]apply.Phase) {
	t.Helper()
	state := apply.Journal{PlanID: p.ID, Checksum: p.Checksum, Started: metav1.NewTime(at), Parts: 1, Units: map[string]apply.UnitRecord{}}
	for name, phase := range units {
		state.Units[name] = apply.UnitRecord{Phase: phase, Begun: metav1.NewMicroTime(at)}
	}
	data, err := state.Encode()
	require.NoError(t, err)
	object := func(name, part string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "capt-system", Name: name, Labels: map[string]string{"capt.cluster.x-k8s.io/migration-part": part}}}
	}
	journal, part := object("capt-migrate-"+p.ID, "state"), object("capt-migrate-"+p.ID+"-plan-0", "plan")
	journal.BinaryData = data
	part.BinaryData = map[string][]byte{"plan.json.gz": compressed(t, p)}
	env.objects = append(env.objects, journal, part)
}

func TestRollbackFindsThePlanThatWroteAUnitLast(t *testing.T) {
	env := undecided()
	older, newer := twoUnits(t, false), twoUnits(t, true)
	at := time.Date(2026, 10, 22, 9, 0, 0, 0, time.UTC)
	recorded(t, env, older, at, map[string]apply.Phase{"team-a/demo": apply.PhaseApplied, "team-b/shop": apply.PhaseApplied})
	recorded(t, env, newer, at.Add(time.Minute), map[string]apply.Phase{"team-a/demo": apply.PhaseApplied, "team-b/shop": apply.PhaseRolledBack})

	env.result.Units = []apply.UnitResult{{Unit: "team-a/demo", Outcome: apply.RolledBack, Writes: 1}}
	out, _, err := env.run(t, "migrate", "rollback", "--cluster", "team-a/demo", "--yes")
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "the user named the Cluster, and it is not as it was: %v", err)
	assert.Equal(t, newer.ID, env.plan.ID)
	assert.True(t, env.rolledBack)
	assert.Contains(t, out, "Plan "+older.ID+" wrote team-a/demo too, and its fields are still there. To revert them as well:\n  captctl migrate rollback "+older.ID+" --cluster team-a/demo\n")
	assert.NotContains(t, out, "To adopt it")
	require.NoError(t, env.applied.Check(t.Context()))
	assert.Equal(t, check.Rollback, env.checked.Before)

	_, _, err = env.run(t, "migrate", "rollback", "--cluster", "team-a/demo", "--cluster", "team-b/shop", "--yes")
	assert.ErrorContains(t, err, "roll them back separately")
	_, _, err = env.run(t, "migrate", "rollback", "--cluster", "team-c/none", "--yes")
	assert.ErrorContains(t, err, "no plan has written team-c/none")
	_, _, err = env.run(t, "migrate", "rollback", "--yes")
	assert.ErrorContains(t, err, "name a plan, or Clusters with --cluster")

	_, _, err = env.run(t, "migrate", "rollback", older.ID, "--yes")
	require.NoError(t, err)
	assert.Equal(t, older.ID, env.plan.ID, "an ID is as good as a file")
	out, _, err = env.run(t, cobra.ShellCompRequestCmd, "migrate", "rollback", "")
	require.NoError(t, err)
	assert.Equal(t, older.ID+"\n"+newer.ID+"\n:0\n", out)
}

func someStatus() *status.Status {
	return &status.Status{Units: []status.UnitStatus{
		{Unit: "team-a/demo", State: plan.Adopted, PlanID: "0123456789ab", Phase: apply.PhaseApplied},
		{Unit: "team-b/shop", State: plan.Adoptable},
	}}
}

func TestStatusHasExitCodesOnlyWhenAsked(t *testing.T) {
	env := undecided()
	found := someStatus()
	env.status = func() *status.Status { return found }
	env.report.Checks = []check.Check{{Name: check.CheckStored, Status: check.OK, Message: "only v1beta2"}}
	out, _, err := env.run(t, "migrate", "status", "-n", "team-a")
	require.NoError(t, err)
	assert.Regexp(t, `team-a/demo +Adopted +Applied +0123456789ab`, out)
	assert.Contains(t, out, "Stored versions: only v1beta2.")
	assert.Equal(t, "team-a", env.read.Namespace)

	_, _, err = env.run(t, "migrate", "status", "--detailed-exitcode")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	found.Units[1].State = plan.Blocked
	_, _, err = env.run(t, "migrate", "status", "--detailed-exitcode")
	assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	found.Units[1].State = plan.Skipped // Of a CaptMachine, which no decision skips.
	_, _, err = env.run(t, "migrate", "status", "--detailed-exitcode")
	require.NoError(t, err)
	found.Units[1].State, found.Units[1].Skipped = plan.PartlyAdopted, []migrate.ObjectRef{clusterRef("team-b", "shop")}
	_, _, err = env.run(t, "migrate", "status", "--detailed-exitcode")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "what a decision skips is not adopted")
}

func TestStatusIsShownAgainWhenItChanges(t *testing.T) {
	env := undecided()
	ctx, interrupt := context.WithCancel(t.Context())
	reads := 0
	env.status = func() *status.Status {
		found := someStatus()
		found.Plans = []status.AppliedPlan{{ID: "0123456789ab", Updated: metav1.NewTime(time.Date(2026, 10, 22, 9, 0, 0, 0, time.UTC))}}
		found.Lock = &lock.Holder{Identity: "laptop-1", Until: metav1.NewTime(env.clock.Now().Add(time.Minute))}
		switch reads++; reads {
		case 1, 2:
		case 3:
			found.Units[1].State = plan.Adopted
		default:
			interrupt()
		}
		go env.clock.Step(time.Minute)
		return found
	}
	out, _, err := env.runIn(ctx, t, "migrate", "status", "--watch")
	require.NoError(t, err, "to be interrupted is not an error")
	assert.Equal(t, 2, strings.Count(out, "UNIT "), "what has not changed is not repeated, whatever its age: %s", out)
}

func TestAStatusThatDidNotChangeIsNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := undecided()
		env.clock = testclock.NewFakeClock(time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC))
		var reads atomic.Int32
		env.status = func() *status.Status { reads.Add(1); return someStatus() }
		ctx, interrupt := context.WithCancel(t.Context())
		go func() { _, _, _ = env.runIn(ctx, t, "migrate", "status", "--watch") }()
		refreshes := func() int32 {
			for range 3 {
				synctest.Wait()
				env.clock.Step(time.Minute)
			}
			synctest.Wait()
			return reads.Load()
		}
		first := refreshes()
		assert.Positive(t, first)
		assert.Equal(t, first, refreshes(), "nothing changed")
		plane := &controlplanev1.CAPTControlPlane{}
		require.NoError(t, env.connected.Get(ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, plane))
		plane.Labels = map[string]string{"changed": "true"}
		require.NoError(t, env.connected.Update(ctx, plane))
		assert.Equal(t, first+1, refreshes())
		interrupt()
		synctest.Wait()
	})
}
