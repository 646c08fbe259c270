// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// plane returns an option that changes a CAPTControlPlane.
func plane(change func(*controlplanev1.CAPTControlPlane)) builder.Option { return builder.With(change) }

func version(text string) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = text })
}

func (r row) controlPlane(t *testing.T) {
	t.Helper()
	object := builder.CAPTControlPlane("demo", r.object...)
	existing := newFakeReader(append([]validation.Owner{complete("eks"), complete("fargate"), object}, r.existing...)...)
	expect(t, r.refused, r.warnings...)(validation.ValidateCAPTControlPlane(t.Context(), existing, object))
}

func TestCAPTControlPlanes(t *testing.T) {
	template := func(ref infrav1.WorkspaceTemplateReference) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef = ref })
	}
	longest := strings.Repeat("n", naming.MaxCAPTControlPlaneNameLength)
	for title, row := range map[string]row{
		"as short as can be": {},
		"template does not exist yet": {object: []builder.Option{template(infrav1.WorkspaceTemplateReference{Name: "later"})},
			warnings: []string{"spec.workspaceTemplateRef: WorkspaceTemplate later does not exist yet"}},
		"template does not allow the namespace": {existing: []validation.Owner{complete("eks", builder.WithNamespace("shared"))},
			object:   []builder.Option{template(infrav1.WorkspaceTemplateReference{Name: "eks", Namespace: "shared"})},
			warnings: []string{"spec.workspaceTemplateRef: WorkspaceTemplate shared/eks does not exist, or does not allow namespace default"}},
		"with the longest name that fits": {object: []builder.Option{renamed(longest)}},
		"with a name that is longer": {object: []builder.Option{renamed(longest + "n")},
			refused: []finding{{"metadata.name", field.ErrorTypeInvalid, "has 231 characters, so names that CAPT derives from it would be truncated"}}},
		"with a variable that nothing can name": {object: []builder.Option{vpcVariables("1a", "hunter2")},
			refused: []finding{{"spec.variables[1a]", field.ErrorTypeInvalid, "letters, digits and underscores"}}},
		"with the variable of a Fargate profile": {object: []builder.Option{vpcVariables("profile_name", "hunter2")},
			refused: []finding{{"spec.variables[profile_name]", field.ErrorTypeForbidden, "is reserved for Fargate profiles"}}},
		"with a variable that the template does not use": {object: []builder.Option{vpcVariables("sise", "hunter2")},
			warnings: []string{"spec.variables[sise]: has no effect: WorkspaceTemplate default/eks has no placeholder ${sise}"}},
		"with variables that CAPT sets": {object: []builder.Option{vpcVariables("kubernetes_version", "1.20", "addons", "hunter2", "tags_team", "x"),
			plane(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "blue"}
			})},
			warnings: []string{"spec.variables[kubernetes_version]: has no effect", "spec.variables[addons]: has no effect", "spec.variables[tags_team]: has no effect"}},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

// TestValidateVersionChange tests which changes are allowed.
func TestVersionsOfControlPlanes(t *testing.T) {
	const path, untested = "spec.version", " is not among the versions this release was tested with (1.30 to 1.35)"
	running := builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.UpToDate(nil),
		builder.WithVariables(map[string]string{"cluster_name": "demo", "kubernetes_version": "1.31"}), of("", "eks"))
	for text, row := range map[string]row{
		"1.30": {}, "v1.35.4": {},
		"1.29":    {warnings: []string{path + ": EKS 1.29" + untested}},
		"v1.36.0": {warnings: []string{"EKS 1.36" + untested}},
		"latest":  {refused: []finding{{path, field.ErrorTypeInvalid, "\"latest\" is not a Kubernetes version"}}},
		"1.32":    {existing: []validation.Owner{running}, object: []builder.Option{builder.WithApplyRef(running.Name)}},
		"1.33": {existing: []validation.Owner{running}, object: []builder.Option{builder.WithApplyRef(running.Name)},
			refused: []finding{{path, field.ErrorTypeForbidden, "the cluster runs 1.31 and EKS upgrades one minor version at a time"}}},
	} {
		row.object = append(row.object, version(text))
		t.Run(text, func(t *testing.T) { row.controlPlane(t) })
	}
}

