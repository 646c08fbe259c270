// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// rendering returns an Input for the Workspace "demo-vpc".
type rendering struct {
	apply    []builder.Option
	template []builder.Option
}

func (r rendering) input() Input {
	return Input{
		Apply:    builder.WorkspaceTemplateApply("demo-vpc", r.apply...),
		Template: builder.WorkspaceTemplate("vpc", r.template...),
		Name:     "demo-vpc",
	}
}

func (r rendering) must(t *testing.T) *Rendered {
	t.Helper()
	rendered, errs := Workspace(r.input())
	require.Empty(t, errs)
	return rendered
}

func variables(pairs ...string) []builder.Option {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return []builder.Option{builder.WithVariables(m)}
}

func params(change func(*terraform.WorkspaceParameters)) []builder.Option {
	return []builder.Option{builder.WithParameters(change)}
}

// at returns a value within a rendered Workspace.
func at(t *testing.T, rendered *Rendered, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(rendered.Object.Object, path...)
	require.NoError(t, err)
	return value
}

func varmap(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// asLive returns the Workspace that the API server stores for a rendered one.
func asLive(t *testing.T, rendered *Rendered) *unstructured.Unstructured {
	t.Helper()
	data, err := rendered.Object.MarshalJSON()
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(data))
	return object
}

func TestRenderedWorkspaceHasOnlyTheFieldsThatCAPTOwns(t *testing.T) {
	rendered := rendering{}.must(t)
	assert.Equal(t, map[string]any{
		"apiVersion": "tf.m.upbound.io/v1beta1",
		"kind":       "Workspace",
		"metadata": map[string]any{
			"name": "demo-vpc", "namespace": "default",
			"annotations": map[string]any{
				"crossplane.io/external-name":                    rendered.Object.GetAnnotations()["crossplane.io/external-name"],
				"capt.cluster.x-k8s.io/workspace-template-apply": "default/demo-vpc",
			},
		},
		"spec": map[string]any{
			"providerConfigRef": map[string]any{"name": "aws", "kind": "ClusterProviderConfig"},
			"forProvider": map[string]any{
				"source": "Inline", "module": "variable \"cluster_name\" {}\noutput \"name\" { value = var.cluster_name }\n",
				"vars": []any{map[string]any{"key": "cluster_name", "value": "demo"}},
			},
		},
	}, rendered.Object.Object)
	assert.Regexp(t, "^default-demo-vpc-[a-z2-7]{5}$", rendered.Object.GetAnnotations()["crossplane.io/external-name"])

	rendered = rendering{template: []builder.Option{builder.WithScope(terraform.ScopeCluster)}}.must(t)
	assert.Equal(t, "tf.upbound.io/v1beta1", rendered.Object.GetAPIVersion())
	assert.Empty(t, rendered.Object.GetNamespace(), "a cluster-wide Workspace has none")
}

func TestRenderingIsDeterministic(t *testing.T) {
	input := rendering{
		apply: variables("a", "1", "b", "2", "c", "3", "d", "4", "e", "5"),
		template: params(func(p *terraform.WorkspaceParameters) {
			p.VarMap = varmap(`{"e": "${e}", "d": "${d}", "c": "${c}", "b": {"y": "${b}", "x": "${a}"}}`)
		}),
	}.input()
	first, errs := Workspace(input)
	require.Empty(t, errs)
	want, err := json.Marshal(first.Object)
	require.NoError(t, err)
	for range 100 {
		again, errs := Workspace(input)
		require.Empty(t, errs)
		got, err := json.Marshal(again.Object)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		require.Equal(t, first.Revision, again.Revision)
	}
}

func TestRenderingDoesNotModifyItsInput(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		input := rendering{template: []builder.Option{builder.WithScope(scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.DeletionPolicy = terraform.DeletionOrphan
			spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "s", Key: "k", Namespace: "default"}}}
		})}}.input()
		input.Apply.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "out", Namespace: "default"}
		apply, template := input.Apply.DeepCopy(), input.Template.DeepCopy()
		_, errs := Workspace(input)
		require.Empty(t, errs)
		assert.Equal(t, apply, input.Apply)
		assert.Equal(t, template, input.Template)
	}
}

