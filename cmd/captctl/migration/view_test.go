// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
)

// The fleet of these tests has a unit of every state.

var now = time.Date(2026, 10, 22, 12, 0, 0, 0, time.UTC)

func ref(kind, namespace, name string, uid types.UID) migrate.ObjectRef {
	groups := map[string]string{"Cluster": "cluster.x-k8s.io", "CAPTControlPlane": "controlplane.cluster.x-k8s.io", "Workspace": "tf.upbound.io"}
	group := groups[kind]
	if group == "" {
		group = "infrastructure.cluster.x-k8s.io"
	}
	return migrate.ObjectRef{Group: group, Kind: kind, Namespace: namespace, Name: name, UID: uid}
}

var (
	network   = ref("CAPTCluster", "team-a", "demo", "network-1")
	demo      = ref("CAPTControlPlane", "team-a", "demo", "plane-1")
	vpcApply  = ref("WorkspaceTemplateApply", "team-a", "demo-vpc", "apply-1")
	demoApply = ref("WorkspaceTemplateApply", "team-a", "demo-eks-controlplane-apply", "apply-2")
	vpcLive   = ref("Workspace", "", "demo-vpc", "workspace-1")
	demoLive  = ref("Workspace", "", "demo-eks-controlplane", "workspace-2")
	helper    = ref("WorkspaceTemplateApply", "team-a", "demo-kubeconfig-apply", "apply-3")
	unclear   = ref("CAPTControlPlane", "team-b", "shop", "plane-2")
	changed   = ref("CAPTControlPlane", "team-c", "old", "plane-3")
	skipped   = ref("CAPTCluster", "team-d", "later", "network-4")
	shared    = ref("Workspace", "", "x", "workspace-9")
)

func field(path, before, after string) plan.Field {
	f := plan.Field{Path: path, After: json.RawMessage(after)}
	if before != "" {
		f.Before = json.RawMessage(before)
	}
	return f
}

func findings() []migrate.Finding {
	return []migrate.Finding{
		{Severity: migrate.Warning, Reason: planner.ReasonPaused, Object: demo, Message: "its Cluster is paused: it is adopted all the same"},
		{
			Severity: migrate.Ambiguous, Reason: planner.ReasonMultipleCandidates, Object: unclear, Message: "two WorkspaceTemplateApplies may be its own. Decide with take: UID in --decisions",
			Candidates: []migrate.Candidate{
				{Object: ref("WorkspaceTemplateApply", "team-b", "shop-eks-controlplane-apply", "apply-4"), For: []string{"its name follows the naming scheme", "its Workspace exists"}},
				{Object: ref("WorkspaceTemplateApply", "team-b", "production", "apply-5"), For: []string{"cluster_name is shop"}, Against: []string{"its template is another: aws-vpc"}},
			},
		},
		{
			Severity: migrate.Blocked, Reason: planner.ReasonWorkspaceDiffers, Object: changed, Message: "Terraform would run. Revert the edit, or set pin: true in --decisions",
			Differences: []render.Difference{
				{Field: "spec.deletionPolicy", Live: "Orphan", Rendered: "Delete"},
				{Field: "spec.forProvider.module", Live: "a {\n}\nb {\n}\nc {\n  x = 1\n}\n", Rendered: "a {\n}\nb {\n}\nc {\n  x = 2\n}\n"},
				{Field: "spec.forProvider.vars", Rendered: []any{map[string]any{"key": "region", "value": "eu-central-1"}}},
			},
		},
		{
			Severity: migrate.Ambiguous, Reason: planner.ReasonWorkspaceShared, Object: ref("CAPTCluster", "team-e", "x", "network-5"), AlsoAbout: []migrate.ObjectRef{ref("CAPTCluster", "team-f", "x", "network-6")},
			Workspace: &shared, Message: "2 WorkspaceTemplateApplies refer to Workspace x",
			Candidates: []migrate.Candidate{{Object: ref("WorkspaceTemplateApply", "team-e", "x", "apply-7")}, {Object: ref("WorkspaceTemplateApply", "team-f", "x", "apply-8")}},
		},
		endpoint("demo"), endpoint("shop"),
		{Severity: migrate.Skipped, Reason: planner.ReasonSkipped, Object: skipped, Message: "it stays as it is, as decided"},
		{Severity: migrate.Warning, Reason: planner.ReasonNeverBuilt, Object: ref("CAPTControlPlane", "team-a", "t", "template-1"), Message: "export it:\nkubectl get x\nkubectl delete x"},
	}
}

