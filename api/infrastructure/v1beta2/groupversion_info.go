// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 has the API types CAPTCluster, CAPTMachinePool, their templates, WorkspaceTemplate, WorkspaceTemplateApply and PlanRequest. The
// version is the hub and the storage version, and implements Cluster API's v1beta2 contract.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}

// AddToScheme adds this package's kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CAPTCluster{}, &CAPTClusterList{},
		&CAPTClusterTemplate{}, &CAPTClusterTemplateList{},
		&CAPTMachinePool{}, &CAPTMachinePoolList{},
		&CAPTMachinePoolTemplate{}, &CAPTMachinePoolTemplateList{},
		&PlanRequest{}, &PlanRequestList{},
		&WorkspaceTemplate{}, &WorkspaceTemplateList{},
		&WorkspaceTemplateApply{}, &WorkspaceTemplateApplyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
