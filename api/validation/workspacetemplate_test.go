// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

const templateSpec = "spec.template.spec."

// templateRow is a template, and the expected findings.
type templateRow struct {
	option   builder.Option
	errors   []finding
	warnings []string
}

func testTemplates(t *testing.T, rows map[string]templateRow) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			findings := validation.ValidateWorkspaceTemplate(builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"), row.option))
			assertRefused(t, findings.Errors, row.errors...)
			assertWarned(t, findings.Warnings, row.warnings...)
		})
	}
}

// provider-terraform takes a Workspace without resources and outputs for one that does not exist, and creates it indefinitely.
func TestAModuleThatHasNothingToCreateIsAWarning(t *testing.T) {
	for module, nothing := range map[string]bool{
		"": true, "# nothing": true, "variable \"a\" {}\nlocals { b = 1 }\nterraform {}": true, "resource \"terraform_data\" \"a\" {}": false, "output \"a\" { value = 1 }": false,
		"module \"a\" { source = \"x\" }": false, "data \"aws_region\" \"a\" {}": false, "not HCL": false,
	} {
		findings := validation.ValidateWorkspaceTemplate(builder.WorkspaceTemplate("vpc", builder.WithModule(module)))
		assert.Equal(t, nothing, strings.Contains(fmt.Sprint(findings.Warnings), "has no resource, data source, module or output"), module)
	}
	inJSON := builder.WorkspaceTemplate("vpc", builder.WithModule(`{"output": {"a": {"value": 1}}}`), builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.InlineFormat = terraform.FormatJSON }))
	assert.NotContains(t, fmt.Sprint(validation.ValidateWorkspaceTemplate(inJSON).Warnings), "has no resource")
}

func with(change func(*infrav1.WorkspaceTemplateSpec)) builder.Option {
	return builder.With(func(template *infrav1.WorkspaceTemplate) { change(&template.Spec) })
}

func from(source terraform.Source, module string) builder.Option {
	return ofParameters(terraform.WorkspaceParameters{Source: source, Module: module})
}

func TestSourcesOfAModule(t *testing.T) {
	flux := []finding{{templateSpec + "forProvider.module", field.ErrorTypeInvalid, "has the form Kind::namespace/name"}}
	testTemplates(t, map[string]templateRow{
		"a remote one":                        {option: from("Remote", "git::https://example.com/modules.git//vpc?ref=v1")},
		"remote without an address":           {option: from("Remote", " "), errors: []finding{{templateSpec + "forProvider.module", field.ErrorTypeRequired, "set the address of the module"}}},
		"an empty inline one":                 {option: from("Inline", "")},
		"one from Flux":                       {option: from("Flux", "OCIRepository::shared/modules")},
		"one from Flux of a kind by variable": {option: from("Flux", "${kind}::shared/modules")},
		"one from Flux by variable":           {option: from("Flux", "${source}")},
		"Flux without a kind":                 {option: from("Flux", "shared/modules"), errors: flux},
		"Flux without a namespace":            {option: from("Flux", "GitRepository::modules"), errors: flux},
		"a bucket of Flux":                    {option: from("Flux", "Bucket::shared/modules"), errors: []finding{{templateSpec + "forProvider.module", field.ErrorTypeInvalid, "provider-terraform reads no Bucket"}}},
		"Flux with a path":                    {option: from("Flux", "GitRepository::shared/modules/vpc"), errors: flux},
		"Flux with one colon":                 {option: from("Flux", "GitRepository:shared/modules"), errors: flux},
	})
}

