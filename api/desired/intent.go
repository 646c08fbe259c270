// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package desired computes what CAPT writes for an owner: owner and facts in, WorkspaceTemplateApply out. Controllers, admission and captctl
// call it, so that all of them give one answer.
package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// Intent is the part of a WorkspaceTemplateApply that its owner writes and that reaches the Workspace. Controllers write it. captctl
// migrate computes before an adoption which changes the controllers would write.
type Intent struct {
	Variables infrav1.Variables
	// Network are variables from the network of the Cluster, for a new WorkspaceTemplateApply only: EKS cannot change the network of a cluster.
	Network map[string]string
	// ConnectionSecret is the name of the connection Secret of a new WorkspaceTemplateApply. An existing one keeps its Secret, see For.
	ConnectionSecret string
}

// VPCIntent returns what a CAPTCluster with a template writes into the WorkspaceTemplateApply of its VPC. As in all intents, variables that CAPT sets
// take precedence over variables of the user. cluster is the name of the EKS cluster, which tags of subnets contain.
func VPCIntent(captCluster *infrav1.CAPTCluster, cluster string) Intent {
	template := captCluster.Spec.VPC.Template
	return Intent{
		Variables: with(template.Variables, map[string]string{
			naming.ClusterVariable: cluster, naming.VPCVariable: claim.VPCName(captCluster), naming.RegionVariable: captCluster.Spec.Region,
		}),
		ConnectionSecret: naming.VPCConnectionSecret(captCluster.Name),
	}
}

// with returns the variables of a user, overridden by those that CAPT sets.
func with(given infrav1.Variables, set map[string]string) infrav1.Variables {
	out := infrav1.TextVariables(set)
	for name, value := range given {
		if !out.Has(name) {
			out[name] = value
		}
	}
	return out
}

// Intent returns what is written into the WorkspaceTemplateApply for the Cluster with a name and the VPC with an ID, which is empty while it is not known.
// Variables have the names that CAPT v0.3 used; maps and lists are JSON.
func (c *ControlPlane) Intent(cluster, vpcID string) (Intent, error) {
	if c.VersionError != nil {
		return Intent{}, fmt.Errorf("spec.version: %w", c.VersionError)
	}
	spec := &c.ControlPlane.Spec
	out := make(map[string]string, len(spec.AdditionalTags)+10)
	out[naming.ClusterVariable] = claim.EKSClusterName(c.ControlPlane, cluster)
	out[naming.VersionVariable] = c.Version.EKS
	out[naming.RegionVariable] = c.region()

	access := ptr.Deref(spec.EndpointAccess, controlplanev1.EndpointAccess{})
	out[naming.PublicAccessVariable] = strconv.FormatBool(access.HasPublic())
	out[naming.PrivateAccessVariable] = strconv.FormatBool(access.HasPrivate())
	for tag, value := range spec.AdditionalTags {
		out[naming.TagPrefix+tag] = string(value)
	}
	out[naming.PublicAccessCIDRsVariable] = listOf(access.PublicCIDRs)
	out[naming.AddonsVariable] = listOf(spec.Addons)
	out[naming.TagsVariable] = tagsOf(c.ControlPlane)
	if vpcID != "" {
		out[naming.VPCIDVariable] = vpcID
	}
	return Intent{with(spec.Variables, out), c.network(), naming.ControlPlaneConnectionSecret(c.ControlPlane.Name)}, nil
}

// network returns the variables of the Cluster's network for a new control plane, without those that the user sets, or that its template does not use: if
// a later content of the template used them, Terraform would replace the EKS cluster. EKS has one IP family, and a single network of services.
func (c *ControlPlane) network() map[string]string {
	out := map[string]string{}
	if c.Cluster == nil || c.Apply != nil {
		return out
	}
	network := &c.Cluster.Spec.ClusterNetwork
	for name, blocks := range map[string][]string{naming.ServiceCIDRVariable: network.Services.CIDRBlocks, naming.PodCIDRVariable: network.Pods.CIDRBlocks} {
		if len(blocks) > 0 {
			out[name] = blocks[0]
		}
	}
	if cidr, err := netip.ParsePrefix(cmp.Or(out[naming.ServiceCIDRVariable], out[naming.PodCIDRVariable])); err == nil {
		out[naming.IPFamilyVariable] = "ipv4"
		if cidr.Addr().Is6() {
			out[naming.IPFamilyVariable] = "ipv6"
		}
	}
	if c.Template == nil || c.Template.Template == nil {
		return nil // It blocks the creation.
	}
	used := validation.UsedVariables(c.Template.Template)
	maps.DeleteFunc(out, func(name, _ string) bool { return c.ControlPlane.Spec.Variables.Has(name) || !used.Has(name) })
	return out
}

