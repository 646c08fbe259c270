// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/test/crash/proxy"
)

const (
	things = "/apis/group/v1/namespaces/here/things/one"
	others = "/api/v1/others/one/status"
)

// server is an API server that records what it did, and a program that sends requests.
type server struct {
	*testing.T
	proxy  *proxy.Proxy
	server string
	lock   sync.Mutex
	done   []string
	kills  int
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.done = append(s.done, r.Method+" "+r.URL.Path+" of "+r.Header.Get("Authorization"))
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(api.Close)
	var err error
	s.proxy, err = proxy.Start(&rest.Config{Host: api.URL, BearerToken: "program"}, func() { s.kills++ })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.proxy.Close()) })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, s.proxy.WriteKubeconfig(path))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	s.server = config.Host
	return s
}

// send sends a request, and returns the answer.
func (s *server) send(method, path string) (string, error) {
	s.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(s.Context()), method, s.server+path, bytes.NewBufferString("body"))
	require.NoError(s, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(response.Body)
	require.NoError(s, response.Body.Close())
	return string(answer), err
}

func TestRequestsPassWithTheProgramsCredentials(t *testing.T) {
	s := newServer(t)
	answer, err := s.send(http.MethodPatch, things)
	require.NoError(t, err)
	require.Equal(t, "body", answer)
	require.Equal(t, []string{"PATCH " + things + " of Bearer program"}, s.done)
}

func TestTheProgramDiesAfterItsWriteAndDoesNotHearOfIt(t *testing.T) {
	s := newServer(t)
	killed := s.proxy.Arm(proxy.Target{Number: 2, Moment: proxy.After})
	_, err := s.send(http.MethodPost, things)
	require.NoError(t, err)
	_, err = s.send(http.MethodPatch, things)
	require.Error(t, err)
	write := <-killed
	require.Equal(t, proxy.Write{Method: http.MethodPatch, Path: things, Code: http.StatusOK}, write)
	require.Equal(t, 1, s.kills)
	require.Len(t, s.done, 2, "the API server has done it")
}

func TestTheProgramDiesBeforeTheAPIServerHearsOfTheWrite(t *testing.T) {
	s := newServer(t)
	killed := s.proxy.Arm(proxy.Target{Number: 1, Moment: proxy.Before})
	_, err := s.send(http.MethodDelete, things)
	require.Error(t, err)
	require.Zero(t, (<-killed).Code)
	require.Equal(t, 1, s.kills)
	require.Empty(t, s.done)
}

func TestRequestsOfAKilledProgramAreDropped(t *testing.T) {
	s := newServer(t)
	killed := s.proxy.Arm(proxy.Target{Number: 1, Moment: proxy.Before})
	_, err := s.send(http.MethodPut, things)
	require.Error(t, err)
	<-killed
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		_, err = s.send(method, things)
		require.Error(t, err)
	}
	require.Empty(t, s.done)
	require.False(t, s.proxy.Disarm(), "too late")

	s.proxy.Open()
	_, err = s.send(http.MethodPut, things)
	require.NoError(t, err)
	require.Equal(t, 1, s.kills)
}

func TestOnlyWritesThatMatterAreCounted(t *testing.T) {
	s := newServer(t)
	s.proxy.Arm(proxy.Target{Number: 1, Moment: proxy.Before, Resources: []string{"things"}})
	for _, request := range [][2]string{
		{http.MethodGet, things},
		{http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/here/leases/one"},
		{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/here/events"},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews"},
		{http.MethodPatch, others},
		{http.MethodPatch, "/api/v1/namespaces/things/status"},
	} {
		_, err := s.send(request[0], request[1])
		require.NoError(t, err)
	}
	var written []string
	for _, write := range s.proxy.Writes() {
		written = append(written, write.Resource())
	}
	require.Equal(t, []string{"others/status", "namespaces/status"}, written)
	require.Zero(t, s.kills)
	require.True(t, s.proxy.Disarm())
	_, err := s.send(http.MethodPatch, things)
	require.NoError(t, err, "it was spared")
}

func TestAnAnswerIsLostAndTheProgramLivesOn(t *testing.T) {
	s := newServer(t)
	lease := "/apis/coordination.k8s.io/v1/namespaces/here/leases/one"
	lost := s.proxy.Arm(proxy.Target{Number: 2, Moment: proxy.Lost, Matches: func(r *http.Request) bool { return r.URL.Path == lease }})
	for _, path := range []string{things, lease, others} {
		_, err := s.send(http.MethodPut, path)
		require.NoError(t, err)
	}
	_, err := s.send(http.MethodPut, lease)
	require.Error(t, err)
	require.Equal(t, proxy.Write{Method: http.MethodPut, Path: lease, Code: http.StatusOK}, <-lost)
	_, err = s.send(http.MethodPut, lease)
	require.NoError(t, err)
	require.Zero(t, s.kills)
	require.Len(t, s.done, 5, "the API server has heard of all of them")
	require.Len(t, s.proxy.Writes(), 3)
}
