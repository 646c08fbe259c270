// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/captcluster"
	"github.com/capt-provider/capt/controllers/captcontrolplane"
	"github.com/capt-provider/capt/controllers/captmachinepool"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
	"github.com/capt-provider/capt/test/builder"
)

// manager has the reconcilers of the manager, with an API server in memory.
type manager struct {
	*builder.API
	captClusters, controlPlanes, pools, applies, templates reconcile.Reconciler
}

// now is the time of the tests.
var now = builder.Created.Add(24 * time.Hour)

// smallScheme has only the kinds of these tests: a fake client looks at every kind of its scheme.
var smallScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	for _, scope := range terraform.Scopes() {
		kind := scope.GroupVersionKind()
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
	}
	return scheme
})

func newManager(t *testing.T, objects []client.Object) *manager {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(terraform.ScopeNamespaced.GroupVersionKind(), meta.RESTScopeNamespace)
	mapper.Add(terraform.ScopeCluster.GroupVersionKind(), meta.RESTScopeRoot)
	clients := builder.Clients(objects...).WithScheme(smallScheme()).WithRESTMapper(mapper).
		WithStatusSubresource(&infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplateApply{}, &infrav1.CAPTCluster{}, &infrav1.CAPTMachinePool{}, &controlplanev1.CAPTControlPlane{})
	indexes, ctx := builder.Indexes{ClientBuilder: clients}, t.Context()
	require.NoError(t, index.Register(ctx, indexes))
	require.NoError(t, captcluster.RegisterIndexes(ctx, indexes))
	require.NoError(t, captcontrolplane.RegisterIndexes(ctx, indexes))
	require.NoError(t, captmachinepool.RegisterIndexes(ctx, indexes))
	clients.WithIndex(&infrav1.WorkspaceTemplateApply{}, workspacetemplate.UserIndex, func(object client.Object) []string {
		return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
	})
	m := &manager{API: builder.NewAPI(clients)}
	workspaces := &workspace.Client{Client: m.API, Uncached: m.API, Watch: func(context.Context, terraform.Scope) error { return nil }}
	gate := &adoption.Gate{Client: m.API, Uncached: m.API, Workspaces: workspaces}
	engineFor := func() engine.Engine {
		return engine.Engine{Gate: gate, Client: m.API, Recorder: &events.FakeRecorder{}, State: &engine.StateCache{}, Uncached: m.API, Secrets: engine.NewSecrets(m.API, m.API)}
	}
	m.captClusters = &captcluster.Reconciler{Reconciler: owner.Reconciler{Engine: engineFor()}}
	m.controlPlanes = &captcontrolplane.Reconciler{Reconciler: owner.Reconciler{Engine: engineFor()}, Cache: m.API, FargateMetrics: metrics.NewFargate(prometheus.NewRegistry())}
	m.pools = &captmachinepool.Reconciler{Reconciler: owner.Reconciler{Engine: engineFor()}}
	m.applies = &workspacetemplateapply.Reconciler{
		Engine: engineFor(), Clock: clocktesting.NewFakePassiveClock(now), RateLimiter: serialize.NewRateLimiter(),
		Workspaces: workspaces,
	}
	m.templates = &workspacetemplate.Reconciler{Engine: engineFor(), Clock: clocktesting.NewFakePassiveClock(now)}
	return m
}

func (m *manager) reconcile(ctx context.Context, kind string, key types.NamespacedName) error {
	reconciler := map[string]reconcile.Reconciler{
		"CAPTCluster": m.captClusters, "CAPTControlPlane": m.controlPlanes, "CAPTMachinePool": m.pools, "WorkspaceTemplateApply": m.applies, "WorkspaceTemplate": m.templates,
	}[kind]
	_, err := reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: key})
	return err
}

// workspaces returns all Workspaces by namespace/name.
func (m *manager) workspaces(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, scope := range terraform.Scopes() {
		list, kind := &unstructured.UnstructuredList{}, scope.GroupVersionKind()
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		require.NoError(t, m.List(t.Context(), list))
		for i := range list.Items {
			found[key(&list.Items[i])] = &list.Items[i]
		}
	}
	return found
}

