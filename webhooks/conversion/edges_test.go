// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// An API server sends objects without a spec when it converts managed fields.
func TestObjectsWithoutASpecAreConverted(t *testing.T) {
	for _, k := range fuzzed {
		t.Run(k.name, k.withoutSpec)
	}
}

func withoutSpec[Hub, Spoke client.Object](p pair[Hub, Spoke]) func(*testing.T) {
	return func(t *testing.T) {
		p.returns(t, `{metadata: {name: nn}}`)
		p.returns(t, `{}`)

		hub := fresh[Hub]()
		spoke := p.toSpoke(t, hub)
		assert.JSONEq(t, text(t, hub), text(t, p.toHub(t, spoke)))
	}
}

func TestInvalidAnnotationDoesNotMakeAnObjectUnreadable(t *testing.T) {
	for _, foreign := range []string{
		`{`, `""`, `[]`, `{"fields":[{"path":"/spec/region","is":7},{"path":"","is":1},{"path":"/spec/vpc/nowhere"},{"path":"/status/conditions/Ready"}]}`,
		`{"fields":[{"path":"/metadata/name","is":"stolen"}]}`, `{"spec":{"region":"of Cluster API's own form"}}`,
	} {
		cluster := read[*infrav1beta1.CAPTCluster](t, `{metadata: {name: nn}, spec: {region: r, existingVpcId: vpc-1}}`)
		cluster.Annotations = map[string]string{preserve.Annotation: foreign, "mine": "kept"}
		hub := captClusters.toHub(t, cluster)
		assert.Equal(t, "r", hub.Spec.Region)
		assert.Equal(t, "nn", hub.Name)
		assert.Equal(t, map[string]string{"mine": "kept"}, hub.Annotations)
	}
}

// The rules must ensure this: a caller may continue to use the source.
func TestConversionSharesNoMemoryWithItsSource(t *testing.T) {
	for _, k := range fuzzed {
		t.Run(k.name, k.unshared)
	}
}

func unshared[Hub, Spoke client.Object](p pair[Hub, Spoke]) func(*testing.T) {
	return func(t *testing.T) {
		filler := conversionutil.GetFuzzer(runtime.NewScheme(), fuzzFuncs).NilChance(0.1).NumElements(1, 3)
		for range 500 {
			hub, spoke := fresh[Hub](), fresh[Spoke]()
			filler.Fill(hub)
			require.NoError(t, p.down(t.Context(), hub, spoke))
			assertUnshared(t, hub, spoke)

			hub, spoke = fresh[Hub](), fresh[Spoke]()
			filler.Fill(spoke)
			require.NoError(t, p.up(t.Context(), spoke, hub))
			assertUnshared(t, spoke, hub)
		}
	}
}

func assertUnshared(t *testing.T, src, dst any) {
	t.Helper()
	mine := map[uintptr]string{}
	memory(reflect.ValueOf(src), "", func(at uintptr, path string) { mine[at] = path })
	memory(reflect.ValueOf(dst), "", func(at uintptr, path string) {
		if other, ok := mine[at]; ok {
			require.Failf(t, "shared memory", "%s%s is %s%s", reflect.TypeOf(dst).Elem(), path, reflect.TypeOf(src).Elem(), other)
		}
	})
}

// memory calls visit with the address of all memory that can be changed through a value, except for times, which point to time zones.
func memory(v reflect.Value, path string, visit func(at uintptr, path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Pointer(), path)
			memory(v.Elem(), path, visit)
		}
	case reflect.Interface:
		memory(v.Elem(), path, visit)
	case reflect.Struct:
		for i := 0; v.Type() != reflect.TypeFor[metav1.Time]() && i < v.NumField(); i++ {
			memory(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		if v.Cap() > 0 {
			visit(v.Pointer(), path)
		}
		for i := range v.Len() {
			memory(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case reflect.Map:
		if !v.IsNil() {
			visit(v.Pointer(), path)
		}
		for k, element := range v.Seq2() {
			memory(element, fmt.Sprintf("%s[%s]", path, k), visit)
		}
	default:
	}
}

func TestMetadataIsCopied(t *testing.T) {
	hub := captClusters.returns(t, `
metadata:
  name: nn
  namespace: ns
  uid: u
  resourceVersion: "7"
  generation: 3
  finalizers: [f]
  ownerReferences: [{apiVersion: v, kind: k, name: nn, uid: u, controller: true}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
spec: {region: r, existingVpcId: ""}
`)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v", Kind: "k", Name: "nn", UID: "u", Controller: ptr.To(true)}}, hub.OwnerReferences)
}

func TestAnnotationHasTheNameOfClusterAPI(t *testing.T) {
	assert.Equal(t, conversionutil.DataAnnotation, preserve.Annotation)
}