func endpoint(cluster string) migrate.Finding {
	return migrate.Finding{
		Severity: migrate.Warning, Reason: planner.ReasonInvalidClusterEndpoint, Object: ref("Cluster", "team-a", cluster, types.UID(cluster)), Message: "its endpoint is a URL",
	}
}

func units() []plan.Unit {
	return []plan.Unit{
		{
			Object: ref("Cluster", "team-a", "demo", "cluster-1"), State: plan.Adoptable, Workspaces: []migrate.WorkspaceRecord{{ObjectRef: vpcLive}, {ObjectRef: demoLive}},
			Members: []plan.Member{
				{Object: network, WorkspaceTemplateApply: &vpcApply, Workspace: &vpcLive, Evidence: []string{"it owns it"}},
				{Object: demo, WorkspaceTemplateApply: &demoApply, Workspace: &demoLive, Evidence: []string{"it owns it", "cluster_name is demo"}},
				{Object: helper, Role: "kubeconfig helper of CAPTControlPlane demo", WorkspaceTemplateApply: &helper},
			},
			Steps: []plan.Step{
				{Object: demoApply, Why: "spec names the Workspace", Fields: []plan.Field{
					field("/spec/workspaceName", "", `"demo-eks-controlplane"`),
					field("/metadata/annotations/capt.cluster.x-k8s.io~1claim", `"x"`, `"y"`),
					{Path: "/metadata/ownerReferences", Element: true, Key: "uid", After: json.RawMessage(`{"kind":"CAPTControlPlane","name":"demo"}`)},
				}},
				{Object: demoApply, Subresource: "status", Why: "status records its UID", Fields: []plan.Field{field("/status/workspaceRef", "", `{"name":"demo-eks-controlplane"}`)}},
				{Object: ref("WorkspaceTemplate", "team-a", "pinned", ""), Why: "reproduces the Workspace", Create: map[string]any{"spec": map[string]any{"workspaceScope": "Cluster"}}},
				{Object: demo, Why: "refers to it", Fields: []plan.Field{field("/spec/controlPlaneEndpoint/host", `"https://abc"`, `"abc"`)}},
			},
			Endpoint: &plan.Step{Object: ref("Cluster", "team-a", "demo", "cluster-1"), Why: "the host of an endpoint has no scheme", Fields: []plan.Field{field("/spec/controlPlaneEndpoint/host", `"https://abc"`, `"abc"`)}},
		},
		{Object: ref("Cluster", "team-a", "done", "cluster-2"), State: plan.Adopted, Workspaces: []migrate.WorkspaceRecord{{}}},
		{Object: ref("Cluster", "team-b", "shop", "cluster-3"), State: plan.NeedsDecision, Members: []plan.Member{{Object: unclear}}},
		{Object: ref("Cluster", "team-c", "old", "cluster-4"), State: plan.Blocked, Members: []plan.Member{{Object: changed}}},
		{Object: ref("Cluster", "team-d", "later", "cluster-5"), State: plan.Skipped, Members: []plan.Member{{Object: skipped}}},
		{Object: ref("Cluster", "team-d", "new", "cluster-6"), State: plan.NeverBuilt},
		{Object: ref("WorkspaceTemplateApply", "team-z", "alone", "apply-9"), State: plan.Adopted},
	}
}

