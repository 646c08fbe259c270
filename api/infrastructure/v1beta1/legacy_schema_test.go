// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// root of the repository.
const root = "../../.."

// added lists the fields of v1beta1 that the CRDs of CAPT v0.3 did not have: those of Fargate profiles, and what conversion stores.
var added = []string{
	"status.conversionData",
	"spec.additionalFargateProfiles", "status.fargateProfileStatuses", "spec.template.spec.additionalFargateProfiles",
}

// dropped lists the CRDs of CAPT v0.3 that this version does not have: the controllers of these kinds never worked. The policy
// capt-keep-definitions protects them nevertheless.
var dropped = []string{"captmachines", "captmachinesets", "captmachinedeployments", "captmachinetemplates"}

func TestV1Beta1HasTheFieldsOfTheLegacyCRDsAndIsNotStricter(t *testing.T) {
	reference := os.Getenv("CAPT_REFERENCE")
	if reference == "" {
		reference = filepath.Join(root, "../shared/reference")
	}
	files, err := filepath.Glob(filepath.Join(reference, "legacy-crds", "*.yaml"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("no legacy CRDs in %s; CAPT_REFERENCE names the folder of the reference data", reference)
	}
	for _, file := range files {
		if _, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_"); slices.Contains(dropped, plural) {
			assert.NoFileExists(t, filepath.Join(generated(), filepath.Base(file)))
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			legacy, ours := version(t, file), version(t, filepath.Join(generated(), filepath.Base(file)))
			compare(t, "", *legacy.Schema.OpenAPIV3Schema, *ours.Schema.OpenAPIV3Schema)
			assert.True(t, ours.Served)
			assert.False(t, ours.Storage)
			assert.True(t, ours.Deprecated)
			assert.Contains(t, *ours.DeprecationWarning, "captctl convert")
		})
	}
}

// generated is the directory of the generated CRDs.
func generated() string {
	return filepath.Join(root, "config/crd/bases")
}

func version(t *testing.T, file string) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.Unmarshal(data, crd))
	for _, v := range crd.Spec.Versions {
		if v.Name == "v1beta1" {
			return v
		}
	}
	require.Failf(t, "no v1beta1", "%s has no v1beta1: run make generate", file)
	return apiextensionsv1.CustomResourceDefinitionVersion{}
}

func compare(t *testing.T, path string, legacy, ours apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	assert.Equal(t, legacy.Type, ours.Type, "type of %s", path)
	assert.Equal(t, legacy.Format, ours.Format, "format of %s", path)
	assert.Equal(t, legacy.XPreserveUnknownFields, ours.XPreserveUnknownFields, "unknown fields of %s", path)
	if legacy.Default != nil && ours.Default != nil {
		assert.JSONEq(t, string(legacy.Default.Raw), string(ours.Default.Raw), "default of %s", path)
	} else {
		assert.Equal(t, legacy.Default, ours.Default, "default of %s", path)
	}
	noStricter(t, path, legacy, ours)

	for name, property := range legacy.Properties {
		if mine, ok := ours.Properties[name]; assert.True(t, ok, "%s.%s is missing", path, name) {
			compare(t, join(path, name), property, mine)
		}
	}
	for name := range ours.Properties {
		if _, ok := legacy.Properties[name]; !ok {
			assert.Contains(t, added, join(path, name), "a field that CAPT v0.3 had not")
		}
	}
	if legacy.Items != nil {
		compare(t, path+"[]", *legacy.Items.Schema, *ours.Items.Schema)
	}
	if legacy.AdditionalProperties != nil {
		compare(t, path+"{}", *legacy.AdditionalProperties.Schema, *ours.AdditionalProperties.Schema)
	}
}

func noStricter(t *testing.T, path string, legacy, ours apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for _, name := range ours.Required {
		assert.Contains(t, legacy.Required, name, "%s.%s was not required", path, name)
	}
	if ours.Pattern != "" {
		assert.Equal(t, legacy.Pattern, ours.Pattern, "pattern of %s", path)
	}
	if len(ours.Enum) > 0 {
		for _, value := range legacy.Enum {
			assert.True(t, slices.ContainsFunc(ours.Enum, func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }),
				"%s was allowed for %s", value.Raw, path)
		}
		assert.NotEmpty(t, legacy.Enum, "%s had no enumeration", path)
	}
	for what, limits := range map[string][2]*int64{
		"minLength": {legacy.MinLength, ours.MinLength}, "maxLength": {legacy.MaxLength, ours.MaxLength},
		"minItems": {legacy.MinItems, ours.MinItems}, "maxItems": {legacy.MaxItems, ours.MaxItems},
		"minProperties": {legacy.MinProperties, ours.MinProperties}, "maxProperties": {legacy.MaxProperties, ours.MaxProperties},
	} {
		assert.True(t, limits[1] == nil || assert.ObjectsAreEqual(limits[0], limits[1]), "%s of %s", what, path)
	}
	assert.True(t, ours.Minimum == nil || assert.ObjectsAreEqual(legacy.Minimum, ours.Minimum), "minimum of %s", path)
	assert.Nil(t, ours.Maximum, "maximum of %s", path)
	for _, rule := range ours.XValidations {
		assert.True(t, rule.OptionalOldSelf != nil && *rule.OptionalOldSelf, "rule %q of %s must forgive what was so before", rule.Message, path)
	}
	assert.Nil(t, ours.XListType, "list type of %s", path)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
