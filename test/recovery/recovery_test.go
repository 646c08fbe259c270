// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package recovery_test lets Terraform fail, and shows what CAPT does about it without help, and after it.
package recovery_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	throttled = "\nError: creating EKS Cluster: operation error EKS: CreateCluster, https response error StatusCode: 429, api error ThrottlingException: Rate exceeded\n"
	expired   = "\nError: No valid credential sources found\n\noperation error STS: GetCallerIdentity, api error ExpiredToken: The security token included in the request is expired\n"
	// soon starts the first attempt after a second.
	soon = "recovery: {backoff: {initialSeconds: 1, maxSeconds: 2}}"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// start creates a cluster whose control plane has a script, and lines of its spec.
func start(env *fixture.Environment, script scripted.Script, more ...string) {
	env.Helper()
	env.SetScript(fixture.ControlPlane, script)
	env.User(append(env.FargateTemplates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, more...))...)
}

// end deletes the cluster, after its recovery.
func end(env *fixture.Environment) {
	env.Helper()
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireNothingLeft()
}

// awaitRecovering waits for a reason of the condition Recovering, with parts of its message.
func awaitRecovering(env *fixture.Environment, status metav1.ConditionStatus, reason string, parts ...string) *controlplanev1.CAPTControlPlane {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.Await(controlPlane, fixture.Demo, infrav1.RecoveringCondition, status, reason, parts...)
	return controlPlane
}

// request is the recovery action that CAPT asked the provider for last, or "".
func request(env *fixture.Environment) string {
	env.Helper()
	return env.Workspace(fixture.ControlPlane).GetAnnotations()[naming.RecoveryAnnotation]
}

func TestAThrottledControlPlaneRecovers(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		start(env, scripted.Script{Apply: scripted.Step{Stderr: throttled}}, soon)
		controlPlane := awaitRecovering(env, metav1.ConditionTrue, infrav1.RecoveringReason, "recovery attempt 1 of 5 (Reapply)")
		assert.Equal(env, infrav1.StateRecovering, controlPlane.Status.State)
		assert.Equal(env, "Throttle", controlPlane.Status.Recovery.FailureClass)
		env.Eventually(func() string {
			if strings.HasPrefix(request(env), "Reapply/") {
				return ""
			}
			return "the provider was not asked to apply again"
		})
		env.SetScript(fixture.ControlPlane, scripted.Script{})

		ready := env.AwaitState(infrav1.StateReady, "")
		assert.EqualValues(env, "Succeeded", ready.Status.Recovery.LastOutcome)
		end(env)
	})
}

// Wrong credentials are not tried again by CAPT. When the Secret is corrected, CAPT asks for one run.
func TestWrongCredentialsWaitForTheirCorrection(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "aws"}, Data: map[string][]byte{"credentials": []byte("wrong-words")}}
		require.NoError(env, env.Create(env.Context(), secret))
		env.User(strings.Replace(env.ProviderConfig(), "pluginCache: false", fmt.Sprintf(
			"pluginCache: false, credentials: [{filename: aws, source: Secret, secretRef: {namespace: %s, name: aws, key: credentials}}]", env.Namespace), 1))
		start(env, scripted.Script{Apply: scripted.Step{Stderr: expired}}, soon)
		controlPlane := awaitRecovering(env, metav1.ConditionFalse, infrav1.RecoveryBlockedReason)
		assert.Equal(env, "Auth", controlPlane.Status.Recovery.FailureClass)
		env.AwaitState(infrav1.StateFailed, "")
		assert.Empty(env, request(env), "no automatic attempt")

		fixture.Change(env, env.Client, client.ObjectKeyFromObject(secret), secret, func() { secret.Data["credentials"] = []byte("right-words") })
		env.Eventually(func() string {
			if strings.HasPrefix(request(env), "Reapply/") {
				return ""
			}
			return "the provider was not asked for one run"
		})
		env.SetScript(fixture.ControlPlane, scripted.Script{}) // Not before: the provider could succeed before CAPT asks.
		env.AwaitState(infrav1.StateReady, "")
		text := env.Kubectl("get", "captcontrolplane,workspacetemplateapply,events", "-o", "yaml")
		assert.NotContains(env, text, "wrong-words")
		assert.NotContains(env, text, "right-words")
		end(env)
	})
}

