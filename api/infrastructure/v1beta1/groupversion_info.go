// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds CAPTCluster, WorkspaceTemplate and WorkspaceTemplateApply as CAPT v0.3 had them: converted to
// v1beta2 (the hub), served so that legacy objects and manifests keep working, deprecated, and frozen.
//
// Nothing here is stricter than it was: whatever CAPT v0.3's CRDs accepted is accepted. Optional scalars are
// pointers, and optional lists and maps are left out only when they are nil, so that what a client wrote, an explicit
// false or an empty list for example, can be read back as it was written.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of this package's kinds.
	GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's kinds to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CAPTCluster{}, &CAPTClusterList{},
		&WorkspaceTemplate{}, &WorkspaceTemplateList{},
		&WorkspaceTemplateApply{}, &WorkspaceTemplateApplyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
