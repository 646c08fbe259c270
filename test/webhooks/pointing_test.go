// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
func (w *world) point(ctx context.Context, aim aim) (back aim) {
	w.Helper()
	conversion := w.pointConversion(ctx, aim)
	admission := w.pointAdmission(ctx, aim)
	return func(name string, now target) target { return admission(name, conversion(name, now)) }
}

func (w *world) pointConversion(ctx context.Context, aim aim) (back aim) {
	w.Helper()
	aim, back = aim.recording()
	for _, k := range kinds() {
		if k.legacy.Empty() {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		name := w.resource(k) + "." + k.current.Group
		require.NoError(w, w.Get(ctx, client.ObjectKey{Name: name}, definition))
		before := definition.DeepCopy()
		config := aim(name, *before.Spec.Conversion.Webhook.ClientConfig)
		definition.Spec.Conversion.Webhook.ClientConfig = &config
		require.NoError(w, w.Patch(ctx, definition, client.MergeFrom(before)))
	}
	return back
}

func (w *world) pointAdmission(ctx context.Context, aim aim) (back aim) {
	w.Helper()
	aim, back = aim.recording()
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		configurations := list(admissionv1.SchemeGroupVersion.WithKind(kind))
		require.NoError(w, w.List(ctx, configurations))
		for i := range configurations.Items {
			if item := &configurations.Items[i]; strings.HasPrefix(item.GetName(), "capt-") {
				for _, webhook := range item.Object["webhooks"].([]any) {
					webhook := webhook.(map[string]any)
					name, next := webhookOf(w.T, webhook)
					next = aim(name, next)
					config, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
					require.NoError(w, err)
					webhook["clientConfig"] = config
				}
				require.NoError(w, w.Update(ctx, item))
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