func TestFieldsOfATemplate(t *testing.T) {
	allow := func(names ...string) builder.Option {
		return with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: names}
		})
	}
	file := func(file terraform.VarFile) builder.Option {
		return builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.VarFiles = []terraform.VarFile{file} })
	}
	kind := func(scope terraform.Scope, kind string) builder.Option {
		return with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.WorkspaceScope = scope
			spec.Template.Spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: "aws", Kind: kind}
		})
	}
	key := &terraform.KeyReference{Name: "network", Key: "vpc"}
	noName := func(i string) finding {
		return finding{"spec.allowedNamespaces.names[" + i + "]", field.ErrorTypeInvalid, "is not a valid namespace name"}
	}
	testTemplates(t, map[string]templateRow{
		"allowed namespaces":      {option: allow("team", "*")},
		"a pattern":               {option: allow("team", "team-*"), errors: []finding{noName("1")}},
		"an upper-case namespace": {option: allow("Team"), errors: []finding{noName("0")}},
		"an empty namespace":      {option: allow(""), errors: []finding{noName("0")}},
		"a selector":              {option: with(func(s *infrav1.WorkspaceTemplateSpec) { s.AllowedNamespaces = blue })},
		"a selector that cannot be read": {option: with(func(s *infrav1.WorkspaceTemplateSpec) {
			s.AllowedNamespaces = infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Resembles"}}}}
		}), errors: []finding{{"spec.allowedNamespaces.selector", field.ErrorTypeInvalid, `is not a valid label selector: "Resembles" is not a valid label selector operator`}}},

		"a file from a Secret":    {option: file(terraform.VarFile{Source: "SecretKey", SecretKeyRef: key})},
		"a file from a ConfigMap": {option: file(terraform.VarFile{Source: "ConfigMapKey", ConfigMapKeyRef: key})},
		"a file from a Secret that is not named": {option: file(terraform.VarFile{Source: "SecretKey", ConfigMapKeyRef: key}),
			errors: []finding{{templateSpec + "forProvider.varFiles[0].secretKeyRef", field.ErrorTypeRequired, "requires the name and the key of a Secret"}}},
		"a file from a ConfigMap that is not named": {option: file(terraform.VarFile{Source: "ConfigMapKey"}),
			errors: []finding{{templateSpec + "forProvider.varFiles[0].configMapKeyRef", field.ErrorTypeRequired, "requires the name and the key of a ConfigMap"}}},

		"the default ProviderConfig": {option: with(func(s *infrav1.WorkspaceTemplateSpec) { s.Template.Spec.ProviderConfigRef = nil })},
		"a ProviderConfig":           {option: kind(terraform.ScopeNamespaced, "ProviderConfig")},
		"a ClusterProviderConfig":    {option: kind(terraform.ScopeNamespaced, "ClusterProviderConfig")},
		"kind from a variable":       {option: kind(terraform.ScopeNamespaced, "${kind}")},
		"unknown kind": {option: kind(terraform.ScopeNamespaced, "Secret"),
			errors: []finding{{templateSpec + "providerConfigRef.kind", field.ErrorTypeNotSupported, `"ClusterProviderConfig", "ProviderConfig"`}}},
		"a kind in the cluster scope, which has none": {option: kind(terraform.ScopeCluster, "Secret")},

		"an entrypoint of an inline module": {option: builder.WithParameters(func(p *terraform.WorkspaceParameters) { p.Entrypoint = "vpc" }),
			warnings: []string{templateSpec + "forProvider.entrypoint: has no effect: an inline module is a single file"}},
		"an invalid entrypoint": {option: builder.WithParameters(func(p *terraform.WorkspaceParameters) { p.Entrypoint = "./" })},
		"an entrypoint of a remote module": {option: builder.WithParameters(func(p *terraform.WorkspaceParameters) {
			*p = terraform.WorkspaceParameters{Source: "Remote", Module: "x", Entrypoint: "vpc"}
		})},
		"an external secret store": {option: builder.WithWorkspaceSpec(func(s *terraform.WorkspaceSpec) {
			s.PublishConnectionDetailsTo = &terraform.PublishConnectionDetailsTo{Name: "x"}
		}), warnings: []string{templateSpec + "publishConnectionDetailsTo: has no effect in scope Namespaced"}},
		"an external secret store in the cluster scope": {option: with(func(s *infrav1.WorkspaceTemplateSpec) {
			s.WorkspaceScope = terraform.ScopeCluster
			s.Template.Spec.PublishConnectionDetailsTo = &terraform.PublishConnectionDetailsTo{Name: "x"}
		})},
	})
}

