// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capt-provider/capt/test/provider/api/cluster/v1beta1"
)

func annotated(annotations map[string]string) *v1beta1.Workspace {
	return &v1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func TestCreateIsIncompleteWhenItsBeginningIsTheNewestStamp(t *testing.T) {
	const early, late = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
	for name, tc := range map[string]struct {
		pending, succeeded, failed string
		want                       bool
	}{
		"never begun":                {},
		"begun":                      {pending: early, want: true},
		"begun and ended":            {pending: early, succeeded: late},
		"begun and failed":           {pending: early, failed: late},
		"begun again after failing":  {pending: late, failed: early, want: true},
		"begun again after a create": {pending: late, succeeded: early, want: true},
		"same second":                {pending: late, failed: late},
		"not a time":                 {pending: "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			w := annotated(map[string]string{
				annotationCreatePending: tc.pending, annotationCreateSucceeded: tc.succeeded, annotationCreateFailed: tc.failed,
			})
			require.Equal(t, tc.want, createIncomplete(w))
		})
	}
}

func TestWaitsDoubleUpToAMinute(t *testing.T) {
	backoff, request := newBackoff(), reconcile.Request{}
	var waits []time.Duration
	for range 8 {
		waits = append(waits, backoff.When(request)/time.Second)
	}
	require.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, waits)
}

func TestEventsThatTriggerAPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*v1beta1.Workspace)
		want bool
	}{
		"status":                     {func(w *v1beta1.Workspace) { w.Status.AtProvider.Checksum = "x" }, false},
		"the provider's finalizer":   {func(w *v1beta1.Workspace) { w.Finalizers = []string{finalizerName} }, false},
		"create begun":               {func(w *v1beta1.Workspace) { annotate(w, annotationCreatePending, "later") }, false},
		"create failed":              {func(w *v1beta1.Workspace) { annotate(w, annotationCreateFailed, "now") }, false},
		"create succeeded":           {func(w *v1beta1.Workspace) { annotate(w, annotationCreateSucceeded, "now") }, true},
		"external name":              {func(w *v1beta1.Workspace) { annotate(w, annotationExternalName, "x") }, true},
		"create declared safe again": {func(w *v1beta1.Workspace) { delete(w.Annotations, annotationCreatePending) }, false},
		"any annotation":             {func(w *v1beta1.Workspace) { annotate(w, "example.com/a", "b") }, true},
		"a label":                    {func(w *v1beta1.Workspace) { w.Labels = map[string]string{"a": "b"} }, true},
		"the spec":                   {func(w *v1beta1.Workspace) { w.Generation++ }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := annotated(map[string]string{annotationCreatePending: "earlier"})
			after := before.DeepCopy()
			tc.edit(after)
			require.Equal(t, tc.want, desiredStateChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
		})
	}
}
