// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// kubectl evaluates the path of a column in the same way.
func TestColumnsShowTheMetadataOfAWorkspaceTemplate(t *testing.T) {
	data, err := Definitions.ReadFile("bases/infrastructure.cluster.x-k8s.io_workspacetemplates.yaml")
	require.NoError(t, err)
	definition, template := apiextensionsv1.CustomResourceDefinition{}, map[string]any{}
	require.NoError(t, yaml.Unmarshal(data, &definition))
	require.NoError(t, yaml.Unmarshal([]byte(`spec: {template: {metadata: {version: 1.2.3, description: A VPC}}}`), &template))
	shown := map[string]string{}
	for _, version := range definition.Spec.Versions {
		for _, column := range version.AdditionalPrinterColumns {
			if version.Name != "v1beta2" {
				continue
			}
			path, text := jsonpath.New(column.Name).AllowMissingKeys(true), &strings.Builder{}
			require.NoError(t, path.Parse("{"+column.JSONPath+"}"))
			require.NoError(t, path.Execute(text, template))
			shown[column.Name] = text.String()
		}
	}
	assert.Equal(t, "1.2.3", shown["Version"])
	assert.Equal(t, "A VPC", shown["Description"])
}
