// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/test/builder"
)

const (
	cidrs = "spec.endpointAccess.publicCIDRs"
	open  = "the API server would be reachable from more networks than specified"
)

// restricted is a control plane whose API server only some networks may reach.
func restricted(networks ...controlplanev1.CIDR) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{Public: controlplanev1.EndpointEnabled, Private: controlplanev1.EndpointDisabled, PublicCIDRs: networks}
	})
}

// passing is a template that passes placeholders to its module, and kubernetes_version besides.
func passing(options ...builder.Option) *infrav1.WorkspaceTemplate {
	return builder.WorkspaceTemplate("eks", append([]builder.Option{builder.Consuming("kubernetes_version")}, options...)...)
}

func TestSafety14FieldsThatHaveNoEffect(t *testing.T) {
	access := func(access controlplanev1.EndpointAccess) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointAccess = &access })
	}
	tagged := plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a", "cost": "b"}
	})
	addons := plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Addons = []controlplanev1.Addon{{Name: "coredns"}} })
	params := builder.WithParameters
	opens := []finding{{cidrs, field.ErrorTypeInvalid, "WorkspaceTemplate default/eks does not pass ${endpoint_public_access_cidrs} to its module"}}
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
		})}, office, opens, nil},
		"given to a variable that is declared, and not used": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Module += "variable \"x\" {}\n# var.x\n"
			p.Vars = append(p.Vars, terraform.Var{Key: "x", Value: "${endpoint_public_access_cidrs}"})
		})}, office, opens, nil},
		"in a comment": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Module += "// ${endpoint_public_access_cidrs}\n"
		})}, office, opens, nil},
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
			[]finding{{"spec.endpointAccess.public", field.ErrorTypeInvalid, "${endpoint_public_access}"}}, []string{"spec.endpointAccess.private: has no effect"}},
		"what the API server fills in": {nil, access(controlplanev1.EndpointAccess{Public: controlplanev1.EndpointEnabled, Private: controlplanev1.EndpointDisabled}), nil, nil},
		"nothing":                      {nil, access(controlplanev1.EndpointAccess{}), nil, nil},
		"tags":                         {nil, tagged, nil, []string{"spec.additionalTags: has no effect: WorkspaceTemplate default/eks does not pass ${tags}"}},
		"tags together":                {[]builder.Option{builder.Consuming("tags")}, tagged, nil, nil},
		"tags one by one":              {[]builder.Option{builder.Consuming("tags_team", "tags_cost")}, tagged, nil, nil},
		"some of the tags":             {[]builder.Option{builder.Consuming("tags_team")}, tagged, nil, []string{"spec.additionalTags: has no effect"}},
		"add-ons":                      {nil, addons, nil, []string{"spec.addons: has no effect"}},
		"tags that only a ProviderConfig may use": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) {
			p.Vars = append(p.Vars, terraform.Var{Key: "x", Value: "${tags}"})
		})}, tagged, nil, nil},
		"a region": {nil, builder.WithRegion("eu-central-1"), nil, []string{"spec.region: has no effect"}},
		"a version": {[]builder.Option{params(func(p *terraform.WorkspaceParameters) { p.Vars = p.Vars[:1] })}, builder.WithRegion(""),
			nil, []string{"spec.version: has no effect"}},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", row.object)
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(passing(row.template...), object), object)
			require.NoError(t, err)
			assertRefused(t, got.Errors, row.refused...)
			assertWarned(t, got.Warnings, row.warnings...)
		})
	}
}

