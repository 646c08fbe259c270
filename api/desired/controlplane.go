// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// ControlPlane is an EKS control plane.
type ControlPlane struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	// Cluster is nil until Cluster API has set the owner reference.
	Cluster *clusterv1.Cluster
	// CAPTCluster of the Cluster; nil when it does not exist, or the Cluster uses another provider.
	CAPTCluster *infrav1.CAPTCluster
	Existing
	Template *TemplateFacts
	// Version is spec.version, parsed; VersionError is why it cannot be.
	Version      validation.KubernetesVersion
	VersionError error
	// OtherClaims are the control planes that may have the EKS cluster of this one; not read once it is being created.
	OtherClaims []validation.EKSClaim
	// NodeGroups are those of the Cluster.
	NodeGroups []validation.NodeGroup
	// Cycle describes objects that depend on each other; CycleBlocks is true if the control plane depends on them.
	Cycle       string
	CycleBlocks bool
}

// NewControlPlane returns a control plane with its version. Cluster and CAPTCluster may be nil.
func NewControlPlane(controlPlane *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster, captCluster *infrav1.CAPTCluster) *ControlPlane {
	c := &ControlPlane{ControlPlane: controlPlane, Cluster: cluster, CAPTCluster: captCluster}
	c.Version, c.VersionError = validation.ParseKubernetesVersion(controlPlane.Spec.Version)
	return c
}

// Blocked returns why the WorkspaceTemplateApply is not written.
func (c *ControlPlane) Blocked() *Blocked {
	return Chain{
		c.waitingForOwner, c.invalidVersion, c.Existing.blocked, c.eksNameBlocked, c.templateBlocked, c.regionConflict, c.dependencyCycle, c.waitingForInfrastructure,
		c.regionMissing, c.regionChanged, c.versionStep,
	}.First()
}

// TemplateBlocks reports whether the template is among what blocks.
func (c *ControlPlane) TemplateBlocks() bool { return c.Cluster != nil && c.templateBlocked() != nil }

// waitingForOwner blocks a control plane that no Cluster owns.
func (c *ControlPlane) waitingForOwner() *Blocked {
	if c.Cluster != nil {
		return nil
	}
	return &Blocked{infrav1.WaitingForOwnerReason,
		"no Cluster owns this object. Create a Cluster whose spec.controlPlaneRef names it; if it exists, check that it is not paused and that Cluster API runs"}
}

func (c *ControlPlane) invalidVersion() *Blocked {
	return blockedBy(infrav1.InvalidVersionReason, "spec.version: ", c.VersionError)
}

// templateBlocked blocks the use of a template that the control plane does not use yet.
func (c *ControlPlane) templateBlocked() *Blocked {
	if c.Template.inUse(c.Apply, claim.ExpectationOfControlPlane(c.ControlPlane, c.Cluster.Name).ProvisionedField != "") {
		return nil
	}
	if blocked := c.Template.blocked(); blocked != nil {
		return blocked
	}
	return c.networkUnknown()
}

// networkUnknown blocks a new control plane with a network while its template does not exist: whether the template uses the network is decided at creation.
func (c *ControlPlane) networkUnknown() *Blocked {
	if c.Apply != nil || c.Template == nil || c.Template.Template != nil || len(validation.NetworkFields(c.Cluster)) == 0 {
		return nil
	}
	return &Blocked{infrav1.TemplateNotFoundReason, fmt.Sprintf("nothing is created: WorkspaceTemplate %s does not exist, or does not allow this namespace, and whether it uses the network of the Cluster must be known at creation. "+
		"Create it, or add the namespace to its spec.allowedNamespaces", c.Template.Key)}
}

// eksNameBlocked blocks a control plane whose EKS cluster cannot be created because of its name.
func (c *ControlPlane) eksNameBlocked() *Blocked {
	own := c.Claim()
	return eksNameBlocked(&own, c.OtherClaims)
}

// Claim returns what determines the EKS cluster.
func (c *ControlPlane) Claim() validation.EKSClaim {
	own := validation.EKSClaim{ControlPlane: c.ControlPlane, Cluster: claim.ClusterName(c.ControlPlane), CAPTCluster: c.CAPTCluster, Apply: c.Apply, Template: c.Template.Template}
	if c.Cluster != nil {
		own.Cluster = c.Cluster.Name
	}
	return own
}