// profiles returns an option that adds Fargate profiles. The value is the name in their reference; empty for none.
func profiles(pairs ...string) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) {
		for i := 0; i < len(pairs); i += 2 {
			c.Spec.FargateProfiles = append(c.Spec.FargateProfiles, controlplanev1.FargateProfile{
				Name: pairs[i], WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
				Selectors:                 []controlplanev1.FargateSelector{{Namespace: strings.ToLower(strings.ReplaceAll(pairs[i], "_", "-"))}},
				WorkspaceTemplateApplyRef: infrav1.WorkspaceTemplateApplyReference{Name: pairs[i+1]},
			})
		}
	})
}

func TestWorkspaceTemplateAppliesOfControlPlanes(t *testing.T) {
	const path = "spec.workspaceTemplateApplyRef.name"
	ofProfile := func(name string, options ...builder.Option) validation.Owner {
		variables := builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": name})
		return builder.WorkspaceTemplateApply("by-hand", append(options, variables, builder.OwnedBy(builder.CAPTControlPlane("demo")))...)
	}
	const meet, alike = "spoTnighTlyjObs", "SPOtnighTlYjObs" // Their hashes are the same.
	for title, row := range map[string]row{
		"the scheme's":   {object: []builder.Option{builder.WithApplyRef("demo-eks-controlplane-apply")}},
		"does not exist": {object: []builder.Option{builder.WithApplyRef("by-hand")}, warnings: []string{path + ": WorkspaceTemplateApply by-hand does not exist"}},
		"referred to by a CAPTCluster": {existing: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))},
			object: []builder.Option{builder.WithApplyRef("by-hand")}, refused: []finding{{path, field.ErrorTypeForbidden, "in use by CAPTCluster demo"}}},
		"referred to by a profile of another control plane": {existing: []validation.Owner{builder.CAPTControlPlane("other", profiles("a", "by-hand"))},
			object: []builder.Option{builder.WithApplyRef("by-hand")}, refused: []finding{{path, field.ErrorTypeForbidden, "in use by CAPTControlPlane other"}}},
		"those of profiles": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo")}, object: []builder.Option{profiles("a", "demo-a-fargate-apply", "b", "")}},
		"of a profile, does not exist": {object: []builder.Option{profiles("a", "by-hand")},
			warnings: []string{"spec.fargateProfiles[0].workspaceTemplateApplyRef.name: WorkspaceTemplateApply by-hand does not exist"}},
		"of a profile, owned by another object": {existing: []validation.Owner{builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("other")))},
			object:  []builder.Option{profiles("a", "by-hand")},
			refused: []finding{{"spec.fargateProfiles[0].workspaceTemplateApplyRef.name", field.ErrorTypeForbidden, "belongs to CAPTControlPlane other"}}},
		"one for two profiles": {existing: []validation.Owner{ofProfile("a")}, object: []builder.Option{profiles("a", "by-hand", "b", "by-hand")},
			refused: []finding{
				{"spec.fargateProfiles[1].workspaceTemplateApplyRef.name", field.ErrorTypeForbidden, "in use by Fargate profile a"},
				{"spec.fargateProfiles[1].workspaceTemplateApplyRef.name", field.ErrorTypeForbidden, "it has another profile_name"},
			}},
		"one for a profile and the control plane": {existing: []validation.Owner{ofProfile("a")},
			object: []builder.Option{builder.WithApplyRef("by-hand"), profiles("a", "by-hand")},
			refused: []finding{
				{path, field.ErrorTypeForbidden, "it belongs to a Fargate profile"},
				{"spec.fargateProfiles[0].workspaceTemplateApplyRef.name", field.ErrorTypeForbidden, "in use by the control plane itself"},
			}},
		"name reserved for another profile": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo")},
			object:   []builder.Option{profiles("a", "demo-b-fargate-apply", "b", "")},
			refused:  []finding{{"spec.fargateProfiles[1].name", field.ErrorTypeForbidden, "the WorkspaceTemplateApply of this profile would be demo-b-fargate-apply, which is in use by Fargate profile a"}},
			warnings: []string{"spec.fargateProfiles[0].workspaceTemplateApplyRef.name: WorkspaceTemplateApply demo-b-fargate-apply does not exist"}},
		"name reserved for an earlier profile": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo")},
			object:   []builder.Option{profiles("b", "", "a", "demo-b-fargate-apply")},
			refused:  []finding{{"spec.fargateProfiles[1].workspaceTemplateApplyRef.name", field.ErrorTypeForbidden, "in use by Fargate profile b"}},
			warnings: []string{"spec.fargateProfiles[1].workspaceTemplateApplyRef.name: WorkspaceTemplateApply demo-b-fargate-apply does not exist"}},
		"name reserved for another profile, unknown Cluster": {object: []builder.Option{profiles("a", "demo-b-fargate-apply", "b", "")},
			warnings: []string{"spec.fargateProfiles[0].workspaceTemplateApplyRef.name: WorkspaceTemplateApply demo-b-fargate-apply does not exist"}},
		"the scheme's, as a profile would have it": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.WorkspaceTemplateApply("demo-a-fargate-apply", of("", "fargate"),
			builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "a"}))}, object: []builder.Option{profiles("a", "")}},
		"the scheme's, which is no profile's": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.WorkspaceTemplateApply("demo-a-fargate-apply", of("", "fargate"))},
			object:   []builder.Option{profiles("a", "")},
			warnings: []string{"spec.fargateProfiles[0]: nothing is created for this profile: WorkspaceTemplateApply demo-a-fargate-apply does not match what this object would create for Fargate profile a: it has no profile_name. If another one is meant, set workspaceTemplateApplyRef of the profile to it"}},
		"the scheme's, which is another's": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.WorkspaceTemplateApply("demo-a-fargate-apply", builder.OwnedBy(builder.CAPTControlPlane("other")))},
			object:   []builder.Option{profiles("a", "")},
			warnings: []string{"spec.fargateProfiles[0]: nothing is created for this profile: WorkspaceTemplateApply demo-a-fargate-apply belongs to CAPTControlPlane other: two objects cannot share one"}},
		"the scheme's, to which another refers": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.CAPTControlPlane("other", profiles("b", "demo-a-fargate-apply"))},
			object:   []builder.Option{profiles("a", "")},
			warnings: []string{"spec.fargateProfiles[0]: nothing is created for this profile: WorkspaceTemplateApply demo-a-fargate-apply is in use by CAPTControlPlane other"}},
		"the scheme's, of an unknown Cluster": {existing: []validation.Owner{builder.WorkspaceTemplateApply("demo-a-fargate-apply")}, object: []builder.Option{profiles("a", "")}},
		"a profile twice, which the schema refuses": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo")}, object: []builder.Option{profiles("a", "", "a", "")},
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile a has the same selector"}},
		"profiles with colliding names": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo")},
			object:   []builder.Option{profiles(meet, "", alike, "")},
			refused:  []finding{{"spec.fargateProfiles[1].name", field.ErrorTypeForbidden, "the WorkspaceTemplateApply of this profile would be demo-spotnightlyjobs--54lb5-fargate-apply, which is in use by Fargate profile spoTnighTlyjObs"}},
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile " + meet + " has the same selector"}},
		"profiles with colliding names, unknown Cluster": {object: []builder.Option{profiles("A", "", "a", "")},
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile A has the same selector"}},
		"profiles with names that differ in case": {existing: []validation.Owner{builder.Cluster("demo"), builder.CAPTCluster("demo")}, object: []builder.Option{profiles("A", "", "a", "")},
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile A has the same selector"}},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

func TestKubeconfigSecretsWithTheSameName(t *testing.T) {
	const text = "would have the same Secret a-user-kubeconfig. Choose another name for one of the Clusters"
	foreign := builder.Cluster("a", builder.WithUID("x"))
	foreign.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	foreignUser := builder.Cluster("a-user")
	foreignUser.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	for title, row := range map[string]struct {
		name    string
		others  []validation.Owner
		refused string
	}{
		"user kubeconfig with the name of a contract kubeconfig": {"a", []validation.Owner{builder.Cluster("a"), builder.Cluster("a-user")}, text},
		"contract kubeconfig with the name of a user kubeconfig": {"a-user", []validation.Owner{builder.Cluster("a"), builder.Cluster("a-user")}, text},
		"control plane of another provider":                      {"a", []validation.Owner{builder.Cluster("a"), foreignUser}, text},
		"others make none for users":                             {"a-user", []validation.Owner{foreign, builder.Cluster("a-user")}, ""},
		"alone":                                                  {"a-user", []validation.Owner{builder.Cluster("a-user")}, ""},
		"while its own Cluster does not exist":                   {"a-user", []validation.Owner{builder.Cluster("a")}, ""},
		"in another namespace":                                   {"a", []validation.Owner{builder.Cluster("a"), builder.Cluster("a-user", builder.WithNamespace("x"))}, ""},
		"a Cluster called -user":                                 {"-user", []validation.Owner{builder.Cluster("-user")}, ""},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane(row.name)
			object.Spec.EKSClusterName = "eks"
			expect(t, refusedIf("metadata.name", row.refused))(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(append(row.others, object, complete("eks"))...), object))
		})
	}
}

