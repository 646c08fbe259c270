// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/ownership"
	"github.com/capt-provider/capt/test/builder"
)

// An object is never admitted, or found good, because of a question that got no answer.
func TestEveryQuestionMustGetAnAnswer(t *testing.T) {
	network := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"))
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks-controlplane-apply"), fargate(selecting("a")))
	controlPlane.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "demo-fp-fargate-apply"}
	world := newWorld(network, controlPlane, builder.Cluster("demo"))

	_, err := owners.CAPTCluster(t.Context(), world, network)
	require.NoError(t, err)
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo", "ClusterOf", "CAPTControlPlane"} {
		_, err := owners.CAPTCluster(t.Context(), world.failingAt(question), network)
		require.ErrorIs(t, err, errUnreachable, question)
	}
	_, err = owners.CAPTControlPlane(t.Context(), world, controlPlane)
	require.NoError(t, err)
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo", "ClusterOf", "Cluster", "CAPTCluster"} {
		_, err := owners.CAPTControlPlane(t.Context(), world.failingAt(question), controlPlane)
		require.ErrorIs(t, err, errUnreachable, question)
	}
	only := controlPlane.DeepCopy()
	only.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo"} {
		_, err := owners.CAPTControlPlane(t.Context(), world.failingAt(question), only)
		require.ErrorIs(t, err, errUnreachable, "%s about a Fargate profile", question)
	}
	only.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo", "ClusterOf"} {
		_, err := owners.CAPTControlPlane(t.Context(), world.failingAt(question), only)
		require.ErrorIs(t, err, errUnreachable, "%s about a Fargate profile that refers to none", question)
	}
}

func TestNothingIsConcludedWhenTheReadFails(t *testing.T) {
	world := newWorld(vpc, shared(blue), builder.CAPTCluster("demo"))
	world.err = errUnreachable
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForWorkspace("a", ""))
	ctx := t.Context()
	for name, look := range map[string]func() error{
		"CAPTCluster": func() error {
			_, err := owners.CAPTCluster(ctx, world, builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc")))
			return err
		},
		"CAPTCluster, existing VPC": func() error {
			_, err := owners.CAPTCluster(ctx, world, builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-1")))
			return err
		},
		"CAPTControlPlane": func() error {
			_, err := owners.CAPTControlPlane(ctx, world, builder.CAPTControlPlane("demo"))
			return err
		},
		"CAPTClusterTemplate": func() error { _, err := owners.CAPTClusterTemplate(ctx, world, captClusterTemplate()); return err },
		"CAPTControlPlaneTemplate": func() error {
			_, err := owners.CAPTControlPlaneTemplate(ctx, world, controlPlaneTemplate())
			return err
		},
		"WorkspaceTemplateApply":       func() error { _, err := applies.WorkspaceTemplateApply(ctx, world, apply); return err },
		"a new WorkspaceTemplateApply": func() error { _, err := ownership.WorkspaceTemplateApplyCreation(ctx, world, apply); return err },
	} {
		require.ErrorIs(t, look(), errUnreachable, name)
	}
	template, findings, err := validation.TemplateReference(ctx, world, infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"}, "team", nil)
	require.ErrorIs(t, err, errUnreachable)
	assert.Nil(t, template)
	assert.Empty(t, findings)
}

// An owner of "demo" refers to a WorkspaceTemplateApply "by-hand" that has no other owner.
func TestAReferenceMustBeToWhatTheOwnerWouldMake(t *testing.T) {
	const path = "spec.workspaceTemplateApplyRef.name"
	identity := func(variables ...string) builder.Option {
		set := map[string]string{}
		for i := 0; i < len(variables); i += 2 {
			set[variables[i]] = variables[i+1]
		}
		return builder.WithVariables(set)
	}
	recorded := builder.With(func(c *infrav1.CAPTCluster) {
		c.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "by-hand"}
	})
	owned := builder.OwnedBy(builder.CAPTCluster("demo"))
	for name, row := range map[string]struct {
		apply   []builder.Option
		owner   []builder.Option
		cluster bool
		says    string
	}{
		"as it would be made":               {nil, nil, true, ""},
		"another template":                  {[]builder.Option{of("", "eks")}, nil, true, "it refers to another WorkspaceTemplate. If another one is meant, correct the reference"},
		"another cluster":                   {[]builder.Option{identity("cluster_name", "hunter2")}, nil, true, "it has another cluster_name"},
		"another cluster, by label":         {nil, []builder.Option{builder.WithLabel(clusterv1.ClusterNameLabel, "prod")}, false, "it has another cluster_name"},
		"no cluster":                        {[]builder.Option{identity()}, nil, true, "it has no cluster_name"},
		"a Cluster that does not exist":     {[]builder.Option{identity()}, nil, false, ""},
		"another VPC":                       {[]builder.Option{identity("cluster_name", "demo", "vpc_name", "other")}, nil, true, "it has another vpc_name"},
		"the VPC":                           {[]builder.Option{identity("cluster_name", "demo", "vpc_name", "demo-vpc")}, nil, true, ""},
		"its own, of another cluster":       {[]builder.Option{owned, identity("cluster_name", "other")}, nil, true, ""},
		"its own, of another template":      {[]builder.Option{owned, of("", "eks")}, nil, true, "it refers to another WorkspaceTemplate"},
		"recorded, whatever it holds":       {[]builder.Option{of("", "eks"), identity()}, []builder.Option{recorded}, true, ""},
		"recorded, and its own, since then": {[]builder.Option{owned, of("", "eks")}, []builder.Option{recorded}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			owner := builder.CAPTCluster("demo", append(row.owner, builder.WithApplyRef("by-hand"))...)
			world := newWorld(vpc, owner, builder.WorkspaceTemplateApply("by-hand", row.apply...))
			if row.cluster {
				world.add(builder.Cluster("demo"))
			}
			got, err := owners.CAPTCluster(t.Context(), world, owner)
			require.NoError(t, err)
			assert.NotContains(t, fmt.Sprint(got.Errors), "hunter2", "values may be secrets")
			assertRefused(t, got.Errors, refusedIf(path, row.says)...)
		})
	}
}