// A first apply that was interrupted continues only if its state is remote.
func TestAnInterruptedCreateContinuesOnRemoteState(t *testing.T) {
	server := shared.Exclusive(t)
	remote, local := server.NewEnvironment(t, terraform.ScopeNamespaced), server.NewEnvironment(t, terraform.ScopeCluster)
	remote.User(strings.Replace(remote.ProviderConfig(), "pluginCache: false",
		`pluginCache: false, configuration: "terraform {\n  backend \"s3\" {}\n}"`, 1))
	for _, env := range []*fixture.Environment{remote, local} {
		start(env, scripted.Script{Apply: scripted.Step{Hang: true}}, soon)
		env.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	}
	require.NoError(t, server.Kill(sandbox.Provider))
	for _, env := range []*fixture.Environment{remote, local} {
		env.SetScript(fixture.ControlPlane, scripted.Script{})
	}
	require.NoError(t, server.StartComponent(t.Context(), sandbox.Provider))

	remote.AwaitState(infrav1.StateReady, "")
	assert.True(t, strings.HasPrefix(request(remote), "ClearInterruptedCreate/"), request(remote))
	awaitRecovering(local, metav1.ConditionFalse, infrav1.RecoveryBlockedReason, "ClearInterruptedCreate is refused", "has no remote backend")
	local.AwaitState(infrav1.StateFailed, infrav1.CreateInterruptedReason)
	assert.Empty(t, request(local))
}

// Of a failing Fargate profile only the profile is destroyed and created again.
func TestAFailedFargateProfileIsRecreated(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		profile := naming.FargateWorkspaceTemplateApply(fixture.Demo, "jobs")
		env.SetScript(profile, scripted.Script{Apply: scripted.Step{Stderr: throttled, Partial: true}})
		start(env, scripted.Script{}, fixture.FargateProfiles("jobs"),
			"recovery: {backoff: {initialSeconds: 1, maxSeconds: 2}, actions: [{type: RecreateFargateProfile}]}")
		awaitRecovering(env, metav1.ConditionTrue, infrav1.RecoveringReason, "recovery attempt 1 of 5 (RecreateFargateProfile")
		env.SetScript(profile, scripted.Script{})
		ready := env.AwaitState(infrav1.StateReady, "")
		assert.Equal(env, infrav1.RecoveryRecreateFargateProfile, ready.Status.Recovery.LastAction)
		require.True(env, env.Exists(&infrav1.WorkspaceTemplateApply{}, profile))
		assert.NotEmpty(env, env.Operations(profile, scripted.Destroy))
		assert.Empty(env, env.Operations(fixture.ControlPlane, scripted.Destroy))
		end(env)
	})
}

// An initialized control plane whose update fails can be used all the time, also when all recovery attempts have failed.
func TestAnInitializedControlPlaneIsNeverFailed(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		start(env, scripted.Script{}, "recovery: {maxRetries: 1, backoff: {initialSeconds: 1, maxSeconds: 2}, actions: [{type: Reapply, timeoutSeconds: 5}]}")
		env.AwaitState(infrav1.StateReady, "")
		env.SetScript(fixture.ControlPlane, scripted.Script{Plan: scripted.Step{Stderr: throttled}})
		env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"edited":"true"}}}`)
		exhausted := awaitRecovering(env, metav1.ConditionFalse, infrav1.RecoveryExhaustedReason)
		assert.Equal(env, infrav1.StateDegraded, exhausted.Status.State)
		assert.True(env, meta.IsStatusConditionTrue(exhausted.Status.Conditions, controlplanev1.AvailableCondition))
		assert.False(env, meta.IsStatusConditionTrue(exhausted.Status.Conditions, infrav1.FailedCondition))

		env.SetScript(fixture.ControlPlane, scripted.Script{})
		env.AwaitState(infrav1.StateReady, "") // provider-terraform retries without CAPT.
		end(env)
	})
}

// What is protected from deletion is not destroyed by recovery either: not while the control plane is protected, and not while its VPC is.
func TestAProtectedControlPlaneIsNotRecreated(t *testing.T) {
	t.Parallel()
	const recreates = `recovery: {backoff: {initialSeconds: 1, maxSeconds: 2}, actions: [{type: RecreateWorkspace, parameters: {allowDestroy: "true"}}]}`
	for kind, object := range map[string]client.Object{"CAPTControlPlane": &controlplanev1.CAPTControlPlane{}, "CAPTCluster": &infrav1.CAPTCluster{}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
			env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
			for _, document := range append(env.FargateTemplates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, recreates)) {
				if strings.Contains(document, "kind: "+kind+"\n") {
					document = strings.Replace(document, "spec:\n", "spec:\n  deletionProtection: Enabled\n", 1)
				}
				env.User(document)
			}
			awaitRecovering(env, metav1.ConditionFalse, infrav1.RecoveryBlockedReason,
				"RecreateWorkspace is refused: spec.deletionProtection of "+kind+" demo is Enabled. To allow the action, set it to Disabled")
			apply := &infrav1.WorkspaceTemplateApply{}
			require.True(t, env.Exists(apply, fixture.ControlPlane))
			require.True(t, apply.DeletionTimestamp.IsZero())

			env.SetScript(fixture.ControlPlane, scripted.Script{})
			env.AwaitState(infrav1.StateReady, "")
			require.Empty(t, env.Operations(fixture.ControlPlane, scripted.Destroy))
			env.Edit(object, fixture.Demo, `{"spec":{"deletionProtection":"Disabled"}}`)
			fixture.EventuallyAccepted(t, func(ctx context.Context) error {
				return env.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}}, client.DryRunAll)
			})
			end(env)
		})
	}
}