func fleet() *plan.Plan {
	return &plan.Plan{ID: "0123456789ab", ClusterUID: "0c6f8a52-f0b5-4d0e-9f3c-6f9d2a3b1c44", Created: metav1.NewTime(now), Units: units(), Findings: findings()}
}

// printed is what a view shows.
func printed(t *testing.T, format output.Format, show func(*output.Printer)) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, output.NewPrinter(&out, format, false).Document(nil, show))
	return out.String()
}

// golden compares what is shown with a file. UPDATE_GOLDEN=1 writes the file; read the difference.
func golden(t *testing.T, name string, format output.Format, show func(*output.Printer)) {
	t.Helper()
	text, path := printed(t, format, show), filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	expected, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(expected), text)
}

func TestPlan(t *testing.T) {
	p := fleet()
	golden(t, "plan", output.Table, func(to *output.Printer) {
		showPlan(to, p, nil)
		afterPlan(to, &status.Fleet{Plan: p, Snapshot: &migrate.Snapshot{}}, "plan.json", "captctl migrate plan", true)
	})
	golden(t, "plan-wide", output.Wide, func(to *output.Printer) {
		showPlanSummary(to, p, []*plan.Unit{&p.Units[0]}, nil, map[string]int{"team-a/demo": 4})
	})
	golden(t, "rollback", output.Table, func(to *output.Printer) {
		showRollbackSummary(to, p, []*plan.Unit{&p.Units[0], &p.Units[1]}, map[string]int{"team-a/demo": 5})
	})
	golden(t, "diff", output.Table, func(to *output.Printer) { showDiff(to, p) })
	p.Units[0].Members[1].State = migrate.OwnerSkipped
	assert.Contains(t, printed(t, output.Table, func(to *output.Printer) { showPlan(to, p, nil) }), "the manager adopts it, except for CAPTControlPlane team-a/demo (skipped);")
	empty := &plan.Plan{ID: "0123456789ab", Namespace: "team-x"}
	golden(t, "plan-empty", output.Table, func(to *output.Printer) {
		showPlan(to, empty, nil)
		showDiff(to, empty)
		afterPlan(to, &status.Fleet{Plan: empty}, "", "captctl migrate plan", true)
	})
}

func TestAfterAPlanItsFlagsAreRepeatedAndNothingIsAppliedTooEarly(t *testing.T) {
	after := func(file string, installed bool) string {
		fleet := &status.Fleet{Plan: fleet(), Snapshot: &migrate.Snapshot{}}
		return printed(t, output.Table, func(to *output.Printer) {
			afterPlan(to, fleet, file, "captctl migrate plan --namespace a --decisions d.yaml", installed)
		})
	}
	assert.Contains(t, after("", true), "run: captctl migrate plan --namespace a --decisions d.yaml --out plan.json\n")
	assert.Contains(t, after("p.json", true), "captctl migrate apply p.json")
	early := after("p.json", false)
	assert.NotContains(t, early, "captctl migrate apply")
	assert.Contains(t, early, "after CAPT v0.3 is stopped and this version is installed")
}

func TestTheDecisionsOfAPlanAreShown(t *testing.T) {
	p := fleet()
	p.Findings = nil
	p.Units[0].Members[0].State, p.Units[0].Members[1].State = migrate.Adoptable, migrate.Adoptable
	p.Units[4].Members[0].State = migrate.OwnerSkipped
	p.Decisions = &migrate.Decisions{
		Owners: []migrate.OwnerDecision{
			{UID: demo.UID, Take: demoApply.UID, Pin: true, Reason: "its Workspace reports the endpoint"},
			{UID: skipped.UID, Skip: true},
			{UID: "gone", Take: "also-gone"},
		},
		Workspaces: []migrate.WorkspaceDecision{{UID: vpcLive.UID, BelongsTo: vpcApply.UID, Reason: "team-b has no such cluster"}},
	}
	golden(t, "plan-decided", output.Table, func(to *output.Printer) { showPlan(to, p, nil) })
}

