// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestRequestsOfResultsComeFirst(t *testing.T) {
	queue := priorityqueue.New[ctrl.Request]("test")
	defer queue.ShutDown()
	isResult := func(before, after client.Object) bool { return before.GetGeneration() != after.GetGeneration() }
	handler := EnqueueResults(isResult, func(_ context.Context, object client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	})
	object := func(name, version string, generation int64) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply(name, builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.ResourceVersion, a.Generation = version, generation }))
	}
	handler.Create(t.Context(), event.CreateEvent{Object: object("new", "1", 1)}, queue)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: object("changed", "1", 1), ObjectNew: object("changed", "2", 1)}, queue)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: object("result", "1", 1), ObjectNew: object("result", "2", 2)}, queue)
	handler.Delete(t.Context(), event.DeleteEvent{Object: object("deleted", "1", 1)}, queue)
	assert.Eventually(t, func() bool { return queue.Len() == 4 }, time.Minute, time.Millisecond)

	var order []string
	for range 4 {
		request, _ := queue.Get()
		order = append(order, request.Name)
		queue.Done(request)
	}
	assert.Equal(t, []string{"result", "new", "changed", "deleted"}, order)
}
