// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

var (
	wholeDemo   = types.NamespacedName{Namespace: "default", Name: "demo"}
	wholeProd   = types.NamespacedName{Namespace: "default", Name: "prod-1"}
	wholeOld    = types.NamespacedName{Namespace: "default", Name: "in-old-vpc"}
	wholeBroken = types.NamespacedName{Namespace: "default", Name: "broken"}
	wholeApps   = types.NamespacedName{Namespace: "team-a", Name: "apps"}
)

// TestSafety06WholeFleetIsAdoptedUpgradedAndDeleted takes a fleet of the topology that CAPT v0.3.0 was measured with, helpers included,
// through all of its life: every cluster of it can be deleted.
func TestSafety06WholeFleetIsAdoptedUpgradedAndDeleted(t *testing.T) {
	w := newWorld(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true, Provider: true})
	buildCaptctl(t.Context(), t)
	_, err := w.Create(t.Context(), legacy.Reference(legacy.PlainRecipe()), legacy.ReferenceNames())
	require.NoError(t, err)
	require.NoError(t, w.Upgrade(t.Context()))
	frozen, runs, workspaces, applies := time.Now(), w.runs(), w.workspaces(), w.applies()
	require.Len(t, workspaces, 20)
	require.Len(t, applies, 25)

	// Nothing of it needs a decision: neither the broken cluster, nor the one outside the namespace default.
	dir := t.TempDir()
	plan, journal := filepath.Join(dir, "plan.json"), "--journal-dir="+filepath.Join(dir, "journal")
	w.captctl(migrate.Done, "inspect")
	w.captctl(migrate.Done, "preflight", "--quiet=1ms")
	w.captctl(migrate.Pending, "plan", "--out="+plan)
	w.captctl(migrate.Done, "apply", plan, "--quiet=1ms", journal, "--backup="+filepath.Join(dir, "backup"))
	w.captctl(migrate.Done, "verify", plan)

	require.NoError(t, w.StartControllers(t.Context()))
	for _, key := range []types.NamespacedName{wholeDemo, wholeProd, wholeOld, wholeApps} {
		w.awaitTrue(&infrav1.CAPTCluster{}, key, infrav1.ReadyCondition)
		w.awaitTrue(&controlplanev1.CAPTControlPlane{}, key, controlplanev1.ReadyCondition)
		helper := types.NamespacedName{Namespace: key.Namespace, Name: key.Name + "-kubeconfig-apply"}
		w.awaitTrue(&infrav1.WorkspaceTemplateApply{}, helper, infrav1.ReadyCondition)
	}
	w.awaitTrue(&infrav1.CAPTCluster{}, wholeBroken, infrav1.ReadyCondition)
	w.captctl(migrate.Done, "verify", plan)
	require.Empty(t, w.writesTo("tf.upbound.io", "workspaces", frozen))
	require.Equal(t, runs, w.applied(runs))
	require.Equal(t, identities(workspaces), identities(w.workspaces()))
	require.Equal(t, applies, w.applies())

	w.upgrades(wholeDemo)
	w.upgrades(wholeApps)
	w.deletesAll()

	// The VPC of prod-1 is retained, and so is the role of spot instances, which belongs to the account.
	require.Empty(t, w.applies())
	left := slices.DeleteFunc(slices.Collect(maps.Keys(w.workspaces())), func(name string) bool { return strings.HasSuffix(name, "-spot-role-check") })
	require.Equal(t, []string{"prod-1-vpc"}, left)
	require.Equal(t, workspaces["prod-1-vpc"].GetUID(), w.workspaces()["prod-1-vpc"].GetUID())
	require.Nil(t, w.workspaces()["prod-1-vpc"].GetDeletionTimestamp())
}

// applied are the counters of before, as they are now. Terraform still plans, and it still fails for the broken cluster.
func (w *world) applied(before map[string]string) map[string]string {
	w.Helper()
	now := map[string]string{}
	for series, count := range w.runs() {
		if strings.Contains(series, `"apply"`) || strings.Contains(series, `"destroy"`) {
			now[series] = count
		}
	}
	for series, count := range before {
		if _, found := now[series]; !found {
			now[series] = count
		}
	}
	return now
}

// upgrades gives a cluster another version, which reaches Terraform.
func (w *world) upgrades(key types.NamespacedName) {
	w.Helper()
	const version = "v" + legacy.LiveUpgrade + ".0"
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(w, w.Admin.Get(w.Context(), key, controlPlane))
	endpoint := controlPlane.Spec.ControlPlaneEndpoint
	require.NoError(w, w.Admin.Patch(w.Context(), controlPlane, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"`+version+`"}}`))))
	w.await(func() string {
		require.NoError(w, w.Admin.Get(w.Context(), key, controlPlane))
		if controlPlane.Status.Version != version || controlPlane.Status.State != controlplanev1.StateReady {
			return "version " + controlPlane.Status.Version + ", state " + string(controlPlane.Status.State)
		}
		return ""
	})
	require.Equal(w, endpoint, controlPlane.Spec.ControlPlaneEndpoint)
	outputs, _, err := unstructured.NestedMap(w.workspaces()[key.Name+"-eks-controlplane"].Object, "status", "atProvider", "outputs")
	require.NoError(w, err)
	require.Equal(w, legacy.LiveUpgrade, outputs["cluster_version"], "Terraform has applied it")
}

// deletesAll deletes every Cluster at once. What a user made on top of one is named, and the user's to delete.
func (w *world) deletesAll() {
	w.Helper()
	all := []types.NamespacedName{wholeDemo, wholeProd, wholeOld, wholeBroken, wholeApps}
	for _, key := range all {
		require.NoError(w, w.Admin.Delete(w.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	}
	for _, key := range all[1:] {
		w.awaitGone(&clusterv1.Cluster{}, key)
	}
	w.await(func() string {
		controlPlane := &controlplanev1.CAPTControlPlane{}
		require.NoError(w, w.Admin.Get(w.Context(), wholeDemo, controlPlane))
		deleting := meta.FindStatusCondition(controlPlane.Status.Conditions, controlplanev1.DeletingCondition)
		if deleting == nil || !strings.Contains(deleting.Message, "demo-karpenter") {
			return "the control plane does not say that it waits for demo-karpenter"
		}
		return ""
	})
	assert.Nil(w, w.workspaces()["demo-eks-controlplane"].GetDeletionTimestamp())
	for _, addon := range []string{"demo-karpenter", "demo-fargate"} {
		require.NoError(w, w.Admin.Delete(w.Context(), &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: addon}}))
	}
	w.awaitGone(&clusterv1.Cluster{}, wholeDemo)
	w.awaitGone(&infrav1.WorkspaceTemplateApply{}, types.NamespacedName{Namespace: "default", Name: "demo-fargate"})
	w.await(func() string { // A Workspace outlives its WorkspaceTemplateApply by nothing, but for the watch.
		for name, workspace := range w.workspaces() {
			if workspace.GetDeletionTimestamp() != nil {
				return name + " is still being deleted"
			}
		}
		return ""
	})
}
