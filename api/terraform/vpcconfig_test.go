// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
)

func TestValidVPCConfigs(t *testing.T) {
	for name, text := range map[string]string{
		"as the design has it":       "vpc_id = \"vpc-xxx\"\nprivate_subnets = [\"subnet-xxx\", \"subnet-yyy\"]\n",
		"with Windows' lines":        "vpc_id = \"vpc-xxx\"\r\nprivate_subnets = [\"subnet-xxx\"]\r\n",
		"without a last line end":    `private_subnets = ["subnet-xxx"]`,
		"a list on several lines":    "private_subnets = [\n  \"subnet-xxx\", # one\n  \"subnet-yyy\", // two\n]\n",
		"neither of the two":         "subnets = [\"subnet-xxx\"]\n",
		"only the VPC":               "\n\n  vpc_id = \"vpc-xxx\"\n",
		"other kinds of values":      "a = 1\nb = -1.5e3\nc = true\nd = null\ne = { f = \"g\", \"h\" : [1, {}] }\ni = []\n",
		"a string over lines":        "vpc_id = <<-EOT\n  vpc-xxx\nEOT\n",
		"escaped template sequences": "a = \"$${b}\"\nc = \"%%{d}\"\n",
		"brackets in a string":       "a = \"" + strings.Repeat("[({", 2000) + "\"\n",
		"brackets in a comment":      "# " + strings.Repeat("[({${", 2000) + "\na = 1\n",
		"JSON":                       `{"vpc_id": "vpc-xxx", "private_subnets": ["subnet-xxx", "subnet-yyy"]}`,
		"JSON with more":             "\n {\n\"vpc_id\": \"${a}\", \"b\": {\"vpc_id\": 1}, \"c\": [[1e999]], \"d\": null}\n",
		"JSON in other languages":    `{"名": "東\u0600"}`,
		"as many lists as can be":    "a = [" + strings.Repeat("[],", 999) + "]\n",
		"JSON that is deep":          `{"a": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, terraform.CheckVPCConfig(text)) })
	}
}

// secret is part of the values: no error may quote it.
const secret = "hunter22"

func TestInvalidVPCConfigs(t *testing.T) {
	const (
		literal = "not a literal; write the value itself"
		lines   = "write each variable on a line of its own"
		deep    = "more than 1000 lists and objects"
	)
	for name, row := range map[string]struct{ text, want string }{
		"nothing":                {"", "it is empty; write a file of Terraform variables"},
		"blanks":                 {" \n\t\n", "it is empty"},
		"only comments":          {"# vpc_id = \"hunter22\"\n", "it has no variables; write vpc_id"},
		"no variables in JSON":   {"{}", "it has no variables"},
		"too much":               {"a = \"" + strings.Repeat("hunter22", 5000) + "\"", "it has more than 32768 bytes"},
		"no text":                {"a = 1\nb = \"hunter22\xff\"\n", "line 2: the text is not UTF-8; write it as UTF-8"},
		"an ID and nothing else": {"hunter22", "line 1: Argument or block definition required; " + lines},
		"no value":               {"a = 1\nvpc_id =\n", "line 2: Invalid expression; " + lines},
		"a colon":                {"vpc_id: \"hunter22\"\n", "line 1: Argument or block definition required; " + lines},
		"an open string":         {"vpc_id = \"hunter22\n", "line 1: "},
		"an open list":           {"private_subnets = [\"hunter22\",\n", "line 2: "},
		"two on a line":          {"vpc_id = \"hunter22\" b = 1\n", "line 1: Missing newline after argument; " + lines},
		"twice":                  {"vpc_id = \"hunter22\"\nvpc_id = \"hunter22\"\n", "line 2: Attribute redefined; " + lines},
		"a block":                {"a = 1\nhunter22 {\n  vpc_id = \"hunter22\"\n}\n", "line 2: a block; write variables only"},
		"a block with a label":   {"variable \"hunter22\" {\n}\n", "line 1: a block; write variables only"},
		"a reference":            {"vpc_id = hunter22\n", "line 1: " + literal},
		"a longer reference":     {"a = 1\nb = [{ c = var.hunter22 }]\n", "line 2: " + literal},
		"a reference by index":   {"a = b[0]\n", "line 1: " + literal},
		"a key that is one":      {"a = { b.c = \"hunter22\" }\n", "line 1: " + literal},
		"a call":                 {"private_subnets = split(\",\", \"hunter22\")\n", "line 1: " + literal},
		"a template":             {"vpc_id = \"hunter22${a}\"\n", "line 1: " + literal},
		"a directive":            {"vpc_id = \"%{if true}hunter22%{endif}\"\n", "line 1: " + literal},
		"a sum":                  {"a = 1\n\nb = 1 + 1\n", "line 3: " + literal},
		"a difference":           {"a = 1 - a\n", "line 1: " + literal},
		"a choice":               {"a = true ? \"hunter22\" : \"\"\n", "line 1: " + literal},
		"a loop":                 {"a = [for b in [\"hunter22\"] : b]\n", "line 1: " + literal},
		"a splat":                {"a = b[*].c\n", "line 1: " + literal},
		"a negation":             {"a = !true\n", "line 1: " + literal},
		"minus a string":         {"a = -\"hunter22\"\n", "line 1: " + literal},
		"a key without a value":  {"a = { (null) = 1 }\n", "line 1: " + literal},
		"lists without end":      {"a = 1\nb = " + strings.Repeat("[", 30000), "line 2: " + deep},
		"objects without end":    {"a = " + strings.Repeat("{a=", 10000), "line 1: " + deep},
		"blocks without end":     {strings.Repeat("a {\n", 7000), "line 1001: " + deep},
		"calls without end":      {"a = " + strings.Repeat("f(", 15000), "line 1: " + literal},
		"templates without end":  {"a = " + strings.Repeat(`"${`, 10000), "line 1: " + literal},
		"minuses without end":    {"a = " + strings.Repeat("-", 30000), "line 1: " + literal},
		"choices without end":    {"a = " + strings.Repeat("a?", 15000), "line 1: " + literal},

		"a VPC that is empty":      {"vpc_id = \"\"\n", `line 1: vpc_id must be a non-empty string: write the ID of the VPC, as in vpc_id = "vpc-..."`},
		"a VPC that is blank":      {"a = 1\nvpc_id = \"  \"\n", "line 2: vpc_id must be a non-empty string"},
		"a VPC that is null":       {"vpc_id = null\n", "line 1: vpc_id must be a non-empty string"},
		"a VPC that is a number":   {"vpc_id = 1\n", "line 1: vpc_id must be a non-empty string"},
		"VPCs":                     {"vpc_id = [\"hunter22\"]\n", "line 1: vpc_id must be a non-empty string"},
		"one subnet":               {"\nprivate_subnets = \"hunter22\"\n", `line 2: private_subnets must be a list; write the IDs of the private subnets, as in private_subnets = ["subnet-...", "subnet-..."]`},
		"subnets in a string":      {"private_subnets = \"[\\\"hunter22\\\"]\"\n", "line 1: private_subnets must be a list"},
		"subnets that are null":    {"private_subnets = null\n", "line 1: private_subnets must be a list"},
		"subnets by name":          {"private_subnets = { a = \"hunter22\" }\n", "line 1: private_subnets must be a list"},
		"no subnets":               {"private_subnets = [\n]\n", "line 1: private_subnets is empty; write the IDs"},
		"a subnet that is empty":   {"private_subnets = [\"hunter22\", \"\"]\n", "line 1: private_subnets must be a list of non-empty strings; write the IDs"},
		"a subnet that is null":    {"private_subnets = [\"hunter22\", null]\n", "line 1: private_subnets must be a list of non-empty strings"},
		"a subnet that is an item": {"private_subnets = [{ id = \"hunter22\" }]\n", "line 1: private_subnets must be a list of non-empty strings"},

		"JSON that ends too early":   {"{\n\"vpc_id\": \"hunter22\"", "line 2: not JSON; correct the JSON, or write HCL"},
		"JSON with a comma too many": {"{\n\"vpc_id\": \"hunter22\",\n}", "line 3: not JSON"},
		"more after JSON":            {"{\"a\": \"hunter22\"}\nb", "line 2: not JSON"},
		"JSON twice":                 {"{\"vpc_id\": \"hunter22\",\n \"vpc_id\": \"hunter22\"}", "line 2: the variable is set twice; remove one"},
		"JSON without end":           {"{\"a\":\n" + strings.Repeat("[", 30000), "line 2: not JSON"},
		"JSON, no VPC":               {"{\n\n\"vpc_id\": {\"hunter22\": 1}}", "line 3: vpc_id must be a non-empty string"},
		"JSON, null for subnets":     {"{\"private_subnets\": null}", "line 1: private_subnets must be a list"},
		"JSON, no subnets":           {"{\"private_subnets\": []}", "line 1: private_subnets is empty"},
		"JSON, two kinds of subnets": {"{\"private_subnets\": [\"hunter22\", [\"hunter22\"]]}", "line 1: private_subnets must be a list of non-empty strings"},
		"JSON, an empty subnet":      {"{\"a\": [\n],\n\"private_subnets\": [\n\"hunter22\", \"\"]}", "line 3: private_subnets must be a list of non-empty strings"},
		"JSON, numbers for subnets":  {"{\"private_subnets\": [1e999999999]}", "line 1: private_subnets must be a list of non-empty strings"},
		"a list in JSON":             {"[{\"vpc_id\": \"hunter22\"}]", "line 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := terraform.CheckVPCConfig(row.text)
			require.ErrorContains(t, err, row.want)
			assert.NotContains(t, err.Error(), secret)
			assert.Less(t, len(err.Error()), 250)
		})
	}
}

