// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// The client decodes the body of an error, also of a watch: it would fill the memory of the manager.
func TestRefusedWatchesAreLimited(t *testing.T) {
	token := &atomic.Pointer[string]{}
	token.Store(new(canary))
	for status, want := range map[int]int64{http.StatusOK: maxResponse + 1, http.StatusInternalServerError: maxError} {
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
	synctest.Test(t, func(t *testing.T) {
		lists, watches := 0, 0
		s := answering(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" {
				lists++
				return answer(`{"kind":"NodeList","metadata":{"resourceVersion":"1"}}`), nil
			}
			watches++
			return answer(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}`), nil
		})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		go func() {
			time.Sleep(5 * time.Minute)
			s.update(func() bool { s.full = true; return false })
		}()
		s.follow(ctx)
		assert.Equal(t, 2, lists, "at the start, and after the watch during which there were too many")
		assert.Greater(t, watches, 10)
	})
}

// The client of Kubernetes reads a whole event into memory.
func TestEventsAreLimited(t *testing.T) {
	bookmark := `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}` + "\n"
	large := func(n int) string {
		return `{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"8","x":"` + strings.Repeat("x", n) + `"}}}` + "\n"
	}
	for name, row := range map[string]struct {
		body, want string
		nodes      int
	}{
		"none":                  {"", "", 0},
		"a bookmark":            {bookmark, "7", 0},
		"several":               {bookmark + bookmark + large(1) + large(100) + bookmark, "7", 1},
		"large":                 {bookmark + large(maxEvent-1000), "8", 1},
		"without line break":    {bookmark + strings.TrimSpace(large(1)), "8", 1},
		"too large":             {bookmark + large(2*maxEvent), "", 0},
		"no JSON":               {bookmark + "x", "", 0},
		"a part":                {large(1)[:50], "", 0},
		"an error":              {bookmark + `{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}`, "", 0},
		"no version":            {`{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}`, "", 0},
		"a version without end": {`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"` + strings.Repeat("1", maxText+1) + `"}}}`, "", 0},
	} {
		s := answering(func(*http.Request) (*http.Response, error) { return answer(row.body), nil })
		assert.Equal(t, row.want, s.watch(t.Context(), "1"), name)
		assert.Len(t, s.nodes, row.nodes, name)
	}
}

// A list without Nodes makes Cluster API delete all of them.
func TestWhatIsNotAListIsInvalid(t *testing.T) {
	item := `{"metadata":{"name":"x"}}`
	for name, body := range map[string]string{
		"empty":                 `{}`,
		"null":                  `null`,
		"an array":              `[]`,
		"another kind":          `{"kind":"Status","metadata":{"resourceVersion":"1"}}`,
		"no version":            `{"kind":"NodeList","items":[]}`,
		"a text":                `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":"x"}`,
		"a name that is none":   `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":{}}}]}`,
		"more than a page":      `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[` + strings.Repeat(item+",", pageSize) + item + `]}`,
		"a part":                `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[`,
		"a token without end":   `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"` + strings.Repeat("1", maxText+1) + `"},"items":[]}`,
		"a version without end": `{"kind":"NodeList","metadata":{"resourceVersion":"` + strings.Repeat("1", maxText+1) + `"},"items":[]}`,
		"an escaped token":      `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"\u0061"},"items":[]}`,
		"a token that is none":  `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":1},"items":[]}`,
		"not JSON":              canary,
	} {
		s := answering(func(*http.Request) (*http.Response, error) { return answer(body), nil })
		assert.Empty(t, s.list(t.Context()), name)
		assert.Equal(t, Nodes{Problem: "the API server of the cluster cannot be read"}, s.nodesOf("workers"), name)
	}
}

// Users can label Nodes.
func TestOnlyTheLabelOfEKSIsRead(t *testing.T) {
	is := asMember(node("a", "workers", func(n *corev1.Node) { n.Labels["eks.amazonaws.com/NodeGroup"] = "others" }))
	assert.Equal(t, "workers", is.group)
}

// An API server of a user decides about the form of its responses: as Nodes, 300,000 empty conditions need 200 times more memory than they have bytes.
func TestMemoryIsAMultipleOfTheResponse(t *testing.T) {
	const size, fixed = 1 << 20, 512 << 10
	// fill repeats a text, with another number each time, up to the size.
	fill := func(text string) string {
		var all strings.Builder
		for i := 0; all.Len() < size; i++ {
			all.WriteString(strings.ReplaceAll(text, "#", strconv.Itoa(i)) + ",")
		}
		return strings.TrimSuffix(all.String(), ",")
	}
	for name, item := range map[string]string{
		"conditions":           `{"status":{"conditions":[` + fill(`{}`) + `]}}`,
		"conditions, twice":    `{"status":{` + fill(`"conditions":[{"type":"x"}]`) + `}}`,
		"items":                fill(`{}`),
		"items, named":         fill(`{"metadata":{"name":"#"}}`),
		"labels":               `{"metadata":{"labels":{` + fill(`"#":""`) + `}}}`,
		"labels, escaped":      `{"metadata":{"labels":{` + fill(`"\u0061#":""`) + `}}}`,
		"annotations":          `{"metadata":{"annotations":{` + fill(`"#":""`) + `}}}`,
		"one key twice":        `{"metadata":{` + fill(`"name":"#"`) + `}}`,
		"another type, often":  `{"metadata":{` + fill(`"name":0`) + `}}`,
		"arrays, nested":       `{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,"y":"` + strings.Repeat("y", size) + `"}`,
		"arrays without end":   `{"x":` + strings.Repeat("[", size),
		"objects without end":  `{"x":` + strings.Repeat(`{"x":`, size/5),
		"known fields, nested": fill(`{"metadata":{"labels":{}},"status":{"nodeInfo":{},"conditions":[{}]}}`),
		"a large name":         `{"metadata":{"name":"` + strings.Repeat("x", size) + `"}}`,
		"an escaped name":      `{"metadata":{"name":"` + strings.Repeat(`\u0061`, size/6) + `"}}`,
		"invalid text":         `{"metadata":{"name":"` + strings.Repeat("\xff", size) + `"}}`,
		"numbers":              `{"x":[` + fill(`#`) + `]}`,
	} {
		list := `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[` + item + `]}`
		watched := `{"type":"MODIFIED","object":` + item + `}`
		s := answering(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") != "" {
				return answer(watched), nil
			}
			return answer(list), nil
		})
		for _, request := range []func(){func() { s.list(t.Context()) }, func() { s.watch(t.Context(), "1") }} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			request()
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*len(list)+fixed), name)
		}
	}
}
