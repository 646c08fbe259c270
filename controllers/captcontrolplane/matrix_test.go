// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// fact is one of the things that can be the case, with its name in the golden table.
type fact struct {
	name string
	is   func(o *observation)
}

// row is a combination of facts that can happen.
type row struct {
	name string
	is   []func(o *observation)
}

// observation of the row, of a control plane that was Ready before or never.
func (r row) observation(t *testing.T, before bool) *observation {
	t.Helper()
	o := configured(t)
	if before {
		require.Equal(t, infrav1.StateReady, o.status().State)
	}
	o.Running, o.RunningVPC, o.RunningSecret = owner.Running{}, nil, nil
	for _, is := range r.is {
		is(o)
	}
	return o
}

// rows are what can happen. Where something is missing, what comes after it does not differ.
func rows() (all []row) {
	add := func(name string, facts ...func(o *observation)) { all = append(all, row{name, facts}) }
	for _, apply := range applies() {
		for _, lack := range append(lacks(), fact{"everything there", func(*observation) {}}) {
			add(lack.name+"; "+apply.name, lack.is, apply.is)
		}
	}
	for _, result := range results() {
		for _, lack := range append(lacks(), fact{"everything there", func(*observation) {}}) {
			add(lack.name+"; up to date; "+result.name, result.is, lack.is)
		}
	}
	for _, profile := range profiles() {
		add("all there; "+profile.name, profile.is)
		add("Terraform running on the control plane; "+profile.name, func(o *observation) { o.apply(working) }, profile.is)
	}
	for _, r := range slices.Clone(all) {
		if strings.HasPrefix(r.name, "everything there") || !strings.Contains(r.name, "; up to date; ") {
			add("paused; "+r.name, append(slices.Clone(r.is), func(o *observation) { o.Paused = "annotation" })...)
		}
	}
	deleted := append(applies(), lacks()...)
	for _, r := range append(deleted, fact{"a profile is being deleted", obsolete(builder.Deleting())}) {
		add("deleted; "+r.name, r.is, func(o *observation) { builder.Deleting()(o.controlPlane) })
		add("deleted, paused; "+r.name, r.is, func(o *observation) { builder.Deleting()(o.controlPlane); o.Paused = "annotation" })
	}
	return all
}

// isShown reports whether the golden table has a row. What is missing is shown with a few states of the WorkspaceTemplateApply.
func (r row) isShown() bool {
	paused, apply := strings.HasPrefix(r.name, "paused; "), r.name[strings.LastIndex(r.name, "; ")+2:]
	few := []string{"no WorkspaceTemplateApply", "refused by the API server", "Terraform running", "apply fails", "recreated", "all", "endpoint changed"}
	if paused {
		few = few[:1]
	}
	return strings.Contains(r.name, "everything there; ") && !paused || strings.Contains(r.name, "profile") || strings.HasPrefix(r.name, "deleted") || slices.Contains(few, apply)
}

// lacks are the dependencies that can be missing.
func lacks() []fact {
	return []fact{
		{"no Cluster", func(o *observation) { o.Cluster, o.Infrastructure = nil, nil }},
		{"no CAPTCluster", func(o *observation) {
			o.Infrastructure = nil
			o.Cluster.Status.Initialization.InfrastructureProvisioned = nil
		}},
		{"VPC being created", func(o *observation) { o.Infrastructure.Status.VPC.ID = "" }},
		{"VPC late", func(o *observation) { o.Infrastructure.Status.VPC.ID = ""; o.RunningVPC = ptr.To(15 * time.Minute) }},
		{"VPC not seen by Cluster API", func(o *observation) { o.Cluster.Status.Initialization.InfrastructureProvisioned = nil }},
		{"regions differ", func(o *observation) {
			o.Infrastructure.Spec.Region = "us-east-1"
			o.controlPlane.Spec.Region = "eu-west-1"
		}},
		{"version invalid", func(o *observation) { o.controlPlane.Spec.Version = "latest" }},
		{"the user must decide", func(o *observation) { o.Apply.Candidates = []claim.Candidate{{Name: "by-hand"}} }},
		{"reference belongs to another owner", func(o *observation) { o.Apply.Conflict = "it belongs to CAPTControlPlane other" }},
	}
}

