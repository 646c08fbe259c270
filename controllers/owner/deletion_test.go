// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

func names(applies []*infrav1.WorkspaceTemplateApply) (names []string) {
	for _, apply := range applies {
		names = append(names, apply.Name)
	}
	return names
}

func needs(workspace string) builder.Option { return builder.WaitingForWorkspace(workspace, "") }

func TestOnlyWhatTheOwnerControlsIsAHelper(t *testing.T) {
	owner := builder.CAPTControlPlane("demo")
	applies := newClient(
		builder.WorkspaceTemplateApply("demo-spot-role-check", builder.OwnedBy(owner)),
		builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.OwnedBy(owner)),
		builder.WorkspaceTemplateApply("demo-eks", builder.OwnedBy(owner)),
		builder.WorkspaceTemplateApply("demo-profile", builder.OwnedBy(owner)),
		builder.WorkspaceTemplateApply("of-another", builder.OwnedBy(builder.CAPTControlPlane("other"))),
		builder.WorkspaceTemplateApply("recreated", builder.OwnedBy(builder.CAPTControlPlane("demo", builder.WithUID("before")))),
		builder.WorkspaceTemplateApply("of-a-user"),
		builder.WorkspaceTemplateApply("not-controlled", builder.OwnedBy(owner), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "CAPTControlPlane", Name: "demo", UID: owner.UID}}
		})),
	)
	f, reconciler := &Facts{}, &Reconciler{Engine: engine.Engine{Client: applies}}
	require.NoError(t, reconciler.ObserveDeletion(ctx, f, owner, infrav1.WorkspaceTemplateApplyReference{Name: "demo-eks"}))
	assert.Empty(t, f.nextToDelete(), "the owner is not being deleted")

	builder.Deleting()(owner)
	require.NoError(t, reconciler.ObserveDeletion(ctx, f, owner, infrav1.WorkspaceTemplateApplyReference{Name: "demo-eks"}, builder.WorkspaceTemplateApply("demo-profile")))
	assert.Equal(t, []string{"demo-kubeconfig-apply", "demo-spot-role-check"}, names(f.nextToDelete()))
}

// Whatever waits for whatever, there is always a next one, and none is deleted before what waits for it.
func TestHelpersAreDeletedInTheOrderOfTheirDependencies(t *testing.T) {
	f := &Facts{
		Live: builder.WorkspaceTemplateApply("eks", builder.WithWorkspaceName("eks-w"), needs("role-w")),
		Helpers: []infrav1.WorkspaceTemplateApply{
			*builder.WorkspaceTemplateApply("kubeconfig", builder.WithWorkspaceName("kubeconfig-w"), needs("eks-w")),
			*builder.WorkspaceTemplateApply("never-applied"),
			*builder.WorkspaceTemplateApply("policy", builder.WithWorkspaceName("policy-w")),
			*builder.WorkspaceTemplateApply("role", builder.WithWorkspaceName("role-w"), needs("policy-w")),
		},
	}
	assert.Equal(t, []string{"kubeconfig", "never-applied"}, names(f.nextToDelete()))
	assert.False(t, f.OwnIsNext())
	builder.Deleting()(&f.Helpers[0])
	assert.Equal(t, []string{"never-applied"}, names(f.notYetDeleted()))
	assert.Equal(t, "waiting for WorkspaceTemplateApply kubeconfig to be deleted; waiting for WorkspaceTemplateApply never-applied to be deleted",
		f.DeletingCondition("Deleting", "").Message)

	f.Helpers = f.Helpers[2:]
	assert.Equal(t, []string{"eks"}, names(f.nextToDelete()))
	assert.True(t, f.OwnIsNext())
	f.Live = nil
	assert.Equal(t, []string{"policy", "role"}, names(f.nextToDelete()), "their own dependencies order these")
	f.Helpers = nil
	assert.Empty(t, f.nextToDelete())
	assert.Empty(t, f.DeletingCondition("Deleting", "").Message)
}