func TestRevision(t *testing.T) {
	revision := func(options ...builder.Option) string { return rendering{template: options}.must(t).Revision }
	base := revision()
	assert.Regexp(t, "^[0-9a-f]{64}$", base)
	assert.Equal(t, base, revision(builder.WithLabel("any", "thing"), builder.WithGeneration(9)), "metadata of the template does not count")
	assert.NotEqual(t, base, revision(builder.WithModule("# another")))
	assert.NotEqual(t, base, revision(builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) { spec.ProviderConfigRef.Name = "other" })))
	assert.NotEqual(t, base, rendering{apply: variables("cluster_name", "other")}.must(t).Revision, "a variable that is used counts")
	assert.Equal(t, base, rendering{apply: variables("cluster_name", "demo", "unused", "x")}.must(t).Revision, "one that is not does not")
}

func TestConnectionSecretOfTheApplyOverridesTheTemplate(t *testing.T) {
	rendered := rendering{
		apply: []builder.Option{builder.WithConnectionSecret("of-the-apply", "")},
		template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "of-the-template"}
		})},
	}.must(t)
	assert.Equal(t, map[string]any{"name": "of-the-apply"}, at(t, rendered, "spec", "writeConnectionSecretToRef"))
}

// The API server sets the default format, and lists of a Workspace are atomic: without the default, the live Workspace would always differ.
func TestFormatOfAVarFileIsDefaulted(t *testing.T) {
	rendered := rendering{template: params(func(p *terraform.WorkspaceParameters) {
		ref := &terraform.KeyReference{Name: "s", Key: "k"}
		p.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: ref}, {Source: "SecretKey", SecretKeyRef: ref, Format: terraform.FormatJSON}}
	})}.must(t)
	files := at(t, rendered, "spec", "forProvider", "varFiles").([]any)
	assert.Equal(t, "HCL", files[0].(map[string]any)["format"])
	assert.Equal(t, "JSON", files[1].(map[string]any)["format"])
}

func TestUnknownFieldsReachTheWorkspace(t *testing.T) {
	rendered := rendering{
		apply: variables("name", "demo"),
		template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.Unknown = terraform.UnknownFields{"future": runtime.RawExtension{Raw: []byte(`{"a": "${name}"}`)}}
			spec.ForProvider.Unknown = terraform.UnknownFields{"futureToo": runtime.RawExtension{Raw: []byte(`[1]`)}}
			spec.ForProvider.Vars = nil
		})},
	}.must(t)
	assert.Equal(t, map[string]any{"a": "demo"}, at(t, rendered, "spec", "future"))
	assert.Equal(t, []any{int64(1)}, at(t, rendered, "spec", "forProvider", "futureToo"))
}

// In a template without a placeholder, an escape has the same meaning as beside one.
func TestAnEscapeIsRenderedWithoutAPlaceholder(t *testing.T) {
	for substitution, want := range map[infrav1.Substitution]string{infrav1.SubstitutionFields: "${name}", "": "$demo"} {
		rendered := rendering{
			apply: variables("name", "demo"),
			template: []builder.Option{
				params(func(p *terraform.WorkspaceParameters) {
					p.Module, p.Vars = "# none", []terraform.Var{{Key: "a", Value: "$${name}"}}
				})[0],
				builder.With(func(t *infrav1.WorkspaceTemplate) { t.Spec.Substitution = substitution }),
			},
		}.must(t)
		assert.Equal(t, []any{map[string]any{"key": "a", "value": want}}, at(t, rendered, "spec", "forProvider", "vars"), substitution)
	}
}

func TestNumbersOfAVarmapAreNotChanged(t *testing.T) {
	rendered := rendering{template: params(func(p *terraform.WorkspaceParameters) {
		p.VarMap = varmap(`{"large": 9007199254740993, "small": 2, "fraction": 0.5, "negative": -3}`)
	})}.must(t)
	assert.Equal(t, map[string]any{
		"large": int64(9007199254740993), "small": int64(2), "fraction": 0.5, "negative": int64(-3),
	}, at(t, rendered, "spec", "forProvider", "varmap"))
}

