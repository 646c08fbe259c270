// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package stress_test changes many clusters at once, and one cluster against many foreign writes, while the manager has one processor and
// little memory. make test-slow runs it.
package stress_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/metrics"
)

const (
	// clusters is how many clusters are changed at once.
	clusters = 50
	// memoryLimit is the limit of config/manager, in bytes. GOMEMLIMIT is a fifth of it.
	memoryLimit = 1 << 30
	// newVersion is the version after the upgrade.
	newVersion = "v1.36.0"
)

// shared is the control plane of all tests of the package. No other package uses it.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared, fixture.Own)) }

// limitManager restarts the manager with one processor and little memory, and returns its start time.
func limitManager(t *testing.T) (started float64) {
	t.Helper()
	require.NoError(t, shared.StopComponent(t.Context(), sandbox.Manager))
	t.Setenv("GOMAXPROCS", "1")
	t.Setenv("GOMEMLIMIT", strconv.Itoa(memoryLimit/5))
	require.NoError(t, shared.StartComponent(t.Context(), sandbox.Manager))
	return scrape(t).Sum("process_start_time_seconds")
}

// requireManagerWithinLimits requires that the manager did not restart, and has not exceeded its memory limit.
func requireManagerWithinLimits(t *testing.T, started float64) {
	t.Helper()
	scraped := scrape(t)
	require.InDelta(t, started, scraped.Sum("process_start_time_seconds"), 0.001, "the manager was restarted")
	require.Less(t, scraped.Sum("process_resident_memory_bytes"), float64(memoryLimit))
}

func scrape(t *testing.T) metrics.Families {
	t.Helper()
	scraped, err := metrics.Read(t.Context(), shared.MetricsURL(sandbox.Manager))
	require.NoError(t, err)
	return scraped
}

// environment has clusters with one Fargate profile each.
type environment struct {
	*fixture.Environment
}

// controlPlaneTemplate has a comment that edits change.
func (env *environment) controlPlaneTemplate(comment string) string {
	module := fixture.FargateControlPlaneModule + "variable \"kubernetes_version\" { type = string }\n# " + comment + "\n"
	return env.Template(fixture.ControlPlaneTemplate, module, "cluster_name", "tags", "kubernetes_version")
}

func (env *environment) create(name string) {
	env.Helper()
	env.User(fixture.ClusterNamed(name), fixture.CAPTCluster(name), fixture.CAPTControlPlane(name, fixture.FargateProfiles("jobs")))
}

func newEnvironment(t *testing.T) *environment {
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	env.User(append(env.FargateTemplates(), env.controlPlaneTemplate("edit 0"))...)
	return env
}

// awaitReady waits until the control planes are Ready as their specs are now.
func (env *environment) awaitReady(names []string) {
	env.Helper()
	env.Eventually(func() string {
		ready := map[string]string{}
		for _, object := range fixture.List(env, env.Client, controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), client.InNamespace(env.Namespace)) {
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			state, _, _ := unstructured.NestedString(object.Object, "status", "state")
			ready[object.GetName()] = fmt.Sprintf("%s is %s, observed: %t", object.GetName(), state, observed == object.GetGeneration())
		}
		for _, name := range names {
			if ready[name] != name+" is Ready, observed: true" {
				return ready[name]
			}
		}
		return ""
	})
}

// awaitWorkspaces waits until the Workspaces of a WorkspaceTemplateApply of each cluster contain all texts.
func (env *environment) awaitWorkspaces(names []string, apply func(cluster string) string, texts ...string) {
	env.Helper()
	env.Eventually(func() string {
		for _, name := range names {
			workspace := env.Workspace(apply(name))
			if workspace == nil {
				return apply(name) + " has no Workspace"
			}
			for _, text := range texts {
				if spec := fmt.Sprint(workspace.Object["spec"]); !strings.Contains(spec, text) {
					return fmt.Sprintf("the Workspace of %s has no %q", apply(name), text)
				}
			}
		}
		return ""
	})
}

// operations are what users do to a cluster.
func (env *environment) operations(name string, deleted bool) []func() error {
	patch := func(body string) func() error {
		return func() error {
			controlPlane := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
			return env.Patch(env.Context(), controlPlane, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("user"))
		}
	}
	operations := []func() error{
		patch(`{"spec":{"version":"` + newVersion + `"}}`),
		patch(`{"spec":{"fargateProfiles":[{"name":"jobs","selectors":[{"namespace":"batch"}],"workspaceTemplateRef":{"name":"fargate"}}]}}`),
		patch(`{"metadata":{"annotations":{"` + naming.RetryAnnotation + `":"now"}}}`),
	}
	if deleted {
		operations = append(operations, func() error {
			return env.Delete(env.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}})
		})
	}
	return operations
}

