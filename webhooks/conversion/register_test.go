// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhookconversion "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/capt-provider/capt/webhooks/conversion"
)

func TestWebhookHandlerConvertsEveryKind(t *testing.T) {
	scheme, registry := conversion.NewRegistry()
	handler := webhookconversion.NewWebhookHandler(scheme, registry)
	for kind := range conversion.Constructors() {
		for from, to := range map[string]string{"v1beta1": "v1beta2", "v1beta2": "v1beta1"} {
			object := map[string]any{"apiVersion": kind.Group + "/" + from, "kind": kind.Kind, "metadata": map[string]any{"name": "demo"}}
			review := apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{
				UID: "1", DesiredAPIVersion: kind.Group + "/" + to,
				Objects: []runtime.RawExtension{{Raw: []byte(text(t, object))}},
			}}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/convert", bytes.NewReader([]byte(text(t, review)))))

			answer := apiextensionsv1.ConversionReview{}
			require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &answer))
			require.Equal(t, "Success", answer.Response.Result.Status, answer.Response.Result.Message)
			converted := map[string]any{}
			require.NoError(t, json.Unmarshal(answer.Response.ConvertedObjects[0].Raw, &converted))
			assert.Equal(t, kind.Group+"/"+to, converted["apiVersion"])
			assert.Equal(t, kind.Kind, converted["kind"])
			assert.Equal(t, "demo", converted["metadata"].(map[string]any)["name"])
		}
	}
}

func TestAKindCanBeRegisteredOnce(t *testing.T) {
	scheme, registry := conversion.NewRegistry()
	require.Error(t, conversion.AddToRegistry(scheme, registry))
	require.Error(t, conversion.AddToRegistry(runtime.NewScheme(), webhookconversion.NewRegistry()), "the scheme knows no versions")
}
