// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graphreader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/test/builder"
)

const controlPlaneApply = "demo-eks-controlplane-apply"

// cache is a client that refuses what a cache would not answer: Secrets with their values.
func cache(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	clients := builder.Clients(objects...)
	require.NoError(t, index.Register(t.Context(), builder.Indexes{ClientBuilder: clients}))
	return interceptor.NewClient(clients.Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, whole := object.(*corev1.Secret); whole {
				return errors.New("the values of Secrets are not cached")
			}
			return c.Get(ctx, key, object, options...)
		},
	})
}

func waiting(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.WithWorkspaceName(strings.TrimSuffix(name, "-apply"))}, options...)...)
}

func observe(t *testing.T, r Reader, change func(o *graph.Objects)) *graph.Objects {
	t.Helper()
	o := &graph.Objects{
		ControlPlane: builder.CAPTControlPlane("demo"), Cluster: builder.Cluster("demo"), CAPTCluster: builder.CAPTCluster("demo"),
		Templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{},
	}
	if change != nil {
		change(o)
	}
	require.NoError(t, r.Observe(t.Context(), o))
	return o
}

func namesOf(applies []*infrav1.WorkspaceTemplateApply) (names []string) {
	for _, apply := range applies {
		names = append(names, apply.Name)
	}
	return names
}

// managementCluster has what a control plane depends on, what depends on it, and others.
func managementCluster(t *testing.T, more ...client.Object) client.WithWatch {
	t.Helper()
	return cache(t, append(more,
		builder.WorkspaceTemplate("vpc"), builder.SecretWith("demo-kubeconfig", nil), builder.SecretWith("unrelated", nil),
		waiting("base"), waiting("writer", builder.WithConnectionSecret("account", builder.Namespace)),
		waiting("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo")), builder.WaitingForWorkspace("base", ""), builder.WaitingForSecret("account")),
		waiting(controlPlaneApply, builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.WaitingForWorkspace("demo-vpc", ""),
			builder.WithConnectionSecret("demo-eks-connection", builder.Namespace)),
		waiting("profile", builder.OwnedBy(builder.CAPTControlPlane("demo"))),
		waiting("addon", builder.WaitingForWorkspace("demo-eks-controlplane", "")), waiting("more", builder.WaitingForWorkspace("addon", "")),
		waiting("reader", builder.WaitingForSecret("demo-eks-connection")),
		waiting("neighbor", builder.WithNamespace("other"), builder.WaitingForWorkspace("demo-eks-controlplane", builder.Namespace)),
		waiting("sibling", builder.WaitingForWorkspace("demo-vpc", "")), waiting("unrelated"),
	)...)
}

func TestObserveFollowsBothDirections(t *testing.T) {
	o := observe(t, Reader{Cache: managementCluster(t)}, nil)
	assert.ElementsMatch(t, []string{"base", "writer", "demo-vpc", controlPlaneApply, "profile", "addon", "more", "reader", "neighbor"}, namesOf(o.Applies))
	assert.ElementsMatch(t, []string{"demo-kubeconfig"}, o.Secrets.UnsortedList())
	in := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: builder.Namespace, Name: name}
	}
	assert.NotNil(t, o.Templates[in("vpc")])
	missing, known := o.Templates[in("eks")]
	assert.True(t, known && missing == nil)
}

func TestObserveFindsWhatWaitsForAMissingControlPlane(t *testing.T) {
	o := observe(t, Reader{Cache: cache(t, waiting("addon", builder.WaitingForWorkspace("demo-eks-controlplane", "")))}, nil)
	assert.Equal(t, []string{"addon"}, namesOf(o.Applies))
}

func TestObserveReadsNoOtherNamespaceThanTheCacheHas(t *testing.T) {
	foreign := types.NamespacedName{Namespace: "platform", Name: "eks"}
	far := waiting("far", builder.WaitingForWorkspace("demo-eks-controlplane", ""), builder.WaitingForWorkspace("x", "other"))
	reader := Reader{Namespace: builder.Namespace, Cache: interceptor.NewClient(managementCluster(t, far), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if namespace := (&client.ListOptions{}).ApplyOptions(options).Namespace; namespace != "" && namespace != builder.Namespace {
				return errors.New("the cache has no namespace " + namespace)
			}
			return c.List(ctx, list, options...)
		},
	})}
	o := observe(t, reader, func(o *graph.Objects) { o.ControlPlane.Spec.WorkspaceTemplateRef.Namespace = foreign.Namespace })
	_, known := o.Templates[foreign]
	assert.False(t, known)
	assert.Contains(t, namesOf(o.Applies), "far")
	_, err := reader.Related(t.Context(), far)
	require.NoError(t, err)
}

func TestAClosureIsBounded(t *testing.T) {
	calls := 0
	found, err := closure(t.Context(), []*apply{waiting("0")}, func(_ context.Context, a *apply) ([]*apply, error) {
		calls++
		return []*apply{waiting(fmt.Sprint(2 * calls)), waiting(fmt.Sprint(2*calls + 1)), a}, nil
	})
	require.NoError(t, err)
	assert.Len(t, found, maxApplies)
	assert.Equal(t, maxApplies, calls)
}

func TestListsAreSorted(t *testing.T) {
	list, err := Reader{Cache: managementCluster(t)}.list(t.Context(), client.InNamespace(builder.Namespace))
	require.NoError(t, err)
	assert.IsIncreasing(t, namesOf(list))
}

func TestRelated(t *testing.T) {
	reader := Reader{Cache: managementCluster(t)}
	for name, want := range map[string][]string{
		"base":      {"base", "demo-vpc", controlPlaneApply, "sibling", "addon", "neighbor", "more", "reader"},
		"more":      {"more", "addon", controlPlaneApply, "demo-vpc", "base", "writer"},
		"unrelated": {"unrelated"},
	} {
		of := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, reader.Cache.Get(t.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, of))
		related, err := reader.Related(t.Context(), of)
		require.NoError(t, err)
		assert.ElementsMatch(t, want, namesOf(related), name)
	}
}

func TestChangedPassesWhatChangesAGraph(t *testing.T) {
	ready := waiting("a", builder.UpToDate(nil))
	for name, row := range map[string]struct {
		after client.Object
		want  bool
	}{
		"nothing":       {waiting("a", builder.UpToDate(nil)), false},
		"outputs":       {waiting("a", builder.UpToDate(map[string]string{"a": "b"})), false},
		"not ready":     {waiting("a", builder.NotUpToDate(infrav1.ProvisioningReason, "")), true},
		"another spec":  {waiting("a", builder.UpToDate(nil), builder.WithGeneration(ready.Generation+1)), true},
		"being deleted": {waiting("a", builder.UpToDate(nil), builder.Deleting()), true},
	} {
		assert.Equal(t, row.want, Changed().Update(event.UpdateEvent{ObjectOld: ready, ObjectNew: row.after}), name)
	}
	assert.True(t, Changed().Create(event.CreateEvent{Object: ready}))
	assert.True(t, Changed().Delete(event.DeleteEvent{Object: ready}))
	assert.False(t, StateChanged(&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}), "an object without conditions has no state")
}

func TestObserveReadsTheMachinePoolsOfTheCluster(t *testing.T) {
	pool := func(name, cluster string) *infrav1.CAPTMachinePool {
		return &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	}
	o := observe(t, Reader{Cache: managementCluster(t, pool("b", "demo"), pool("a", "demo"), pool("c", "other"))}, nil)
	require.Len(t, o.Pools, 2)
	assert.Equal(t, "a", o.Pools[0].Name)
	assert.Equal(t, "b", o.Pools[1].Name)
}
