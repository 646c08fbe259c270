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
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestALegacyFleetIsAdoptedWithoutARun is why captctl migrate exists: clusters that the older CAPT made, with their state in
// Terraform, are adopted, run by today's manager, get a new version, and are deleted.
func TestALegacyFleetIsAdoptedWithoutARun(t *testing.T) {
	w := newWorld(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true, Provider: true})
	buildCaptctl(t.Context(), t)
	recipe, err := legacy.SandboxRecipe()
	require.NoError(t, err)
	fleet, err := w.Create(t.Context(), legacy.Live(recipe, "demo"), legacy.Names{Namespace: "fleet"})
	require.NoError(t, err)
	neighbours, err := w.Create(t.Context(), legacy.Live(legacy.PlainRecipe(), "shop"), legacy.Names{Namespace: "neighbours"})
	require.NoError(t, err)
	demo, shop := types.NamespacedName{Namespace: "fleet", Name: "demo"}, types.NamespacedName{Namespace: "neighbours", Name: "shop"}

	// The older manager is frozen, and today's definitions are installed with a manager that only converts.
	require.NoError(t, w.Upgrade(t.Context()))
	frozen, runs, workspaces, applies := time.Now(), w.runs(), w.workspaces(), w.applies()
	require.Len(t, workspaces, len(fleet.Adoptions)+len(neighbours.Adoptions))

	// An operator looks, plans, and has the plan carried out. A second time there is nothing left to write.
	dir := t.TempDir()
	plan, run := filepath.Join(dir, "plan.json"), []string{"--quiet=1ms", "--journal-dir=" + filepath.Join(dir, "journal")}
	require.Contains(t, w.captctl(migrate.Done, "inspect"), "fleet")
	w.captctl(migrate.Done, "preflight", "--quiet=1ms")
	w.captctl(migrate.Pending, "plan", "--out="+plan)
	apply := append([]string{"apply", plan, "--backup=" + filepath.Join(dir, "backup")}, run...)
	w.captctl(migrate.Done, apply...)
	written := len(w.written())
	w.captctl(migrate.Done, apply...)
	w.captctl(migrate.Done, "plan", "--scope=adopt")
	require.Len(t, w.written(), written)

	// What was promised was kept, and the operator gives v1beta1 up. Nothing in etcd speaks of it any more.
	w.captctl(migrate.Done, "verify", plan)
	w.captctl(migrate.Done, "finalize", plan, "--yes", "--quiet=1ms")
	require.Empty(t, w.older())
	require.Equal(t, []string{migrate.Version}, w.storedVersions())
	w.keptToItself()
	require.Equal(t, identities(workspaces), identities(w.workspaces()))
	require.Equal(t, applies, w.applies())

	// The manager starts to reconcile, while captctl watches, and has nothing to do. Nobody is woken for it.
	watching, chronicle := w.begin(sandbox.Captctl, "verify", plan, "--watch=30s"), w.chronicle()
	require.NoError(t, w.StartControllers(t.Context()))
	for _, key := range []types.NamespacedName{demo, shop} {
		w.awaitTrue(&infrav1.CAPTCluster{}, key, infrav1.ReadyCondition)
		w.awaitTrue(&controlplanev1.CAPTControlPlane{}, key, controlplanev1.ReadyCondition)
	}
	w.awaitTrue(&controlplanev1.CAPTControlPlane{}, demo, controlplanev1.AvailableCondition)
	w.awaitTrue(&clusterv1.Cluster{}, demo, clusterv1.AvailableCondition, clusterv1.ClusterRemoteConnectionProbeCondition)
	require.Empty(t, chronicle.alarms())
	watching.ends(migrate.Done)
	require.Empty(t, w.older(), "the manager writes in today's version")
	require.Empty(t, w.writesTo("tf.upbound.io", "workspaces", frozen))
	require.Equal(t, runs, w.runs())
	require.Equal(t, identities(workspaces), identities(w.workspaces()))
	require.Equal(t, applies, w.applies())

	// From here on they are clusters like others: a new version reaches Terraform, and the endpoint stays.
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(t, w.Admin.Get(t.Context(), demo, controlPlane))
	endpoint := controlPlane.Spec.ControlPlaneEndpoint
	upgrade := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"v`+legacy.LiveUpgrade+`.0"}}`))
	require.NoError(t, w.Admin.Patch(t.Context(), controlPlane, upgrade))
	w.await(func() string {
		require.NoError(t, w.Admin.Get(t.Context(), demo, controlPlane))
		if controlPlane.Status.Version != "v"+legacy.LiveUpgrade+".0" || controlPlane.Status.State != controlplanev1.StateReady {
			return "version " + controlPlane.Status.Version + ", state " + string(controlPlane.Status.State)
		}
		return ""
	})
	require.Equal(t, endpoint, controlPlane.Spec.ControlPlaneEndpoint)
	require.Equal(t, workspaces["demo-eks-controlplane"].GetUID(), w.workspaces()["demo-eks-controlplane"].GetUID())

	// Deleting the Cluster destroys what the older CAPT made, and nothing of the other cluster.
	require.NoError(t, w.Admin.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: demo.Namespace, Name: demo.Name}}))
	w.awaitGone(&clusterv1.Cluster{}, demo)
	left := w.workspaces()
	require.Len(t, left, 2)
	require.Contains(t, left, "shop-vpc")
	require.Contains(t, left, "shop-eks-controlplane")
}

// keptToItself is that captctl created nothing but its lock, its journal and its events, deleted nothing, and wrote nothing that
// is of Terraform.
func (w *world) keptToItself() {
	w.Helper()
	events, err := w.Writes(sandbox.CaptctlUser)
	require.NoError(w, err)
	require.NotEmpty(w, events)
	for _, event := range events {
		switch event.Verb {
		case "create":
			require.Contains(w, []string{"leases", "configmaps", "events", "selfsubjectaccessreviews"}, event.ObjectRef.Resource, event.RequestURI)
		case "update", "patch":
			require.NotContains(w, []string{"workspaces", "providerconfigs", "secrets"}, event.ObjectRef.Resource, event.RequestURI)
		default:
			require.Fail(w, "captctl deletes nothing", "%s %s", event.Verb, event.RequestURI)
		}
	}
}

// written are captctl's writes of objects that are not its own: the lock and the journal.
func (w *world) written() []string {
	w.Helper()
	events, err := w.Writes(sandbox.CaptctlUser)
	require.NoError(w, err)
	var written []string
	for _, event := range events {
		if own := event.ObjectRef.Resource == "leases" || event.ObjectRef.Resource == "configmaps"; !own && event.ObjectRef.Resource != "selfsubjectaccessreviews" {
			written = append(written, event.Verb+" "+event.ObjectRef.Resource+" "+event.ObjectRef.Name+" "+event.RequestURI)
		}
	}
	return written
}