func eksNameBlocked(own *validation.EKSClaim, others []validation.EKSClaim) *Blocked {
	return cmp.Or(
		blockedBy(infrav1.InvalidEKSClusterNameReason, "nothing is created: ", own.InvalidName()),
		blockedBy(infrav1.EKSClusterNameConflictReason, "nothing is created: ", own.Conflict(others)))
}

// Region is the region of the control plane; empty while it is not known.
func (c *ControlPlane) region() string { return validation.Region(c.ControlPlane, c.CAPTCluster) }

// regionConflict blocks a control plane whose region is not that of its VPC.
func (c *ControlPlane) regionConflict() *Blocked {
	return blockedBy(controlplanev1.RegionConflictReason, "", validation.RegionConflict(c.ControlPlane, c.CAPTCluster, c.Apply))
}

// dependencyCycle replaces a wait for the VPC that would never end.
func (c *ControlPlane) dependencyCycle() *Blocked {
	if !c.CycleBlocks || c.InfrastructureReady() {
		return nil
	}
	return &Blocked{controlplanev1.DependencyCycleReason, c.Cycle}
}

// InfrastructureReady reports whether the VPC exists. For other providers, the status of the Cluster counts. A new control plane waits until the VPC is
// ready, and until the CAPTCluster has recorded the one that replaced another.
func (c *ControlPlane) InfrastructureReady() bool {
	if c.Cluster == nil || !ptr.Deref(c.Cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return false
	}
	return !HasCAPTCluster(c.Cluster) || VPCID(c.CAPTCluster) != "" && (c.Apply != nil || c.CAPTCluster.Status.VPC.ReplacedBy == "" && !c.vpcNotReady())
}

// vpcNotReady reports whether the VPC of a template is reported as not ready. Its recorded ID may belong to a destroyed VPC, because its
// WorkspaceTemplateApply was deleted.
func (c *ControlPlane) vpcNotReady() bool {
	ready := meta.FindStatusCondition(c.CAPTCluster.Status.Conditions, infrav1.VPCReadyCondition)
	return c.CAPTCluster.Spec.VPC.Template.IsDefined() && ready != nil && ready.Status != metav1.ConditionTrue
}

// HasCAPTCluster reports whether the infrastructure of a Cluster is a CAPTCluster.
func HasCAPTCluster(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.Kind == "CAPTCluster" && ref.APIGroup == infrav1.GroupVersion.Group
}

// HasCAPTControlPlane reports whether the control plane of a Cluster is a CAPTControlPlane.
func HasCAPTControlPlane(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.ControlPlaneRef
	return ref.Kind == "CAPTControlPlane" && ref.APIGroup == controlplanev1.GroupVersion.Group
}

func (c *ControlPlane) waitingForInfrastructure() *Blocked {
	if c.InfrastructureReady() {
		return nil
	}
	return &Blocked{controlplanev1.WaitingForInfrastructureReason, c.infrastructureMessage()}
}

// infrastructureMessage includes the cause that the CAPTCluster reports.
func (c *ControlPlane) infrastructureMessage() string {
	if !HasCAPTCluster(c.Cluster) {
		message := fmt.Sprintf("waiting for Cluster API to report the infrastructure of Cluster %s as provisioned", c.Cluster.Name)
		if ref := c.Cluster.Spec.InfrastructureRef; ref.IsDefined() {
			message += fmt.Sprintf("; its spec.infrastructureRef refers to %s %s (%s), not to a CAPTCluster", ref.Kind, ref.Name, ref.APIGroup)
		}
		return message
	}
	name := c.Cluster.Spec.InfrastructureRef.Name
	if c.CAPTCluster == nil {
		return fmt.Sprintf("waiting for CAPTCluster %s, which does not exist. Create it, or correct spec.infrastructureRef of the Cluster", name)
	}
	switch ready := meta.FindStatusCondition(c.CAPTCluster.Status.Conditions, infrav1.ReadyCondition); {
	case c.vpcInProgress(ready):
		return fmt.Sprintf("waiting for Terraform to create the VPC of CAPTCluster %s", name)
	case ready != nil && ready.Status == metav1.ConditionTrue:
		return fmt.Sprintf("CAPTCluster %s is Ready; waiting until Cluster API reports the infrastructure of Cluster %s as provisioned", name, c.Cluster.Name)
	case ready != nil && ready.Message != "":
		return fmt.Sprintf("waiting for CAPTCluster %s: %s", name, ready.Message)
	}
	return fmt.Sprintf("waiting for CAPTCluster %s to be provisioned", name)
}

