// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestConverterIsNeededWhenNoReplicaConverts has answers in the API server's own words. test/webhooks asks a real one.
func TestConverterIsNeededWhenNoReplicaConverts(t *testing.T) {
	const refused = `storage is (re)initializing: failed to list infrastructure.cluster.x-k8s.io/v1beta2, Kind=WorkspaceTemplate: ` +
		`conversion webhook for infrastructure.cluster.x-k8s.io/v1beta1, Kind=WorkspaceTemplate failed: ` +
		`Post "https://capt-webhook-service.capt-system.svc:443/convert?timeout=30s": dial tcp 10.0.0.7:443: connect: connection refused`
	for name, test := range map[string]struct {
		answer error
		needed bool
	}{
		"everything can be read": {nil, false},
		"conversion fails":       {apierrors.NewInternalError(errors.New(refused[len("storage is (re)initializing: "):])), true},
		"its memory waits":       {apierrors.NewTooManyRequests(refused, 1), true},
		"it is busy":             {apierrors.NewTooManyRequests("storage is (re)initializing", 1), false},
		"not allowed":            {apierrors.NewForbidden(converted[0].GroupResource(), "", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if test.answer == nil || !strings.HasSuffix(r.URL.Path, "/namespaces/demo/workspacetemplates") {
					_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}`))
					return
				}
				status := test.answer.(apierrors.APIStatus).Status()
				status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
				data, err := json.Marshal(status)
				require.NoError(t, err)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(status.Code))
				_, _ = w.Write(data)
			}))
			defer server.Close()
			clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			require.NoError(t, err)
			needed := converterNeeded(clients, "demo")
			require.Equal(t, test.needed, needed(t.Context()))
			require.LessOrEqual(t, asked, len(converted), "nothing is asked twice")
		})
	}
}
