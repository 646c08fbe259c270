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

package conformance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
)

// patience bounds every wait: long, since several test binaries may share two cores.
const patience = 2 * time.Minute

var api client.WithWatch

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctx := context.Background()
		sb, err := sandbox.Start(ctx, sandbox.Options{Provider: true, KubeControllerManager: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, "starting the sandbox:", err)
			return 1
		}
		defer func() { _ = sb.Stop(ctx) }()
		if api, err = client.NewWithWatch(sb.Config(), client.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if code != 0 {
			fmt.Fprintln(os.Stderr, sb.Logs(sandbox.Provider, 50))
		}
		return code
	}())
}

// module waits in its first resource until a file says with which code to go on, anew for every generation, and in
// the destruction of its last one until a file is there.
const module = `
variable "gates" { type = string }
variable "generation" { type = string }
variable "settings" {
  type = object({ zones = list(string) })
}
resource "terraform_data" "made" {
  triggers_replace = var.generation
  provisioner "local-exec" {
    command = "touch ${var.gates}/applying-${var.generation}; until [ -e ${var.gates}/apply-${var.generation} ]; do sleep 0.05; done; exit $(cat ${var.gates}/apply-${var.generation})"
  }
}
resource "terraform_data" "last" {
  input = var.gates
  provisioner "local-exec" {
    when    = destroy
    command = "touch ${self.input}/destroying; until [ -e ${self.input}/destroy ]; do sleep 0.05; done"
  }
}
output "generation" { value = var.generation }
output "zones" { value = var.settings.zones }
output "password" {
  value     = "hidden"
  sensitive = true
}
`

// subject is the Workspace under test.
type subject struct {
	*testing.T
	*unstructured.Unstructured
	namespace string
	gates     string
}

func newSubject(t *testing.T, group string) *subject {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	require.NoError(t, api.Create(t.Context(), ns))
	s := &subject{T: t, Unstructured: &unstructured.Unstructured{}, namespace: ns.Name, gates: t.TempDir()}
	s.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: "Workspace"})
	s.SetName(ns.Name)
	secret := map[string]any{"name": "connection"}
	config := map[string]any{"name": sandbox.ProviderConfigName}
	if group == "tf.upbound.io" {
		secret["namespace"] = ns.Name
	} else {
		s.SetNamespace(ns.Name)
		config["kind"] = "ClusterProviderConfig"
	}
	// One that goes on failing would take the provider's time from the tests behind.
	t.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`))
		require.NoError(t, client.IgnoreNotFound(api.Patch(context.WithoutCancel(t.Context()), s.Unstructured, patch)))
	})
	s.Object["spec"] = map[string]any{
		"providerConfigRef":          config,
		"writeConnectionSecretToRef": secret,
		"forProvider": map[string]any{
			"source": "Inline", "module": module,
			"vars":   []any{map[string]any{"key": "gates", "value": s.gates}, map[string]any{"key": "generation", "value": "1"}},
			"varmap": map[string]any{"settings": map[string]any{"zones": []any{"a", "b"}}},
		},
	}
	return s
}

// open lets the apply of a generation, or the destroy, go on and end with an exit code.
func (s *subject) open(gate, code string) {
	s.Helper()
	part := filepath.Join(s.gates, "part")
	require.NoError(s, os.WriteFile(part, []byte(code), 0o600))
	require.NoError(s, os.Rename(part, filepath.Join(s.gates, gate)))
}

// reached waits for the module to say where it is.
func (s *subject) reached(gate string) {
	s.Helper()
	require.Eventually(s, func() bool {
		_, err := os.Stat(filepath.Join(s.gates, gate))
		return err == nil
	}, patience, 20*time.Millisecond, "never came to %s", gate)
}

// generation makes the module differ.
func (s *subject) generation(value string) {
	s.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/forProvider/vars/1/value","value":%q}]`, value)
	require.NoError(s, api.Patch(s.Context(), s.Unstructured, client.RawPatch(types.JSONPatchType, []byte(patch))))
}

// shown is what a Workspace shows.
type shown struct {
	marks         []string
	ready, synced string
	current       bool // Synced is about the present generation
	message       string
	outputs       map[string]any
	secret        string // name=value; "-" when there is no Secret
}

func (s *subject) look() shown {
	s.Helper()
	require.NoError(s, api.Get(s.Context(), client.ObjectKeyFromObject(s), s.Unstructured))
	v := conditions(s.Unstructured)
	for _, a := range []string{"external-name", "external-create-pending", "external-create-succeeded"} {
		if s.GetAnnotations()["crossplane.io/"+a] != "" {
			v.marks = append(v.marks, a)
		}
	}
	v.marks = append(v.marks, s.GetFinalizers()...)
	v.outputs, _, _ = unstructured.NestedMap(s.Object, "status", "atProvider", "outputs")
	v.secret = "-"
	secret := &corev1.Secret{}
	if err := api.Get(s.Context(), types.NamespacedName{Namespace: s.namespace, Name: "connection"}, secret); err == nil {
		pairs := make([]string, 0, len(secret.Data))
		for _, k := range slices.Sorted(maps.Keys(secret.Data)) {
			pairs = append(pairs, k+"="+string(secret.Data[k]))
		}
		v.secret = strings.Join(pairs, " ")
	}
	return v
}

func conditions(o *unstructured.Unstructured) shown {
	v := shown{}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, entry := range list {
		c := entry.(map[string]any) //nolint:forcetypeassert // the CRD says so
		state := fmt.Sprintf("%s/%s", c["status"], c["reason"])
		if c["type"] == "Ready" {
			v.ready = state
			continue
		}
		v.synced = state
		v.current = c["observedGeneration"] == o.GetGeneration()
		message, _ := c["message"].(string)
		v.message, _, _ = strings.Cut(message, ". To see the full error")
	}
	return v
}

// until waits for the conditions to be these, about the present generation.
func (s *subject) until(ready, synced string) shown {
	s.Helper()
	var last shown
	require.Eventually(s, func() bool {
		last = s.look()
		return last.ready == ready && last.synced == synced && last.current
	}, patience, 50*time.Millisecond, "the Workspace never showed %s %s", ready, synced)
	return last
}

// recordConditions watches the Workspace until it is gone; the returned function waits for that and tells every pair
// of conditions it went through.
func (s *subject) recordConditions() func() []string {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.GroupVersionKind().GroupVersion().WithKind("WorkspaceList"))
	w, err := api.Watch(s.Context(), list, &client.ListOptions{Namespace: s.GetNamespace(), Raw: &metav1.ListOptions{FieldSelector: "metadata.name=" + s.GetName()}})
	require.NoError(s, err)
	var seen []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer w.Stop()
		for event := range w.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Deleted {
				return
			}
			v := conditions(o)
			if pair := v.ready + " " + v.synced; len(seen) == 0 || seen[len(seen)-1] != pair {
				seen = append(seen, pair)
			}
		}
	}()
	return func() []string {
		select {
		case <-done:
		case <-time.After(patience):
			s.Fatal("the Workspace is still there")
		}
		return seen
	}
}

// stateSecrets are the Secrets in which OpenTofu keeps the state of the Workspace.
func (s *subject) stateSecrets() []corev1.Secret {
	s.Helper()
	list := &corev1.SecretList{}
	require.NoError(s, api.List(s.Context(), list, client.MatchingLabels{"tfstateWorkspace": s.GetName()}))
	return list.Items
}

func (s *subject) gone() bool {
	s.Helper()
	return apierrors.IsNotFound(api.Get(s.Context(), client.ObjectKeyFromObject(s), s.DeepCopy()))
}

func objectMeta(key types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}
