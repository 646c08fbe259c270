// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/test/builder"
)

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace("team-a")
	object.SetName(name)
	return object
}

func controlPlane() *unstructured.Unstructured {
	return object("controlplane.cluster.x-k8s.io/v1beta2", "CAPTControlPlane", "demo")
}

func jsonPatch(operations string) client.Patch {
	return client.RawPatch(types.JSONPatchType, []byte(operations))
}

func TestOnlyWhatAMigrationWritesIsSent(t *testing.T) {
	const (
		infrastructure = "infrastructure.cluster.x-k8s.io/v1beta2"
		endpoint       = `[{"op":"test","path":"/metadata/uid","value":"1"},{"op":"replace","path":"/spec/controlPlaneEndpoint/host","value":"x"}]`
		label          = `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`
	)
	cluster := object("cluster.x-k8s.io/v1beta2", "Cluster", "demo")
	for name, row := range map[string]struct {
		object    client.Object
		patch     client.Patch // Nil creates the object.
		endpoints bool
		sent      bool
	}{
		"patch of a control plane":              {controlPlane(), jsonPatch(label), false, true},
		"patch of a WorkspaceTemplateApply":     {object(infrastructure, "WorkspaceTemplateApply", "demo"), jsonPatch(label), false, true},
		"template that a pin creates":           {object(infrastructure, "WorkspaceTemplate", "demo"), nil, false, true},
		"journal":                               {object("v1", "ConfigMap", "capt-migrate-0123456789ab"), nil, false, true},
		"endpoint that is to be fixed":          {cluster, jsonPatch(endpoint), true, true},
		"endpoint":                              {cluster, jsonPatch(endpoint), false, false},
		"another field of a Cluster":            {cluster, jsonPatch(label), true, false},
		"merge patch of a Cluster":              {cluster, client.RawPatch(types.MergePatchType, []byte(`{"spec":{}}`)), true, false},
		"new Cluster":                           {cluster, nil, true, false},
		"new WorkspaceTemplateApply":            {object(infrastructure, "WorkspaceTemplateApply", "demo"), nil, true, false},
		"another ConfigMap":                     {object("v1", "ConfigMap", "demo"), nil, true, false},
		"Secret":                                {object("v1", "Secret", "capt-migrate-0123456789ab"), nil, true, false},
		"Workspace":                             {object("tf.upbound.io/v1beta1", "Workspace", "demo"), jsonPatch(label), true, false},
		"Workspace of a namespace":              {object("tf.m.upbound.io/v1beta1", "Workspace", "demo"), jsonPatch(label), true, false},
		"ProviderConfig":                        {object("tf.upbound.io/v1beta1", "ProviderConfig", "demo"), jsonPatch(label), true, false},
		"kind of another infrastructure":        {object("infrastructure.cluster.x-k8s.io/v1beta2", "AWSCluster", "demo"), jsonPatch(label), true, false},
		"kind that CAPT v0.3 did not have":      {object(infrastructure, "CAPTClusterTemplate", "demo"), jsonPatch(label), true, false},
		"object of which the kind is not known": {&unstructured.Unstructured{Object: map[string]any{}}, jsonPatch(label), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent string
			api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme()).Build(), interceptor.Funcs{
				Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
					sent = lock.WrittenObject(ctx)
					return nil
				},
				Patch: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
					sent = lock.WrittenObject(ctx)
					return nil
				},
			})
			writer := lock.NewWriter(api, func() error { return nil }, row.endpoints)
			send := func() error { return writer.Create(t.Context(), row.object) }
			if row.patch != nil {
				send = func() error { return writer.Patch(t.Context(), row.object, "", row.patch) }
			}
			if row.sent {
				require.NoError(t, send())
				kind := row.object.GetObjectKind().GroupVersionKind().Kind
				assert.Equal(t, kind+" team-a/"+row.object.GetName(), sent)
				return
			}
			require.ErrorContains(t, send(), "captctl blocked its own write")
			assert.Empty(t, sent)
		})
	}
}

func TestAWriterCannotDelete(t *testing.T) {
	var methods []string
	for method := range reflect.TypeFor[*lock.Writer]().Methods() {
		methods = append(methods, method.Name)
	}
	assert.Equal(t, []string{"Create", "Patch", "Update"}, methods)
}
