// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/test/builder"
)

func captClusterTemplate(options ...builder.Option) *infrav1.CAPTClusterTemplate {
	template := &infrav1.CAPTClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
	template.Spec.Template.Spec = builder.CAPTCluster("demo", options...).Spec.CAPTClusterTemplateResourceSpec
	return template
}

func controlPlaneTemplate(options ...builder.Option) *controlplanev1.CAPTControlPlaneTemplate {
	template := &controlplanev1.CAPTControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
	template.Spec.Template.Spec = builder.CAPTControlPlane("demo", options...).Spec.CAPTControlPlaneTemplateResourceSpec
	return template
}

func TestTemplatesOfCAPTClusters(t *testing.T) {
	for title, row := range map[string]row{
		"good":                 {world: []validation.Owner{complete("vpc")}},
		"with an existing VPC": {object: []builder.Option{builder.WithExistingVPC("vpc-1")}},
		"of a template that may come where the Clusters are": {warnings: []string{"spec.template.spec.vpc.template.ref: WorkspaceTemplate vpc does not exist yet"}},
		"of a template that may allow where the Clusters are": {world: []validation.Owner{complete("vpc", builder.WithNamespace("shared"))},
			object: []builder.Option{vpcNamed("shared")}, warnings: []string{"spec.template.spec.vpc.template.ref: WorkspaceTemplate shared/vpc does not exist, or does not allow"}},
		"with a bad variable": {world: []validation.Owner{complete("vpc")}, object: []builder.Option{vpcVariables("a-b", "c")},
			refused: []finding{{"spec.template.spec.vpc.template.variables[a-b]", field.ErrorTypeInvalid, "letters, digits and underscores"}}},
	} {
		t.Run(title, func(t *testing.T) {
			got, err := owners.CAPTClusterTemplate(t.Context(), newWorld(row.world...), captClusterTemplate(row.object...))
			require.NoError(t, err)
			assertRefused(t, got.Errors, row.refused...)
			assertWarned(t, got.Warnings, row.warnings...)
		})
	}
}

func TestTemplatesOfCAPTControlPlanes(t *testing.T) {
	versioned := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Vars = append(params.Vars, terraform.Var{Key: "version", Value: "${kubernetes_version}"})
	})
	world := newWorld(complete("eks"), complete("fargate"), builder.WorkspaceTemplate("eks-only", versioned, builder.Consuming("profile_name", "selectors")))
	for title, row := range map[string]row{
		"good": {object: []builder.Option{fargate(selecting("a"))}},
		"with what may be wrong for some": {object: []builder.Option{fargate(selecting("a"), selecting("a"))},
			warnings: []string{"spec.template.spec.fargateProfiles[0].selectors[1]: duplicates another selector of the profile"}},
		"with a profile of a template that may come where the Clusters are": {object: []builder.Option{fargate(selecting("a")), plane(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.FargateProfiles[0].WorkspaceTemplateRef.Name = "later"
		})}, warnings: []string{"spec.template.spec.fargateProfiles[0].workspaceTemplateRef: WorkspaceTemplate later does not exist yet"}},
		"with a profile of a template that does not fit": {object: []builder.Option{fargate(selecting("a")), plane(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.FargateProfiles[0].WorkspaceTemplateRef.Name = "eks-only"
		})}, warnings: []string{"spec.template.spec.fargateProfiles[0].workspaceTemplateRef: placeholder ${kubernetes_version} of WorkspaceTemplate default/eks-only has no value and is not replaced: templates of Fargate profiles only get cluster_name, profile_name, region, selectors, tags, vpc_connection_secret, eks_connection_secret"}},
		"with everything that is wrong for all Clusters": {object: []builder.Option{vpcVariables("a-b", "c", "profile_name", "d"), fargate(selecting("A")),
			plane(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"k": "a;b"}
				c.Spec.Addons = []controlplanev1.Addon{{Name: "coredns", ConfigurationValues: "[]"}}
			})},
			refused: []finding{
				{"spec.template.spec.variables[a-b]", field.ErrorTypeInvalid, "letters, digits and underscores"},
				{"spec.template.spec.variables[profile_name]", field.ErrorTypeForbidden, "is reserved for Fargate profiles"},
				{"spec.template.spec.additionalTags[k]", field.ErrorTypeInvalid, "letters, digits, spaces"},
				{"spec.template.spec.addons[0].configurationValues", field.ErrorTypeInvalid, "JSON or YAML object"},
				{"spec.template.spec.fargateProfiles[0].selectors[0].namespace", field.ErrorTypeInvalid, "cannot match any pod"},
			}},
	} {
		t.Run(title, func(t *testing.T) {
			got, err := owners.CAPTControlPlaneTemplate(t.Context(), world, controlPlaneTemplate(row.object...))
			require.NoError(t, err)
			assertRefused(t, got.Errors, row.refused...)
			assertWarned(t, got.Warnings, row.warnings...)
		})
	}
}

func TestLabelsThatCopiesCouldNotHave(t *testing.T) {
	metadata := clusterv1.ObjectMeta{Labels: map[string]string{"a b": "c"}, Annotations: map[string]string{"x/y/z": ""}}
	networks, planes := captClusterTemplate(builder.WithExistingVPC("vpc-1")), controlPlaneTemplate()
	networks.Spec.Template.ObjectMeta, planes.Spec.Template.ObjectMeta = metadata, metadata
	world := newWorld(complete("eks"))
	want := []finding{{"spec.template.metadata.labels", field.ErrorTypeInvalid, "name part"}, {"spec.template.metadata.annotations", field.ErrorTypeInvalid, ""}}

	got, err := owners.CAPTClusterTemplate(t.Context(), world, networks)
	require.NoError(t, err)
	assertRefused(t, got.Errors, want...)
	got, err = owners.CAPTControlPlaneTemplate(t.Context(), world, planes)
	require.NoError(t, err)
	assertRefused(t, got.Errors, want...)
}

func TestTemplatesOfAClusterClassAreImmutable(t *testing.T) {
	want := finding{"spec.template.spec", field.ErrorTypeForbidden, "is immutable: a change would affect all Clusters of the ClusterClass at once"}
	world := newWorld()

	relabeled := captClusterTemplate()
	relabeled.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
	errs, err := owners.CAPTClusterTemplateChange(t.Context(), world, captClusterTemplate(), relabeled)
	require.NoError(t, err)
	assertRefused(t, errs)
	errs, err = owners.CAPTClusterTemplateChange(t.Context(), world, captClusterTemplate(), captClusterTemplate(vpcVariables("a", "b")))
	require.NoError(t, err)
	assertRefused(t, errs, want)

	errs, err = owners.CAPTControlPlaneTemplateChange(t.Context(), world, controlPlaneTemplate(), controlPlaneTemplate())
	require.NoError(t, err)
	assertRefused(t, errs)
	errs, err = owners.CAPTControlPlaneTemplateChange(t.Context(), world, controlPlaneTemplate(), controlPlaneTemplate(vpcVariables("a", "b")))
	require.NoError(t, err)
	assertRefused(t, errs, want)
}
