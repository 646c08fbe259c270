// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize bounds what is held in memory: one page is read while another is looked at.
const pageSize = 250

// Each calls take for each object of a kind, a page at a time. An empty namespace means all of them.
func Each(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, take func(*unstructured.Unstructured) error) error {
	pages := pager.New(continued(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := reader.List(ctx, found, client.InNamespace(namespace), client.Limit(page.Limit), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		return found, nil
	}))
	pages.PageSize, pages.PageBufferSize = pageSize, 0
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error { return take(object.(*unstructured.Unstructured)) })
}

// eachInstalled is Each; a kind that is not installed has no objects.
func eachInstalled(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, take func(*unstructured.Unstructured) error) error {
	err := Each(ctx, reader, kind, namespace, take)
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// continued goes on with a list that took so long that its state is gone (410), at the state of now: with the token that the error holds.
// client-go's pager can only read the whole list again, in one page.
func continued(page pager.ListPageFunc) pager.ListPageFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		found, err := page(ctx, options)
		var status apierrors.APIStatus
		if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
			return found, err
		}
		options.Continue = status.Status().Continue
		return page(ctx, options)
	}
}
