// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/test/cputime"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// declared parses a module and returns its variable x.
func declared(t testing.TB, params terraform.WorkspaceParameters) *modules.Variable {
	t.Helper()
	declarations := modules.Parse(params).Declarations()
	require.NotNil(t, declarations, params.Module)
	require.Contains(t, declarations.Variables, "x", params.Module)
	return declarations.Variables["x"]
}

func native(module string) terraform.WorkspaceParameters {
	return terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module}
}

func ofJSON(module string) terraform.WorkspaceParameters {
	return terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module, InlineFormat: terraform.FormatJSON}
}

func ofType(text string) terraform.WorkspaceParameters {
	return native("variable \"x\" {\n  type = " + text + "\n}\n")
}

// accepted are the values that a type, an argument or a validation of variable x accepts, refused are the others with what is wrong. OpenTofu
// decides in the same way.
var pairs = []struct {
	body     string
	accepted []string
	refused  map[string]string
}{
	{"", []string{`"a"`, `[1, "a", {}]`, `null`}, nil},
	{"type = string", []string{`"a"`, `3`, `1.50`, `true`, `null`, `"{}"`}, map[string]string{`[]`: "string required", `{}`: "string required"}},
	{"type = number", []string{`3`, `"3"`, `"1e3"`, `-1.5`}, map[string]string{`true`: "number required", `"a"`: "number required", `""`: "number required", `[1]`: "number required"}},
	{"type = bool", []string{`true`, `"false"`, `"1"`}, map[string]string{`1`: "bool required", `"yes"`: "bool required", `"True"`: "bool required", `{}`: "bool required"}},
	{"type = any", []string{`true`, `[1, "a", [{}]]`}, nil},
	{"type = list(string)", []string{`[]`, `["a", 1, true, null]`}, map[string]string{`"a"`: "list of string required", `{}`: "list of string required", `["a", "b", []]`: "element 2: string required"}},
	{"type = set(number)", []string{`[1, 1]`, `["2"]`}, map[string]string{`["a"]`: "element 0: number required", `{"a": 1}`: "set of number required"}},
	{"type = tuple([string, bool])", []string{`["a", true]`}, map[string]string{`["a"]`: "2 elements required", `["a", true, 1]`: "2 elements required", `["a", 2]`: "element 1: bool required"}},
	{"type = map(list(bool))", []string{`{}`, `{"a": [true]}`}, map[string]string{`[]`: "map of list of bool required", `{"a": true}`: `element "a": list of bool required`, `{"a b": [1]}`: "an element: element 0: bool required"}},
	{"type = map(bool)\nsensitive = true", []string{`{"a": true}`}, map[string]string{`{"a": 1}`: "an element: bool required"}},
	{
		"type = object({ name = string, size = optional(number, 3), tags = optional(map(string)) })",
		[]string{`{"name": "a"}`, `{"name": null, "other": []}`, `{"name": "a", "size": null, "tags": {"b": 1}}`},
		map[string]string{`{}`: `attribute "name" required`, `{"name": "a", "size": "b"}`: `attribute "size": number required`, `[]`: "object required", `"a"`: "object required"},
	},
	{
		"type = list(object({ nodes = optional(map(object({ min = number })), {}) }))",
		[]string{`[{}, {"nodes": {"a": {"min": 1}}}]`},
		map[string]string{`[{}, {"nodes": {"a": {}}}]`: `element 1: attribute "nodes": element "a": attribute "min" required`},
	},
	{"type = list", []string{`["a"]`}, map[string]string{`"a"`: "list of any single type required"}},
	{"type = map", []string{`{"a": "b"}`}, map[string]string{`["a"]`: "map of any single type required"}},
	{"type = string\nnullable = false", []string{`"a"`}, map[string]string{`null`: "must not be null"}},
	{"type = string\nnullable = false\ndefault = \"a\"", []string{`null`}, nil},

	{validation("length(var.x) > 2 && startswith(var.x, \"a\")"), []string{`"abc"`}, map[string]string{`"ab"`: "no", `"bbb"`: "no"}},
	{validation("can(regex(\"^[a-z][a-z0-9-]{1,98}$\", var.x))"), []string{`"ab"`}, map[string]string{`"Ab"`: "no", `""`: "no"}},
	{validation("length(regexall(\"[A-Z]\", var.x)) == 0"), []string{`"ab"`}, map[string]string{`"Ab"`: "no"}},
	{validation("contains([\"small\", \"large\"], var.x)"), []string{`"small"`}, map[string]string{`"medium"`: "no"}},
	{validation("can(cidrhost(var.x, 0))"), []string{`"10.0.0.0/16"`, `"10.0.0.1/8"`, `"fd00::/48"`, `"010.0.0.0/8"`}, map[string]string{`"10.0.0.0"`: "no", `"10.0.0.0/33"`: "no", `"10.0.0/8"`: "no", `"a"`: "no"}},
	{validation("can(cidrhost(var.x, 300))"), []string{`"10.0.0.0/16"`}, map[string]string{`"10.0.0.0"`: "no"}},
	{validation("can(cidrhost(var.x, -256))"), []string{`"10.0.0.0/24"`}, nil},
	{validation("can(cidrnetmask(var.x)) && cidrnetmask(var.x) == \"255.255.0.0\""), []string{`"10.0.0.0/16"`}, map[string]string{`"10.0.0.0/8"`: "no", `"fd00::/48"`: "no"}},
	{validation("can(cidrsubnet(var.x, 8, 255))"), []string{`"10.0.0.0/16"`}, map[string]string{`"10.0.0.0/a"`: "no"}},
	{validation("tonumber(split(\"/\", var.x)[1]) <= 24"), []string{`"10.0.0.0/16"`}, map[string]string{`"10.0.0.0/25"`: "no"}},
	{validation("var.x == null || try(length(var.x) > 1, false)"), []string{`null`, `"ab"`}, map[string]string{`"a"`: "no"}},
	{validation("var.x == null ? true : upper(var.x) == var.x"), []string{`null`, `"AB"`}, map[string]string{`"Ab"`: "no"}},
	{"type = list(string)\n" + validation("alltrue([for z in var.x : can(regex(\"^eu-\", z))]) && length(distinct(var.x)) == length(var.x)"), []string{`[]`, `["eu-1"]`}, map[string]string{`["us-1"]`: "no", `["eu-1", "eu-1"]`: "no"}},
	{"type = list(object({ a = number, b = optional(list(string)) }))\n" + validation("sort(var.x[*].a)[0] == \"1\" ? true : alltrue([for o in var.x : o.a < 3 && (o.b == null ? true : contains(o.b, \"c\"))])"), []string{`[{"a": 2}]`, `[{"a": 1, "b": []}]`}, map[string]string{`[{"a": 3}]`: "no", `[{"a": 2, "b": []}]`: "no"}},
	{"type = map(number)\n" + validation("anytrue([for k, v in var.x : endswith(k, \"s\") && floor(v) == v])"), []string{`{"a": 1, "bs": "2"}`}, map[string]string{`{}`: "no", `{"bs": 2.5}`: "no"}},
	{"type = object({ min = number, max = optional(number) })\n" + validation("var.x.min <= coalesce(var.x.max, 100)"), []string{`{"min": 1}`}, nil},
	{"type = number\n" + validation("var.x >= 1 && var.x <= 10 && floor(var.x) == var.x"), []string{`"3"`}, map[string]string{`0`: "no", `2.5`: "no"}},
	{validation("can(jsondecode(var.x).Version)"), []string{`"{\"Version\": 1}"`}, map[string]string{`"{}"`: "no", `"["`: "no"}},
}

