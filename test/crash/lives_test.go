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
	"github.com/capt-provider/capt/test/fixture"
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
	// killedAt is the write at which the manager was killed; nil when it was not.
	killedAt *proxy.Write
}

// record is how a life without a kill went, phase by phase.
type record map[string]outcome

// compare lives without a kill, then with one after each write, and if wanted with one before each.
func (env *environment) compare(of []string, before bool, phases ...phase) {
	env.Helper()
	uninterrupted := env.uninterrupted(phases...)
	env.interrupted(uninterrupted, proxy.After, of, phases...)
	if before {
		env.interrupted(uninterrupted, proxy.Before, of, phases...)
	}
}

// uninterrupted runs all phases while the manager keeps running.
func (env *environment) uninterrupted(phases ...phase) record {
	env.Helper()
	r := record{}
	for _, phase := range phases {
		r[phase.name] = env.run(phase, proxy.Target{})
		env.Logf("%s: %d writes: %s", phase.name, len(r[phase.name].writes), strings.Join(kinds(r[phase.name].writes...), ", "))
	}
	env.requireOneWorkspace("without a kill")
	if changed, ok := r[change.name]; ok {
		require.Equal(env, r[phases[0].name].generation+1, changed.generation, "the Workspace is changed once")
	}
	return r
}

// interrupted repeats all phases: in the n-th run, the manager is killed at the n-th write of each phase, until no
// phase has that many. Each run must end with the state of the uninterrupted one.
func (env *environment) interrupted(uninterrupted record, moment proxy.Moment, of []string, phases ...phase) {
	env.Helper()
	killedAt := map[string][]proxy.Write{}
	for n := 1; n <= maxWrites; n++ {
		kills := 0
		for _, phase := range phases {
			if phase.skippable && n > 1+len(killedAt[phase.name]) {
				continue // It has fewer writes.
			}
			what := fmt.Sprintf("%s, killed %s write %d of %v", phase.name, moment, n, of)
			got := env.run(phase, proxy.Target{Number: n, Moment: moment, Resources: of})
			if got.killedAt != nil {
				kills++
				what += ": " + got.killedAt.String()
				killedAt[phase.name] = append(killedAt[phase.name], *got.killedAt)
			}
			require.Equal(env, uninterrupted[phase.name].state, got.state, what)
			require.Equal(env, uninterrupted[phase.name].terraform, got.terraform, what)
		}
		env.requireOneWorkspace(fmt.Sprintf("killed %s write %d", moment, n))
		if kills == 0 {
			env.requireKilledAtEachWrite(uninterrupted, killedAt, of)
			return
		}
	}
	env.Fatalf("a phase has more than %d writes", maxWrites)
}

// requireKilledAtEachWrite proves that no kind of write was left out: what is written twice in one life may be written at
// once in another.
func (env *environment) requireKilledAtEachWrite(uninterrupted record, killedAt map[string][]proxy.Write, of []string) {
	env.Helper()
	for name, outcome := range uninterrupted {
		var counted []proxy.Write
		for _, write := range outcome.writes {
			resource, _, _ := strings.Cut(write.Resource(), "/")
			if slices.Contains(of, resource) {
				counted = append(counted, write)
			}
		}
		env.Logf("%s: killed at %s", name, strings.Join(kinds(killedAt[name]...), ", "))
		require.Subset(env, kinds(killedAt[name]...), kinds(counted...), name)
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
func (env *environment) run(phase phase, target proxy.Target) outcome {
	env.Helper()
	before := env.operations()
	env.killed, env.killedAt = env.server.proxy.Arm(target), nil
	phase.begin(env)
	what := phase.name
	if target.Number > 0 {
		what = fmt.Sprintf("%s, killed %s write %d", phase.name, target.Moment, target.Number)
	}
	end := func(ctx context.Context) error { return phase.end(ctx, env) }
	env.eventually(what, end)
	ended := len(env.server.proxy.Writes())
	env.awaitSilence()
	env.eventually(what, end)
	writes := env.server.proxy.Writes()
	// A status that is sent while its object disappears changes nothing.
	late := slices.DeleteFunc(slices.Clone(writes[ended:]), func(write proxy.Write) bool { return write.Code == http.StatusNotFound })
	require.Empty(env, late, "%s: something is written after the end", what)
	terraform := env.operations()
	for operation, count := range before {
		terraform[operation] -= count
	}
	got := outcome{state: env.snapshot(), terraform: terraform, writes: writes, killedAt: env.killedAt}
	workspaces := fixture.Workspaces(env, env, env.namespace)
	require.LessOrEqual(env, len(workspaces), 1, what)
	for _, workspace := range workspaces {
		got.generation = workspace.GetGeneration()
	}
	return got
}

// operations counts the operations that Terraform was started for so far.
func (env *environment) operations() map[scripted.Operation]int {
	env.Helper()
	journal, err := env.server.terraform.Journal()
	require.NoError(env, err)
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
func (env *environment) requireOneWorkspace(when string) {
	env.Helper()
	require.Len(env, env.everSeen(), 1, "Workspaces %s", when)
}

// everSeen lists the Workspaces of the life that ends. Nothing may be left of them.
func (env *environment) everSeen() []string {
	env.Helper()
	require.Empty(env, fixture.Workspaces(env, env, env.namespace))
	env.await("all watches report that the Workspaces are gone", func(context.Context) error {
		if !env.observed.gone() {
			return fmt.Errorf("some are left")
		}
		return nil
	})
	cloud, err := env.server.terraform.Cloud()
	require.NoError(env, err)
	require.Empty(env, cloud, "cloud resources are left")
	states, err := env.server.terraform.States()
	require.NoError(env, err)
	require.Empty(env, states, "states are left")
	// No garbage collector runs here, and the provider does not write to the Secret of another Workspace.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: connectionSecret}}
	require.NoError(env, client.IgnoreNotFound(env.Delete(env.Context(), secret)))
	return env.observed.take()
}
