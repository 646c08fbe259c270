// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
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

// A failed lookup must never lead to the admission of an object.
func TestFailedLookupsAreErrors(t *testing.T) {
	network := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"))
	both := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks-controlplane-apply"), profiles("fp", "demo-fp-fargate-apply"))
	profile, neither := builder.CAPTControlPlane("demo", profiles("fp", "demo-fp-fargate-apply")), builder.CAPTControlPlane("demo", profiles("fp", ""))
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForWorkspace("a", ""))
	ofProfile := builder.WorkspaceTemplateApply("demo-fp-fargate-apply")
	existing, ctx := newFakeReader(network, both, builder.Cluster("demo"), shared(blue)), t.Context()
	failure := func(_ any, err error) error { return err }
	for name, row := range map[string]struct {
		look      func(w *fakeReader) error
		questions string // The method that fails; empty for all methods.
	}{
		"CAPTCluster": {func(w *fakeReader) error { return failure(validation.ValidateCAPTCluster(ctx, w, network)) },
			"WorkspaceTemplate WorkspaceTemplateApply ReferrersTo ClusterOf CAPTControlPlane"},
		"CAPTCluster, existing VPC": {func(w *fakeReader) error {
			return failure(validation.ValidateCAPTCluster(ctx, w, builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-1"))))
		}, ""},
		"CAPTControlPlane": {func(w *fakeReader) error { return failure(validation.ValidateCAPTControlPlane(ctx, w, both)) },
			"WorkspaceTemplate WorkspaceTemplateApply ReferrersTo ClusterOf Cluster CAPTCluster"},
		"its profile": {func(w *fakeReader) error { return failure(validation.ValidateCAPTControlPlane(ctx, w, profile)) }, "WorkspaceTemplateApply ReferrersTo"},
		"without references": {func(w *fakeReader) error { return failure(validation.ValidateCAPTControlPlane(ctx, w, neither)) },
			"WorkspaceTemplateApply ReferrersTo ClusterOf"},
		"CAPTClusterTemplate": {func(w *fakeReader) error {
			return failure(validation.ValidateCAPTClusterTemplate(ctx, w, captClusterTemplate()))
		}, ""},
		"CAPTControlPlaneTemplate": {func(w *fakeReader) error {
			return failure(validation.ValidateCAPTControlPlaneTemplate(ctx, w, controlPlaneTemplate()))
		}, ""},
		"WorkspaceTemplateApply":       {func(w *fakeReader) error { return failure(validation.ValidateWorkspaceTemplateApply(ctx, w, apply)) }, ""},
		"a new WorkspaceTemplateApply": {func(w *fakeReader) error { return failure(validation.ValidateNewWorkspaceTemplateApply(ctx, w, apply)) }, ""},
		"a new one, of a profile": {func(w *fakeReader) error {
			return failure(validation.ValidateNewWorkspaceTemplateApply(ctx, w, ofProfile))
		}, "ReferrersTo Cluster CAPTControlPlane ClusterOf"},
	} {
		require.NoError(t, row.look(existing), name)
		for _, question := range strings.Split(row.questions, " ") {
			require.ErrorIs(t, row.look(existing.failingAt(question)), errUnreachable, "%s %s", name, question)
		}
	}
	ref := infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"}
	for _, question := range []string{"WorkspaceTemplate", "NamespaceLabels"} {
		template, findings, err := validation.TemplateReference(ctx, existing.failingAt(question), ref, "team", nil)
		require.ErrorIs(t, err, errUnreachable, question)
		assert.Nil(t, template)
		assert.Empty(t, findings)
	}
}

// A CAPTCluster of Cluster "demo" refers to a WorkspaceTemplateApply "by-hand" without another owner. Further cases are tested in api/claim and api/legacy;
// these rows prove what is compared.
func TestApplyReferencesOfCAPTClusters(t *testing.T) {
	const path = "spec.workspaceTemplateApplyRef.name"
	identity := vpcVariables
	recorded := builder.With(func(c *infrav1.CAPTCluster) {
		c.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "by-hand"}
	})
	for name, row := range map[string]struct {
		apply   []builder.Option
		owner   []builder.Option
		cluster bool
		text    string
	}{
		"matches":                       {nil, nil, true, ""},
		"another template":              {[]builder.Option{of("", "eks")}, nil, true, "it refers to another WorkspaceTemplate. If another one is meant, correct the reference"},
		"another cluster":               {[]builder.Option{identity("cluster_name", "hunter2")}, nil, true, "it has another cluster_name"},
		"another cluster, by label":     {nil, []builder.Option{builder.WithLabel(clusterv1.ClusterNameLabel, "prod")}, false, ""}, // The control plane may set the name.
		"a Cluster that does not exist": {[]builder.Option{identity()}, nil, false, ""},
		"another VPC":                   {[]builder.Option{identity("cluster_name", "demo", "vpc_name", "other")}, nil, true, "it has another vpc_name"},
		"the VPC":                       {[]builder.Option{identity("cluster_name", "demo", "vpc_name", "demo-vpc")}, nil, true, ""},
		"recorded, whatever it holds":   {[]builder.Option{of("", "eks"), identity()}, []builder.Option{recorded}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			owner := builder.CAPTCluster("demo", append(row.owner, builder.WithApplyRef("by-hand"))...)
			existing := newFakeReader(vpc, owner, builder.WorkspaceTemplateApply("by-hand", row.apply...))
			if row.cluster {
				existing.add(builder.Cluster("demo"))
				existing.add(builder.CAPTControlPlane("demo"))
			}
			got, err := validation.ValidateCAPTCluster(t.Context(), existing, owner)
			require.NoError(t, err)
			assert.NotContains(t, fmt.Sprint(got.Errors), "hunter2", "values may be secrets")
			assertRefused(t, got.Errors, refusedIf(path, row.text)...)
		})
	}
}

