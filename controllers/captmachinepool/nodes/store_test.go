// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"
)

// store is a cluster without a connection, and the delays of its notifications.
type store struct {
	*cluster
	delays []time.Duration
}

func newStore() *store {
	s := &store{}
	s.cluster = &cluster{key: demo, nodes: map[string]member{}, notify: func(after time.Duration) { s.delays = append(s.delays, after) }}
	return s
}

// notified returns the delays of the notifications since the last call.
func (s *store) notified() []time.Duration {
	delays := s.delays
	s.delays = nil
	return delays
}

func (s *store) replace(nodes ...*corev1.Node) {
	list := make([]any, len(nodes))
	for i, n := range nodes {
		list[i] = n
	}
	_ = s.Replace(list, "1")
}

func TestAListNotifiesIfItDiffers(t *testing.T) {
	s := newStore()
	for name, row := range []struct {
		nodes []*corev1.Node
		want  bool
	}{
		{nil, true}, // The first one.
		{nil, false},
		{[]*corev1.Node{node("a", "workers")}, true},
		{[]*corev1.Node{node("a", "workers", heartbeat)}, false},
		{[]*corev1.Node{node("a", "others")}, true},
		{[]*corev1.Node{node("b", "others")}, true},
		{[]*corev1.Node{node("b", "others", notReady)}, true},
	} {
		s.replace(row.nodes...)
		assert.Equal(t, row.want, len(s.notified()) == 1, name)
	}
}

func TestWhatIsNotANodeIsIgnored(t *testing.T) {
	s := newStore()
	s.replace(node("a", "workers"))
	s.notified()
	for _, object := range []any{nil, &corev1.Pod{}, "a"} {
		require.NoError(t, s.Add(object))
		require.NoError(t, s.Update(object))
		require.NoError(t, s.Delete(object))
	}
	require.NoError(t, s.Resync())
	assert.Empty(t, s.notified())
	assert.Equal(t, Nodes{List: []Node{kept("a")}}, s.nodesOf("workers"))
	require.NoError(t, s.Replace([]any{nil, &corev1.Pod{}}, "2"))
	assert.Equal(t, Nodes{}, s.nodesOf("workers"))
}

// A Node that is trimmed is kept as the whole one is.
func TestNodesOfListsAreTrimmed(t *testing.T) {
	for _, n := range []*corev1.Node{
		node("a", "workers", heartbeat), node("a", "workers", notReady), node("a", ""), {}, node("a", "x", func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) }),
	} {
		small := trimmed(n)
		assert.Equal(t, memberOf(n), memberOf(small))
		assert.Empty(t, small.Annotations)
		assert.LessOrEqual(t, len(small.Labels), 1)
		assert.LessOrEqual(t, len(small.Status.Conditions), 1)
	}
}

// Users of a cluster can create Nodes. A list with a part of them would let Cluster API delete the others.
func TestMoreNodesThanTheLimitAreNotKnown(t *testing.T) {
	s := newStore()
	many := make([]*corev1.Node, 0, maxNodes+1)
	for i := range maxNodes {
		many = append(many, node(fmt.Sprint(i), "workers"))
	}
	s.replace(many...)
	assert.Len(t, s.nodesOf("workers").List, maxNodes)
	s.notified()
	problem := Nodes{Problem: "the cluster has more than 10000 nodes"}
	require.NoError(t, s.Add(node("more", "workers")))
	require.NoError(t, s.Add(node("yet more", "workers")))
	assert.Equal(t, problem, s.nodesOf("workers"))
	assert.Equal(t, maxNodes, s.size())
	assert.Len(t, s.notified(), 1)
	require.NoError(t, s.Delete(many[0]))
	assert.Equal(t, problem, s.nodesOf("workers"), "those that were not kept are not known")
	s.notified()

	s.replace(many[1:]...)
	assert.Len(t, s.nodesOf("workers").List, maxNodes-1)
	assert.Len(t, s.notified(), 1)
	s.replace(append(many, node("more", "workers"))...)
	assert.Equal(t, problem, s.nodesOf("workers"))
}

