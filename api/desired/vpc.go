// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

// VPC is the VPC of a CAPTCluster that has a template for it.
type VPC struct {
	CAPTCluster *infrav1.CAPTCluster
	// Cluster is nil until Cluster API has set the owner reference.
	Cluster *clusterv1.Cluster
	Existing
	Template *TemplateFacts
	// EKS is the control plane of the Cluster, and OtherClaims are those that may have its EKS cluster; nil without one, and not read once the VPC is being
	// created.
	EKS         *validation.EKSClaim
	OtherClaims []validation.EKSClaim
}

// Blocked returns why the WorkspaceTemplateApply is not written.
func (v *VPC) Blocked() *Blocked {
	return Chain{v.waitingForOwner, v.unverified(v.EKS != nil, v.waitingForControlPlane), v.Existing.blocked, v.templateBlocked, v.waitingForControlPlane, v.eksNameBlocked}.First()
}

// TemplateBlocks reports whether the template is among what blocks.
func (v *VPC) TemplateBlocks() bool { return v.templateBlocked() != nil }

// WaitingForCluster is the message of a CAPTCluster that no Cluster owns.
const WaitingForCluster = "no Cluster owns this object. Create a Cluster whose spec.infrastructureRef names it; if it exists, check that it is not paused and that Cluster API runs"

// waitingForOwner does not block a deletion: the Cluster may no longer exist.
func (v *VPC) waitingForOwner() *Blocked {
	if v.Cluster != nil || !v.CAPTCluster.DeletionTimestamp.IsZero() {
		return nil
	}
	return &Blocked{infrav1.WaitingForOwnerReason, WaitingForCluster}
}

// templateBlocked blocks the use of a template that the CAPTCluster does not use yet. A template blocks no deletion.
func (v *VPC) templateBlocked() *Blocked {
	if !v.CAPTCluster.DeletionTimestamp.IsZero() || v.Template.inUse(v.Apply, v.CAPTCluster.Status.VPC.ID != "") {
		return nil
	}
	return v.Template.blocked()
}

// isNew reports whether the VPC would be created now.
func (v *VPC) isNew() bool {
	return v.Apply == nil && v.Cluster != nil && v.CAPTCluster.DeletionTimestamp.IsZero()
}

// waitingForControlPlane blocks a VPC before the control plane exists, which may give the EKS cluster another name than the Cluster: the tags of subnets
// that are shared with other clusters have that name.
func (v *VPC) waitingForControlPlane() *Blocked {
	if !v.isNew() || v.EKS != nil || !HasCAPTControlPlane(v.Cluster) {
		return nil
	}
	return &Blocked{infrav1.WaitingForControlPlaneReason, fmt.Sprintf(
		"waiting for CAPTControlPlane %s, which does not exist: it may set the name of the EKS cluster, which the VPC gets as %s. Create it, or correct spec.controlPlaneRef of the Cluster",
		v.Cluster.Spec.ControlPlaneRef.Name, naming.ClusterVariable)}
}

// eksNameBlocked blocks a VPC whose EKS cluster cannot be created because of its name.
func (v *VPC) eksNameBlocked() *Blocked {
	if !v.isNew() || v.EKS == nil {
		return nil
	}
	return eksNameBlocked(v.EKS, v.OtherClaims)
}

// clusterName returns the name of the Cluster; the value of the label if the Cluster no longer exists.
func (v *VPC) clusterName() string {
	if v.Cluster != nil {
		return v.Cluster.Name
	}
	return v.CAPTCluster.Labels[clusterv1.ClusterNameLabel]
}

// Want describes the WorkspaceTemplateApply; nil while the name of the Cluster is not known.
func (v *VPC) Want() *Want {
	cluster, template := v.clusterName(), v.CAPTCluster.Spec.VPC.Template
	if cluster == "" {
		return nil
	}
	eksName := cluster
	if v.EKS != nil {
		eksName = claim.EKSClusterName(v.EKS.ControlPlane, cluster)
	}
	return &Want{
		Expectation: claim.ExpectationOfCAPTCluster(v.CAPTCluster, eksName), Ref: v.CAPTCluster.Spec.WorkspaceTemplateApplyRef, ClusterName: cluster,
		Template: template.Ref, Intent: VPCIntent(v.CAPTCluster, eksName), DeletionPolicy: template.DeletionPolicy,
	}
}

// VPCID returns the ID of the VPC of a CAPTCluster, which may be nil; empty while it is unknown. For an existing VPC, spec is used if status has
// no ID: the controller of an externally managed CAPTCluster may not report it.
func VPCID(captCluster *infrav1.CAPTCluster) string {
	switch {
	case captCluster == nil:
		return ""
	case captCluster.Status.VPC.ID != "":
		return captCluster.Status.VPC.ID
	}
	return captCluster.Spec.VPC.ExistingID
}

// VPCSecret returns the name of the Secret that describes the VPC of a CAPTCluster, which may be nil; empty when no object names one.
func VPCSecret(captCluster *infrav1.CAPTCluster) string {
	switch {
	case captCluster == nil:
		return ""
	case captCluster.Spec.VPC.ConnectionSecretRef.IsDefined():
		return captCluster.Spec.VPC.ConnectionSecretRef.Name
	case !captCluster.Spec.VPC.Template.IsDefined():
		return ""
	}
	return naming.VPCConnectionSecret(captCluster.Name)
}