func TestAReferenceOfAControlPlaneMustBeToWhatItWouldMake(t *testing.T) {
	recorded := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{WorkspaceTemplateApplySummary: infrav1.WorkspaceTemplateApplySummary{Name: "by-hand"}}
	})
	owned := builder.OwnedBy(builder.CAPTControlPlane("demo"))
	profile := func(c *controlplanev1.CAPTControlPlane) {
		fargate(selecting("a"))(c)
		c.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "by-hand"}
	}
	recordedProfile := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.FargateProfiles = []controlplanev1.FargateProfileStatus{{Name: "fp", WorkspaceTemplateApplyName: "by-hand"}}
	})
	profileOf := func(cluster, profile string) builder.Option {
		return builder.WithVariables(map[string]string{"cluster_name": cluster, "profile_name": profile})
	}
	renamed := builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Name = "without-cluster" })
	refers := builder.WithApplyRef("by-hand")
	const path, profilePath = "spec.workspaceTemplateApplyRef.name", "spec.fargateProfiles[0].workspaceTemplateApplyRef.name"
	for name, row := range map[string]struct {
		apply []builder.Option
		owner []builder.Option
		path  string
		says  string
	}{
		"as it would be made":                       {[]builder.Option{of("", "eks")}, []builder.Option{refers}, path, ""},
		"the VPC":                                   {nil, []builder.Option{refers}, path, "it refers to another WorkspaceTemplate"},
		"the VPC, by its own template's name":       {[]builder.Option{of("shared", "eks")}, []builder.Option{refers}, path, "it refers to another WorkspaceTemplate"},
		"no cluster":                                {[]builder.Option{of("", "eks"), builder.WithVariables(nil)}, []builder.Option{refers}, path, "it has no cluster_name"},
		"recorded":                                  {nil, []builder.Option{refers, recorded}, path, ""},
		"that of a profile":                         {[]builder.Option{of("", "fargate"), profileOf("demo", "fp")}, []builder.Option{builder.With(profile)}, profilePath, ""},
		"that of a profile, of another template":    {[]builder.Option{profileOf("demo", "fp")}, []builder.Option{builder.With(profile)}, profilePath, "it refers to another WorkspaceTemplate"},
		"that of a profile, of no cluster":          {[]builder.Option{of("", "fargate"), builder.WithVariables(nil)}, []builder.Option{builder.With(profile)}, profilePath, "it has no cluster_name"},
		"that of a profile, of another cluster":     {[]builder.Option{of("", "fargate"), profileOf("other", "fp")}, []builder.Option{builder.With(profile)}, profilePath, "it has another cluster_name"},
		"that of another profile":                   {[]builder.Option{of("", "fargate"), profileOf("demo", "web")}, []builder.Option{builder.With(profile)}, profilePath, "it has another profile_name"},
		"that of no profile":                        {[]builder.Option{of("", "fargate")}, []builder.Option{builder.With(profile)}, profilePath, "it has no profile_name"},
		"that of another profile, its own":          {[]builder.Option{owned, of("", "fargate"), profileOf("demo", "web")}, []builder.Option{builder.With(profile)}, profilePath, "it has another profile_name"},
		"that of another profile, recorded":         {[]builder.Option{owned, of("", "fargate"), profileOf("demo", "web")}, []builder.Option{builder.With(profile), recordedProfile}, profilePath, "it has another profile_name"},
		"that of the control plane, for a profile":  {[]builder.Option{owned, of("", "eks")}, []builder.Option{builder.With(profile)}, profilePath, "it has no profile_name"},
		"that of a profile, for the control plane":  {[]builder.Option{owned, of("", "eks"), profileOf("demo", "fp")}, []builder.Option{refers}, path, "it belongs to a Fargate profile"},
		"that of a profile, of the template before": {[]builder.Option{owned, profileOf("demo", "fp")}, []builder.Option{builder.With(profile)}, profilePath, ""},
		"that of a profile, before its Cluster":     {[]builder.Option{of("", "fargate"), profileOf("other", "fp")}, []builder.Option{builder.With(profile), renamed}, profilePath, ""},
		"that of a profile, by the label":           {[]builder.Option{of("", "fargate"), profileOf("demo", "fp")}, []builder.Option{builder.With(profile), builder.WithLabel(clusterv1.ClusterNameLabel, "prod")}, profilePath, "it has another cluster_name"},
	} {
		t.Run(name, func(t *testing.T) {
			owner := builder.CAPTControlPlane("demo", row.owner...)
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(owner, builder.Cluster("demo"), builder.CAPTCluster("demo"),
				complete("eks"), complete("fargate"), builder.WorkspaceTemplateApply("by-hand", row.apply...)), owner)
			require.NoError(t, err)
			assertRefused(t, got.Errors, refusedIf(row.path, row.says)...)
		})
	}
}

