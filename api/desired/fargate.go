// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// EKSCluster is an EKS cluster, for what runs in it.
type EKSCluster struct {
	// Name of the Cluster.
	Name string
	// EKSName is the name of the EKS cluster, as Terraform received it. That of an adopted one may differ from the name of the Cluster,
	// which may be the name of another EKS cluster.
	EKSName string
	// Region of the EKS cluster.
	Region string
	// Workspace of the control plane.
	Workspace string
	// ConnectionName is the connection Secret of the control plane.
	ConnectionName string
	// VPCSecretName is the Secret that describes the VPC; empty when no object names one.
	VPCSecretName string
}

// EKSCluster returns the EKS cluster of a control plane whose WorkspaceTemplateApply exists.
func (c *ControlPlane) EKSCluster() EKSCluster {
	spec := &c.Apply.Spec
	cluster := EKSCluster{
		Name: c.Cluster.Name, EKSName: spec.Variables.Text(naming.ClusterVariable), Region: cmp.Or(spec.Variables.Text(naming.RegionVariable), c.region()),
		Workspace: spec.WorkspaceName, ConnectionName: naming.ControlPlaneConnectionSecret(c.ControlPlane.Name), VPCSecretName: VPCSecret(c.CAPTCluster),
	}
	if ref := spec.WriteConnectionSecretToRef; ref != nil {
		cluster.ConnectionName = ref.Name
	}
	return cluster
}

// FargateProfile is a Fargate profile in spec of a control plane.
type FargateProfile struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	Profile      *controlplanev1.FargateProfile
	Cluster      EKSCluster
	Existing
	// Owned is a WorkspaceTemplateApply that the control plane controls and that is for a profile of this name; it may differ from the one that spec
	// refers to.
	Owned *infrav1.WorkspaceTemplateApply
	// Ready is true when Terraform has applied the control plane as spec wants it. Nothing is created or changed before.
	Ready bool
}

// WaitingForControlPlane is the message of a Fargate profile whose control plane is not ready.
const WaitingForControlPlane = "waiting for the control plane"

// Blocked returns why the WorkspaceTemplateApply is not written.
func (p *FargateProfile) Blocked() *Blocked {
	return Chain{p.Existing.blocked, p.Elsewhere, p.waitingForControlPlane}.First()
}

// Elsewhere blocks a profile that exists under another name than the one that spec refers to, which does not exist.
func (p *FargateProfile) Elsewhere() *Blocked {
	_, ref := ExpectationOfFargateProfile(p.Cluster.Name, p.Cluster.EKSName, p.Profile)
	if p.Apply != nil || p.Owned == nil || p.Owned.Name == ref.Name {
		return nil
	}
	return &Blocked{infrav1.ReferenceConflictReason, fmt.Sprintf("the profile exists with WorkspaceTemplateApply %s, and %s, which spec now selects, would create it a second time: nothing is written. "+
		"To use the latter, remove the profile from spec, and add it again after its deletion", p.Owned.Name, ref.Name)}
}

func (p *FargateProfile) waitingForControlPlane() *Blocked {
	if p.Ready {
		return nil
	}
	return &Blocked{controlplanev1.WaitingForWorkspaceReason, WaitingForControlPlane}
}

// ExpectationOfFargateProfile returns what spec expects of the WorkspaceTemplateApply of a profile, and a reference to it. Without a reference in
// spec, it has the name of the naming scheme, which is stable because the names of Cluster and profile are immutable. CAPT does not write the
// reference into spec, because the list would then differ from the one in Git.
func ExpectationOfFargateProfile(clusterName, eksName string, spec *controlplanev1.FargateProfile) (claim.Expectation, infrav1.WorkspaceTemplateApplyReference) {
	want, ref := claim.ExpectationOfFargateProfile(clusterName, spec), spec.WorkspaceTemplateApplyRef
	want.Variables[naming.ClusterVariable] = eksName
	if !ref.IsDefined() {
		ref = infrav1.WorkspaceTemplateApplyReference{Name: want.SchemeName}
	}
	return want, ref
}

// ProfileName returns the name of the Fargate profile that a WorkspaceTemplateApply is for.
func ProfileName(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(apply.Spec.Variables.Text(naming.ProfileVariable), apply.Name)
}

// HasProfile reports whether spec has the profile of a WorkspaceTemplateApply. One without a profile name is kept.
func HasProfile(controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) bool {
	name := apply.Spec.Variables.Text(naming.ProfileVariable)
	return name == "" || slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool {
		return p.Name == name || p.WorkspaceTemplateApplyRef.Name == apply.Name
	})
}

// ConnectionKeys returns the keys of the connection Secret that must have a value before a profile is created.
func ConnectionKeys() []string {
	return []string{terraform.OutputClusterName, terraform.OutputClusterEndpoint, terraform.OutputClusterCA}
}

// Want describes the WorkspaceTemplateApply. Its Workspace waits for that of the control plane, so that the profile is destroyed first when both are
// deleted.
func (p *FargateProfile) Want() *Want {
	c, namespace := &p.Cluster, p.ControlPlane.Namespace
	expectation, ref := ExpectationOfFargateProfile(c.Name, c.EKSName, p.Profile)
	return &Want{
		Expectation: expectation, Ref: ref, ClusterName: c.Name, Template: p.Profile.WorkspaceTemplateRef,
		Labels:            map[string]string{naming.SerializeLabel: naming.FargateProfilesGroup},
		Intent:            FargateIntent(p.ControlPlane, p.Profile, p.Cluster),
		WaitForWorkspaces: []infrav1.WorkspaceDependency{{Name: c.Workspace, Namespace: namespace}},
		WaitForSecrets: []infrav1.SecretDependency{
			{Name: c.ConnectionName, Namespace: namespace, Keys: ConnectionKeys()},
			{Name: c.VPCSecretName, Namespace: namespace, Keys: []string{terraform.OutputVPCConfig}},
		},
	}
}