func TestRepairEndpoint(t *testing.T) {
	none := clusterv1.APIEndpoint{}
	for name, row := range map[string]struct{ stored, want clusterv1.APIEndpoint }{
		"none":                           {none, none},
		"as it should be":                {clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}},
		"an address":                     {clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 443}, clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 443}},
		"a URL":                          {clusterv1.APIEndpoint{Host: "https://a.example.com", Port: 443}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}},
		"a URL with a slash":             {clusterv1.APIEndpoint{Host: "https://a.example.com/", Port: 6443}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 6443}},
		"a URL that alone has the port":  {clusterv1.APIEndpoint{Host: "https://a.example.com:6443"}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 6443}},
		"a URL without any port":         {clusterv1.APIEndpoint{Host: "https://a.example.com"}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}},
		"not an https URL":               {clusterv1.APIEndpoint{Host: "http://a.example.com", Port: 443}, none},
		"a scheme and nothing behind it": {clusterv1.APIEndpoint{Host: "https://", Port: 443}, none},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, validation.RepairEndpoint(row.stored)) })
	}
}

func TestRegionConflict(t *testing.T) {
	foreign := builder.With(func(c *clusterv1.Cluster) {
		c.Spec.InfrastructureRef.Kind, c.Spec.ControlPlaneRef.Kind = "DockerCluster", "KubeadmControlPlane"
	})
	for name, row := range map[string]struct {
		cluster  *clusterv1.Cluster // Nil if it does not exist.
		region   string             // The region of the control plane.
		conflict bool
	}{
		"the same":                          {builder.Cluster("demo"), builder.Region, false},
		"region of the network, by default": {builder.Cluster("demo"), "", false},
		"another":                           {builder.Cluster("demo"), "us-gov-west-1", true},
		"another, but no Cluster yet":       {nil, "us-gov-west-1", false},
		"another, of another Cluster":       {builder.Cluster("other"), "us-gov-west-1", false},
		"another, and other providers":      {builder.Cluster("demo", foreign), "us-gov-west-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			network, controlPlane := builder.CAPTCluster("demo"), builder.CAPTControlPlane("demo", builder.WithRegion(row.region))
			objects, want := []validation.Owner{network, controlPlane, complete("vpc"), complete("eks")}, []finding(nil)
			if row.cluster != nil {
				objects = append(objects, row.cluster)
			}
			if row.conflict {
				want = []finding{{"spec.region", field.ErrorTypeInvalid,
					"CAPTControlPlane demo is in region us-gov-west-1, but CAPTCluster demo of the same Cluster is in region ap-northeast-1"}}
			}
			expect(t, want)(validation.ValidateCAPTCluster(t.Context(), newFakeReader(objects...), network))
			expect(t, want)(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(objects...), controlPlane))
		})
	}
	alone := newFakeReader(builder.Cluster("demo"), complete("vpc"), complete("eks"))
	expect(t, nil)(validation.ValidateCAPTCluster(t.Context(), alone, builder.CAPTCluster("demo")))
	expect(t, nil)(validation.ValidateCAPTControlPlane(t.Context(), alone, builder.CAPTControlPlane("demo", builder.WithRegion("us-gov-west-1"))))
}

