// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	// fleet is how many clusters are Ready while others change.
	fleet = 4
	// changes is how often each thing changes.
	changes = 20
	// enough is how often a controller may look at one object that changes: once for each change, and once for what it writes
	// itself. Were the fleet woken, too, it would be a multiple of it.
	enough = 2*changes + 5
	// rest is how long the fleet is watched while nothing happens.
	rest = 30 * time.Second
)

// A Ready cluster at rest cost about 25 writes per second: spec and status of the Cluster were fought over with Cluster API.
// Here it costs none, and changes of other objects cause no reconcile. No other test may keep the controllers busy meanwhile, so this
// test runs alone. That no Cluster is ever written, in any test, is looked up when all of them are done.
func TestAFleetAtRestIsLeftAlone(t *testing.T) {
	server := shared.Exclusive(t)
	environments := make([]*fixture.Environment, fleet)
	for i := range environments {
		environments[i] = server.NewEnvironment(t, terraform.Scopes()[i%2])
		environments[i].User(environments[i].Everything()...)
	}
	for _, env := range environments {
		env.AwaitState(infrav1.StateReady, "")
		env.Eventually(func() string { // The last thing that belongs to making a Cluster.
			captCluster := &infrav1.CAPTCluster{}
			return fixture.Unless(env.Exists(captCluster, fixture.Demo) && captCluster.Status.Endpoint != "",
				"the endpoint has not reached the CAPTCluster")
		})
	}
	stranger := server.NewEnvironment(t, terraform.ScopeNamespaced)
	for _, churn := range churns {
		t.Run(churn.name, func(t *testing.T) {
			stranger := stranger.In(t)
			before := stranger.AwaitRest()
			for i := range changes {
				churn.change(stranger, environments[i%fleet].In(t), i)
			}
			woken := stranger.AwaitRest().Since(before)
			t.Logf("reconciles: %v", woken)
			for controller, count := range woken {
				require.Contains(t, churn.own, controller)
				require.LessOrEqual(t, count, float64(enough), "%s was woken", controller)
			}
		})
	}
	t.Run("Rest", func(t *testing.T) { requireRest(stranger.In(t)) })
}

// requireRest proves that CAPT neither writes nor looks at anything while nothing happens.
func requireRest(env *fixture.Environment) {
	before, since := env.AwaitRest(), time.Now()
	manager, err := env.InstalledManagerUser()
	require.NoError(env, err)
	written := func() (writes []string) {
		for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: manager, Verbs: audit.Writes, Since: since}) {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
		return writes
	}
	require.Never(env, func() bool { return len(written()) > 0 }, rest, rest/10)
	require.Empty(env, written())
	after, err := env.Activity(env.Context())
	require.NoError(env, err)
	require.Empty(env, after.Since(before))
	require.Empty(env, after.ErrorsSince(before))
}

// churn changes something over and over that is no business of the fleet.
type churn struct {
	name   string
	change func(stranger, env *fixture.Environment, i int)
	// own are the controllers that look at what changes itself.
	own []string
}

var churns = []churn{
	{name: "StatusOfClusters", change: func(_, env *fixture.Environment, i int) {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}}
		patch := client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
			`[{"op":"add","path":"/status/conditions/-","value":{"type":"Churn%d","status":"True","reason":"Any","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}}]`, i))
		require.NoError(env, env.Status().Patch(env.Context(), cluster, patch))
		env.Edit(cluster, fixture.Demo, `{"metadata":{"annotations":{"change":"`+strconv.Itoa(i)+`"}}}`)
	}},
	{name: "SecretsAndConfigMaps", change: func(_, env *fixture.Environment, i int) {
		meta := metav1.ObjectMeta{Namespace: env.Namespace, Name: "other-" + strconv.Itoa(i)}
		for _, object := range []client.Object{&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}} {
			require.NoError(env, env.Create(env.Context(), object))
			env.Edit(object, meta.Name, `{"data":{"key":"bm8="}}`)
			env.Remove(object, meta.Name)
		}
	}},
	{name: "WorkspacesOfOthers", change: func(stranger, env *fixture.Environment, i int) {
		foreignWorkspace(stranger, "demo-vpc", i)
		foreignWorkspace(env, "of-another-client", i)
	}},
	{
		name: "WorkspaceTemplateAppliesOfOthers", change: func(stranger, _ *fixture.Environment, i int) {
			stranger.User(paused(stranger, foreignApply, i))
		},
		own: []string{"workspacetemplateapply", "workspacetemplate"},
	},
	{
		name: "CAPTClustersOfOthers", change: func(stranger, _ *fixture.Environment, i int) {
			stranger.User(paused(stranger, fixture.CAPTCluster(fixture.Demo), i))
		},
		own: []string{"captcluster", "storedversions"}, // The WorkspaceTemplateApply of that name is another's: AdoptionRequired.
	},
	{
		name: "CAPTControlPlanesOfOthers",
		change: func(stranger, _ *fixture.Environment, i int) {
			stranger.User(paused(stranger, fixture.CAPTControlPlane(fixture.Demo), i))
		},
		own: []string{"captcontrolplane"},
	},
	{
		name: "TemplatesOfOthers",
		change: func(stranger, _ *fixture.Environment, i int) {
			stranger.User(stranger.VPCTemplate(fixture.VPCModule + "# " + strconv.Itoa(i)))
		},
		own: []string{"workspacetemplate", "workspacetemplateapply", "captcluster"}, // The template of a CAPTCluster.
	},
	{name: "NamespacesOfOthers", change: func(stranger, _ *fixture.Environment, i int) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: stranger.Namespace}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"change":"`+strconv.Itoa(i)+`"}}}`))
		require.NoError(stranger, stranger.Patch(stranger.Context(), namespace, patch))
	}},
}

// foreignApply has the name and the Workspace of those of the fleet, in another namespace.
var foreignApply = fixture.WorkspaceTemplateApply("vpc", "demo-vpc", "workspaceName: demo-vpc", "variables: {vpc_name: mine}")

// paused is a document of an object that CAPT leaves alone, changed once more.
func paused(env *fixture.Environment, document string, i int) string {
	env.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(env, yaml.Unmarshal([]byte(document), &object.Object))
	object.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: "", "change": strconv.Itoa(i)})
	changed, err := yaml.Marshal(object.Object)
	require.NoError(env, err)
	return string(changed)
}

// foreignWorkspace writes a Workspace that no CAPT object owns.
func foreignWorkspace(env *fixture.Environment, name string, i int) {
	env.Helper()
	env.User(fmt.Sprintf(`
apiVersion: tf.m.upbound.io/v1beta1
kind: Workspace
metadata: {name: %s, annotations: {crossplane.io/paused: "true"}}
spec:
  providerConfigRef: {kind: ClusterProviderConfig, name: none}
  forProvider: {source: Inline, module: '# %d'}
`, name, i))
}
