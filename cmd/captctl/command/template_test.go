// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func readYAML(t *testing.T, text string, into any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), into))
}

// vpcModule is a directory with a Terraform module.
func vpcModule(t *testing.T, files map[string]string) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "vpc")
	require.NoError(t, os.Mkdir(directory, 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600))
	}
	return directory
}

const vpcMain = `resource "terraform_data" "vpc" {
  input = { name = var.vpc_name, environment = var.environment, cidr = var.cidr }
}
output "vpc_id" { value = terraform_data.vpc.id }
output "nat_ip" { value = "192.0.2.1" }
output "key" {
  value     = "x"
  sensitive = true
}
`

const vpcVariables = `variable "vpc_name" {
  type        = string
  description = "Name of the VPC."
}
variable "environment" { type = string }
variable "cidr" { default = "10.0.0.0/16" }
`

func TestATemplateIsCreatedFromAModuleRenderedAndTested(t *testing.T) {
	t.Setenv("PATH", "")
	directory := vpcModule(t, map[string]string{"main.tf": vpcMain, "variables.tf": vpcVariables, "README.md": "x"})
	out, errOut, err := run(t, name, "template", "init", directory, "--namespace", "platform")
	require.NoError(t, err)
	assert.Equal(t, "Template for: vpc. Variables that CAPT sets: vpc_name. Variables that users must set: environment. Variables with a default: cidr\n", errOut)
	template := &infrav1.WorkspaceTemplate{}
	readYAML(t, out, template)
	params := template.Spec.Template.Spec.ForProvider
	assert.Equal(t, "# main.tf\n"+vpcMain+"# variables.tf\n"+vpcVariables, params.Module)
	assert.Empty(t, params.Vars)
	assert.Equal(t, infrav1.PassDeclared, template.Spec.PassVariables)
	assert.Equal(t, infrav1.SubstitutionFields, template.Spec.Substitution)
	assert.Empty(t, template.Spec.Inputs, "the module declares them")
	assert.Equal(t, []string{"nat_ip"}, template.Spec.PublishOutputs)
	file := written(t, out)

	out, _, err = run(t, name, "template", "test", "-f", file)
	require.NoError(t, err, out)
	assert.Equal(t, "WorkspaceTemplate vpc: tofu or terraform validate was not run: neither tofu nor terraform is on PATH\n1 template tested: 0 findings\n", out)

	out, _, err = run(t, name, "template", "render", "-f", file, "--var", "vpc_name=demo", "--var", "environment=test")
	require.NoError(t, err)
	assert.Contains(t, out, "  namespace: platform\n")
	assert.Contains(t, out, "    varmap:\n      environment: test\n      vpc_name: demo\n")
	_, _, err = run(t, name, "template", "render", "-f", file, "--var", "vpc_name=demo")
	require.ErrorContains(t, err, "--var: spec.variables[environment]: ")
	_, _, err = run(t, name, "template", "render", "-f", file, "--var", "vpc-name=demo")
	assert.ErrorContains(t, err, "--var: spec.variables[vpc-name]: is not a valid name of a placeholder")
}

// A user of the quickstart has these modules in directories.
func TestTheModulesOfTheQuickstartBecomeTemplates(t *testing.T) {
	for file, purpose := range map[string]string{"vpc-template.yaml": "vpc", "controlplane-template.yaml": "control-plane", "fargate-template.yaml": "fargate-profile"} {
		sample, made := &infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplate{}
		text, err := os.ReadFile(filepath.Join("../../../config/samples/sandbox", file))
		require.NoError(t, err)
		readYAML(t, string(text), sample)
		module := sample.Spec.Template.Spec.ForProvider.Module
		out, errOut, err := run(t, name, "template", "init", vpcModule(t, map[string]string{"main.tf": module}), "--provider-config", "sandbox")
		require.NoError(t, err, file)
		assert.Contains(t, errOut, "Template for: "+purpose+". ")
		readYAML(t, out, made)
		assert.Equal(t, module, made.Spec.Template.Spec.ForProvider.Module)
	}
}

