// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package storedversions

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
)

// pageSize limits the memory that listing past the cache takes.
const pageSize = 500

// awaiting are the objects that await adoption.
type awaiting struct {
	total  int
	byKind map[string]int
	// kind and object are an example of such an object; object is nil when there is none.
	kind   string
	object metav1.Object
}

// awaitingAdoption returns the objects that await adoption. It lists them from the API server only if the cache has none.
func (r *Reconciler) awaitingAdoption(ctx context.Context) (*awaiting, error) {
	found, err := countAwaiting(ctx, r.Cached, 0)
	if err != nil || found.total > 0 || r.Uncached == nil {
		return found, err
	}
	return countAwaiting(ctx, r.Uncached, pageSize)
}

// countAwaiting counts the objects that await adoption. limit is the page size; zero lists without pages, for caches.
func countAwaiting(ctx context.Context, reader client.Reader, limit int64) (*awaiting, error) {
	found := &awaiting{byKind: map[string]int{}}
	for kind, newList := range map[string]func() client.ObjectList{
		"WorkspaceTemplateApply": func() client.ObjectList { return &infrav1.WorkspaceTemplateApplyList{} },
		"CAPTCluster":            func() client.ObjectList { return &infrav1.CAPTClusterList{} },
		"CAPTControlPlane":       func() client.ObjectList { return &controlplanev1.CAPTControlPlaneList{} },
	} {
		if err := found.addKind(ctx, reader, kind, newList, limit); err != nil {
			return nil, fmt.Errorf("listing objects of kind %s: %w", kind, err)
		}
	}
	return found, nil
}

// addKind counts the objects of one kind. Each page has its own list: decoding into one that was used keeps fields that the next page lacks.
func (a *awaiting) addKind(ctx context.Context, reader client.Reader, kind string, newList func() client.ObjectList, limit int64) error {
	a.byKind[kind] = 0
	for next := ""; ; {
		list := newList()
		err := reader.List(ctx, list, client.Limit(limit), client.Continue(next), client.UnsafeDisableDeepCopy)
		if err != nil {
			return err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(metav1.Object); ok && legacy.IsPending(object) {
				a.total++
				a.byKind[kind]++
				a.kind, a.object = kind, object
			}
			return nil
		})
		next = list.GetContinue()
		if err != nil || limit == 0 || next == "" { // Caches set a continue token too.
			return err
		}
	}
}
