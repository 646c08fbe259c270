// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// resultPriority is the priority of requests that a result of Terraform causes; that of other events is zero.
const resultPriority = 10

// EnqueueResults enqueues the requests of a function. Those that an update with a result of Terraform causes come first: while many clusters are created at
// once, a cluster that Terraform has created becomes Ready before the next ones begin.
func EnqueueResults(isResult func(before, after client.Object) bool, of handler.MapFunc) handler.EventHandler {
	all := handler.EnqueueRequestsFromMapFunc(of)
	update := func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		if first, ok := queue.(priorityqueue.PriorityQueue[ctrl.Request]); ok && isResult(e.ObjectOld, e.ObjectNew) {
			priority := resultPriority
			first.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, append(of(ctx, e.ObjectOld), of(ctx, e.ObjectNew)...)...)
			return
		}
		all.Update(ctx, e, queue)
	}
	return handler.Funcs{CreateFunc: all.Create, UpdateFunc: update, DeleteFunc: all.Delete, GenericFunc: all.Generic}
}
