// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/tokens"
	"github.com/capt-provider/capt/test/cputime"
)

// canary is what must not be reported anywhere.
const canary = "canary-token"

const version131 = `{"major": "1", "minor": "31+", "gitVersion": "v1.31.4-eks-x"}`

// config returns a kubeconfig for a server.
func config(t testing.TB, server *httptest.Server, changes ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server, user.Token = server.URL, canary
	if server.Certificate() != nil {
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	for _, change := range changes {
		change(cluster, user)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.AuthInfos["u"], config.CurrentContext = cluster, user, "x"
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	data, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return data
}

// serve starts an API server.
func serve(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// Each probe opens a connection, and most of its cost is the handshake.
func TestHandshakesAreResumed(t *testing.T) {
	var resumed []bool
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.TLS.DidResume)
		w.WriteHeader(http.StatusForbidden)
	})
	c, unusable := newConnection(config(t, server))
	require.Nil(t, unusable)
	for range 2 {
		assert.True(t, c.probe(t.Context(), "", time.Now()).answered)
	}
	assert.Equal(t, []bool{false, true}, resumed)
}

// answering returns an API server with status codes for /readyz and a body for /version.
func answering(t *testing.T, ready int, version string) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+canary:
			w.WriteHeader(http.StatusTeapot)
		case r.URL.Path == "/readyz":
			w.WriteHeader(ready)
			_, _ = fmt.Fprint(w, canary)
		case r.URL.Path == "/version":
			_, _ = fmt.Fprint(w, version)
		}
	})
}

// probeOnce probes with a kubeconfig that can be used.
func probeOnce(t *testing.T, data []byte, limit time.Duration) answer {
	t.Helper()
	c, unusable := newConnection(data)
	require.Nil(t, unusable)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return c.probe(ctx, "1.31", time.Now())
}

func TestWhatAnAPIServerAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		server                          *httptest.Server
		apiServer, version, credentials controlplanev1.HealthState
		message                         string
	}{
		"ready":               {answering(t, 200, version131), "Healthy", "Healthy", "Healthy", ""},
		"another version":     {answering(t, 200, `{"major": "1", "minor": "32"}`), "Healthy", "Unhealthy", "Healthy", "the API server runs Kubernetes 1.32, but spec.version is 1.31"},
		"an emulated version": {answering(t, 200, `{"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "31"}`), "Healthy", "Healthy", "Healthy", ""},
		"no version":          {answering(t, 200, "<html>"), "Healthy", "", "Healthy", ""},
		"text as version":     {answering(t, 200, `{"major": "1", "minor": "`+canary+`"}`), "Healthy", "", "Healthy", ""},
		"not ready":           {answering(t, 500, ""), "Unhealthy", "", "", "the API server answers GET /readyz with status 500"},
		"overloaded":          {answering(t, 429, ""), "Unhealthy", "", "", "the API server answers GET /readyz with status 429"},
		"unauthorized":        {answering(t, 401, ""), "Unknown", "", "Unhealthy", "the API server answers, but rejects the credentials of the kubeconfig"},
		"forbidden":           {answering(t, 403, ""), "Unknown", "", "Healthy", "the API server answers, but does not allow the user of the kubeconfig to read /readyz (403)"},
		"a redirect": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/"+canary, http.StatusFound)
		}), "Unhealthy", "", "", "the API server answers GET /readyz with status 302"},
	} {
		t.Run(name, func(t *testing.T) {
			got := probeOnce(t, config(t, row.server), time.Minute)
			assert.True(t, got.answered)
			assert.False(t, got.unreachable)
			assert.Equal(t, row.apiServer, got.APIServer.Status)
			assert.Equal(t, row.version, got.Version.Status)
			assert.Equal(t, row.credentials, got.Credentials.Status)
			assert.Equal(t, row.message, got.APIServer.Message+got.Version.Message)
			assert.NotContains(t, fmt.Sprint(got.Probed), canary)
		})
	}
}

