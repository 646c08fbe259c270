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
	"github.com/capt-provider/capt/controllers/engine"
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

// withToken is a world in which a control plane is Ready, with a token in its kubeconfig, and whose manager makes them.
func withToken(t *testing.T, source controlplanev1.KubeconfigSource) (*world, *tokens.Identity) {
	t.Helper()
	w := newWorld(t, prepared(withSource(source))...)
	identity := tokens.With(w.clock)
	w.Tokens = identity
	w.reconcile()
	w.terraformMade()
	w.reconcile()
	require.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	require.Equal(t, 1, identity.Made)
	return w, identity
}

// left is for how long the published token still works.
func (w *world) left() time.Duration {
	w.Helper()
	ends, ok := kubeconfig.Expiry(w.published())
	require.True(w, ok)
	return ends.Sub(w.clock.Now())
}

func (w *world) published() []byte {
	w.Helper()
	return read(w, "demo-kubeconfig", &corev1.Secret{}).Data["value"]
}

// kubeconfigReady is the condition in words.
func (w *world) kubeconfigReady() string {
	w.Helper()
	c := meta.FindStatusCondition(w.get().Status.Conditions, controlplanev1.KubeconfigReadyCondition)
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
}

// terraform lets the WorkspaceTemplateApply be something else.
func (w *world) terraform(option builder.Option) {
	w.Helper()
	change(w, applyName, &infrav1.WorkspaceTemplateApply{}, func(apply *infrav1.WorkspaceTemplateApply) { option(apply) })
}

// spec changes the control plane as a user does.
func (w *world) spec(do func(*controlplanev1.CAPTControlPlane)) {
	w.Helper()
	change(w, "demo", &controlplanev1.CAPTControlPlane{}, do)
}

func TestDefect19ATokenIsRenewedIndependentlyOfTerraform(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"at rest":              func(*world) {},
		"an update runs":       func(w *world) { w.terraform(working) },
		"an update has failed": func(w *world) { w.terraform(failing) },
		"an update is refused": func(w *world) {
			w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.40.0" })
		},
	} {
		for _, source := range []controlplanev1.KubeconfigSource{"Token", "Auto"} {
			t.Run(name+", source "+string(source), func(t *testing.T) {
				w, identity := withToken(t, source)
				happens(w)
				w.reconcile()
				began := w.clock.Now()
				for w.clock.Now().Before(began.Add(3 * time.Hour)) {
					require.Positive(t, w.again)
					w.clock.Pass(w.again - time.Second)
					require.Empty(t, w.reconcile(), "not before it is due")

					w.clock.Pass(w.again)
					require.Greater(t, w.left(), 5*time.Minute)
					require.Equal(t, []string{"apply demo-kubeconfig"}, w.reconcile(), "one write, and none of status")
					require.Greater(t, w.left(), 15*time.Minute-time.Second)

					require.Empty(t, w.reconcile())
				}
				assert.InDelta(t, 3*60/8.5, identity.Made, 4, "as many tokens as renewals")
			})
		}
	}
}

// The work queue waits longer after each error; a token must not.
func TestATokenIsRenewedWhileOtherWritesFail(t *testing.T) {
	w, _ := withToken(t, "Token")
	w.FailOn("apply "+applyName, errors.New("refused"))
	w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.32.0" })
	for range 60 {
		require.ErrorContains(t, w.try(), "refused")
		require.Greater(t, w.left(), 3*time.Minute)
		w.clock.Pass(lastRetry)
	}
}

func TestANewLeaderKeepsTheToken(t *testing.T) {
	for _, source := range []controlplanev1.KubeconfigSource{"Token", "Auto"} {
		w, identity := withToken(t, source)
		again := w.again
		w.clock.Pass(3 * time.Minute)
		w.Reconciler = &Reconciler{
			Engine:   engine.Engine{Client: w.Client, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{Clock: w.clock}},
			Uncached: w.Client, Cache: w.Client, Tokens: tokens.With(w.clock), Metrics: metrics.NewFargate(prometheus.NewRegistry()),
		}
		assert.Empty(t, w.reconcile())
		assert.Equal(t, again-3*time.Minute, w.again)
		assert.Equal(t, 1, identity.Made)
	}
}

func TestAFailedRenewalKeepsTheTokenAndIsReported(t *testing.T) {
	w, identity := withToken(t, "Token")
	identity.Problem = errors.New("AWS answered AccessDenied")
	before := w.published()

	w.clock.Pass(w.again)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "True KubeconfigReady the token in the kubeconfig is still valid, but cannot be renewed: AWS answered AccessDenied", w.kubeconfigReady())
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	for w.left() > w.again {
		require.Equal(t, 30*time.Second, w.again)
		w.clock.Pass(w.again)
		require.Empty(t, w.reconcile(), "it is reported once")
	}
	assert.Equal(t, string(before), string(w.published()))

	w.clock.Pass(w.again)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "False KubeconfigMissing no token can be created: AWS answered AccessDenied", w.kubeconfigReady())
	assert.Equal(t, controlplanev1.StateDegraded, w.get().Status.State)

	identity.Problem = nil
	w.clock.Pass(w.again)
	assert.Equal(t, []string{"apply demo-kubeconfig", "status"}, w.reconcile())
	assert.Equal(t, "True KubeconfigReady", w.kubeconfigReady())
}

