// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
)

// busy is what a busy machine may add to the limit.
const busy = 5 * time.Second

// TestHangingWebhooksTimeOut is worse than an outage: connections are accepted and never answered.
func TestHangingWebhooksTimeOut(t *testing.T) {
	env := newEnvironment(t)
	env.make(env.Namespace, "kept-")
	port := env.silence()
	restore := env.pointAdmission(t.Context(), func(_ string, now target) target {
		url := fmt.Sprintf("https://127.0.0.1:%d", port)
		return target{URL: &url, CABundle: now.CABundle}
	})
	t.Cleanup(func() { env.pointAdmission(context.Background(), restore) })
	env.awaitSilence()

	env.subtest("creates and changes", func(env *environment) {
		// All at the same time, since each takes as long as it may.
		var group errgroup.Group
		for _, k := range kinds() {
			object := k.object(k.current, env.Namespace, "new")
			group.Go(func() error { return givesUp(func() error { return env.Create(env.Context(), object) }) })
			kept := k.object(k.current, env.Namespace, "kept-v1beta2")
			group.Go(func() error {
				return givesUp(func() error { return env.Patch(env.Context(), kept, k.changed("hanging")) })
			})
		}
		require.NoError(env, group.Wait())
	})
	env.subtest("deletion and status do not wait", func(env *environment) {
		began := time.Now()
		env.statusIsWritten()
		env.each(env.Namespace, "kept-", func(_ kind, object *unstructured.Unstructured) {
			require.NoError(env, env.Delete(env.Context(), object), object.GetKind())
		})
		require.Less(env, time.Since(began), 4*limit, "each would wait as long as it may") // The machine may be busy.
	})
}

// silence listens and never accepts: the kernel completes connections, and nothing answers on them.
func (env *environment) silence() int {
	env.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(env, err)
	env.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// awaitSilence waits until the API server has seen where the webhooks are now: of the first kind the one that defaults, of
// the second, which has no defaults, the one that validates.
func (env *environment) awaitSilence() {
	env.Helper()
	for _, k := range kinds()[:2] {
		fixture.EventuallyTrue(env, tick, func() bool {
			ctx, cancel := context.WithTimeout(env.Context(), time.Second)
			defer cancel()
			return env.Create(ctx, k.object(k.current, env.Namespace, "new"), client.DryRunAll) != nil
		}, "the webhooks still answer")
	}
}

// givesUp says what is wrong with a write that gets no answer.
func givesUp(write func() error) error {
	began := time.Now()
	err := write()
	took := time.Since(began)
	if apierrors.IsInternalError(err) && took < limit+busy &&
		strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "context deadline exceeded") {
		return nil
	}
	return fmt.Errorf("not the expected failure, after %s: %w", took, err)
}

// target is what the API server knows of a webhook: where it is and whom to trust. Conversion and admission have types of
// their own for it, with the same content.
type target = apiextensionsv1.WebhookClientConfig

// aim says what the API server shall know of the webhook of that name.
type aim func(name string, now target) target

// trusting changes whom the API server trusts, as cert-manager does it.
func trusting(bundle []byte) aim {
	return func(_ string, now target) target {
		now.CABundle = bundle
		return now
	}
}

// recording does the same as an aim, and the other makes up for it.
func (do aim) recording() (recorded, back aim) {
	before := map[string]target{}
	recorded = func(name string, now target) target {
		before[name] = now
		return do(name, now)
	}
	back = func(name string, now target) target {
		if earlier, ok := before[name]; ok {
			return earlier
		}
		return now
	}
	return recorded, back
}

// point changes what the API server knows of all of CAPT's webhooks, and returns the way back.
func (env *environment) point(ctx context.Context, aim aim) (back aim) {
	env.Helper()
	conversion := env.pointConversion(ctx, aim)
	admission := env.pointAdmission(ctx, aim)
	return func(name string, now target) target { return admission(name, conversion(name, now)) }
}

func (env *environment) pointConversion(ctx context.Context, aim aim) (back aim) {
	env.Helper()
	aim, back = aim.recording()
	for _, k := range kinds() {
		if k.legacy.Empty() {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		name := env.resource(k) + "." + k.current.Group
		require.NoError(env, env.Get(ctx, client.ObjectKey{Name: name}, definition))
		before := definition.DeepCopy()
		config := aim(name, *before.Spec.Conversion.Webhook.ClientConfig)
		definition.Spec.Conversion.Webhook.ClientConfig = &config
		require.NoError(env, env.Patch(ctx, definition, client.MergeFrom(before)))
	}
	return back
}

func (env *environment) pointAdmission(ctx context.Context, aim aim) (back aim) {
	env.Helper()
	aim, back = aim.recording()
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		configurations := list(admissionv1.SchemeGroupVersion.WithKind(kind))
		require.NoError(env, env.List(ctx, configurations))
		for i := range configurations.Items {
			if item := &configurations.Items[i]; strings.HasPrefix(item.GetName(), "capt-") {
				for _, webhook := range item.Object["webhooks"].([]any) {
					webhook := webhook.(map[string]any)
					name, next := webhookOf(env.T, webhook)
					next = aim(name, next)
					webhook["timeoutSeconds"] = int64(limit / time.Second)
					config, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
					require.NoError(env, err)
					webhook["clientConfig"] = config
				}
				require.NoError(env, env.Update(ctx, item))
			}
		}
	}
	return back
}

// webhookOf is the name and the target of a webhook of an admission configuration.
func webhookOf(t *testing.T, webhook any) (name string, found target) {
	t.Helper()
	content := webhook.(map[string]any)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content["clientConfig"].(map[string]any), &found))
	return content["name"].(string), found
}