// Otherwise the Workspace would be written in every reconcile, and would never be up to date.
func TestStoredWorkspaceHasNoDifferences(t *testing.T) {
	for name, r := range map[string]rendering{
		"plain": {},
		"varmap with numbers": {template: params(func(p *terraform.WorkspaceParameters) {
			p.VarMap = varmap(`{"count": 3, "list": [1, 2.5, true, null], "large": 9007199254740993}`)
		})},
		"unknown field with a number": {template: params(func(p *terraform.WorkspaceParameters) {
			p.Unknown = terraform.UnknownFields{"retries": runtime.RawExtension{Raw: []byte(`3`)}}
		})},
		"text that JSON escapes": {template: params(func(p *terraform.WorkspaceParameters) {
			p.Vars = []terraform.Var{{Key: "a", Value: "<a> & \u2028 \"b\""}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := r.must(t)
			assert.Empty(t, Differences(asLive(t, rendered), rendered))
		})
	}
}

func TestInvalidModulesAndParametersAreNotRendered(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*terraform.WorkspaceParameters)
		field  string
	}{
		"module":                    {func(p *terraform.WorkspaceParameters) { p.Module = "}" }, "module"},
		"environment":               {func(p *terraform.WorkspaceParameters) { p.Env = []terraform.EnvVar{{Name: "PATH"}} }, "env[0].name"},
		"environment by a variable": {func(p *terraform.WorkspaceParameters) { p.Env = []terraform.EnvVar{{Name: "${evil}"}} }, "env[0].name"},
		"argument by a variable":    {func(p *terraform.WorkspaceParameters) { p.InitArgs = []string{"-${backend}=x"} }, "initArgs[0]"},
		"entrypoint by a variable":  {func(p *terraform.WorkspaceParameters) { p.Entrypoint = "${dots}/x" }, "entrypoint"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, errs := Workspace(rendering{
				apply:    variables("evil", "TF_CLI_ARGS", "backend", "backend-config", "dots", ".."),
				template: params(row.change),
			}.input())
			assert.Nil(t, rendered)
			require.Len(t, errs, 1)
			assert.Equal(t, "spec.template.spec.forProvider."+row.field, errs[0].Field)
		})
	}
}

func TestKeysThatBecomeEqualAreRejected(t *testing.T) {
	twice := rendering{apply: variables("a", "zones", "b", "zones"), template: params(func(p *terraform.WorkspaceParameters) {
		p.Vars = []terraform.Var{{Key: "${a}", Value: "1"}, {Key: "${b}", Value: "2"}}
		p.Env = []terraform.EnvVar{{Name: "A_${a}"}, {Name: "A_${b}"}}
	})}
	_, errs := Workspace(twice.input())
	require.Len(t, errs, 2)
	assert.Equal(t, "spec.template.spec.forProvider.vars[1].key", errs[0].Field)
	assert.Equal(t, "spec.template.spec.forProvider.env[1].name", errs[1].Field)
}

