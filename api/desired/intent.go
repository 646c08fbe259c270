// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package desired computes what CAPT writes for an owner: owner and facts in, WorkspaceTemplateApply out. Controllers, admission and captctl
// call it, so that all of them give one answer.
package desired

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Intent is the part of a WorkspaceTemplateApply that its owner writes and that reaches the Workspace. Controllers write it. captctl
// migrate computes before an adoption which changes the controllers would write.
type Intent struct {
	Variables map[string]string
	// ConnectionSecret is the name of the connection Secret of a new WorkspaceTemplateApply. An existing one keeps its Secret, see For.
	ConnectionSecret string
}

// VPCIntent returns what a CAPTCluster with a template writes into the WorkspaceTemplateApply of its VPC.
func VPCIntent(captCluster *infrav1.CAPTCluster, cluster string) Intent {
	return Intent{Variables: vpcVariables(captCluster, cluster), ConnectionSecret: naming.VPCConnectionSecret(captCluster.Name)}
}

// vpcVariables returns the variables for the VPC template. Variables that CAPT sets take precedence over variables of the user.
func vpcVariables(captCluster *infrav1.CAPTCluster, cluster string) map[string]string {
	template := captCluster.Spec.VPC.Template
	out := make(map[string]string, len(template.Variables)+3)
	maps.Copy(out, template.Variables)
	out[naming.ClusterVariable] = cluster
	out[naming.VPCVariable] = claim.VPCName(captCluster)
	out[naming.RegionVariable] = captCluster.Spec.Region
	return out
}

// ControlPlaneInputs are the variables of a control plane that do not come from its own spec.
type ControlPlaneInputs struct {
	// Cluster is the name of the Cluster.
	Cluster string
	// EKSVersion is the Kubernetes version in EKS' form, for example 1.31.
	EKSVersion string
	Region     string
	// VPCID is empty while the VPC is not known.
	VPCID string
}

// ControlPlaneIntent returns what a CAPTControlPlane writes into the WorkspaceTemplateApply of its EKS cluster. Variables have the names
// that CAPT v0.3 used; maps and lists are JSON. Variables that CAPT sets take precedence over variables of the user. An error means
// that a value cannot be encoded as JSON.
func ControlPlaneIntent(controlPlane *controlplanev1.CAPTControlPlane, in ControlPlaneInputs) (Intent, error) {
	spec := &controlPlane.Spec
	out := make(map[string]string, len(spec.Variables)+len(spec.AdditionalTags)+10)
	maps.Copy(out, spec.Variables)
	out[naming.ClusterVariable] = in.Cluster
	out[naming.VersionVariable] = in.EKSVersion
	out[naming.RegionVariable] = in.Region

	access := ptr.Deref(spec.EndpointAccess, controlplanev1.EndpointAccess{})
	out[naming.PublicAccessVariable] = strconv.FormatBool(access.HasPublic())
	out[naming.PrivateAccessVariable] = strconv.FormatBool(access.HasPrivate())
	for tag, value := range spec.AdditionalTags {
		out[naming.TagPrefix+tag] = string(value)
	}
	for name, value := range map[string]any{
		naming.PublicAccessCIDRsVariable: orEmptyList(access.PublicCIDRs),
		naming.AddonsVariable:            orEmptyList(spec.Addons),
		naming.TagsVariable:              orEmptyMap(spec.AdditionalTags),
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return Intent{}, fmt.Errorf("encoding variable %s: %w", name, err)
		}
		out[name] = string(text)
	}
	if in.VPCID != "" {
		out[naming.VPCIDVariable] = in.VPCID
	}
	return Intent{Variables: out, ConnectionSecret: naming.ControlPlaneConnectionSecret(controlPlane.Name)}, nil
}

// FargateInputs are the variables of a Fargate profile that do not come from its spec. Secrets are passed by name, so that a template for many
// clusters can read them through varFiles.
type FargateInputs struct {
	// Cluster is the name of the Cluster, EKSName that of the EKS cluster as Terraform received it.
	Cluster, EKSName string
	// Region of the EKS cluster.
	Region string
	// Connection is the connection Secret of the control plane, VPCSecret the one that describes the VPC.
	Connection, VPCSecret string
}

// FargateIntent returns what a CAPTControlPlane writes into the WorkspaceTemplateApply of a Fargate profile; api/validation lists the
// variables. Maps and lists are JSON.
func FargateIntent(controlPlane *controlplanev1.CAPTControlPlane, profile *controlplanev1.FargateProfile, in FargateInputs) (Intent, error) {
	out := map[string]string{
		naming.ClusterVariable:       in.EKSName,
		naming.ProfileVariable:       profile.Name,
		naming.RegionVariable:        in.Region,
		naming.EKSConnectionVariable: in.Connection,
		naming.VPCConnectionVariable: in.VPCSecret,
	}
	for name, value := range map[string]any{naming.SelectorsVariable: profile.Selectors, naming.TagsVariable: orEmptyMap(controlPlane.Spec.AdditionalTags)} {
		text, err := json.Marshal(value)
		if err != nil {
			return Intent{}, fmt.Errorf("encoding variable %s: %w", name, err)
		}
		out[name] = string(text)
	}
	return Intent{Variables: out, ConnectionSecret: naming.FargateConnectionSecret(in.Cluster, profile.Name)}, nil
}

func orEmptyList[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orEmptyMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// For returns the intent for an existing WorkspaceTemplateApply, or for a new one if apply is nil. An existing WorkspaceTemplateApply keeps
// the values of its identity variables, and the name of its connection Secret, which other clients may read. If it was adopted without a
// connection Secret, it does not get one.
func (in Intent) For(apply *infrav1.WorkspaceTemplateApply) Intent {
	out := Intent{Variables: maps.Clone(in.Variables), ConnectionSecret: in.ConnectionSecret}
	if out.Variables == nil {
		out.Variables = map[string]string{}
	}
	if apply == nil {
		return out
	}
	for _, identity := range naming.IdentityVariables() {
		if value, ok := apply.Spec.Variables[identity]; ok {
			out.Variables[identity] = value
		}
	}
	switch ref := apply.Spec.WriteConnectionSecretToRef; {
	case ref != nil && ref.Name != "":
		out.ConnectionSecret = ref.Name
	case wasAdopted(apply):
		out.ConnectionSecret = "" // Only the template may name a Secret: a name here would change the Workspace.
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

// wasAdopted reports whether a WorkspaceTemplateApply was adopted: its Workspace is cluster-scoped, and does not have the name that the
// naming scheme gives to a new one.
func wasAdopted(apply *infrav1.WorkspaceTemplateApply) bool {
	ref := apply.Status.WorkspaceRef
	key := naming.KeyOf(apply)
	return ref != nil && ref.Namespace == "" && ref.Name != naming.Workspace(terraform.ScopeCluster, key)
}

// AppliedTo returns a copy of a WorkspaceTemplateApply with the intent written into it. Variables that the intent does not set are kept.
func (in Intent) AppliedTo(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	after, want := apply.DeepCopy(), in.For(apply)
	if after.Spec.Variables == nil {
		after.Spec.Variables = map[string]string{}
	}
	maps.Copy(after.Spec.Variables, want.Variables)
	if want.ConnectionSecret != "" {
		after.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: want.ConnectionSecret, Namespace: apply.Namespace}
	}
	return after
}