// The garbage collector deletes all at once: each is reported that waits, with its cause.
func TestEveryDeletionIsReported(t *testing.T) {
	f := &Facts{
		Live:    builder.WorkspaceTemplateApply("eks", builder.Deleting()),
		Helpers: []infrav1.WorkspaceTemplateApply{*builder.WorkspaceTemplateApply("kubeconfig", builder.Deleting())},
	}
	f.Live.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: metav1.ConditionTrue, Reason: infrav1.DestroyFailedReason, Message: "DependencyViolation"}}
	assert.Equal(t, "waiting for WorkspaceTemplateApply kubeconfig to be deleted; waiting for WorkspaceTemplateApply eks: DependencyViolation", f.DeletingCondition("Deleting", "").Message)
	assert.Empty(t, f.notYetDeleted())
	f.OwnedCandidates = []string{"by-hand"}
	assert.Contains(t, f.DeletingCondition("Deleting", "").Message, "WorkspaceTemplateApply by-hand has an owner reference to this object")
}

func TestTheDecisionNamesTheCandidates(t *testing.T) {
	condition := (&Facts{Candidates: []claim.Candidate{
		{Name: "a", Evidence: []claim.Evidence{claim.Named}}, {Name: "b", Evidence: []claim.Evidence{claim.Recorded, claim.Owned}},
	}}).Decision()
	assert.Equal(t, metav1.ConditionTrue, condition.Status)
	assert.Contains(t, condition.Message, "a (its name follows the naming scheme), b (status records it, this object owns it) may belong to this object: nothing is created until this is resolved. Run captctl migrate check, which shows")
	assert.Equal(t, metav1.ConditionFalse, (&Facts{}).Decision().Status)
	for want, facts := range map[string]Facts{
		"no WorkspaceTemplateApply matches, but status.vpc.id is set": {ProvisionedField: "status.vpc.id"},
		"blocked": {Block: &desired.Blocked{Message: "blocked"}},
	} {
		assert.Contains(t, facts.DecisionMessage(), want)
	}
}

// What comes first must be resolved first.
func TestWhatADeletionWaitsFor(t *testing.T) {
	f := Facts{
		Live: builder.WorkspaceTemplateApply("eks"), HeldBy: &desired.Blocked{Reason: "Used", Message: "a Cluster uses it"}, RetainConflict: "a retained one needs it",
		Block: &desired.Blocked{Reason: "Adopt", Message: "not adopted"}, OwnedCandidates: []string{"by-hand"},
	}
	says := func(paused, reason, message string) {
		t.Helper()
		got := f.DeletingCondition("Deleting", paused)
		assert.Equal(t, []string{"Deleting", "True", reason}, []string{got.Type, string(got.Status), got.Reason})
		assert.Contains(t, got.Message, message)
	}
	says("annotation", infrav1.DeletingReason, "annotation")
	says("", "Used", "a Cluster uses it")
	f.HeldBy = nil
	says("", infrav1.DeletionPolicyConflictReason, "a retained one needs it")
	f.RetainConflict = ""
	says("", "Adopt", "not adopted")
	f.Block = nil
	says("", engine.DecisionReason, "by-hand")
	f.OwnedCandidates = nil
	says("", infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, "waiting for WorkspaceTemplateApply eks to be deleted")
	f.Live, f.HeldBy = nil, &desired.Blocked{Reason: "Used"}
	says("", infrav1.DeletingReason, "")
	assert.False(t, f.IsHeld(), "what has nothing is not held")
}

