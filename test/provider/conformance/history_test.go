// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is everything a Workspace ever showed, each different view once.
type history struct {
	*subject
	mu    sync.Mutex
	views []string
	ended bool
}

// record watches the Workspace from now on.
func (s *subject) record() *history {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.GroupVersionKind().GroupVersion().WithKind("WorkspaceList"))
	w, err := s.api.Watch(s.Context(), list, &client.ListOptions{
		Namespace: s.GetNamespace(), Raw: &metav1.ListOptions{FieldSelector: "metadata.name=" + s.GetName()},
	})
	require.NoError(s, err)
	h := &history{subject: s}
	go func() {
		defer w.Stop()
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok {
				h.add(o, event.Type == watch.Deleted)
			}
		}
	}()
	return h
}

func (h *history) add(o *unstructured.Unstructured, ended bool) {
	v := h.see(o)
	words := append(v.marks, v.ready, v.synced, v.wrong) //nolint:gocritic // see made the list for us
	if v.message != "" {
		what, _, _ := strings.Cut(v.message, ":")
		words = append(words, what)
	}
	if len(v.outputs) > 0 {
		words = append(words, "outputs")
	}
	view := strings.Join(strings.Fields(strings.Join(words, " ")), " ")

	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = ended
	if !ended && (len(h.views) == 0 || h.views[len(h.views)-1] != view) {
		h.views = append(h.views, view)
	}
}

// until waits for a view and returns all there were.
func (h *history) until(view string) []string {
	h.Helper()
	return h.wait(func() bool { return len(h.views) > 0 && h.views[len(h.views)-1] == view })
}

// untilEnd waits for the Workspace to be gone.
func (h *history) untilEnd() []string {
	h.Helper()
	return h.wait(func() bool { return h.ended })
}

func (h *history) wait(condition func() bool) []string {
	h.Helper()
	require.EventuallyWithT(h, func(t *assert.CollectT) {
		h.mu.Lock()
		defer h.mu.Unlock()
		require.True(t, condition(), "so far the Workspace showed %q", h.views)
	}, patience, tick)
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.views)
}

// untilShown waits until there was a view: a watch reports it later than a get.
func (h *history) untilShown(view string) {
	h.Helper()
	h.wait(func() bool { return slices.Contains(h.views, view) })
}
