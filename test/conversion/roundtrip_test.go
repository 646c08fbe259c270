// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const (
	// drawnObjects of each kind and direction.
	drawnObjects = 500
	// writers at once. More only queue up in the API server.
	writers = 16
)

var seed = flag.Int64("seed", 0, "draw the objects of this seed again, which a failed test has logged")

func TestThousandsOfObjectsWrittenInOneVersionAreReadInTheOther(t *testing.T) {
	for _, k := range kinds {
		for _, version := range versions {
			t.Run(k.name+" written in "+version, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				trip := newTrip(t, k, version)
				originals := trip.create(trip.drawAll())
				trip.requireConverted(originals)
				trip.rewrite()
				trip.requireUnchanged(originals)
				t.Logf("%d objects in %s", len(originals), time.Since(began).Round(time.Millisecond))
			})
		}
	}
}

// trip of objects of one kind: written in one version, read and written in the other, and read again in the first.
type trip struct {
	*testing.T
	kind    kind
	version string
	schema  *apiextensionsv1.JSONSchemaProps
	filler  filler

	// here and there are the objects in either version.
	here, there dynamic.ResourceInterface
}

func newTrip(t *testing.T, k kind, version string) *trip {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = time.Now().UnixNano()
	}
	t.Logf("To draw the same objects again: go test ./test/conversion -run '%s' -args -seed=%d", t.Name(), chosen)
	namespace := shared.namespace(t)
	return &trip{
		T: t, kind: k, version: version, schema: schemaOf(t, k, version),
		filler: filler{t: t, random: rand.New(rand.NewSource(chosen)), empty: version == spoke},
		here:   shared.objects.Resource(k.in(version)).Namespace(namespace),
		there:  shared.objects.Resource(k.in(other(version))).Namespace(namespace),
	}
}

func schemaOf(t *testing.T, k kind, version string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	file := filepath.Join(root, "config", "crd", "bases", k.group+"_"+k.resource+".yaml")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, definition))
	for _, v := range definition.Spec.Versions {
		if v.Name == version {
			return v.Schema.OpenAPIV3Schema
		}
	}
	require.Failf(t, "no such version", "%s is not in %s", version, file)
	return nil
}

func (r *trip) drawAll() []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, drawnObjects)
	for i := range objects {
		objects[i] = r.draw(fmt.Sprintf("drawn-%03d", i))
	}
	return objects
}

// draw an object. It goes through its Go type once, which leaves out what that can not tell from absent, such as an
// object without any field.
func (r *trip) draw(name string) *unstructured.Unstructured {
	content := map[string]any{"metadata": r.filler.metadata()}
	for _, field := range []string{"spec", "status"} {
		if schema, found := r.schema.Properties[field]; found {
			content[field] = r.filler.draw(r.version+" "+r.kind.name+"."+field, &schema)
		}
	}
	gvk := r.kind.in(r.version).GroupVersion().WithKind(r.kind.name)
	typed, err := scheme.New(gvk)
	require.NoError(r, err)
	data, err := json.Marshal(content)
	require.NoError(r, err)
	require.NoError(r, json.Unmarshal(data, typed), string(data))
	data, err = json.Marshal(typed)
	require.NoError(r, err)
	object := &unstructured.Unstructured{}
	require.NoError(r, utiljson.Unmarshal(data, &object.Object))
	object.SetGroupVersionKind(gvk)
	object.SetName(name)
	return object
}

// create creates the objects, with their status, and requires that nothing was left out: the API server sends what it
// has read from its storage, of which the version is v1beta2.
func (r *trip) create(drawn []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	structural := structuralOf(r.T, r.schema)
	created := make([]*unstructured.Unstructured, len(drawn))
	r.concurrently(len(drawn), func(i int) error {
		var err error
		if created[i], err = r.here.Create(r.Context(), drawn[i], metav1.CreateOptions{}); err != nil {
			return err
		}
		if status, found := drawn[i].Object["status"]; found {
			created[i].Object["status"] = status
			created[i], err = r.here.UpdateStatus(r.Context(), created[i], metav1.UpdateOptions{})
		}
		return err
	})
	originals := map[string]*unstructured.Unstructured{}
	for i, object := range created {
		structuraldefaulting.Default(drawn[i].Object, structural)
		for _, field := range []string{"spec", "status"} {
			require.Equal(r, drawn[i].Object[field], object.Object[field], "%s of %s", field, object.GetName())
		}
		originals[object.GetName()] = object
	}
	return originals
}

func structuralOf(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) *structuralschema.Structural {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil))
	structural, err := structuralschema.NewStructural(internal)
	require.NoError(t, err)
	return structural
}

// requireConverted requires that the other version is what webhooks/conversion makes of the objects.
func (r *trip) requireConverted(originals map[string]*unstructured.Unstructured) {
	for _, read := range r.list(r.there) {
		want := converted(r.T, originals[read.GetName()], other(r.version))
		require.Equal(r, want.Object, read.Object)
	}
}

// rewrite writes every object in the other version as it was read there: the whole of one, the status of the next.
func (r *trip) rewrite() {
	objects := r.list(r.there)
	r.concurrently(len(objects), func(i int) error {
		var err error
		if r.kind.hasStatus && i%2 == 1 {
			_, err = r.there.UpdateStatus(r.Context(), &objects[i], metav1.UpdateOptions{})
		} else {
			_, err = r.there.Update(r.Context(), &objects[i], metav1.UpdateOptions{})
		}
		return err
	})
}

// requireUnchanged requires that the objects are what they were, to the last byte: the API server has seen that there was
// nothing to write.
func (r *trip) requireUnchanged(originals map[string]*unstructured.Unstructured) {
	for _, now := range r.list(r.here) {
		assert.Equal(r, originals[now.GetName()].Object, now.Object)
	}
}

func (r *trip) list(resource dynamic.ResourceInterface) []unstructured.Unstructured {
	list, err := resource.List(r.Context(), metav1.ListOptions{})
	require.NoError(r, err)
	require.Len(r, list.Items, drawnObjects)
	return list.Items
}

func (r *trip) concurrently(n int, do func(int) error) {
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	require.NoError(r, group.Wait())
}
