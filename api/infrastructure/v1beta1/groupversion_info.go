// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 has the API types CAPTCluster, WorkspaceTemplate and WorkspaceTemplateApply of CAPT v0.3. The version is deprecated and
// frozen. It is served, and converted to v1beta2 (the hub), so that existing objects and manifests keep working.
//
// Every object that the CRDs of CAPT v0.3 accepted is accepted. Optional scalars are pointers, and optional lists and maps are omitted only
// when they are nil, so that clients read the values that they wrote, for example an explicit false or an empty list.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// AddToScheme adds this package's kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CAPTCluster{}, &CAPTClusterList{},
		&WorkspaceTemplate{}, &WorkspaceTemplateList{},
		&WorkspaceTemplateApply{}, &WorkspaceTemplateApplyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
