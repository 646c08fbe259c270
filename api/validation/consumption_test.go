// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

const (
	cidrs = "spec.endpointAccess.publicCIDRs"
	open  = "the API server would be reachable from more networks than specified"
)

// restricted is a control plane that restricts access to its API server.
func restricted(networks ...controlplanev1.CIDR) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{Public: controlplanev1.EndpointEnabled, Private: controlplanev1.EndpointEnabled, PublicCIDRs: networks}
	})
}

// passing returns a template that passes placeholders to its module, in addition to those of version and private endpoint.
func passing(options ...builder.Option) *infrav1.WorkspaceTemplate {
	return builder.WorkspaceTemplate("eks", append([]builder.Option{builder.Consuming("kubernetes_version", "endpoint_private_access")}, options...)...)
}

func TestFieldsThatHaveNoEffect(t *testing.T) {
	access := func(access controlplanev1.EndpointAccess) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointAccess = &access })
	}
	tagged := plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a", "cost": "b"}
	})
	addons := plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Addons = []controlplanev1.Addon{{Name: "coredns"}} })
	params := builder.WithParameters
	opens := []finding{{cidrs, field.ErrorTypeInvalid, "WorkspaceTemplate default/eks does not pass ${endpoint_public_access_cidrs} to its module"}}
	unused := []finding{{cidrs, field.ErrorTypeInvalid, "the module of WorkspaceTemplate default/eks does not use the variable that gets ${endpoint_public_access_cidrs}. Use it in the module"}}
	office := restricted("203.0.113.0/24")
	for title, row := range map[string]struct {
		template []builder.Option
		object   builder.Option
		refused  []finding
		warnings []string
	}{
		"networks that the template uses":   {[]builder.Option{builder.Consuming("endpoint_public_access_cidrs")}, office, nil, nil},
		"networks that it does not know of": {nil, office, opens, nil},
		"in varmap": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Module += `output "x" { value = var.access }`
			p.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"access": {"cidrs": "${endpoint_public_access_cidrs}"}}`)}
		})}, office, nil, nil},
		"in varmap, under a name that the module does not use": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"access": "${endpoint_public_access_cidrs}"}`)}
		})}, office, unused, nil},
		"passed to an unused variable": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Module += "variable \"x\" {}\n# var.x\n"
			p.Vars = append(p.Vars, terraform.Var{Key: "x", Value: "${endpoint_public_access_cidrs}"})
		})}, office, unused, nil},
		"in a comment": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Module += "// ${endpoint_public_access_cidrs}\n"
		})}, office, opens, []string{"spec.endpointAccess.publicCIDRs: the value of variable \"endpoint_public_access_cidrs\" has characters that could change the module"}},
		"to a module in JSON": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.InlineFormat, p.Module = terraform.FormatJSON, `{"output": {"x": {"value": "${var.x} ${var.kubernetes_version}"}}}`
			p.Vars = append(p.Vars, terraform.Var{Key: "x", Value: "${endpoint_public_access_cidrs}"})
		})}, office, nil, nil},
		"to a Remote module": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Source, p.Module = terraform.SourceRemote, "git::https://example.com/eks"
			p.Vars = append(p.Vars, terraform.Var{Key: "x", Value: "${endpoint_public_access_cidrs}"})
		})}, office, nil, nil},
		"a Remote module, which may have a default": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Source, p.Module = terraform.SourceRemote, "git::https://example.com/eks"
		})}, office, opens, nil},
		"no public endpoint": {nil, access(controlplanev1.EndpointAccess{Public: controlplanev1.EndpointDisabled, Private: controlplanev1.EndpointEnabled}),
			[]finding{{"spec.endpointAccess.public", field.ErrorTypeInvalid, "${endpoint_public_access}"}}, nil},
		"a private endpoint": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Vars = slices.DeleteFunc(p.Vars, func(v terraform.Var) bool { return v.Value == "${endpoint_private_access}" })
		})}, access(controlplanev1.EndpointAccess{Private: controlplanev1.EndpointEnabled}),
			nil, []string{"spec.endpointAccess.private: has no effect"}},
		"default values":   {nil, access(controlplanev1.EndpointAccess{Public: controlplanev1.EndpointEnabled, Private: controlplanev1.EndpointDisabled}), nil, nil},
		"nothing":          {nil, access(controlplanev1.EndpointAccess{}), nil, nil},
		"tags":             {nil, tagged, nil, []string{"spec.additionalTags: has no effect: WorkspaceTemplate default/eks does not pass ${tags}"}},
		"tags together":    {[]builder.Option{builder.Consuming("tags")}, tagged, nil, nil},
		"tags one by one":  {[]builder.Option{builder.Consuming("tags_team", "tags_cost")}, tagged, nil, nil},
		"some of the tags": {[]builder.Option{builder.Consuming("tags_team")}, tagged, nil, []string{"spec.additionalTags: has no effect"}},
		"add-ons":          {nil, addons, nil, []string{"spec.addons: has no effect"}},
		"tags that only a ProviderConfig may use": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Vars = append(p.Vars, terraform.Var{Key: "x", Value: "${tags}"})
		})}, tagged, nil, nil},
		"a region": {nil, builder.WithRegion("eu-central-1"), nil, []string{"spec.region: has no effect"}},
		"a version": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) { p.Vars = p.Vars[:0] })}, builder.WithRegion(""),
			nil, []string{"spec.version: has no effect"}},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", row.object)
			expect(t, row.refused, row.warnings...)(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(passing(row.template...), object), object))
		})
	}
}

