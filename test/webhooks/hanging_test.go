// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// busy is what a busy machine may add to the limit.
const busy = 5 * time.Second

// TestHangingWebhooksTimeOut is worse than an outage: connections are accepted and never answered.
func TestHangingWebhooksTimeOut(t *testing.T) {
	w := newWorld(t)
	w.make(w.Namespace, "kept-")
	port := w.silence()
	restore := w.pointAdmission(t.Context(), func(_ string, now target) target {
		url := fmt.Sprintf("https://127.0.0.1:%d", port)
		return target{URL: &url, CABundle: now.CABundle}
	})
	t.Cleanup(func() { w.pointAdmission(context.Background(), restore) })
	w.awaitSilence()

	w.story("creates and changes", func(w *world) {
		// All at the same time, since each takes as long as it may.
		var group errgroup.Group
		for _, k := range kinds() {
			object := k.object(k.current, w.Namespace, "new")
			group.Go(func() error { return givesUp(func() error { return w.Create(w.Context(), object) }) })
			kept := k.object(k.current, w.Namespace, "kept-v1beta2")
			group.Go(func() error { return givesUp(func() error { return w.Patch(w.Context(), kept, k.changed("hanging")) }) })
		}
		require.NoError(w, group.Wait())
	})
	w.story("deletion and status do not wait", func(w *world) {
		began := time.Now()
		w.statusIsWritten()
		w.each(w.Namespace, "kept-", func(_ kind, object *unstructured.Unstructured) {
			require.NoError(w, w.Delete(w.Context(), object), object.GetKind())
		})
		require.Less(w, time.Since(began), limit)
	})
}

// silence listens and never accepts: the kernel completes connections, and nothing answers on them.
func (w *world) silence() int {
	w.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w, err)
	w.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// awaitSilence waits until the API server has seen where the webhooks are now: of the first kind the one that defaults, of
// the second, which has no defaults, the one that validates.
func (w *world) awaitSilence() {
	w.Helper()
	for _, k := range kinds()[:2] {
		eventually(w.T, func() error {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			if w.Create(ctx, k.object(k.current, w.Namespace, "new"), client.DryRunAll) == nil {
				return errors.New("the webhooks still answer")
			}
			return nil
		})
	}
}

// givesUp says what is wrong with a write that gets no answer.
func givesUp(write func() error) error {
	began := time.Now()
	err := write()
	took := time.Since(began)
	if apierrors.IsInternalError(err) && took < limit+busy &&
		strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "context deadline exceeded") {
		return nil
	}
	return fmt.Errorf("not the expected failure, after %s: %w", took, err)
}
