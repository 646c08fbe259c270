// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/ownership"
	"github.com/capt-provider/capt/test/builder"
)

func TestNamesAreKeptForOwners(t *testing.T) {
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
	testApplies(t, ownership.WorkspaceTemplateApplyCreation, map[string]applyRow{
		"another name":                               {world: []validation.Owner{owner}, apply: apply("other", of("", "small"))},
		"no owner of that name":                      {apply: apply(name, of("", "small"))},
		"the owner in another namespace":             {world: []validation.Owner{builder.CAPTCluster("demo", builder.WithNamespace("other"))}, apply: apply(name, of("", "small"))},
		"another template":                           {world: []validation.Owner{owner}, apply: apply(name, of("", "small")), errors: refused(template)},
		"one of that name in another namespace":      {world: []validation.Owner{owner}, apply: apply(name, of("shared", "vpc")), errors: refused(template)},
		"the same template":                          {world: []validation.Owner{owner}, apply: apply(name)},
		"the same template in other words":           {world: []validation.Owner{owner}, apply: apply(name, of("default", "vpc"))},
		"the owner's own":                            {world: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.OwnedBy(owner))},
		"that of an earlier owner of the name":       {world: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.OwnedBy(builder.CAPTCluster("demo", builder.WithUID("earlier")))), errors: refused(template)},
		"the same cluster":                           {world: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"))}, apply: apply(name, identity("prod"))},
		"another cluster":                            {world: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"))}, apply: apply(name, identity("test")), errors: refused(cluster)},
		"another cluster, by the Cluster's own word": {world: []validation.Owner{owner, builder.Cluster("demo")}, apply: apply(name, identity("test")), errors: refused(cluster)},
		"a cluster that cannot be compared":          {world: []validation.Owner{owner}, apply: apply(name, identity("test"))},
		"no cluster to compare":                      {world: []validation.Owner{owner, builder.Cluster("demo")}, apply: apply(name, builder.WithVariables(nil)), errors: refused("has no cluster_name")},
		"no cluster, and no comparison possible":     {world: []validation.Owner{owner}, apply: apply(name, builder.WithVariables(nil))},
		"restored, of another template":              {world: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.WithWorkspaceName("demo-vpc"))},
		"restored, of another cluster":               {world: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"))}, apply: apply(name, identity("test"), builder.WithWorkspaceName("demo-vpc"))},
		"restored, known by its finalizer":           {world: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.WithFinalizers("f"))},
		"restored, known by its Workspace":           {world: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.WithRecordedWorkspace(builder.Workspace("demo-vpc", builder.AtRest)))},
		"restored, known by the Workspace's name":    {world: []validation.Owner{owner}, apply: apply(name, of("", "small"), builder.UpToDate(nil))},
		"put back for an owner that had it":          {world: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"), had(name))}, apply: apply(name, of("", "earlier"), identity("prod"))},
		"another cluster, for an owner that had it":  {world: []validation.Owner{builder.CAPTCluster("demo", ofCluster("prod"), had(name))}, apply: apply(name, identity("test")), errors: refused(cluster)},
		"put back for a control plane": {world: []validation.Owner{builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{WorkspaceTemplateApplySummary: infrav1.WorkspaceTemplateApplySummary{Name: controlPlaneName}}
		}))}, apply: apply(controlPlaneName, of("", "earlier"))},
		"the same VPC": {world: []validation.Owner{owner}, apply: apply(name, network("demo-vpc"))},
		"another VPC":  {world: []validation.Owner{owner}, apply: apply(name, network("main")), errors: refused("has another vpc_name")},
		"the same VPC, by another name": {world: []validation.Owner{builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Name = "main" }))},
			apply: apply(name, network("main"))},
		"named by the owner by default":               {world: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef(name))}, apply: apply(name, of("", "small")), errors: refused(template)},
		"an owner that has another one":               {world: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef("made-by-hand"))}, apply: apply(name, of("", "small"))},
		"an owner that makes none":                    {world: []validation.Owner{builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-1"))}, apply: apply(name, of("", "small"))},
		"that of a control plane":                     {world: []validation.Owner{controlPlane}, apply: apply(controlPlaneName, of("", "eks"))},
		"that of a control plane, of another content": {world: []validation.Owner{controlPlane}, apply: apply(controlPlaneName), errors: refused("CAPTControlPlane demo uses this name for its own WorkspaceTemplateApply, but this one refers to another WorkspaceTemplate")},
		"that of a control plane, of its cluster":     {world: []validation.Owner{controlPlane, builder.Cluster("demo")}, apply: apply(controlPlaneName, of("", "eks"), identity("test")), errors: refused("has another cluster_name")},
		"a control plane that has another one":        {world: []validation.Owner{builder.CAPTControlPlane("demo", builder.WithApplyRef("made-by-hand"))}, apply: apply(controlPlaneName)},
	})
}