// An existing control plane can be moved, restored and changed in other fields, but a field without effect cannot be added.
func TestFieldsOfExistingControlPlanes(t *testing.T) {
	running := builder.WithEndpoint("x.eks.amazonaws.com", 443)
	recorded := builder.WithApplyRef("by-hand")
	apply := builder.WorkspaceTemplateApply("by-hand", of("", "eks"), builder.OwnedBy(builder.CAPTControlPlane("demo")),
		builder.WithRecordedWorkspace(builder.Workspace("by-hand", builder.Rows()[0])))
	for title, options := range map[string][]builder.Option{"with an endpoint": {running}, "with a Workspace": {recorded}} {
		t.Run(title, func(t *testing.T) {
			old := builder.CAPTControlPlane("demo", append(options, restricted("203.0.113.0/24"))...)
			second := passing()
			second.Name = "eks-2"
			pinned := passing(builder.WithLabel(naming.PinnedLabel, "true"))
			pinned.Name = "eks-pinned"
			existing := newFakeReader(passing(), second, pinned, apply, old)
			expect(t, nil, cidrs+": "+open)(validation.ValidateCAPTControlPlane(t.Context(), existing, old))

			for change, row := range map[string]struct {
				option  builder.Option
				refused []finding
			}{
				"nothing":                               {restricted("203.0.113.0/24"), nil},
				"less":                                  {restricted("203.0.113.0/24", "198.51.100.0/24"), []finding{{cidrs, field.ErrorTypeInvalid, open}}},
				"unset":                                 {plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointAccess = nil }), nil},
				"another template that ignores it, too": {plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "eks-2" }), []finding{{cidrs, field.ErrorTypeInvalid, open}}},
				"pinned template":                       {plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "eks-pinned" }), nil},
				"a closed": {plane(func(c *controlplanev1.CAPTControlPlane) {
					c.Spec.EndpointAccess.Public = controlplanev1.EndpointDisabled
				}), []finding{{"spec.endpointAccess.public", field.ErrorTypeInvalid, open}}},
			} {
				t.Run(change, func(t *testing.T) {
					after := builder.CAPTControlPlane("demo", append(options, restricted("203.0.113.0/24"), row.option)...)
					findings, err := validation.ValidateChange(t.Context(), existing, old, after)
					require.NoError(t, err)
					assertRefused(t, findings.Errors, row.refused...)
				})
			}
		})
	}
	t.Run("one that is not built is validated as a whole", func(t *testing.T) {
		old, after := builder.CAPTControlPlane("demo"), builder.CAPTControlPlane("demo", restricted("203.0.113.0/24"))
		findings, err := validation.ValidateChange(t.Context(), newFakeReader(passing(), old), old, after)
		require.NoError(t, err)
		assertRefused(t, findings.Errors)
	})
}

