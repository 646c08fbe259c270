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

package crds_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/migrate/preflight"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/converter"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const (
	definitionName = "captcontrolplanetemplates.controlplane.cluster.x-k8s.io"
	// patience is how long a test waits for what the API server does on its own.
	patience = 5 * time.Minute
	tick     = 25 * time.Millisecond
)

var (
	shared *sandbox.Sandbox
	admin  client.Client
	// templates are the objects of whichever definition is installed.
	templates dynamic.NamespaceableResourceInterface
	// older and ours are the two definitions.
	older, ours *unstructured.Unstructured
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandbox:", err)
		return 1
	}
	defer func() {
		if err := shared.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
		}
	}()
	return m.Run()
}

func start(ctx context.Context) error {
	var err error
	if shared, err = sandbox.Start(ctx, sandbox.Options{Log: os.Stderr, NoCRDs: true, ClusterAPIDefinitions: true, AuditLog: true}); err != nil {
		return err
	}
	config := shared.Config()
	config.WarningHandlerWithContext = rest.NoWarnings{}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	templates = objects.Resource(schema.GroupVersionResource{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1", Resource: "captcontrolplanetemplates"})
	scheme := clientgoscheme.Scheme
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	if admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := loadDefinitions(); err != nil {
		return err
	}
	return admit(ctx)
}

// loadDefinitions reads the two definitions, and serves the conversion of ours in this process.
func loadDefinitions() error {
	server, err := converter.Serve(shared)
	if err != nil {
		return err
	}
	all, err := server.Definitions("../../../config/crd")
	if err != nil {
		return err
	}
	if ours, err = named(all); err != nil {
		return err
	}
	if all, err = manifests.Load("../../legacy/definitions.yaml"); err != nil {
		return err
	}
	older, err = named(all)
	return err
}

func named(definitions []*unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for _, definition := range definitions {
		if definition.GetName() == definitionName {
			return definition, nil
		}
	}
	return nil, fmt.Errorf("%s is not among the definitions", definitionName)
}

// admit gives the one who runs captctl the role for it, and the reader what is read.
func admit(ctx context.Context) error {
	roles, err := manifests.Load("../../../config/rbac/captctl.yaml")
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, admin, roles...); err != nil {
		return err
	}
	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	for _, right := range preflight.Rights("", preflight.Definitions) {
		if right.Verb == "get" || right.Verb == "list" {
			reader.Rules = append(reader.Rules, rbacv1.PolicyRule{APIGroups: []string{right.Group}, Resources: []string{right.Resource}, Verbs: []string{right.Verb}})
		}
	}
	if err := admin.Create(ctx, reader); err != nil {
		return err
	}
	for role, user := range map[string]string{"capt-migrate-crds": sandbox.CaptctlUser, "reader": sandbox.ReaderUser} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		if err := admin.Create(ctx, binding); err != nil {
			return err
		}
	}
	return nil
}

// optionsOf are those of somebody who runs captctl, with a folder of their own.
func optionsOf(t *testing.T, who string) crds.Options {
	t.Helper()
	config, err := shared.ConfigOf(who)
	require.NoError(t, err)
	return crds.Options{Config: config, Backup: t.TempDir(), Patience: patience}
}

// removeDefinition removes whichever definition is there.
func removeDefinition(t *testing.T) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definitionName}}
	if list, err := templates.List(t.Context(), metav1.ListOptions{}); err == nil {
		for i := range list.Items {
			release(t, &list.Items[i])
		}
	}
	require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), definition)))
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), tick, patience, true, func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(definition), definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
}

// release removes the finalizers of an object.
func release(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	_, err := templates.Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, client.IgnoreNotFound(err))
}

// install installs a definition and returns when it is served.
func install(t *testing.T, definition *unstructured.Unstructured) {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), admin, definition))
	kind, _, err := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	require.NoError(t, err)
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), tick, patience, true, func(ctx context.Context) (bool, error) {
		list, err := templates.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && list.GetKind() == kind+"List", nil
	}))
}

// fleet is a cluster with the older definition, and its objects.
type fleet struct {
	namespace string
	objects   []*unstructured.Unstructured
	owner     *unstructured.Unstructured
}

func newNamespace(t *testing.T) *corev1.Namespace {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	return namespace
}

