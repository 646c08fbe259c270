// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// timeout bounds every wait: long, since several test binaries may share two cores.
const timeout = 5 * time.Minute

// Conditions as they are shown.
const (
	success   = "True/ReconcileSuccess"
	failure   = "False/ReconcileError"
	frozen    = "False/ReconcilePaused"
	available = "True/Available"
	creating  = "False/Creating"
	deleting  = "False/Deleting"
)

// What the provider leaves in metadata.
const (
	finalizer       = "finalizer.managedresource.crossplane.io"
	externalName    = "external-name"
	createPending   = "external-create-pending"
	createSucceeded = "external-create-succeeded"
)

// subject is the Workspace under test.
type subject struct {
	*testing.T
	*unstructured.Unstructured
	*environment
	namespace string
	gates     string
	script    *scripted.Script
	// history is that of a Workspace that lives through steps.
	history *history
}

// subject is a Workspace that nothing will hold up. It is not created yet.
func (st *environment) subject(t *testing.T, group string) *subject {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	require.NoError(t, st.api.Create(t.Context(), ns))
	s := &subject{
		T: t, Unstructured: &unstructured.Unstructured{}, environment: st,
		namespace: ns.Name, gates: t.TempDir(), script: &scripted.Script{},
	}
	s.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: "Workspace"})
	s.SetName(ns.Name)
	secret := map[string]any{"name": "connection"}
	config := map[string]any{"name": sandbox.ProviderConfigName}
	if group == clusterScope {
		secret["namespace"] = ns.Name
	} else {
		s.SetNamespace(ns.Name)
		config["kind"] = "ClusterProviderConfig"
	}
	s.Object["spec"] = map[string]any{
		"providerConfigRef":          config,
		"writeConnectionSecretToRef": secret,
		"forProvider": map[string]any{
			"source": "Inline", "module": module,
			"vars":   []any{map[string]any{"key": "gates", "value": s.gates}, map[string]any{"key": "generation", "value": "1"}},
			"varmap": map[string]any{"settings": map[string]any{"zones": []any{"a", "b"}}},
		},
	}
	s.free(apply)
	s.free(destroy)
	t.Cleanup(s.retire)
	return s
}

// retire removes the Workspace from the provider: one that is held, or keeps failing, would take its time.
func (s *subject) retire() {
	s.free(apply)
	s.free(destroy)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`))
	require.NoError(s, client.IgnoreNotFound(s.api.Patch(context.Background(), s.DeepCopy(), patch)))
}

// with is the same subject in a subtest.
func (s *subject) with(t *testing.T) *subject {
	t.Helper()
	part := *s
	part.T = t
	return &part
}

func (s *subject) create() {
	s.Helper()
	require.NoError(s, s.api.Create(s.Context(), s.Unstructured))
}

func (s *subject) delete() {
	s.Helper()
	require.NoError(s, s.api.Delete(s.Context(), s.Unstructured))
}

func (s *subject) gone() bool {
	s.Helper()
	return apierrors.IsNotFound(s.api.Get(s.Context(), client.ObjectKeyFromObject(s), s.DeepCopy()))
}

func (s *subject) untilGone() {
	s.Helper()
	require.Eventually(s, s.gone, timeout, tick, "the Workspace is still there")
}

// patch changes the Workspace by a JSON merge patch.
func (s *subject) patch(format string, args ...any) {
	s.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
	require.NoError(s, s.api.Patch(s.Context(), s.Unstructured, patch))
}

// touch edits nothing that matters.
func (s *subject) touch() {
	s.Helper()
	s.patch(`{"metadata":{"annotations":{"example.com/touched":%q}}}`, time.Now().String())
}

// generation makes the module differ.
func (s *subject) generation(value string) {
	s.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/forProvider/vars/1/value","value":%q}]`, value)
	require.NoError(s, s.api.Patch(s.Context(), s.Unstructured, client.RawPatch(types.JSONPatchType, []byte(patch))))
}

// shown is what a Workspace shows.
type shown struct {
	marks         []string
	ready, synced string
	current       bool // Synced is about the present generation, as far as it reports one
	message       string
	outputs       map[string]any
	checksum      bool
	secret        string // name=value; "-" when there is no Secret
	wrong         string // what is wrong with the generations of conditions
}