// FargateIntent returns what a CAPTControlPlane writes into the WorkspaceTemplateApply of a Fargate profile; api/validation lists the
// variables. Maps and lists are JSON. Secrets are passed by name, so that a template for many clusters can read them through varFiles.
func FargateIntent(controlPlane *controlplanev1.CAPTControlPlane, profile *controlplanev1.FargateProfile, cluster EKSCluster) Intent {
	return Intent{Variables: infrav1.TextVariables(map[string]string{
		naming.ClusterVariable:       cluster.EKSName,
		naming.ProfileVariable:       profile.Name,
		naming.RegionVariable:        cluster.Region,
		naming.EKSConnectionVariable: cluster.ConnectionName,
		naming.VPCConnectionVariable: cluster.VPCSecretName,
		naming.SelectorsVariable:     listOf(profile.Selectors),
		naming.TagsVariable:          tagsOf(controlPlane),
	}), ConnectionSecret: naming.FargateConnectionSecret(cluster.Name, profile.Name)}
}

// listOf encodes a list as JSON. Its elements have only strings, which can always be encoded.
func listOf[T any](list []T) string {
	text, _ := json.Marshal(append([]T{}, list...))
	return string(text)
}

// tagsOf encodes the tags of a control plane as JSON.
func tagsOf(controlPlane *controlplanev1.CAPTControlPlane) string {
	tags := map[string]controlplanev1.TagValue{}
	maps.Copy(tags, controlPlane.Spec.AdditionalTags)
	text, _ := json.Marshal(tags) // It has only strings.
	return string(text)
}

// For returns the intent for an existing WorkspaceTemplateApply, or for a new one if apply is nil. An existing WorkspaceTemplateApply keeps
// the values of its identity variables, and the name of its connection Secret, which other clients may read. If it was adopted without a
// connection Secret, it does not get one.
func (in Intent) For(apply *infrav1.WorkspaceTemplateApply) Intent {
	out := Intent{Variables: maps.Clone(in.Variables), ConnectionSecret: in.ConnectionSecret}
	if out.Variables == nil {
		out.Variables = infrav1.Variables{}
	}
	if apply == nil {
		maps.Copy(out.Variables, infrav1.TextVariables(in.Network))
		return out
	}
	// The network is as it was at the creation, unless the user sets it.
	for _, name := range append(naming.IdentityVariables(), slices.DeleteFunc(naming.NetworkVariables(), out.Variables.Has)...) {
		if value, ok := apply.Spec.Variables[name]; ok {
			out.Variables[name] = value
		}
	}
	switch ref, recorded := apply.Spec.WriteConnectionSecretToRef, apply.Status.WorkspaceRef; {
	case ref != nil && ref.Name != "":
		out.ConnectionSecret = ref.Name
	case recorded != nil && recorded.Namespace == "" && recorded.Name != naming.Workspace(terraform.ScopeCluster, naming.KeyOf(apply)):
		out.ConnectionSecret = "" // It was adopted, and only the template may name a Secret: a name here would change the Workspace.
	}
	return out
}

// Spec returns the part of the spec of a WorkspaceTemplateApply in a namespace that determines the Workspace.
func (in Intent) Spec(namespace string, template infrav1.WorkspaceTemplateReference) infrav1.WorkspaceTemplateApplySpec {
	if template.Namespace == "" {
		template.Namespace = namespace // Explicit: without the field, a value of another field manager would be kept.
	}
	spec := infrav1.WorkspaceTemplateApplySpec{TemplateRef: template, Variables: in.Variables}
	if in.ConnectionSecret != "" {
		spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: in.ConnectionSecret, Namespace: namespace}
	}
	return spec
}

// AppliedTo returns a copy of a WorkspaceTemplateApply with the intent written into it. Variables that the intent does not set are kept.
func (in Intent) AppliedTo(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	after, want := apply.DeepCopy(), in.For(apply)
	if after.Spec.Variables == nil {
		after.Spec.Variables = infrav1.Variables{}
	}
	maps.Copy(after.Spec.Variables, want.Variables)
	if want.ConnectionSecret != "" {
		after.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: want.ConnectionSecret, Namespace: apply.Namespace}
	}
	return after
}
