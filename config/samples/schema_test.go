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

package samples_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// definitions are the CRDs of the kinds that samples use; that of Cluster is Cluster API's own.
func definitions(t *testing.T) map[string]*apiextensions.JSONSchemaProps {
	t.Helper()
	schemas := map[string]*apiextensions.JSONSchemaProps{}
	for _, pattern := range []string{"../crd/bases/*.yaml", "../../test/provider/config/crd/*.yaml"} {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			definition := apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, yaml.UnmarshalStrict(data, &definition), file)
			for _, version := range definition.Spec.Versions {
				props := &apiextensions.JSONSchemaProps{}
				require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, props, nil))
				schemas[definition.Spec.Group+"/"+version.Name+" "+definition.Spec.Names.Kind] = props
			}
		}
	}
	return schemas
}

// TestSamplesPassTheirSchemas checks samples as the API server does: defaults first, then the schema, then its CEL rules.
func TestSamplesPassTheirSchemas(t *testing.T) {
	schemas := definitions(t)
	for _, samples := range load(t) {
		for _, s := range samples {
			kind := s.raw["kind"].(string)
			if kind == "Cluster" {
				continue
			}
			t.Run(s.file+"/"+s.object.GetName(), func(t *testing.T) {
				props, ok := schemas[s.raw["apiVersion"].(string)+" "+kind]
				require.True(t, ok, "there is no CRD for %s", kind)
				structural, err := structuralschema.NewStructural(props)
				require.NoError(t, err)
				object := runtime.DeepCopyJSON(s.raw)
				defaulting.Default(object, structural)
				validator, _, err := validation.NewSchemaValidator(props)
				require.NoError(t, err)
				require.Empty(t, validation.ValidateCustomResource(nil, object, validator))
				errs, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(t.Context(), (*field.Path)(nil), structural, object, nil, celconfig.RuntimeCELCostBudget)
				require.Empty(t, errs)
			})
		}
	}
}
