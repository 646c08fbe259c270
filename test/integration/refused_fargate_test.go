// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capt-provider/capt/api/naming"
)

// profile is a Fargate profile that is right but for one thing.
func profile(more string) string {
	return planeWith(`fargateProfiles: [{workspaceTemplateRef: {name: fargate}, %s}]`, more)
}

// legacyProfile is one in v1beta1.
func legacyProfile(more string) string {
	return legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, additionalFargateProfiles: [{workspaceTemplateRef: {name: fargate}, ` + more + `}]}`)
}

// profileOfClass is one in a template of control planes.
func profileOfClass(more string) string {
	return document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, fargateProfiles: [{workspaceTemplateRef: {name: fargate}, `+more+`}]}}}`)
}

// everywhere is a Fargate profile that is refused in both versions, and in a template of control planes.
func everywhere(name, profileText, field, says string) []refusal {
	return []refusal{
		{name: name, document: profile(profileText), field: "spec.fargateProfiles[0]" + field, says: says},
		{name: "v1beta1: " + name, document: legacyProfile(profileText), field: "spec.fargateProfiles[0]" + field, says: says},
		{name: "template: " + name, document: profileOfClass(profileText), field: "spec.template.spec.fargateProfiles[0]" + field, says: says},
	}
}

func TestFargateProfilesThatAreRefused(t *testing.T) {
	t.Parallel()
	const selectors = `selectors: [{namespace: a}]`
	for _, refusals := range [][]refusal{
		everywhere("a name with a space", `name: "a b", `+selectors, ".name", "should match"),
		everywhere("a name that is too long", fmt.Sprintf(`name: %s, `, strings.Repeat("n", 101))+selectors, ".name", "Too long"),
		everywhere("a name of EKS' own", `name: eks-a, `+selectors, ".name", "reserved by EKS"),
		everywhere("no name at all", `name: "", `+selectors, ".name", "at least 1 chars"),
		everywhere("no selector", `name: a, selectors: []`, ".selectors", "at least 1 items"),
		everywhere("six selectors", `name: a, selectors: [`+many(6, "{namespace: n%d}")+`]`, ".selectors", "at most 5 items"),
		everywhere("six labels", `name: a, selectors: [{namespace: a, labels: {`+many(6, "l%d: v")+`}}]`, ".selectors[0].labels", "at most 5"),
		everywhere("an empty namespace", `name: a, selectors: [{namespace: ""}]`, ".selectors[0].namespace", "at least 1 chars"),
		everywhere("a namespace that is too long", fmt.Sprintf(`name: a, selectors: [{namespace: %s}]`, strings.Repeat("n", 64)), ".selectors[0].namespace", "Too long"),
		everywhere("an invalid namespace", `name: a, selectors: [{namespace: a}, {namespace: Team_1}]`, ".selectors[1].namespace", "cannot match any pod"),
		everywhere("a label that no pod can have", `name: a, selectors: [{namespace: a, labels: {"a b": v}}]`, ".selectors[0].labels[a b]", "name part"),
		everywhere("a value that no pod can have", fmt.Sprintf(`name: a, selectors: [{namespace: a, labels: {k: %s}}]`, strings.Repeat("v", 64)), ".selectors[0].labels[k]", "cannot match any pod"),
		{
			{name: "a selector without a namespace", document: profile(`name: a, selectors: [{labels: {a: b}}]`),
				field: "spec.fargateProfiles[0].selectors[0].namespace", says: "Required value"},
			// Conversion makes an empty one of it.
			{name: "v1beta1: a selector without a namespace", document: legacyProfile(`name: a, selectors: [{labels: {a: b}}]`),
				field: "spec.fargateProfiles[0].selectors[0].namespace", says: "at least 1 chars"},
			{name: "no template", document: planeWith(`fargateProfiles: [{name: a, selectors: [{namespace: a}]}]`),
				field: "spec.fargateProfiles[0].workspaceTemplateRef", says: "Required value"},
			{name: "a name twice", document: planeWith(`fargateProfiles: [` + twice + `]`), field: "spec.fargateProfiles[1]", says: "Duplicate value"},
			{name: "v1beta1: a name twice", document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, additionalFargateProfiles: [` + twice + `]}`),
				field: "spec.fargateProfiles[1]", says: "Duplicate value"},
			{name: "template: a reference of one cluster", document: profileOfClass(`name: a, selectors: [{namespace: a}], workspaceTemplateApplyRef: {name: x}`),
				field: "spec.template.spec.fargateProfiles", says: "refers to an object of one Cluster"},
		},
	} {
		refuse(t, refusals)
	}
}

// twice is a Fargate profile, and another one of its name.
const twice = `{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: f}}, {name: a, selectors: [{namespace: b}], workspaceTemplateRef: {name: f}}`

func TestReferencesOfFargateProfilesThatAreRefused(t *testing.T) {
	t.Parallel()
	const reference = "spec.fargateProfiles[0].workspaceTemplateApplyRef"
	refers := func(name string) string {
		return profile(`name: a, selectors: [{namespace: a}], workspaceTemplateApplyRef: {name: ` + name + `}`)
	}
	two := func(first, second string) string {
		return planeWith(`fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: fargate}%s}, {name: b, selectors: [{namespace: b}], workspaceTemplateRef: {name: fargate}%s}]`, first, second)
	}
	const shared = `, workspaceTemplateApplyRef: {name: shared}`
	refuse(t, []refusal{
		{name: "a template that others keep to themselves", given: platform(),
			document: planeWith(`fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: private, namespace: platform}}]`),
			field:    "spec.fargateProfiles[0].workspaceTemplateRef", says: "spec.allowedNamespaces"},
		{name: "v1beta1: a template that others keep to themselves", given: platform(),
			document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, additionalFargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: private, namespace: platform}}]}`),
			field:    "spec.fargateProfiles[0].workspaceTemplateRef", says: "spec.allowedNamespaces"},
		{name: "another WorkspaceTemplateApply", given: []string{refers("one")}, document: refers("two"),
			field: reference, says: "another WorkspaceTemplateApply is another Fargate profile"},
		{name: "one for two profiles", document: two(shared, shared),
			field: "spec.fargateProfiles[1].workspaceTemplateApplyRef.name", says: "in use by Fargate profile a"},
		{name: "the one that another profile gets", given: []string{cluster("demo")}, document: two("", `, workspaceTemplateApplyRef: {name: demo-a-fargate-apply}`),
			field: "spec.fargateProfiles[1].workspaceTemplateApplyRef.name", says: "in use by Fargate profile a"},
		{name: "names that meet", given: []string{cluster("demo")}, document: planeWith(`fargateProfiles: [{name: spoTnighTlyjObs, selectors: [{namespace: a}], workspaceTemplateRef: {name: f}}, {name: SPOtnighTlYjObs, selectors: [{namespace: b}], workspaceTemplateRef: {name: f}}]`),
			field: "spec.fargateProfiles[1].name", says: "in use by Fargate profile spoTnighTlyjObs"},
		{name: "that of the control plane itself",
			document: planeWith(`workspaceTemplateApplyRef: {name: shared}, fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: fargate}, workspaceTemplateApplyRef: {name: shared}}]`),
			field:    reference + ".name", says: "in use by the control plane itself"},
		{name: "that of another control plane",
			given:    []string{document("CAPTControlPlane", "other", `{version: "1.35", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: x}}`)},
			document: refers("x"), field: reference + ".name", says: "in use by CAPTControlPlane other"},
		{name: "that of no profile", given: []string{cluster("demo"), applyOf("x", "fargate", `cluster_name: demo`)}, document: refers("x"),
			field: reference + ".name", says: "it has no profile_name"},
		{name: "that of another profile", given: []string{cluster("demo"), applyOf("x", "fargate", `cluster_name: demo, profile_name: b`)}, document: refers("x"),
			field: reference + ".name", says: "it has another profile_name"},
		{name: "that of another cluster", given: []string{cluster("demo"), applyOf("x", "fargate", `cluster_name: other, profile_name: a`)}, document: refers("x"),
			field: reference + ".name", says: "it has another cluster_name"},
		{name: "that of another template", given: []string{cluster("demo"), applyOf("x", "other", `cluster_name: demo, profile_name: a`)}, document: refers("x"),
			field: reference + ".name", says: "it refers to another WorkspaceTemplate"},
		{name: "that of a profile, for the control plane", given: []string{cluster("demo"), applyOf("x", "eks", `cluster_name: demo, profile_name: a`)},
			document: planeWith(`workspaceTemplateApplyRef: {name: x}`), field: "spec.workspaceTemplateApplyRef.name", says: "it belongs to a Fargate profile"},
		{name: "v1beta1: that of a profile, for the control plane", given: []string{cluster("demo"), applyOf("x", "eks", `cluster_name: demo, profile_name: a`)},
			document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyName: x}`), field: "spec.workspaceTemplateApplyRef.name", says: "it belongs to a Fargate profile"},
	})
}

// applyOf is a WorkspaceTemplateApply of a template.
func applyOf(name, template, variables string) string {
	return document("WorkspaceTemplateApply", name, `{templateRef: {name: `+template+`}, variables: {`+variables+`}}`)
}

func TestNamesThatAreKeptForFargateProfiles(t *testing.T) {
	t.Parallel()
	given := []string{cluster("demo"), planeWith(`fargateProfiles: [
		{name: web, selectors: [{namespace: a}], workspaceTemplateRef: {name: fargate}},
		{name: Batch_1, selectors: [{namespace: b}], workspaceTemplateRef: {name: fargate}},
		{name: adopted, selectors: [{namespace: c}], workspaceTemplateRef: {name: fargate}, workspaceTemplateApplyRef: {name: by-hand}}]`)}
	hashed := naming.FargateWorkspaceTemplateApply("demo", "Batch_1")
	const field, web = "metadata.name", "CAPTControlPlane demo uses this name for the WorkspaceTemplateApply of its Fargate profile web"
	refuse(t, []refusal{
		{name: "another template", given: given, document: applyOf("demo-web-fargate-apply", "other", `cluster_name: demo, profile_name: web`), field: field, says: web},
		{name: "another template, which exists", given: append([]string{template("other", vpcModule, "sandbox")}, given...),
			document: applyOf("demo-web-fargate-apply", "other", `cluster_name: demo, profile_name: web`), field: field, says: web},
		{name: "another profile", given: given, document: applyOf("demo-web-fargate-apply", "fargate", `cluster_name: demo, profile_name: x`), field: field, says: "has another profile_name"},
		{name: "a name with a hash", given: given, document: applyOf(hashed, "other", `cluster_name: demo, profile_name: Batch_1`), field: field, says: "Fargate profile Batch_1"},
		{name: "a name that spec refers to", given: given, document: applyOf("by-hand", "other", `cluster_name: demo, profile_name: adopted`), field: field, says: "Fargate profile adopted"},
		{name: "v1beta1: another template", given: given,
			document: legacyDocument("WorkspaceTemplateApply", "demo-web-fargate-apply", `{templateRef: {name: other}, variables: {cluster_name: demo, profile_name: web}}`), field: field, says: web},
	})
}

func TestWorkspaceTemplateAppliesThatFargateProfilesCanHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(cluster("demo"), profile(`name: web, selectors: [{namespace: a}]`))
	kept := applyOf("demo-web-fargate-apply", "other", `cluster_name: demo, profile_name: web`)
	w.refuses(kept, "metadata.name", "Fargate profile web") // From now on the webhooks know of the profile.
	for name, admitted := range map[string]string{
		"as it would be made":    applyOf("demo-web-fargate-apply", "fargate", `cluster_name: demo, profile_name: web`),
		"restored from a backup": strings.Replace(kept, "spec: {", "spec: {workspaceName: demo-web-fargate, ", 1),
		"of an unknown profile":  applyOf("demo-other-fargate-apply", "other", `cluster_name: demo, profile_name: web`),
	} {
		t.Run(name, func(t *testing.T) {
			if err := w.dryRun(t.Context(), w.object(admitted)); err != nil {
				t.Error(err)
			}
		})
	}
}