// A pinned template renders the live Workspace, for the object as it is and as its owner will write it. Strings without drift keep their
// placeholders.
func TestPinnedTemplateReproducesTheWorkspace(t *testing.T) {
	built := rendering{
		apply: append(variables("cluster_name", "demo", "kubernetes_version", "1.31"), builder.WithConnectionSecret("out", "default")),
		template: []builder.Option{builder.WithScope(terraform.ScopeCluster), builder.WithParameters(func(p *terraform.WorkspaceParameters) {
			p.Module = "variable \"kubernetes_version\" {}\nlocals { x = [for zone in [\"a\"] : \"${zone}$\"] }\n"
			p.Vars = []terraform.Var{{Key: "kubernetes_version", Value: "${kubernetes_version}"}, {Key: "name", Value: "${cluster_name}-$"}}
			p.VarMap, p.InitArgs = varmap(`{"tags":{"a":1,"b":"${cluster_name}"}}`), []string{"-upgrade"}
			p.Env = []terraform.EnvVar{{Name: "A", Value: "${WORKSPACE_NAME}"}}
			p.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "${cluster_name}", Namespace: "default", Key: "k"}}}
		})},
	}
	live := asLive(t, built.must(t))

	// Since then, the template got another module and another variable, and the owner another version.
	old := built.input().Template
	params := &old.Spec.Template.Spec.ForProvider
	params.Module += "# edited\n"
	params.Vars = append([]terraform.Var{{Key: "new", Value: "x"}}, params.Vars...)
	asked := built.input().Apply
	asked.Spec.Variables["kubernetes_version"] = infrav1.TextValue("1.32")

	spec, substitution, err := Pin(live.Object["spec"].(map[string]any), "demo-vpc", old, built.input().Apply, asked)
	require.NoError(t, err)
	pinned := old.DeepCopy()
	pinned.Spec.Template.Spec, pinned.Spec.Substitution = *spec, substitution
	for _, apply := range []*infrav1.WorkspaceTemplateApply{built.input().Apply, asked} {
		rendered, errs := Workspace(Input{Apply: apply, Template: pinned, Name: "demo-vpc"})
		require.Empty(t, errs)
		assert.Empty(t, Differences(live, rendered))
	}
	assert.Equal(t, []terraform.Var{{Key: "kubernetes_version", Value: "1.31"}, {Key: "name", Value: "${cluster_name}-$"}}, spec.ForProvider.Vars)
	assert.Equal(t, "${WORKSPACE_NAME}", spec.ForProvider.Env[0].Value)
	assert.Equal(t, "${cluster_name}", spec.ForProvider.VarFiles[0].SecretKeyRef.Name)

	// Without a template, all strings are literal.
	spec, _, err = Pin(live.Object["spec"].(map[string]any), "demo-vpc", nil, asked)
	require.NoError(t, err)
	assert.Equal(t, "demo-$", spec.ForProvider.Vars[1].Value)
}

// CAPT v0.3 inserted any value into the text of a module.
func TestPinnedTemplateHasTheTextOfAModuleThatIsNotRenderedWithItsVariables(t *testing.T) {
	old := builder.WorkspaceTemplate("vpc", builder.WithModule("a = ${value}\n"), builder.WithParameters(func(p *terraform.WorkspaceParameters) {
		p.Vars = []terraform.Var{{Key: "x", Value: "${value}"}}
	}))
	live := map[string]any{"forProvider": map[string]any{"source": "Inline", "module": "a = demo\n", "vars": []any{map[string]any{"key": "x", "value": "demo"}}}}
	spec, substitution, err := Pin(live, "demo", old, builder.WorkspaceTemplateApply("demo", builder.WithVariables(map[string]string{"value": "demo"})))
	require.NoError(t, err)
	assert.Equal(t, infrav1.SubstitutionFields, substitution)
	assert.Equal(t, "a = demo\n", spec.ForProvider.Module)
	assert.Equal(t, "${value}", spec.ForProvider.Vars[0].Value, "others keep their placeholders")
}

// CAPT v0.3 left placeholders without a value, and they must not get one when a variable of that name is added.
func TestPinnedTemplateKeepsTheTextOfAPlaceholder(t *testing.T) {
	const module = `locals { x = [for region in ["a"] : "${region}"] }`
	live := map[string]any{"forProvider": map[string]any{"source": "Inline", "module": module, "vars": []any{map[string]any{"key": "x", "value": "${region} $${owner}"}}}}
	asked := builder.WorkspaceTemplateApply("demo", builder.WithVariables(map[string]string{"region": "eu-west-1"}))

	template := builder.WorkspaceTemplate("pinned")
	spec, substitution, err := Pin(live, "demo", nil, asked)
	require.NoError(t, err)
	template.Spec.Template.Spec, template.Spec.Substitution = *spec, substitution
	rendered, errs := Workspace(Input{Apply: asked, Template: template, Name: "demo"})
	require.Empty(t, errs)
	params, _, err := unstructured.NestedMap(rendered.Object.Object, "spec", "forProvider")
	require.NoError(t, err)
	assert.Equal(t, live["forProvider"], params)
}

