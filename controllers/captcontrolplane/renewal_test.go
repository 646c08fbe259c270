// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/tokens"
)

func withSource(source controlplanev1.KubeconfigSource) builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Kubeconfig.Source = source })
}

func holdsToken(data []byte) bool {
	_, holds := kubeconfig.Expiry(data)
	return holds
}

// withToken is an environment in which a control plane is Ready, with a token in its kubeconfig, and whose manager makes them.
func withToken(t *testing.T, source controlplanev1.KubeconfigSource) (*environment, *tokens.Identity) {
	t.Helper()
	env := newEnvironment(t, prepared(withSource(source))...)
	identity := tokens.With(env.clock)
	env.Tokens = identity
	env.reconcile()
	env.terraformMade()
	env.reconcile()
	require.Equal(t, infrav1.StateReady, env.get().Status.State)
	require.Equal(t, 1, identity.Made)
	return env, identity
}

// left is for how long the published token still works.
func (env *environment) left() time.Duration {
	env.Helper()
	ends, ok := kubeconfig.Expiry(env.published())
	require.True(env, ok)
	return ends.Sub(env.clock.Now())
}

func (env *environment) published() []byte {
	env.Helper()
	return read(env, "demo-kubeconfig", &corev1.Secret{}).Data["value"]
}

// kubeconfigReady is the condition in words.
func (env *environment) kubeconfigReady() string {
	env.Helper()
	c := meta.FindStatusCondition(env.get().Status.Conditions, controlplanev1.KubeconfigReadyCondition)
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
}

// terraform lets the WorkspaceTemplateApply be something else.
func (env *environment) terraform(option builder.Option) {
	env.Helper()
	change(env, applyName, &infrav1.WorkspaceTemplateApply{}, func(apply *infrav1.WorkspaceTemplateApply) { option(apply) })
}

// spec changes the control plane as a user does.
func (env *environment) spec(do func(*controlplanev1.CAPTControlPlane)) {
	env.Helper()
	change(env, "demo", &controlplanev1.CAPTControlPlane{}, do)
}

func TestATokenIsRenewedIndependentlyOfTerraform(t *testing.T) {
	for name, happens := range map[string]func(env *environment){
		"at rest":              func(*environment) {},
		"an update runs":       func(env *environment) { env.terraform(working) },
		"an update has failed": func(env *environment) { env.terraform(failing) },
		"an update is refused": func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.40.0" })
		},
	} {
		for _, source := range []controlplanev1.KubeconfigSource{"Token", "Auto"} {
			t.Run(name+", source "+string(source), func(t *testing.T) {
				env, identity := withToken(t, source)
				happens(env)
				env.reconcile()
				began := env.clock.Now()
				for env.clock.Now().Before(began.Add(time.Hour)) {
					require.Positive(t, env.again)
					env.clock.Pass(env.again - time.Second)
					require.Empty(t, env.reconcile(), "not before it is due")

					env.clock.Pass(env.again)
					require.Greater(t, env.left(), 5*time.Minute)
					require.Equal(t, []string{"apply demo-kubeconfig"}, env.reconcile(), "one write, and none of status")
					require.Greater(t, env.left(), 15*time.Minute-time.Second)

					require.Empty(t, env.reconcile())
				}
				assert.InDelta(t, 60/8.5, identity.Made, 2, "as many tokens as renewals")
			})
		}
	}
}

// Cluster API deletes the control plane after everything that needs the kubeconfig, and a manager that creates no tokens reads one for its probes only.
func TestWhenATokenIsNotRenewed(t *testing.T) {
	env, identity := withToken(t, "Token")
	require.NoError(t, env.Create(t.Context(), builder.WorkspaceTemplateApply(profileApply, builder.OwnedBy(env.get()), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup),
		builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer))))
	env.deleted()
	env.clock.Pass(time.Hour)
	env.reconcile()
	require.Equal(t, "True FargateProfileDeleting", env.summary()["Deleting"])
	assert.Equal(t, 1, identity.Made)

	env, _ = withToken(t, "Token")
	env.Tokens, env.Probes = nil, probe.NewPool(metrics.NewHealth(prometheus.NewRegistry()), env.mustProbe)
	env.terraform(working)
	env.reconcile()
	assert.Equal(t, "False WaitingForWorkspace", env.summary()["KubeconfigReady"])
}

// The work queue waits longer after each error; a token must not.
func TestATokenIsRenewedWhileOtherWritesFail(t *testing.T) {
	env, _ := withToken(t, "Token")
	env.FailOn("apply "+applyName, errors.New("refused"))
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.32.0" })
	for range 60 {
		require.ErrorContains(t, env.try(), "refused")
		require.Greater(t, env.left(), 3*time.Minute)
		env.clock.Pass(lastRetry)
	}
}

func TestAFailedRenewalKeepsTheTokenAndIsReported(t *testing.T) {
	env, identity := withToken(t, "Token")
	identity.Problem = errors.New("AWS answered AccessDenied")
	before := env.published()

	env.clock.Pass(env.again)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True KubeconfigReady the token in the kubeconfig is still valid, but cannot be renewed: AWS answered AccessDenied", env.kubeconfigReady())
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	for env.left() > env.again {
		require.Equal(t, 30*time.Second, env.again)
		env.clock.Pass(env.again)
		require.Empty(t, env.reconcile(), "it is reported once")
	}
	assert.Equal(t, string(before), string(env.published()))

	env.clock.Pass(env.again)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False KubeconfigMissing no token can be created: AWS answered AccessDenied", env.kubeconfigReady())
	assert.Equal(t, infrav1.StateDegraded, env.get().Status.State)

	identity.Problem = nil
	env.clock.Pass(env.again)
	assert.Equal(t, []string{"apply demo-kubeconfig", "status"}, env.reconcile())
	assert.Equal(t, "True KubeconfigReady", env.kubeconfigReady())
}

