// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestAnImportIsAnAddressAndAnID(t *testing.T) {
	for text, want := range map[string]states.Import{
		"aws_eks_cluster.this=old":               {To: "aws_eks_cluster.this", ID: "old"},
		"aws_eks_node_group.a[\"x=y\"]=old:a":    {To: "aws_eks_node_group.a[\"x=y\"]", ID: "old:a"},
		"module.eks.aws_eks_cluster.this[0]=a=b": {To: "module.eks.aws_eks_cluster.this[0]", ID: "a=b"},
		"aws_eks_cluster.this":                   {},
		"aws_eks_cluster.this=":                  {},
		"this=old":                               {},
		"a.b\n}\nresource \"x\" \"y\" {\n}=old":  {},
	} {
		found, err := states.ParseImport(text)
		if want == (states.Import{}) {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, found)
	}
}

func TestImportBlocksAreAddedOnceAndRemovedAgain(t *testing.T) {
	const module = "resource \"terraform_data\" \"a\" {\n}\n"
	template := builder.WorkspaceTemplate("eks", builder.WithModule(module))
	imports := []states.Import{{To: "terraform_data.a", ID: `with "quotes" and ${interpolation}`}}
	with, err := states.WithImports(template, imports)
	require.NoError(t, err)
	again, err := states.WithImports(with, imports)
	require.NoError(t, err)
	text := again.Spec.Template.Spec.ForProvider.Module
	assert.Contains(t, text, "import {\n  to = terraform_data.a\n  id = \"with \\\"quotes\\\" and $${interpolation}\"\n}\n")
	assert.Equal(t, with.Spec, again.Spec)
	assert.Equal(t, module, states.WithoutImports(text))
	assert.Equal(t, module, template.Spec.Template.Spec.ForProvider.Module, "the template is not changed")

	remote := builder.WorkspaceTemplate("eks", builder.WithParameters(func(p *terraform.WorkspaceParameters) { p.Source = terraform.SourceRemote }))
	_, err = states.WithImports(remote, imports)
	require.ErrorContains(t, err, "import blocks must be in the root module")
}

// Without the check, the plan fails after objects were created.
func TestImportsNeedTheirResourceInTheModule(t *testing.T) {
	template := builder.WorkspaceTemplate("eks", builder.WithModule("resource \"terraform_data\" \"a\" {\n}\nmodule \"eks\" {\n  source = \"./eks\"\n}\n"))
	_, err := states.WithImports(template, []states.Import{{To: "terraform_data.a[0]", ID: "1"}, {To: "module.eks.aws_eks_cluster.this[0]", ID: "2"}})
	require.NoError(t, err)
	_, err = states.WithImports(template, []states.Import{{To: "terraform_data.a", ID: "1"}, {To: "terraform_data.b", ID: "2"}, {To: "module.vpc.aws_vpc.this", ID: "3"}})
	require.ErrorContains(t, err, `imports[1].to: Invalid value: "terraform_data.b": the module of the template has no terraform_data.b, so Terraform cannot import to it. It has: module.eks, terraform_data.a. Correct the address`)
	require.ErrorContains(t, err, "imports[2].to")
	assert.NotContains(t, err.Error(), "imports[0]")
}

// CAPT creates what an owner refers to and does not exist: the Cluster is paused, and each reference has its object.
func TestTheObjectsOfAClusterReferToEachOther(t *testing.T) {
	part := func(state string) states.Part {
		return states.Part{Template: infrav1.WorkspaceTemplateReference{Name: state}, State: infrav1.TerraformState{Name: state, ProviderConfig: "ClusterProviderConfig/aws"}}
	}
	cluster := states.Cluster{Key: types.NamespacedName{Namespace: "team-a", Name: "shop"}, EKSName: "prod", ControlPlane: part("eks"), VPC: part("vpc")}
	o := cluster.Objects()
	assert.True(t, ptr.Deref(o.Cluster.Spec.Paused, false))
	require.Len(t, o.Applies, 2)
	assert.Equal(t, o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name, o.Applies[0].Name)
	assert.Equal(t, o.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name, o.Applies[1].Name)
	for i, state := range []string{"vpc", "eks"} {
		assert.Equal(t, state, o.Applies[i].Spec.TerraformState.Name)
		assert.Equal(t, "prod", o.Applies[i].Spec.Variables.Text("cluster_name"), "otherwise the owner would not take it")
	}
	assert.Equal(t, infrav1.DeletionProtectionEnabled, o.CAPTCluster.Spec.DeletionProtection)
	assert.Equal(t, infrav1.DeletionProtectionEnabled, o.ControlPlane.Spec.DeletionProtection)

	cluster.ExistingVPC = "vpc-1"
	o = cluster.Objects()
	require.Len(t, o.Applies, 1)
	assert.Equal(t, "vpc-1", o.CAPTCluster.Spec.VPC.ExistingID)
	assert.Empty(t, o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name)
}

// The manager may end between the creation of a Workspace and its record in status.
func TestTheOwnWorkspaceDoesNotKeepItsStateFromTheObject(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TerraformState.Name = "legacy" }))
	own := builder.Workspace("demo-vpc", builder.AtRest, builder.WithAnnotation("crossplane.io/external-name", "legacy"), builder.WithAnnotation(naming.ClaimAnnotation, builder.Namespace+"/demo-vpc"))
	config := states.ConfigOf(builder.WorkspaceTemplate("vpc"), builder.Namespace)
	user := func(own, live *unstructured.Unstructured) string {
		claim := states.Claim{Apply: apply, Config: config, Own: own, Workspaces: []unstructured.Unstructured{*live}, Read: func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return nil, nil }}
		user, err := claim.User()
		require.NoError(t, err)
		return user
	}
	assert.Empty(t, user(own, own))
	assert.Equal(t, "Workspace demo-vpc", user(nil, own))
	foreign := own.DeepCopy()
	foreign.SetAnnotations(map[string]string{"crossplane.io/external-name": "legacy", naming.ClaimAnnotation: builder.Namespace + "/other"})
	assert.Equal(t, "Workspace demo-vpc", user(own, foreign))
	other := own.DeepCopy()
	other.SetName("other")
	assert.Equal(t, "Workspace other", user(own, other))
}
