// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// maxWrites is more than a phase takes.
const maxWrites = 40

// Whose writes are counted. Each controller does one thing after another with one object; between the two there is no
// order that would be the same in each life.
var (
	ofWorkspaceTemplateApply = []string{"workspacetemplateapplies", "workspaces"}
	ofWorkspaceTemplate      = []string{"workspacetemplates"}
)

// outcome is what a phase came to.
type outcome struct {
	// state is everything that is there.
	state string
	// generation is that of the Workspace, 0 when there is none.
	generation int64
	// terraform counts how often each operation was run that changes something.
	terraform map[scripted.Operation]int
	writes    []proxy.Write
	// deadly is the write at which the manager was killed; nil when it was not.
	deadly *proxy.Write
}

// record is how a life without a kill went, phase by phase.
type record map[string]outcome

// compare lives without a kill, then with one after each write, and if wanted with one before each.
func (w *world) compare(of []string, before bool, phases ...phase) {
	w.Helper()
	undisturbed := w.undisturbed(phases...)
	w.disturbed(undisturbed, proxy.After, of, phases...)
	if before {
		w.disturbed(undisturbed, proxy.Before, of, phases...)
	}
}

// undisturbed lives a life in which nothing happens to the manager.
func (w *world) undisturbed(phases ...phase) record {
	w.Helper()
	r := record{}
	for _, phase := range phases {
		r[phase.name] = w.run(phase, proxy.Target{})
		w.Logf("%s: %d writes: %s", phase.name, len(r[phase.name].writes), strings.Join(kinds(r[phase.name].writes...), ", "))
	}
	w.requireOneWorkspace("without a kill")
	if changed, ok := r[change.name]; ok {
		require.Equal(w, r[phases[0].name].generation+1, changed.generation, "the Workspace is changed once")
	}
	return r
}

// disturbed lets one life follow another: in the n-th, the manager is killed at the n-th write of each phase, until no
// phase has that many. Each life must come to what the undisturbed one came to.
func (w *world) disturbed(undisturbed record, moment proxy.Moment, of []string, phases ...phase) {
	w.Helper()
	deadly := map[string][]proxy.Write{}
	for n := 1; n <= maxWrites; n++ {
		kills := 0
		for _, phase := range phases {
			if phase.skippable && n > 1+len(deadly[phase.name]) {
				continue // It has fewer writes.
			}
			what := fmt.Sprintf("%s, killed %s write %d of %v", phase.name, moment, n, of)
			got := w.run(phase, proxy.Target{Number: n, Moment: moment, Resources: of})
			if got.deadly != nil {
				kills++
				what += ": " + got.deadly.String()
				deadly[phase.name] = append(deadly[phase.name], *got.deadly)
			}
			require.Equal(w, undisturbed[phase.name].state, got.state, what)
			require.Equal(w, undisturbed[phase.name].terraform, got.terraform, what)
		}
		w.requireOneWorkspace(fmt.Sprintf("killed %s write %d", moment, n))
		if kills == 0 {
			w.requireAllWereDeadly(undisturbed, deadly, of)
			return
		}
	}
	w.Fatalf("a phase has more than %d writes", maxWrites)
}

// requireAllWereDeadly proves that no kind of write was left out: what is written twice in one life may be written at
// once in another.
func (w *world) requireAllWereDeadly(undisturbed record, deadly map[string][]proxy.Write, of []string) {
	w.Helper()
	for name, outcome := range undisturbed {
		var counted []proxy.Write
		for _, write := range outcome.writes {
			resource, _, _ := strings.Cut(write.Resource(), "/")
			if slices.Contains(of, resource) {
				counted = append(counted, write)
			}
		}
		w.Logf("%s: killed at %s", name, strings.Join(kinds(deadly[name]...), ", "))
		require.Subset(w, kinds(deadly[name]...), kinds(counted...), name)
	}
}

// kinds says what was written, without names.
func kinds(writes ...proxy.Write) []string {
	all := make([]string, len(writes))
	for i, write := range writes {
		all[i] = write.Method + " " + write.Resource()
	}
	return all
}

// run runs a phase to its end, and proves that it is one: nothing is written any more.
func (w *world) run(phase phase, target proxy.Target) outcome {
	w.Helper()
	before := w.operations()
	w.killed, w.deadly = w.stage.proxy.Arm(target), nil
	phase.begin(w)
	what := phase.name
	if target.Number > 0 {
		what = fmt.Sprintf("%s, killed %s write %d", phase.name, target.Moment, target.Number)
	}
	end := func(ctx context.Context) error { return phase.end(ctx, w) }
	w.insist(what, end)
	ended := len(w.stage.proxy.Writes())
	w.awaitSilence()
	w.insist(what, end)
	writes := w.stage.proxy.Writes()
	// A status that is sent while its object disappears changes nothing.
	late := slices.DeleteFunc(slices.Clone(writes[ended:]), func(write proxy.Write) bool { return write.Code == http.StatusNotFound })
	require.Empty(w, late, "%s: something is written after the end", what)
	terraform := w.operations()
	for operation, count := range before {
		terraform[operation] -= count
	}
	got := outcome{state: w.snapshot(), terraform: terraform, writes: writes, deadly: w.deadly}
	workspaces := w.workspaces()
	require.LessOrEqual(w, len(workspaces), 1, what)
	for _, workspace := range workspaces {
		got.generation = workspace.GetGeneration()
	}
	return got
}

// operations counts the operations that Terraform was started for so far.
func (w *world) operations() map[scripted.Operation]int {
	w.Helper()
	journal, err := w.stage.terraform.Journal()
	require.NoError(w, err)
	counts := map[scripted.Operation]int{scripted.Apply: 0, scripted.Destroy: 0}
	for _, entry := range journal {
		if entry.Operation == scripted.Apply || entry.Operation == scripted.Destroy {
			counts[entry.Operation]++
		}
	}
	return counts
}

// requireOneWorkspace proves that in a whole life there was one Workspace, under one UID, and that it took everything
// along that Terraform had made.
func (w *world) requireOneWorkspace(when string) {
	w.Helper()
	require.Len(w, w.everSeen(), 1, "Workspaces %s", when)
}

// everSeen lists the Workspaces of the life that ends. Nothing may be left of them.
func (w *world) everSeen() []string {
	w.Helper()
	require.Empty(w, w.workspaces())
	w.await("all watches report that the Workspaces are gone", func(context.Context) error {
		if !w.observed.gone() {
			return fmt.Errorf("some are left")
		}
		return nil
	})
	cloud, err := w.stage.terraform.Cloud()
	require.NoError(w, err)
	require.Empty(w, cloud, "cloud resources are left")
	states, err := w.stage.terraform.States()
	require.NoError(w, err)
	require.Empty(w, states, "states are left")
	// No garbage collector runs here, and the provider does not write to the Secret of another Workspace.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: connectionSecret}}
	require.NoError(w, client.IgnoreNotFound(w.Delete(w.Context(), secret)))
	return w.observed.take()
}