// What is to be pasted must be decisions that captctl reads, once a line of each entry is uncommented.
func TestDecisionsToPasteCanBeRead(t *testing.T) {
	// A second finding about the same owner must not be a second entry.
	all := append(findings(), migrate.Finding{Severity: migrate.Blocked, Reason: planner.ReasonWorkspaceNotFound, Object: changed})
	text := printed(t, output.Table, func(to *output.Printer) { showFindings(to, &plan.Plan{Findings: all}) })
	_, document, found := strings.Cut(text, "\nDecisions: uncomment one line of each entry")
	require.True(t, found)
	_, document, _ = strings.Cut(document, "\n")
	undecided, err := migrate.ParseDecisions([]byte(document))
	require.NoError(t, err)
	assert.Empty(t, undecided.Owners, "nothing is decided as long as every line is a comment")
	assert.Empty(t, undecided.Workspaces)

	comment, decided := regexp.MustCompile(`^  # (\w+: )`), ""
	var pasted strings.Builder
	for line := range strings.Lines(document) {
		switch {
		case strings.HasPrefix(line, "- uid: "):
			decided = ""
		case comment.MatchString(line) && decided == "":
			decided = line
			line = comment.ReplaceAllString(line, "  $1")
		}
		pasted.WriteString(line)
	}
	decisions, err := migrate.ParseDecisions([]byte(pasted.String()))
	require.NoError(t, err, pasted.String())
	assert.Equal(t, []migrate.OwnerDecision{{UID: unclear.UID, Take: "apply-4"}, {UID: changed.UID, Pin: true}}, decisions.Owners)
	assert.Equal(t, []migrate.WorkspaceDecision{{UID: shared.UID, BelongsTo: "apply-7"}}, decisions.Workspaces)
}

// The decisions of earlier plans are in the document, unless their unit is adopted or they are open again.
func TestDecisionsToPasteContainEarlierOnes(t *testing.T) {
	ref := func(name string) migrate.ObjectRef {
		return migrate.ObjectRef{Kind: "CAPTControlPlane", Namespace: "a", Name: name, UID: types.UID(name)}
	}
	workspace := migrate.ObjectRef{Kind: "Workspace", Name: "w", UID: "w"}
	of := &plan.Plan{
		Decisions: &migrate.Decisions{
			Owners:     []migrate.OwnerDecision{{UID: "done", Pin: true}, {UID: "back", Pin: true, Reason: "it \"drifted\": #1"}, {UID: "taken", Take: "x"}},
			Workspaces: []migrate.WorkspaceDecision{{UID: "w", BelongsTo: "y"}},
		},
		Units: []plan.Unit{
			{State: plan.Adopted, Members: []plan.Member{{Object: ref("done")}}},
			{State: plan.Adoptable, Members: []plan.Member{{Object: ref("back"), Workspace: &workspace}}},
			{State: plan.Blocked, Members: []plan.Member{{Object: ref("taken")}}},
		},
		Findings: []migrate.Finding{{Severity: migrate.Blocked, Reason: planner.ReasonWorkspaceDiffers, Object: ref("taken"), Message: "set pin: true"}},
	}
	read := func(line string) *migrate.Decisions {
		found := newCheckDocument(&check.Report{}, &status.Fleet{Plan: of}, nil)
		text := printed(t, output.Table, func(to *output.Printer) { showCheck(to, found) })
		require.Equal(t, 1, strings.Count(text, "save"), text)
		_, document, _ := strings.Cut(text, "--out plan.json\n")
		document, _, _ = strings.Cut(document, "\n\nChecks")
		decisions, err := migrate.ParseDecisions([]byte(strings.Replace(document, "  # "+line, "  "+line, 1)))
		require.NoError(t, err, document)
		return decisions
	}
	decisions := read("pin: true")
	assert.Equal(t, []migrate.OwnerDecision{{UID: "taken", Take: "x", Pin: true}, of.Decisions.Owners[1]}, decisions.Owners)
	assert.Equal(t, of.Decisions.Workspaces, decisions.Workspaces)

	of.Findings[0] = migrate.Finding{Severity: migrate.Ambiguous, Reason: planner.ReasonPermissionRequired, Object: ref("taken"), Message: "set permit: true"}
	assert.Equal(t, migrate.OwnerDecision{UID: "taken", Take: "x", Permit: true}, read("permit: true").Owners[0])

	of.Findings[0] = migrate.Finding{
		Severity: migrate.Ambiguous, Reason: planner.ReasonWorkspaceNotRecorded, Object: ref("taken"), Workspace: &migrate.ObjectRef{Kind: "Workspace", Name: "v", UID: "v"},
		Candidates: []migrate.Candidate{{Object: ref("z")}},
	}
	assert.Contains(t, read("belongsTo: z").Workspaces, migrate.WorkspaceDecision{UID: "v", BelongsTo: "z"})
	assert.Contains(t, read("skip: true").Owners, migrate.OwnerDecision{UID: "taken", Skip: true}, "it may be forged")

	of.Findings, of.Units = nil, of.Units[:2]
	assert.Equal(t, of.Decisions.Owners[1:2], read("pin: true").Owners, "also when nothing is open")
	of.Units[1].State = plan.Skipped
	assert.False(t, needsDecisionsAgain(of), "nothing is planned any more")
}