// Whether an object may serve, and whether Terraform is at work, depends on what was applied before.
func TestWhatAReasonSaysOfTheResources(t *testing.T) {
	for reason, row := range map[string]struct{ absentFirst, absent, working bool }{
		infrav1.ProvisioningReason:       {true, false, true},
		infrav1.NotReportedReason:        {true, false, true},
		infrav1.ApplyFailedReason:        {true, false, false},
		infrav1.WorkspaceDeletingReason:  {true, true, false},
		infrav1.WorkspaceNotFoundReason:  {true, true, true},
		infrav1.QueuedReason:             {false, false, true},
		infrav1.WaitingForApprovalReason: {false, false, true},
		infrav1.TemplateNotFoundReason:   {false, false, false},
	} {
		f := Facts{Live: builder.WorkspaceTemplateApply("eks", builder.NotUpToDate(reason, ""))}
		assert.Equal(t, row.absentFirst, f.ResourcesAbsent(), "%s, never applied", reason)
		assert.Equal(t, row.working, f.Working(), reason)
		f.Live.Status.Applied = metav1.ConditionTrue
		assert.Equal(t, row.absent, f.ResourcesAbsent(), "%s, applied", reason)
		f.Live.Status.Applied, f.Live.Status.LastAppliedRevision = "", "1"
		assert.Equal(t, row.absent, f.ResourcesAbsent(), "%s, a revision was applied", reason)
		for _, f := range []Facts{{Live: f.Live, Conflict: "it is b's"}, {Live: f.Live, Refused: assert.AnError}, {Live: f.Live, OwnRefused: assert.AnError}} {
			assert.False(t, f.Working(), reason)
		}
	}
	deleting := Facts{Live: builder.WorkspaceTemplateApply("eks", builder.UpToDate(nil), builder.Deleting())}
	assert.True(t, deleting.ResourcesAbsent())
	assert.False(t, deleting.Working())
	deleting.Live.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	assert.False(t, deleting.ResourcesAbsent(), "they are kept")
	assert.True(t, (&Facts{}).Working(), "it is about to be created")
	assert.False(t, (&Facts{}).ResourcesAbsent(), "it is not known")
}

// After an adoption, or before a write that a pause prevents, the state of the WorkspaceTemplateApply is not that of what the owner wants.
func TestWhenAnOwnerSettles(t *testing.T) {
	unobserved := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Generation++ })
	for name, row := range map[string]struct {
		facts   Facts
		differs bool
		paused  string
		want    bool
	}{
		"observed":            {Facts{Live: builder.WorkspaceTemplateApply("eks", builder.UpToDate(nil))}, true, "", false},
		"not observed":        {Facts{Live: builder.WorkspaceTemplateApply("eks", builder.UpToDate(nil), unobserved)}, false, "", true},
		"not written":         {Facts{Live: builder.WorkspaceTemplateApply("eks", builder.UpToDate(nil))}, true, "annotation", true},
		"paused":              {Facts{Live: builder.WorkspaceTemplateApply("eks", builder.UpToDate(nil))}, false, "annotation", false},
		"it is being deleted": {Facts{Live: builder.WorkspaceTemplateApply("eks", unobserved, builder.Deleting())}, false, "", false},
		"a write is refused":  {Facts{Live: builder.WorkspaceTemplateApply("eks", unobserved), Refused: assert.AnError}, false, "", false},
		"nothing exists":      {Facts{}, true, "annotation", false},
	} {
		row.facts.Held = true
		got := (&Plan{Facts: &row.facts, Differs: row.differs}).Situation(row.paused)
		assert.Equal(t, row.want, got.Settling, name)
		assert.Equal(t, row.paused, got.Paused)
		assert.True(t, got.Held)
		assert.Equal(t, engine.DecisionCondition, got.Decision.Type)
	}
}

// What prevents a write is the cause. A pause is one only while nothing was created.
func TestTheReportOfAnOwner(t *testing.T) {
	p := &Plan{Facts: &Facts{}, Owner: demoOwner()}
	assert.Equal(t, "Paused", p.Report("Applied", "Done", "annotation").Reason)
	assert.Equal(t, infrav1.ProvisioningReason, p.Report("Applied", "Done", "").Reason)
	p.Live = builder.WorkspaceTemplateApply("eks", builder.UpToDate(nil))
	assert.Equal(t, engine.True("Applied", "Done", ""), p.Report("Applied", "Done", "annotation"))
	p.Blocked = &engine.Condition{Reason: "Blocked"}
	assert.Equal(t, *p.Blocked, p.Report("Applied", "Done", "annotation"))
}
