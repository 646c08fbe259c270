// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestReadOnlyCommandsWriteNothing runs check, plan, show and status before anything is installed, after the upgrade and after the adoption, as a
// user who may write everything and as one who may only read. Commands that write list what that user lacks, and write nothing. The fleet is the
// fixture of the reference fleet, which needs no decision.
func TestReadOnlyCommandsWriteNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sandbox.Options{})
	_, err := w.Create(t.Context(), legacy.Reference(nil), legacy.ReferenceNames())
	require.NoError(t, err)
	requireFieldsOfTheReference(t, w.World)
	// reader may do what the documentation lists for users who only look.
	reader, began := w.host.Another(w.KubeconfigOf(sandbox.Reader)), time.Now()
	forbidden := w.host.Another(w.KubeconfigOf(sandbox.Provider))

	var untouched *plan.Plan
	t.Run("before anything is installed", func(t *testing.T) {
		w.looks(t, reader)
		untouched = w.host.In(t).Plan()
		require.NoError(t, os.Rename(filepath.Join(w.host.Dir, "plan.json"), filepath.Join(w.host.Dir, "untouched.json")))
		refused := forbidden.In(t).Refused("plan")
		for _, resource := range []string{"namespaces", "clusters", "workspacetemplates", "workspacetemplateapplies", "captclusters", "captcontrolplanes"} {
			assert.Contains(t, refused, "cannot list resource \""+resource+"\"", "everything that is missing is reported at once")
		}
	})
	requireNoDecision(t, w.World)
	require.NoError(t, w.StartControllers(t.Context()))
	w.await(w.withoutAdoptionRequired)
	w.awaitReconciled()
	t.Run("after the upgrade", func(t *testing.T) {
		w.looks(t, reader)
		w.host.In(t).Run(migrate.Done, "apply", "untouched.json", "--dry-run=server")
		require.Equal(t, contents(untouched), contents(w.host.In(t).Plan()), "the plan that was made before the upgrade")
	})
	require.Empty(t, w.writesOf(sandbox.CaptctlUser, began))

	before := host.Fleet(t, w.Admin)
	w.isRefused(reader, "apply", filepath.Join(w.host.Dir, "untouched.json"), "--yes")
	require.Equal(t, before, host.Fleet(t, w.Admin))
	w.host.Run(migrate.Done, "apply", "untouched.json", "--yes")
	adopted := host.Fleet(t, w.Admin, host.Desired)
	after := time.Now()
	t.Run("after the adoption", func(t *testing.T) { w.looks(t, reader) })
	w.isRefused(reader, "rollback", untouched.ID, "--yes")
	require.Equal(t, adopted, host.Fleet(t, w.Admin, host.Desired))
	require.Empty(t, w.writesOf(sandbox.CaptctlUser, after))
	require.Empty(t, w.writesOf(sandbox.ReaderUser, began))
}

// looks runs every command that only reads, as both users.
func (w *world) looks(t *testing.T, reader *host.Host) {
	for _, command := range [][]string{
		{"check"}, {"check", "--namespace=default", "-o=json"}, {"plan"}, {"plan", "-o=yaml"}, {"plan", "--out=plan.json"}, {"show", "plan.json"},
		{"show", "plan.json", "--diff"}, {"status"}, {"status", "-o=json"},
	} {
		t.Run(strings.Join(command[:min(2, len(command))], " "), func(t *testing.T) {
			w.host.In(t).Run(migrate.Done, command...)
			if command[0] != "check" { // It fails for a user who may not write.
				reader.In(t).Run(migrate.Done, command...)
			}
		})
	}
}

// isRefused runs a command as a user who may only read.
func (w *world) isRefused(reader *host.Host, args ...string) {
	w.Helper()
	refused := reader.In(w.T).Refused(args...)
	for _, missing := range []string{
		"patch captcontrolplanes.controlplane.cluster.x-k8s.io", "patch workspacetemplateapplies.infrastructure.cluster.x-k8s.io",
		"create leases.coordination.k8s.io in namespace " + sandbox.ManagerNamespace,
	} {
		assert.Contains(w, refused, missing)
	}
}

// contents of a plan are all but when it was made.
func contents(p *plan.Plan) plan.Plan {
	copied := *p
	copied.ID, copied.Checksum, copied.Created = "", "", metav1.Time{}
	return copied
}
