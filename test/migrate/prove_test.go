// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// Clusters of TestAUnitIsAdoptedOnlyOnAnEmptyPlan, and WorkspaceTemplateApplies of theirs.
const (
	provenUnit, driftedUnit, failingUnit = "prove/same", "prove/drifted", "prove/failing"
	provenVPC, driftedVPC, failingEKS    = "same-vpc", "drifted-vpc", "failing-eks-controlplane-apply"
)

// proved is a fleet of CAPT v0.3 whose Terraform does what scripts say.
type proved struct {
	*environment
	scripts    *scripted.Store
	workspaces map[string]any
	runs       map[string]string
}

// TestAUnitIsAdoptedOnlyOnAnEmptyPlan adopts a fleet with --prove: in one cluster the resources have drifted, and in another one the plan fails. Then
// captctl and the manager are killed during a proof, which is resumed once, and rolled back once.
func TestAUnitIsAdoptedOnlyOnAnEmptyPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := sandbox.Options{Provider: true, ProviderPod: true, ProviderArgs: []string{"--executor=scripted", "--script-dir=" + dir}}
	env := &proved{environment: newEnvironment(t, options), scripts: scripted.At(dir)}
	fleet := live(legacy.PlainRecipe(), "same", "drifted", "failing")
	_, err := env.Create(t.Context(), legacy.Fixture{Clusters: func(names legacy.Names) []legacy.Cluster {
		clusters := fleet.Clusters(names)
		clusters[0].Helpers = true
		return clusters
	}}, legacy.Names{Namespace: "prove"})
	require.NoError(t, err)
	require.NoError(t, env.Upgrade(t.Context()))
	env.await(env.withoutAdoptionRequired)
	env.awaitReconciled()
	env.workspaces, env.runs = identities(env.environment.workspaces()), env.environment.runs()
	require.NotEmpty(t, env.runs)
	p := env.host.Plan()
	require.Empty(t, p.Undecided())

	t.Run("only units with empty plans", func(t *testing.T) { env.adoptsTheProven(t, p) })
	t.Run("the others, after the cause is removed", func(t *testing.T) {
		env.script(driftedVPC, scripted.Script{})
		env.script(failingEKS, scripted.Script{})
		env.host.In(t).Run(migrate.Done, "apply", "plan.json", "--prove", "--yes")
		env.requireFields(t, p, plan.Applied)
		env.requireUntouched(t)
	})
	if t.Failed() {
		t.FailNow()
	}
	env.host.Run(migrate.Done, "rollback", p.ID, "--yes")
	env.requireFields(t, p, plan.Pending)
	t.Run("a run that was killed is resumed", func(t *testing.T) { env.resumes(t, p) })
	t.Run("a run that was killed is rolled back", func(t *testing.T) { env.rollsBack(t, p) })
	env.requireHarmless()
}

// script says what Terraform does in the preview of a WorkspaceTemplateApply.
func (env *proved) script(apply string, script scripted.Script) {
	env.Helper()
	require.NoError(env, env.scripts.SetScript(env.previewOf(apply), script))
}

func (env *proved) previewOf(apply string) types.NamespacedName {
	env.Helper()
	return fixture.PreviewKey(env, env.Admin, terraform.ScopeCluster, types.NamespacedName{Namespace: "prove", Name: apply})
}

// requireUntouched requires that no Workspace was changed, that there is no preview, and that no proof is requested.
func (env *proved) requireUntouched(t *testing.T) {
	t.Helper()
	env.await(func() string {
		for name := range env.environment.workspaces() {
			if strings.Contains(name, "-preview-") {
				return name + " exists"
			}
		}
		return ""
	})
	require.Equal(t, env.workspaces, identities(env.environment.workspaces()))
	require.Equal(t, env.runs, env.environment.runs())
	var list infrav1.WorkspaceTemplateApplyList
	require.NoError(t, env.Admin.List(t.Context(), &list))
	for i := range list.Items {
		require.NotContains(t, list.Items[i].Annotations, naming.ProveAnnotation, list.Items[i].Name)
	}
}