func TestApplyReferencesOfControlPlanes(t *testing.T) {
	recorded := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{WorkspaceTemplateApplySummary: infrav1.WorkspaceTemplateApplySummary{Name: "by-hand"}}
	})
	owned := builder.OwnedBy(builder.CAPTControlPlane("demo"))
	profile := profiles("fp", "by-hand")
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
		text  string
	}{
		"matches":                             {[]builder.Option{of("", "eks")}, []builder.Option{refers}, path, ""},
		"the VPC":                             {nil, []builder.Option{refers}, path, "it refers to another WorkspaceTemplate"},
		"recorded":                            {nil, []builder.Option{refers, recorded}, path, ""},
		"of a profile":                        {[]builder.Option{of("", "fargate"), profileOf("demo", "fp")}, []builder.Option{profile}, profilePath, ""},
		"of a profile, of another template":   {[]builder.Option{profileOf("demo", "fp")}, []builder.Option{profile}, profilePath, "it refers to another WorkspaceTemplate"},
		"of a profile, of another cluster":    {[]builder.Option{of("", "fargate"), profileOf("other", "fp")}, []builder.Option{profile}, profilePath, "it has another cluster_name"},
		"of another profile":                  {[]builder.Option{of("", "fargate"), profileOf("demo", "web")}, []builder.Option{profile}, profilePath, "it has another profile_name"},
		"of another profile, recorded":        {[]builder.Option{owned, of("", "fargate"), profileOf("demo", "web")}, []builder.Option{profile, recordedProfile}, profilePath, "it has another profile_name"},
		"of a profile, for the control plane": {[]builder.Option{owned, of("", "eks"), profileOf("demo", "fp")}, []builder.Option{refers}, path, "it belongs to a Fargate profile"},
		"of a profile, before its Cluster":    {[]builder.Option{of("", "fargate"), profileOf("other", "fp")}, []builder.Option{profile, renamed}, profilePath, ""},
		"of a profile, by the label":          {[]builder.Option{of("", "fargate"), profileOf("demo", "fp")}, []builder.Option{profile, builder.WithLabel(clusterv1.ClusterNameLabel, "prod")}, profilePath, "it has another cluster_name"},
	} {
		t.Run(name, func(t *testing.T) {
			owner := builder.CAPTControlPlane("demo", row.owner...)
			got, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(owner, builder.Cluster("demo"), builder.CAPTCluster("demo"),
				complete("eks"), complete("fargate"), builder.WorkspaceTemplateApply("by-hand", row.apply...)), owner)
			require.NoError(t, err)
			assertRefused(t, got.Errors, refusedIf(row.path, row.text)...)
		})
	}
}

