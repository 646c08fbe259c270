// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate/lock"
)

// TestAllClientsKeepTheLimitTogether, those of each kind of object and those of preflight.
func TestAllClientsKeepTheLimitTogether(t *testing.T) {
	server := "https://127.0.0.1:1"
	access := NewAccess(io.Discard)
	access.APIServer, access.QPS, access.Burst = &server, 0.001, 2
	first, err := access.Config()
	require.NoError(t, err)
	second, err := access.Config()
	require.NoError(t, err)
	assert.True(t, first.RateLimiter.TryAccept())
	assert.True(t, second.RateLimiter.TryAccept())
	assert.False(t, first.RateLimiter.TryAccept(), "the burst is used up")
}

func TestARefusedConnectionIsNotRetried(t *testing.T) {
	server := "http://127.0.0.1:1"
	access := NewAccess(io.Discard)
	access.APIServer = &server
	_, err := access.Client()
	require.ErrorContains(t, err, "connection refused; check --kubeconfig, --context and --server")
}

func TestAnAPIServerIsReachedOrTheErrorSaysWhatToCheck(t *testing.T) {
	answers := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	answers.Config.ErrorLog = log.New(io.Discard, "", 0)
	answers.StartTLS()
	defer answers.Close()
	connect := func(change func(*rest.Config)) error {
		config := &rest.Config{Host: answers.URL}
		change(config)
		return reachable(config, io.Discard)
	}
	assert.NoError(t, connect(func(c *rest.Config) { c.Insecure = true }), "what it answers is reported later")
	for name, change := range map[string]func(*rest.Config){
		"an unknown certificate": func(*rest.Config) {},
		"no TLS":                 func(c *rest.Config) { c.Host = "https://" + plainServer(t) },
		"a timeout of the user":  func(c *rest.Config) { c.Insecure, c.Timeout = true, time.Nanosecond },
	} {
		assert.ErrorContains(t, connect(change), "; check --kubeconfig, --context and --server", name)
	}
}

// plainServer is the address of a server without TLS.
func plainServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestAWarningNamesTheObjectThatIsWritten(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "spec.region is deprecated"`)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"CAPTCluster","metadata":{"name":"demo","namespace":"team-a"}}`))
	}))
	defer server.Close()
	var printed bytes.Buffer
	access := NewAccess(&printed)
	access.APIServer = &server.URL
	config, err := access.Config()
	require.NoError(t, err)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(infrav1.GroupVersion.WithKind("CAPTCluster"), meta.RESTScopeNamespace)
	c, err := client.New(config, client.Options{Scheme: Scheme(), Mapper: mapper})
	require.NoError(t, err)
	writer := lock.NewWriter(c, func() error { return nil }, false)
	write := func(name string) {
		object := &infrav1.CAPTCluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name},
		}
		require.NoError(t, writer.Patch(t.Context(), object, "", client.RawPatch(types.JSONPatchType, []byte("[]"))))
	}
	write("demo")
	write("demo")
	write("shop")
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "demo"}, &infrav1.CAPTCluster{}))
	assert.Equal(t, "Warning: CAPTCluster team-a/demo: spec.region is deprecated\nWarning: CAPTCluster team-a/shop: spec.region is deprecated\n"+
		"Warning: spec.region is deprecated (not repeated for other objects)\n", printed.String())
	write("fourth")
	assert.Equal(t, 3, strings.Count(printed.String(), "\n"))
}
