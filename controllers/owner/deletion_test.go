// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
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
	f := &Facts{}
	require.NoError(t, Reader{Cached: applies}.ObserveDeletion(ctx, f, owner, infrav1.WorkspaceTemplateApplyReference{Name: "demo-eks"}))
	assert.Empty(t, f.nextToDelete(), "the owner is not being deleted")

	builder.Deleting()(owner)
	require.NoError(t, Reader{Cached: applies}.ObserveDeletion(ctx, f, owner, infrav1.WorkspaceTemplateApplyReference{Name: "demo-eks"}, builder.WorkspaceTemplateApply("demo-profile")))
	assert.Equal(t, []string{"demo-kubeconfig-apply", "demo-spot-role-check"}, names(f.nextToDelete()))
}

// Whatever waits for whatever, there is always a next one, and none is deleted before what waits for it.
func TestHelpersAreDeletedInTheOrderOfTheirDependencies(t *testing.T) {
	f := &Facts{
		Apply: builder.WorkspaceTemplateApply("eks", builder.WithWorkspaceName("eks-w"), needs("role-w")),
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
	f.Apply = nil
	assert.Equal(t, []string{"policy", "role"}, names(f.nextToDelete()), "their own dependencies order these")
	f.Helpers = nil
	assert.Empty(t, f.nextToDelete())
	assert.Empty(t, f.DeletingCondition("Deleting", "").Message)
}

// The garbage collector deletes all at once: each is reported that waits, with its cause.
func TestEveryDeletionIsReported(t *testing.T) {
	f := &Facts{
		Apply:   builder.WorkspaceTemplateApply("eks", builder.Deleting()),
		Helpers: []infrav1.WorkspaceTemplateApply{*builder.WorkspaceTemplateApply("kubeconfig", builder.Deleting())},
	}
	f.Apply.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: metav1.ConditionTrue, Reason: infrav1.DestroyFailedReason, Message: "DependencyViolation"}}
	assert.Equal(t, "waiting for WorkspaceTemplateApply kubeconfig to be deleted; waiting for WorkspaceTemplateApply eks: DependencyViolation", f.DeletingCondition("Deleting", "").Message)
	assert.Empty(t, f.notYetDeleted())
	f.OwnedCandidates = []string{"by-hand"}
	assert.Contains(t, f.DeletingCondition("Deleting", "").Message, "WorkspaceTemplateApply by-hand has an owner reference to this object")
}

func TestAdoptionRequiredNamesTheCandidates(t *testing.T) {
	condition := (&Facts{Candidates: []legacy.Candidate{
		{Name: "a", Evidence: []legacy.Evidence{legacy.Named}}, {Name: "b", Evidence: []legacy.Evidence{legacy.Recorded, legacy.Owned}},
	}}).AdoptionCondition("AdoptionRequired")
	assert.Equal(t, metav1.ConditionTrue, condition.Status)
	assert.Contains(t, condition.Message, "a (its name follows the naming scheme), b (status records it, this object owns it) may belong to this object: nothing is created until this is resolved. Run captctl migrate check, which shows")
	assert.Equal(t, metav1.ConditionFalse, (&Facts{}).AdoptionCondition("AdoptionRequired").Status)
	for want, facts := range map[string]Facts{
		"no WorkspaceTemplateApply matches, but status.vpc.id is set":                        {ProvisionedField: "status.vpc.id", AwaitsAdoption: true},
		"has not been adopted: it is b's":                                                    {Conflict: "it is b's", AwaitsAdoption: true},
		"WorkspaceTemplateApply demo-vpc, which CAPT v0.3 recorded and which does not exist": {Missing: "demo-vpc", AwaitsAdoption: true},
		"CAPTControlPlane demo of the same Cluster":                                          {AdoptedWith: "CAPTControlPlane demo", AwaitsAdoption: true},
	} {
		assert.Contains(t, facts.AdoptionMessage(), want)
	}
}