// applies are what can be the case with the WorkspaceTemplateApply, up to date aside.
func applies() []fact {
	shows := func(reason string) func(o *observation) {
		return func(o *observation) { o.apply(builder.NotUpToDate(reason, "why")) }
	}
	late := func(reason string, terraform, secret *time.Duration) func(o *observation) {
		return func(o *observation) {
			shows(reason)(o)
			o.Running.Terraform, o.RunningSecret = terraform, secret
		}
	}
	return []fact{
		{"no WorkspaceTemplateApply", func(o *observation) { o.Apply.Live = nil }},
		{"refused by the API server", func(o *observation) { o.Apply.Live, o.Apply.Refused = nil, assert.AnError }},
		{"not seen by its controller", func(o *observation) { o.apply() }},
		{"Terraform running", shows(infrav1.ProvisioningReason)},
		{"Terraform running for long", late(infrav1.ProvisioningReason, ptr.To(30*time.Minute), nil)},
		{"template missing", shows(infrav1.TemplateNotFoundReason)},
		{"waits for a Secret", shows(infrav1.WaitingForDependenciesReason)},
		{"waits for a Secret for long", late(infrav1.WaitingForDependenciesReason, nil, ptr.To(5*time.Minute))},
		{"provider down", shows(infrav1.WorkspaceNotReconciledReason)},
		{"apply fails", shows(infrav1.ApplyFailedReason)},
		{"apply fails for long", late(infrav1.ApplyFailedReason, ptr.To(30*time.Minute), nil)},
		{"create interrupted", shows(infrav1.CreateInterruptedReason)},
		{"Workspace belongs to another owner", shows(infrav1.WorkspaceConflictReason)},
		{"Workspace destroyed by another client", shows(infrav1.WorkspaceDeletingReason)},
		{"recreated", func(o *observation) { shows(infrav1.ProvisioningReason)(o); o.Apply.Live.Status.Applied = "" }},
		{"being deleted by another client", func(o *observation) { o.apply(builder.UpToDate(outputs()), builder.Deleting()) }},
	}
}

// results are what Terraform can have made.
func results() []fact {
	kubeconfig := func(reason, problem string) func(o *observation) {
		return func(o *observation) { o.Kubeconfig = kubeconfigsecret.Kubeconfig{Reason: reason, Problem: problem} }
	}
	output := func(endpoint string) func(o *observation) {
		return func(o *observation) { o.apply(builder.UpToDate(map[string]string{"cluster_endpoint": endpoint})) }
	}
	unwritten := func(o *observation) { o.controlPlane.Spec.ControlPlaneEndpoint.Host = "" }
	return []fact{
		{"all", func(*observation) {}},
		{"no outputs any more", output("")},
		{"an output only in the connection Secret", func(o *observation) { output("")(o); o.Connection = connection(outputs()) }},
		{"no outputs", func(o *observation) { unwritten(o); o.Connection = nil; output("")(o) }},
		{"no outputs for long", func(o *observation) {
			unwritten(o)
			o.Connection = nil
			output("")(o)
			o.RunningSecret = ptr.To(5 * time.Minute)
		}},
		{"an empty connection Secret", func(o *observation) { unwritten(o); o.Connection = &corev1.Secret{}; output("")(o) }},
		{"endpoint not written yet", unwritten},
		{"endpoint invalid", func(o *observation) { unwritten(o); output("http://x/y")(o) }},
		{"endpoint changed", output("https://other.example.com")},
		{"no kubeconfig", kubeconfig("KubeconfigMissing", "no output")},
		{"no kubeconfig for long", func(o *observation) {
			kubeconfig("KubeconfigMissing", "no output")(o)
			o.RunningSecret = ptr.To(5 * time.Minute)
		}},
		{"kubeconfig invalid", kubeconfig("KubeconfigInvalid", "not a kubeconfig")},
		{"kubeconfig Secret belongs to another owner", kubeconfig("KubeconfigConflict", "it belongs to other")},
		{"kubeconfig not written yet", func(o *observation) { o.Kubeconfig.Written = false }},
		{"no kubeconfig for users", func(o *observation) { o.UserKubeconfig = kubeconfigsecret.Kubeconfig{Problem: "conflict"} }},
	}
}

// text has the step and the status of a row, for the golden table.
func (r row) text(t *testing.T, before bool) string {
	t.Helper()
	o := r.observation(t, before)
	got := o.status()
	for i := range got.Conditions {
		o.controlPlane.Status.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
	}
	once := o.controlPlane.DeepCopy()
	o.status()
	assert.Equal(t, once, o.controlPlane, "at rest nothing is written: %s", r.name)

	summary := builder.ConditionSummary(got.Conditions)
	text := []string{fmt.Sprintf("%s, %s, %s", o.step(), got.State, got.Phase)}
	for _, condition := range slices.Sorted(maps.Keys(summary)) {
		text = append(text, condition+" "+summary[condition])
	}
	if ptr.Deref(got.Initialization.ControlPlaneInitialized, false) {
		text = append(text, "initialized")
	}
	if got.Version != "" {
		text = append(text, got.Version)
	}
	if len(got.FargateProfiles) > 0 {
		text = append(text, fmt.Sprintf("%d profiles", len(got.FargateProfiles)))
	}
	return strings.Join(text, "; ")
}

