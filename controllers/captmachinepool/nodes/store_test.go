// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
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
	s.cluster = &cluster{nodes: map[string]member{}, notify: func(after time.Duration) { s.delays = append(s.delays, after) }}
	return s
}

// notified returns the delays of the notifications since the last call.
func (s *store) notified() []time.Duration {
	delays := s.delays
	s.delays = nil
	return delays
}

func (s *store) replace(nodes ...*corev1.Node) {
	list := map[string]member{}
	for _, n := range nodes {
		if is := asMember(n); is != nil {
			list[n.Name] = *is
		}
	}
	s.cluster.replace(list, false)
}

// asMember returns what is kept of a Node.
func asMember(n *corev1.Node) *member {
	data, err := json.Marshal(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Node{*n}})
	if err != nil {
		panic(err)
	}
	var list jsonList
	if err := list.decode(data); err != nil {
		panic(err)
	}
	return list.Items[0].member()
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
	s.add(asMember(node("more", "workers")))
	s.add(asMember(node("yet more", "workers")))
	assert.Equal(t, problem, s.nodesOf("workers"))
	assert.Len(t, s.nodes, maxNodes)
	assert.Len(t, s.notified(), 1)
	s.remove("0")
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
		assert.Empty(t, s.list(t.Context()))
		assert.Equal(t, listTimeout, time.Since(began))
		assert.Equal(t, Nodes{Problem: "the API server of the cluster cannot be reached"}, s.nodesOf("workers"))
	})
}

func TestAListWithoutEndEnds(t *testing.T) {
	pages := 0
	item := `{"metadata":{"name":"x"}}`
	s := answering(func(*http.Request) (*http.Response, error) {
		pages++
		return answer(`{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"more"},"items":[` + strings.Repeat(item+",", pageSize-1) + item + `]}`), nil
	})
	assert.Equal(t, "1", s.list(t.Context()))
	assert.Equal(t, 1+maxNodes/pageSize, pages)
	assert.Equal(t, Nodes{Problem: "the cluster has more than 10000 nodes"}, s.nodesOf("workers"), "a part of a list is not known as the whole")
}

// answer is a response with a body.
func answer(body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
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