func TestAPIServersThatDoNotAnswer(t *testing.T) {
	hang := make(chan struct{})
	hangs := serve(t, func(http.ResponseWriter, *http.Request) { <-hang })
	drips := serve(t, func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush(); <-hang })
	t.Cleanup(func() { close(hang) }) // Before the servers are closed, which wait for their requests.
	closed := answering(t, 200, "")
	closed.Close()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // Frozen: the kernel accepts the connection.
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	other := answering(t, 200, version131)

	at := func(address string) func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
		return func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = address }
	}
	wrongCA := func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: foreignAuthority(t)})
	}
	otherHost := func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.TLSServerName = "elsewhere.invalid" }
	const short = 200 * time.Millisecond
	for name, row := range map[string]struct {
		kubeconfig  []byte
		limit       time.Duration
		unreachable bool
		message     string
	}{
		"hangs after the handshake":   {config(t, hangs), short, true, "the API server does not answer in time"},
		"hangs in the body":           {config(t, drips), short, true, "the API server does not answer in time"},
		"hangs before the handshake":  {config(t, other, at("https://"+silent.Addr().String())), short, true, "the API server does not answer in time"},
		"refuses":                     {config(t, closed), time.Minute, true, "the API server refuses connections"},
		"another authority":           {config(t, other, wrongCA), time.Minute, false, "the certificate of the API server is not signed by the certificate authority of the kubeconfig; compare the outputs cluster_certificate_authority_data and kubeconfig of the module with the cluster"},
		"a certificate of another":    {config(t, other, otherHost), time.Minute, false, "the certificate of the API server is for another host than elsewhere.invalid; compare the outputs cluster_endpoint and kubeconfig of the module"},
		"no TLS, although it must be": {config(t, other, at("https://"+plain.Listener.Addr().String())), time.Minute, false, "the endpoint does not use TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			got := probeOnce(t, row.kubeconfig, row.limit)
			assert.Equal(t, health.Unhealthy(row.message), got.APIServer)
			assert.Equal(t, row.unreachable, got.unreachable)
			assert.False(t, got.answered)
			assert.Zero(t, got.Credentials)
		})
	}
}

// The manager runs no command that a kubeconfig names, reads no file, and sends credentials only to a server that it has verified.
func TestKubeconfigsThatAreNotUsed(t *testing.T) {
	server := answering(t, 200, version131)
	for name, row := range map[string]struct {
		change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
		status controlplanev1.HealthState
	}{
		"aws eks get-token without verification": {func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			getToken(c, u)
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		}, "Unknown"},
		"another command": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/sh", Args: []string{canary}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}, "Unknown"},
		"a file with a token": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "/" + canary }, "Unknown"},
		"a file with a key":   {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientKey = "/" + canary }, "Unknown"},
		"no verification": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		}, "Unknown"},
		"no TLS": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "http://" + canary }, "Unknown"},
		"a key that is invalid": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.ClientCertificateData, u.ClientKeyData = []byte(canary), []byte(canary)
		}, "Unhealthy"},
		"an invalid authority":    {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = []byte(canary) }, "Unhealthy"},
		"no server":               {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "" }, "Unhealthy"},
		"an address that is none": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://[" + canary }, "Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			c, unusable := newConnection(config(t, server, row.change))
			require.Nil(t, c)
			assert.Equal(t, row.status, unusable.Credentials.Status)
			assert.Equal(t, controlplanev1.HealthUnknown, unusable.APIServer.Status)
			assert.NotContains(t, fmt.Sprint(unusable), canary)
		})
	}
	_, unusable := newConnection([]byte(canary))
	assert.Equal(t, health.Unhealthy("the value is not a kubeconfig"), unusable.Credentials)
}

// getToken makes a kubeconfig run aws, and adds credentials that must not be sent then.
func getToken(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
	u.Exec = &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1beta1", Command: "aws", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Args: []string{"eks", "get-token", "--cluster-name", "demo", "--region", "eu-central-1"},
	}
}

// EKS answers GET /readyz also without credentials. Everything else is not known, and nothing is sent that could be a secret.
func TestAKubeconfigForUsersOnlyIsProbedWithoutCredentials(t *testing.T) {
	for status, want := range map[int]controlplanev1.HealthState{200: "Healthy", 401: "Healthy", 403: "Healthy", 500: "Unhealthy", 302: "Unhealthy"} {
		requests := []string{}
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests = append(requests, r.URL.Path+r.Header.Get("Authorization"))
			w.WriteHeader(status)
		})
		got := probeOnce(t, config(t, server, getToken), time.Minute)
		assert.Equal(t, want, got.APIServer.Status, status)
		assert.True(t, got.answered)
		assert.Zero(t, got.Version)
		assert.Zero(t, got.Credentials)
		assert.Equal(t, []string{"/readyz"}, requests)
	}
	other := config(t, serve(t, nil), getToken, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: foreignAuthority(t)})
	})
	assert.Equal(t, controlplanev1.HealthUnhealthy, probeOnce(t, other, time.Minute).APIServer.Status, "the certificate is verified")
}

