// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/test/builder"
)

func fargate(selectors ...controlplanev1.FargateSelector) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{
			{Name: "fp", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}, Selectors: selectors},
		}
	})
}

func selecting(namespace string, pairs ...string) controlplanev1.FargateSelector {
	selector := controlplanev1.FargateSelector{Namespace: namespace, Labels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		selector.Labels[pairs[i]] = pairs[i+1]
	}
	return selector
}

func TestSelectorsOfFargateProfiles(t *testing.T) {
	const labels = "spec.fargateProfiles[0].selectors[0].labels"
	invalid := func(path, text string) []finding { return []finding{{path, field.ErrorTypeInvalid, text}} }
	for title, row := range map[string]row{
		"a namespace":                    {object: []builder.Option{fargate(selecting("kube-system"))}},
		"any namespace":                  {object: []builder.Option{fargate(selecting("*"))}},
		"namespaces that begin alike":    {object: []builder.Option{fargate(selecting("team-?-*"))}},
		"labels":                         {object: []builder.Option{fargate(selecting("a", "app.kubernetes.io/name", "web-1", "empty", ""))}},
		"labels with wildcards":          {object: []builder.Option{fargate(selecting("a", "k*", "v?*"))}},
		"a namespace in capitals":        {object: []builder.Option{fargate(selecting("Team"))}, refused: invalid("spec.fargateProfiles[0].selectors[0].namespace", "cannot match any pod")},
		"a namespace that begins with -": {object: []builder.Option{fargate(selecting("-*"))}, refused: invalid("spec.fargateProfiles[0].selectors[0].namespace", "The wildcards * and ? are allowed")},
		"a key with a space":             {object: []builder.Option{fargate(selecting("a", "a b", "c"))}, refused: invalid(labels+"[a b]", "name part")},
		"a value with a space":           {object: []builder.Option{fargate(selecting("a", "k", "b c"))}, refused: invalid(labels+"[k]", "cannot match any pod")},
		"a value that is too long":       {object: []builder.Option{fargate(selecting("a", "k", strings.Repeat("v", 64)))}, refused: invalid(labels+"[k]", "cannot match any pod")},
		"the second of them":             {object: []builder.Option{fargate(selecting("a"), selecting("B"))}, refused: invalid("spec.fargateProfiles[0].selectors[1].namespace", "cannot match any pod")},
		"a key with two slashes":         {object: []builder.Option{fargate(selecting("a", "x/y/z", "v"))}, refused: invalid(labels+"[x/y/z]", "cannot match any pod")},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

func TestTemplatesOfFargateProfiles(t *testing.T) {
	of := func(ref infrav1.WorkspaceTemplateReference) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.FargateProfiles = []controlplanev1.FargateProfile{
				{Name: "a", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}, Selectors: []controlplanev1.FargateSelector{selecting("a")}},
				{Name: "b", WorkspaceTemplateRef: ref, Selectors: []controlplanev1.FargateSelector{selecting("b")}},
			}
		})
	}
	for title, row := range map[string]row{
		"there": {object: []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "default"})}},
		"not yet there": {object: []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: "later"})},
			warnings: []string{"spec.fargateProfiles[1].workspaceTemplateRef: WorkspaceTemplate later does not exist yet"}},
		"kept by its owners": {world: []validation.Owner{complete("fargate", builder.WithNamespace("shared"))},
			object:  []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "shared"})},
			refused: []finding{{"spec.fargateProfiles[1].workspaceTemplateRef", field.ErrorTypeForbidden, "spec.allowedNamespaces"}}},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

// profile is one with a selector of its own.
func profile(name string) controlplanev1.FargateProfile {
	return controlplanev1.FargateProfile{
		Name: name, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
		Selectors: []controlplanev1.FargateSelector{selecting("a", "app", "x"), selecting("b-" + strings.ToLower(strings.Trim(name, "-_")[:1]))},
	}
}

