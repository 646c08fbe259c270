// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package defects_test holds the faults of CAPT v0.3 that need a control plane to be seen: each test is named after the
// number of the fault in the project's list of them. Those that pure code shows are next to that code, under the same names.
package defects_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// hangs is an apply that does not end before the script is another one.
var hangs = scripted.Script{Apply: scripted.Step{Hang: true}}

// failed waits until the control plane is Failed for a reason, shown in a condition.
func failed(env *fixture.Environment, condition, reason, field string) {
	env.Helper()
	env.AwaitState(infrav1.StateFailed, reason)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.FailedCondition, metav1.ConditionTrue, reason, "spec.timeouts."+field)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, condition, metav1.ConditionFalse, reason)
}

// Timeouts were accepted and went nowhere. These are the shortest that the API allows, so each row takes as long; they pass beside
// everything else.
func TestTimeoutsAreHonoured(t *testing.T) {
	t.Parallel()
	beside := func(name string, test func(env *fixture.Environment)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared.InEitherScope(t, test)
		})
	}
	beside("the VPC, left by a retry and when Terraform comes through", func(env *fixture.Environment) {
		env.SetScript(fixture.VPC, hangs)
		env.User(env.Templates()...)
		env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {vpcReadySeconds: 10}"))
		failed(env, controlplanev1.DependenciesReadyCondition, infrav1.VPCReadyTimeoutReason, "vpcReadySeconds")

		env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, fmt.Sprintf(`{"metadata":{"annotations":{%q:"once more"}}}`, naming.RetryAnnotation))
		env.AwaitState(infrav1.StateValidating, controlplanev1.WaitingForInfrastructureReason)
		env.SetScript(fixture.VPC, scripted.Script{})
		env.AwaitState(infrav1.StateReady, "")
	})
	beside("the control plane, left by a change of spec", func(env *fixture.Environment) {
		env.SetScript(fixture.ControlPlane, hangs)
		env.User(env.Templates()...)
		env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {controlPlaneSeconds: 10}"))
		env.AwaitOperation(fixture.ControlPlane, scripted.Apply)
		failed(env, controlplanev1.WorkspaceReadyCondition, controlplanev1.ControlPlaneTimeoutReason, "controlPlaneSeconds")

		env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"timeouts":{"controlPlaneSeconds":1800}}}`)
		env.AwaitState(infrav1.StateProvisioning, infrav1.ProvisioningReason)
		env.SetScript(fixture.ControlPlane, scripted.Script{})
		env.AwaitState(infrav1.StateReady, "")
	})
	beside("a Secret that is waited for, left when it comes", func(env *fixture.Environment) {
		env.User(env.Templates()...)
		env.User(fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-0a1b2c3d, connectionSecretRef: {name: network}}"),
			fixture.CAPTControlPlane(fixture.Demo, "timeouts: {secretSeconds: 10}"))
		failed(env, controlplanev1.WorkspaceReadyCondition, controlplanev1.SecretTimeoutReason, "secretSeconds")
		require.Empty(env, env.Operations(fixture.ControlPlane, scripted.Apply), "nothing is made without it")

		env.User(`{apiVersion: v1, kind: Secret, metadata: {name: network}, stringData: {vpc_config: '{"subnets": []}'}}`)
		env.AwaitState(infrav1.StateReady, "")
	})
	beside("what the connection Secret lacks, left when the template is corrected", func(env *fixture.Environment) {
		env.User(env.VPCTemplate(fixture.VPCModule), env.ControlPlaneTemplate(strings.ReplaceAll(fixture.ControlPlaneModule, "cluster_endpoint", "another_name")))
		env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {secretSeconds: 10}"))
		failed(env, controlplanev1.EndpointAvailableCondition, controlplanev1.SecretTimeoutReason, "secretSeconds")

		env.User(env.ControlPlaneTemplate(fixture.ControlPlaneModule))
		env.AwaitState(infrav1.StateReady, "")
	})
}

// The template's namespace was that of the owner in one place, and that of the reference in another.
func TestTheNamespaceOfTheReferenceCounts(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		shelf := shared.NewEnvironment(env.T, env.Scope)
		shelf.User(shelf.Templates()...)
		for _, name := range []string{fixture.VPCTemplate, fixture.ControlPlaneTemplate} {
			shelf.Edit(&infrav1.WorkspaceTemplate{}, name, `{"spec":{"allowedNamespaces":{"names":["`+env.Namespace+`"]}}}`)
		}
		// Those of the same names next to the owners are not meant.
		env.User(env.VPCTemplate("\nvariable \"vpc_name\" { type = string }\n"), echo(env, "region"))
		inShelf := strings.NewReplacer("{name: vpc}", "{name: vpc, namespace: "+shelf.Namespace+"}", "{name: eks}", "{name: eks, namespace: "+shelf.Namespace+"}")
		env.User(fixture.Cluster(), inShelf.Replace(fixture.CAPTCluster(fixture.Demo)), inShelf.Replace(fixture.CAPTControlPlane(fixture.Demo)))
		env.AwaitState(infrav1.StateReady, "")

		for name, apply := range map[string]string{fixture.VPCTemplate: fixture.VPC, fixture.ControlPlaneTemplate: fixture.ControlPlane} {
			shelf.Await(&infrav1.WorkspaceTemplate{}, name, infrav1.InUseCondition, metav1.ConditionTrue, infrav1.UsedReason, env.Namespace+"/"+apply)
			env.Await(&infrav1.WorkspaceTemplate{}, name, infrav1.InUseCondition, metav1.ConditionFalse, infrav1.NotUsedReason)
		}
		env.Remove(&clusterv1.Cluster{}, fixture.Demo)
		env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		env.RequireNothingLeft()
	})
}

// The environment was always "production", the region was ignored, and the id of a VPC that exists never reached the control
// plane.
func TestRegionAndExistingVPCReachTheControlPlane(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		env.User(echo(env, "region", "vpc_id"), fixture.Cluster(), strings.NewReplacer(
			"eu-central-1", "us-west-2", "vpc: {template: {ref: {name: vpc}}}", "vpc: {existingID: vpc-0a1b2c3d}",
		).Replace(fixture.CAPTCluster(fixture.Demo)), fixture.CAPTControlPlane(fixture.Demo))
		require.Equal(env, "us-west-2", given(env, "region"))
		require.Equal(env, "vpc-0a1b2c3d", given(env, "vpc_id"))

		apply := &infrav1.WorkspaceTemplateApply{}
		require.True(env, env.Exists(apply, fixture.ControlPlane))
		require.NotContains(env, apply.Spec.Variables, "environment")
	})
}

// The ranges and addons of the spec were accepted without effect, and the regions of AWS GovCloud were refused.
func TestRangesAddonsAndGovernmentRegionsReachTerraform(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		env.User(env.VPCTemplate(fixture.VPCModule), echo(env, "region", "endpoint_public_access", "endpoint_private_access", "endpoint_public_access_cidrs", "addons"),
			fixture.Cluster(), strings.ReplaceAll(fixture.CAPTCluster(fixture.Demo), "eu-central-1", "us-gov-west-1"),
			fixture.CAPTControlPlane(fixture.Demo,
				"endpointAccess: {public: Enabled, private: Enabled, publicCIDRs: [203.0.113.0/24, 198.51.100.0/24]}",
				`addons: [{name: coredns}, {name: vpc-cni, version: v1.19.0-eksbuild.1, configurationValues: '{"env": {"A": "<b>"}}'}]`))
		require.Equal(env, "us-gov-west-1", given(env, "region"))
		require.Equal(env, "true", given(env, "endpoint_public_access"))
		require.Equal(env, "true", given(env, "endpoint_private_access"))
		require.JSONEq(env, `["203.0.113.0/24", "198.51.100.0/24"]`, given(env, "endpoint_public_access_cidrs"))
		require.JSONEq(env, `[{"name": "coredns"}, {"name": "vpc-cni", "version": "v1.19.0-eksbuild.1",
			"configurationValues": "{\"env\": {\"A\": \"<b>\"}}"}]`, given(env, "addons"))
		env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.WorkspaceReadyCondition, metav1.ConditionTrue, "")
	})
}

// echo is a template of the control plane that outputs its variables.
func echo(env *fixture.Environment, variables ...string) string {
	var module strings.Builder
	for _, variable := range variables {
		fmt.Fprintf(&module, "\nvariable %q { type = string }\noutput %[1]q { value = var.%[1]s }", variable)
	}
	return env.Template(fixture.ControlPlaneTemplate, module.String()+"\n", variables...)
}

// given is what Terraform was given for a variable, as the module output it.
func given(env *fixture.Environment, variable string) (text string) {
	env.Helper()
	env.Eventually(func() string {
		if workspace := env.Workspace(fixture.ControlPlane); workspace != nil {
			var err error
			text, _, err = unstructured.NestedString(workspace.Object, "status", "atProvider", "outputs", variable)
			require.NoError(env, err)
		}
		return fixture.Unless(text != "", "there is no output %s", variable)
	})
	return text
}
