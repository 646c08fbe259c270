// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndpointAnnotation has the endpoint of a CAPTCluster for the printed column, because status of this version has no field for it.
// Conversion to this version sets the annotation, and conversion to the hub removes it, so it is never stored.
const EndpointAnnotation = "capt.cluster.x-k8s.io/endpoint"

// WorkspaceTemplateReference names a WorkspaceTemplate.
type WorkspaceTemplateReference struct {
	// name of the WorkspaceTemplate.
	Name string `json:"name"`

	// namespace of the WorkspaceTemplate; the default is the namespace of the object that refers to it.
	Namespace *string `json:"namespace,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// name of the Secret.
	Name string `json:"name"`

	// namespace of the Secret.
	Namespace string `json:"namespace"`
}

// Condition is a condition in the form of Crossplane. Unlike a condition of Kubernetes, it can have any reason and no message.
type Condition struct {
	// type of the condition.
	Type string `json:"type"`

	// status of the condition: True, False or Unknown.
	Status string `json:"status"`

	// lastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// reason of the last transition.
	Reason string `json:"reason"`

	// message about the last transition.
	Message *string `json:"message,omitempty"`

	// observedGeneration is the generation of spec that the condition is about.
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
}
