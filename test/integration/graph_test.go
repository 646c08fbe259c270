// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
)

// awaitDependency waits until the control plane reports a dependency: direction, kind, name, ready and reason.
func (env environment) awaitDependency(want string) *controlplanev1.CAPTControlPlane {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.Eventually(func() string {
		var found []string
		if env.Exists(controlPlane, fixture.Demo) {
			for _, d := range controlPlane.Status.Dependencies {
				found = append(found, fmt.Sprintf("%s %s %s %s %s", d.Direction, d.Kind, d.Name, d.Ready, d.Reason))
			}
		}
		if !slices.Contains(found, want) {
			return fmt.Sprintf("%q is not among %q", want, found)
		}
		return ""
	})
	return controlPlane
}

func TestDependenciesFollowTheObjects(t *testing.T) {
	t.Parallel()
	env := ready(t)
	for _, want := range []string{
		"Upstream CAPTCluster demo True ",
		"Upstream Secret demo-eks-connection True ",
		"Upstream Workspace demo-eks-controlplane True ",
		"Upstream WorkspaceTemplate eks True ",
		"Upstream WorkspaceTemplateApply demo-vpc True ",
		"Downstream Secret demo-kubeconfig True ",
	} {
		env.awaitDependency(want)
	}
	env.User(applied("addon", `waitForWorkspaces: [{name: demo-eks-controlplane}], waitForSecrets: [{name: account}], variables: {vpc_name: addon}`))
	before := env.awaitDependency("Downstream WorkspaceTemplateApply addon False WaitingForDependencies")

	neighbor := newEnvironment(t)
	neighbor.User(document("WorkspaceTemplateApply", "neighbor", fmt.Sprintf(`{templateRef: {name: vpc}, waitForWorkspaces: [{name: demo-eks-controlplane, namespace: %s}]}`, env.Namespace)))
	after := env.awaitDependency("Downstream WorkspaceTemplateApply " + graph.Elsewhere + "  ")
	require.Len(t, after.Status.Dependencies, len(before.Status.Dependencies)+1)
}

// Admission does not follow Secrets.
func TestADependencyCycleIsReportedUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	env := ready(t)
	env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, `{"spec":{"waitForSecrets":[{"name":"demo-eks-connection"}]}}`)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.Await(controlPlane, fixture.Demo, controlplanev1.DependencyCycleCondition, metav1.ConditionTrue, controlplanev1.DependencyCycleReason,
		"WorkspaceTemplateApply demo-vpc → Secret demo-eks-connection → ", "Remove spec.waitForSecrets[0] of WorkspaceTemplateApply demo-vpc")
	require.Equal(t, controlplanev1.StateReady, controlPlane.Status.State, "what exists needs no dependencies")
	env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, `{"spec":{"waitForSecrets":null}}`)
	env.Await(controlPlane, fixture.Demo, controlplanev1.DependencyCycleCondition, metav1.ConditionFalse, controlplanev1.NoDependencyCycleReason)
}