// API servers restart during upgrades.
func TestNodesStayKnownWhileAnAPIServerRestarts(t *testing.T) {
	refused := apierrors.NewServiceUnavailable("etcd")
	report := func(s *store, err error) []time.Duration {
		s.report(t.Context(), err)
		return s.notified()
	}
	later, soon := []time.Duration{graceful + time.Second}, []time.Duration{notifyDelay}
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.replace(node("a", "workers"))
		s.notified()
		known, problem := Nodes{List: []Node{kept("a")}}, Nodes{Problem: "the API server answers with status 503"}
		assert.Equal(t, later, report(s, refused), "when the grace period ends")
		assert.Empty(t, report(s, refused), "reported once")
		assert.Equal(t, known, s.nodesOf("workers"))
		time.Sleep(graceful - time.Second)
		assert.Equal(t, known, s.nodesOf("workers"))
		assert.Empty(t, report(s, nil), "it was not reported")
		time.Sleep(graceful)
		assert.Equal(t, known, s.nodesOf("workers"))

		assert.Equal(t, later, report(s, refused))
		time.Sleep(graceful + time.Second)
		assert.Equal(t, problem, s.nodesOf("workers"))
		assert.Equal(t, later, report(s, apierrors.NewUnauthorized("")), "another problem, of which the period does not begin again")
		assert.Equal(t, Nodes{Problem: "the API server rejects the credentials of the kubeconfig (401)"}, s.nodesOf("workers"))
		assert.Equal(t, soon, report(s, nil))
		assert.Equal(t, known, s.nodesOf("workers"))

		ended, end := context.WithCancel(t.Context())
		end()
		s.report(ended, refused)
		assert.Empty(t, s.problem, "a watch that was ended reports nothing")

		fresh := newStore()
		assert.Equal(t, soon, report(fresh, refused), "one whose nodes were never known has no grace period")
		assert.Equal(t, problem, fresh.nodesOf("workers"))
	})
}

// answering is a store whose requests a function answers.
func answering(answer func(*http.Request) (*http.Response, error)) *store {
	s := newStore()
	s.client = &fake.RESTClient{NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion, Client: fake.CreateHTTPClient(answer)}
	return s
}

func TestAListThatHangsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began := time.Now()
		_, err := listWatch{s.cluster}.ListWithContext(t.Context(), metav1.ListOptions{})
		require.Error(t, err)
		assert.Equal(t, listTimeout, time.Since(began))
		assert.Equal(t, Nodes{Problem: "the API server of the cluster cannot be reached"}, s.nodesOf("workers"))
	})
}

func TestAListWithoutEndEnds(t *testing.T) {
	pages := 0
	s := answering(func(*http.Request) (*http.Response, error) {
		pages++
		items := strings.Repeat(`{"metadata":{"name":"x"}},`, 4999) + `{"metadata":{"name":"x"}}`
		body := io.NopCloser(strings.NewReader(`{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"more"},"items":[` + items + `]}`))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
	})
	list, err := s.list(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{3, 15_000}, []int{pages, len(list.Items)})
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestResponsesAreLimited(t *testing.T) {
	token := &atomic.Pointer[string]{}
	token.Store(new(canary))
	for name, row := range map[string]struct {
		query    string
		hasToken bool
		want     int64
		auth     string
	}{
		"list":          {"", true, maxResponse, "Bearer " + canary},
		"watch":         {"?watch=true", true, maxResponse + 1, "Bearer " + canary},
		"without token": {"", false, maxResponse, ""},
	} {
		var auth string
		l := limited{roundTrip(func(r *http.Request) (*http.Response, error) {
			auth = r.Header.Get("Authorization")
			return &http.Response{StatusCode: http.StatusOK, Body: endless{}}, nil
		}), token, row.hasToken}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/"+row.query, nil)
		require.NoError(t, err)
		response, err := l.RoundTrip(request)
		require.NoError(t, err)
		n, _ := io.CopyN(io.Discard, response.Body, maxResponse+1)
		assert.Equal(t, row.want, n, name)
		assert.Equal(t, row.auth, auth, name)
		require.NoError(t, response.Body.Close())
		assert.Empty(t, request.Header, "the request of the caller is not changed")
	}
	failing := limited{roundTrip(func(*http.Request) (*http.Response, error) { return nil, assert.AnError }), token, true}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
	require.NoError(t, err)
	_, err = failing.RoundTrip(request) //nolint:bodyclose // There is none.
	assert.Equal(t, assert.AnError, err)
}