func TestCheck(t *testing.T) {
	report := &check.Report{Stage: check.Untouched, Checks: []check.Check{
		{Name: check.CheckPermissions, Status: check.Failed, Message: "2 permissions are missing", Objects: []string{"patch captclusters", "create leases"}},
		{Name: check.CheckProvider, Status: check.OK, Message: "provider-terraform v1.1 is healthy", Objects: []string{"Provider x"}},
	}}
	found := newCheckDocument(report, &status.Fleet{Plan: fleet()}, []overview.Next{{Step: "Stop CAPT v0.3.", Commands: []string{"kubectl scale a", "kubectl wait b"}}, {Step: "There is nothing to adopt."}})
	golden(t, "check", output.Table, func(to *output.Printer) { showCheck(to, found) })
	assert.Contains(t, printed(t, output.Wide, func(to *output.Printer) { showCheck(to, found) }), "  OK       provider-terraform: provider-terraform v1.1 is healthy\n")
	assert.Equal(t, map[plan.UnitState]int{plan.Adopted: 2, plan.Adoptable: 1, plan.NeedsDecision: 1, plan.Blocked: 1, plan.Skipped: 1, plan.NeverBuilt: 1}, found.Counts)

	unread := newCheckDocument(report, nil, nil)
	assert.NotContains(t, printed(t, output.Table, func(to *output.Printer) { showCheck(to, unread) }), "There are no objects of CAPT")
}

// migrate check shows why the last run did not adopt a unit.
func TestAUnitThatWasRevertedHasTheMessageOfTheRun(t *testing.T) {
	p := fleet()
	unit := status.UnitStatus{Unit: p.Units[0].Name(), State: plan.Adoptable, Phase: apply.PhaseRolledBack, Message: "Terraform would update aws_vpc.this"}
	rows := rowsOf(p, nil, &status.Fleet{Plan: p, Statuses: []status.UnitStatus{unit}}, nil)
	assert.Equal(t, unit.Message, rows[0].message)
}

