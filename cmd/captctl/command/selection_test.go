// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/lock"
)

func TestAUnitThatThePlanDoesNotHaveIsAnErrorBeforeTheQuestion(t *testing.T) {
	env := &environment{terminal: true, answer: "yes\n", objects: undecided().objects}
	p := twoUnits(t, false)
	recorded(t, env, p, time.Date(2026, 10, 22, 9, 0, 0, 0, time.UTC), map[string]apply.Phase{"team-a/demo": apply.PhaseApplied})
	for _, command := range []string{"apply", "rollback"} {
		out, errOut, err := env.run(t, "migrate", command, p.ID, "--cluster", "team-a/none")
		require.ErrorContains(t, err, "plan "+p.ID+" does not contain team-a/none; captctl migrate show "+p.ID)
		assert.Empty(t, out)
		assert.NotContains(t, errOut, "Do you want")
	}
}

// A unit whose adoption was interrupted is not adopted: check, plan and status report the run that ended early, and how to resume it.
func TestAnInterruptedUnitIsReportedByEveryCommand(t *testing.T) {
	const unit = "CAPTControlPlane/default/demo"
	env := undecided()
	p := twoUnits(t, false)
	recorded(t, env, p, time.Date(2026, 10, 22, 9, 0, 0, 0, time.UTC), map[string]apply.Phase{unit: apply.PhaseApplying})
	resume := "captctl migrate apply " + p.ID + " --unit " + unit

	out, _, err := env.run(t, "migrate", "check")
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err), "%v", err)
	assert.Contains(t, out, "  Failed   interrupted units: a run was interrupted")
	assert.Regexp(t, unit+" +Interrupted .* a run of plan "+p.ID+" was interrupted while it wrote this unit", out)
	assert.Contains(t, out, "Next steps:\n1. Resume the interrupted units, or roll them back.\n     "+resume+"  # resume\n     captctl migrate rollback "+p.ID)

	decisions := filepath.Join(t.TempDir(), "decisions.yaml")
	require.NoError(t, os.WriteFile(decisions, []byte("apiVersion: migrate.capt.cluster.x-k8s.io/v1\nkind: Decisions\nowners: [{uid: plane-1, skip: true}]\n"), 0o600))
	out, _, err = env.run(t, "migrate", "plan", "--decisions", decisions, "--detailed-exitcode")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	assert.Regexp(t, unit+" +Interrupted", out)
	assert.Contains(t, out, resume)

	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "capt-system", Name: lock.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("laptop-1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(env.clock.Now())),
	}}
	require.NoError(t, env.connected.Create(t.Context(), lease))
	out, _, _ = env.run(t, "migrate", "check")
	assert.Regexp(t, unit+" +Interrupted", out, "the run in progress is another one")
}

func TestClustersAreNamedAlikeInEveryCommand(t *testing.T) {
	for _, command := range []string{"check", "plan", "status"} {
		_, _, err := undecided().run(t, "migrate", command, "--cluster", "typo")
		require.ErrorContains(t, err, "must be NAMESPACE/NAME", command)
		if command != "status" { // It is replaced in these tests, and reads the same.
			out, _, err := undecided().run(t, "migrate", command, "--cluster", "team-a/typo")
			assert.Empty(t, out)
			require.ErrorContains(t, err, "CAPT has no such Cluster: team-a/typo", command)
		}
	}
	file := saved(t, twoUnits(t, true))
	out, _, err := (&environment{}).run(t, "migrate", "show", file, "--cluster", "team-a/demo")
	require.NoError(t, err)
	assert.Contains(t, out, "team-a/demo")
	assert.NotContains(t, out, "team-b/shop")
	_, _, err = (&environment{}).run(t, "migrate", "show", file, "--cluster", "team-a/demo", "-o", "json")
	require.ErrorContains(t, err, "--cluster cannot be combined with -o json")
}

func TestApplyWarnsBeforeStoredVersionsMayBeMigrated(t *testing.T) {
	const warning = "the manager migrates stored versions, which cannot be reverted"
	for _, undecided := range []bool{false, true} {
		env := &environment{objects: []client.Object{namespace("kube-system")}}
		env.report.Checks = []check.Check{{Name: check.CheckStored, Status: check.OK, Objects: []string{"captclusters: v1beta1, v1beta2"}}}
		out, _, err := env.run(t, "migrate", "apply", saved(t, twoUnits(t, undecided)), "--yes")
		require.NoError(t, err)
		assert.Equal(t, !undecided, strings.Contains(out, warning), out)
		env.report.Checks[0].Objects = []string{"captclusters: v1beta2"}
		out, _, err = env.run(t, "migrate", "apply", saved(t, twoUnits(t, undecided)), "--yes")
		require.NoError(t, err)
		assert.NotContains(t, out, warning, "they are migrated already")
	}
}
