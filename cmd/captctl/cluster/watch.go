// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Watched are kinds of objects, in a namespace or in all if it is empty.
type Watched struct {
	Namespace string
	Kinds     []schema.GroupVersionKind
}

// Changes signals that a watched object may have changed. Where the user may not watch, it signals every refresh.
func Changes(ctx context.Context, c client.WithWatch, refresh time.Duration, watched Watched) <-chan struct{} {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // It is signaled already.
		}
	}
	for _, kind := range watched.Kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			events, err := c.Watch(ctx, list, client.InNamespace(watched.Namespace))
			if meta.IsNoMatchError(err) { // It may be served in the older version only.
				list.SetGroupVersionKind(list.GroupVersionKind().GroupKind().WithVersion(migrate.LegacyVersion))
				return
			}
			signal() // For what changed while it was not watched.
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, events.Stop)()
			for range events.ResultChan() {
				signal()
			}
		}, refresh)
	}
	return changed
}
