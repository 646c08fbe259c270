// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package drills_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/migrate"
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

// snapshot takes a snapshot of etcd, and returns what restores it. Afterwards, neither CAPT nor the provider runs.
func (s *side) snapshot(t *testing.T) (restore func()) {
	t.Helper()
	all := []string{sandbox.Manager, sandbox.Provider, sandbox.ClusterAPI, sandbox.KubeControllerManager, sandbox.APIServer, sandbox.Etcd}
	data, snapshot := filepath.Join(s.Dir(), "etcd"), filepath.Join(t.TempDir(), "etcd")
	s.stopAll(t, all...)
	require.NoError(t, os.CopyFS(snapshot, os.DirFS(data)))
	slices.Reverse(all)
	s.startAll(t, all...)
	return func() {
		s.stopAll(t, sandbox.Manager, sandbox.Provider, sandbox.ClusterAPI, sandbox.KubeControllerManager, sandbox.APIServer, sandbox.Etcd)
		require.NoError(t, os.RemoveAll(data))
		require.NoError(t, os.CopyFS(data, os.DirFS(snapshot)))
		s.startAll(t, all[:4]...)
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
	restore := s.snapshot(t)
	fixture.Apply(t, s, fixture.Decode(t, namespace, document("created")))
	ready("created")
	gone := remove("deleted")
	fixture.EventuallyGone(t, tick, s, client.ObjectKeyFromObject(gone), gone)
	before, err := store.States()
	require.NoError(t, err)
	require.Len(t, before, 2)
	state := naming.ExternalName("", client.ObjectKey{Namespace: namespace, Name: "created"})
	require.Contains(t, before, state)

	restore()
	s.startAll(t, sandbox.Manager) // The procedure of docs/disaster-recovery.md: the provider does not run before the objects are right.
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

// OpenTofu has its states on a disk that survives the snapshot.
func TestStatesThatAnOldSnapshotDoesNotKnowAreListed(t *testing.T) {
	running := fixture.Start(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, Programs: []string{sandbox.Captctl}})
	api, err := client.New(running.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	s, namespace := &side{running, api}, fixture.NewNamespace(t, api)
	d := documents(terraform.ScopeNamespaced)
	config := fixture.Decode(t, "", d.ProviderConfig())
	require.NoError(t, unstructured.SetNestedField(config.Object, fmt.Sprintf("terraform {\n  backend \"local\" {\n    workspace_dir = %q\n  }\n}\n", t.TempDir()), "spec", "configuration"))
	fixture.Apply(t, s, config)
	fixture.Apply(t, s, fixture.Decode(t, namespace, d.Template("alone", fixture.VPCModule, "vpc_name")))
	create := func(name string) {
		t.Helper()
		apply := fixture.Decode(t, namespace, fixture.WorkspaceTemplateApply("alone", name, "variables: {vpc_name: "+name+"}"))
		fixture.Apply(t, s, apply)
		live := &infrav1.WorkspaceTemplateApply{}
		fixture.EventuallyObject(t, tick, s, client.ObjectKeyFromObject(apply), live, func() string {
			return fixture.ConditionMismatch(live, infrav1.ReadyCondition, metav1.ConditionTrue, "")
		})
	}
	create("kept")
	create("deleted")
	restore := s.snapshot(t)
	create("created")
	deleted := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deleted"}}
	require.NoError(t, s.Delete(t.Context(), deleted))
	fixture.EventuallyGone(t, tick, s, client.ObjectKeyFromObject(deleted), deleted)
	restore()

	list := []string{"adopt", "list", "--provider-config=ClusterProviderConfig/shared", "--terraform=" + s.Binary("tofu")}
	state := func(name string) string {
		return naming.ExternalName("", client.ObjectKey{Namespace: namespace, Name: name})
	}
	listed := s.captctl(t, migrate.Done, list...)
	assert.Contains(t, strings.Split(listed, "\n"), state("created"), "it has resources, and nothing uses it")
	assert.NotContains(t, listed, state("kept"))
	used := s.captctl(t, migrate.Done, append(list, "--used")...)
	assert.Contains(t, used, state("kept")+"  in use by Workspace "+namespace+"/kept\n")
	assert.Contains(t, used, state("deleted")+"  in use by Workspace "+namespace+"/deleted, but does not exist: Terraform would create everything")
}
