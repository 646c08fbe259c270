// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// journalNamespace is where CAPT is installed.
const journalNamespace = "capt-system"

// world is a fleet of CAPT v0.3 under this version's manager.
type world struct {
	*testing.T
	*legacy.World
	captctl   client.WithWatch
	directory string
}

func newWorld(t *testing.T, fixtures ...string) *world {
	t.Helper()
	return upgraded(t, sandbox.Options{}, func(w *world) {
		for _, name := range fixtures {
			_, err := w.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
			require.NoError(t, err)
		}
	})
}

// in is the same world in a subtest.
func (w *world) in(t *testing.T) *world {
	other := *w
	other.T = t
	return &other
}

// upgraded is a world with what was created under CAPT v0.3.
func upgraded(t *testing.T, options sandbox.Options, create func(*world)) *world {
	t.Helper()
	w := &world{T: t, World: legacy.New(t, options)}
	create(w)
	require.NoError(t, w.Upgrade(t.Context()))
	var err error
	w.captctl, err = w.Client(sandbox.Captctl)
	require.NoError(t, err)
	return w
}

// optionsFor are the options of a run as captctl migrate sets them, with a backup in a directory of the test.
func (w *world) optionsFor(p *plan.Plan) apply.Options {
	w.Helper()
	file := filepath.Join(w.backups(), backup.DefaultFile(p.ID))
	return apply.Options{
		Client: w.captctl, Reader: w.captctl, Namespace: journalNamespace, LeaseDuration: 10 * time.Second, Wait: time.Minute,
		Backup: backup.Writer(w.captctl, file, p, clock.RealClock{}),
		Check:  func(context.Context) error { return nil },
		Gate:   apply.Gate(w.captctl, p, clock.RealClock{}),
	}
}

func (w *world) backups() string {
	if w.directory == "" {
		w.directory = w.TempDir()
	}
	return w.directory
}

func (w *world) plan() *plan.Plan {
	w.Helper()
	snapshot, err := migrate.Read(w.Context(), w.captctl, "", time.Now())
	require.NoError(w, err)
	p, err := planner.New(snapshot, planner.Options{Now: time.Now()})
	require.NoError(w, err)
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

func (w *world) status() *status.Status {
	w.Helper()
	s, err := status.Read(w.Context(), status.Options{Reader: w.captctl, JournalNamespace: journalNamespace, Clock: clock.RealClock{}})
	require.NoError(w, err)
	return s
}

// spec is what the plan may write of every object, and what it must not change of Workspaces.
func (w *world) fleet() map[string]string {
	w.Helper()
	fleet := map[string]string{}
	take := func(object *unstructured.Unstructured) error {
		content := map[string]any{"spec": object.Object["spec"], "owners": object.GetOwnerReferences(), "uid": object.GetUID(), "annotations": object.GetAnnotations()}
		ref, found, _ := unstructured.NestedMap(object.Object, "status", "workspaceRef")
		if found {
			content["ref"] = ref
		}
		if object.GetKind() == terraform.WorkspaceKind {
			content["metadata"] = object.Object["metadata"]
		}
		text, err := json.Marshal(content)
		fleet[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
		return err
	}
	kinds := []migrate.Kind{{GroupVersionKind: clusterv1.GroupVersion.WithKind("Cluster")}}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, migrate.Kind{GroupVersionKind: scope.GroupVersionKind()})
	}
	for _, kind := range append(kinds, migrate.Kinds()...) {
		require.NoError(w, migrate.Each(w.Context(), w.Admin, kind.GroupVersionKind, "", take))
	}
	return fleet
}

func (w *world) requireEqual(want map[string]string, prefix string) {
	w.Helper()
	live := w.fleet()
	for name, object := range want {
		if strings.HasPrefix(name, prefix) {
			assert.JSONEq(w, object, live[name], name)
		}
	}
	assert.Len(w, live, len(want))
}

// requireAdopted fails if the manager reports an object of a Workspace as not adopted.
func (w *world) requireAdopted(unit *plan.Unit) {
	w.Helper()
	for _, member := range unit.Members {
		if member.Workspace == nil {
			continue
		}
		used := &infrav1.WorkspaceTemplateApply{}
		require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Namespace: member.WorkspaceTemplateApply.Namespace, Name: member.WorkspaceTemplateApply.Name}, used))
		assert.False(w, meta.IsStatusConditionTrue(used.Status.Conditions, infrav1.AdoptionRequiredCondition), used.Name)
		assert.Equal(w, used.Generation, used.Status.WrittenGeneration, used.Name)
		assert.Equal(w, member.Workspace.UID, used.Status.WorkspaceRef.UID, used.Name)
		assert.NotContains(w, used.Annotations, clusterv1.PausedAnnotation, used.Name)
	}
}

// objectWrites counts the writes of captctl but those of its journal and Lease.
func (w *world) objectWrites() (count int) {
	w.Helper()
	events, err := w.Writes(sandbox.CaptctlUser)
	require.NoError(w, err)
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

func (w *world) applied(p *plan.Plan, o apply.Options) *apply.Result {
	w.Helper()
	result, err := apply.Apply(w.Context(), p, o)
	require.NoError(w, err)
	return result
}