func TestOtherOwners(t *testing.T) {
	vpc := builder.WorkspaceTemplate("vpc")
	named := builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Name = "main" })
	ofVPC := []string{"spec.region: has no effect", "spec.vpc.template.name: has no effect"}
	expect(t, nil, ofVPC...)(validation.ValidateCAPTCluster(t.Context(), newFakeReader(vpc), builder.CAPTCluster("demo", named)))
	expect(t, nil, "spec.template."+ofVPC[0], "spec.template."+ofVPC[1])(validation.ValidateCAPTClusterTemplate(t.Context(), newFakeReader(vpc), captClusterTemplate(named)))
	expect(t, nil, "spec.template."+cidrs+": "+open)(
		validation.ValidateCAPTControlPlaneTemplate(t.Context(), newFakeReader(passing()), controlPlaneTemplate(restricted("203.0.113.0/24"))))
	object := builder.CAPTControlPlane("demo", fargate(selecting("a")))
	expect(t, nil, "spec.fargateProfiles[0].name: has no effect", "spec.fargateProfiles[0].selectors: has no effect")(
		validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(passing(), builder.WorkspaceTemplate("fargate"), object), object))
}

func TestTemplatesThatDropAPlaceholder(t *testing.T) {
	before, after := passing(builder.Consuming("endpoint_public_access_cidrs")), passing()
	user := builder.CAPTControlPlane("office", restricted("203.0.113.0/24"))
	existing := newFakeReader(user, builder.CAPTControlPlane("open"), builder.CAPTControlPlane("elsewhere", restricted("203.0.113.0/24"), builder.WithNamespace("team")))
	findings, err := validation.ValidateChange(t.Context(), existing, before, after)
	require.NoError(t, err)
	assertWarned(t, findings.Warnings, "after this update, the API servers of 1 CAPTControlPlanes will be reachable from more networks than specified: the template no longer uses the placeholder of a field, for example default/office (spec.endpointAccess.publicCIDRs)")
	assert.Contains(t, findings.Warnings[0], "default/office ("+cidrs+")")

	findings, err = validation.ValidateChange(t.Context(), existing, after, after)
	require.NoError(t, err)
	assert.Empty(t, findings.Warnings, "no new warning without a change")
}

func TestTemplatesThatAreBeingDeleted(t *testing.T) {
	const text = "is being deleted and cannot be used by new objects"
	eks := complete("eks", builder.Deleting())
	object := builder.CAPTControlPlane("demo")
	expect(t, []finding{{"spec.workspaceTemplateRef", field.ErrorTypeForbidden, text}})(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(eks, object), object))
	expect(t, []finding{{"spec.templateRef", field.ErrorTypeForbidden, text}})(
		validation.ValidateWorkspaceTemplateApply(t.Context(), newFakeReader(builder.WorkspaceTemplate("vpc", builder.Deleting())), builder.WorkspaceTemplateApply("by-hand")))
	expect(t, []finding{{"spec.vpc.template.ref", field.ErrorTypeForbidden, text}})(
		validation.ValidateCAPTCluster(t.Context(), newFakeReader(complete("vpc", builder.Deleting())), builder.CAPTCluster("demo")))
}

