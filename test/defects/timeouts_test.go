// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// hangs is an apply that does not end before the script is another one.
var hangs = scripted.Script{Apply: scripted.Step{Hang: true}}

// failed waits until the control plane is Failed for a reason, shown in a condition.
func failed(w *fixture.World, condition, reason, field string) {
	w.Helper()
	w.AwaitState(controlplanev1.StateFailed, reason)
	w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.FailedCondition, metav1.ConditionTrue, reason, "spec.timeouts."+field)
	w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, condition, metav1.ConditionFalse, reason)
}

// Timeouts were accepted and went nowhere. These are the shortest that the API allows, so each row takes as long; they pass beside
// everything else.
func TestDefect16TimeoutsAreHonoured(t *testing.T) {
	t.Parallel()
	t.Run("the VPC, left by a retry and when Terraform comes through", func(t *testing.T) {
		t.Parallel()
		inEitherScope(t, func(w *fixture.World) {
			w.Play(fixture.VPC, hangs)
			w.User(w.Templates()...)
			w.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {vpcReadySeconds: 10}"))
			failed(w, controlplanev1.DependenciesReadyCondition, controlplanev1.VPCReadyTimeoutReason, "vpcReadySeconds")

			w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, fmt.Sprintf(`{"metadata":{"annotations":{%q:"once more"}}}`, naming.RetryAnnotation))
			w.AwaitState(controlplanev1.StateValidating, controlplanev1.WaitingForInfrastructureReason)
			w.Play(fixture.VPC, scripted.Script{})
			w.AwaitState(controlplanev1.StateReady, "")
		})
	})
	t.Run("the control plane, left by a change of spec", func(t *testing.T) {
		t.Parallel()
		inEitherScope(t, func(w *fixture.World) {
			w.Play(fixture.ControlPlane, hangs)
			w.User(w.Templates()...)
			w.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {controlPlaneSeconds: 10}"))
			w.AwaitOperation(fixture.ControlPlane, scripted.Apply)
			failed(w, controlplanev1.WorkspaceReadyCondition, controlplanev1.ControlPlaneTimeoutReason, "controlPlaneSeconds")

			w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"timeouts":{"controlPlaneSeconds":1800}}}`)
			w.AwaitState(controlplanev1.StateProvisioning, infrav1.ProvisioningReason)
			w.Play(fixture.ControlPlane, scripted.Script{})
			w.AwaitState(controlplanev1.StateReady, "")
		})
	})
	t.Run("a Secret that is waited for, left when it comes", func(t *testing.T) {
		t.Parallel()
		inEitherScope(t, func(w *fixture.World) {
			w.User(w.Templates()...)
			w.User(fixture.Cluster(), `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: demo}
spec:
  region: eu-central-1
  vpc: {existingID: vpc-0a1b2c3d, connectionSecretRef: {name: network}}
`, fixture.CAPTControlPlane(fixture.Demo, "timeouts: {secretSeconds: 10}"))
			failed(w, controlplanev1.WorkspaceReadyCondition, controlplanev1.SecretTimeoutReason, "secretSeconds")
			require.Empty(w, w.Operations(fixture.ControlPlane, scripted.Apply), "nothing is made without it")

			w.User(`{apiVersion: v1, kind: Secret, metadata: {name: network}, stringData: {vpc_config: '{"subnets": []}'}}`)
			w.AwaitState(controlplanev1.StateReady, "")
		})
	})
	t.Run("what the connection Secret lacks, left when the template is corrected", func(t *testing.T) {
		t.Parallel()
		inEitherScope(t, func(w *fixture.World) {
			w.User(w.VPCTemplate(fixture.VPCModule), w.ControlPlaneTemplate(strings.ReplaceAll(fixture.ControlPlaneModule, "cluster_endpoint", "another_name")))
			w.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {secretSeconds: 10}"))
			failed(w, controlplanev1.EndpointAvailableCondition, controlplanev1.SecretTimeoutReason, "secretSeconds")

			w.User(w.ControlPlaneTemplate(fixture.ControlPlaneModule))
			w.AwaitState(controlplanev1.StateReady, "")
		})
	})
}
