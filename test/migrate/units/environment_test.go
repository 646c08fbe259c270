// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// journalNamespace is where CAPT is installed.
const journalNamespace = "capt-system"

// environment is a fleet of CAPT v0.3 under this version's manager.
type environment struct {
	*testing.T
	*legacy.Environment
	captctl   client.WithWatch
	directory string
}

// newEnvironment has the strictest rollout policy as the default: no adoption may wait for a preview or an approval.
func newEnvironment(t *testing.T, fixtures ...string) *environment {
	t.Helper()
	options := sandbox.Options{ManagerArgs: []string{"--default-rollout={strategy: Staged, preview: Always, approval: Always}"}}
	return upgraded(t, options, func(env *environment) {
		for _, name := range fixtures {
			_, err := env.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
			require.NoError(t, err)
		}
	})
}

// in is the same environment in a subtest.
func (env *environment) in(t *testing.T) *environment {
	other := *env
	other.T = t
	return &other
}

// upgraded is an environment with what was created under CAPT v0.3.
func upgraded(t *testing.T, options sandbox.Options, create func(*environment)) *environment {
	t.Helper()
	env := &environment{T: t, Environment: legacy.New(t, options)}
	create(env)
	require.NoError(t, env.Upgrade(t.Context()))
	var err error
	env.captctl, err = env.Client(sandbox.Captctl)
	require.NoError(t, err)
	return env
}

// optionsFor are the options of a run as captctl migrate sets them, with a backup in a directory of the test.
func (env *environment) optionsFor(p *plan.Plan) apply.Options {
	env.Helper()
	file := filepath.Join(env.backups(), apply.DefaultBackupFile(p.ID))
	return apply.Options{
		Client: env.captctl, Namespace: journalNamespace, LeaseDuration: 10 * time.Second, Wait: time.Minute,
		Backup: apply.BackupWriter(env.captctl, file, p, clock.RealClock{}),
		Check:  func(context.Context) error { return nil },
		Gate:   apply.Gate(env.captctl, p, clock.RealClock{}),
	}
}

func (env *environment) backups() string {
	if env.directory == "" {
		env.directory = env.TempDir()
	}
	return env.directory
}

// plan is that of captctl, with decisions if there are any.
func (env *environment) plan(decisions *migrate.Decisions) *plan.Plan {
	env.Helper()
	snapshot, err := migrate.Read(env.Context(), env.captctl, "", time.Now())
	require.NoError(env, err)
	p, err := planner.New(snapshot, decisions)
	require.NoError(env, err)
	return p
}

// adoptable are the names of the units that a plan adopts.
func adoptable(p *plan.Plan) (names []string) {
	for i := range p.Units {
		if p.Units[i].State == plan.Adoptable {
			names = append(names, p.Units[i].Name())
		}
	}
	return names
}

func (env *environment) status() *status.Status {
	env.Helper()
	s, err := status.Read(env.Context(), status.Options{Reader: env.captctl, JournalNamespace: journalNamespace, Clock: clock.RealClock{}})
	require.NoError(env, err)
	return s
}

// fleet is what a plan may write, and the Workspaces.
func (env *environment) fleet() map[string]string {
	env.Helper()
	return host.Fleet(env.T, env.Admin, host.Desired)
}

func (env *environment) requireEqual(want map[string]string, prefix string) {
	env.Helper()
	live := env.fleet()
	for name, object := range want {
		if strings.HasPrefix(name, prefix) {
			assert.JSONEq(env, object, live[name], name)
		}
	}
	assert.Len(env, live, len(want))
}

// requireAdopted fails if the manager reports an object of a Workspace as not adopted.
func (env *environment) requireAdopted(unit *plan.Unit) {
	env.Helper()
	for _, member := range unit.Members {
		if member.Workspace == nil {
			continue
		}
		used := &infrav1.WorkspaceTemplateApply{}
		require.NoError(env, env.Admin.Get(env.Context(), client.ObjectKey{Namespace: member.WorkspaceTemplateApply.Namespace, Name: member.WorkspaceTemplateApply.Name}, used))
		assert.False(env, meta.IsStatusConditionTrue(used.Status.Conditions, infrav1.AdoptionRequiredCondition), used.Name)
		assert.Equal(env, used.Generation, used.Status.WrittenGeneration, used.Name)
		assert.Equal(env, member.Workspace.UID, used.Status.WorkspaceRef.UID, used.Name)
		assert.NotContains(env, used.Annotations, clusterv1.PausedAnnotation, used.Name)
	}
}

// objectWrites counts the writes of captctl but those of its journal and Lease.
func (env *environment) objectWrites() (count int) {
	env.Helper()
	events, err := env.Writes(sandbox.CaptctlUser)
	require.NoError(env, err)
	for _, event := range events {
		if event.ObjectRef.Resource != "configmaps" && event.ObjectRef.Resource != "leases" {
			count++
		}
	}
	return count
}

func outcomes(result *apply.Result) map[apply.UnitOutcome]int {
	counts := map[apply.UnitOutcome]int{}
	for _, unit := range result.Units {
		counts[unit.Outcome]++
	}
	return counts
}

func (env *environment) applied(p *plan.Plan, o apply.Options) *apply.Result {
	env.Helper()
	result, err := apply.Apply(env.Context(), p, o)
	require.NoError(env, err)
	return result
}
