// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// row is an object among other objects, and the expected findings.
type row struct {
	existing []validation.Owner
	object   []builder.Option
	refused  []finding
	warnings []string
}

// pasting is the template "vpc" with a variable in the text of its module.
func pasting() *infrav1.WorkspaceTemplate {
	return complete("vpc", builder.WithModule("output \"o\" {\n  value = \"${owner} of ${cluster_name}\"\n}\n"))
}

func vpcNamed(namespace string) builder.Option {
	return builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref.Namespace = namespace })
}

func vpcVariables(pairs ...string) builder.Option {
	variables := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		variables[pairs[i]] = pairs[i+1]
	}
	return builder.WithVariables(variables)
}

func TestCAPTClusters(t *testing.T) {
	vpc := complete("vpc")
	private := complete("vpc", builder.WithNamespace("shared"))
	longest := strings.Repeat("n", naming.MaxCAPTClusterNameLength)

	for name, row := range map[string]row{
		"with a template":             {existing: []validation.Owner{vpc}},
		"reference set by defaulting": {existing: []validation.Owner{vpc}, object: []builder.Option{builder.WithApplyRef("demo-vpc")}},
		"with an existing VPC":        {object: []builder.Option{builder.WithExistingVPC("vpc-1")}},
		"template does not exist yet": {warnings: []string{"spec.vpc.template.ref: WorkspaceTemplate vpc does not exist yet"}},
		"template does not allow the namespace": {existing: []validation.Owner{private, namespace("shared", nil), namespace("default", nil)}, object: []builder.Option{vpcNamed("shared")},
			warnings: []string{"spec.vpc.template.ref: WorkspaceTemplate shared/vpc does not exist, or does not allow namespace default"}},
		"with the longest name that fits": {existing: []validation.Owner{vpc}, object: []builder.Option{renamed(longest)}},
		"with a name that is longer": {existing: []validation.Owner{vpc}, object: []builder.Option{renamed(longest + "n")},
			refused: []finding{{"metadata.name", field.ErrorTypeInvalid, "has 239 characters, so names that CAPT derives from it would be truncated"}}},
		"with a long name from which nothing is derived": {object: []builder.Option{renamed(longest + "n"), builder.WithExistingVPC("vpc-1")}},

		"with a variable that nothing can name": {existing: []validation.Owner{vpc}, object: []builder.Option{vpcVariables("a-b", "c")},
			refused: []finding{{"spec.vpc.template.variables[a-b]", field.ErrorTypeInvalid, "letters, digits and underscores"}}},
		"with a variable that ends a string of the module": {existing: []validation.Owner{pasting()}, object: []builder.Option{vpcVariables("owner", `hunter2" }`)},
			refused: []finding{{"spec.vpc.template.variables[owner]", field.ErrorTypeInvalid, "the value of variable \"owner\" has characters that could change the module"}}},
		"with a variable that the template does not use": {existing: []validation.Owner{vpc}, object: []builder.Option{vpcVariables("sise", "small")},
			warnings: []string{"spec.vpc.template.variables[sise]: has no effect: WorkspaceTemplate default/vpc has no placeholder ${sise}"}},
		"with variables that CAPT sets": {existing: []validation.Owner{vpc}, object: []builder.Option{vpcVariables("region", "x", "vpc_name", "y", "cluster_name", `z" }`)},
			warnings: []string{"variables[region]: has no effect: CAPT sets this variable", "variables[vpc_name]: has no effect", "variables[cluster_name]: has no effect"}},
		"unsafe value of a variable that CAPT sets": {existing: []validation.Owner{pasting()}, object: []builder.Option{vpcVariables("owner", "me", "cluster_name", `z" }`)},
			warnings: []string{"variables[cluster_name]: has no effect"}},
	} {
		t.Run(name, func(t *testing.T) { row.run(t) })
	}
}

func renamed(name string) builder.Option {
	return func(object client.Object) { object.SetName(name) }
}

func (r row) run(t *testing.T) {
	t.Helper()
	object := builder.CAPTCluster("demo", r.object...)
	expect(t, r.refused, r.warnings...)(validation.ValidateCAPTCluster(t.Context(), newFakeReader(append(r.existing, object)...), object))
}