// vpcInProgress reports whether Terraform creates the VPC, or is about to: the CAPTCluster may not have reported yet that the Cluster owns it.
func (c *ControlPlane) vpcInProgress(ready *metav1.Condition) bool {
	owned := claim.OwnerCluster(c.CAPTCluster) == c.Cluster.Name
	started := ready == nil && owned || ready != nil && (ready.Reason == infrav1.ProvisioningReason || ready.Reason == infrav1.NotReportedReason || owned && (ready.Reason == infrav1.WaitingForOwnerReason || ready.Reason == infrav1.WaitingForControlPlaneReason))
	return started && c.CAPTCluster.Spec.VPC.Template.IsDefined() && !meta.IsStatusConditionTrue(c.CAPTCluster.Status.Conditions, clusterv1.PausedCondition)
}

// regionMissing blocks a control plane whose region is known neither from its spec nor from the infrastructure.
func (c *ControlPlane) regionMissing() *Blocked {
	if c.region() != "" {
		return nil
	}
	return &Blocked{controlplanev1.RegionConflictReason, "spec.region is empty, and the infrastructure of the Cluster has no region. Set spec.region"}
}

// regionChanged blocks a change of region, for which Terraform would replace the running cluster.
func (c *ControlPlane) regionChanged() *Blocked {
	return blockedBy(controlplanev1.RegionConflictReason, "", validation.RegionChange(c.ControlPlane, c.CAPTCluster, c.Apply))
}

// versionStep blocks an update that EKS would reject. A version that the WorkspaceTemplateApply already has is not an update.
func (c *ControlPlane) versionStep() *Blocked {
	from := validation.CurrentVersions(c.ControlPlane, c.Apply)
	if from.Requested == c.Version.EKS {
		return nil
	}
	_, err := validation.ValidateVersionChange(from, c.Version.EKS)
	if err == nil {
		err = validation.ValidateVersionOfNodes(from, c.Version.EKS, c.NodeGroups)
	}
	return blockedBy(infrav1.InvalidVersionReason, "spec.version: ", err)
}

// Want describes the WorkspaceTemplateApply.
func (c *ControlPlane) Want() *Want {
	intent, _ := c.Intent(c.Cluster.Name, VPCID(c.CAPTCluster)) // An invalid version blocks it.
	return &Want{
		Expectation: claim.ExpectationOfControlPlane(c.ControlPlane, c.Cluster.Name), Ref: c.ControlPlane.Spec.WorkspaceTemplateApplyRef,
		ClusterName: c.Cluster.Name, Template: c.ControlPlane.Spec.WorkspaceTemplateRef,
		Intent: intent, WaitForWorkspaces: c.vpcWorkspace(), WaitForSecrets: c.vpcSecret(),
	}
}

// vpcWorkspace returns the Workspace of the VPC, on which the Workspace of the control plane depends. It is known when the control plane is created,
// because that waits for the VPC. While it is not known later, because the WorkspaceTemplateApply of the VPC was recreated, the dependency stays.
func (c *ControlPlane) vpcWorkspace() []infrav1.WorkspaceDependency {
	if c.CAPTCluster == nil {
		return nil
	}
	summary := c.CAPTCluster.Status.WorkspaceTemplateApply
	switch known := summary != nil && summary.WorkspaceName != ""; {
	case !known && c.Apply != nil && c.CAPTCluster.Spec.VPC.Template.IsDefined():
		return c.Apply.Spec.WaitForWorkspaces
	case !known:
		return nil
	}
	return []infrav1.WorkspaceDependency{{Name: summary.WorkspaceName, Namespace: c.CAPTCluster.Namespace}}
}

// vpcSecret returns the dependency on the Secret with the subnets of an existing VPC. The Secret may be created after the CAPTCluster, and
// Terraform would fail without it.
func (c *ControlPlane) vpcSecret() []infrav1.SecretDependency {
	if c.CAPTCluster == nil || !c.CAPTCluster.Spec.VPC.ConnectionSecretRef.IsDefined() {
		return nil
	}
	return []infrav1.SecretDependency{{
		Name: c.CAPTCluster.Spec.VPC.ConnectionSecretRef.Name, Namespace: c.CAPTCluster.Namespace, Keys: []string{terraform.OutputVPCConfig},
	}}
}