func TestNamesAreKeptForFargateProfiles(t *testing.T) {
	profiles := func(c *controlplanev1.CAPTControlPlane) {
		fargate(selecting("a"))(c)
		hashed := c.Spec.FargateProfiles[0]
		hashed.Name = "Batch_1"
		c.Spec.FargateProfiles = append(c.Spec.FargateProfiles, hashed)
	}
	controlPlane := func(options ...builder.Option) validation.Owner {
		return builder.CAPTControlPlane("demo", append([]builder.Option{builder.With(profiles)}, options...)...)
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
	world := []validation.Owner{controlPlane(), builder.Cluster("demo")}
	refused := func(profile, text string) []finding {
		return []finding{{"metadata.name", field.ErrorTypeForbidden, "CAPTControlPlane demo uses this name for the WorkspaceTemplateApply of its Fargate profile " + profile + ", but this one " + text +
			". Use another name, or set the template and the variables of the profile"}}
	}
	testApplies(t, ownership.WorkspaceTemplateApplyCreation, map[string]applyRow{
		"as it would be made":              {world: world, apply: made(plain, "fargate", "demo", "fp")},
		"another template":                 {world: world, apply: made(plain, "small", "demo", "fp"), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"another cluster":                  {world: world, apply: made(plain, "fargate", "other", "fp"), errors: refused("fp", "has another cluster_name")},
		"another profile":                  {world: world, apply: made(plain, "fargate", "demo", "Batch_1"), errors: refused("fp", "has another profile_name")},
		"no profile":                       {world: world, apply: builder.WorkspaceTemplateApply(plain, of("", "fargate")), errors: refused("fp", "has no profile_name")},
		"a hash, as it would be made":      {world: world, apply: made(hashed, "fargate", "demo", "Batch_1")},
		"a hash, of another template":      {world: world, apply: made(hashed, "small", "demo", "Batch_1"), errors: refused("Batch_1", "refers to another WorkspaceTemplate")},
		"a hash, of another profile":       {world: world, apply: made(hashed, "fargate", "demo", "batch_1"), errors: refused("Batch_1", "has another profile_name")},
		"a profile of no control plane":    {world: world, apply: made("demo-web-fargate-apply", "small", "demo", "web")},
		"a Cluster without control plane":  {world: world, apply: made("other-fp-fargate-apply", "small", "other", "fp")},
		"in another namespace":             {world: world, apply: made(plain, "small", "demo", "fp", builder.WithNamespace("other"))},
		"the Cluster is unknown":           {world: []validation.Owner{controlPlane()}, apply: made(plain, "small", "demo", "fp")},
		"a Cluster of another provider":    {world: []validation.Owner{controlPlane(), foreign}, apply: made(plain, "small", "demo", "fp")},
		"the control plane's own":          {world: world, apply: made(plain, "small", "demo", "fp", builder.OwnedBy(builder.CAPTControlPlane("demo")))},
		"that of an earlier control plane": {world: world, apply: made(plain, "small", "demo", "fp", builder.OwnedBy(builder.CAPTControlPlane("demo", builder.WithUID("earlier")))), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"restored, of another template":    {world: world, apply: made(plain, "small", "demo", "fp", builder.WithWorkspaceName("demo-fp-fargate"))},
		"restored, known by its finalizer": {world: world, apply: made(plain, "small", "demo", "fp", builder.WithFinalizers("f"))},
		"of another template, recorded":    {world: []validation.Owner{controlPlane(recorded), builder.Cluster("demo")}, apply: made(plain, "small", "demo", "fp"), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"a profile that has another one":   {world: []validation.Owner{controlPlane(refers), builder.Cluster("demo")}, apply: made(plain, "small", "demo", "fp")},
		"the one that it has":              {world: []validation.Owner{controlPlane(refers), builder.Cluster("demo")}, apply: made("by-hand", "fargate", "demo", "fp")},
		"the one that it has, of another":  {world: []validation.Owner{controlPlane(refers), builder.Cluster("demo")}, apply: made("by-hand", "small", "demo", "fp"), errors: refused("fp", "refers to another WorkspaceTemplate")},
		"the one that it has, no Cluster":  {world: []validation.Owner{controlPlane(refers)}, apply: made("by-hand", "fargate", "demo", "web"), errors: refused("fp", "has another profile_name")},
		"the one that it has, elsewhere":   {world: []validation.Owner{controlPlane(refers)}, apply: made("by-hand", "small", "demo", "fp", builder.WithNamespace("other"))},
		"a VPC that an owner refers to":    {world: []validation.Owner{builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))}, apply: made("by-hand", "small", "demo", "")},
		"a VPC, of a profile":              {world: []validation.Owner{builder.CAPTCluster("demo")}, apply: made("demo-vpc", "vpc", "demo", "fp"), errors: []finding{{"metadata.name", field.ErrorTypeForbidden, "CAPTCluster demo uses this name for its own WorkspaceTemplateApply, but this one belongs to a Fargate profile"}}},
	})
}

// What the lookup failed up may be what the name is kept for.
func TestNoNameOfAFargateProfileIsFreeWhenTheReadFails(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", fargate(selecting("a")))
	world := newWorld(controlPlane, builder.Cluster("demo"))
	apply := builder.WorkspaceTemplateApply("demo-fp-fargate-apply")
	for _, question := range []string{"ReferrersTo", "Cluster", "CAPTControlPlane", "ClusterOf"} {
		_, err := ownership.WorkspaceTemplateApplyCreation(t.Context(), world.failingAt(question), apply)
		require.ErrorIs(t, err, errUnreachable, question)
	}
}
