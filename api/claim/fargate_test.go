// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// batch is a Fargate profile of the template "fargate", and referring one that refers to "x".
var (
	batch     = &controlplanev1.FargateProfile{Name: "batch", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}
	referring = &controlplanev1.FargateProfile{Name: "batch", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
		WorkspaceTemplateApplyRef: infrav1.WorkspaceTemplateApplyReference{Name: "x"}}
)

// applyOf returns a WorkspaceTemplateApply of a template, with the identity variables of a Fargate profile.
func applyOf(name, template, cluster, profile string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	variables := map[string]string{"cluster_name": cluster, "profile_name": profile}
	maps.DeleteFunc(variables, func(_, value string) bool { return value == "" })
	given := []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: template}), builder.WithVariables(variables)}
	return builder.WorkspaceTemplateApply(name, append(given, options...)...)
}

func TestExpectationOfFargateProfile(t *testing.T) {
	want := claim.ExpectationOfFargateProfile("demo", batch)
	assert.Equal(t, "demo-batch-fargate-apply", want.SchemeName)
	assert.Empty(t, want.Recorded)
	assert.Equal(t, infrav1.WorkspaceTemplateReference{Name: "fargate"}, want.Template)
	assert.Equal(t, map[string]string{"cluster_name": "demo", "profile_name": "batch"}, want.Variables)
	assert.Empty(t, claim.ExpectationOfFargateProfile("", batch).SchemeName, "it is unknown before the Cluster")
}

func TestConflictOfFargateProfiles(t *testing.T) {
	owner := builder.CAPTControlPlane("demo")
	owned := builder.OwnedBy(owner)
	known, early := claim.ExpectationOfFargateProfile("demo", referring), claim.ExpectationOfFargateProfile("", referring)
	const (
		template       = "it refers to another WorkspaceTemplate"
		noCluster      = "it has no cluster_name"
		anotherCluster = "it has another cluster_name"
		noProfile      = "it has no profile_name"
		anotherProfile = "it has another profile_name"
	)
	for name, row := range map[string]struct {
		want     claim.Expectation
		apply    *infrav1.WorkspaceTemplateApply
		conflict string // Empty when there is no conflict.
	}{
		"its own":                                       {known, applyOf("x", "fargate", "demo", "batch", owned), ""},
		"its own, of the template it had before":        {known, applyOf("x", "former", "demo", "batch", owned), ""},
		"its own, of another cluster":                   {known, applyOf("x", "fargate", "other", "batch", owned), anotherCluster},
		"owned, unknown Cluster":                        {early, applyOf("x", "former", "demo", "batch", owned), ""},
		"another profile":                               {known, applyOf("x", "fargate", "demo", "web", owned), anotherProfile},
		"another profile, different case":               {known, applyOf("x", "fargate", "demo", "Batch", owned), anotherProfile},
		"another profile, unknown Cluster":              {early, applyOf("x", "fargate", "demo", "web", owned), anotherProfile},
		"the apply of the control plane":                {known, applyOf("x", "eks", "demo", "", owned), noProfile},
		"the apply of the control plane, same template": {known, applyOf("x", "fargate", "demo", "", owned), noProfile},
		"a helper of CAPT v0.3":                         {known, applyOf("demo-kubeconfig-apply", "kubeconfig", "", "", owned), noCluster},
		"another's":                                     {known, applyOf("x", "fargate", "demo", "batch", builder.OwnedBy(builder.CAPTControlPlane("other"))), "belongs to CAPTControlPlane other"},
		"no owner, matches":                             {known, applyOf("x", "fargate", "demo", "batch"), ""},
		"without owner, of another template":            {known, applyOf("x", "former", "demo", "batch"), template},
		"without owner, of another cluster":             {known, applyOf("x", "fargate", "other", "batch"), anotherCluster},
		"no owner, no cluster_name":                     {known, applyOf("x", "fargate", "", "batch"), noCluster},
		"without owner, of another profile":             {known, applyOf("x", "fargate", "demo", "web"), anotherProfile},
		"no owner, no profile_name":                     {known, applyOf("x", "fargate", "demo", ""), noProfile},
		"no owner, unknown Cluster":                     {early, applyOf("x", "fargate", "demo", "batch"), "spec.fargateProfiles[batch].workspaceTemplateApplyRef names WorkspaceTemplateApply x, but the reference cannot be verified before the Cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			assertConflict(t, row.conflict, claim.Conflict(owner, row.want, row.apply))
		})
	}
}

