// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// settling is how long the manager writes nothing when it has nothing to do.
const settling = 3 * time.Second

// TestClustersDoNotNoticeAnUpgradeAndItsRollback upgrades CAPT as docs/install-reference.md describes, CRDs first, and then rolls back, again CRDs first: so each
// version runs with the CRDs of the other one. Ready clusters are not written at all, a cluster that is being created is created once, and what a user
// changes while no replica leads is done by the next leader.
func TestClustersDoNotNoticeAnUpgradeAndItsRollback(t *testing.T) {
	next, current := buildNext(t), ""
	d := newDeployment(t, current)
	ready := []*fixture.Environment{newCluster(t, terraform.ScopeNamespaced), newCluster(t, terraform.ScopeCluster)}
	changing := newCluster(t, terraform.ScopeNamespaced)
	starting := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	starting.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
	starting.User(documents(starting)...)
	starting.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	for _, env := range append(ready, changing) {
		env.AwaitState(infrav1.StateReady, "")
	}

	// A user sets the field while the replicas do not know it yet.
	serve(changing, true)
	for _, env := range append(ready, changing) {
		env.Edit(&infrav1.CAPTCluster{}, fixture.Demo, setField)
	}
	events := upgradeCluster(changing, "v1.35.0", func() { awaitVersion(changing, "v1.35.0") })
	awaitRest(append(ready, changing, starting)...)
	usual := events()
	require.NotEmpty(t, usual)
	f := begin(t, ready, starting)

	d.roll(next, func() { events = leaderless(changing, "v1.34.0") })
	d.requireVersion(nextVersion)
	awaitVersion(changing, "v1.34.0")
	f.requireUnnoticed()
	require.Equal(t, usual, events())
	require.NotEmpty(t, costCenter(captCluster(changing)))

	serve(changing, false)
	f.requireUnnoticed()
	d.roll(current, func() { events = leaderless(changing, "v1.35.0") })
	awaitVersion(changing, "v1.35.0")
	f.requireUnnoticed()
	require.Equal(t, usual, events())

	// Since nothing was written, the API server still has what its older definition does not show.
	serve(changing, true)
	for _, env := range ready {
		require.NotEmpty(t, costCenter(captCluster(env)))
	}
	f.requireUnnoticed()
	starting.SetScript(fixture.ControlPlane, scripted.Script{})
	starting.AwaitState(infrav1.StateReady, "")
	require.Len(t, starting.Operations(fixture.ControlPlane, scripted.Apply), 1)
	require.Len(t, changing.Operations(fixture.ControlPlane, scripted.Apply), 4)
}

// documents of a cluster whose module follows the version. Its endpoint does not exist, so it is not probed.
func documents(env *fixture.Environment) []string {
	module := strings.Replace(fixture.ControlPlaneModule, "${var.tags}", "${var.tags} ${var.kubernetes_version}", 1) +
		"variable \"kubernetes_version\" { type = string }\n"
	return []string{
		env.VPCTemplate(fixture.VPCModule), env.Template(fixture.ControlPlaneTemplate, module, "cluster_name", "tags", "kubernetes_version"),
		fixture.Cluster(), fixture.CAPTCluster(fixture.Demo),
		strings.Replace(fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled"), "v1.35.0", "v1.34.0", 1),
	}
}

func newCluster(t *testing.T, scope terraform.Scope) *fixture.Environment {
	t.Helper()
	env := shared.NewEnvironment(t, scope)
	env.User(documents(env)...)
	return env
}

func awaitVersion(env *fixture.Environment, version string) {
	env.Helper()
	env.Eventually(func() string {
		controlPlane := env.AwaitState(infrav1.StateReady, "")
		return fixture.Unless(controlPlane.Status.Version == version, "its version is %s", controlPlane.Status.Version)
	})
}

// upgradeCluster changes the version of a cluster, calls a function, and returns which kinds of events were sent since.
func upgradeCluster(env *fixture.Environment, version string, then func()) func() []string {
	env.Helper()
	began := time.Now()
	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, fmt.Sprintf(`{"spec":{"version":%q}}`, version))
	then()
	return func() []string {
		kinds := map[string]bool{}
		for _, event := range env.Events() {
			if event.EventTime.After(began) {
				kinds[event.Regarding.Kind+" "+event.Regarding.Name+" "+event.Reason] = true
			}
		}
		return slices.Sorted(maps.Keys(kinds))
	}
}