func TestAModuleThatIsNotASingleFileNeedsASource(t *testing.T) {
	directory := vpcModule(t, map[string]string{"main.tf": vpcMain + "locals {\n  text = file(\"x.txt\")\n}\n", "variables.tf": vpcVariables})
	_, _, err := run(t, name, "template", "init", directory)
	require.ErrorContains(t, err, "main.tf:11: an inline module is a single file")
	_, _, err = run(t, name, "template", "init", vpcModule(t, map[string]string{"main.tf": vpcMain + "locals {\n  text = file(\"${terraform_data.x.output}/x.txt\")\n}\n", "variables.tf": vpcVariables}))
	assert.NoError(t, err, "Terraform may have written it")
	out, _, err := run(t, name, "template", "init", directory, "--source", "git::https://example.com/m.git//vpc?ref=v1", "--for", "other", "--name", "x")
	require.NoError(t, err)
	assert.Contains(t, out, "module: git::https://example.com/m.git//vpc?ref=v1\n")
	assert.Contains(t, out, "source: Remote\n")
	template := &infrav1.WorkspaceTemplate{}
	readYAML(t, out, template)
	assert.Equal(t, infrav1.PassDeclared, template.Spec.PassVariables)
	text := &apiextensionsv1.JSON{Raw: []byte(`{"type":"string"}`)}
	assert.Equal(t, []infrav1.TemplateInput{
		{Name: "environment", Required: true, Schema: text}, {Name: "vpc_name", Required: true, Schema: text, Description: "Name of the VPC."}, {Name: "cidr"},
	}, template.Spec.Inputs)
	out, _, err = run(t, name, "template", "init", vpcModule(t, map[string]string{"main.tf": "variable \"a\" { \r\n}\n"}), "--name", "x")
	require.NoError(t, err)
	assert.Contains(t, out, "module: |\n          variable \"a\" {\n          }\n", "spaces at the end of a line do not make it unreadable")
	_, _, err = run(t, name, "template", "init", vpcModule(t, map[string]string{"main.tf": "variable {"}))
	assert.ErrorContains(t, err, "main.tf: line 1, column ")
}

func TestATemplateHasAtMostWhatItsSchemaAllows(t *testing.T) {
	var module strings.Builder
	for i := range 129 {
		fmt.Fprintf(&module, "variable \"v%[1]d\" {\n  default = 1\n}\noutput \"o%[1]d\" { value = var.v%[1]d }\n", i)
	}
	module.WriteString("variable \"required\" {}\n")
	out, errOut, err := run(t, name, "template", "init", vpcModule(t, map[string]string{"main.tf": module.String()}), "--source", "example.com/m")
	require.NoError(t, err)
	assert.Contains(t, errOut, "Warning: spec.inputs has 128 of 130 variables. Replace them by those that you need\n")
	assert.Contains(t, errOut, "Warning: spec.publishOutputs has 64 of 129 outputs. Replace them by those that you need\n")
	assert.Contains(t, out, "- name: required\n    required: true\n")
	_, _, err = run(t, name, "validate", written(t, out))
	require.NoError(t, err)
}

const broken = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: vpc}
spec:
  publishOutputs: [nat_ip]
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          locals { a = templatestring(local.missing, {}) }
          removed { from = a_b.c }
        vars: [{key: region, value: x}]
`

func TestTemplateTestReportsWhatTerraformWouldReject(t *testing.T) {
	t.Setenv("PATH", "")
	file := written(t, broken)
	out, _, err := run(t, name, "template", "test", "-f", file)
	require.EqualError(t, err, "6 errors found")
	for _, want := range []string{
		file + `:5:20: error: WorkspaceTemplate vpc: spec.publishOutputs[0]: the module declares no output "nat_ip"`,
		file + `:10:9: error: WorkspaceTemplate vpc: spec.template.spec.forProvider.module: the module has no resource`,
		file + `:11:24: error: WorkspaceTemplate vpc: spec.template.spec.forProvider.module: line 1, column 14: the function templatestring exists in Terraform 1.9`,
		file + `:11:39: error: WorkspaceTemplate vpc: spec.template.spec.forProvider.module: line 1, column 29: the module has no local.missing`,
		file + `:10:9: error: WorkspaceTemplate vpc: spec.template.spec.forProvider.module: the module has no resource, data source, module or output`,
		file + `:12:11: error: WorkspaceTemplate vpc: spec.template.spec.forProvider.module: line 2, column 1: the block removed exists in Terraform 1.7`,
		file + `:13:17: error: WorkspaceTemplate vpc: spec.template.spec.forProvider.vars[0].key: the module declares no variable "region"`,
	} {
		assert.Contains(t, out, want)
	}
	configuration := filepath.Join(t.TempDir(), "configuration.tf")
	require.NoError(t, os.WriteFile(configuration, []byte("locals { missing = \"x\" }\n"), 0o600))
	_, _, err = run(t, name, "template", "test", "-f", file, "--provider-configuration", configuration)
	require.EqualError(t, err, "5 errors found")

	out, _, err = run(t, name, "validate", file)
	require.NoError(t, err, "what another version of Terraform accepts is not rejected")
	assert.Contains(t, out, file+`:11:24: warning: `)
}
