// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1beta1 "github.com/capt-provider/capt/test/provider/api/cluster/v1beta1"
	"github.com/capt-provider/capt/test/provider/api/managed"
	namespacedv1beta1 "github.com/capt-provider/capt/test/provider/api/namespaced/v1beta1"
	"github.com/capt-provider/capt/test/sandbox"
)

// testClient talks to an API server that serves the Workspace CRDs and runs no controller.
var testClient client.Client

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctx := context.Background()
		sb, err := sandbox.Start(ctx, sandbox.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "starting an API server:", err)
			return 1
		}
		defer func() { _ = sb.Stop(ctx) }()
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{
			clientgoscheme.AddToScheme, clusterv1beta1.AddToScheme, namespacedv1beta1.AddToScheme,
		} {
			if err := add(scheme); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		if testClient, err = client.New(sb.Config(), client.Options{Scheme: scheme}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// stage is one Workspace with its ProviderConfig, a world, and a reconciler that is called by hand: between two calls
// nothing moves.
type stage struct {
	*testing.T
	*world
	reconciler *reconciler
	key        types.NamespacedName
	namespace  string
	uid        types.UID
}

// inBothScopes runs a test for either kind of Workspace.
func inBothScopes(t *testing.T, test func(s *stage)) {
	t.Helper()
	for _, scope := range []Scope{ScopeCluster, ScopeNamespaced} {
		t.Run(string(scope), func(t *testing.T) { test(newStage(t, scope)) })
	}
}

func newStage(t *testing.T, name Scope) *stage {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "provider-"}}
	require.NoError(t, testClient.Create(t.Context(), ns))

	s := &stage{T: t, world: newWorld(), namespace: ns.Name, key: types.NamespacedName{Name: ns.Name + "-ws"}}
	scope, err := newScope(name)
	require.NoError(t, err)
	var config client.Object = &clusterv1beta1.ProviderConfig{}
	if name == ScopeNamespaced {
		config, s.key.Namespace = &namespacedv1beta1.ProviderConfig{}, ns.Name
	}
	config.SetName(ns.Name)
	config.SetNamespace(s.key.Namespace)
	require.NoError(t, testClient.Create(t.Context(), config))

	options := Options{Executors: s.world}
	require.NoError(t, options.complete())
	s.reconciler = &reconciler{
		client: testClient, reader: testClient, scope: scope, options: options,
		backoff: newBackoff(),
	}
	return s
}

// create creates the Workspace. Edits see the spec that both kinds share as far as they do.
func (s *stage) create(edits ...func(client.Object)) {
	s.Helper()
	module := managed.Module{Source: managed.ModuleSourceInline, Module: "v1"}
	var w client.Object
	if s.key.Namespace == "" {
		w = &clusterv1beta1.Workspace{Spec: clusterv1beta1.WorkspaceSpec{
			ProviderConfigReference:          &managed.Reference{Name: s.namespace},
			WriteConnectionSecretToReference: &managed.SecretReference{Namespace: s.namespace, Name: "connection"},
			ForProvider:                      clusterv1beta1.WorkspaceParameters{Module: module},
		}}
	} else {
		w = &namespacedv1beta1.Workspace{Spec: namespacedv1beta1.WorkspaceSpec{
			ProviderConfigReference:          &managed.ProviderConfigReference{Kind: kindProviderConfig, Name: s.namespace},
			WriteConnectionSecretToReference: &managed.LocalSecretReference{Name: "connection"},
			ForProvider:                      namespacedv1beta1.WorkspaceParameters{Module: module},
		}}
	}
	w.SetName(s.key.Name)
	w.SetNamespace(s.key.Namespace)
	for _, edit := range edits {
		edit(w)
	}
	require.NoError(s, testClient.Create(s.Context(), w))
	s.uid = w.GetUID()
}

func (s *stage) edit(edits ...func(client.Object)) {
	s.Helper()
	w := s.get()
	for _, edit := range edits {
		edit(w)
	}
	require.NoError(s, testClient.Update(s.Context(), w))
}

func (s *stage) get() client.Object {
	s.Helper()
	w := s.reconciler.scope.newObject()
	require.NoError(s, testClient.Get(s.Context(), s.key, w))
	return w
}

func (s *stage) delete() {
	s.Helper()
	require.NoError(s, testClient.Delete(s.Context(), s.get()))
}

func (s *stage) gone() bool {
	s.Helper()
	return apierrors.IsNotFound(testClient.Get(s.Context(), s.key, s.reconciler.scope.newObject()))
}

func (s *stage) reconcile() reconcile.Result {
	s.Helper()
	result, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: s.key})
	require.NoError(s, err)
	return result
}

// row is one row of what a Workspace can show.
type row struct {
	marks         string // what metadata tells: external-name, finalizer, pending, succeeded, failed
	ready, synced string // status/reason, empty when absent
	message       string // of Synced, up to the packed error
	outputs       string // name=JSON, sorted
	secret        string // name=value, sorted; "-" when there is no Secret
}

func (s *stage) row() row {
	s.Helper()
	w := s.reconciler.scope.wrap(s.get())
	r := row{secret: "-"}
	var marks []string
	if w.object().GetAnnotations()[annotationExternalName] == s.key.Name {
		marks = append(marks, "external-name")
	}
	if controllerutil.ContainsFinalizer(w.object(), finalizerName) {
		marks = append(marks, "finalizer")
	}
	for _, a := range []string{annotationCreatePending, annotationCreateSucceeded, annotationCreateFailed} {
		if w.object().GetAnnotations()[a] != "" {
			marks = append(marks, strings.TrimPrefix(a, "crossplane.io/external-create-"))
		}
	}
	r.marks = strings.Join(marks, " ")
	if c := w.status().Condition(managed.TypeReady); c != nil {
		r.ready = fmt.Sprintf("%s/%s", c.Status, c.Reason)
		require.Equal(s, c.Status == corev1.ConditionTrue || s.reconciler.options.EmulateV0, c.ObservedGeneration == 0, "Ready=True has no generation")
	}
	if c := w.status().Condition(managed.TypeSynced); c != nil {
		r.synced = fmt.Sprintf("%s/%s", c.Status, c.Reason)
		r.message, _, _ = strings.Cut(c.Message, " To see the full error")
		if s.reconciler.options.EmulateV0 {
			require.Zero(s, c.ObservedGeneration)
		} else {
			require.NotZero(s, c.ObservedGeneration)
		}
	}
	r.outputs = joined(w.status().AtProvider.Outputs, func(k string) string { return string(w.status().AtProvider.Outputs[k].Raw) })
	secret := &corev1.Secret{}
	if err := testClient.Get(s.Context(), types.NamespacedName{Namespace: s.namespace, Name: "connection"}, secret); err == nil {
		r.secret = joined(secret.Data, func(k string) string { return string(secret.Data[k]) })
	}
	return r
}