func TestWorkspaceTemplateAppliesOfCAPTClusters(t *testing.T) {
	vpc := complete("vpc")
	const path = "spec.workspaceTemplateApplyRef.name"
	for name, row := range map[string]row{
		"its own": {existing: []validation.Owner{vpc, builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTCluster("demo")))},
			object: []builder.Option{builder.WithApplyRef("by-hand")}},
		"without owner": {existing: []validation.Owner{vpc, builder.WorkspaceTemplateApply("by-hand")}, object: []builder.Option{builder.WithApplyRef("by-hand")}},
		"does not exist": {existing: []validation.Owner{vpc}, object: []builder.Option{builder.WithApplyRef("by-hand")},
			warnings: []string{path + ": WorkspaceTemplateApply by-hand does not exist"}},
		"in another namespace": {existing: []validation.Owner{vpc, builder.CAPTCluster("other", builder.WithNamespace("x"), builder.WithApplyRef("demo-vpc"))},
			object: []builder.Option{builder.WithApplyRef("demo-vpc")}},
		"another's": {existing: []validation.Owner{vpc, builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTCluster("other")))},
			object:  []builder.Option{builder.WithApplyRef("by-hand")},
			refused: []finding{{path, field.ErrorTypeForbidden, "belongs to CAPTCluster other: two objects cannot share one"}}},
		"owned by an earlier CAPTCluster of the same name": {existing: []validation.Owner{vpc, builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTCluster("demo", builder.WithUID("before"))))},
			object:  []builder.Option{builder.WithApplyRef("by-hand")},
			refused: []finding{{path, field.ErrorTypeForbidden, "belongs to CAPTCluster demo"}}},
		"referred to by another CAPTCluster": {existing: []validation.Owner{vpc, builder.CAPTCluster("other", builder.WithApplyRef("by-hand"))},
			object:  []builder.Option{builder.WithApplyRef("by-hand")},
			refused: []finding{{path, field.ErrorTypeForbidden, "in use by CAPTCluster other: two objects cannot share one"}}},
		"referred to by a control plane of the same name": {existing: []validation.Owner{vpc, builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand"))},
			object:  []builder.Option{builder.WithApplyRef("by-hand")},
			refused: []finding{{path, field.ErrorTypeForbidden, "in use by CAPTControlPlane demo"}}},
		"referred to by several objects": {existing: []validation.Owner{vpc, builder.CAPTCluster("b", builder.WithApplyRef("by-hand")), builder.CAPTCluster("a", builder.WithApplyRef("by-hand"))},
			object:  []builder.Option{builder.WithApplyRef("by-hand")},
			refused: []finding{{path, field.ErrorTypeForbidden, "in use by CAPTCluster a and CAPTCluster b"}}},
		"any, for an existing VPC": {object: []builder.Option{builder.WithExistingVPC("vpc-1"), builder.WithApplyRef("by-hand")},
			warnings: []string{"spec.workspaceTemplateApplyRef: has no effect"}},
	} {
		t.Run(name, func(t *testing.T) { row.run(t) })
	}
}

// The API server responds with AlreadyExists only after admission. A restarted clusterctl move needs that response.
func TestRepeatedCreationOfACAPTClusterIsAdmitted(t *testing.T) {
	there := builder.CAPTCluster("demo", builder.WithUID("there"), builder.WithApplyRef("by-hand"))
	again := builder.CAPTCluster("demo", builder.WithUID("again"), builder.WithApplyRef("by-hand"))
	for owner, refused := range map[*infrav1.CAPTCluster]int{there: 0, builder.CAPTCluster("demo", builder.WithUID("before")): 1} {
		existing := newFakeReader(complete("vpc"), there, builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(owner)))
		got, err := validation.ValidateCAPTCluster(t.Context(), existing, again)
		require.NoError(t, err)
		assert.Len(t, got.Errors, refused, owner.UID)
	}
}

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
		"good":                 {existing: []validation.Owner{complete("vpc")}},
		"with an existing VPC": {object: []builder.Option{builder.WithExistingVPC("vpc-1")}},
		"of a template that may come where the Clusters are": {warnings: []string{"spec.template.spec.vpc.template.ref: WorkspaceTemplate vpc does not exist yet"}},
		"of a template that may allow where the Clusters are": {existing: []validation.Owner{complete("vpc", builder.WithNamespace("shared"))},
			object: []builder.Option{vpcNamed("shared")}, warnings: []string{"spec.template.spec.vpc.template.ref: WorkspaceTemplate shared/vpc does not exist, or does not allow"}},
		"with a bad variable": {existing: []validation.Owner{complete("vpc")}, object: []builder.Option{vpcVariables("a-b", "c")},
			refused: []finding{{"spec.template.spec.vpc.template.variables[a-b]", field.ErrorTypeInvalid, "letters, digits and underscores"}}},
	} {
		t.Run(title, func(t *testing.T) {
			expect(t, row.refused, row.warnings...)(validation.ValidateCAPTClusterTemplate(t.Context(), newFakeReader(row.existing...), captClusterTemplate(row.object...)))
		})
	}
}

func TestTemplatesOfCAPTControlPlanes(t *testing.T) {
	versioned := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Vars = append(params.Vars, terraform.Var{Key: "version", Value: "${kubernetes_version}"})
	})
	existing := newFakeReader(complete("eks"), complete("fargate"), builder.WorkspaceTemplate("eks-only", versioned, builder.Consuming("profile_name", "selectors")))
	for title, row := range map[string]row{
		"good": {object: []builder.Option{fargate(selecting("a"))}},
		"warnings that depend on the Cluster": {object: []builder.Option{fargate(selecting("a"), selecting("a"))},
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
			expect(t, row.refused, row.warnings...)(validation.ValidateCAPTControlPlaneTemplate(t.Context(), existing, controlPlaneTemplate(row.object...)))
		})
	}
}