func key(object client.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// objects returns copies of all objects.
func (m *manager) objects(t *testing.T) (all []client.Object) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachinePoolList{}, &infrav1.CAPTClusterList{}, &infrav1.CAPTMachinePoolList{}, &controlplanev1.CAPTControlPlaneList{}, &infrav1.WorkspaceTemplateList{},
		&infrav1.WorkspaceTemplateApplyList{}, &corev1.SecretList{}, &corev1.NamespaceList{}, &appsv1.ControllerRevisionList{},
	} {
		require.NoError(t, m.List(t.Context(), list))
		items, err := meta.ExtractList(list)
		require.NoError(t, err)
		for _, item := range items {
			all = append(all, item.(client.Object))
		}
	}
	for _, workspace := range m.workspaces(t) {
		all = append(all, workspace)
	}
	for _, scope := range terraform.Scopes() {
		all = append(all, builder.WorkspaceDefinition(scope))
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return slices.Compare([]string{fmt.Sprintf("%T", a), key(a)}, []string{fmt.Sprintf("%T", b), key(b)})
	})
	for _, object := range all {
		if object.GetUID() == "" { // A fake API server gives none.
			object.SetUID(types.UID(fmt.Sprintf("%T/%s", object, key(object))))
		}
		if created := object.GetCreationTimestamp(); created.IsZero() {
			object.SetCreationTimestamp(metav1.NewTime(builder.Created))
		}
		object.SetGeneration(max(object.GetGeneration(), 1))
	}
	return all
}

// step lets every controller run once, and Cluster API.
func (m *manager) step(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, object := range m.objects(t) {
		var err error
		switch object := object.(type) {
		case *infrav1.CAPTCluster:
			err = m.reconcile(ctx, "CAPTCluster", client.ObjectKeyFromObject(object))
		case *controlplanev1.CAPTControlPlane:
			err = m.reconcile(ctx, "CAPTControlPlane", client.ObjectKeyFromObject(object))
		case *infrav1.CAPTMachinePool:
			err = m.reconcile(ctx, "CAPTMachinePool", client.ObjectKeyFromObject(object))
		case *infrav1.WorkspaceTemplateApply:
			err = m.reconcile(ctx, "WorkspaceTemplateApply", client.ObjectKeyFromObject(object))
		case *infrav1.WorkspaceTemplate:
			err = m.reconcile(ctx, "WorkspaceTemplate", client.ObjectKeyFromObject(object))
		case *clusterv1.Cluster:
			captCluster := &infrav1.CAPTCluster{}
			if m.Get(ctx, types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.InfrastructureRef.Name}, captCluster) == nil && ptr.Deref(captCluster.Status.Initialization.Provisioned, false) {
				object.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
				err = m.Update(ctx, object)
			}
		}
		require.NoError(t, err)
	}
	for _, object := range m.objects(t) {
		if apply, ok := object.(*infrav1.WorkspaceTemplateApply); ok && apply.ResourceVersion != "" {
			require.NoError(t, m.Update(t.Context(), apply)) // objects has set its UID.
		}
	}
}

// change changes objects, as users do.
func (m *manager) change(t *testing.T, change func(client.Object)) {
	t.Helper()
	for _, object := range m.objects(t) {
		before := object.DeepCopyObject()
		if change(object); !reflect.DeepEqual(before, object) {
			object.SetGeneration(object.GetGeneration() + 1)
			require.NoError(t, m.Update(t.Context(), object))
		}
	}
}

// initialize lets the API servers of control planes answer for the first time.
func (m *manager) initialize(t *testing.T) {
	t.Helper()
	var list controlplanev1.CAPTControlPlaneList
	require.NoError(t, m.List(t.Context(), &list))
	for i := range list.Items {
		if c := &list.Items[i]; conditions.IsTrue(c, controlplanev1.WorkspaceReadyCondition) {
			c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			require.NoError(t, m.Status().Update(t.Context(), c))
		}
	}
}

// provide lets Terraform apply all Workspaces, and write their Secrets.
func (m *manager) provide(t *testing.T) {
	t.Helper()
	m.initialize(t)
	for _, live := range m.workspaces(t) {
		outputs := map[string]any{
			"vpc_id": "vpc-1", "vpc_config": `{"vpc_id":"vpc-1","private_subnets":["subnet-1","subnet-2"]}`, "cluster_name": live.GetName(), "cluster_endpoint": "https://x.example.com", "cluster_certificate_authority_data": "Y2E=",
		}
		shown := builder.Workspace(live.GetName(), builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
		live.Object["status"] = shown.Object["status"]
		live.SetFinalizers(shown.GetFinalizers())
		live.SetGeneration(shown.GetGeneration())
		if live.GetUID() == "" {
			live.SetUID(types.UID("uid-of-" + key(live)))
		}
		require.NoError(t, m.Update(t.Context(), live))
		name, _, _ := unstructured.NestedString(live.Object, "spec", "writeConnectionSecretToRef", "name")
		if name == "" {
			continue
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(live.GetNamespace(), builder.Namespace), Name: name}, Data: map[string][]byte{}}
		for output, value := range outputs {
			secret.Data[output] = []byte(fmt.Sprint(value))
		}
		if err := m.Create(t.Context(), secret); !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
	}
}