// A control plane owns the WorkspaceTemplateApplies of its profiles, which may even have its own template.
func TestApplyOfAFargateProfileDoesNotMatchAControlPlaneOrVPC(t *testing.T) {
	for name, owner := range map[string]builder.Option{
		"controlled":    builder.OwnedBy(builder.CAPTControlPlane("demo")),
		"without owner": builder.With(func(*infrav1.WorkspaceTemplateApply) {}),
	} {
		t.Run(name, func(t *testing.T) {
			apply := applyOf("x", "eks", "demo", "batch", owner)
			for _, want := range []claim.Expectation{
				{SchemeName: "demo-eks-controlplane-apply", Template: infrav1.WorkspaceTemplateReference{Name: "eks"}, Variables: map[string]string{"cluster_name": "demo"}},
				{SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "eks"}, Variables: map[string]string{"cluster_name": "demo", "vpc_name": "demo-vpc"}},
				{SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "eks"}, Variables: map[string]string{"cluster_name": ""}},
			} {
				assert.Equal(t, "nothing is written: WorkspaceTemplateApply x does not match what this object would create: it belongs to a Fargate profile. If another one is meant, correct the reference (if it is set already, recreate this object)",
					claim.Conflict(builder.CAPTControlPlane("demo"), want, apply))
				assert.Empty(t, candidatesOf(want, builder.CAPTControlPlane("demo"), []infrav1.WorkspaceTemplateApply{*apply}))
			}
			noTemplate := claim.Expectation{SchemeName: "demo-eks-controlplane-apply"}
			assert.Empty(t, candidatesOf(noTemplate, builder.CAPTControlPlane("demo"), []infrav1.WorkspaceTemplateApply{*apply}), "of an owner without a template")
		})
	}
}

// Without webhooks, a user can set the variable profile_name of a control plane.
func TestRecordedApplyMatchesWithAnyVariables(t *testing.T) {
	want := claim.Expectation{Recorded: "x", Template: infrav1.WorkspaceTemplateReference{Name: "eks"}, Variables: map[string]string{"cluster_name": "demo"}}
	assert.Empty(t, claim.Conflict(builder.CAPTControlPlane("demo"), want, applyOf("x", "eks", "demo", "batch", builder.OwnedBy(builder.CAPTControlPlane("demo")))))
	users := claim.Expectation{Recorded: "x", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"}, Variables: map[string]string{"cluster_name": "demo", "profile_name": "batch"}}
	assert.Empty(t, claim.Conflict(builder.CAPTCluster("demo"), users, applyOf("x", "former", "demo", "batch")), "it belongs to no profile")
}

func TestConflictMessagesOfFargateProfiles(t *testing.T) {
	owner := builder.CAPTControlPlane("demo")
	anothers := builder.OwnedBy(builder.CAPTControlPlane("other"))
	want := claim.ExpectationOfFargateProfile("demo", referring)
	assert.Equal(t, "nothing is written: WorkspaceTemplateApply x does not match what this object would create for Fargate profile batch: it has no profile_name. If another one is meant, correct the reference (if it is set already, remove the profile from spec, and add it again); if x belongs to this object, first give both the same template, cluster_name and profile_name",
		claim.Conflict(owner, want, applyOf("x", "fargate", "demo", "")))
	assert.Equal(t, "spec.fargateProfiles[batch].workspaceTemplateApplyRef names WorkspaceTemplateApply x, which belongs to CAPTControlPlane other: nothing is written. Remove the profile from spec, and add it again without the reference",
		claim.Conflict(owner, want, applyOf("x", "fargate", "demo", "batch", anothers)))

	const named = "demo-batch-fargate-apply"
	want = claim.ExpectationOfFargateProfile("demo", batch)
	assert.Equal(t, "nothing is written: WorkspaceTemplateApply demo-batch-fargate-apply does not match what this object would create for Fargate profile batch: it has no profile_name. If another one is meant, set workspaceTemplateApplyRef of the profile to it; if demo-batch-fargate-apply belongs to this object, first give both the same template, cluster_name and profile_name",
		claim.Conflict(owner, want, applyOf(named, "fargate", "demo", "")))
	assert.Equal(t, "the naming scheme, for Fargate profile batch, names WorkspaceTemplateApply demo-batch-fargate-apply, which belongs to CAPTControlPlane other: nothing is written. Set workspaceTemplateApplyRef of the profile to another name",
		claim.Conflict(owner, want, applyOf(named, "fargate", "demo", "batch", anothers)))
}
