// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The client reads the whole body of an error, also of a watch: it would fill the memory of the manager.
func TestRefusedWatchesAreLimited(t *testing.T) {
	token := &atomic.Pointer[string]{}
	token.Store(new(canary))
	for status, want := range map[int]int64{http.StatusOK: maxResponse + 1, http.StatusInternalServerError: maxResponse} {
		l := limited{roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: endless{}}, nil
		}), token, true}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/?watch=true", nil)
		require.NoError(t, err)
		response, err := l.RoundTrip(request)
		require.NoError(t, err)
		n, _ := io.CopyN(io.Discard, response.Body, maxResponse+1)
		assert.Equal(t, want, n, status)
		require.NoError(t, response.Body.Close())
	}
}

// The API server of the management cluster would refuse all of the status, and the list of provider IDs.
func TestWhatNoAPIServerAcceptsIsNotKept(t *testing.T) {
	is := func(change func(*corev1.Node)) []Node {
		s := newStore()
		s.replace(node("a", "workers", change))
		return s.nodesOf("workers").List
	}
	long := strings.Repeat("x", 1000)
	for name, got := range map[string][]Node{
		"no name":         is(func(n *corev1.Node) { n.Name = "" }),
		"a long name":     is(func(n *corev1.Node) { n.Name = long }),
		"an invalid name": is(func(n *corev1.Node) { n.Name = "a\xff" }),
	} {
		assert.Empty(t, got, name)
	}
	for _, id := range []string{long, "aws:///\xff"} {
		got := is(func(n *corev1.Node) { n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion = id, id })
		assert.Equal(t, []Node{{Name: "a", Ready: true}}, got, "an instance that cannot be named")
	}
}

// A watch continues where the last one ended, so the nodes that were not kept would never be known, although there are few again.
func TestTooManyNodesAreListedAgain(t *testing.T) {
	requests := []string{}
	s := answering(func(r *http.Request) (*http.Response, error) {
		requests = append(requests, r.URL.RawQuery)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	watches := func() error {
		found, err := listWatch{s.cluster}.WatchWithContext(t.Context(), metav1.ListOptions{})
		if err == nil {
			found.Stop()
		}
		return err
	}
	s.replace()
	for range 3 {
		require.NoError(t, watches())
	}
	s.full = true
	require.NoError(t, watches(), "not at once: such a list is large")
	assert.True(t, apierrors.IsResourceExpired(watches()), "the reflector lists again")
	assert.Empty(t, s.problem)
	s.replace()
	require.NoError(t, watches())
	require.NoError(t, watches())
}

// An API server of a user decides how many items a page has: empty ones need a hundred times more memory than they have bytes.
func TestAPageWithTooManyItemsIsNotDecoded(t *testing.T) {
	const items = 200_000
	empty := strings.Repeat("{},", items) + "{}"
	protobuf := append([]byte("k8s\x00"), 0x12)
	protobuf = append(protowire.AppendVarint(protobuf, 2*items), bytes.Repeat([]byte{0x12, 0}, items)...)
	for name, row := range map[string]struct{ contentType, body string }{
		"JSON":       {"application/json", `{"kind":"NodeList","apiVersion":"v1","items":[` + empty + `]}`},
		"JSON twice": {"application/json", `{"kind":"NodeList","apiVersion":"v1","items":[` + empty + `],"items":[]}`},
		"YAML":       {"application/yaml", "kind: NodeList\napiVersion: v1\nitems: [" + empty + "]"},
		"protobuf":   {"application/vnd.kubernetes.protobuf", string(protobuf)},
	} {
		s := answering(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {row.contentType}}, Body: io.NopCloser(strings.NewReader(row.body))}, nil
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := listWatch{s.cluster}.ListWithContext(t.Context(), metav1.ListOptions{})
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), name)
		assert.Equal(t, "the API server of the cluster cannot be read", s.problem, name)
	}
}
