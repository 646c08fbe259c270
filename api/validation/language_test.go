// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/test/builder"
)

// problems are the warnings about a module, without the path.
func problems(params terraform.WorkspaceParameters) []string {
	spec := &infrav1.WorkspaceTemplateSpec{}
	spec.Template.Spec.ForProvider = params
	module := modules.ParseTemplate(spec)
	return append(module.Language(), module.References()...)
}

func TestWhatIsNewerThanTheBundledTerraformIsAWarning(t *testing.T) {
	for module, want := range map[string]string{
		"removed {\n  from = aws_vpc.old\n}\n": "line 1, column 1: the block removed exists in Terraform 1.7",
		"ephemeral \"aws_secret\" \"a\" {}\n":  "line 1, column 1: the block ephemeral exists in Terraform 1.10",
		"resourcez \"a\" \"b\" {}\n":           "line 1, column 1: Terraform 1.5.7 has no block resourcez",
		"resource \"terraform_data\" \"a\" {}\nimport {\n  for_each = {}\n  to = terraform_data.a\n}\n":                            "line 3, column 3: for_each of import exists in Terraform 1.7",
		"locals {\n  a = \"x\"\n}\nresource \"t\" \"a\" {}\nimport {\n  to = t.a\n  id = local.a\n}\n":                             "line 7, column 3: an import whose id is an expression exists in Terraform 1.6",
		"locals {\n  a = provider::aws::arn_parse(\"x\")\n}\n":                                                                     "line 2, column 7: the function provider::aws::arn_parse of a namespace exists in Terraform 1.8",
		"locals {\n  a = [templatestring(\"x\", {})]\n}\n":                                                                         "line 2, column 8: the function templatestring exists in Terraform 1.9",
		"locals {\n  a = jsonencod({})\n}\n":                                                                                       "line 2, column 7: Terraform 1.5.7 has no function jsonencod",
		"variable \"a\" {\n  ephemeral = true\n}\n":                                                                                "line 2, column 3: ephemeral of variable exists in Terraform 1.10",
		"resource \"aws_db_instance\" \"a\" {\n  password_wo = \"x\"\n}\n":                                                         "line 2, column 3: the write-only argument password_wo exists in Terraform 1.11",
		"provider \"aws\" {\n  for_each = {}\n}\n":                                                                                 "line 2, column 3: for_each of provider exists in OpenTofu 1.9",
		"terraform {\n  required_version = \">= 1.6\"\n}\n":                                                                        "line 2, column 3: required_version does not permit Terraform 1.5.7",
		"variable \"a\" {}\nvariable \"b\" {\n  validation {\n    condition = var.b != var.a\n    error_message = \"x\"\n  }\n}\n": "line 4, column 26: a validation that refers to var.a exists in Terraform 1.9",
	} {
		found := problems(inline(module))
		if assert.Len(t, found, 1, module) {
			assert.True(t, strings.HasPrefix(found[0], want), found[0])
		}
	}
	assert.Len(t, problems(inlineJSON(`{"//": "x", "locals": {"a": 1}, "removed": {}}`)), 1)
	assert.Len(t, problems(inline(strings.Repeat("x {}\n", 2000))), 11, "ten, and the number of the others")
}

func TestReferencesToWhatAModuleDoesNotHaveAreWarnings(t *testing.T) {
	for module, want := range map[string]string{
		"output \"a\" {\n  value = \"${var.regoin}-x\"\n}\n":                                             "line 2, column 14: the module has no var.regoin",
		"output \"a\" {\n  value = [for x in local.list : x.id]\n}\n":                                    "line 2, column 21: the module has no local.list",
		"output \"a\" {\n  value = aws_vpc.this.id\n}\n":                                                 "line 2, column 11: the module has no aws_vpc.this",
		"output \"a\" {\n  value = data.aws_vpc.this[0].id\n}\n":                                         "line 2, column 11: the module has no data.aws_vpc.this",
		"output \"a\" {\n  value = module.vpc.vpc_id\n}\n":                                               "line 2, column 11: the module has no module.vpc",
		"module \"vpc\" {\n  source = \"./vpc\"\n}\n":                                                    "line 2, column 12: the source is a directory",
		"resource \"a_b\" \"c\" {\n  depends_on = [a_b.d]\n}\n":                                          "line 2, column 17: the module has no a_b.d",
		"check \"x\" {\n  assert {\n    condition = data.http.x.ok\n    error_message = \"x\"\n  }\n}\n": "line 3, column 17: the module has no data.http.x",
	} {
		found := problems(inline(module))
		if assert.Len(t, found, 1, module) {
			assert.True(t, strings.HasPrefix(found[0], want), found[0])
		}
	}
}