func validation(condition string) string {
	text := "validation {\n condition = " + condition + "\n error_message = \"no\"\n}\n"
	if !strings.Contains(condition, "[for") && !strings.Contains(condition, ".min") && !strings.Contains(condition, "floor") {
		text = "type = string\n" + text
	}
	return text
}

func TestValuesOfVariables(t *testing.T) {
	for _, pair := range pairs {
		variable := declared(t, native("variable \"x\" {\n"+pair.body+"\n}\n"))
		for _, value := range pair.accepted {
			assert.Empty(t, variable.Check(json.RawMessage(value)), "%s of %s", value, pair.body)
		}
		for value, want := range pair.refused {
			assert.Equal(t, want, variable.Check(json.RawMessage(value)), "%s of %s", value, pair.body)
		}
	}
}

// OpenTofu reports values of a wrong type without validations, so each kind of mistake has a run.
func TestOpenTofuDecidesInTheSameWay(t *testing.T) {
	binary, err := binaries.Built(t.Context(), os.Stderr, binaries.Tofu)
	require.NoError(t, err)
	for kind, isOfKind := range map[string]func(problem string) bool{
		"null":       func(problem string) bool { return strings.Contains(problem, "null") },
		"type":       func(problem string) bool { return problem != "no" && !strings.Contains(problem, "null") },
		"validation": func(problem string) bool { return problem == "no" },
	} {
		t.Run(kind, func(t *testing.T) {
			var module strings.Builder
			values := map[string]json.RawMessage{}
			add := func(prefix, body, value string) {
				name := fmt.Sprintf("%s_%d_", prefix, len(values))
				fmt.Fprintf(&module, "variable %q {\n%s\n}\n", name, strings.ReplaceAll(body, "var.x", "var."+name))
				values[name] = json.RawMessage(value)
			}
			for _, pair := range pairs {
				for _, value := range pair.accepted {
					add("accepted", pair.body, value)
				}
				for value, problem := range pair.refused {
					if isOfKind(problem) {
						add("refused", pair.body, value)
					}
				}
			}
			dir := t.TempDir()
			data, err := json.Marshal(values)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "terraform.tfvars.json"), data, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(module.String()), 0o600))
			plan := exec.CommandContext(t.Context(), binary, "plan", "-input=false", "-no-color")
			plan.Dir = dir
			output, err := plan.CombinedOutput()
			require.Error(t, err)
			for name, value := range values {
				if strings.HasPrefix(name, "accepted") == strings.Contains(string(output), "var."+name) {
					t.Errorf("%s: %s\n%s", name, value, output)
				}
			}
		})
	}
}

