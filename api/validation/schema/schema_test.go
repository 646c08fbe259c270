// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/test/specimens"
)

var (
	cluster      = infrav1.GroupVersion.WithKind("CAPTCluster")
	controlPlane = controlplanev1.GroupVersion.WithKind("CAPTControlPlane")
	template     = infrav1.GroupVersion.WithKind("WorkspaceTemplate")
)

// everything is a spec with nearly all fields of a CAPTControlPlane.
const everything = `{version: v1.35.0, region: eu-central-1, workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: a},
  variables: {a: b, c: d}, additionalTags: {team: a, stage: prod, cost: "17"}, controlPlaneEndpoint: {host: a.example.com, port: 443},
  endpointAccess: {public: Enabled, private: Enabled, publicCIDRs: [10.0.0.0/8, 192.0.2.0/24]}, kubeconfig: {source: Exec}, endpointProbe: Required,
  addons: [{name: coredns}, {name: vpc-cni, version: v1.20.0}, {name: kube-proxy}], timeouts: {controlPlaneSeconds: 1800},
  recovery: {maxRetries: 3, backoff: {initialSeconds: 10, maxSeconds: 20}, actions: [{type: Requeue}, {type: RecreateWorkspace, parameters: {allowDestroy: "true"}}]},
  fargateProfiles: [{name: a, selectors: [{namespace: a, labels: {a: b}}, {namespace: b}], workspaceTemplateRef: {name: fargate}},
    {name: b, selectors: [{namespace: c}], workspaceTemplateRef: {name: fargate}}]}`

func plane(fields string) string {
	return `{version: "1.35", workspaceTemplateRef: {name: x}, ` + fields + `}`
}

func of(t *testing.T, kind runtimeschema.GroupVersionKind) *schema.Schema {
	t.Helper()
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	s, err := schemas.Of(kind)
	require.NoError(t, err)
	return s
}

// object is an object as an API server decodes it.
func object(t *testing.T, kind runtimeschema.GroupVersionKind, spec string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte("{apiVersion: " + kind.GroupVersion().String() + ", kind: " + kind.Kind + ", metadata: {name: a}, spec: " + spec + "}"))
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(content))
	return u
}

