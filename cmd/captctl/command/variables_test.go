// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const typedTemplate = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: eks, namespace: platform}
spec:
  inputs:
  - {name: zones, description: Zones of the nodes, default: [a]}
  template:
    spec:
      providerConfigRef: {name: "${account}"}
      forProvider:
        source: Inline
        module: |
          variable "cluster_name" { type = string }
          variable "zones" { type = list(string) }
          variable "auto_mode" {
            type        = bool
            default     = true
            description = "Nodes of EKS Auto Mode"
          }
          variable "fixed" {}
          output "name" { value = var.cluster_name }
        vars:
        - {key: fixed, value: x}
`

func TestVariablesOfATemplateAreListed(t *testing.T) {
	file := written(t, typedTemplate)
	out, _, err := run(t, name, "template", "variables", "-f", file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	assert.Equal(t, []string{
		"NAME TYPE DEFAULT FROM DESCRIPTION",
		"account - required User -",
		"auto_mode bool true User Nodes of EKS Auto Mode",
		"cluster_name string required CAPT -",
		"fixed - - Template -",
		`zones list(string) ["a"] User Zones of the nodes`,
	}, lines)

	_, _, err = run(t, name, "template", "variables")
	require.ErrorContains(t, err, "name a template of the cluster, or a file with --filename")
	_, _, err = run(t, name, "template", "variables", "a/b", "-f", file)
	assert.ErrorContains(t, err, "not both")
}

func TestRenderExplainsWhatReachesTerraform(t *testing.T) {
	out, _, err := run(t, name, "template", "render", "-f", written(t, typedTemplate), "--var", "account=prod", "--var", "cluster_name=demo", "--explain", "-o", "yaml")
	require.NoError(t, err)
	assert.YAMLEq(t, `
- {field: spec.template.spec.providerConfigRef.name, variable: "${account}", value: prod, from: spec.variables}
- {field: "spec.template.spec.forProvider.varmap[cluster_name]", variable: cluster_name, value: '"demo"', from: spec.variables}
- {field: "spec.template.spec.forProvider.varmap[zones]", variable: zones, value: '["a"]', from: default in spec.inputs}
`, out)

	_, _, err = run(t, name, "template", "render", "-f", written(t, typedTemplate), "--var", "account=prod", "--var", "cluster_name=demo", "--var", "zone=a", "--var", "auto_mode=maybe")
	require.ErrorContains(t, err, "--var: spec.variables[auto_mode]: is not valid for the module of WorkspaceTemplate platform/eks: bool required (line 3 of the module). Correct the value")
	assert.ErrorContains(t, err, "--var: spec.variables[zone]: has no effect: the module of WorkspaceTemplate platform/eks declares no variable zone")
}
