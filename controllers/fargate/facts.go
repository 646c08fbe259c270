// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fargate gives an EKS cluster its Fargate profiles: one WorkspaceTemplateApply each, written and told by the
// controller of control planes. That Terraform works on one profile of a cluster at a time is the duty of the controller of
// WorkspaceTemplateApplies, which sees whatever makes it work: spec, template, deletion.
package fargate

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/owner"
)

// manager is the field manager of what is applied here: the controller of control planes writes it.
const manager = naming.CAPTControlPlaneFieldManager

// Foundation is what the profiles of a control plane stand on.
type Foundation struct {
	// ClusterName is the name of the Cluster.
	ClusterName string
	// EKSName is the name of the EKS cluster, as Terraform was told. That of one that was adopted may be another one than that of
	// the Cluster, and an EKS cluster of the Cluster's name be somebody else's.
	EKSName string
	// Region of the EKS cluster.
	Region string
	// Workspace is that of the control plane.
	Workspace string
	// Ready is true when Terraform has made the EKS cluster as spec asks for it. Nothing is made or changed before.
	Ready bool
	// Connection is the connection Secret of the control plane, which is called ConnectionName; nil when it does not exist.
	Connection     *corev1.Secret
	ConnectionName string
	// VPCSecretName is the Secret that describes the VPC; empty when nobody says which.
	VPCSecretName string
}

// Profile is a Fargate profile, of spec or one that spec no longer has.
type Profile struct {
	Name string
	// Apply is its WorkspaceTemplateApply.
	Apply owner.Facts
}

// Facts are everything that is known about the Fargate profiles of a control plane.
type Facts struct {
	// Profiles of spec, in its order. There are none when the control plane is deleted.
	Profiles []Profile
	// Leaving are those that exist and spec no longer has: all, when the control plane is deleted. Sorted by name.
	Leaving []Profile
	// ClusterReady is true when the EKS cluster is there, so that profiles can be made and changed.
	ClusterReady bool
	// Busy is true while Terraform is at work on a profile, or about to be. New ones are made in the order of spec, so the next one
	// comes when that is done. Those that exist take turns as it comes.
	Busy bool
	// Paused says why nothing is written; empty when the control plane is not paused.
	Paused string
	// Missing says what must be there before a profile is made or changed, and is not; empty when all is.
	Missing string
}

// none tells whether there are no profiles, and should be none.
func (f *Facts) none() bool { return len(f.Profiles)+len(f.Leaving) == 0 }

// LeavingApplies are the WorkspaceTemplateApplies of Leaving.
func (f *Facts) LeavingApplies() []*infrav1.WorkspaceTemplateApply {
	applies := make([]*infrav1.WorkspaceTemplateApply, len(f.Leaving))
	for i := range f.Leaving {
		applies[i] = f.Leaving[i].Apply.Apply
	}
	return applies
}

// isHeld tells whether the control plane has the finalizer that it needs while there are profiles.
func isHeld(controlPlane *controlplanev1.CAPTControlPlane) bool {
	return controllerutil.ContainsFinalizer(controlPlane, controlplanev1.FargateProfileFinalizer)
}
