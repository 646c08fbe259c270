// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 has the API types CAPTControlPlane and CAPTControlPlaneTemplate of CAPT v0.3. The version is deprecated and frozen. It is
// served, and converted to v1beta2 (the hub), so that existing objects and manifests keep working. The conventions of package v1beta1 of
// the infrastructure group apply to it, too.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1"}

// AddToScheme adds this package's kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CAPTControlPlane{}, &CAPTControlPlaneList{},
		&CAPTControlPlaneTemplate{}, &CAPTControlPlaneTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
