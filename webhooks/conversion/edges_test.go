// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookconversion "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/webhooks/conversion"
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
	assert.Equal(t, conversionutil.DataAnnotation, preserve.Annotation, "the name of Cluster API")
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

// Every client can write the annotation, but not status.
func TestNoAnnotationBecomesStatus(t *testing.T) {
	const forged = `{"fields":[
		{"path":"/status/workspaceRef","is":{"apiVersion":"tf.upbound.io/v1beta1","kind":"Workspace","name":"victim","uid":"u"}},
		{"path":"/status","is":{"workspaceName":"victim"}}, {"path":"/status/workspaceName","is":"victim"}]}`
	spoke := read[*infrav1beta1.WorkspaceTemplateApply](t, `{metadata: {name: nn}, spec: {templateRef: {name: t}}}`)
	spoke.Annotations = map[string]string{preserve.Annotation: forged}
	hub := workspaceTemplateApplies.toHub(t, spoke)
	assert.Zero(t, hub.Status)

	hub.Annotations = map[string]string{preserve.Annotation: forged}
	assert.Zero(t, workspaceTemplateApplies.toSpoke(t, hub).Status)
}

func TestLostFieldsOfSpecDoNotComeFromStatus(t *testing.T) {
	spoke := read[*infrav1beta1.WorkspaceTemplateApply](t, `{metadata: {name: nn}, spec: {templateRef: {name: t}}}`)
	spoke.Status.ConversionData = `{"fields":[{"path":"/spec/workspaceName","is":"victim"}]}`
	assert.Empty(t, workspaceTemplateApplies.toHub(t, spoke).Spec.WorkspaceName)
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

func TestAKindCanBeRegisteredOnce(t *testing.T) {
	scheme, registry := conversion.NewRegistry()
	require.Error(t, conversion.AddToRegistry(scheme, registry))
	require.Error(t, conversion.AddToRegistry(runtime.NewScheme(), webhookconversion.NewRegistry()), "the scheme knows no versions")
}

// The API server sets defaults in every write. Converted objects must already have them: otherwise a write of a label would change the
// spec.
func TestConvertedObjectsHaveTheDefaultsOfTheirVersion(t *testing.T) {
	t.Run("CAPTCluster", defaulted(captClusters,
		`{spec: {region: r, vpcTemplateRef: {name: t}}}`,
		`{spec: {region: r, vpc: {template: {ref: {name: t}}}}}`))
	t.Run("CAPTControlPlane", defaulted(controlPlanes,
		`{spec: {version: "1.31", workspaceTemplateRef: {name: t}, controlPlaneConfig: {region: r, endpointAccess: {}, timeouts: {}}}, status: {ready: true}}`,
		`{spec: {version: "1.31", workspaceTemplateRef: {name: t}, endpointAccess: {}, timeouts: {secretSeconds: 10}}, status: {phase: Ready}}`))
	t.Run("CAPTControlPlaneTemplate", defaulted(controlPlaneTemplates,
		`{spec: {template: {spec: {version: "", workspaceTemplateRef: {name: t}, controlPlaneConfig: {region: r, endpointAccess: {}}}}}}`,
		`{spec: {template: {spec: {workspaceTemplateRef: {name: t}, timeouts: {vpcReadySeconds: 61}}}}}`))
	t.Run("WorkspaceTemplate", defaulted(workspaceTemplates,
		`{spec: {template: {spec: {forProvider: {source: Inline, module: ""}}}}}`,
		`{spec: {template: {spec: {publishConnectionDetailsTo: {name: p}, providerConfigRef: {name: a, policy: {}}, forProvider: {source: Inline, module: "", varFiles: [{source: SecretKey}]}}}}}`))
	t.Run("WorkspaceTemplateApply", defaulted(workspaceTemplateApplies, `{spec: {templateRef: {name: t}}}`, `{spec: {templateRef: {name: t}}}`))
}

func defaulted[Hub, Spoke client.Object](p pair[Hub, Spoke], spokeManifest, hubManifest string) func(*testing.T) {
	return func(t *testing.T) {
		kind := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		hub := p.toHub(t, withDefaults(t, kind, "v1beta1", read[Spoke](t, spokeManifest)))
		assert.JSONEq(t, text(t, hub), text(t, withDefaults(t, kind, "v1beta2", hub)))

		original := withDefaults(t, kind, "v1beta2", read[Hub](t, hubManifest))
		spoke := p.toSpoke(t, original)
		written := withDefaults(t, kind, "v1beta1", spoke)
		assert.JSONEq(t, text(t, spoke), text(t, written))
		assert.JSONEq(t, text(t, original), text(t, p.toHub(t, written)), "nor does a write in v1beta1")
	}
}

// withDefaults sets the defaults of a version of a CRD, with the code of the API server.
func withDefaults[T client.Object](t *testing.T, kind, version string, o T) T {
	t.Helper()
	content := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(text(t, o)), &content))
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	group := "infrastructure.cluster.x-k8s.io"
	if strings.HasPrefix(kind, "CAPTControlPlane") {
		group = "controlplane.cluster.x-k8s.io"
	}
	definition, err := schemas.Of(runtimeschema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	require.NoError(t, err)
	structuraldefaulting.Default(content, definition.Structural())
	return parse[T](t, text(t, content))
}