func TestWhatIsKnownOfAVariable(t *testing.T) {
	for module, want := range map[string]modules.Variable{
		"variable \"x\" {}": {Nullable: true},
		"variable \"x\" {\n type = list(string)\n default = [\n  \"a\",\n ]\n description = \"Zones.\"\n nullable = false\n}": {
			TypeText: "list(string)", Default: `[ "a", ]`, HasDefault: true, Description: "Zones.",
		},
		"variable \"x\" {\n description = <<-EOT\n  One.\n  Two.\n EOT\n default = null\n}":            {Description: "One.\nTwo.\n", HasDefault: true, Default: "null", Nullable: true},
		"variable \"x\" {\n default = \"secret\"\n sensitive = true\n}":                                {HasDefault: true, Sensitive: true, Nullable: true},
		"variable \"x\" {\n default = \"secret\"\n sensitive = !false\n}":                              {HasDefault: true, Sensitive: true, Nullable: true},
		"variable \"x\" {\n default = \"" + strings.Repeat("ä", 100) + "\"\n}":                         {HasDefault: true, Default: `"` + strings.Repeat("ä", 58) + "…", Nullable: true},
		"variable \"x\" {\n type = string\n}\nvariable \"x\" {\n default = 1\n}":                       {TypeText: "string", Nullable: true},
		"variable \"x\" {\n description = upper(\"a\")\n nullable = [for a in [1] : false] == []\n}\n": {Nullable: true},
	} {
		variable := declared(t, native(module))
		assert.Equal(t, "x", variable.Name)
		got := modules.Variable{
			TypeText: variable.TypeText, Description: variable.Description, HasDefault: variable.HasDefault, Default: variable.Default,
			Nullable: variable.Nullable, Sensitive: variable.Sensitive,
		}
		assert.Equal(t, want, got, module)
	}
}

func TestKindsOfTypes(t *testing.T) {
	for text, want := range map[string]string{
		"string": "text", "bool": "", "number": "", "any": "", "list(any)": "document", "set(string)": "document", "tuple([])": "document",
		"map(string)": "document", "object({})": "document", "list": "document", "strin": "", "list(string": "",
	} {
		if strings.Count(text, "(") != strings.Count(text, ")") {
			continue
		}
		variable := declared(t, ofType(text))
		assert.Equal(t, want == "text", variable.IsText(), text)
		assert.Equal(t, want == "document", variable.IsDocument(), text)
	}
}