func TestKeysThatAreSetTwice(t *testing.T) {
	path := "spec.template.spec.forProvider."
	twice := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Module += "variable \"a\" {}\n"
		params.Vars = append(params.Vars, terraform.Var{Key: "a", Value: "1"}, terraform.Var{Key: "a", Value: "2"})
		params.Env = []terraform.EnvVar{{Name: "B", Value: "1"}, {Name: "C", Value: "1"}, {Name: "B", Value: "1"}}
	})
	got := validation.ValidateWorkspaceTemplate(builder.WorkspaceTemplate("vpc", twice))
	assertRefused(t, got.Errors, finding{path + "vars[2].key", field.ErrorTypeDuplicate, ""}, finding{path + "env[2].name", field.ErrorTypeDuplicate, ""})

	both := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"cluster_name": "x"}`)}
	})
	got = validation.ValidateWorkspaceTemplate(builder.WorkspaceTemplate("vpc", both))
	assertRefused(t, got.Errors)
	assertWarned(t, got.Warnings, path+"varmap[cluster_name]: is also in vars")
}

func TestRecoveryParametersWithoutEffect(t *testing.T) {
	actions := func(actions ...infrav1.RecoveryAction) *infrav1.RecoveryStrategy {
		return &infrav1.RecoveryStrategy{Actions: actions}
	}
	change := func(probe controlplanev1.EndpointProbe, recovery *infrav1.RecoveryStrategy) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointProbe, c.Spec.Recovery = probe, recovery })
	}
	for title, row := range map[string]struct {
		option   builder.Option
		warnings []string
	}{
		"nothing":     {change("", nil), nil},
		"the default": {change(controlplanev1.EndpointProbeBestEffort, nil), nil},
		"a probe":     {change(controlplanev1.EndpointProbeRequired, nil), nil},
		"no probe":    {change(controlplanev1.EndpointProbeDisabled, nil), nil},
		"recovery":    {change("", &infrav1.RecoveryStrategy{}), nil},
		"a parameter": {change("", actions(infrav1.RecoveryAction{
			Type: infrav1.RecoveryRecreateWorkspace, Parameters: map[string]string{"allowDestroy": "true"},
		})), nil},
		"no parameter": {change("", actions(infrav1.RecoveryAction{
			Type: infrav1.RecoveryReapply, Parameters: map[string]string{"allowDestroy": "true"},
		})), []string{"recovery.actions[0].parameters[allowDestroy]: has no effect: action Reapply has no such parameter"}},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", row.option)
			got, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(complete("eks"), object), object)
			require.NoError(t, err)
			assertWarned(t, got.Warnings, row.warnings...)
			got, err = validation.ValidateCAPTControlPlaneTemplate(t.Context(), newFakeReader(complete("eks")), controlPlaneTemplate(row.option))
			require.NoError(t, err)
			assertWarned(t, got.Warnings, row.warnings...)
		})
	}
}

var variablesPath = field.NewPath("spec", "variables")

func TestNamesOfVariables(t *testing.T) {
	for name, legal := range map[string]bool{
		"a": true, "A_1": true, "_": true, "cluster_name": true,
		"": false, "1a": false, "a-b": false, "a.b": false, "a b": false, "é": false, "a\n": false, "tags_a/b": false,
	} {
		t.Run(name, func(t *testing.T) {
			errs := validation.ValidateVariableNames(infrav1.TextVariables(map[string]string{name: "correcthorse"}), variablesPath)
			if legal {
				assert.Empty(t, errs)
				return
			}
			assertRefused(t, errs, finding{"spec.variables[" + name + "]", field.ErrorTypeInvalid, "Use letters, digits and underscores"})
			assert.NotContains(t, errs.ToAggregate().Error(), "correcthorse")
		})
	}
}

func TestVariablesOfTagsAreReservedForCAPT(t *testing.T) {
	variables := map[string]string{"tags_kubernetes.io/cluster/x": "owned", "b-c": "", "a-b": ""}
	assert.Len(t, validation.ValidateVariableNames(infrav1.TextVariables(variables), variablesPath), 3)
	errs := validation.ValidateAppliedVariableNames(infrav1.TextVariables(variables), variablesPath)
	require.Len(t, errs, 2)
	assert.Equal(t, []string{"spec.variables[a-b]", "spec.variables[b-c]"}, []string{errs[0].Field, errs[1].Field}, "sorted")
	assert.Len(t, variables, 3, "the map of the caller stays as it is")
}

func TestValuesInTheTextOfAModule(t *testing.T) {
	inModule := builder.WithModule(`output "a" { value = "${owner}" }`)
	inVars := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Vars = []terraform.Var{{Key: "a", Value: "${owner}"}}
	})
	inAddress := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Source, params.Module = terraform.SourceRemote, "git::https://example.com/${owner}"
	})
	for name, row := range map[string]struct {
		option  builder.Option
		value   string
		refused bool
	}{
		"a plain value":                             {inModule, "Team-1 ._:/@+=,-", false},
		"an empty value":                            {inModule, "", false},
		"ends a string":                             {inModule, `correcthorse"`, true},
		"begins an expression":                      {inModule, "${correcthorse}", true},
		"two lines":                                 {inModule, "correcthorse\n", true},
		"one with an escape":                        {inModule, `correcthorse\`, true},
		"one beyond ASCII":                          {inModule, "correcthörse", true},
		"anything, where it can change nothing":     {inVars, `correcthorse"`, false},
		"one in an address":                         {inAddress, "correcthorse;", true},
		"anything, when the template has no use it": {builder.WithModule(""), `correcthorse"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			findings := validation.ValidateVariableValues(builder.WorkspaceTemplate("vpc", row.option), map[string]string{"owner": row.value}, variablesPath.Key)
			if !row.refused {
				assert.Empty(t, findings)
				return
			}
			assertRefused(t, findings.Errors, finding{"spec.variables[owner]", field.ErrorTypeInvalid, "the value of variable \"owner\" has characters that could change the module"})
			assert.NotContains(t, findings.Errors.ToAggregate().Error(), "correct")
		})
	}
}

func TestVariableWorkspaceNameOfAUserHasNoEffect(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithModule(`locals { a = "${WORKSPACE_NAME}" }`))
	given := map[string]string{"WORKSPACE_NAME": `"`}
	assert.Empty(t, validation.ValidateVariableValues(template, given, variablesPath.Key), "what has no effect does no harm")
	assertWarned(t, validation.CheckPlaceholders(template, given, variablesPath).Warnings,
		"spec.variables[WORKSPACE_NAME]: has no effect: CAPT always sets ${WORKSPACE_NAME} to the name of the Workspace")
}

func TestWarningsAboutMisspelledVariables(t *testing.T) {
	const missing = "spec.variables: placeholder ${b} of WorkspaceTemplate default/vpc has no value and is not replaced"
	with := func(change func(*terraform.WorkspaceSpec)) builder.Option {
		return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			*spec = terraform.WorkspaceSpec{ForProvider: terraform.WorkspaceParameters{Source: terraform.SourceInline}}
			change(spec)
		})
	}
	for name, row := range map[string]struct {
		option  builder.Option
		given   []string
		further []string
		want    []string
	}{
		"all is used":           {builder.With(func(_ *infrav1.WorkspaceTemplate) {}), []string{"cluster_name"}, nil, nil},
		"used in the module":    {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Module = "${b}" }), []string{"b"}, nil, nil},
		"missing in the module": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Module = "${b}" }), nil, nil, nil},
		"missing in an address": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Source, s.ForProvider.Module = "Remote", "x/${b}" }), nil, nil, []string{missing}},
		"missing in vars":       {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${b}"}} }), nil, nil, []string{missing}},
		"missing in env":        {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Env = []terraform.EnvVar{{Name: "A", Value: "${b}"}} }), nil, nil, []string{missing}},
		"missing in the name of a Secret": {with(func(s *terraform.WorkspaceSpec) {
			s.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "${b}-x"}
		}), nil, nil, []string{missing}},
		"missing deep within varmap": {with(func(s *terraform.WorkspaceSpec) {
			s.ForProvider.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"a": {"${key}": [1, "x-${b}"]}}`)}
		}), nil, nil, []string{missing}},
		"missing in a field that CAPT does not know": {with(func(s *terraform.WorkspaceSpec) {
			assert.NoError(t, json.Unmarshal([]byte(`{"source": "Inline", "module": "", "new": "${b}"}`), &s.ForProvider))
		}), nil, nil, []string{missing}},
		"CAPT gives it": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${b}"}} }), nil, []string{"b", "c"}, nil},
		"the name of the Workspace is always there": {
			with(func(s *terraform.WorkspaceSpec) {
				s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${WORKSPACE_NAME}"}}
			}), nil, nil, nil},
		"Terraform's own": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${var.b}"}} }), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{}
			for _, variable := range row.given {
				given[variable] = "correcthorse"
			}
			template := builder.WorkspaceTemplate("vpc", row.option)
			findings := validation.CheckPlaceholders(template, given, variablesPath, row.further...)
			assert.Empty(t, findings.Errors)
			assertWarned(t, findings.Warnings, row.want...)
			assert.NotContains(t, strings.Join(findings.Warnings, "\n"), "correcthorse")

			template.Spec.Substitution = infrav1.SubstitutionFields
			findings = validation.CheckPlaceholders(template, given, variablesPath, row.further...)
			if slices.Contains(row.want, missing) {
				assertRefused(t, findings.Errors, finding{"spec.variables[b]", field.ErrorTypeRequired, "WorkspaceTemplate default/vpc has the placeholder ${b}. Set the variable"})
			} else {
				assert.Empty(t, findings.Errors)
			}
		})
	}
}