func TestATokenThatExpiresDuringAnUpdateIsReported(t *testing.T) {
	env, identity := withToken(t, "Token")
	identity.Problem = errors.New("AWS answered AccessDenied")
	env.terraform(working)
	env.clock.Pass(15 * time.Minute)
	env.reconcile()
	assert.Equal(t, "False KubeconfigMissing no token can be created: AWS answered AccessDenied", env.kubeconfigReady())
}

func TestNoTokenIsCreatedWhilePaused(t *testing.T) {
	env, identity := withToken(t, "Token")
	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	env.reconcile()
	env.clock.Pass(env.again)
	assert.Empty(t, env.reconcile(), "it is due, and works")
	assert.Equal(t, env.left(), env.again, "its expiry is reported next")

	env.clock.Pass(env.again)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False KubeconfigMissing no token is created while the object is paused", env.kubeconfigReady())
	assert.Zero(t, env.again)
	assert.Equal(t, 1, identity.Made)

	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	assert.Equal(t, []string{"apply demo-kubeconfig", "status"}, env.reconcile())
	assert.Equal(t, "True KubeconfigReady", env.kubeconfigReady())
}

func TestAPausedControlPlaneWithoutTokenGetsNone(t *testing.T) {
	env := built(t)
	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	env.reconcile()

	env.Tokens = tokens.With(env.clock)
	assert.NotContains(t, env.reconcile(), "apply demo-kubeconfig")
	assert.Contains(t, env.kubeconfigReady(), "True KubeconfigReady")
}

// What Terraform made stays for it to renew; the manager's identity was not asked for.
func TestATokenOfTerraformIsNotRenewed(t *testing.T) {
	env := newEnvironment(t, prepared(withSource("Output"))...)
	identity := tokens.With(env.clock)
	env.Tokens = identity
	env.reconcile()
	env.terraformMade()
	env.output(tokens.Kubeconfig(t, host, env.clock.Now()))
	env.reconcile()
	require.Equal(t, "True KubeconfigReady", env.kubeconfigReady())

	env.terraform(working)
	env.clock.Pass(14 * time.Minute)
	assert.NotContains(t, env.reconcile(), "apply demo-kubeconfig", "while Terraform works")

	env.terraform(builder.UpToDate(outputs()))
	env.output(tokens.Kubeconfig(t, host, env.clock.Now()))
	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	assert.NotContains(t, env.reconcile(), "apply demo-kubeconfig", "while paused")

	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	assert.Contains(t, env.reconcile(), "apply demo-kubeconfig")
	assert.Equal(t, tokens.Kubeconfig(t, host, env.clock.Now()), string(env.published()))
	assert.Zero(t, identity.Made)
}

// output gives the connection Secret another kubeconfig.
func (env *environment) output(kubeconfig string) {
	env.Helper()
	change(env, "demo-eks-connection", &corev1.Secret{}, func(secret *corev1.Secret) { secret.Data["kubeconfig"] = []byte(kubeconfig) })
}

func TestNoTokenIsCreatedDuringTheDeletion(t *testing.T) {
	env, identity := withToken(t, "Token")
	env.terraform(builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer))
	require.NoError(t, env.Client.Delete(context.Background(), env.get()))
	for range 5 {
		env.clock.Pass(5 * time.Minute)
		assert.NotContains(t, env.reconcile(), "apply demo-kubeconfig")
	}
	assert.Equal(t, 1, identity.Made)
}

func TestNoTokenIsLoggedOrReported(t *testing.T) {
	env, identity := withToken(t, "Token")
	output := &strings.Builder{}
	log := funcr.New(func(prefix, args string) { fmt.Fprintln(output, prefix, args) }, funcr.Options{Verbosity: 10})
	recorder := events.NewFakeRecorder(100)
	env.Recorder = recorder
	secrets := []string{tokens.SecretKey, base64.StdEncoding.EncodeToString([]byte(tokens.SecretKey)), "k8s-aws-v1", "X-Amz-", "-----BEGIN", builder.CA()}
	look := func() {
		made, err := clientcmd.RESTConfigFromKubeConfig(env.published())
		require.NoError(t, err)
		secrets = append(secrets, made.BearerToken, base64.StdEncoding.EncodeToString(env.published()))
		_, err = env.Reconcile(ctrl.LoggerInto(context.Background(), log), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(env.get())})
		status, encodeErr := json.Marshal(env.get())
		require.NoError(t, encodeErr)
		fmt.Fprintln(output, err, string(status))
	}
	env.clock.Pass(10 * time.Minute)
	look() // A renewal.
	env.Refuse = func(string) error { return errors.New("no") }
	env.clock.Pass(10 * time.Minute)
	look() // One that cannot be written.
	env.Refuse, identity.Problem = nil, errors.New("AWS answered AccessDenied")
	look() // One that fails.
	env.clock.Pass(10 * time.Minute)
	look() // And has ended.
	env.terraform(failing)
	look()

	close(recorder.Events)
	for event := range recorder.Events {
		fmt.Fprintln(output, event)
	}
	require.Contains(t, output.String(), "Writing kubeconfig")
	require.Contains(t, output.String(), "AWS answered AccessDenied")
	for _, secret := range secrets {
		assert.NotContains(t, output.String(), secret)
	}
}