// Users without access to Workspaces can read differences, which are printed, logged in pipelines and stored in ConfigMaps.
func TestDifferencesOmitSecrets(t *testing.T) {
	list := func(elements ...map[string]any) []any {
		out := make([]any, len(elements))
		for i := range elements {
			out[i] = elements[i]
		}
		return out
	}
	variable := func(key, value string) map[string]any { return map[string]any{"key": key, "value": value} }
	env := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	reference := func(name, secret string) map[string]any {
		return map[string]any{"name": name, "secretKeyRef": map[string]any{"name": secret, "key": "k"}}
	}
	for name, row := range map[string]struct {
		field          string
		live, rendered any
		want           []Difference
	}{
		"one variable of several": {
			"vars", list(variable("region", "eu-west-1"), variable("kubernetes_version", "1.31")), list(variable("region", "eu-west-1"), variable("kubernetes_version", "1.32")),
			[]Difference{{Field: "spec.forProvider.vars[kubernetes_version]", Live: "1.31", Rendered: "1.32"}},
		},
		"a variable that is added": {
			"vars", nil, list(variable("zones", "[1]")), []Difference{{Field: "spec.forProvider.vars[zones]", Rendered: "[1]"}},
		},
		"a variable that is a secret by its name": {
			"vars", list(variable("db_password", "hunter2")), list(variable("db_password", "hunter3")),
			[]Difference{{Field: "spec.forProvider.vars[db_password]", Live: "[redacted]", Rendered: "[redacted]"}},
		},
		"a variable that is a secret by its value": {
			"vars", list(variable("x", "ghp_hunter2hunter2hunter2")), list(variable("x", "plain")),
			[]Difference{{Field: "spec.forProvider.vars[x]", Live: "[redacted]", Rendered: "plain"}},
		},
		"a secret in a document": {
			"vars", list(variable("rds", `{"password":"hunter2","size":1}`)), list(variable("rds", `{"password":"hunter2","size":2}`)),
			[]Difference{{Field: "spec.forProvider.vars[rds]", Live: `{"password":"[redacted]","size":1}`, Rendered: `{"password":"[redacted]","size":2}`}},
		},
		"only the order of variables": {
			"vars", list(variable("a", "hunter2"), variable("b", "2")), list(variable("b", "2"), variable("a", "hunter2")),
			[]Difference{{Field: "spec.forProvider.vars", Live: []string{"a", "b"}, Rendered: []string{"b", "a"}}},
		},
		"an environment variable": {
			"env", list(env("TF_LOG", "hunter2")), list(env("TF_LOG", "hunter3")),
			[]Difference{{Field: "spec.forProvider.env[TF_LOG]", Live: "[omitted]", Rendered: "[omitted]"}},
		},
		"an environment variable from a Secret": {
			"env", list(env("TF_LOG", "hunter2")), list(reference("TF_LOG", "s")), []Difference{{
				Field: "spec.forProvider.env[TF_LOG]", Live: "[omitted]",
				Rendered: map[string]any{"name": "TF_LOG", "secretKeyRef": map[string]any{"name": "s", "key": "k"}},
			}},
		},
		"a map of variables": {
			"varmap", map[string]any{"api_key": "hunter2"}, map[string]any{"api_key": "hunter3"},
			[]Difference{{Field: "spec.forProvider.varmap.api_key", Live: "[redacted]", Rendered: "[redacted]"}},
		},
		"arguments": {
			"planArgs", []any{"-var=password=hunter2"}, []any{"-parallelism=2"},
			[]Difference{{Field: "spec.forProvider.planArgs", Live: []any{"-var=password=[redacted]"}, Rendered: []any{"-parallelism=2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := func(value any) *unstructured.Unstructured {
				parameters := map[string]any{"module": "x"}
				if value != nil {
					parameters[row.field] = value
				}
				return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": parameters}}}
			}
			got := Differences(workspace(row.live), &Rendered{Object: workspace(row.rendered)})
			assert.Equal(t, row.want, got)
			data, err := json.Marshal(got)
			require.NoError(t, err)
			assert.NotContains(t, string(data), "hunter")
		})
	}
}