// hostile has types and validations that take very long, or cannot be known. Any value is accepted, and soon.
func TestWhatCannotBeKnownIsAccepted(t *testing.T) {
	nested := func(level func(inner string) string, inner string, levels int) string {
		for range levels {
			inner = level(inner)
		}
		return inner
	}
	long := `"` + strings.Repeat("a", 300<<10) + `"`
	many := "[" + strings.Repeat("{},", 100_000) + "{}]"
	object := func(inner string) string { return "object({ a = " + inner + " })" }
	for name, row := range map[string]struct{ body, value string }{
		"unknown type":                  {"type = strin", `{}`},
		"quoted type":                   {`type = "string"`, `{}`},
		"element types that may differ": {"type = list(any)", `["a", {}]`},
		"deep type":                     {"type = " + nested(object, "string", 60), nested(func(inner string) string { return `{"a": ` + inner + `}` }, "[]", 60)},
		"default of the wrong type": {
			"type = " + nested(object, "optional("+nested(object, "string", 40)+", "+nested(func(inner string) string { return "{ a = " + inner + " }" }, "[]", 40)+")", 1), `{}`,
		},
		"loops in the default of a type": {"type = object({ a = optional(number, " + nested(func(inner string) string {
			return "[for x in [" + strings.Repeat("1,", 60) + "] : " + inner + "]"
		}, "1", 12) + ") })", `{"a": []}`},
		"digits in the default of a type":    {"type = object({ a = optional(string, 1e99999999) })", `{"a": []}`},
		"digits in the description":          {"description = \"a${1e99999999}\"", `{}`},
		"digits in sensitive":                {"sensitive = \"a${1e99999999}\" == \"\"", `{}`},
		"digits in a value":                  {validation("\"${var.x + 0}\" == \"\""), `"1e99999999"`},
		"digits in a value, escaped":         {validation("\"${var.x + 0}\" == \"\""), `"1\u006599999999"`},
		"digits in a condition":              {validation("tostring(1e99999999) == var.x"), `"a"`},
		"digits from jsondecode":             {validation("\"${jsondecode(var.x) + 0}\" == \"\""), `"\"1\\u006599999999\""`},
		"concatenation":                      {validation("\"1e${var.x}\" + 0 == 0"), `"a"`},
		"nested try":                         {validation(nested(func(inner string) string { return "try(" + inner + ")" }, "var.x == \"\"", 60)), `"a"`},
		"nested loop":                        {"type = list(number)\n" + validation("[for a in [for b in var.x : b] : a] == []"), `[1]`},
		"variable in a loop":                 {"type = list(number)\n" + validation("alltrue([for a in var.x : a == var.x])"), `[1]`},
		"another variable":                   {validation("var.y == var.x"), `"a"`},
		"all variables":                      {validation("var == var.x"), `"a"`},
		"a function of OpenTofu":             {validation("can(core::length(var.x))"), `"a"`},
		"an unknown function":                {validation("can(nothing(var.x))"), `"a"`},
		"a function that is not evaluated":   {validation("can(file(var.x))"), `"a"`},
		"an error":                           {validation("length(var.x[0]) == 1"), `"a"`},
		"no bool":                            {validation("[var.x]"), `"a"`},
		"a pattern that is not a literal":    {validation("can(regex(var.x, var.x))"), `"["`},
		"a pattern that is missing":          {validation("can(regex()) || !can(var.x)"), `"a"`},
		"a large pattern":                    {validation("can(regex(\"" + strings.Repeat("(?:a?){1000}", 100) + "$\", var.x))"), `"` + strings.Repeat("a", 60<<10) + `b"`},
		"all matches of a large value":       {validation("length(regexall(\".*b|.\", var.x)) == 0"), long},
		"distinct elements of a large value": {validation("length(distinct(regexall(\".\", var.x))) == 0"), long},
		"many elements":                      {"type = list(object({}))\n" + validation("alltrue([for o in var.x : o == []])"), many},
		"defaults that multiply": {"type = list(" + nested(func(inner string) string {
			return "object({ a = optional(list(" + inner + "), [" + strings.Repeat("{},", 100) + "]) })"
		}, "object({ b = optional(number, 1) })", 6) + ")\n" + validation("alltrue([for o in var.x : o == null])"), `[{}]`},
		"an address with leading zeros": {validation("!can(cidrhost(var.x, 0))"), `"010.0.0.0/8"`},
	} {
		t.Run(name, func(t *testing.T) {
			took := cputime.Of(t, func() {
				variable := declared(t, native("variable \"x\" {\n"+row.body+"\n}\n"))
				assert.Empty(t, variable.Check(json.RawMessage(row.value)))
			})
			assert.Less(t, took, 5*time.Second)
		})
	}
}

func TestArgumentsAreNotEvaluated(t *testing.T) {
	module := modules.Parse(native("terraform {\n  required_version = \"a${1e99999999}\"\n}\noutput \"a\" {\n  sensitive = \"a${1e99999999}\" == \"\"\n}\noutput \"b\" {\n  sensitive = true\n}\n"))
	assert.Equal(t, map[string]bool{"a": false, "b": true}, module.Declarations().Outputs)
	assert.Empty(t, module.Language())
}