// valid has everything that must not be taken for a reference to a block.
const valid = `terraform {
  required_version = ">= 1.3, < 2"
  required_providers {
    aws = {
      source                = "hashicorp/aws"
      configuration_aliases = [aws.east]
    }
  }
}
provider "aws" { region = var.region }
variable "region" {
  type = object({ name = optional(string, "x"), list = list(map(any)) })
  validation {
    condition     = can(regex("^[a-z]", var.region.name)) && path.module != ""
    error_message = "${var.region.name} is wrong"
  }
}
locals {
  zones = { for zone in data.aws_availability_zones.all.names : zone => zone.id if zone != terraform.workspace }
}
data "aws_availability_zones" "all" { provider = aws.east }
resource "aws_security_group" "this" {
  for_each = local.zones
  name     = "${each.key}-${WORKSPACE_NAME}"
  dynamic "ingress" {
    for_each = [1]
    content { from_port = ingress.value }
  }
  dynamic "egress" {
    for_each = [1]
    iterator = rule
    content { from_port = rule.value + length(aws_security_group.this) }
  }
  lifecycle {
    ignore_changes = [tags, name]
    precondition {
      condition     = self.name != ""
      error_message = "x"
    }
  }
}
module "eks" {
  source    = "terraform-aws-modules/eks/aws"
  count     = ${count}
  providers = { aws = aws.east }
}
moved {
  from = aws_vpc.gone
  to   = aws_vpc.other
}
check "health" {
  data "http" "this" { url = module.eks[0].endpoint }
  assert {
    condition     = data.http.this.status_code == 200
    error_message = "down"
  }
}
`

func TestModulesOfTheBundledTerraformHaveNoProblems(t *testing.T) {
	assert.Empty(t, problems(inline(valid)))
	configuration := modules.Parse(inline("locals {\n  account = \"1\"\n}\n"))
	assert.Empty(t, modules.Parse(inline("output \"a\" { value = local.account }\n")).References(configuration), "the ProviderConfig declares it")
	assert.Empty(t, problems(inline("resource \"a_b\" \"${name}\" {}\noutput \"a\" { value = a_b.c.id }\n")), "the value may be c")
}

func TestOnlyVariablesAreCheckedWithoutTheProviderConfig(t *testing.T) {
	const module = "variable \"region\" {}\noutput \"a\" { value = [local.a, data.b.c, var.region, var.regoin] }\n"
	assert.Equal(t, []string{"line 2, column 54: the module has no var.regoin. Declare it, or correct the spelling"},
		modules.Parse(inline(module)).Variables())
	assert.Len(t, modules.Parse(inline(module)).References(), 3)
}

func TestAModuleThatWaitsForSubstitutionIsAWarning(t *testing.T) {
	for module, want := range map[string]int{
		`locals { a = "${region}" }`:                                    1,
		`locals { a = "${region} ${region} ${name}" }`:                  2,
		`locals { a = [for region in ["a"] : "${region}"] }`:            0,
		`locals { a = { for k, v in var.b : "${k}" => "${v}" } }`:       0,
		`locals { a = "%{ for region in var.b }${region}%{ endfor }" }`: 0,
		`locals { a = "$${region} ${var.region} ${local.a} ${true}" }`:  0,
		"# ${region}\nlocals { a = 1 }\n":                               0,
		"locals {\n  a = <<EOT\nexport A=${A} B=$${B}\nEOT\n}\n":        1,
	} {
		template := builder.WorkspaceTemplate("vpc", builder.WithModule(module))
		template.Spec.Substitution = infrav1.SubstitutionFields
		found := slices.DeleteFunc(validation.ValidateWorkspaceTemplate(template).Warnings, func(warning string) bool { return !strings.Contains(warning, "is not replaced") })
		assert.Len(t, found, want, module)
		template.Spec.Substitution = infrav1.SubstitutionAll
		assert.NotContains(t, strings.Join(validation.ValidateWorkspaceTemplate(template).Warnings, ""), "is not replaced", module)
	}
}