// TestGoldenTable: rows are facts, columns are step and status, of a control plane that was never Ready and of one that was.
// UPDATE_GOLDEN=1 rewrites it; review the difference.
func TestGoldenTable(t *testing.T) {
	var table strings.Builder
	for _, r := range rows() {
		if r.isShown() {
			fmt.Fprintf(&table, "%s\n  new:    %s\n  before: %s\n", r.name, r.text(t, false), r.text(t, true))
		}
	}
	path := filepath.Join("testdata", "status.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}

func TestInitializedIsNeverRevoked(t *testing.T) {
	for _, fact := range slices.Concat(lacks(), applies(), results(), profiles()) {
		got := row{fact.name, []func(o *observation){fact.is}}.observation(t, true).status()
		assert.Equal(t, ptr.To(true), got.Initialization.ControlPlaneInitialized, fact.name)
		assert.Equal(t, "True Initialized", builder.ConditionSummary(got.Conditions)["Initialized"], fact.name)
	}
}

// What must be true of every row, whatever the table says.
func TestInvariantsOfEveryRow(t *testing.T) {
	for _, r := range rows() {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(r.name, " before=", before), func(t *testing.T) {
				o := r.observation(t, before)
				got := o.status()
				summary := builder.ConditionSummary(got.Conditions)
				ready := strings.HasPrefix(summary["Ready"], "True")
				initialized := ptr.Deref(got.Initialization.ControlPlaneInitialized, false)
				deleting := !o.controlPlane.DeletionTimestamp.IsZero()

				assert.True(t, initialized || !before, "never revoked")
				assert.False(t, initialized && got.State == infrav1.StateFailed, "an initialized control plane is Degraded, never Failed")
				if ready {
					assert.True(t, o.controlPlane.Spec.ControlPlaneEndpoint.IsValid() && o.Kubeconfig.Written, "Ready has an endpoint and a kubeconfig")
					assert.True(t, initialized)
				}
				if !deleting {
					assert.Equal(t, initialized && !o.Apply.ResourcesAbsent(), strings.HasPrefix(summary["Available"], "True"), "it can be used as soon as it could be once")
					assert.Equal(t, got.State == infrav1.StateReady, ready)
					assert.Equal(t, phase(got.State, initialized), got.Phase)
					assert.Equal(t, got.Phase == controlplanev1.PhaseCreating, strings.HasPrefix(summary["Creating"], "True"))
				}
				if !deleting && !ready {
					assert.NotEmpty(t, meta.FindStatusCondition(got.Conditions, "Ready").Message, "Ready=False has a message")
				}
			})
		}
	}
}

// edge is a move from one state to another.
type edge struct{ from, to infrav1.State }

// outcome is what a row makes of a control plane.
type outcome struct {
	row         string
	state       infrav1.State
	initialized bool
}

// outcomes of all rows for a control plane that was Ready before or never.
func outcomes(t *testing.T, before bool) (all []outcome) {
	t.Helper()
	for _, r := range rows() {
		o := r.observation(t, before)
		o.controlPlane.Status.State = ""
		if got := o.status(); o.controlPlane.DeletionTimestamp.IsZero() { // The state of what is deleted stands still.
			all = append(all, outcome{r.name, got.State, ptr.Deref(got.Initialization.ControlPlaneInitialized, false)})
		}
	}
	return all
}

// transitions returns the states that can follow each state.
func transitions() map[infrav1.State][]infrav1.State {
	all := []infrav1.State{
		infrav1.StatePending, infrav1.StateValidating, infrav1.StateProvisioning, infrav1.StateConfiguring,
		infrav1.StateReady, infrav1.StateDegraded, infrav1.StateRecovering, infrav1.StateFailed,
	}
	next := map[infrav1.State][]infrav1.State{}
	for _, from := range all {
		for _, to := range all {
			if from != to && owner.NextState(from, to) == to {
				next[from] = append(next[from], to)
			}
		}
	}
	return next
}

// TestTransitions takes every pair of rows, as the environment can go from any to any: the table holds exactly the edges that
// happen. Recovering needs a manager that recovers, see TestRecovery.
func TestTransitions(t *testing.T) {
	of := map[bool][]outcome{false: outcomes(t, false), true: outcomes(t, true)}
	happen := map[edge]string{}
	for _, from := range append(of[false], of[true]...) {
		for _, to := range of[from.initialized] {
			if from.state != to.state {
				happen[edge{from.state, to.state}] = from.row + " -> " + to.row
			}
		}
	}
	for e, how := range happen {
		assert.Contains(t, transitions()[e.from], e.to, "%s -> %s happens: %s", e.from, e.to, how)
	}
	for from, all := range transitions() {
		for _, to := range all {
			if from != infrav1.StateRecovering && to != infrav1.StateRecovering {
				assert.Contains(t, happen, edge{from, to}, "it stands in the table and never happens")
			}
		}
	}
}

// The manual has the same table.
func TestTransitionsAreDocumented(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	require.NoError(t, err)
	for from, all := range transitions() {
		line := fmt.Sprintf("| `%s` |", from)
		for _, to := range all {
			line += fmt.Sprintf(" `%s`", to)
		}
		assert.Contains(t, string(manual), "\n"+line+" |\n")
	}
}

func TestAdvance(t *testing.T) {
	for from := range transitions() {
		assert.Equal(t, from, owner.NextState("", from), "lost status may become anything")
	}
	assert.Equal(t, infrav1.StateReady, owner.NextState("Ready", "Failed"), "a cluster that answers never fails")
	assert.Equal(t, infrav1.StateDegraded, owner.NextState("Degraded", "Pending"))
}