// A reference cannot be removed, and with it CAPT would stop writing the profile.
func TestReferenceAddedToACreatedProfileIsRejected(t *testing.T) {
	variables := builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "fp"})
	owned := builder.OwnedBy(builder.CAPTControlPlane("demo"))
	for name, row := range map[string]struct {
		made []builder.Option
		refs string
		text string
	}{
		"another name":                      {[]builder.Option{owned, variables}, "another", "the profile already has WorkspaceTemplateApply demo-fp-fargate-apply"},
		"its own name":                      {[]builder.Option{owned, variables}, "demo-fp-fargate-apply", ""},
		"instead of one with another owner": {[]builder.Option{builder.OwnedBy(builder.CAPTControlPlane("other")), variables}, "another", ""},
		"derived name has another owner":    {[]builder.Option{owned}, "another", ""},
	} {
		t.Run(name, func(t *testing.T) {
			owner := builder.CAPTControlPlane("demo", profiles("fp", row.refs))
			got, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(owner, builder.Cluster("demo"), builder.CAPTCluster("demo"),
				complete("eks"), complete("fargate"), builder.WorkspaceTemplateApply("demo-fp-fargate-apply", row.made...)), owner)
			require.NoError(t, err)
			assertRefused(t, got.Errors, refusedIf("spec.fargateProfiles[0].workspaceTemplateApplyRef", row.text)...)
		})
	}
}