func texts(errs field.ErrorList) []string {
	out := make([]string, 0, len(errs))
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestEveryKindIsKnownInTheHubVersion(t *testing.T) {
	for _, kind := range []runtimeschema.GroupVersionKind{
		cluster, controlPlane, infrav1.GroupVersion.WithKind("CAPTClusterTemplate"), controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate"),
		template, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
	} {
		require.NotEmpty(t, of(t, kind).Validate(t.Context(), object(t, kind, "{}")), "%s accepts a spec without its required fields", kind)
	}
}

func TestUnknownKindIsAnError(t *testing.T) {
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	for _, kind := range []runtimeschema.GroupVersionKind{
		{}, cluster.GroupKind().WithVersion("v1beta3"), infrav1.GroupVersion.WithKind("CAPTControlPlane"), infrav1.GroupVersion.WithKind("CAPTClusterList"),
	} {
		_, err := schemas.Of(kind)
		require.ErrorIs(t, err, schema.ErrUnknownKind)
	}
}

func TestInvalidDefinitionsAreAnError(t *testing.T) {
	const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: a.example, names: {kind: A}, versions: [{name: v1, schema: %}]}}`
	file := func(schema string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.ReplaceAll(definition, "%", schema))}
	}
	good := file("{openAPIV3Schema: {type: object}}")
	_, err := schema.New(fstest.MapFS{"folder/a.yaml": good, "README.md": {Data: []byte("#")}})
	require.NoError(t, err)
	for want, files := range map[string]fs.FS{
		"no CustomResourceDefinitions":  fstest.MapFS{},
		"two CustomResourceDefinitions": fstest.MapFS{"a.yaml": good, "b.yaml": good},
		`contains a "Namespace"`:        fstest.MapFS{"a.yaml": {Data: []byte("{apiVersion: v1, kind: Namespace}")}},
		"a.yaml":                        fstest.MapFS{"a.yaml": {Data: []byte("}")}},
		"is missing":                    fstest.MapFS{"a.yaml": file("{}")},
		"not supported":                 fstest.MapFS{"a.yaml": file("{openAPIV3Schema: {type: object, id: a}}")},
	} {
		_, err := schema.New(files)
		require.ErrorContains(t, err, want, want)
	}
}

func TestObjectOfAnotherKindIsAnError(t *testing.T) {
	errs := of(t, controlPlane).Validate(t.Context(), object(t, cluster, "{}"))
	require.Len(t, errs, 1)
	require.Equal(t, field.ErrorTypeInternal, errs[0].Type)
	require.Contains(t, errs[0].Detail, "Kind=CAPTCluster cannot be checked with the schema of")

	errs = of(t, controlPlane).Validate(t.Context(), (*controlplanev1.CAPTControlPlane)(nil))
	require.Len(t, errs, 1, "none is an error, too")
	require.Equal(t, field.ErrorTypeInternal, errs[0].Type)
}

func TestOnlyTheSpecIsChecked(t *testing.T) {
	s, plane := of(t, controlPlane), object(t, controlPlane, everything)
	plane.SetName("Not a Name")
	plane.Object["status"] = map[string]any{"initialization": "wrong", "conditions": int64(1)}
	require.Empty(t, s.Validate(t.Context(), plane))
	require.Empty(t, s.ValidateUpdate(t.Context(), plane, plane))
}

func TestSkippedRulesAreReported(t *testing.T) {
	s := of(t, controlPlane)
	for want, spec := range map[field.ErrorType]string{
		field.ErrorTypeRequired:     `addons: [{}]`,
		field.ErrorTypeTypeInvalid:  `region: 1`,
		field.ErrorTypeNotSupported: `endpointProbe: Never`,
		field.ErrorTypeTooLong:      `region: eu-west-` + strings.Repeat("1", 30),
		field.ErrorTypeTooMany:      `fargateProfiles: [{name: a, workspaceTemplateRef: {name: x}, selectors: [{namespace: a}, {namespace: b}, {namespace: c}, {namespace: d}, {namespace: e}, {namespace: f}]}]`,
	} {
		errs := s.Validate(t.Context(), object(t, controlPlane, plane(spec)))
		require.Equal(t, want, errs[0].Type)
		require.Equal(t, "spec: Invalid value: further rules could not be evaluated. Correct the other errors first", errs[len(errs)-1].Error())
	}
	errs := s.Validate(t.Context(), object(t, controlPlane, plane(`endpointAccess: {public: Disabled}, controlPlaneEndpoint: {}`)))
	require.Equal(t, "spec.endpointAccess", errs[len(errs)-1].Field, "a lack of fields keeps no rule from being checked")
}

// The API server prunes unknown fields, so this object would be stored with an empty spec.
func TestUnknownFieldsArePrunedBeforeValidation(t *testing.T) {
	spec := `{version: "1.35", workspaceTemplateRef: {name: a}, controlPlaneEndpoint: {address: a}}`
	errs := of(t, controlPlane).Validate(t.Context(), object(t, controlPlane, spec))
	require.Equal(t, []string{`spec.controlPlaneEndpoint: Invalid value: 0: spec.controlPlaneEndpoint in body should have at least 1 properties`}, texts(errs))
}

// CAPT's kinds have no embedded objects yet.
func TestEmbeddedObjectsAreValidated(t *testing.T) {
	schemas, err := schema.New(fstest.MapFS{"a.yaml": {Data: []byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: a.example, names: {kind: A},
  versions: [{name: v1, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}}]}}`)}})
	require.NoError(t, err)
	kind := runtimeschema.GroupVersionKind{Group: "a.example", Version: "v1", Kind: "A"}
	s, err := schemas.Of(kind)
	require.NoError(t, err)
	good, bad := object(t, kind, `{apiVersion: v1, kind: Pod, metadata: {name: a}}`), object(t, kind, `{apiVersion: v1, kind: Pod, metadata: {name: a/b}}`)
	require.Empty(t, s.Validate(t.Context(), good))
	require.Len(t, s.Validate(t.Context(), bad), 1)
	require.Len(t, s.ValidateUpdate(t.Context(), bad, bad), 1)
}

func TestValidationDoesNotModifyObjects(t *testing.T) {
	s, spec := of(t, controlPlane), `{version: "1.35", workspaceTemplateRef: {name: a, unknown: b}, region: null, endpointAccess: {}, status: {}}`
	plane, old, same := object(t, controlPlane, spec), object(t, controlPlane, spec), object(t, controlPlane, spec)
	require.Empty(t, s.Validate(t.Context(), plane))
	require.Empty(t, s.ValidateUpdate(t.Context(), plane, old))
	require.Equal(t, same, plane)
	require.Equal(t, same, old)
}