func TestDeclarationsAreCached(t *testing.T) {
	params := native("variable \"cached\" {}")
	assert.Same(t, modules.Parse(params).Declarations(), modules.Parse(params).Declarations())
	params.Module += "}"
	assert.Nil(t, modules.Parse(params).Declarations())
	assert.NotEmpty(t, modules.ValidateModule(params, nil), "that it is not valid is cached, too")
}

func TestVariablesOfModulesInJSON(t *testing.T) {
	module := func(x string) terraform.WorkspaceParameters { return ofJSON(`{"variable": {"x": ` + x + `}}`) }
	variable := declared(t, module(`{"type": "list(object({a = optional(number)}))", "default": [{"a": 1}], "description": "A ${b}.", "nullable": false}`))
	assert.Equal(t, []any{"list(object({a = optional(number)}))", `[{"a": 1}]`, "A ${b}."}, []any{variable.TypeText, variable.Default, variable.Description})
	assert.True(t, variable.IsDocument())
	assert.Equal(t, `element 0: attribute "a": number required`, variable.Check(json.RawMessage(`[{"a": true}]`)))

	assert.True(t, declared(t, module(`{"type": "string", "validation": [{"condition": "${var.x == 1}", "error_message": "no"}]}`)).IsText())
	assert.Empty(t, declared(t, module(`{"type": "string", "validation": [{"condition": "${var.x == 1}", "error_message": "no"}]}`)).Check(json.RawMessage(`"a"`)))
	assert.Empty(t, declared(t, module(`{"type": ["string"]}`)).Check(json.RawMessage(`{}`)))
	assert.Empty(t, declared(t, module(`{"type": "`+strings.Repeat("(", 30_000)+`"}`)).Check(json.RawMessage(`{}`)), "the parser is recursive")
}

func TestPlaceholdersMakeATypeUnknown(t *testing.T) {
	spec := &infrav1.WorkspaceTemplateSpec{Substitution: infrav1.SubstitutionAll}
	spec.Template.Spec.ForProvider = native(`variable "x" {
  type    = ${type}
  default = ${default}
}
variable "y" {
  type = string
  validation {
    condition     = var.y == "${y}"
    error_message = "y"
  }
  validation {
    condition     = length(var.y) > 1
    error_message = "not ${y}"
  }
}
variable "${z}" {}
`)
	declarations := modules.ParseTemplate(spec).Declarations()
	require.NotNil(t, declarations)
	assert.True(t, declarations.Incomplete)
	x := declarations.Variables["x"]
	assert.Equal(t, []any{"", "", true, false}, []any{x.TypeText, x.Default, x.HasDefault, x.IsText()})
	assert.Empty(t, x.Check(json.RawMessage(`[]`)))
	assert.Empty(t, declarations.Variables["y"].Check(json.RawMessage(`"ab"`)))
	assert.Equal(t, "does not meet the condition of a validation in the module", declarations.Variables["y"].Check(json.RawMessage(`"a"`)))
}

func FuzzCheckNeverPanicsAndNeverQuotesTheValue(f *testing.F) {
	for _, pair := range pairs {
		for _, value := range pair.accepted {
			f.Add(pair.body, value)
		}
		for value := range pair.refused {
			f.Add(pair.body, value)
		}
	}
	f.Fuzz(func(t *testing.T, body, value string) {
		const secret = "correcthorse"
		for _, params := range []terraform.WorkspaceParameters{native("variable \"x\" {\n" + body + "\n}\n"), ofJSON(`{"variable": {"x": ` + body + `}}`)} {
			declarations := modules.Parse(params).Declarations()
			if declarations == nil || strings.Contains(body, secret) {
				continue
			}
			for _, variable := range declarations.Variables {
				variable.Check(json.RawMessage(value))
				var decoded any
				if json.Unmarshal([]byte(value), &decoded) != nil {
					continue
				}
				secrets, err := json.Marshal(withTexts(decoded, secret))
				require.NoError(t, err)
				assert.NotContains(t, variable.Check(secrets), secret)
			}
		}
	})
}

// withTexts replaces all strings of a decoded JSON value, but not the keys of objects.
func withTexts(value any, text string) any {
	switch value := value.(type) {
	case string:
		return text
	case []any:
		for i := range value {
			value[i] = withTexts(value[i], text)
		}
	case map[string]any:
		for key := range value {
			value[key] = withTexts(value[key], text)
		}
	}
	return value
}
