/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package migrate_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestAMigrationThatStopsHalfWayIsTakenBack is the second story: captctl dies, somebody else takes back what it wrote, from a
// machine that has nothing of it, and later it is done all the same; then one cluster is taken back, and then the others.
func TestAMigrationThatStopsHalfWayIsTakenBack(t *testing.T) {
	// Cluster API would begin to work in the middle of it, since nobody has before. In a real fleet it has long done its part.
	w := newWorld(t, sandbox.Options{Provider: true})
	buildCaptctl(t.Context(), t)
	_, err := w.Create(t.Context(), legacy.Live(legacy.PlainRecipe(), "one", "two", "three"), legacy.Names{Namespace: "fleet"})
	require.NoError(t, err)
	require.NoError(t, w.Upgrade(t.Context()))
	frozen, runs, before := time.Now(), w.runs(), w.fleet()

	plan := w.planned()
	w.dies(plan.path)
	require.NotEqual(t, before, w.fleet(), "something was written")
	w.captctl(migrate.Done, "status", plan.ID)

	w.takesBack(migrate.Done, plan.ID)
	require.Equal(t, before, w.fleet())
	w.captctl(migrate.Failed, "resume", plan.ID, "--quiet=1ms", "--journal-dir="+t.TempDir(), "--backup="+filepath.Join(t.TempDir(), "backup"))
	require.Equal(t, before, w.fleet(), "what is being taken back is not carried on")

	// The operator has mended whatever it was, and begins anew.
	plan = w.planned()
	w.captctl(migrate.Done, "apply", plan.path, "--quiet=1ms", "--journal-dir="+t.TempDir(), "--backup="+filepath.Join(t.TempDir(), "backup"))
	w.captctl(migrate.Done, "verify", plan.path)
	adopted := w.fleet()

	older := w.olderManager()
	refused := w.takesBack(migrate.Failed, plan.ID)
	assert.Contains(t, refused.complaints.String(), "Deployment "+client.ObjectKeyFromObject(older).String())
	require.Equal(t, adopted, w.fleet(), "nothing was written")
	require.NoError(t, w.Admin.Patch(t.Context(), older, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))))

	// One control plane goes back, and nothing of the others, not even its network.
	w.takesBack(migrate.Done, plan.ID, "--object=CAPTControlPlane/fleet/two")
	partly := w.fleet()
	for name, object := range adopted {
		if name == "CAPTControlPlane fleet/two" || name == "WorkspaceTemplateApply fleet/two-eks-controlplane-apply" {
			object = before[name]
			require.NotEqual(t, adopted[name], object, name)
		}
		require.JSONEq(t, object, partly[name], name)
	}

	// Somebody has changed the third since. All goes back but that.
	three := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "three"}}
	changed := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"v`+legacy.LiveUpgrade+`.0"}}`))
	require.NoError(t, w.Admin.Patch(t.Context(), three, changed))
	kept := w.fleet()
	w.takesBack(migrate.Partly, plan.ID)
	after := w.fleet()
	for name, object := range before {
		if name == "CAPTControlPlane fleet/three" || name == "WorkspaceTemplateApply fleet/three-eks-controlplane-apply" {
			object = kept[name]
		}
		assert.JSONEq(t, object, after[name], name)
	}
	require.Len(t, after, len(before))

	require.Empty(t, w.writesTo("tf.upbound.io", "workspaces", frozen))
	require.Equal(t, runs, w.runs())
}

// planned is a plan of captctl, and where it is.
type planned struct {
	migrate.Plan
	path string
}

func (w *world) planned() planned {
	w.Helper()
	p := planned{path: filepath.Join(w.TempDir(), "plan.json")}
	w.captctl(migrate.Pending, "plan", "--out="+p.path)
	text, err := os.ReadFile(p.path)
	require.NoError(w, err)
	require.NoError(w, json.Unmarshal(text, &p.Plan))
	require.NotEmpty(w, p.ID)
	return p
}

// dies carries a plan out, one step at a time, and is killed when it has adopted the second of the control planes and networks: the
// API server has it, and captctl never hears of it.
func (w *world) dies(plan string) {
	w.Helper()
	config, err := w.ConfigOf(sandbox.Captctl)
	require.NoError(w, err)
	var running *execution
	between, err := proxy.Start(config, func() { _ = running.Process.Kill() })
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, between.Close()) })
	kubeconfig := filepath.Join(w.TempDir(), "kubeconfig")
	require.NoError(w, between.WriteKubeconfig(kubeconfig))
	adopts := func(r *http.Request) bool { // Preflight rehearses writes.
		return r.Method == http.MethodPatch && !r.URL.Query().Has("dryRun") && strings.Contains(r.URL.Path, "/captc")
	}
	fate := between.Arm(proxy.Target{Number: 2, Moment: proxy.After, Matches: adopts})
	running = w.beginWith(kubeconfig, "apply", plan, "--quiet=1ms", "--workers=1", "--journal-dir="+w.TempDir(), "--backup="+filepath.Join(w.TempDir(), "backup"))
	running.ends(killed)
	require.Equal(w, 200, (<-fate).Code)
}

// takesBack a plan, from a machine that has nothing but its ID.
func (w *world) takesBack(want migrate.Outcome, plan string, args ...string) *execution {
	w.Helper()
	return w.begin(sandbox.Captctl, append([]string{"rollback", plan, "--quiet=1ms", "--journal-dir=" + w.TempDir(), "-o=json"}, args...)...).ends(want)
}

// olderManager is a Deployment of the older CAPT that somebody has scaled up.
func (w *world) olderManager() *appsv1.Deployment {
	w.Helper()
	labels := map[string]string{"control-plane": "controller-manager"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: "capt-controller-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "ghcr.io/example/capt:v0.9.0"}}},
			},
		},
	}
	require.NoError(w, w.Admin.Create(w.Context(), deployment))
	return deployment
}

// fleet is every object that a migration could touch, by kind and name, without what every write changes.
func (w *world) fleet() map[string]string {
	w.Helper()
	fleet := map[string]string{}
	take := func(object *unstructured.Unstructured) error {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		object.SetGeneration(0)
		text, err := json.MarshalIndent(object.Object, "", " ")
		fleet[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
		return err
	}
	for _, kind := range migrate.Kinds() {
		require.NoError(w, migrate.Each(w.Context(), w.Admin, kind.GroupVersionKind, "", take))
	}
	require.NoError(w, migrate.Each(w.Context(), w.Admin, clusterv1.GroupVersion.WithKind("Cluster"), "", take))
	for _, scope := range terraform.Scopes() {
		require.NoError(w, migrate.Each(w.Context(), w.Admin, scope.GroupVersionKind(), "", take))
	}
	return fleet
}
