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