// The WorkspaceTemplateApply of the control plane has a region, and the Cluster has a CAPTCluster or none.
func TestRegionChange(t *testing.T) {
	const here, there = builder.Region, "us-east-1"
	for name, row := range map[string]struct {
		handed  string // The region of the WorkspaceTemplateApply; empty when it has none.
		network string // The region of the CAPTCluster; empty when there is none.
		region  string
		refused string
	}{
		"no region in the apply":            {"", "", there, ""},
		"the same":                          {here, "", here, ""},
		"another":                           {here, "", there, "the control plane exists in region ap-northeast-1 and cannot move to us-east-1"},
		"region of its network":             {here, here, "", ""},
		"not the region of its network":     {here, here, there, "the control plane exists in region ap-northeast-1 and cannot move to us-east-1"},
		"removed, and the network is there": {here, there, "", "Set spec.infrastructureRef of the Cluster to a CAPTCluster in ap-northeast-1"},
		"removed, without a network":        {here, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks-controlplane-apply"), builder.WithRegion(row.region))
			objects := []validation.Owner{controlPlane, builder.Cluster("demo"), complete("eks"), builder.WorkspaceTemplateApply("demo-eks-controlplane-apply",
				builder.OwnedBy(controlPlane), builder.WithVariables(map[string]string{"cluster_name": "demo", "region": row.handed}), of("", "eks"))}
			if row.network != "" {
				objects = append(objects, builder.CAPTCluster("demo", builder.WithRegion(row.network)))
			}
			expect(t, refusedIf("spec.region", row.refused))(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(objects...), controlPlane))
		})
	}
}