// newFleet makes one: a plain object, one that CAPT's finalizer holds, and one with an owner that is there and another that is
// not.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	removeDefinition(t)
	install(t, older)
	namespace := newNamespace(t)
	f := &fleet{namespace: namespace.Name, owner: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
		"metadata": map[string]any{"namespace": namespace.Name, "name": "owner"},
		"spec": map[string]any{
			"infrastructure": map[string]any{"templateRef": map[string]any{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTClusterTemplate", "name": "x"}},
			"controlPlane":   map[string]any{"templateRef": map[string]any{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": crds.Kind, "name": "owned"}},
		},
	}}}
	require.NoError(t, admin.Create(t.Context(), f.owner))
	plain, held, owned := template(f.namespace, "plain"), template(f.namespace, "held"), template(f.namespace, "owned")
	held.SetFinalizers([]string{"captcontrolplanetemplate.controlplane.cluster.x-k8s.io"})
	owned.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "ClusterClass", Name: "owner", UID: f.owner.GetUID()},
		{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "ClusterClass", Name: "gone", UID: "5f0c0a4e-7d3b-4e57-a5a1-0d2c6a9b1c02"},
	})
	for _, object := range []*unstructured.Unstructured{plain, held, owned} {
		f.add(t, object)
	}
	return f
}

func (f *fleet) add(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	created, err := templates.Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{FieldManager: "older"})
	require.NoError(t, err)
	f.objects = append(f.objects, created)
}

// relabel changes an object of the fleet.
func (f *fleet) relabel(t *testing.T, name string) {
	t.Helper()
	changed, err := templates.Namespace(f.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/late":"true"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	i := slices.IndexFunc(f.objects, func(o *unstructured.Unstructured) bool { return o.GetNamespace() == f.namespace && o.GetName() == name })
	f.objects[i] = changed
}

// template is one as the older CAPT had it.
func template(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1",
		"kind":       preflight.OlderTemplateKind,
		"metadata": map[string]any{
			"namespace": namespace, "name": name,
			"labels": map[string]any{"example.com/class": "frigate"}, "annotations": map[string]any{"example.com/note": "kept"},
		},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"example.com/fleet": "1"}},
			"spec": map[string]any{
				"version": "1.30", "workspaceTemplateRef": map[string]any{"name": "bridge", "namespace": "quay"},
				"workspaceTemplateApplyName": "not-of-a-template",
				"controlPlaneConfig":         map[string]any{"region": "eu-west-3", "timeouts": map[string]any{"vpcReadyTimeout": int64(20)}},
			},
		}},
	}}
}

// requireRestored looks at every object of the fleet: it is there under the kind of today, as it was.
func (f *fleet) requireRestored(t *testing.T) {
	t.Helper()
	list, err := templates.Namespace(f.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, len(f.objects))
	for _, was := range f.objects {
		now, err := templates.Namespace(f.namespace).Get(t.Context(), was.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, crds.Kind, now.GetKind())
		require.NotEqual(t, was.GetUID(), now.GetUID())
		require.Equal(t, was.GetLabels(), now.GetLabels())
		require.Equal(t, was.GetAnnotations(), now.GetAnnotations())
		require.Equal(t, was.Object["spec"], now.Object["spec"])
		require.Empty(t, now.GetFinalizers())
		if len(was.GetOwnerReferences()) > 0 {
			owner := was.GetOwnerReferences()[0]
			owner.APIVersion = "cluster.x-k8s.io/v1beta2" // The other version is no longer served, and the other owner gone.
			require.Equal(t, []metav1.OwnerReference{owner}, now.GetOwnerReferences())
		}
	}
}

// requireUntouched looks at the definition and every object of the fleet: nobody has written any.
func (f *fleet) requireUntouched(t *testing.T) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: definitionName}, definition))
	require.Nil(t, definition.DeletionTimestamp)
	require.Equal(t, preflight.OlderTemplateKind, definition.Spec.Names.Kind)
	for _, was := range f.objects {
		now, err := templates.Namespace(f.namespace).Get(t.Context(), was.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, was.GetResourceVersion(), now.GetResourceVersion(), was.GetName())
	}
}

// writes are the requests of a user that could have changed something, as "verb resource"; a dry run could not.
func writes(t *testing.T, user string, since time.Time) []string {
	t.Helper()
	events, err := shared.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes, Since: since})
	require.NoError(t, err)
	var found []string
	for _, event := range events {
		if event.ObjectRef.Resource != "selfsubjectaccessreviews" && !dryRun(event.RequestURI) {
			found = append(found, event.Verb+" "+event.ObjectRef.Resource)
		}
	}
	return found
}
