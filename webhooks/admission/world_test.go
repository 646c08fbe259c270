// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

// indexes makes the indexes of the manager's cache in a fake client.
type indexes struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexes) IndexField(_ context.Context, object client.Object, field string, keys client.IndexerFunc) error {
	i.WithIndex(object, field, keys)
	return nil
}

// newWorld is a world of objects as the webhooks see it.
func newWorld(t *testing.T, objects ...client.Object) lookup.Reader {
	t.Helper()
	fakes := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...)
	require.NoError(t, lookup.IndexFields(t.Context(), indexes{fakes}))
	return lookup.Reader{Reader: fakes.Build()}
}

// request is what the API server sends about a change from old, which is nil for a new object.
func request(t *testing.T, old, object client.Object) admission.Request {
	t.Helper()
	gvk, err := apiutil.GVKForObject(object, builder.Scheme())
	require.NoError(t, err)
	raw := func(object client.Object) runtime.RawExtension {
		data, err := json.Marshal(object)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: data}
	}
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: object.GetNamespace(), Name: object.GetName(),
		Kind: metav1.GroupVersionKind(gvk), Object: raw(object),
	}}
	if old != nil {
		r.Operation, r.OldObject = admissionv1.Update, raw(old)
	}
	return r
}

// defaulted is an object after defaulting.
func defaulted[T client.Object](t *testing.T, defaulter *defaults[T], old, object T) T {
	t.Helper()
	return replaced(t, defaulter, old, object, "v1beta2")
}

// replaced is what becomes of an object when a client replaces it with a manifest in a version.
func replaced[T client.Object](t *testing.T, defaulter *defaults[T], old, manifest T, version string) T {
	t.Helper()
	defaulter.decoder = admission.NewDecoder(builder.Scheme())
	r := request(t, absent(old), manifest)
	r.RequestKind = &metav1.GroupVersionKind{Group: r.Kind.Group, Version: version, Kind: r.Kind.Kind}
	response := defaulter.Handle(t.Context(), r)
	require.True(t, response.Allowed, "%v", response.Result)
	data := r.Object.Raw
	if len(response.Patches) > 0 {
		operations, err := json.Marshal(response.Patches)
		require.NoError(t, err)
		patch, err := jsonpatch.DecodePatch(operations)
		require.NoError(t, err)
		data, err = patch.Apply(data)
		require.NoError(t, err)
	}
	out := lookup.NewObject(manifest)
	require.NoError(t, json.Unmarshal(data, out))
	out.SetCreationTimestamp(manifest.GetCreationTimestamp()) // JSON knows no time zone.
	return out
}

// validated is the answer to a change from old, which is nil for a new object.
func validated[T client.Object](t *testing.T, validator rules[T], old, object T) admission.Response {
	t.Helper()
	return admission.WithValidator[T](builder.Scheme(), validator).Handler.Handle(t.Context(), request(t, absent(old), object))
}

// absent turns a nil pointer into a nil interface.
func absent[T client.Object](object T) client.Object {
	if any(object) == any(*new(T)) {
		return nil
	}
	return object
}

// refusedFields are the fields that a refusal points at.
func refusedFields(t *testing.T, response admission.Response) []string {
	t.Helper()
	if response.Allowed {
		return nil
	}
	require.Equal(t, metav1.StatusReasonInvalid, response.Result.Reason, "%v", response.Result)
	var fields []string
	for _, cause := range response.Result.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

// A Cluster of a ClusterClass refers to its objects only when they exist. Until then they name it.
func TestTheClusterOfAnObject(t *testing.T) {
	unreferring := builder.With(func(cluster *clusterv1.Cluster) {
		cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}, clusterv1.ContractVersionedObjectReference{}
	})
	labeled := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	owned := func(object client.Object) {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "demo", UID: "u"}})
	}
	foreign := func(object client.Object) {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "other.example.com/v1", Kind: "Cluster", Name: "demo", UID: "u"}})
	}
	for name, row := range map[string]struct {
		cluster *clusterv1.Cluster
		object  []builder.Option
		found   bool
	}{
		"refers to it":               {builder.Cluster("demo"), nil, true},
		"does not refer to it yet":   {builder.Cluster("demo", unreferring), nil, false},
		"is named by its label":      {builder.Cluster("demo", unreferring), []builder.Option{labeled}, true},
		"is its owner":               {builder.Cluster("demo", unreferring), []builder.Option{owned}, true},
		"is another kind of Cluster": {builder.Cluster("demo", unreferring), []builder.Option{foreign}, false},
		"is in another namespace":    {builder.Cluster("demo", unreferring, builder.WithNamespace("x")), []builder.Option{labeled}, false},
		"does not exist":             {builder.Cluster("other", unreferring), []builder.Option{labeled, owned}, false},
		"refers to another in its place": {builder.Cluster("demo", builder.With(func(cluster *clusterv1.Cluster) {
			cluster.Spec.InfrastructureRef.Name, cluster.Spec.ControlPlaneRef.Name = "other", "other"
		})), []builder.Option{labeled}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, row.cluster)
			for _, object := range []validation.Owner{builder.CAPTCluster("demo", row.object...), builder.CAPTControlPlane("demo", row.object...)} {
				got, err := w.ClusterOf(t.Context(), object)
				require.NoError(t, err)
				assert.Equal(t, row.found, got != nil, "%T", object)
			}
		})
	}
}

func TestACacheOfOneNamespaceIsNotAskedAboutOthers(t *testing.T) {
	shared := builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"))
	w := newWorld(t)
	w.Namespace, w.Elsewhere = builder.Namespace, newWorld(t, shared)
	found, err := w.WorkspaceTemplate(t.Context(), client.ObjectKeyFromObject(shared))
	require.NoError(t, err)
	require.NotNil(t, found)
	found, err = w.WorkspaceTemplate(t.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"})
	require.NoError(t, err)
	require.Nil(t, found)
}
