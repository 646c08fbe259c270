// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package drills_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// stopAll stops components of a management cluster, and startAll starts them again.
func (s *side) stopAll(t *testing.T, components ...string) {
	t.Helper()
	for _, component := range components {
		require.NoError(t, s.StopComponent(t.Context(), component))
	}
}

func (s *side) startAll(t *testing.T, components ...string) {
	t.Helper()
	for _, component := range components {
		require.NoError(t, s.StartComponent(t.Context(), component))
	}
}

// Between a snapshot of etcd and its restore, one object was created, one deleted, and one was left alone.
func TestAnOldSnapshotOfEtcdIsRestored(t *testing.T) {
	scripts := t.TempDir()
	store, s := scripted.At(scripts), start(t, scripts)
	namespace := fixture.NewNamespace(t, s)
	template := documents(terraform.ScopeNamespaced).Template("alone", fixture.VPCModule, "vpc_name")
	fixture.Apply(t, s, fixture.Decode(t, namespace, template))
	document := func(name string) string {
		return fixture.WorkspaceTemplateApply("alone", name, "variables: {vpc_name: "+name+"}")
	}
	ready := func(name string) {
		t.Helper()
		apply := &infrav1.WorkspaceTemplateApply{}
		fixture.EventuallyObject(t, tick, s, client.ObjectKey{Namespace: namespace, Name: name}, apply, func() string {
			return fixture.ConditionMismatch(apply, infrav1.ReadyCondition, metav1.ConditionTrue, "")
		})
	}
	remove := func(name string) *infrav1.WorkspaceTemplateApply {
		t.Helper()
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		require.NoError(t, s.Delete(t.Context(), apply))
		return apply
	}
	for _, name := range []string{"kept", "deleted"} {
		fixture.Apply(t, s, fixture.Decode(t, namespace, document(name)))
		ready(name)
	}
	controllers := []string{sandbox.Manager, sandbox.Provider, sandbox.ClusterAPI, sandbox.KubeControllerManager}
	servers, data, snapshot := []string{sandbox.APIServer, sandbox.Etcd}, filepath.Join(s.Dir(), "etcd"), filepath.Join(t.TempDir(), "etcd")

	s.stopAll(t, append(controllers, servers...)...)
	require.NoError(t, os.CopyFS(snapshot, os.DirFS(data)))
	s.startAll(t, sandbox.Etcd, sandbox.APIServer, sandbox.KubeControllerManager, sandbox.ClusterAPI, sandbox.Provider, sandbox.Manager)
	fixture.Apply(t, s, fixture.Decode(t, namespace, document("created")))
	ready("created")
	gone := remove("deleted")
	fixture.EventuallyGone(t, tick, s, client.ObjectKeyFromObject(gone), gone)
	before, err := store.States()
	require.NoError(t, err)
	require.Len(t, before, 2)
	state := naming.ExternalName("", client.ObjectKey{Namespace: namespace, Name: "created"})
	require.Contains(t, before, state)

	s.stopAll(t, append(controllers, servers...)...)
	require.NoError(t, os.RemoveAll(data))
	require.NoError(t, os.CopyFS(data, os.DirFS(snapshot)))
	// The procedure of docs/disaster-recovery.md: the provider does not run before the objects are right.
	s.startAll(t, sandbox.Etcd, sandbox.APIServer, sandbox.KubeControllerManager, sandbox.ClusterAPI, sandbox.Manager)
	remove("deleted")
	fixture.Apply(t, s, fixture.Decode(t, namespace, document("created")))
	s.startAll(t, sandbox.Provider)
	for _, name := range []string{"kept", "created"} {
		ready(name)
	}
	fixture.EventuallyGone(t, tick, s, client.ObjectKeyFromObject(gone), gone)
	after, err := store.States()
	require.NoError(t, err)
	assert.Equal(t, before, after, "the same states have the same resources")
	cloud, err := store.Cloud()
	require.NoError(t, err)
	assert.Len(t, cloud, 2, "what was deleted is not created again")
}
