// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
)

// The template's namespace was that of the owner in one place, and that of the reference in another.
func TestDefect13TheNamespaceOfTheReferenceCounts(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		shelf := shared.NewWorld(w.T, w.Scope)
		shelf.User(shelf.Templates()...)
		for _, name := range []string{fixture.VPCTemplate, fixture.ControlPlaneTemplate} {
			shelf.Edit(&infrav1.WorkspaceTemplate{}, name, `{"spec":{"allowedNamespaces":{"names":["`+w.Namespace+`"]}}}`)
		}
		// Those of the same names next to the owners are not meant.
		w.User(w.VPCTemplate("\nvariable \"vpc_name\" { type = string }\n"), echo(w, "region"))
		inShelf := strings.NewReplacer("{name: vpc}", "{name: vpc, namespace: "+shelf.Namespace+"}", "{name: eks}", "{name: eks, namespace: "+shelf.Namespace+"}")
		w.User(fixture.Cluster(), inShelf.Replace(fixture.CAPTCluster(fixture.Demo)), inShelf.Replace(fixture.CAPTControlPlane(fixture.Demo)))
		w.AwaitState(controlplanev1.StateReady, "")

		for name, apply := range map[string]string{fixture.VPCTemplate: fixture.VPC, fixture.ControlPlaneTemplate: fixture.ControlPlane} {
			shelf.Await(&infrav1.WorkspaceTemplate{}, name, infrav1.InUseCondition, metav1.ConditionTrue, infrav1.UsedReason, w.Namespace+"/"+apply)
			w.Await(&infrav1.WorkspaceTemplate{}, name, infrav1.InUseCondition, metav1.ConditionFalse, infrav1.NotUsedReason)
		}
		w.Remove(&clusterv1.Cluster{}, fixture.Demo)
		w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		w.RequireNothingLeft()
	})
}

// The environment was always "production", the region was ignored, and the id of a VPC that exists never reached the control
// plane.
func TestDefect14RegionAndExistingVPCReachTheControlPlane(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		w.User(echo(w, "region", "vpc_id"), fixture.Cluster(), strings.NewReplacer(
			"eu-central-1", "us-west-2", "vpc: {template: {ref: {name: vpc}}}", "vpc: {existingID: vpc-0a1b2c3d}",
		).Replace(fixture.CAPTCluster(fixture.Demo)), fixture.CAPTControlPlane(fixture.Demo))
		require.Equal(w, "us-west-2", given(w, "region"))
		require.Equal(w, "vpc-0a1b2c3d", given(w, "vpc_id"))

		apply := &infrav1.WorkspaceTemplateApply{}
		require.True(w, w.Exists(apply, fixture.ControlPlane))
		require.NotContains(w, apply.Spec.Variables, "environment")
	})
}

// The ranges and addons of the spec were accepted without effect, and the regions of AWS GovCloud were refused.
func TestDefect16RangesAddonsAndGovernmentRegionsReachTerraform(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		w.User(w.VPCTemplate(fixture.VPCModule), echo(w, "region", "endpoint_public_access", "endpoint_private_access", "endpoint_public_access_cidrs", "addons"),
			fixture.Cluster(), strings.ReplaceAll(fixture.CAPTCluster(fixture.Demo), "eu-central-1", "us-gov-west-1"),
			fixture.CAPTControlPlane(fixture.Demo,
				"endpointAccess: {public: Enabled, private: Enabled, publicCIDRs: [203.0.113.0/24, 198.51.100.0/24]}",
				`addons: [{name: coredns}, {name: vpc-cni, version: v1.19.0-eksbuild.1, configurationValues: '{"env": {"A": "<b>"}}'}]`))
		require.Equal(w, "us-gov-west-1", given(w, "region"))
		require.Equal(w, "true", given(w, "endpoint_public_access"))
		require.Equal(w, "true", given(w, "endpoint_private_access"))
		require.JSONEq(w, `["203.0.113.0/24", "198.51.100.0/24"]`, given(w, "endpoint_public_access_cidrs"))
		require.JSONEq(w, `[{"name": "coredns"}, {"name": "vpc-cni", "version": "v1.19.0-eksbuild.1",
			"configurationValues": "{\"env\": {\"A\": \"<b>\"}}"}]`, given(w, "addons"))
		w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.WorkspaceReadyCondition, metav1.ConditionTrue, "")
	})
}

// echo is a template of the control plane that outputs its variables.
func echo(w *fixture.World, variables ...string) string {
	var module strings.Builder
	for _, variable := range variables {
		fmt.Fprintf(&module, "\nvariable %q { type = string }\noutput %[1]q { value = var.%[1]s }", variable)
	}
	return w.Template(fixture.ControlPlaneTemplate, module.String()+"\n", variables...)
}

// given is what Terraform was given for a variable, as the module output it.
func given(w *fixture.World, variable string) (text string) {
	w.Helper()
	w.Insist(func() string {
		if workspace := w.Workspace(fixture.ControlPlane); workspace != nil {
			var err error
			text, _, err = unstructured.NestedString(workspace.Object, "status", "atProvider", "outputs", variable)
			require.NoError(w, err)
		}
		if text == "" {
			return "there is no output " + variable
		}
		return ""
	})
	return text
}
