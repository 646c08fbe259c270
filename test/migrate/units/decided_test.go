// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// What the user decides is adopted: one of two owners that claim the same WorkspaceTemplateApply (take), and one of two Clusters of the same name
// (belongsTo). A reference to another WorkspaceTemplateApply is removed after the upgrade, with the command in the finding.
func TestWhatWasDecidedIsAdopted(t *testing.T) {
	t.Parallel()
	const claimants, twins, referring = "two-claimants", "equal-names-in-two-namespaces", "reference-set"
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(controlplanev1beta1.GroupVersion.WithKind("CAPTControlPlane"))
	controlPlane.SetNamespace(referring)
	controlPlane.SetName(referring + "-demo")
	env := upgraded(t, sandbox.Options{}, func(env *environment) {
		for _, name := range []string{claimants, twins, referring} {
			_, err := env.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
			require.NoError(t, err)
		}
		other := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"workspaceTemplateApplyName":"another"}}`))
		require.NoError(t, env.Admin.Patch(t.Context(), controlPlane, other))
	})
	require.NoError(t, env.StartControllers(t.Context()))
	undecided, before := env.plan(nil), env.fleet()
	require.Empty(t, adoptable(undecided))

	decisions := &migrate.Decisions{}
	for _, finding := range undecided.Undecided() {
		switch finding.Reason {
		case planner.ReasonReferenceDiffers:
			const remove = `[{"op":"remove","path":"/spec/workspaceTemplateApplyRef"}]`
			require.Contains(t, finding.Message, "kubectl -n "+referring+" patch captcontrolplane "+controlPlane.GetName()+" --field-manager=captctl --type=json -p '"+remove+"'")
			require.NoError(t, env.Admin.Patch(t.Context(), &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: referring, Name: controlPlane.GetName()}}, client.RawPatch(types.JSONPatchType, []byte(remove)),
				client.FieldOwner(migrate.FieldManager)))
		case planner.ReasonWorkspaceShared:
			i := slices.IndexFunc(finding.Candidates, func(c migrate.Candidate) bool { return c.Object.Namespace == twins })
			decisions.Workspaces = append(decisions.Workspaces, migrate.WorkspaceDecision{UID: finding.Workspace.UID, BelongsTo: finding.Candidates[i].Object.UID})
		case planner.ReasonMultipleCandidates:
			for _, owner := range finding.Objects() {
				decision := migrate.OwnerDecision{UID: owner.UID, Skip: true}
				if owner.Name == claimants+"-demo" {
					decision = migrate.OwnerDecision{UID: owner.UID, Take: finding.Candidates[0].Object.UID}
				}
				decisions.Owners = append(decisions.Owners, decision)
			}
		default:
			require.Fail(t, finding.Reason, finding.Message)
		}
	}
	p := env.plan(decisions)
	require.Empty(t, p.Undecided())

	result := env.applied(p, env.optionsFor(p))
	assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 4, apply.LeftOut: 1}, outcomes(result), "%v", result.Units)
	env.requireEqual(before, "Workspace ")
	states := map[string]plan.UnitState{}
	for _, unit := range env.status().Units {
		states[unit.Unit] = unit.State
	}
	assert.Equal(t, map[string]plan.UnitState{
		claimants + "/" + claimants + "-demo": plan.Adopted, claimants + "/" + claimants + "-other": plan.PartlyAdopted,
		twins + "/" + twins + "-demo": plan.Adopted, twins + "-other/" + twins + "-demo": plan.Skipped,
		referring + "/" + referring + "-demo": plan.Adopted,
	}, states)
	for i := range p.Units {
		if p.Units[i].State == plan.Adoptable {
			env.requireAdopted(&p.Units[i])
		}
	}

	// The second of equal names was never built.
	second := types.NamespacedName{Namespace: twins + "-other", Name: twins + "-demo-eks-controlplane-apply"}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := &infrav1.WorkspaceTemplateApply{}
		require.NoError(c, env.Admin.Get(t.Context(), second, found))
		message := conditions.GetMessage(found, infrav1.AdoptionRequiredCondition)
		assert.Contains(c, message, "belongs to an object of another namespace, for which it was adopted")
		assert.Contains(c, message, "kubectl -n "+second.Namespace+" patch workspacetemplateapply "+second.Name+" --type=merge -p ")
	}, 2*time.Minute, 200*time.Millisecond)
}
