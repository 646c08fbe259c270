// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/fixture"
)

// The fuzz tests of webhooks/conversion convert thousands of objects. An API server also prunes and defaults, so one object with
// every field must pass through it without loss.
func TestAnObjectWithEveryFieldIsTheSameInBothVersions(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for _, version := range versions {
			t.Run(k.name+" written in "+version, func(t *testing.T) {
				t.Parallel()
				object := completeObject(t, k, version)
				written := shared.create(t, fixture.NewNamespace(t, shared.admin), object)
				for _, field := range []string{"spec", "status"} {
					require.Equal(t, object.Object[field], written.Object[field], field)
				}
				there := shared.read(t, written, other[version])
				require.Equal(t, converted(t, written, other[version]).Object, there.Object)

				resource := shared.objects.Resource(k.in(other[version])).Namespace(there.GetNamespace())
				there, err := resource.Update(t.Context(), there, metav1.UpdateOptions{})
				require.NoError(t, err)
				if k.hasStatus {
					_, err = resource.UpdateStatus(t.Context(), there, metav1.UpdateOptions{})
					require.NoError(t, err)
				}
				// The same resourceVersion: the API server found nothing to write.
				require.Equal(t, written.Object, shared.read(t, written, version).Object)
			})
		}
	}
}

func completeObject(t *testing.T, k kind, version string) *unstructured.Unstructured {
	t.Helper()
	schema := schemaOf(t, k, version)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	for _, field := range []string{"spec", "status"} {
		if schema, found := schema.Properties[field]; found {
			object.Object[field] = complete(t, version+" "+k.name+"."+field, &schema)
		}
	}
	unstructured.RemoveNestedField(object.Object, "status", "conversionData") // Conversion writes it.
	object.SetGroupVersionKind(k.in(version).GroupVersion().WithKind(k.name))
	object.SetName("complete")
	object.SetLabels(map[string]string{"example.com/label": "value"})
	object.SetAnnotations(map[string]string{"example.com/annotation": "<&>\"\\\n"})
	object.SetFinalizers([]string{"example.com/finalizer"})
	return object
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

// excluded are fields that cannot be set together with others.
var excluded = []string{
	"v1beta1 CAPTCluster.spec.existingVpcId",
	"v1beta2 CAPTCluster.spec.vpc.existingID",
	"v1beta2 CAPTCluster.spec.vpc.connectionSecretRef",
	"v1beta2 CAPTCluster.spec.recovery.onUnhealthy",
	"v1beta2 CAPTControlPlaneTemplate.spec.template.spec.fargateProfiles[].workspaceTemplateApplyRef",
	"v1beta2 CAPTControlPlaneTemplate.spec.template.spec.eksClusterName",
}

// samples are valid values of fields whose schema restricts them, by the last part of the path.
var samples = map[string]any{
	"region": "eu-central-1", "version": "v1.35.0", "id": "vpc-1", "vpcId": "vpc-1", "existingID": "vpc-1",
	"publicCIDRs[]":     "203.0.113.0/24",
	"conditions[].type": "Ready", "conditions[].reason": "Ready",
	"fargateProfiles[].name": "profile", "additionalFargateProfiles[].name": "profile",
	"actions[].parameters": map[string]any{"allowDestroy": "true"},
}

// complete returns a value with every field that a schema has.
func complete(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) any {
	t.Helper()
	for end, sample := range samples {
		if strings.HasSuffix(path, "."+end) {
			return sample
		}
	}
	switch {
	case len(schema.Enum) > 0:
		return strings.Trim(string(schema.Enum[0].Raw), `"`)
	case schema.Type == "object":
		return completeFields(t, path, schema)
	case schema.Type == "array":
		return []any{complete(t, path+"[]", schema.Items.Schema)}
	case schema.Type == "integer":
		if schema.Minimum != nil {
			return max(1, int64(*schema.Minimum))
		}
		return int64(7)
	case schema.Type == "boolean":
		return true
	case schema.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case schema.Type == "" && schema.XPreserveUnknownFields != nil:
		return []any{"größer\n<&>大", true, 1.5, map[string]any{"b": nil, "a": "x"}}
	}
	require.Equal(t, "string", schema.Type, path)
	if schema.Pattern != "" {
		require.Regexp(t, schema.Pattern, "name", "%s needs an entry in samples", path)
		return "name"
	}
	return "größer\n<&>大"
}

func completeFields(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	t.Helper()
	fields := map[string]any{}
	for name, field := range schema.Properties {
		if !slices.Contains(excluded, path+"."+name) {
			fields[name] = complete(t, path+"."+name, &field)
		}
	}
	if schema.AdditionalProperties != nil {
		fields["key"] = complete(t, path+".key", schema.AdditionalProperties.Schema)
	}
	if schema.XPreserveUnknownFields != nil {
		fields["future"] = map[string]any{"list": []any{int64(1), "two", nil}}
	}
	return fields
}
