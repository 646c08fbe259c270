// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// InMemory makes the fixture without an API server, and returns its objects as this version reads them. They were created at a time.
func (f Fixture) InMemory(ctx context.Context, names Names, created time.Time) (*migrate.Snapshot, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, clusterv1.AddToScheme, infrav1beta1.AddToScheme, controlplanev1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, apimeta.RESTScopeNamespace)
	}
	reporting := []client.Object{&clusterv1.Cluster{}, &infrav1beta1.CAPTCluster{}, &infrav1beta1.WorkspaceTemplate{}, &infrav1beta1.WorkspaceTemplateApply{}, &controlplanev1beta1.CAPTControlPlane{}}
	for _, scope := range terraform.Scopes() {
		kind := scope.GroupVersionKind()
		workspace := &unstructured.Unstructured{}
		workspace.SetGroupVersionKind(kind)
		reporting = append(reporting, workspace)
		scheme.AddKnownTypeWithName(kind, workspace)
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		mapper.Add(kind, map[terraform.Scope]apimeta.RESTScope{terraform.ScopeCluster: apimeta.RESTScopeRoot, terraform.ScopeNamespaced: apimeta.RESTScopeNamespace}[scope])
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "system"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(system).WithStatusSubresource(reporting...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			object.SetUID(types.UID(fmt.Sprintf("%s/%s/%s", object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())))
			object.SetCreationTimestamp(metav1.NewTime(created))
			object.SetGeneration(1)
			return c.Create(ctx, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if kind := list.GetObjectKind().GroupVersionKind(); !scheme.Recognizes(kind) { // Otherwise, the list would be empty.
				return &apimeta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	if _, err := f.Create(ctx, c, names); err != nil {
		return nil, err
	}
	return migrate.Read(ctx, c, "", created)
}
