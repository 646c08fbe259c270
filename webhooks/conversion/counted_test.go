// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	webhookconversion "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion"
)

const review = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {"uid": "1",
	"desiredAPIVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "objects": [
	{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "CAPTCluster", "metadata": {"name": "one"}},
	{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "CAPTCluster", "metadata": {"name": "two"}}]}}`

type failing struct{}

func (failing) ConvertObject(context.Context, runtime.Object, runtime.Object) error {
	return errors.New("cannot be converted")
}

func TestConversionsAreCountedPerObject(t *testing.T) {
	scheme, converters := conversion.NewRegistry()
	broken := webhookconversion.NewRegistry()
	require.NoError(t, broken.RegisterConverter(infrav1.GroupVersion.WithKind("CAPTCluster").GroupKind(), failing{}))
	for name, row := range map[string]struct {
		converters webhookconversion.Registry
		expected   string
	}{
		"converted": {converters, `capt_conversion_requests_total{kind="CAPTCluster",result="success",to="v1beta1"} 2`},
		"failed":    {broken, `capt_conversion_requests_total{kind="CAPTCluster",result="error",to="v1beta1"} 1`},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			handler := webhookconversion.NewWebhookHandler(scheme, conversion.NewCountingRegistry(row.converters, registry))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(review)))
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(
				"# HELP capt_conversion_requests_total Objects that the API server requested in another version.\n# TYPE capt_conversion_requests_total counter\n"+row.expected+"\n")))
		})
	}
}