func TestUnknownFieldsCauseWarnings(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) { *spec = terraform.WorkspaceSpec{} }))
	require.NoError(t, json.Unmarshal([]byte(`{"forProvider": {"source": "Inline", "module": "output \"a\" { value = 1 }", "modul": "correcthorse", "b": 1}, "writeTo": {}}`), &template.Spec.Template.Spec))
	findings := validation.ValidateWorkspaceTemplate(template)
	assert.Empty(t, findings.Errors)
	assertWarned(t, findings.Warnings, templateSpec+"writeTo: unknown field, passed to the Workspace unchecked",
		templateSpec+"forProvider.modul: unknown field, passed to the Workspace unchecked", templateSpec+"forProvider.b: unknown field, passed to the Workspace unchecked")
	assert.Contains(t, findings.Warnings[1], "forProvider.b", "in the same order every time")
}

func TestVariablesThatAModuleDeclares(t *testing.T) {
	const module = "variable \"a\" {\n  type = string\n}\nvariable \"b\" {\n  default = null\n}\n"
	const noValue = templateSpec + `forProvider.module: variable "a" has neither a value nor a default`
	given := func(module string, change func(*terraform.WorkspaceParameters)) builder.Option {
		return builder.WithParameters(func(params *terraform.WorkspaceParameters) {
			*params = terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module}
			if change != nil {
				change(params)
			}
		})
	}
	vars := func(keys ...string) func(*terraform.WorkspaceParameters) {
		return func(params *terraform.WorkspaceParameters) {
			for _, key := range keys {
				params.Vars = append(params.Vars, terraform.Var{Key: key, Value: "correcthorse"})
			}
		}
	}
	varmap := func(params *terraform.WorkspaceParameters) {
		params.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"a": {"x": 1}, "c": [1]}`)}
	}
	testTemplates(t, map[string]templateRow{
		"all variables have values": {option: given(module, vars("a", "b"))},
		"a default is enough":       {option: given(module, vars("a"))},
		"variable without a value":  {option: given(module, nil), warnings: []string{noValue}},
		"undeclared variable": {option: given(module, vars("a", "c")), warnings: []string{
			templateSpec + `forProvider.vars[1].key: the module declares no variable "c". Declare the variable, or correct the spelling`}},
		"undeclared variable in varmap": {option: given(module, varmap), warnings: []string{
			templateSpec + `forProvider.varmap[c]: the module declares no variable "c"`}},
		"reference to an undeclared variable": {option: given(module+"output \"x\" { value = var.c }\n", vars("a")), warnings: []string{
			templateSpec + `forProvider.module: line 7, column 22: the module has no var.c. Declare it, or correct the spelling`}},
		"name from a placeholder": {option: given(module, vars("${name}"))},
		"a file may give it": {option: given(module, func(p *terraform.WorkspaceParameters) {
			p.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "a", Key: "b"}}}
		})},
		"an argument gives it": {option: given(module, func(p *terraform.WorkspaceParameters) {
			p.PlanArgs, p.ApplyArgs = []string{"-var=a=1"}, []string{"-var-file", "x"}
		})},
		"another argument does not": {option: given(module, func(p *terraform.WorkspaceParameters) { p.PlanArgs = []string{"-parallelism=1"} }), warnings: []string{noValue}},
		"the environment gives it":  {option: given(module, func(p *terraform.WorkspaceParameters) { p.Env = []terraform.EnvVar{{Name: "TF_VAR_a"}} })},
		"the environment gives another": {option: given(module, func(p *terraform.WorkspaceParameters) { p.Env = []terraform.EnvVar{{Name: "TF_CLI_ARGS"}} }), warnings: []string{noValue},
			errors: []finding{{templateSpec + "forProvider.env[0].name", field.ErrorTypeForbidden, "TF_*, LD_* and PATH are reserved for provider-terraform"}}},
		"a name that a variable is part of":      {option: given("variable \"${prefix}_a\" {}\n", vars("x_a"))},
		"a default that a variable gives":        {option: given("variable \"a\" {\n  default = ${a}\n}\n", nil)},
		"JSON":                                   {option: given(`{"variable": {"a": {}, "b": {"default": 1}}}`, asJSON(vars("b", "c"))), warnings: []string{noValue, "vars[1].key: "}},
		"JSON in lists":                          {option: given(`{"variable": [{"a": [{"type": "string"}]}]}`, asJSON(vars("a")))},
		"a module that cannot be read is enough": {option: given("variable \"a\" {", vars("c")), errors: []finding{{templateSpec + "forProvider.module", field.ErrorTypeInvalid, "line 1, column 14"}}},
		"remote module": {option: given("x", func(p *terraform.WorkspaceParameters) {
			p.Source = terraform.SourceRemote
			vars("c")(p)
		})},
		"a block that looks like one": {option: given("resource \"variable\" \"a\" {}\nlocals {}\n", nil)},
		"a block without a name":      {option: given("variable {}\n", nil)},
	})
}

func asJSON(change func(*terraform.WorkspaceParameters)) func(*terraform.WorkspaceParameters) {
	return func(params *terraform.WorkspaceParameters) {
		params.InlineFormat = terraform.FormatJSON
		change(params)
	}
}

func TestPublishedOutputs(t *testing.T) {
	publish := func(module string, names ...string) builder.Option {
		return with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.PublishOutputs = names
			spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module}
		})
	}
	sensitive := func(value string) string { return "output \"a\" {\n  value = 1\n  sensitive = " + value + "\n}\n" }
	refused := []finding{{"spec.publishOutputs[0]", field.ErrorTypeForbidden, `output "a" is sensitive and cannot be published in status`}}
	testTemplates(t, map[string]templateRow{
		"declared":                     {option: publish("output \"a\" { value = 1 }\n", "a")},
		"not declared":                 {option: publish("", "a"), warnings: []string{`spec.publishOutputs[0]: the module declares no output "a"`}},
		"a sensitive one":              {option: publish(sensitive("true"), "a"), errors: refused},
		"a sensitive one, as a text":   {option: publish(sensitive(`"true"`), "a"), errors: refused},
		"sensitive = false":            {option: publish(sensitive("false"), "a")},
		"sensitive from a placeholder": {option: publish(sensitive("${hidden}"), "a")},
		"another output is sensitive":  {option: publish(sensitive("true")+"output \"b\" { value = 1 }\n", "b")},
		"name with a placeholder":      {option: publish("output \"${x}_a\" { value = 1 }\n", "x_a")},
		"a sensitive one in JSON": {option: with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.PublishOutputs = []string{"b", "a"}
			spec.Template.Spec.ForProvider = inlineJSON(`{"output": {"a": {"value": 1, "sensitive": true}, "b": {"value": 1}}}`)
		}), errors: []finding{{"spec.publishOutputs[1]", field.ErrorTypeForbidden, "sensitive"}}},
		"remote module": {option: with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.PublishOutputs = []string{"a"}
			spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceRemote, Module: "x"}
		})},
	})
}

// References of the template "shared/vpc". Rendering applies the same rules for each user.
func TestReferencesToNamespaces(t *testing.T) {
	secret := func(namespace, name string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Namespace: namespace, Name: name, Key: "k"}}}
		}
	}
	env := func(namespace string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider.Env = []terraform.EnvVar{
				{Name: "A", ConfigMapKeyRef: &terraform.KeyReference{Namespace: namespace, Name: "a", Key: "k"}},
				{Name: "B", SecretKeyRef: &terraform.KeyReference{Namespace: namespace, Name: "a", Key: "k"}},
			}
		}
	}
	connection := func(namespace string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.WriteConnectionSecretToRef = &terraform.SecretReference{Namespace: namespace, Name: "a"}
		}
	}
	flux := func(module string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceFlux, Module: module}
		}
	}
	const ref, module = templateSpec + "forProvider.varFiles[0].secretKeyRef.namespace", templateSpec + "forProvider.module"
	refused := func(path, text string) []finding { return []finding{{path, field.ErrorTypeForbidden, text}} }
	notAllowed := "refers to namespace other, which the template does not allow: a reference is limited to the namespace of the WorkspaceTemplateApply"
	only := func(path, namespace string) []string {
		return []string{path + ": only works for WorkspaceTemplateApplies in namespace " + namespace + ". Remove the namespace"}
	}
	to := infrav1.AllowedNamespaces{Names: []string{"team"}}
	all := infrav1.AllowedNamespaces{Names: []string{"*"}}

	rows := map[string]templateRow{}
	row := func(name string, scope terraform.Scope, allowed infrav1.AllowedNamespaces, change func(*terraform.WorkspaceSpec), errors []finding, warnings []string) {
		rows[string(scope)+": "+name] = templateRow{with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.WorkspaceScope, spec.AllowedNamespaces = scope, allowed
			change(&spec.Template.Spec)
		}), errors, warnings}
	}
	for _, scope := range terraform.Scopes() {
		row("none", scope, all, secret("", "a"), nil, nil)
		row("namespace of the user", scope, all, secret("${namespace}", "a"), nil, nil)
		row("the own one, of a template for it alone", scope, infrav1.AllowedNamespaces{}, secret("shared", "a"), nil, nil)
		row("another one, for an empty list of namespaces", scope, infrav1.AllowedNamespaces{}, secret("other", "a"), refused(ref, notAllowed), nil)
		row("another one, which is not allowed", scope, to, secret("other", "a"), refused(ref, notAllowed), nil)
		row("another one, which is allowed", scope, to, secret("team", "a"), nil, only(ref, "team"))
		row("another one, when all namespaces are allowed", scope, all, secret("other", "a"), nil, only(ref, "other"))
		row("another one, which labels may allow", scope, blue, secret("other", "a"), nil, only(ref, "other"))
		row("another one for a Secret that a user can replace", scope, infrav1.AllowedNamespaces{}, connection("other"), nil, []string{
			templateSpec + "writeConnectionSecretToRef.namespace: only works for WorkspaceTemplateApplies in namespace other and for those with their own writeConnectionSecretToRef"})
		row("another one in the environment", scope, infrav1.AllowedNamespaces{}, env("other"), append(
			refused(templateSpec+"forProvider.env[0].configMapKeyRef.namespace", notAllowed),
			refused(templateSpec+"forProvider.env[1].secretKeyRef.namespace", notAllowed)...), nil)
		row("the own one for a Flux source", scope, all, flux("GitRepository::shared/modules"), nil, nil)
		row("the own one for a Flux source with a variable", scope, all, flux("GitRepository::shared/${name}"), nil, only(module, "shared"))
		row("another one for a Flux source", scope, infrav1.AllowedNamespaces{}, flux("GitRepository::other/modules"), refused(module, notAllowed+", or to the namespace of the template"), nil)
		row("a variable for a Flux source", scope, all, flux("GitRepository::${namespace}/modules"), nil, nil)
	}
	row("the own one, of a template for others", terraform.ScopeNamespaced, to, secret("shared", "a"), nil, only(ref, "shared"))
	row("the own one, of a template for others", terraform.ScopeCluster, to, secret("shared", "a"), nil, nil)
	row("the own one, of a Secret that a variable names", terraform.ScopeCluster, to, secret("shared", "${name}"), nil, only(ref, "shared"))
	testTemplates(t, rows)
}

const hidden = "WorkspaceTemplate shared/vpc does not exist, or does not allow namespace team"

func TestReferencesToTemplates(t *testing.T) {
	own := builder.WorkspaceTemplate("vpc", builder.WithNamespace("team"))
	local, remote := infrav1.WorkspaceTemplateReference{Name: "vpc"}, infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"}
	for name, row := range map[string]struct {
		existing *fakeReader
		ref      infrav1.WorkspaceTemplateReference
		found    bool
		errors   []finding
		warnings []string
	}{
		"in the own namespace": {existing: newFakeReader(own), ref: local, found: true},
		"in the own namespace, which is named": {
			existing: newFakeReader(own), ref: infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "team"}, found: true},
		"not there yet": {existing: newFakeReader(), ref: local,
			warnings: []string{"spec.templateRef: WorkspaceTemplate vpc does not exist yet"}},
		"same name in another namespace":       {existing: newFakeReader(shared(infrav1.AllowedNamespaces{})), ref: local, warnings: []string{"does not exist yet"}},
		"another namespace, allowed":           {existing: newFakeReader(shared(infrav1.AllowedNamespaces{Names: []string{"team"}})), ref: remote, found: true},
		"another namespace, allowed by labels": {existing: newFakeReader(shared(blue), namespace("team", map[string]string{"team": "blue"})), ref: remote, found: true},
		"another namespace, not allowed":       {existing: newFakeReader(shared(infrav1.AllowedNamespaces{})), ref: remote, warnings: []string{"spec.templateRef: " + hidden}},
		"another namespace, does not exist":    {existing: newFakeReader(), ref: remote, warnings: []string{"spec.templateRef: " + hidden}},
	} {
		t.Run(name, func(t *testing.T) {
			template, findings, err := validation.TemplateReference(context.Background(), row.existing, row.ref, "team", field.NewPath("spec", "templateRef"))
			require.NoError(t, err)
			assert.Equal(t, row.found, template != nil)
			assertRefused(t, findings.Errors, row.errors...)
			assertWarned(t, findings.Warnings, row.warnings...)
		})
	}
}

func shared(allowed infrav1.AllowedNamespaces) *infrav1.WorkspaceTemplate {
	return builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces = allowed
	}))
}

var blue = infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) infrav1.AllowedNamespaces {
	requirement := metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
	return infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}}}
}

func TestNamespacesThatMayUseATemplate(t *testing.T) {
	for name, row := range map[string]struct {
		allowed   infrav1.AllowedNamespaces
		namespace string
		labels    labels.Set // Nil when the namespace does not exist.
		want      bool
	}{
		"its own namespace":                {infrav1.AllowedNamespaces{}, "shared", nil, true},
		"its own, though others are named": {infrav1.AllowedNamespaces{Names: []string{"other"}}, "shared", nil, true},
		"no other namespace by default":    {infrav1.AllowedNamespaces{}, "team", labels.Set{}, false},
		"another one is listed":            {infrav1.AllowedNamespaces{Names: []string{"other"}}, "team", nil, false},
		"listed by name":                   {infrav1.AllowedNamespaces{Names: []string{"team"}}, "team", nil, true},
		"names are not patterns":           {infrav1.AllowedNamespaces{Names: []string{"te*"}}, "team", nil, false},
		"every namespace":                  {infrav1.AllowedNamespaces{Names: []string{"*"}}, "team", nil, true},
		"labels match":                     {blue, "team", labels.Set{"team": "blue"}, true},
		"labels do not match":              {blue, "team", labels.Set{"team": "red"}, false},
		"an expression matches":            {expression("team", "In", "blue", "red"), "team", labels.Set{"team": "red"}, true},
		"an expression with other values":  {expression("team", "In", "blue"), "team", labels.Set{"team": "red"}, false},
		"an expression with another key":   {expression("group", "In", "blue"), "team", labels.Set{"team": "blue"}, false},
		"another operator":                 {expression("team", "NotIn", "blue"), "team", labels.Set{"team": "blue"}, false},
		"namespace does not exist":         {blue, "team", nil, false},
		"a name or a label":                {infrav1.AllowedNamespaces{Names: []string{"team"}, Selector: blue.Selector}, "team", labels.Set{}, true},
		"no namespace, when the selector is invalid": {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Resembles"}},
		}}, "team", labels.Set{"team": "blue"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := validation.PermitsNamespace(shared(row.allowed), row.namespace, func() (labels.Set, error) {
				assert.NotNil(t, row.allowed.Selector, "the labels do not matter here")
				return row.labels, nil
			})
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}
