// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kept restores the fields of an object that an update omits although they must stay. The defaulting webhooks use it, and captctl
// diff for manifests that are not applied yet.
package kept

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/identity"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
)

// Fields restores the fields of an object that an update omits: its identity, and fields of spec that CAPT wrote.
func Fields(old, object metav1.Object) {
	identity.Keep(old, object)
	if controlPlane, ok := object.(*controlplanev1.CAPTControlPlane); ok {
		keepControlPlane(old.(*controlplanev1.CAPTControlPlane), controlPlane)
	}
}

// keepControlPlane corrects an endpoint in the invalid form of CAPT v0.3, or removes it so that the controller writes it again.
func keepControlPlane(old, controlPlane *controlplanev1.CAPTControlPlane) {
	if controlPlane.Spec.Version != old.Spec.Version { // An unchanged version keeps its form: a write of other fields must not change spec.version.
		CompleteVersion(controlPlane)
	}
	if controlPlane.Spec.ControlPlaneEndpoint.IsZero() {
		controlPlane.Spec.ControlPlaneEndpoint = owners.RepairEndpoint(old.Spec.ControlPlaneEndpoint)
	}
}

// CompleteVersion changes spec.version to the form that Cluster API's contract requires: a semantic version with the prefix v. It ignores
// an invalid version, which validation rejects.
func CompleteVersion(controlPlane *controlplanev1.CAPTControlPlane) {
	if version, err := versions.ParseKubernetesVersion(controlPlane.Spec.Version); err == nil {
		controlPlane.Spec.Version = version.Semantic
	}
}
