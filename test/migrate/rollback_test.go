// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestARollbackRestoresEveryObject applies plans and rolls them back: while the manager does not reconcile, after it has reconciled, after a
// user changed something, and twice at the same time. Afterwards, templates are edited.
func TestARollbackRestoresEveryObject(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Options{})
	for _, name := range []string{
		"reference-set", "reference-empty-arbitrary-name", "hand-made-without-owner-reference", "helpers-present", "templates-in-default", "retained-vpc", "existing-vpc",
	} {
		_, err := env.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
		require.NoError(t, err)
	}
	require.NoError(t, env.Upgrade(t.Context()))
	env.await(env.withoutAdoptionRequired)
	env.awaitReconciled()
	before := env.untouched()

	t.Run("while the manager does not reconcile", func(t *testing.T) { env.rollsBackWithoutManager(t) })
	require.NoError(t, env.StartControllers(t.Context()))
	env.awaitReconciled()
	p := env.host.Plan()
	env.requireFields(t, p, plan.Pending)
	t.Run("of two runs at the same time one writes", func(t *testing.T) { env.oneOfTwoWrites(t) })
	env.requireFields(t, p, plan.Applied)
	t.Run("one cluster", func(t *testing.T) {
		env.host.In(t).Run(migrate.Done, "rollback", p.ID, "--cluster=helpers-present/helpers-present-demo", "--yes")
		env.requireFields(t, p, plan.Applied, "helpers-present/helpers-present-demo")
	})
	t.Run("all but what a user added", func(t *testing.T) { env.keepsWhatAUserAdded(t, p) })
	before.require(t)
	t.Run("an edit while the controllers are off is reported", env.reportsAnEdit)
	env.requireHarmless()
}

// requireFields requires that what a plan writes is in one state or, for some units, not written.
func (env *environment) requireFields(t *testing.T, p *plan.Plan, want plan.FieldState, reverted ...string) {
	t.Helper()
	for i := range p.Units {
		unit, want := &p.Units[i], want
		if slices.Contains(reverted, unit.Name()) {
			want = plan.Pending
		}
		host.RequireFields(t, env.Admin, unit, want)
	}
}

// rollsBackWithoutManager compares whole objects, since only captctl writes.
func (env *environment) rollsBackWithoutManager(t *testing.T) {
	require.NoError(t, env.StartControllers(t.Context(), legacy.WebhooksOnly))
	h, before := env.host.In(t), host.Fleet(t, env.Admin)
	p := h.Plan()
	partly := h.Start("apply", "plan.json", "--yes", "--wait=1s", "--max-failures=100").Ends(migrate.Partly)
	assert.Contains(t, partly.String(), "the manager has not confirmed")
	require.NotEqual(t, before, host.Fleet(t, env.Admin))
	h.Another("").Run(migrate.Done, "rollback", p.ID, "--yes")
	requireSame(t, before, host.Fleet(t, env.Admin))
}

// oneOfTwoWrites starts the same plan on two hosts. One of them finds the other at work, or waits until it has ended and finds nothing to write.
func (env *environment) oneOfTwoWrites(t *testing.T) {
	h := env.host.In(t)
	arguments := []string{"apply", filepath.Join(h.Dir, "plan.json"), "--yes", "-o=json"}
	runs, writers := []*host.Command{h.Start(arguments...), h.Another("").Start(arguments...)}, 0
	for _, run := range runs {
		if run.Outcome() == migrate.Failed {
			require.Contains(t, run.Err.String(), "another run is in progress")
			continue
		}
		var result apply.Result
		require.NoError(t, json.Unmarshal(run.Ends(migrate.Done).Out.Bytes(), &result), "%s", run)
		if slices.ContainsFunc(result.Units, func(unit apply.UnitResult) bool { return unit.Writes > 0 }) {
			writers++
		}
	}
	require.Equal(t, 1, writers)
	for name, unit := range h.Status() {
		assert.Equal(t, apply.PhaseApplied, unit.Phase, name)
	}
}

// keepsWhatAUserAdded rolls everything back, and leaves a label that a user added to an adopted object.
func (env *environment) keepsWhatAUserAdded(t *testing.T, p *plan.Plan) {
	labeled := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "reference-set", Name: "reference-set-demo"}}
	require.NoError(t, env.Admin.Patch(t.Context(), labeled, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"shop"}}}`))))
	env.host.In(t).Run(migrate.Done, "rollback", p.ID, "--yes")
	require.NoError(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(labeled), labeled))
	require.Equal(t, "shop", labeled.Labels["team"])
	env.requireFields(t, p, plan.Pending)
}

// reportsAnEdit edits the templates of an adopted cluster, and of one that awaits adoption, while the manager does not reconcile. What it will
// change, or would change, is reported before it does.
func (env *environment) reportsAnEdit(t *testing.T) {
	const adopted, awaiting = "reference-set/reference-set-demo", "reference-empty-arbitrary-name/reference-empty-arbitrary-name-demo"
	h := env.host.In(t)
	h.Plan()
	h.Run(migrate.Done, "apply", "plan.json", "--cluster="+adopted, "--yes")
	require.Empty(t, h.Status()[adopted].PendingChange)

	require.NoError(t, env.StartControllers(t.Context(), legacy.WebhooksOnly))
	var templates infrav1.WorkspaceTemplateList
	require.NoError(t, env.Admin.List(t.Context(), &templates))
	for i := range templates.Items {
		edited := &templates.Items[i]
		before := client.MergeFrom(edited.DeepCopy())
		edited.Spec.Template.Spec.ForProvider.Module += "\n# edited\n"
		require.NoError(t, env.Admin.Patch(t.Context(), edited, before))
	}
	untouched := env.untouched()
	require.NotEmpty(t, h.Status()[adopted].PendingChange)
	h.Start("status", "--detailed-exitcode").Ends(migrate.NeedsDecision)
	h.Start("plan").Ends(migrate.NeedsDecision)
	h.Start("apply", "plan.json", "--cluster="+awaiting, "--yes").Ends(migrate.Failed)
	untouched.require(t)
}

func requireSame(t *testing.T, want, live map[string]string) {
	t.Helper()
	require.Equal(t, names(want), names(live))
	for name, object := range want {
		assert.JSONEq(t, object, live[name], name)
	}
	if t.Failed() {
		t.FailNow()
	}
}
