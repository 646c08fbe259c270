// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"k8s.io/apimachinery/pkg/util/sets"
)

// BundledTerraform is the version of Terraform that provider-terraform bundles: the last one with a license that permits it. Another image of the
// provider may have OpenTofu, so what is newer is a warning only.
const BundledTerraform = "1.5.7"

// language is what Terraform modules can have. The values of what BundledTerraform does not have are where it exists.
type language struct {
	blockTypes, newerFunctions, newerArguments map[string]string
	functions                                  sets.Set[string]
}

func newLanguage() language {
	return language{blockTypes(), newerFunctions(), newerArguments(), sets.New(strings.Fields(functions)...)}
}

// blockTypes are the blocks of a module in BundledTerraform, and newer ones.
func blockTypes() map[string]string {
	return map[string]string{
		"terraform": "", "provider": "", "variable": "", "locals": "", "output": "", "resource": "", "data": "", "module": "", "moved": "", "import": "", "check": "",
		"removed": "Terraform 1.7", "ephemeral": "Terraform 1.10", "action": "Terraform 1.14",
	}
}

// newerFunctions are the functions that BundledTerraform does not have.
func newerFunctions() map[string]string {
	return map[string]string{"issensitive": "Terraform 1.8", "templatestring": "Terraform 1.9", "ephemeralasnull": "Terraform 1.10"}
}

// functions are those of BundledTerraform.
const functions = `abs abspath alltrue anytrue base64decode base64encode base64gzip base64sha256 base64sha512 basename bcrypt can ceil chomp chunklist
cidrhost cidrnetmask cidrsubnet cidrsubnets coalesce coalescelist compact concat contains csvdecode dirname distinct element endswith file filebase64
filebase64sha256 filebase64sha512 fileexists filemd5 fileset filesha1 filesha256 filesha512 flatten floor format formatdate formatlist indent index join
jsondecode jsonencode keys length list log lookup lower map matchkeys max md5 merge min nonsensitive one parseint pathexpand plantimestamp pow range regex
regexall replace reverse rsadecrypt sensitive setintersection setproduct setsubtract setunion sha1 sha256 sha512 signum slice sort split startswith
strcontains strrev substr sum templatefile textdecodebase64 textencodebase64 timeadd timecmp timestamp title tobool tolist tomap tonumber toset tostring
transpose trim trimprefix trimspace trimsuffix try upper urlencode uuid uuidv5 values yamldecode yamlencode zipmap`

// newerArguments are the arguments that blocks do not have in BundledTerraform, by block and argument.
func newerArguments() map[string]string {
	return map[string]string{
		"import for_each": "Terraform 1.7", "import identity": "Terraform 1.12",
		"variable ephemeral": "Terraform 1.10", "output ephemeral": "Terraform 1.10", "variable deprecated": "OpenTofu 1.10", "output deprecated": "OpenTofu 1.10",
		"provider for_each": "OpenTofu 1.9", "lifecycle enabled": "OpenTofu 1.11", "lifecycle destroy": "OpenTofu 1.12",
		"lifecycle action_trigger": "Terraform 1.14", "terraform encryption": "OpenTofu 1.7",
	}
}

// writeOnly is the suffix of the names of write-only arguments of resources.
const writeOnly = "_wo"

// newer reports what needs a newer version than BundledTerraform.
func (s *scan) newer(what, since string, at hcl.Range) {
	s.add(at, "%s exists in %s and later, and provider-terraform has Terraform %s. Remove it, or use an image of the provider with a newer version", what, since, BundledTerraform)
}

// blockType checks the type of a block of the module.
func (s *scan) blockType(name string, at hcl.Range) {
	if s.language == nil {
		return
	}
	since, known := s.language.blockTypes[name]
	switch {
	case strings.Contains(name, placeholderMark), known && since == "":
	case known:
		s.newer("the block "+name, since, at)
	default:
		s.add(at, "Terraform %s has no block %s. Correct the spelling, or remove the block", BundledTerraform, name)
	}
}

// argument checks an argument of a block. resource is true within a resource.
func (s *scan) argument(block, name string, resource bool, attribute *hclsyntax.Attribute) {
	if s.language == nil {
		return
	}
	s.newerArgument(block, name, attribute.NameRange)
	switch {
	case resource && strings.HasSuffix(name, writeOnly):
		s.newer("the write-only argument "+name, "Terraform 1.11", attribute.NameRange)
	case block == "terraform" && name == "required_version":
		s.requiredVersion(attribute)
	case block == "import" && name == "id":
		s.importID(attribute)
	}
}

// newerArgument checks the name of an argument of a block, or of a block in it.
func (s *scan) newerArgument(block, name string, at hcl.Range) {
	if s.language == nil {
		return
	}
	if since := s.language.newerArguments[block+" "+name]; since != "" {
		s.newer(fmt.Sprintf("%s of %s", name, block), since, at)
	}
}

// function checks the name of a function.
func (s *scan) function(call *hclsyntax.FunctionCallExpr) {
	since := s.language.newerFunctions[call.Name]
	switch {
	case strings.Contains(call.Name, "::"):
		s.newer(fmt.Sprintf("the function %s of a namespace", call.Name), "Terraform 1.8", call.NameRange)
	case since != "":
		s.newer("the function "+call.Name, since, call.NameRange)
	case !strings.Contains(call.Name, placeholderMark) && !s.language.functions.Has(call.Name):
		s.add(call.NameRange, "Terraform %s has no function %s. Correct the spelling, or use another function", BundledTerraform, call.Name)
	}
}

// importID checks the ID of an import block.
func (s *scan) importID(attribute *hclsyntax.Attribute) {
	if len(hclsyntax.Variables(attribute.Expr)) > 0 {
		s.newer("an import whose id is an expression", "Terraform 1.6", attribute.NameRange)
	}
}

// requiredVersion checks that terraform.required_version permits BundledTerraform.
func (s *scan) requiredVersion(attribute *hclsyntax.Attribute) {
	var text string
	where := attribute.Expr.Range()
	if where.End.Byte-where.Start.Byte > literalSize || gohcl.DecodeExpression(attribute.Expr, nil, &text).HasErrors() {
		return
	}
	constraints, err := version.NewConstraint(text)
	if err == nil && !constraints.Check(version.Must(version.NewVersion(BundledTerraform))) {
		s.add(attribute.NameRange, "required_version does not permit Terraform %s, which provider-terraform has. Permit it, or use an image of the provider with another version", BundledTerraform)
	}
}