// A patch of the ClusterClass can set variables, and other WorkspaceTemplates.
func TestMissingVariablesOfTemplatesOfAClusterClassAreWarnings(t *testing.T) {
	incomplete := []builder.Option{builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Vars = append(params.Vars, terraform.Var{Key: "owner", Value: "${owner}"})
	}), builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Substitution = infrav1.SubstitutionFields })}
	existing := newFakeReader(complete("vpc", incomplete...), complete("eks", incomplete...), complete("fargate", incomplete...))
	const missing = "WorkspaceTemplate default/%s has the placeholder ${owner}. Set the variable"

	expect(t, nil, "spec.template.spec.vpc.template.variables[owner]: "+fmt.Sprintf(missing, "vpc"))(
		validation.ValidateCAPTClusterTemplate(t.Context(), existing, captClusterTemplate()))
	expect(t, nil, "spec.template.spec.variables[owner]: "+fmt.Sprintf(missing, "eks"),
		"spec.template.spec.fargateProfiles[0].workspaceTemplateRef: placeholder ${owner} of WorkspaceTemplate default/fargate has no value")(
		validation.ValidateCAPTControlPlaneTemplate(t.Context(), existing, controlPlaneTemplate(fargate(selecting("a")))))
	expect(t, []finding{{"spec.vpc.template.variables[owner]", field.ErrorTypeRequired, fmt.Sprintf(missing, "vpc")}})(
		validation.ValidateCAPTCluster(t.Context(), existing, builder.CAPTCluster("demo")))
}

// Their templates may have got a placeholder that a rollout holds back.
func TestMissingVariablesOfMovedObjectsAreWarnings(t *testing.T) {
	incomplete := []builder.Option{builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Vars = append(params.Vars, terraform.Var{Key: "owner", Value: "${owner}"})
	}), builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Substitution = infrav1.SubstitutionFields })}
	existing := newFakeReader(complete("vpc", incomplete...), complete("eks", incomplete...), complete("fargate", incomplete...))
	for name, object := range map[string]validation.Owner{
		"CAPTCluster":            builder.CAPTCluster("demo"),
		"CAPTControlPlane":       builder.CAPTControlPlane("demo", fargate(selecting("a"))),
		"WorkspaceTemplateApply": builder.WorkspaceTemplateApply("helper"),
	} {
		t.Run(name, func(t *testing.T) {
			object.SetFinalizers(nil)
			fresh, err := validation.ValidateNew(t.Context(), existing, object)
			require.NoError(t, err)
			require.NotEmpty(t, fresh.Errors)

			object.SetFinalizers([]string{"example.com/finalizer"})
			moved, err := validation.ValidateNew(t.Context(), existing, object)
			require.NoError(t, err)
			assert.Empty(t, moved.Errors)
			assert.Len(t, moved.Warnings, len(fresh.Warnings)+len(fresh.Errors))
			assert.Contains(t, strings.Join(moved.Warnings, "\n"), "${owner}")
		})
	}
}

func TestInvalidMetadataOfTemplates(t *testing.T) {
	metadata := clusterv1.ObjectMeta{Labels: map[string]string{"a b": "c"}, Annotations: map[string]string{"x/y/z": ""}}
	networks, planes := captClusterTemplate(builder.WithExistingVPC("vpc-1")), controlPlaneTemplate()
	networks.Spec.Template.ObjectMeta, planes.Spec.Template.ObjectMeta = metadata, metadata
	existing := newFakeReader(complete("eks"))
	want := []finding{{"spec.template.metadata.labels", field.ErrorTypeInvalid, "name part"}, {"spec.template.metadata.annotations", field.ErrorTypeInvalid, ""}}

	expect(t, want)(validation.ValidateCAPTClusterTemplate(t.Context(), existing, networks))
	expect(t, want)(validation.ValidateCAPTControlPlaneTemplate(t.Context(), existing, planes))
}

func TestTemplatesOfAClusterClassAreImmutable(t *testing.T) {
	want := finding{"spec.template.spec", field.ErrorTypeForbidden, "is immutable: a change would affect all Clusters of the ClusterClass at once"}
	existing, changed, relabeled := newFakeReader(), vpcVariables("a", "b"), captClusterTemplate()
	relabeled.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
	expect(t, nil)(validation.ValidateChange(t.Context(), existing, captClusterTemplate(), relabeled))
	expect(t, []finding{want})(validation.ValidateChange(t.Context(), existing, captClusterTemplate(), captClusterTemplate(changed)))
	expect(t, nil)(validation.ValidateChange(t.Context(), existing, controlPlaneTemplate(), controlPlaneTemplate()))
	expect(t, []finding{want})(validation.ValidateChange(t.Context(), existing, controlPlaneTemplate(), controlPlaneTemplate(changed)))
}
