// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/provider/executor/tofu"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// both opens a module with OpenTofu and with the scripted executor.
func both(t *testing.T, m executor.Module) map[string]executor.Executor {
	t.Helper()
	path, err := binaries.Built(t.Context(), os.Stderr, binaries.Tofu)
	require.NoError(t, err)
	pretended, err := scripted.New(t.TempDir())
	require.NoError(t, err)
	m.UID, m.Key = "uid", key
	executors := map[string]executor.Executor{}
	for name, factory := range map[string]executor.Factory{
		"opentofu": tofu.New(tofu.Options{Binary: path, WorkDir: t.TempDir()}), "scripted": pretended,
	} {
		executors[name], err = factory.Open(t.Context(), m)
		require.NoError(t, err)
	}
	return executors
}

// life takes an executor through init, plan and apply, and returns the outputs or the summary of the first error.
func life(t *testing.T, e executor.Executor, o executor.RunOptions) ([]executor.Output, string) {
	t.Helper()
	steps := []func() error{
		func() error { return e.Init(t.Context(), nil) },
		func() error { return e.SelectWorkspace(t.Context(), "ours") },
		func() error { _, err := e.Plan(t.Context(), o); return err },
		func() error { return e.Apply(t.Context(), o) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			match := regexp.MustCompile(`Summary: (.*)\. To see`).FindStringSubmatch(err.Error())
			require.NotNil(t, match, err.Error())
			return nil, match[1]
		}
	}
	outputs, err := e.Outputs(t.Context())
	require.NoError(t, err)
	return outputs, ""
}

func TestOutputsAreThoseOfOpenTofu(t *testing.T) {
	m := executor.Module{
		Files: map[string][]byte{"main.tf": []byte(`
variable "text" { type = string }
variable "number" { type = number }
variable "flag" {
  type    = bool
  default = true
}
variable "list" { type = list(string) }
variable "object" {
  type = object({ name = string, size = optional(number, 3) })
}
variable "environment" {}
locals {
  seed  = sha256("${var.text}/${var.environment}")
  inner = { for k, v in { a = 1 } : upper(k) => v + var.number }
}
resource "terraform_data" "first" {
  input            = { id = "vpc-${substr(local.seed, 0, 8)}", zones = [for z in var.list : "${local.region}${z}"] }
  triggers_replace = var.flag
}
resource "terraform_data" "second" { input = terraform_data.first.output.id }
output "text" { value = terraform_data.second.output }
output "trigger" { value = terraform_data.first.triggers_replace }
output "zones" { value = terraform_data.first.output.zones }
output "object" { value = var.object }
output "inner" { value = local.inner }
output "none" { value = try(file("/nowhere"), null) }
output "document" {
  value = <<-EOT
    id = ${jsonencode(terraform_data.second.output)}
  EOT
}
output "password" {
  value     = base64encode(var.text)
  sensitive = true
}
`)},
		EntrypointFiles: map[string][]byte{"provider.tf": []byte(`locals { region = "eu-" }`), "credentials": []byte("{{")},
		Env:             []string{"TF_VAR_environment=of the process", "TF_VAR_number=7", "TF_VAR_other=x"},
	}
	o := executor.RunOptions{
		Vars: []executor.Var{{Key: "text", Value: "a b"}, {Key: "list", Value: `["a"]`}, {Key: "number", Value: "1"}},
		VarFiles: []executor.VarFile{
			{Data: []byte("number = 2\nobject = { name = \"x\" }\nunknown = 1")},
			{JSON: true, Data: []byte(`{"number": "3", "list": ["a", "b"]}`)},
		},
	}
	outputs := map[string][]executor.Output{}
	for name, e := range both(t, m) {
		var problem string
		outputs[name], problem = life(t, e, o)
		require.Empty(t, problem, name)
	}
	require.NotEmpty(t, outputs["opentofu"])
	require.Equal(t, outputs["opentofu"], outputs["scripted"])
}

func TestRefusalsAreThoseOfOpenTofu(t *testing.T) {
	typed := `variable "v" { type = object({ zones = list(string) }) }`
	for name, tc := range map[string]struct {
		module  string
		options executor.RunOptions
		want    string
	}{
		"no HCL":              {module: `resource "terraform_data" {`, want: "Unclosed configuration block"},
		"no value":            {module: `variable "v" {}`, want: "No value for required variable"},
		"wrong type":          {module: typed, options: executor.RunOptions{VarFiles: []executor.VarFile{{JSON: true, Data: []byte(`{"v":"x"}`)}}}, want: "Invalid value for input variable"},
		"no expression":       {module: typed, options: executor.RunOptions{Vars: []executor.Var{{Key: "v", Value: "x"}}}, want: "Variables not allowed"},
		"undeclared variable": {module: `output "o" { value = var.v }`, want: "Reference to undeclared input variable"},
		"undeclared resource": {module: `output "o" { value = terraform_data.v }`, want: "Reference to undeclared resource"},
		"surplus variable": {
			module: `output "o" { value = 1 }`, options: executor.RunOptions{Vars: []executor.Var{{Key: "v", Value: "x"}}},
			want: "Value for undeclared variable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for name, e := range both(t, executor.Module{Files: map[string][]byte{"main.tf": []byte(tc.module)}}) {
				_, problem := life(t, e, tc.options)
				require.Equal(t, tc.want, problem, name)
			}
		})
	}
}

func TestUnknownOutputsGetAStableValue(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, `
resource "aws_vpc" "this" { cidr_block = "10.0.0.0/16" }
module "eks" { source = "registry.example.com/eks" }
output "arn" { value = aws_vpc.this.arn }
output "range" { value = aws_vpc.this.cidr_block }
output "endpoint" { value = module.eks.endpoint }
`)
	first, problem := life(t, e, none)
	require.Empty(t, problem)
	require.Len(t, first, 3)
	require.Regexp(t, `^arn-[0-9a-f]{8}$`, first[0].Value)
	require.Regexp(t, `^endpoint-[0-9a-f]{8}$`, first[1].Value)
	require.Equal(t, "10.0.0.0/16", first[2].Value)
	again, problem := life(t, e, none)
	require.Empty(t, problem)
	require.Equal(t, first, again)
	resources, err := e.Resources(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"aws_vpc.this", "module.eks"}, resources)
}

func TestTheSandboxVPCHasItsOutputs(t *testing.T) {
	data, err := os.ReadFile("../../../../config/samples/sandbox/vpc-template.yaml")
	require.NoError(t, err)
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(t, yaml.UnmarshalStrict(data, template))
	o := executor.RunOptions{VarFiles: []executor.VarFile{{JSON: true, Data: []byte(`{"cluster_name": "demo", "vpc_name": "demo", "region": "region"}`)}}}
	outputs, problem := life(t, open(t, t.TempDir(), template.Spec.Template.Spec.ForProvider.Module), o)
	require.Empty(t, problem)
	require.Len(t, outputs, 3)
	require.Equal(t, []any{"regiona", "regionb", "regionc"}, outputs[0].Value)
	require.Regexp(t, `^vpc-[0-9a-f]{17}$`, outputs[2].Value)
}