func TestResult(t *testing.T) {
	partly := &apply.Result{PlanID: "0123456789ab", Backup: &apply.Backup{Host: "laptop", File: "/backups/b.tar.gz", Checksum: "abc"}, Units: []apply.UnitResult{
		{Unit: "team-a/demo", Outcome: apply.Applied, Writes: 5},
		{Unit: "team-a/other", Outcome: apply.Failed, Writes: 1, Message: "the API server says no:\n it is busy"},
		{Unit: "team-b/shop", Outcome: apply.NotStarted},
	}}
	golden(t, "result", output.Table, func(to *output.Printer) {
		showResult(to, partly)
		afterApply(to, partly, "plan.json", " --cluster team-a/other", true)
	})
	golden(t, "result-dry-run", output.Table, func(to *output.Printer) {
		dry := &apply.Result{PlanID: "0123456789ab", DryRun: true, Units: []apply.UnitResult{{Unit: "team-a/demo", Outcome: apply.RolledBack, Writes: 2}}}
		showResult(to, dry)
		afterRollback(to, dry, true, nil)
	})
}

func TestAnUndecidedUnitBlocksNoOther(t *testing.T) {
	assert.Equal(t, "3 conflicts to decide; the other 1 unit can be applied now", undecidedText(fleet(), true))
	assert.Equal(t, "3 conflicts to decide", undecidedText(fleet(), false), "a plan that is not saved cannot be applied")

	result := &apply.Result{Units: []apply.UnitResult{
		{Unit: "a/a", Outcome: apply.Applied}, {Unit: "a/b", Outcome: apply.LeftOut, State: plan.Skipped},
		{Unit: "a/c", Outcome: apply.LeftOut, State: plan.NeedsDecision}, {Unit: "a/d", Outcome: apply.LeftOut, State: plan.Blocked},
	}}
	assert.Equal(t, "2 units left out until you decide: captctl migrate check", leftOut(result))
	result.Units[0].Outcome = apply.Failed
	assert.Empty(t, leftOut(result), "the failure comes first")
}

func TestNextStepsDependOnTheRun(t *testing.T) {
	result := func(outcomes ...apply.UnitOutcome) *apply.Result {
		r := &apply.Result{PlanID: "0123456789ab"}
		for i, outcome := range outcomes {
			r.Units = append(r.Units, apply.UnitResult{Unit: []string{"team-a/demo", "WorkspaceTemplateApply/team-a/alone"}[i], Outcome: outcome})
		}
		return r
	}
	after := func(r *apply.Result, selected bool, still map[string]string) string {
		return printed(t, output.Table, func(to *output.Printer) { afterRollback(to, r, selected, still) })
	}
	assert.Contains(t, after(result(apply.RolledBack), true, nil), "apply 0123456789ab --cluster team-a/demo\n")
	assert.Contains(t, after(result(apply.Unchanged, apply.RolledBack), true, nil), "apply 0123456789ab --unit WorkspaceTemplateApply/team-a/alone\n")
	assert.Contains(t, after(result(apply.RolledBack, apply.RolledBack), false, nil), "apply 0123456789ab\n")
	assert.Empty(t, after(result(apply.Unchanged), true, nil))
	assert.Empty(t, after(result(apply.RolledBack, apply.Failed), true, nil))
	assert.Equal(t, "\nPlan abcdef012345 wrote team-a/demo too, and its fields are still there. To revert them as well:\n  captctl migrate rollback abcdef012345 --cluster team-a/demo\n",
		after(result(apply.RolledBack), true, map[string]string{"team-a/demo": "abcdef012345"}))
	applied := func(r *apply.Result, selected string, rest bool) string {
		return printed(t, output.Table, func(to *output.Printer) { afterApply(to, r, "plan.json", selected, rest) })
	}
	assert.Empty(t, applied(result(apply.Unchanged), "", true))
	assert.Empty(t, applied(result(apply.NotStarted), "", true))
	assert.Contains(t, applied(result(apply.Applied), " --cluster team-a/demo", true), "  captctl migrate apply plan.json  # the rest\n")
	assert.NotContains(t, applied(result(apply.Applied), " --cluster team-a/demo", false), "# the rest")
	const again, cause, revert = "  captctl migrate apply plan.json --cluster team-a/demo  # resume", ", after the cause is fixed", "  captctl migrate rollback 0123456789ab --cluster team-a/demo  # or revert\n"
	for outcome, resume := range map[apply.UnitOutcome]string{apply.Failed: again + cause + "\n", apply.Interrupted: again + "\n"} {
		begun := result(outcome)
		begun.Units[0].Begun = true
		assert.Equal(t, "\nNext steps:\n  captctl migrate status\n"+resume+revert, applied(begun, " --cluster team-a/demo", true), "the rest must wait")
	}
	assert.Equal(t, "\nNext steps:\n  captctl migrate status\n"+again+cause+"\nNothing was written for team-a/demo. If something changed since the plan was created, "+
		"revert that change and run the same command again, or create a new plan.\n", applied(result(apply.Failed), " --cluster team-a/demo", true))
	assert.NotContains(t, applied(result(apply.Failed, apply.Applied), "", false), "rollback", "only what was begun is to be reverted")
	assert.Empty(t, applied(result(apply.Interrupted), "", false), "it was not begun")
	assert.Contains(t, applied(result(apply.Failed, apply.NotStarted), "", false), "  captctl migrate apply plan.json  # resume, after the cause is fixed\n")
}

