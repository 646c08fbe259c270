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

package storage_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/converter"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/state"
)

const (
	root = "../.."
	// patience is how long a test waits for what the API server does on its own, such as serving a new version.
	patience = 5 * time.Minute
	tick     = 25 * time.Millisecond
)

// shared is an API server to which a legacy fleet was written, in v1beta1 and under the definitions of the older CAPT, before
// CAPT's own definitions were installed. Each test has its namespaces there, which it names before.
var shared *world

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if shared, err = newWorld(ctx); err == nil {
		defer shared.stop()
		err = shared.writeHistory(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Making the legacy fleet:", err)
		return 1
	}
	return m.Run()
}

// world is an API server and a server that converts for it. There is no manager: nobody but the test writes.
type world struct {
	sandbox   *sandbox.Sandbox
	converter *converter.Server
	client    client.WithWatch
}

func newWorld(ctx context.Context) (*world, error) {
	s, err := sandbox.Start(ctx, sandbox.Options{Log: os.Stderr, NoCRDs: true, AuditLog: true})
	if err != nil {
		return nil, err
	}
	w := &world{sandbox: s}
	if w.converter, err = converter.Serve(s); err != nil {
		return nil, err
	}
	w.client, err = w.connect()
	return w, err
}

func startWorld(t *testing.T) *world {
	t.Helper()
	w, err := newWorld(t.Context())
	require.NoError(t, err)
	t.Cleanup(w.stop)
	return w
}

// connect makes a client, which learns what kinds there are when it is first used.
func (w *world) connect() (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config := w.sandbox.Config()
	config.WarningHandler, config.QPS, config.Burst = rest.NoWarnings{}, -1, 0
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

func (w *world) stop() {
	_ = w.converter.Close()
	if err := w.sandbox.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
	}
}

// installOlder installs the definitions of the older CAPT.
func (w *world) installOlder(ctx context.Context) error {
	definitions, err := legacy.Definitions()
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, w.client, definitions...); err != nil {
		return err
	}
	return manifests.WaitEstablished(ctx, w.client, definitions)
}

// upgrade installs CAPT's own definitions in place of the older ones.
func (w *world) upgrade(ctx context.Context) error {
	older := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "captcontrolplanetemplates.controlplane.cluster.x-k8s.io"}}
	if err := w.client.Delete(ctx, older); client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(older), older)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}); err != nil {
		return err
	}
	definitions, err := w.converter.Definitions(filepath.Join(root, "config", "crd"))
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, w.client, definitions...); err != nil {
		return err
	}
	if w.client, err = w.connect(); err != nil {
		return err
	}
	for _, kind := range migrate.Kinds() {
		for _, version := range []string{migrate.LegacyVersion, migrate.Version} {
			if err := w.awaitServed(ctx, kind, version); err != nil {
				return fmt.Errorf("%s of %s: %w", version, kind.Kind, err)
			}
		}
	}
	return nil
}

func (w *world) awaitServed(ctx context.Context, kind migrate.Kind, version string) error {
	if kind.Kind == "CAPTClusterTemplate" && version == migrate.LegacyVersion {
		return nil
	}
	return wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupKind().WithVersion(version).GroupVersion().WithKind(kind.Kind + "List"))
		err := w.client.List(ctx, list, client.Limit(1))
		return err == nil && list.GetAPIVersion() == kind.Group+"/"+version, nil
	})
}

func (w *world) makeNamespace(ctx context.Context, name string) error {
	return w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// decode reads one document of YAML.
func decode(document string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), object); err != nil {
		panic(err)
	}
	return object
}

// item of an object, in today's version.
func item(object *unstructured.Unstructured) migrate.StorageItem {
	kind := object.GroupVersionKind()
	return migrate.StorageItem{
		ObjectRef: migrate.ObjectRef{
			Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		},
		OwnerReferences: object.GetOwnerReferences(),
	}
}

// all objects of CAPT in a namespace, in a version.
func (w *world) all(t *testing.T, namespace, version string) (found []unstructured.Unstructured) {
	t.Helper()
	for _, kind := range migrate.Kinds() {
		if kind.Kind == "CAPTClusterTemplate" {
			continue // It never had another version.
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind + "List"})
		require.NoError(t, w.client.List(t.Context(), list, client.InNamespace(namespace)))
		found = append(found, list.Items...)
	}
	return found
}

// read reads an object again, in a version.
func (w *world) read(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(object.GroupVersionKind().GroupKind().WithVersion(version))
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(object), now))
	return now
}

// value is what etcd holds of an object.
type value struct {
	apiVersion string
	// revision is the one at which it was written.
	revision string
}

// stored is what etcd holds of the objects of a group, by key, below a part of the path: that of a kind and a namespace, or
// empty for all.
func (w *world) stored(t *testing.T, group, below string) map[string]value {
	t.Helper()
	running, err := state.Load(w.sandbox.Dir())
	require.NoError(t, err)
	prefix := "/registry/" + group + "/" + below
	encode := func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	query, err := json.Marshal(map[string]string{"key": encode(prefix), "range_end": encode(end)})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, running.EtcdEndpoint+"/v3/kv/range", bytes.NewReader(query))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var found struct {
		KVs []struct {
			Key, Value []byte
			Revision   string `json:"mod_revision"`
		}
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&found))
	values := map[string]value{}
	for _, kv := range found.KVs {
		content := &unstructured.Unstructured{}
		require.NoError(t, content.UnmarshalJSON(kv.Value))
		values[string(kv.Key)] = value{content.GetAPIVersion(), kv.Revision}
	}
	return values
}

// sets are the field sets of an object's managers, by "manager operation subresource". Each must be of today's version.
func sets(t *testing.T, object *unstructured.Unstructured) map[string]*fieldpath.Set {
	t.Helper()
	found := map[string]*fieldpath.Set{}
	for _, entry := range object.GetManagedFields() {
		require.Equal(t, object.GroupVersionKind().GroupKind().WithVersion(migrate.Version).GroupVersion().String(), entry.APIVersion,
			"%s %s, %s", object.GetKind(), object.GetName(), entry.Manager)
		set := fieldpath.NewSet()
		require.NoError(t, set.FromJSON(entry.FieldsV1.GetRawReader()))
		require.False(t, set.Empty())
		name := fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.Subresource)
		require.NotContains(t, found, name)
		found[name] = set
	}
	return found
}