func TestNamesReservedForOwners(t *testing.T) {
	const name, controlPlaneName = "demo-vpc", "demo-eks-controlplane-apply"
	apply := builder.WorkspaceTemplateApply
	owner, controlPlane := builder.CAPTCluster("demo"), builder.CAPTControlPlane("demo")
	ofCluster := func(cluster string) builder.Option { return builder.WithLabel(clusterv1.ClusterNameLabel, cluster) }
	identity := func(cluster string) builder.Option {
		return builder.WithVariables(map[string]string{naming.ClusterVariable: cluster})
	}
	network := func(vpc string) builder.Option {
		return builder.WithVariables(map[string]string{naming.VPCVariable: vpc})
	}
	had := func(name string) builder.Option {
		return builder.With(func(captCluster *infrav1.CAPTCluster) {
			captCluster.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: name}
		})
	}
	refused := func(text string) []finding { return []finding{{"metadata.name", field.ErrorTypeForbidden, text}} }
	const template = "CAPTCluster demo uses this name for its own WorkspaceTemplateApply, but this one refers to another WorkspaceTemplate"
	const cluster = "CAPTCluster demo uses this name for its own WorkspaceTemplateApply, but this one has another cluster_name"
	prod := []validation.Owner{builder.Cluster("prod"), builder.CAPTControlPlane("prod")}
	testApplies(t, validation.ValidateNewWorkspaceTemplateApply, map[string]applyRow{
		"another name":                               {existing: []validation.Owner{owner}, apply: apply("other", of("", "small"))},
		"no owner of that name":                      {apply: apply(name, of("", "small"))},
		"the owner in another namespace":             {existing: []validation.Owner{builder.CAPTCluster("demo", builder.WithNamespace("other"))}, apply: apply(name, of("", "small"))},
		"another template":                           {existing: []validation.Owner{owner}, apply: apply(name, of("", "small")), errors: refused(template)},
		"same name in another namespace":             {existing: []validation.Owner{owner}, apply: apply(name, of("shared", "vpc")), errors: refused(template)},
		"the same template":                          {existing: []validation.Owner{owner}, apply: apply(name)},
		"the same template in other words":           {existing: []validation.Owner{owner}, apply: apply(name, of("default", "vpc"))},
		"the owner's own":                            {existing: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.OwnedBy(owner))},
		"of an earlier owner of the name":            {existing: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.OwnedBy(builder.CAPTCluster("demo", builder.WithUID("earlier")))), errors: refused(template)},
		"the same cluster":                           {existing: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"))}, apply: apply(name, identity("prod"))},
		"another cluster":                            {existing: append(prod, builder.CAPTCluster("demo", ofCluster("prod"))), apply: apply(name, identity("test")), errors: refused(cluster)},
		"another cluster, by the Cluster's own word": {existing: []validation.Owner{owner, builder.Cluster("demo"), controlPlane}, apply: apply(name, identity("test")), errors: refused(cluster)},
		"another cluster, before its control plane":  {existing: []validation.Owner{owner, builder.Cluster("demo")}, apply: apply(name, identity("test"))},
		"a cluster that cannot be compared":          {existing: []validation.Owner{owner}, apply: apply(name, identity("test"))},
		"no cluster to compare":                      {existing: []validation.Owner{owner, builder.Cluster("demo"), controlPlane}, apply: apply(name, builder.WithVariables(nil)), errors: refused("has no cluster_name")},
		"no cluster, and no comparison possible":     {existing: []validation.Owner{owner}, apply: apply(name, builder.WithVariables(nil))},
		"restored, of another template":              {existing: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.WithWorkspaceName("demo-vpc"))},
		"restored, of another cluster":               {existing: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"))}, apply: apply(name, identity("test"), builder.WithWorkspaceName("demo-vpc"))},
		"restored, known by its finalizer":           {existing: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.WithFinalizers("f"))},
		"restored, known by its Workspace":           {existing: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.WithRecordedWorkspace(builder.Workspace("demo-vpc", builder.AtRest)))},
		"restored, known by the Workspace's name":    {existing: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.UpToDate(nil))},
		"put back for an owner that had it":          {existing: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"), had(name))}, apply: apply(name, of("", "earlier"), identity("prod"))},
		"another cluster, for an owner that had it":  {existing: append(prod, builder.CAPTCluster("demo", ofCluster("prod"), had(name))), apply: apply(name, identity("test")), errors: refused(cluster)},
		"put back for a control plane": {existing: []validation.Owner{builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{WorkspaceTemplateApplySummary: infrav1.WorkspaceTemplateApplySummary{Name: controlPlaneName}}
		}))}, apply: apply(controlPlaneName, of("", "earlier"))},
		"the same VPC": {existing: []validation.Owner{owner}, apply: apply(name, network("demo-vpc"))},
		"another VPC":  {existing: []validation.Owner{owner}, apply: apply(name, network("main")), errors: refused("has another vpc_name")},
		"the same VPC, by another name": {existing: []validation.Owner{builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Name = "main" }))},
			apply: apply(name, network("main"))},
		"named by the owner by default":          {existing: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef(name))}, apply: apply(name, of("", "small")), errors: refused(template)},
		"an owner that has another one":          {existing: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef("made-by-hand"))}, apply: apply(name, of("", "small"))},
		"an owner that makes none":               {existing: []validation.Owner{builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-1"))}, apply: apply(name, of("", "small"))},
		"of a control plane":                     {existing: []validation.Owner{controlPlane}, apply: apply(controlPlaneName, of("", "eks"))},
		"of a control plane, with other content": {existing: []validation.Owner{controlPlane}, apply: apply(controlPlaneName), errors: refused("CAPTControlPlane demo uses this name for its own WorkspaceTemplateApply, but this one refers to another WorkspaceTemplate")},
		"of a control plane, in its cluster":     {existing: []validation.Owner{controlPlane, builder.Cluster("demo")}, apply: apply(controlPlaneName, of("", "eks"), identity("test")), errors: refused("has another cluster_name")},
		"a control plane that has another one":   {existing: []validation.Owner{builder.CAPTControlPlane("demo", builder.WithApplyRef("made-by-hand"))}, apply: apply(controlPlaneName)},
	})
}