// Upgrades, edits of Fargate profiles, retries, edits of the template and deletions over 50 clusters, all at once and in random order: each
// cluster ends as its spec says, nothing but the deleted clusters is destroyed, and then nothing is written any more.
func TestConcurrentOperationsOnManyClusters(t *testing.T) {
	started := limitManager(t)
	env := newEnvironment(t)
	var kept, deleted []string
	for i := range clusters {
		name := fmt.Sprintf("c%02d", i)
		if env.create(name); i%5 == 0 {
			deleted = append(deleted, name)
		} else {
			kept = append(kept, name)
		}
	}
	env.awaitReady(append(append([]string{}, kept...), deleted...))

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var operations []func() error
	for _, name := range kept {
		operations = append(operations, env.operations(name, false)...)
	}
	for _, name := range deleted {
		operations = append(operations, env.operations(name, true)...)
	}
	random.Shuffle(len(operations), func(i, j int) { operations[i], operations[j] = operations[j], operations[i] })
	var group errgroup.Group
	group.SetLimit(20)
	const edits = 10
	for i, operation := range operations {
		if i%(len(operations)/edits) == 0 {
			env.User(env.controlPlaneTemplate(fmt.Sprintf("edit %d", i)))
		}
		group.Go(func() error { return client.IgnoreNotFound(operation()) }) // A cluster can be deleted before.
	}
	require.NoError(t, group.Wait())
	env.User(env.controlPlaneTemplate("last edit"))

	env.awaitWorkspaces(kept, naming.ControlPlaneWorkspaceTemplateApply, "value:1.36", "last edit")
	env.awaitWorkspaces(kept, func(cluster string) string { return naming.FargateWorkspaceTemplateApply(cluster, "jobs") }, "batch")
	env.awaitReady(kept)
	for _, name := range deleted {
		env.AwaitGone(&clusterv1.Cluster{}, name)
	}
	for _, resource := range env.Cloud() {
		for _, name := range deleted {
			assert.NotContains(t, resource.ExternalName, name+"-", "a deleted cluster has left something")
		}
	}
	for _, name := range kept {
		for _, apply := range []string{naming.VPCWorkspaceTemplateApply(name), naming.ControlPlaneWorkspaceTemplateApply(name), naming.FargateWorkspaceTemplateApply(name, "jobs")} {
			assert.Empty(t, env.Operations(apply, scripted.Destroy), "%s was destroyed", apply)
		}
	}
	env.AwaitRest()
	since := time.Now()
	require.Never(t, func() bool { return len(env.writes(since)) > 0 }, 10*time.Second, time.Second, "CAPT writes at rest")
	requireManagerWithinLimits(t, started)
}

// writes are those of CAPT's manager since a time, except its Lease.
func (env *environment) writes(since time.Time) (writes []string) {
	events, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Since: since})
	require.NoError(env, err)
	for i := range events {
		if events[i].ObjectRef.Resource != "leases" {
			writes = append(writes, events[i].Verb+" "+events[i].RequestURI)
		}
	}
	return writes
}

// stormCondition is a condition of another controller.
const stormCondition = "example.com/Storm"

// storm writes an annotation, or a condition of another controller.
func (env *environment) storm(name string, i int) {
	env.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	object.SetNamespace(env.Namespace)
	object.SetName(name)
	if i%2 == 0 {
		env.Edit(object, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, stormCondition, i))
		return
	}
	condition := map[string]any{
		"type": stormCondition, "status": "True", "reason": fmt.Sprintf("Gust%d", i), "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}
	require.NoError(env, unstructured.SetNestedSlice(object.Object, []any{condition}, "status", "conditions"))
	require.NoError(env, env.Status().Apply(env.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("storm"), client.ForceOwnership))
}

// Others write an object and its status for a minute, at 20 requests per second, and it is upgraded meanwhile: nothing of anyone is lost, and CAPT
// does not answer each of their writes with its own.
func TestAConflictStormLosesNothing(t *testing.T) {
	const perSecond, total = 20, 20 * 60
	started := limitManager(t)
	env := newEnvironment(t)
	const name = "stormy"
	env.create(name)
	env.awaitReady([]string{name})
	env.AwaitRest()

	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	began := time.Now()
	for i := range total {
		if <-ticker.C; i == total/4 {
			require.NoError(t, env.operations(name, false)[0]())
		}
		env.storm(name, i)
	}
	t.Logf("%d foreign writes in %s", total, time.Since(began).Round(time.Second))
	env.awaitWorkspaces([]string{name}, naming.ControlPlaneWorkspaceTemplateApply, "value:1.36")
	env.awaitReady([]string{name})
	env.AwaitRest()

	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.True(t, env.Exists(controlPlane, name))
	assert.Equal(t, newVersion, controlPlane.Spec.Version)
	assert.Equal(t, strconv.Itoa(total-2), controlPlane.Annotations[stormCondition])
	if condition := meta.FindStatusCondition(controlPlane.Status.Conditions, stormCondition); assert.NotNil(t, condition) {
		assert.Equal(t, fmt.Sprintf("Gust%d", total-1), condition.Reason)
	}
	assert.True(t, meta.IsStatusConditionTrue(controlPlane.Status.Conditions, controlplanev1.ReadyCondition))
	writes := env.writes(began)
	assert.Less(t, len(writes), 40, "CAPT answers foreign writes with its own: %v", writes)
	requireManagerWithinLimits(t, started)
}