func TestATokenThatExpiresDuringAnUpdateIsReported(t *testing.T) {
	w, identity := withToken(t, "Token")
	identity.Problem = errors.New("AWS answered AccessDenied")
	w.terraform(working)
	w.clock.Pass(15 * time.Minute)
	w.reconcile()
	assert.Equal(t, "False KubeconfigMissing no token can be created: AWS answered AccessDenied", w.kubeconfigReady())
}

func TestNoTokenIsCreatedWhilePaused(t *testing.T) {
	w, identity := withToken(t, "Token")
	w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	w.reconcile()
	w.clock.Pass(w.again)
	assert.Empty(t, w.reconcile(), "it is due, and works")
	assert.Equal(t, w.left(), w.again, "its expiry is reported next")

	w.clock.Pass(w.again)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "False KubeconfigMissing no token is created while the object is paused", w.kubeconfigReady())
	assert.Zero(t, w.again)
	assert.Equal(t, 1, identity.Made)

	w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	assert.Equal(t, []string{"apply demo-kubeconfig", "status"}, w.reconcile())
	assert.Equal(t, "True KubeconfigReady", w.kubeconfigReady())
}

func TestAPausedControlPlaneWithoutTokenGetsNone(t *testing.T) {
	w := built(t)
	w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	w.reconcile()

	w.Tokens = tokens.With(w.clock)
	assert.NotContains(t, w.reconcile(), "apply demo-kubeconfig")
	assert.Contains(t, w.kubeconfigReady(), "True KubeconfigReady")
}

// What Terraform made stays for it to renew; the manager's identity was not asked for.
func TestATokenOfTerraformIsNotRenewed(t *testing.T) {
	w := newWorld(t, prepared(withSource("Output"))...)
	identity := tokens.With(w.clock)
	w.Tokens = identity
	w.reconcile()
	w.terraformMade()
	w.output(tokens.Kubeconfig(t, host, w.clock.Now()))
	w.reconcile()
	require.Equal(t, "True KubeconfigReady", w.kubeconfigReady())

	w.terraform(working)
	w.clock.Pass(14 * time.Minute)
	assert.NotContains(t, w.reconcile(), "apply demo-kubeconfig", "while Terraform works")

	w.terraform(builder.UpToDate(outputs()))
	w.output(tokens.Kubeconfig(t, host, w.clock.Now()))
	w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	assert.NotContains(t, w.reconcile(), "apply demo-kubeconfig", "while paused")

	w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	assert.Contains(t, w.reconcile(), "apply demo-kubeconfig")
	assert.Equal(t, tokens.Kubeconfig(t, host, w.clock.Now()), string(w.published()))
	assert.Zero(t, identity.Made)
}

// output gives the connection Secret another kubeconfig.
func (w *world) output(kubeconfig string) {
	w.Helper()
	change(w, "demo-eks-connection", &corev1.Secret{}, func(secret *corev1.Secret) { secret.Data["kubeconfig"] = []byte(kubeconfig) })
}

func TestNoTokenIsCreatedDuringTheDeletion(t *testing.T) {
	w, identity := withToken(t, "Token")
	w.terraform(builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer))
	require.NoError(t, w.Client.Delete(context.Background(), w.get()))
	for range 5 {
		w.clock.Pass(5 * time.Minute)
		assert.NotContains(t, w.reconcile(), "apply demo-kubeconfig")
	}
	assert.Equal(t, 1, identity.Made)
}

func TestAutoUsesATokenIfTheManagerCreatesThem(t *testing.T) {
	w := built(t)
	require.False(t, holdsToken(w.published()))

	w.Tokens = tokens.With(w.clock)
	assert.Equal(t, []string{"apply demo-kubeconfig"}, w.reconcile())
	assert.True(t, holdsToken(w.published()))

	w.Tokens = nil
	w.reconcile()
	assert.False(t, holdsToken(w.published()), "and does without when it makes none any more")
}

func TestNoTokenIsLoggedOrReported(t *testing.T) {
	w, identity := withToken(t, "Token")
	output := &strings.Builder{}
	log := funcr.New(func(prefix, args string) { fmt.Fprintln(output, prefix, args) }, funcr.Options{Verbosity: 10})
	recorder := events.NewFakeRecorder(100)
	w.Recorder = recorder
	secrets := []string{tokens.SecretKey, base64.StdEncoding.EncodeToString([]byte(tokens.SecretKey)), "k8s-aws-v1", "X-Amz-", "-----BEGIN", builder.CA()}
	look := func() {
		made, err := clientcmd.RESTConfigFromKubeConfig(w.published())
		require.NoError(t, err)
		secrets = append(secrets, made.BearerToken, base64.StdEncoding.EncodeToString(w.published()))
		_, err = w.Reconcile(ctrl.LoggerInto(context.Background(), log), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.get())})
		status, encodeErr := json.Marshal(w.get())
		require.NoError(t, encodeErr)
		fmt.Fprintln(output, err, string(status))
	}
	w.clock.Pass(10 * time.Minute)
	look() // A renewal.
	w.Refuse = func(string) error { return errors.New("no") }
	w.clock.Pass(10 * time.Minute)
	look() // One that cannot be written.
	w.Refuse, identity.Problem = nil, errors.New("AWS answered AccessDenied")
	look() // One that fails.
	w.clock.Pass(10 * time.Minute)
	look() // And has ended.
	w.terraform(failing)
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