// Terraform can read every accepted text.
func FuzzCheckVPCConfig(f *testing.F) {
	for _, text := range []string{
		"vpc_id = \"subnet\"\nprivate_subnets = [\"subnet-1\", \"subnet-2\"]\n", "a = { b = [1, -2, true, null], \"c\" : <<EOT\nsubnet\nEOT\n}\n",
		"subnet \"subnet\" {\n}\n", "a = [for b in c : d...]\n", "a = \"$${b}\" # subnet\n", "private_subnets = [\"subnet\"", "a = -1\n", "\ufeffa = 1\n",
		"a = f::g()\nb = [*]\n", `{"vpc_id": "subnet", "private_subnets": ["subnet", null], "a": 1e9}`, `{"a": {"a": 1, "a": 2}, "a": 3}`, `{"subnet": "\u0600"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, "subnet-", secret)
		if err := terraform.CheckVPCConfig(text); err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		if strings.TrimSpace(text)[0] == '{' {
			return
		}
		// This is how Terraform reads a file of variables.
		file, diags := hclparse.NewParser().ParseHCL([]byte(text), "terraform.tfvars")
		require.False(t, diags.HasErrors(), diags)
		attributes, diags := file.Body.JustAttributes()
		require.False(t, diags.HasErrors(), diags)
		require.NotEmpty(t, attributes)
		for _, attribute := range attributes {
			value, diags := attribute.Expr.Value(nil)
			require.False(t, diags.HasErrors(), diags)
			require.True(t, value.IsWhollyKnown(), "%#v", value)
		}
	})
}