func TestNamesReservedForFargateProfiles(t *testing.T) {
	controlPlane := func(options ...builder.Option) validation.Owner {
		return builder.CAPTControlPlane("demo", append([]builder.Option{profiles("fp", "", "Batch_1", "")}, options...)...)
	}
	refers := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "by-hand"}
	})
	recorded := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.FargateProfiles = []controlplanev1.FargateProfileStatus{{Name: "fp", WorkspaceTemplateApplyName: "demo-fp-fargate-apply"}}
	})
	foreign := builder.Cluster("demo")
	foreign.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	made := func(name, template, cluster, profile string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		identity := builder.WithVariables(map[string]string{"cluster_name": cluster, "profile_name": profile})
		return builder.WorkspaceTemplateApply(name, append(options, of("", template), identity)...)
	}
	const plain = "demo-fp-fargate-apply"
	hashed := naming.FargateWorkspaceTemplateApply("demo", "Batch_1")
	existing := []validation.Owner{controlPlane(), builder.Cluster("demo")}
	refused := func(profile, text string) []finding {
		return []finding{{"metadata.name", field.ErrorTypeForbidden, "CAPTControlPlane demo uses this name for the WorkspaceTemplateApply of its Fargate profile " + profile + ", but this one " + text +
			". Use another name, or set the template and the variables of the profile"}}
	}
	testApplies(t, validation.ValidateNewWorkspaceTemplateApply, map[string]applyRow{
		"matches":                           {existing: existing, apply: made(plain, "fargate", "demo", "fp")},
		"another template":                  {existing: existing, apply: made(plain, "small", "demo", "fp"), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"another cluster":                   {existing: existing, apply: made(plain, "fargate", "other", "fp"), errors: refused("fp", "has another cluster_name")},
		"another profile":                   {existing: existing, apply: made(plain, "fargate", "demo", "Batch_1"), errors: refused("fp", "has another profile_name")},
		"no profile":                        {existing: existing, apply: builder.WorkspaceTemplateApply(plain, of("", "fargate")), errors: refused("fp", "has no profile_name")},
		"hashed name, matches":              {existing: existing, apply: made(hashed, "fargate", "demo", "Batch_1")},
		"a hash, of another template":       {existing: existing, apply: made(hashed, "small", "demo", "Batch_1"), errors: refused("Batch_1", "refers to another WorkspaceTemplate")},
		"a hash, of another profile":        {existing: existing, apply: made(hashed, "fargate", "demo", "batch_1"), errors: refused("Batch_1", "has another profile_name")},
		"profile of no control plane":       {existing: existing, apply: made("demo-web-fargate-apply", "small", "demo", "web")},
		"a Cluster without control plane":   {existing: existing, apply: made("other-fp-fargate-apply", "small", "other", "fp")},
		"in another namespace":              {existing: existing, apply: made(plain, "small", "demo", "fp", builder.WithNamespace("other"))},
		"the Cluster is unknown":            {existing: []validation.Owner{controlPlane()}, apply: made(plain, "small", "demo", "fp")},
		"a Cluster of another provider":     {existing: []validation.Owner{controlPlane(), foreign}, apply: made(plain, "small", "demo", "fp")},
		"the control plane's own":           {existing: existing, apply: made(plain, "small", "demo", "fp", builder.OwnedBy(builder.CAPTControlPlane("demo")))},
		"of an earlier control plane":       {existing: existing, apply: made(plain, "small", "demo", "fp", builder.OwnedBy(builder.CAPTControlPlane("demo", builder.WithUID("earlier")))), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"restored, of another template":     {existing: existing, apply: made(plain, "small", "demo", "fp", builder.WithWorkspaceName("demo-fp-fargate"))},
		"restored, known by its finalizer":  {existing: existing, apply: made(plain, "small", "demo", "fp", builder.WithFinalizers("f"))},
		"of another template, recorded":     {existing: []validation.Owner{controlPlane(recorded), builder.Cluster("demo")}, apply: made(plain, "small", "demo", "fp"), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"a profile that has another one":    {existing: []validation.Owner{controlPlane(refers), builder.Cluster("demo")}, apply: made(plain, "small", "demo", "fp")},
		"referred apply":                    {existing: []validation.Owner{controlPlane(refers), builder.Cluster("demo")}, apply: made("by-hand", "fargate", "demo", "fp")},
		"referred apply, another template":  {existing: []validation.Owner{controlPlane(refers), builder.Cluster("demo")}, apply: made("by-hand", "small", "demo", "fp"), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"referred apply, no Cluster":        {existing: []validation.Owner{controlPlane(refers)}, apply: made("by-hand", "fargate", "demo", "web"), errors: refused("fp", "has another profile_name")},
		"referred apply, another namespace": {existing: []validation.Owner{controlPlane(refers)}, apply: made("by-hand", "small", "demo", "fp", builder.WithNamespace("other"))},
		"a VPC that an owner refers to":     {existing: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))}, apply: made("by-hand", "small", "demo", "")},
		"a VPC, of a profile":               {existing: []validation.Owner{builder.CAPTCluster("demo")}, apply: made("demo-vpc", "vpc", "demo", "fp"), errors: []finding{{"metadata.name", field.ErrorTypeForbidden, "CAPTCluster demo uses this name for its own WorkspaceTemplateApply, but this one belongs to a Fargate profile"}}},
	})
}