// A reference cannot be reverted, and with it nothing would be written to the profile any more.
func TestACreatedProfileGetsNoReferenceToAnother(t *testing.T) {
	refersTo := func(name string) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) {
			fargate(selecting("a"))(c)
			c.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: name}
		})
	}
	variables := builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "fp"})
	owned := builder.OwnedBy(builder.CAPTControlPlane("demo"))
	for name, row := range map[string]struct {
		made []builder.Option
		refs string
		says string
	}{
		"another name":                      {[]builder.Option{owned, variables}, "another", "the profile already has WorkspaceTemplateApply demo-fp-fargate-apply"},
		"its own name":                      {[]builder.Option{owned, variables}, "demo-fp-fargate-apply", ""},
		"instead of one with another owner": {[]builder.Option{builder.OwnedBy(builder.CAPTControlPlane("other")), variables}, "another", ""},
		"instead of what is something else": {[]builder.Option{owned}, "another", ""},
	} {
		t.Run(name, func(t *testing.T) {
			owner := builder.CAPTControlPlane("demo", refersTo(row.refs))
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(owner, builder.Cluster("demo"), builder.CAPTCluster("demo"),
				complete("eks"), complete("fargate"), builder.WorkspaceTemplateApply("demo-fp-fargate-apply", row.made...)), owner)
			require.NoError(t, err)
			assertRefused(t, got.Errors, refusedIf("spec.fargateProfiles[0].workspaceTemplateApplyRef", row.says)...)
		})
	}
}
