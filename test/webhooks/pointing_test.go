// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"strings"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// target is what the API server knows of a webhook: where it is and whom to trust. Conversion and admission have types of
// their own for it, with the same content.
type target = apiextensionsv1.WebhookClientConfig

func common(config admissionv1.WebhookClientConfig) target {
	return target{URL: config.URL, Service: (*apiextensionsv1.ServiceReference)(config.Service), CABundle: config.CABundle}
}

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
	change := func(name string, config *admissionv1.WebhookClientConfig) {
		next := aim(name, common(*config))
		*config = admissionv1.WebhookClientConfig{URL: next.URL, Service: (*admissionv1.ServiceReference)(next.Service), CABundle: next.CABundle}
	}
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	require.NoError(w, w.List(ctx, mutating))
	for i := range mutating.Items {
		if item := &mutating.Items[i]; strings.HasPrefix(item.Name, "capt-") {
			for j := range item.Webhooks {
				change(item.Webhooks[j].Name, &item.Webhooks[j].ClientConfig)
			}
			require.NoError(w, w.Update(ctx, item))
		}
	}
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	require.NoError(w, w.List(ctx, validating))
	for i := range validating.Items {
		if item := &validating.Items[i]; strings.HasPrefix(item.Name, "capt-") {
			for j := range item.Webhooks {
				change(item.Webhooks[j].Name, &item.Webhooks[j].ClientConfig)
			}
			require.NoError(w, w.Update(ctx, item))
		}
	}
	return back
}
