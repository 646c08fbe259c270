// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const revisionKind = "ControllerRevision"

// ObjectRef identifies an object.
type ObjectRef struct {
	Group     string    `json:"group"` // Group and Kind; the version is v1beta2 for CAPT's own kinds.
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// Ref refers to a Cluster, or to an object of one of CAPT's kinds.
func Ref(kind string, object metav1.Object) ObjectRef {
	ref := ObjectRef{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	for _, known := range ReadOrWritten() {
		if known.Kind == kind {
			ref.Group = known.Group
		}
	}
	return ref
}

// RefOf refers to an object that has its kind.
func RefOf(object *unstructured.Unstructured) ObjectRef {
	return ObjectRef{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName(), object.GetUID()}
}

// String is Kind namespace/name.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// GroupVersionKind returns the kind of an object in the version that captctl reads and writes.
func (r ObjectRef) GroupVersionKind() (schema.GroupVersionKind, error) {
	for _, kind := range append(ReadOrWritten(), corev1.SchemeGroupVersion.WithKind("Namespace"), appsv1.SchemeGroupVersion.WithKind(revisionKind)) {
		if kind.Group == r.Group && kind.Kind == r.Kind {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%s of group %q is not a kind that a migration reads or writes", r, r.Group)
}