func TestTypedAndUnstructuredObjectsGetTheSameErrors(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, infrav1.AddToScheme(scheme))
	require.NoError(t, controlplanev1.AddToScheme(scheme))
	for _, row := range []struct {
		kind runtimeschema.GroupVersionKind
		spec string
	}{
		{controlPlane, everything},
		{controlPlane, plane(`additionalTags: {"aws:x": a}, endpointAccess: {public: Disabled, private: Disabled}, recovery: {backoff: {initialSeconds: 2000}}`)},
		{cluster, `{region: here, vpc: {existingID: vpc-1, template: {ref: {name: x}}}}`},
		{template, `{workspaceScope: Here, template: {spec: {unknown: 1, managementPolicies: [All], forProvider: {source: File, module: a, unknown: [1], varmap: {a: [1, 1.5]}}}}}`},
	} {
		s, written := of(t, row.kind), object(t, row.kind, row.spec)
		typed, err := scheme.New(row.kind)
		require.NoError(t, err)
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, typed))
		want := texts(s.Validate(t.Context(), written))
		require.ElementsMatch(t, want, texts(s.Validate(t.Context(), typed)))
		typed.GetObjectKind().SetGroupVersionKind(runtimeschema.GroupVersionKind{})
		require.ElementsMatch(t, want, texts(s.Validate(t.Context(), typed)))
	}
}

// The rules are compiled on first use: concurrent callers wait for it and get the same result.
func TestSchemasCanBeUsedConcurrently(t *testing.T) {
	s := of(t, controlPlane)
	bad := object(t, controlPlane, `{version: "1.35", workspaceTemplateRef: {name: a}, workspaceTemplateApplyRef: {name: c}, region: here, additionalTags: {"aws:x": a}, endpointAccess: {public: Disabled}}`)
	old := object(t, controlPlane, `{version: "1.35", workspaceTemplateRef: {name: a}, workspaceTemplateApplyRef: {name: b}}`)
	results := make([][2][]string, 32)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			results[i] = [2][]string{texts(s.Validate(t.Context(), bad)), texts(s.ValidateUpdate(t.Context(), bad, old))}
		})
	}
	group.Wait()
	require.Len(t, results[0][0], 3)
	require.Len(t, results[0][1], 4)
	for _, result := range results {
		require.ElementsMatch(t, results[0][0], result[0])
		require.ElementsMatch(t, results[0][1], result[1])
	}
}

func TestEveryRuleOfTheSchemas(t *testing.T) {
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	all, err := specimens.All()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, specimen := range all {
		kind := specimen.GroupVersionKind()
		s, err := schemas.Of(kind)
		require.NoError(t, err)
		var errs field.ErrorList
		if specimen.Old == nil {
			errs = s.Validate(t.Context(), object(t, kind, string(specimen.Spec)))
		} else {
			errs = s.ValidateUpdate(t.Context(), object(t, kind, string(specimen.Spec)), object(t, kind, string(specimen.Old)))
		}
		var fields []string
		for _, err := range errs {
			fields = append(fields, err.Field)
		}
		slices.Sort(fields)
		require.Equal(t, specimen.Refused, slices.Compact(fields), "%s %s, before %s: %v", kind, specimen.Spec, specimen.Old, errs)
	}
}

func TestOnUnhealthyIsForControlPlanes(t *testing.T) {
	const recovery = "recovery: {onUnhealthy: [Workspace]}"
	require.Empty(t, texts(of(t, controlPlane).Validate(t.Context(), object(t, controlPlane, plane(recovery)))))
	vpc := "{region: eu-west-1, vpc: {template: {ref: {name: vpc}}}, " + recovery + "}"
	require.Contains(t, strings.Join(texts(of(t, cluster).Validate(t.Context(), object(t, cluster, vpc))), "\n"), "only control planes have health checks. Remove onUnhealthy")
	require.NotEmpty(t, of(t, controlPlane).Validate(t.Context(), object(t, controlPlane, plane("recovery: {onUnhealthy: [Fargate]}"))), "Terraform cannot repair it with the control plane")
}