func TestStatus(t *testing.T) {
	s := &status.Status{
		Units: []status.UnitStatus{
			{Unit: "team-a/demo", State: plan.Adopted, PlanID: "0123456789ab", Phase: apply.PhaseApplied, Paused: true},
			{Unit: "team-a/other", State: plan.Interrupted, PlanID: "0123456789ab", Phase: apply.PhaseApplying, Message: "no:\n busy", Paused: true},
			{Unit: "team-a/third", State: plan.Interrupted, PlanID: "0123456789ab", Phase: apply.PhaseApplying},
			{Unit: "team-a/back", State: plan.Interrupted, PlanID: "abcdef012345", Phase: apply.PhaseRollingBack},
			{Unit: "team-b/green", State: plan.PartlyAdopted, PlanID: "0123456789ab", Phase: apply.PhaseApplied, Skipped: []migrate.ObjectRef{unclear}},
			{Unit: "team-b/old", State: plan.Blocked, Message: planner.ReasonWorkspaceDiffers},
			{Unit: "team-b/shop", State: plan.Adopted, PendingChange: "spec.version would become 1.33"},
			{Unit: "team-c/gone", PlanID: "0123456789ab", Phase: apply.PhaseRolledBack, Message: "the object no longer exists"},
		},
		Plans: []status.AppliedPlan{{
			ID: "0123456789ab", Started: metav1.NewTime(now.Add(-time.Hour)), Updated: metav1.NewTime(now.Add(-2 * time.Second)), Run: "laptop-1", Backup: &apply.Backup{Host: "laptop", File: "/b.tar.gz"},
			Units: map[apply.Phase]int{apply.PhaseApplied: 1, apply.PhaseApplying: 1, apply.PhaseRolledBack: 1},
		}},
		Lock: &lock.Holder{Identity: "laptop-1", Since: metav1.NewTime(now.Add(-time.Minute)), Until: metav1.NewTime(now.Add(10 * time.Second))},
	}
	s.Checks = []check.Check{
		{Name: check.CheckStored, Status: check.OK, Message: "objects may be stored in v1beta1"},
		{Name: check.CheckLegacy, Status: check.Failed, Message: "CAPT v0.3 is running", Objects: []string{"Deployment a/old"}, Commands: []string{"kubectl scale a"}},
	}
	golden(t, "status", output.Table, func(to *output.Printer) { showStatus(to, s, now) })
	s.Lock, s.Checks[1].Status = nil, check.OK
	golden(t, "status-wide", output.Wide, func(to *output.Printer) { showStatus(to, s, now) })
	undecided, left := countLeft(s)
	assert.Equal(t, []int{1, 5}, []int{undecided, left})
}
