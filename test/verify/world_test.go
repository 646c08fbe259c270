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

// Package verify_test breaks every promise of a migration on a real API server, and looks at what "captctl migrate verify" says.
package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/sandbox"
)

const patience = 5 * time.Minute

var (
	shared *sandbox.Sandbox
	admin  client.WithWatch
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if shared, err = sandbox.Start(ctx, sandbox.Options{Log: os.Stderr, AuditLog: true, ClusterAPIDefinitions: true}); err == nil {
		defer func() { _ = shared.Stop(context.Background()) }()
		admin, err = connect(shared.Config())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the API server:", err)
		return 1
	}
	return m.Run()
}

func connect(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.QPS = -1
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// migrated is a cluster after its migration: a CAPTCluster that refers to its WorkspaceTemplateApply, which names its Workspace,
// and the plan by which that was written. The template is in a namespace of its own, and permits that.
type migrated struct {
	namespace                         string
	template, owner, apply, workspace *unstructured.Unstructured
	plan                              *migrate.Plan
}

func decode(format string, args ...any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, format, args...), &object.Object); err != nil {
		panic(err)
	}
	return object
}

func create(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), object))
	return object
}

// workspaceOf makes a Workspace of some cluster.
func workspaceOf(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	return create(t, someWorkspace(name))
}

func someWorkspace(name string) *unstructured.Unstructured {
	return decode(`{apiVersion: tf.upbound.io/v1beta1, kind: Workspace, metadata: {name: %s, labels: {a: b}},
  spec: {forProvider: {source: Inline, module: "", vars: [{key: a, value: b}]}}}`, name)
}

func newMigrated(t *testing.T) *migrated {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	templates := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name + "-templates"}}
	require.NoError(t, admin.Create(t.Context(), templates))
	m := &migrated{namespace: namespace.Name}
	t.Cleanup(func() { // The next test looks at the whole cluster, too.
		for _, object := range []string{"CAPTCluster", "WorkspaceTemplateApply"} {
			all := decode(`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: %s}`, object)
			require.NoError(t, admin.DeleteAllOf(context.Background(), all, inNamespace(m.namespace)))
		}
	})
	m.template = create(t, decode(`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: WorkspaceTemplate, metadata: {name: vpc, namespace: %s},
  spec: {workspaceScope: Cluster, allowedNamespaces: {names: [%s]}, template: {spec: {forProvider: {source: Inline, module: "", vars: [{key: a, value: b}]}}}}}`, templates.Name, m.namespace))
	m.owner = create(t, decode(`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTCluster, metadata: {name: demo, namespace: %s},
  spec: {region: eu-west-1, vpc: {template: {ref: {name: vpc, namespace: %s}}}}}`, m.namespace, templates.Name))
	m.apply = create(t, m.another("demo-vpc", ""))
	m.workspace = workspaceOf(t, m.namespace+"-demo-vpc")
	m.makePlan(t)
	return m
}

// another is a WorkspaceTemplateApply of the owner.
func (m *migrated) another(name, workspace string) *unstructured.Unstructured {
	object := decode(`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: WorkspaceTemplateApply, metadata: {name: %s, namespace: %s},
  spec: {templateRef: {name: vpc, namespace: %s}}}`, name, m.namespace, m.template.GetNamespace())
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(m.owner, m.owner.GroupVersionKind())})
	if workspace != "" {
		_ = unstructured.SetNestedField(object.Object, workspace, "spec", "workspaceName")
	}
	return object
}

func refOf(object *unstructured.Unstructured) migrate.ObjectRef {
	kind := object.GroupVersionKind()
	return migrate.ObjectRef{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}

func (m *migrated) makePlan(t *testing.T) {
	t.Helper()
	system := &corev1.Namespace{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	hash, err := migrate.WorkspaceHash(m.workspace)
	require.NoError(t, err)
	apply, workspace := refOf(m.apply), refOf(m.workspace)
	m.plan = &migrate.Plan{
		ClusterUID: system.UID, Scope: migrate.ScopeAll,
		Units: []migrate.Unit{{
			Owner: refOf(m.owner), WorkspaceTemplateApply: &apply, Workspace: &workspace,
			Steps: []migrate.Step{
				m.step(t, m.apply, "/spec/workspaceName", m.workspace.GetName()),
				m.step(t, m.owner, "/spec/workspaceTemplateApplyRef", map[string]any{"name": m.apply.GetName()}),
			},
		}},
		Storage: []migrate.StorageItem{{ObjectRef: refOf(m.owner)}, {ObjectRef: apply}},
		Baseline: migrate.Baseline{
			Workspaces:               []migrate.BaselineItem{{ObjectRef: workspace, Generation: m.workspace.GetGeneration(), Hash: hash}},
			WorkspaceTemplateApplies: []migrate.ObjectRef{apply},
		},
	}
	require.NoError(t, m.plan.Seal())
}

func (m *migrated) step(t *testing.T, object *unstructured.Unstructured, path string, content any) migrate.Step {
	t.Helper()
	data, err := json.Marshal(content)
	require.NoError(t, err)
	patch := []migrate.Operation{{Op: "add", Path: path, Value: data}}
	after, err := migrate.Patched(object, patch)
	require.NoError(t, err)
	hash, err := migrate.ContentHash(after)
	require.NoError(t, err)
	return migrate.Step{Object: refOf(object), Why: "a test", Patch: patch, Precondition: migrate.Precondition{UID: object.GetUID(), After: hash}}
}

// adopt does what the plan says.
func (m *migrated) adopt(t *testing.T) {
	t.Helper()
	for i, object := range []*unstructured.Unstructured{m.apply, m.owner} {
		data, err := json.Marshal(m.plan.Units[0].Steps[i].Patch)
		require.NoError(t, err)
		require.NoError(t, admin.Patch(t.Context(), object, client.RawPatch(types.JSONPatchType, data)))
	}
	status := fmt.Sprintf(`{"status":{"workspaceName":%[1]q,"workspaceRef":{"apiVersion":"tf.upbound.io/v1beta1","kind":"Workspace","name":%[1]q,"uid":%[2]q}}}`,
		m.workspace.GetName(), m.workspace.GetUID())
	require.NoError(t, admin.Status().Patch(t.Context(), m.apply.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(status))))
}

func merge(t *testing.T, object *unstructured.Unstructured, patch string) {
	t.Helper()
	require.NoError(t, admin.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))))
}