func TestFargateProfilesThatMayNotWork(t *testing.T) {
	with := func(profiles ...controlplanev1.FargateProfile) []builder.Option {
		return []builder.Option{plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.FargateProfiles = profiles })}
	}
	selecting := func(profile controlplanev1.FargateProfile, selectors ...controlplanev1.FargateSelector) controlplanev1.FargateProfile {
		profile.Selectors = selectors
		return profile
	}
	ten := func() (profiles []controlplanev1.FargateProfile) {
		for i := range 10 {
			name := string(rune('a' + i))
			profiles = append(profiles, selecting(profile(name), controlplanev1.FargateSelector{Namespace: name}))
		}
		return profiles
	}
	const nameless = "is not a valid label value, so pods cannot select the profile by name"
	for title, row := range map[string]row{
		"as many as EKS allows": {object: with(ten()...)},
		"one more": {object: with(append(ten(), selecting(profile("z"), controlplanev1.FargateSelector{Namespace: "z"}))...),
			warnings: []string{"spec.fargateProfiles: the default quota of EKS is 10 Fargate profiles per cluster"}},
		"a name in capitals":            {object: with(profile("Batch_1-a"))},
		"a name that begins with -":     {object: with(profile("-a")), warnings: []string{"spec.fargateProfiles[0].name: " + nameless}},
		"a name that ends with _":       {object: with(profile("a_")), warnings: []string{nameless}},
		"a name that labels just allow": {object: with(profile(strings.Repeat("n", 63)))},
		"a name that labels do not":     {object: with(profile(strings.Repeat("n", 64))), warnings: []string{nameless}},
		"the same selector twice": {object: with(selecting(profile("a"), profile("a").Selectors[0], profile("b").Selectors[1], profile("a").Selectors[0])),
			warnings: []string{"spec.fargateProfiles[0].selectors[2]: duplicates another selector of the profile. Remove it"}},
		"the same selector, without labels": {object: with(selecting(profile("a"), controlplanev1.FargateSelector{Namespace: "a"}, controlplanev1.FargateSelector{Namespace: "a", Labels: map[string]string{}})),
			warnings: []string{"spec.fargateProfiles[0].selectors[1]: duplicates another selector of the profile"}},
		"selectors of one namespace": {object: with(selecting(profile("a"), profile("a").Selectors[0], controlplanev1.FargateSelector{Namespace: "a"}))},
		"two profiles of the same selector": {object: with(profile("a"), profile("b")),
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile a has the same selector. EKS chooses"}},
		"three": {object: with(profile("a"), profile("b"), profile("a1")),
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile a ", "spec.fargateProfiles[2].selectors[0]: Fargate profile a ", "spec.fargateProfiles[2].selectors[1]: Fargate profile a "}},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

func TestVariablesOfFargateTemplates(t *testing.T) {
	vars := func(pairs ...string) builder.Option {
		return builder.WithParameters(func(params *terraform.WorkspaceParameters) {
			for i := 0; i < len(pairs); i += 2 {
				params.Vars = append(params.Vars, terraform.Var{Key: pairs[i], Value: pairs[i+1]})
			}
		})
	}
	var all []string
	for _, name := range owners.FargateVariables() {
		all = append(all, name, "${"+name+"}")
	}
	files := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "${vpc_connection_secret}", Key: "vpc_config"}}}
	})
	const path = "spec.fargateProfiles[0].workspaceTemplateRef: "
	for title, row := range map[string]struct {
		template []builder.Option
		warnings []string
	}{
		"all that CAPT gives":       {[]builder.Option{vars(all...)}, nil},
		"none of them":              {[]builder.Option{builder.WithModule("")}, nil},
		"a Secret that CAPT names":  {[]builder.Option{files}, nil},
		"the name of the Workspace": {[]builder.Option{vars("name", "${WORKSPACE_NAME}")}, nil},
		"what a control plane has":  {[]builder.Option{vars("version", "${kubernetes_version}")}, []string{path + "placeholder ${kubernetes_version} of WorkspaceTemplate default/fargate has no value and is not replaced: templates of Fargate profiles only get cluster_name, profile_name, region, selectors, tags, vpc_connection_secret, eks_connection_secret"}},
		"a tag by itself":           {[]builder.Option{vars("team", "${tags_team}")}, []string{"placeholder ${tags_team}"}},
		"a mistake":                 {[]builder.Option{vars("a", "${cluster_nam}", "b", "${regoin}")}, []string{"placeholder ${cluster_nam}", "placeholder ${regoin}"}},
		"Terraform's own":           {[]builder.Option{builder.WithModule("output \"a\" { value = \"${each}\" }\n")}, nil},
		"a name within the module":  {[]builder.Option{builder.WithModule("output \"a\" { value = \"${profile_name} in ${region}\" }\n")}, nil},
		"a list within the module":  {[]builder.Option{builder.WithModule("locals { s = jsondecode(\"${selectors}\") }\n")}, []string{path + "in WorkspaceTemplate default/fargate the value of variable \"selectors\" has characters that could change the module. Declare a Terraform variable"}},
		"an object in the address": {[]builder.Option{builder.WithParameters(func(params *terraform.WorkspaceParameters) {
			params.Source, params.Module, params.Vars = terraform.SourceRemote, "git::https://example.com/${tags}", nil
		})}, []string{path + "in WorkspaceTemplate default/fargate the value of variable \"tags\""}},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", fargate(selecting("a")))
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(complete("eks"), complete("fargate", row.template...), object), object)
			require.NoError(t, err)
			assertRefused(t, got.Errors)
			assertWarned(t, got.Warnings, row.warnings...)
		})
	}
}