// A control plane that runs is moved, restored and changed elsewhere; nothing may be added that has no effect.
func TestSafety14ControlPlanesThatRun(t *testing.T) {
	running := builder.WithEndpoint("x.eks.amazonaws.com", 443)
	recorded := builder.WithApplyRef("by-hand")
	apply := builder.WorkspaceTemplateApply("by-hand", ofTemplate("eks"), builder.OwnedBy(builder.CAPTControlPlane("demo")),
		builder.WithRecordedWorkspace(builder.Workspace("by-hand", builder.Rows()[0])))
	for title, options := range map[string][]builder.Option{"with an endpoint": {running}, "with a Workspace": {recorded}} {
		t.Run(title, func(t *testing.T) {
			old := builder.CAPTControlPlane("demo", append(options, restricted("203.0.113.0/24"))...)
			second := passing()
			second.Name = "eks-2"
			pinned := passing(builder.WithLabel(naming.PinnedLabel, "true"))
			pinned.Name = "eks-pinned"
			world := newWorld(passing(), second, pinned, apply, old)
			found, err := owners.CAPTControlPlane(t.Context(), world, old)
			require.NoError(t, err)
			assertRefused(t, found.Errors)
			assertWarned(t, found.Warnings, cidrs+": "+open)

			for change, row := range map[string]struct {
				option  builder.Option
				refused []finding
			}{
				"nothing":                               {restricted("203.0.113.0/24"), nil},
				"less":                                  {restricted("203.0.113.0/24", "198.51.100.0/24"), []finding{{cidrs, field.ErrorTypeInvalid, open}}},
				"unset":                                 {plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointAccess = nil }), nil},
				"another template that ignores it, too": {plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "eks-2" }), []finding{{cidrs, field.ErrorTypeInvalid, open}}},
				"one that reproduces its Workspace":     {plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "eks-pinned" }), nil},
				"a closed": {plane(func(c *controlplanev1.CAPTControlPlane) {
					c.Spec.EndpointAccess.Public = controlplanev1.EndpointDisabled
				}), []finding{{"spec.endpointAccess.public", field.ErrorTypeInvalid, open}}},
			} {
				t.Run(change, func(t *testing.T) {
					after := builder.CAPTControlPlane("demo", append(options, restricted("203.0.113.0/24"), row.option)...)
					errs, err := consumption.CAPTControlPlaneChange(t.Context(), world, old, after)
					require.NoError(t, err)
					assertRefused(t, errs, row.refused...)
				})
			}
		})
	}
	t.Run("one that is not built is validated as a whole", func(t *testing.T) {
		old, after := builder.CAPTControlPlane("demo"), builder.CAPTControlPlane("demo", restricted("203.0.113.0/24"))
		errs, err := consumption.CAPTControlPlaneChange(t.Context(), newWorld(passing(), old), old, after)
		require.NoError(t, err)
		assertRefused(t, errs)
	})
}

func TestSafety14OtherOwners(t *testing.T) {
	vpc := builder.WorkspaceTemplate("vpc")
	named := builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Name = "main" })
	ofVPC := []string{"spec.region: has no effect", "spec.vpc.template.name: has no effect"}
	t.Run("CAPTCluster", func(t *testing.T) {
		got, err := owners.CAPTCluster(t.Context(), newWorld(vpc), builder.CAPTCluster("demo", named))
		require.NoError(t, err)
		assertRefused(t, got.Errors)
		assertWarned(t, got.Warnings, ofVPC...)
	})
	t.Run("CAPTClusterTemplate", func(t *testing.T) {
		got, err := owners.CAPTClusterTemplate(t.Context(), newWorld(vpc), captClusterTemplate(named))
		require.NoError(t, err)
		assertRefused(t, got.Errors)
		assertWarned(t, got.Warnings, "spec.template."+ofVPC[0], "spec.template."+ofVPC[1])
	})
	t.Run("CAPTControlPlaneTemplate", func(t *testing.T) {
		got, err := owners.CAPTControlPlaneTemplate(t.Context(), newWorld(passing()), controlPlaneTemplate(restricted("203.0.113.0/24")))
		require.NoError(t, err)
		assertRefused(t, got.Errors)
		assertWarned(t, got.Warnings, "spec.template."+cidrs+": "+open)
	})
	t.Run("Fargate profiles", func(t *testing.T) {
		object := builder.CAPTControlPlane("demo", fargate(selecting("a")))
		got, err := owners.CAPTControlPlane(t.Context(), newWorld(passing(), builder.WorkspaceTemplate("fargate"), object), object)
		require.NoError(t, err)
		assertRefused(t, got.Errors)
		assertWarned(t, got.Warnings, "spec.fargateProfiles[0].name: has no effect", "spec.fargateProfiles[0].selectors: has no effect")
	})
}