func (s *subject) look() shown {
	s.Helper()
	require.NoError(s, s.api.Get(s.Context(), client.ObjectKeyFromObject(s), s.Unstructured))
	v := s.see(s.Unstructured)
	require.Empty(s, v.wrong)
	v.secret = "-"
	if secret := s.secret(); secret != nil {
		pairs := make([]string, 0, len(secret.Data))
		for _, k := range slices.Sorted(maps.Keys(secret.Data)) {
			pairs = append(pairs, k+"="+string(secret.Data[k]))
		}
		v.secret = strings.Join(pairs, " ")
	}
	return v
}

func (s *subject) secret() *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{}
	err := s.api.Get(s.Context(), types.NamespacedName{Namespace: s.namespace, Name: "connection"}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s, err)
	return secret
}

// see reads all that the object itself shows.
func (s *subject) see(o *unstructured.Unstructured) shown {
	v := shown{}
	for _, a := range []string{externalName, createPending, createSucceeded} {
		if o.GetAnnotations()["crossplane.io/"+a] != "" {
			v.marks = append(v.marks, a)
		}
	}
	v.marks = append(v.marks, o.GetFinalizers()...)
	v.outputs, _, _ = unstructured.NestedMap(o.Object, "status", "atProvider", "outputs")
	_, v.checksum, _ = unstructured.NestedString(o.Object, "status", "atProvider", "checksum")
	for _, entry := range conditions(o) {
		c := entry.(map[string]any) //nolint:forcetypeassert // the CRD says so
		state := fmt.Sprintf("%s/%s", c["status"], c["reason"])
		observed, ok := c["observedGeneration"]
		if want := !s.script.Version0 && state != available; ok != want {
			v.wrong = fmt.Sprintf("%s %s has an observedGeneration: %t, want %t", c["type"], state, ok, want)
		}
		if c["type"] == "Ready" {
			v.ready = state
			continue
		}
		v.synced = state
		v.current = s.script.Version0 || observed == o.GetGeneration()
		v.message, _ = c["message"].(string)
	}
	return v
}

func conditions(o *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return list
}

// readable is a message without the packed error.
func readable(message string) string {
	text, _, _ := strings.Cut(message, ". To see the full error")
	return text
}

// until waits for the Workspace to show something.
func (s *subject) until(what string, shows func(shown) bool) shown {
	s.Helper()
	var last shown
	if !s.eventually(func() bool {
		last = s.look()
		return shows(last)
	}) {
		s.Fatalf("the Workspace never showed %s; it shows %+v", what, last)
	}
	return last
}

func (s *subject) eventually(condition func() bool) bool {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(tick) {
		if condition() {
			return true
		}
	}
	return false
}

// untilConditions waits for the conditions to be these, about the present generation.
func (s *subject) untilConditions(ready, synced string) shown {
	s.Helper()
	return s.until(ready+" "+synced, func(v shown) bool { return v.ready == ready && v.synced == synced && v.current })
}

// untilRest waits for a generation to be applied. Conditions alone would not show it with version 0.
func (s *subject) untilRest(generation string) shown {
	s.Helper()
	return s.until("generation "+generation+" at rest", func(v shown) bool {
		return v.ready == available && v.synced == success && v.current && v.outputs["generation"] == generation
	})
}

// untilSeen waits until the provider has worked on all edits so far. It takes one Workspace after the other, so that a
// paused one, which it is done with at once, is the last of them.
func (s *subject) untilSeen() {
	s.Helper()
	probe := s.DeepCopy()
	probe.Object = map[string]any{"apiVersion": s.GetAPIVersion(), "kind": s.GetKind(), "spec": s.DeepCopy().Object["spec"]}
	probe.SetNamespace(s.GetNamespace())
	probe.SetGenerateName("probe-")
	probe.SetAnnotations(map[string]string{"crossplane.io/paused": "true"})
	require.NoError(s, s.api.Create(s.Context(), probe))
	require.Eventually(s, func() bool {
		require.NoError(s, s.api.Get(s.Context(), client.ObjectKeyFromObject(probe), probe))
		return len(conditions(probe)) > 0
	}, timeout, tick)
}