func TestRemediesOfRegionConflicts(t *testing.T) {
	controlPlane, network := builder.CAPTControlPlane("demo", builder.WithRegion("us-east-1")), builder.CAPTCluster("demo")
	for handed, text := range map[string]string{
		"":             ". Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region",
		"us-east-1":    ". Set spec.infrastructureRef of the Cluster to a CAPTCluster in the region of the control plane that has its VPC",
		builder.Region: ". Remove spec.region of the CAPTControlPlane",
	} {
		apply := builder.WorkspaceTemplateApply("x", builder.WithVariables(map[string]string{"region": handed}))
		require.ErrorContains(t, validation.RegionConflict(controlPlane, network, apply), "is in region ap-northeast-1"+text)
	}
}

// EKS rejects them when the VPC exists. Nodes outside of the networks cannot join.
func TestNetworksOfThePublicEndpoint(t *testing.T) {
	const path = "spec.endpointAccess.publicCIDRs[0]"
	for cidr, want := range map[controlplanev1.CIDR]string{
		"203.0.113.0/24": "", "0.0.0.0/0": "", "2001:db8::/32": "",
		"203.0.113.7/24": "is an address in a network. Write the network 203.0.113.0/24",
		"10.0.0.0/16":    "is not a network of public addresses", "127.0.0.0/8": "is not a network of public addresses", "169.254.0.0/16": "is not a network of public addresses",
	} {
		for private, warned := range map[controlplanev1.EndpointState]bool{controlplanev1.EndpointEnabled: false, controlplanev1.EndpointDisabled: cidr != "0.0.0.0/0"} {
			controlPlane := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{Private: private, PublicCIDRs: []controlplanev1.CIDR{cidr}}
			}))
			findings, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(), controlPlane)
			require.NoError(t, err)
			if want == "" {
				assert.Empty(t, findings.Errors, cidr)
			} else {
				assertRefused(t, findings.Errors, finding{path, field.ErrorTypeInvalid, want})
			}
			assert.Equal(t, warned, strings.Contains(strings.Join(findings.Warnings, "\n"), "reach the API server only from publicCIDRs"), "%s, private %s", cidr, private)
		}
	}
}