func TestSafety14TemplatesThatDropAPlaceholder(t *testing.T) {
	before, after := passing(builder.Consuming("endpoint_public_access_cidrs")), passing()
	user := builder.CAPTControlPlane("office", restricted("203.0.113.0/24"))
	world := newWorld(user, builder.CAPTControlPlane("open"), builder.CAPTControlPlane("elsewhere", restricted("203.0.113.0/24"), builder.WithNamespace("team")))
	warnings, err := consumption.WorkspaceTemplateUpdate(t.Context(), world, before, after)
	require.NoError(t, err)
	assertWarned(t, warnings, "after this update, the API servers of 1 CAPTControlPlanes will be reachable from more networks than specified: the template no longer uses the placeholder of a field, for example default/office (spec.endpointAccess.publicCIDRs)")
	assert.Contains(t, warnings[0], "default/office ("+cidrs+")")

	warnings, err = consumption.WorkspaceTemplateUpdate(t.Context(), world, after, after)
	require.NoError(t, err)
	assert.Empty(t, warnings, "no new warning without a change")
}

func TestSafety13TemplatesThatAreBeingDeleted(t *testing.T) {
	const text = "is being deleted and cannot be used by new objects"
	eks := complete("eks", builder.Deleting())
	object := builder.CAPTControlPlane("demo")
	got, err := owners.CAPTControlPlane(t.Context(), newWorld(eks, object), object)
	require.NoError(t, err)
	assertRefused(t, got.Errors, finding{"spec.workspaceTemplateRef", field.ErrorTypeForbidden, text})

	apply := builder.WorkspaceTemplateApply("by-hand", ofTemplate("eks"))
	got, err = applies.WorkspaceTemplateApply(t.Context(), newWorld(eks, apply), apply)
	require.NoError(t, err)
	assertRefused(t, got.Errors, finding{"spec.templateRef", field.ErrorTypeForbidden, text})

	got, err = owners.CAPTCluster(t.Context(), newWorld(complete("vpc", builder.Deleting())), builder.CAPTCluster("demo"))
	require.NoError(t, err)
	assertRefused(t, got.Errors, finding{"spec.vpc.template.ref", field.ErrorTypeForbidden, text})
}

func TestSafety15KeysThatAreGivenTwice(t *testing.T) {
	path := "spec.template.spec.forProvider."
	twice := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Module += "variable \"a\" {}\n"
		params.Vars = append(params.Vars, terraform.Var{Key: "a", Value: "1"}, terraform.Var{Key: "a", Value: "2"})
		params.Env = []terraform.EnvVar{{Name: "B", Value: "1"}, {Name: "C", Value: "1"}, {Name: "B", Value: "1"}}
	})
	got := templates.WorkspaceTemplate(builder.WorkspaceTemplate("vpc", twice))
	assertRefused(t, got.Errors, finding{path + "vars[2].key", field.ErrorTypeDuplicate, ""}, finding{path + "env[2].name", field.ErrorTypeDuplicate, ""})

	both := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"cluster_name": "x"}`)}
	})
	got = templates.WorkspaceTemplate(builder.WorkspaceTemplate("vpc", both))
	assertRefused(t, got.Errors)
	assertWarned(t, got.Warnings, path+"varmap[cluster_name]: is also in vars")
}

func TestSafety16FieldsThatAreNotImplemented(t *testing.T) {
	const text = "has no effect in this version. Remove the field"
	change := func(probe controlplanev1.EndpointProbe, recovery *controlplanev1.RecoveryStrategy) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointProbe, c.Spec.Recovery = probe, recovery })
	}
	for title, row := range map[string]struct {
		option   builder.Option
		warnings []string
	}{
		"nothing":     {change("", nil), nil},
		"the default": {change(controlplanev1.EndpointProbeBestEffort, nil), nil},
		"a probe":     {change(controlplanev1.EndpointProbeRequired, nil), []string{"endpointProbe: " + text}},
		"no probe":    {change(controlplanev1.EndpointProbeDisabled, nil), []string{"endpointProbe: " + text}},
		"recovery":    {change("", &controlplanev1.RecoveryStrategy{}), []string{"recovery: " + text}},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", row.option)
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(complete("eks"), object), object)
			require.NoError(t, err)
			assertWarned(t, got.Warnings, row.warnings...)
			got, err = owners.CAPTControlPlaneTemplate(t.Context(), newWorld(complete("eks")), controlPlaneTemplate(row.option))
			require.NoError(t, err)
			assertWarned(t, got.Warnings, row.warnings...)
		})
	}
}