func (env *proved) adoptsTheProven(t *testing.T, p *plan.Plan) {
	env.script(driftedVPC, scripted.Script{Drift: "changed by hand"})
	env.script(failingEKS, scripted.Script{Plan: scripted.Step{Stderr: "\nError: Unsupported argument\n"}})
	h := env.host.In(t)
	run := h.Start("apply", "plan.json", "--prove", "--yes", "-o=json").Ends(migrate.NeedsDecision)
	assert.Contains(t, run.Err.String(), "2 of 3 not adopted")
	var result apply.Result
	require.NoError(t, json.Unmarshal(run.Out.Bytes(), &result), "%s", run)
	outcomes, messages := map[string]apply.UnitOutcome{}, map[string]string{}
	for _, unit := range result.Units {
		outcomes[unit.Unit], messages[unit.Unit] = unit.Outcome, unit.Message
	}
	require.Equal(t, map[string]apply.UnitOutcome{provenUnit: apply.Applied, driftedUnit: apply.NotProven, failingUnit: apply.NotProven}, outcomes, "%v", messages)
	assert.Regexp(t, driftedVPC+": Terraform would update terraform_data.vpc", messages[driftedUnit])
	assert.Contains(t, messages[failingUnit], failingEKS+": its plan fails: ")
	assert.Contains(t, messages[failingUnit], "Unsupported argument")
	env.requireFields(t, p, plan.Applied, driftedUnit, failingUnit)
	env.requireUntouched(t)
	states := map[string]plan.UnitState{}
	for name, unit := range h.Status() {
		states[name] = unit.State
		assert.Equal(t, messages[name], unit.Message, "migrate status has the resources, too")
	}
	assert.Contains(t, h.Run(migrate.Done, "check"), messages[driftedUnit])
	assert.Equal(t, map[string]plan.UnitState{provenUnit: plan.Adopted, driftedUnit: plan.Adoptable, failingUnit: plan.Adoptable}, states)

	planned := env.operations(scripted.Plan)
	for _, unit := range p.Units {
		for _, member := range unit.Members {
			if ref := member.WorkspaceTemplateApply; unit.Name() == provenUnit && ref != nil && member.Workspace != nil {
				assert.Positive(t, planned[env.previewOf(ref.Name).Name], ref.Name)
			}
		}
	}
	for _, operation := range []scripted.Operation{scripted.Apply, scripted.Destroy} {
		for name := range env.operations(operation) {
			assert.NotContains(t, name, "-preview-", "a preview only observes")
		}
	}
}

// operations counts the runs of an operation by Workspace.
func (env *proved) operations(operation scripted.Operation) map[string]int {
	env.Helper()
	journal, err := env.scripts.Journal()
	require.NoError(env, err)
	number := map[string]int{}
	for _, entry := range journal {
		if entry.Operation == operation {
			number[entry.Name]++
		}
	}
	return number
}

// killed begins the adoption of a cluster, and kills captctl while Terraform plans.
func (env *proved) killed(t *testing.T) {
	t.Helper()
	before := env.operations(scripted.Plan)[env.previewOf(provenVPC).Name]
	env.script(provenVPC, scripted.Script{Plan: scripted.Step{Hang: true}})
	run := env.host.In(t).Start("apply", "plan.json", "--cluster="+provenUnit, "--prove", "--yes", "--lease-duration=1s")
	env.await(func() string {
		return fixture.Unless(env.operations(scripted.Plan)[env.previewOf(provenVPC).Name] > before, "Terraform does not plan")
	})
	run.Kill()
	require.Equal(t, host.Killed, run.Outcome(), "%s", run)
	env.await(func() string { // Until its Lease has ended.
		state := env.host.In(t).Status()[provenUnit].State
		return fixture.Unless(state == plan.Interrupted, "the unit is %s", state)
	})
}

// held is the reason why the VPC is not adopted.
func (env *proved) held() string {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(env, env.Admin.Get(env.Context(), types.NamespacedName{Namespace: "prove", Name: provenVPC}, apply))
	return conditions.GetReason(apply, infrav1.AdoptionRequiredCondition)
}

// requireHeld requires that the manager has not adopted the VPC, and reports why.
func (env *proved) requireHeld(t *testing.T) {
	t.Helper()
	require.Equal(t, infrav1.WaitingForProofReason, env.held())
	before := maps.Clone(identities(env.environment.workspaces()))
	maps.DeleteFunc(before, func(name string, _ any) bool { return strings.Contains(name, "-preview-") })
	require.Equal(t, env.workspaces, before)
}

func (env *proved) resumes(t *testing.T, p *plan.Plan) {
	env.killed(t)
	env.requireHeld(t)
	require.NoError(t, env.Kill(sandbox.Manager))
	require.NoError(t, env.StartManager(t.Context()))
	env.awaitReconciled()
	env.requireHeld(t)
	env.script(provenVPC, scripted.Script{})
	env.await(func() string { // The manager proves it without captctl, and does not adopt it.
		reason := env.held()
		return fixture.Unless(reason == infrav1.ProvenReason, "the VPC is %s", reason)
	})
	env.host.In(t).Another("").Run(migrate.Done, "apply", p.ID, "--cluster="+provenUnit, "--yes")
	env.requireFields(t, p, plan.Applied, driftedUnit, failingUnit)
	env.requireUntouched(t)
	env.host.In(t).Run(migrate.Done, "rollback", p.ID, "--yes")
}

func (env *proved) rollsBack(t *testing.T, p *plan.Plan) {
	env.killed(t)
	env.host.In(t).Another("").Run(migrate.Done, "rollback", p.ID, "--cluster="+provenUnit, "--yes")
	env.requireFields(t, p, plan.Pending)
	env.script(provenVPC, scripted.Script{})
	env.requireUntouched(t)
}
