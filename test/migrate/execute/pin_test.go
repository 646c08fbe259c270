// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package execute_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/verify"
	"github.com/capt-provider/capt/test/legacy"
)

// The template of three control planes was edited after CAPT v0.3 had built them, and so was the version of one of them. Pinned, they are
// adopted without a change of a Workspace, rolled back, and adopted again.
func TestClustersOfOneTemplateWithDriftArePinned(t *testing.T) {
	w := newWorldOf(t, func(started *legacy.World) {
		_, err := started.Create(t.Context(), legacy.Reference(nil), legacy.ReferenceNames())
		require.NoError(t, err)
	})
	w.edit()
	blocked := w.decide(nil)
	require.Len(t, blocked.Undecided(), 3, "%v", blocked.Undecided())
	decisions := &migrate.Decisions{}
	for _, finding := range blocked.Undecided() {
		require.Equal(t, planner.ReasonWouldChange, finding.Reason)
		decisions.Owners = append(decisions.Owners, migrate.OwnerDecision{UID: finding.Object.UID, Pin: true})
	}
	before, plan := w.fleet(), w.decide(decisions)
	require.Empty(t, plan.Undecided())

	options := w.options
	options.DryRun, options.BackupDir = true, ""
	_, err := execute.Apply(t.Context(), plan, options)
	require.NoError(t, err, "the API server accepts every write")
	require.Equal(t, before, w.fleet())

	result, err := execute.Apply(t.Context(), plan, w.options)
	require.NoError(t, err)
	assert.Equal(t, result.Steps.Total, result.Steps.Written)
	templates := &infrav1.WorkspaceTemplateList{}
	require.NoError(t, w.Admin.List(t.Context(), templates, client.MatchingLabels{naming.PinnedLabel: "true"}))
	require.Len(t, templates.Items, 3)
	_, err = verify.Run(t.Context(), w.captctl, plan, verify.Options{})
	require.NoError(t, err)
	for _, decided := range []*migrate.Decisions{nil, decisions} {
		next := w.decide(decided)
		assert.Empty(t, next.Units)
		for _, finding := range next.Findings {
			assert.NotContains(t, []string{planner.ReasonPendingChange, planner.ReasonCannotRender, planner.ReasonWouldChange}, finding.Reason, finding.Message)
		}
	}
	count := len(w.written())
	_, err = execute.Apply(t.Context(), plan, w.options)
	require.NoError(t, err)
	assert.Len(t, w.written(), count, "a second time nothing is written")

	result, err = execute.Rollback(t.Context(), plan.ID, "", w.options)
	require.NoError(t, err)
	assert.Len(t, result.Left, 3)
	after := w.fleet()
	for _, left := range result.Left {
		require.Contains(t, after, left.String())
		delete(after, left.String())
	}
	require.Len(t, after, len(before))
	for name, object := range before {
		assert.JSONEq(t, object, after[name], name)
	}

	again := w.decide(decisions)
	require.Empty(t, again.Undecided())
	for _, unit := range again.Units {
		for _, step := range unit.Steps {
			assert.Nil(t, step.Create, "the template is there")
		}
	}
	options = w.options
	options.BackupDir = t.TempDir()
	_, err = execute.Apply(t.Context(), again, options)
	require.NoError(t, err)
	for _, write := range w.written() {
		assert.False(t, strings.HasPrefix(write, "delete") || strings.Contains(write, " workspaces") || strings.Contains(write, " secrets"), write)
	}
}

// edit is what users did after CAPT v0.3 had built the clusters.
func (w *world) edit() {
	w.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: "eks-controlplane-template"}, template))
	module, err := json.Marshal(template.Spec.Template.Spec.ForProvider.Module + "\n# edited\n")
	require.NoError(w, err)
	patch := `{"spec":{"template":{"spec":{"forProvider":{"module":` + string(module) + `}}}}}`
	require.NoError(w, w.Admin.Patch(w.Context(), template, client.RawPatch(types.MergePatchType, []byte(patch))))
	controlPlane := &controlplanev1.CAPTControlPlane{}
	controlPlane.Namespace, controlPlane.Name = "default", "demo"
	require.NoError(w, w.Admin.Patch(w.Context(), controlPlane, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"v1.32.0"}}`))))
}

// decide plans with decisions.
func (w *world) decide(decisions *migrate.Decisions) *migrate.Plan {
	w.Helper()
	now := time.Now()
	snapshot, err := migrate.Read(w.Context(), w.captctl, "", now)
	require.NoError(w, err)
	plan, err := planner.New(snapshot, planner.Options{Scope: migrate.ScopeAdopt, Decisions: decisions, Now: now, Lifetime: time.Hour})
	require.NoError(w, err)
	return plan
}