// What CAPT v0.3 created is referred to by name, but not modified before its adoption.
func TestAnUnadoptedOneIsNeitherWrittenNorReleased(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"))
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer))
	want := legacy.Expectation{SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"}}
	facts := factsFor(owner, want, apply)
	assert.Nil(t, facts.Apply)
	assert.Equal(t, []legacy.Candidate{{Name: "demo-vpc", Evidence: []legacy.Evidence{legacy.Referred}}}, facts.Candidates)
	assert.Equal(t, []string{"demo-vpc"}, facts.OwnedCandidates, "the owner stays until it is adopted")
	assert.Contains(t, facts.AdoptionCondition("AdoptionRequired").Message, "WorkspaceTemplateApply demo-vpc has Workspace demo-vpc, which was created by CAPT v0.3")
	assert.Contains(t, facts.DeletingCondition("Deleting", "").Message, "captctl migrate")

	apply.Spec.WorkspaceName = "demo-vpc"
	assert.Equal(t, apply, factsFor(owner, want, apply).Apply, "it was adopted")
}

// What awaits adoption keeps its status, and nothing is created for it.
func TestAwaitsAdoption(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	legacy := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	others := builder.OwnedBy(builder.CAPTCluster("another"))
	made := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-vpc", options...)
	}
	none := infrav1.WorkspaceTemplateApplyReference{}
	for name, row := range map[string]struct {
		apply     *infrav1.WorkspaceTemplateApply
		ref       infrav1.WorkspaceTemplateApplyReference
		legacy    bool
		recorded  string
		awaits    bool
		undecided bool
	}{
		"it refers to one of v0.3":                 {made(legacy), refer("demo-vpc"), false, "", true, true},
		"it refers to an adopted one":              {made(legacy, builder.WithWorkspaceName("demo-vpc")), refer("demo-vpc"), true, "", false, false},
		"it refers to a new one":                   {made(), refer("demo-vpc"), false, "", false, false},
		"it refers to another's of v0.3":           {made(legacy, others), refer("demo-vpc"), false, "", false, false},
		"v0.3 left it, and it refers to another's": {made(others), refer("demo-vpc"), true, "", true, false},
		"it refers to another's":                   {made(others), refer("demo-vpc"), false, "", false, false},
		"one of v0.3 may be its own":               {made(legacy), none, false, "", true, true},
		"v0.3 left it, and one may be its own":     {made(), none, true, "", true, true},
		"one may be its own":                       {made(), none, false, "", false, true},
		"one of v0.3 of its cluster, of another template": {
			made(legacy, builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Name, apply.Spec.TemplateRef.Name = "production", "vpc-v1"
			})), none, false, "", true, true,
		},
		"one of v0.3 that it owns, of another template": {
			made(legacy, builder.OwnedBy(owner), builder.WithVariables(nil), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Name, apply.Spec.TemplateRef.Name = "production", "vpc-v1"
			})), none, false, "", true, true,
		},
		"v0.3 left it, and nothing may be its own":             {made(builder.WithNamespace("elsewhere")), none, true, "", false, false},
		"what v0.3 recorded is gone":                           {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), true, "demo-vpc", true, true},
		"what v0.3 recorded is gone, and it refers to a new":   {made(builder.WithNamespace("elsewhere")), refer("new-vpc"), true, "demo-vpc", false, false},
		"v0.3 recorded nothing, and it refers to a new one":    {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), true, "", false, false},
		"what this version recorded is gone and created again": {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), false, "demo-vpc", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := expected
			want.Legacy, want.Recorded = row.legacy, row.recorded
			c := newClient(row.apply)
			f, err := Reader{Cached: c, Uncached: c}.Observe(ctx, owner, row.ref, want)
			require.NoError(t, err)
			assert.Equal(t, row.awaits, f.AwaitsAdoption)
			assert.Equal(t, row.undecided, f.NeedsDecision())
			status := f.AdoptionCondition("AdoptionRequired").Status
			assert.Equal(t, row.awaits || row.undecided, status == metav1.ConditionTrue)
			f, err = Reader{Cached: c, Uncached: c, Confirm: true}.Observe(ctx, owner, row.ref, want)
			require.NoError(t, err)
			assert.Equal(t, row.awaits, f.AwaitsAdoption, "the API server returns the same")
		})
	}
	deleted := builder.CAPTCluster("demo", builder.Deleting())
	want := expected
	want.Legacy, want.Recorded = true, "demo-vpc"
	f, err := Reader{Cached: newClient(), Uncached: newClient()}.Observe(ctx, deleted, refer("demo-vpc"), want)
	require.NoError(t, err)
	assert.False(t, f.NeedsDecision(), "nothing holds up its deletion")
}
