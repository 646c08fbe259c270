// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// nodeGroup returns the template and the WorkspaceTemplateApply of the node group of the sample, for the Cluster of the environment.
func nodeGroup(env *fixture.Environment) (template, apply *unstructured.Unstructured) {
	env.Helper()
	templates, err := manifests.Load(filepath.Join(samples["aws"], "nodegroup-template.yaml"))
	require.NoError(env, err)
	documents, err := manifests.Load(filepath.Join(samples["aws"], "workers"))
	require.NoError(env, err)
	for _, document := range append(templates, documents...) {
		document.SetNamespace(env.Namespace)
		switch document.GetKind() + "/" + document.GetName() {
		case "WorkspaceTemplate/aws-nodegroup":
			template = document
			require.NoError(env, unstructured.SetNestedField(document.Object, env.Namespace, "spec", "template", "spec", "providerConfigRef", "name"))
		case "WorkspaceTemplateApply/workers-nodegroup":
			apply = document
			document.SetLabels(map[string]string{clusterv1.ClusterNameLabel: fixture.Demo})
			for variable, value := range map[string]string{"cluster_name": fixture.Demo, "vpc_connection_secret": fixture.Demo + "-vpc-connection"} {
				require.NoError(env, unstructured.SetNestedField(document.Object, value, "spec", "variables", variable))
			}
			for list, name := range map[string]string{"waitForWorkspaces": env.WorkspaceKey(fixture.ControlPlane).Name, "waitForSecrets": fixture.Demo + "-vpc-connection"} {
				dependencies, _, err := unstructured.NestedSlice(document.Object, "spec", list)
				require.NoError(env, err)
				dependencies[0].(map[string]any)["name"] = name
				require.NoError(env, unstructured.SetNestedSlice(document.Object, dependencies, "spec", list))
			}
		}
	}
	require.NotNil(env, template)
	require.NotNil(env, apply)
	return template, apply
}

// The node group of the sample waits for the EKS cluster. Bound to the control plane as docs/workers.md describes, it is destroyed with its
// Cluster, before the EKS cluster, and cannot be deleted by mistake.
func TestANodeGroupLivesAndIsDestroyedWithItsCluster(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	template, apply := nodeGroup(env)
	name := apply.GetName()
	fixture.Apply(env, env.Client, template)
	fixture.Apply(env, env.Client, apply.DeepCopy())
	env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason)

	env.User(env.VPCTemplate(fixture.FargateVPCModule), env.ControlPlaneTemplate(fixture.ControlPlaneModule),
		fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	created, controlPlane := env.Operations(name, scripted.Apply), env.Operations(fixture.ControlPlane, scripted.Apply)
	require.NotEmpty(t, created)
	require.True(t, controlPlane[0].End.Before(created[0].Start), "the node group was created before the EKS cluster")

	owner := &controlplanev1.CAPTControlPlane{}
	require.True(t, env.Exists(owner, fixture.Demo))
	env.Edit(&infrav1.WorkspaceTemplateApply{}, name, fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"%s","kind":"CAPTControlPlane","name":"%s","uid":"%s","controller":true}]}}`,
		controlplanev1.GroupVersion, fixture.Demo, owner.UID))
	fixture.Apply(env, env.Client, apply) // A manifest without the owner reference, as Git has it, keeps it.
	bound := &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(bound, name))
	require.True(t, metav1.IsControlledBy(bound, owner))
	_, err := env.Server.Kubectl(t.Context(), "--namespace="+env.Namespace, "delete", "workspacetemplateapply", name, "--wait=false")
	require.Error(t, err, "a policy rejects the deletion")

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, name)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.ControlPlane, name)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
}
