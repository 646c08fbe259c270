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
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestReadOnlyCommandsWriteNothing runs check, plan, show and status before anything is installed, after the upgrade and after the adoption, as a
// user who may write everything and as one who may only read. Commands that write list what that user lacks, and write nothing. The fleet is the
// fixture of the reference fleet, which needs no decision.
func TestReadOnlyCommandsWriteNothing(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Options{})
	_, err := env.Create(t.Context(), reference(nil), referenceNames())
	require.NoError(t, err)
	requireFieldsOfTheReference(t, env.Environment)
	// reader may do what the documentation lists for users who only look.
	reader, began := env.host.Another(env.KubeconfigOf(sandbox.Reader)), time.Now()
	forbidden := env.host.Another(env.KubeconfigOf(sandbox.Provider))

	var untouched *plan.Plan
	t.Run("before anything is installed", func(t *testing.T) {
		env.looks(t, reader)
		untouched = env.host.In(t).Plan()
		require.NoError(t, os.Rename(filepath.Join(env.host.Dir, "plan.json"), filepath.Join(env.host.Dir, "untouched.json")))
		refused := forbidden.In(t).Refused("plan")
		for _, resource := range []string{"namespaces", "clusters", "workspacetemplates", "workspacetemplateapplies", "captclusters", "captcontrolplanes"} {
			assert.Contains(t, refused, "cannot list resource \""+resource+"\"", "everything that is missing is reported at once")
		}
	})
	requireNoDecision(t, env.Environment)
	require.NoError(t, env.StartControllers(t.Context()))
	env.await(env.withoutAdoptionRequired)
	env.awaitReconciled()
	t.Run("after the upgrade", func(t *testing.T) {
		env.looks(t, reader)
		env.host.In(t).Run(migrate.Done, "apply", "untouched.json", "--dry-run=server")
		require.Equal(t, contents(untouched), contents(env.host.In(t).Plan()), "the plan that was made before the upgrade")
	})
	require.Empty(t, env.writesOf(sandbox.CaptctlUser, began))

	before := host.Fleet(t, env.Admin)
	env.isRefused(reader, "apply", filepath.Join(env.host.Dir, "untouched.json"), "--yes")
	require.Equal(t, before, host.Fleet(t, env.Admin))
	env.host.Run(migrate.Done, "apply", "untouched.json", "--yes")
	adopted := host.Fleet(t, env.Admin, host.Desired)
	after := time.Now()
	t.Run("after the adoption", func(t *testing.T) { env.looks(t, reader) })
	env.isRefused(reader, "rollback", untouched.ID, "--yes")
	require.Equal(t, adopted, host.Fleet(t, env.Admin, host.Desired))
	require.Empty(t, env.writesOf(sandbox.CaptctlUser, after))
	require.Empty(t, env.writesOf(sandbox.ReaderUser, began))
}

// looks runs every command that only reads, as both users.
func (env *environment) looks(t *testing.T, reader *host.Host) {
	for _, command := range [][]string{
		{"check"}, {"check", "--namespace=default", "-o=json"}, {"plan"}, {"plan", "-o=yaml"}, {"plan", "--out=plan.json"}, {"show", "plan.json"},
		{"show", "plan.json", "--diff"}, {"status"}, {"status", "-o=json"},
	} {
		t.Run(strings.Join(command[:min(2, len(command))], " "), func(t *testing.T) {
			env.host.In(t).Run(migrate.Done, command...)
			if command[0] != "check" { // It fails for a user who may not write.
				reader.In(t).Run(migrate.Done, command...)
			}
		})
	}
}

// isRefused runs a command as a user who may only read.
func (env *environment) isRefused(reader *host.Host, args ...string) {
	env.Helper()
	refused := reader.In(env.T).Refused(args...)
	for _, missing := range []string{
		"patch captcontrolplanes.controlplane.cluster.x-k8s.io", "patch workspacetemplateapplies.infrastructure.cluster.x-k8s.io",
		"create leases.coordination.k8s.io in namespace " + sandbox.ManagerNamespace,
	} {
		assert.Contains(env, refused, missing)
	}
}

// contents of a plan are all but when it was made.
func contents(p *plan.Plan) plan.Plan {
	copied := *p
	copied.ID, copied.Checksum, copied.Created = "", "", metav1.Time{}
	return copied
}
