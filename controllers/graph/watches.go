// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capt-provider/capt/api/graph"
)

// Changed passes creations, deletions, and updates that change a graph.
func Changed() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || StateChanged(e.ObjectOld, e.ObjectNew)
	}}
}

// StateChanged reports whether two versions of an object differ in what a graph has of it.
func StateChanged(before, after client.Object) bool {
	was, ok := before.(graph.Object)
	is, alsoOK := after.(graph.Object)
	return ok && alsoOK && !graph.SameState(was, is)
}