// An expired token is not sent.
func TestAnExpiredTokenIsReported(t *testing.T) {
	c, unusable := newConnection([]byte(tokens.Kubeconfig(t, "127.0.0.1:1", time.Now().Add(-time.Hour))))
	require.Nil(t, unusable)
	got := c.probe(t.Context(), "", time.Now())
	assert.Equal(t, health.Unhealthy("the token in the kubeconfig has expired"), got.Credentials)
	assert.Equal(t, controlplanev1.HealthUnknown, got.APIServer.Status)
	assert.False(t, got.answered || got.unreachable)
}

// foreignAuthority is a certificate authority that signed no server of these tests.
func foreignAuthority(t *testing.T) []byte {
	t.Helper()
	bundle, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	block, _ := pem.Decode(bundle)
	return block.Bytes
}

// What a kubeconfig says about the connection.
func TestHowAnAPIServerIsReached(t *testing.T) {
	user := ""
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		user = name + ":" + password + " " + r.UserAgent()
	})
	probeOnce(t, config(t, server, func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		u.Token, u.Username, u.Password = "", "a", "b"
	}), time.Minute)
	assert.Equal(t, "a:b capt-manager", user)
	c, unusable := newConnection(config(t, server, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "http://proxy:1" }))
	require.Nil(t, unusable)
	proxy, err := c.http.Transport.(*http.Transport).Proxy(httptest.NewRequest(http.MethodGet, "https://a", http.NoBody))
	require.NoError(t, err)
	assert.Equal(t, "http://proxy:1", proxy.String())

	c.expires = time.Now()
	assert.Equal(t, controlplanev1.HealthUnhealthy, c.probe(t.Context(), "", c.expires).Credentials.Status, "it has just expired")
}

func TestWhichVersionsAreCompared(t *testing.T) {
	for _, row := range []struct {
		status int
		wanted string
		want   controlplanev1.HealthState
	}{{http.StatusOK, "1.31", "Healthy"}, {http.StatusOK, "1.32", "Unhealthy"}, {http.StatusOK, "", ""}, {http.StatusForbidden, "1.32", ""}} {
		c, unusable := newConnection(config(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.status)
			_, _ = fmt.Fprint(w, version131)
		})))
		require.Nil(t, unusable)
		assert.Equal(t, row.want, c.version(t.Context(), row.wanted).Status, row)
	}
}

func TestProblemsOfConnections(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, row := range []struct {
		ctx         context.Context
		err         error
		want        string
		unreachable bool
	}{
		{t.Context(), &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "invalid or has expired", false},
		{t.Context(), &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, "rejects the TLS connection", false},
		{t.Context(), &net.OpError{Op: "read", Err: errors.New("reset")}, "the connection to the API server fails", true},
		{t.Context(), tls.RecordHeaderError{}, "does not use TLS", false},
		{ended, ended.Err(), "does not answer in time", true},
		{t.Context(), &net.DNSError{}, "cannot be resolved", true},
		{t.Context(), syscall.ECONNREFUSED, "refuses connections", true},
		{t.Context(), errors.New("other"), "the connection to the API server fails", true},
	} {
		problem, unreachable := problemOf(row.ctx, row.err)
		assert.Contains(t, problem, row.want)
		assert.Equal(t, row.unreachable, unreachable, row.want)
	}
}

// BenchmarkAnonymousProbes probes 1,000 API servers, which are one process, without credentials. After a minute, each was probed.
func BenchmarkAnonymousProbes(b *testing.B) {
	const clusters = 1000
	var requests atomic.Int64
	from := sync.Map{}
	server := serve(b, func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		from.Store(r.RemoteAddr, true)
	})
	pool := NewPool(metrics.NewHealth(prometheus.NewRegistry()), func(context.Context, client.ObjectKey) bool { return true })
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(b.Context())
	running.Go(func() { _ = pool.Start(ctx) })
	running.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-pool.Changes():
			case <-ctx.Done():
			}
		}
	})
	data := config(b, server, getToken)
	for i := range clusters {
		pool.Track(client.ObjectKey{Namespace: "default", Name: strconv.Itoa(i)}, Target{Kubeconfig: data})
	}
	time.Sleep(time.Minute)
	requests.Store(0)
	from.Clear()
	cpu := cputime.Of(b, func() { time.Sleep(time.Minute) })
	connections := 0
	from.Range(func(any, any) bool { connections++; return true })
	b.ReportMetric(float64(requests.Load()), "requests/min")
	b.ReportMetric(float64(connections), "connections/min")
	b.ReportMetric(float64(cpu.Milliseconds()), "cpu-ms/min")
	stop()
	running.Wait()
}