// leaderless changes the version of a cluster while no replica leads, and requires that nothing of it is done.
func leaderless(env *fixture.Environment, version string) func() []string {
	env.Helper()
	applied, began := env.Operations(fixture.ControlPlane, scripted.Apply), time.Now()
	return upgradeCluster(env, version, func() {
		require.Len(env, env.Operations(fixture.ControlPlane, scripted.Apply), len(applied))
		require.Empty(env, writes(env, began))
	})
}

// writes of the manager to objects of an environment, its Workspaces included.
func writes(env *fixture.Environment, since time.Time) (found []string) {
	env.Helper()
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Since: since}) {
		if strings.Contains(event.RequestURI, env.Namespace) {
			found = append(found, event.Verb+" "+event.RequestURI)
		}
	}
	return found
}

// awaitRest waits until the manager writes nothing to objects of the environments.
func awaitRest(environments ...*fixture.Environment) {
	for _, env := range environments {
		env.Eventually(func() string {
			recent := writes(env, time.Now().Add(-settling))
			return fixture.Unless(len(recent) == 0, "the manager wrote a moment ago: %v", recent)
		})
	}
}

// fleet is what an upgrade must not touch.
type fleet struct {
	*testing.T
	ready    []*fixture.Environment
	starting *fixture.Environment
	// since is when the observation began, and states and events are those of that time.
	since  time.Time
	states map[string]any
	events int
}

func begin(t *testing.T, ready []*fixture.Environment, starting *fixture.Environment) *fleet {
	t.Helper()
	f := &fleet{T: t, ready: ready, starting: starting, since: time.Now()}
	f.states, f.events = f.read(), f.countEvents()
	return f
}

func (f *fleet) countEvents() (count int) {
	f.Helper()
	for _, env := range f.ready {
		count += len(env.Events())
	}
	return count
}

// read returns what nothing may change: of the objects of Ready clusters everything, with their versions, and of the others the generations, the
// content of the Workspaces and the conditions, without their messages, which can have the time that has passed.
func (f *fleet) read() map[string]any {
	f.Helper()
	states := map[string]any{}
	for _, env := range append(f.ready, f.starting) {
		for _, kind := range []schema.GroupVersionKind{
			infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplate"),
			infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
		} {
			objects := fixture.List(env, env.Client, kind, client.InNamespace(env.Namespace))
			require.NotEmpty(f, objects)
			for i := range objects {
				state := []any{objects[i].GetUID(), objects[i].GetGeneration(), conditions(&objects[i])}
				if env != f.starting {
					state = append(state, objects[i].GetResourceVersion())
				}
				states[env.Namespace+" "+kind.Kind+" "+objects[i].GetName()] = state
			}
		}
		for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
			workspace := env.Workspace(apply)
			require.NotNil(f, workspace)
			states[env.Namespace+" Workspace of "+apply] = []any{
				workspace.GetUID(), workspace.GetGeneration(), workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers(), workspace.Object["spec"],
			}
		}
	}
	return states
}

func conditions(object *unstructured.Unstructured) (found []any) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range list {
		fields := condition.(map[string]any)
		found = append(found, []any{fields["type"], fields["status"], fields["reason"], fields["lastTransitionTime"]})
	}
	return found
}

// requireUnnoticed requires that the manager has written nothing to Ready clusters, and no Workspace of the other one.
func (f *fleet) requireUnnoticed() {
	f.Helper()
	awaitRest(append(f.ready, f.starting)...)
	require.Equal(f, f.states, f.read())
	for _, env := range f.ready {
		require.Empty(f, writes(env, f.since))
	}
	require.Empty(f, slices.DeleteFunc(writes(f.starting, f.since), func(write string) bool { return !strings.Contains(write, "/workspaces/") }))
	require.Equal(f, f.events, f.countEvents())
}
