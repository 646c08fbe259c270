// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations and the finalizer of crossplane-runtime.
const (
	annotationExternalName    = "crossplane.io/external-name"
	annotationPaused          = "crossplane.io/paused"
	annotationCreatePending   = "crossplane.io/external-create-pending"
	annotationCreateSucceeded = "crossplane.io/external-create-succeeded"
	annotationCreateFailed    = "crossplane.io/external-create-failed"

	finalizerName = "finalizer.managedresource.crossplane.io"
)

var errCreateIncomplete = errors.New(
	"cannot determine creation result - remove the " + annotationCreatePending + " annotation if it is safe to proceed")

func annotate(o client.Object, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

func stamp(o client.Object, key string, now time.Time) {
	annotate(o, key, now.UTC().Format(time.RFC3339))
}

// stamped is the zero time when the annotation is absent or not a time.
func stamped(o client.Object, key string) time.Time {
	t, err := time.Parse(time.RFC3339, o.GetAnnotations()[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

// createIncomplete reports whether a create was begun and its end never recorded: the provider was killed meanwhile, and
// what it created may not be in the state. Stamps have seconds, so a create begun in the second in which another one
// ended passes for ended.
func createIncomplete(o client.Object) bool {
	pending := stamped(o, annotationCreatePending)
	return !pending.IsZero() &&
		pending.After(stamped(o, annotationCreateSucceeded)) && pending.After(stamped(o, annotationCreateFailed))
}

func isPaused(o client.Object) bool { return o.GetAnnotations()[annotationPaused] == "true" }

func isDeleted(o client.Object) bool { return !o.GetDeletionTimestamp().IsZero() }

func controllerReference(w workspace, s scope) metav1.OwnerReference {
	return *metav1.NewControllerRef(w.object(), s.gvk())
}
