// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// desiredStateChanged lets through what makes the real provider plan: a new generation (spec, deletion), a label or
// an annotation. Status writes are not among them, nor are the two annotations the provider itself keeps around a
// create, not even when a user removes them: a Workspace that waits for external-create-pending to be removed is
// looked at again only after another edit or a restart.
func desiredStateChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: annotationsChanged},
	)
}

func annotationsChanged(e event.UpdateEvent) bool {
	if e.ObjectOld == nil || e.ObjectNew == nil {
		return false
	}
	before, after := maps.Clone(e.ObjectOld.GetAnnotations()), maps.Clone(e.ObjectNew.GetAnnotations())
	for _, own := range []string{annotationCreatePending, annotationCreateFailed} {
		delete(before, own)
		delete(after, own)
	}
	return !maps.Equal(before, after)
}
