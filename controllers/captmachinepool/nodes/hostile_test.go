// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
