// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Intent is what an owner writes into its WorkspaceTemplateApply, as far as that reaches the Workspace. Controllers write it;
// captctl asks before an adoption what it would change.
type Intent struct {
	Variables map[string]string
	// ConnectionSecret is the name that the Secret of a new WorkspaceTemplateApply gets; one that exists keeps its own.
	ConnectionSecret string
}

// OfCAPTCluster is what a CAPTCluster expects for its VPC. The name of the Cluster is empty while it
// is not known.
func OfCAPTCluster(captCluster *infrav1.CAPTCluster, cluster string) Expectation {
	want := Expectation{
		SchemeName: naming.VPCWorkspaceTemplateApply(captCluster.Name),
		Legacy:     LegacyStatus(captCluster.Status.ObservedGeneration, captCluster.Status.Conditions),
		Variables:  map[string]string{naming.ClusterVariable: cluster},
	}
	if template := captCluster.Spec.VPC.Template; template.IsDefined() {
		want.Template, want.Variables = template.Ref, vpcVariables(captCluster, cluster)
		if captCluster.Status.VPC.ID != "" {
			want.Built = "status.vpc.id"
		}
	}
	if known := captCluster.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	return want
}

// VPCIntent is what a CAPTCluster with a template writes for its VPC.
func VPCIntent(captCluster *infrav1.CAPTCluster, cluster string) Intent {
	return Intent{Variables: vpcVariables(captCluster, cluster), ConnectionSecret: naming.VPCConnectionSecret(captCluster.Name)}
}

// vpcVariables for the VPC template. Those CAPT sets take precedence over the user's.
func vpcVariables(captCluster *infrav1.CAPTCluster, cluster string) map[string]string {
	template := captCluster.Spec.VPC.Template
	out := make(map[string]string, len(template.Variables)+3)
	maps.Copy(out, template.Variables)
	out[naming.ClusterVariable] = cluster
	out[naming.VPCVariable] = template.Name
	if template.Name == "" {
		out[naming.VPCVariable] = naming.VPC(captCluster.Name)
	}
	out[naming.RegionVariable] = captCluster.Spec.Region
	return out
}

// OfControlPlane is what a CAPTControlPlane expects for its EKS cluster. The name of the Cluster is empty while it is not known.
func OfControlPlane(controlPlane *controlplanev1.CAPTControlPlane, cluster string) Expectation {
	want := Expectation{
		SchemeName: naming.ControlPlaneWorkspaceTemplateApply(controlPlane.Name),
		Template:   controlPlane.Spec.WorkspaceTemplateRef,
		Legacy:     LegacyStatus(controlPlane.Status.ObservedGeneration, controlPlane.Status.Conditions),
		Variables:  map[string]string{naming.ClusterVariable: cluster},
	}
	if known := controlPlane.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	switch {
	case controlPlane.Spec.ControlPlaneEndpoint.Host != "":
		want.Built = "spec.controlPlaneEndpoint"
	case ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false):
		want.Built = "status.initialization"
	}
	return want
}

// Surroundings are what a control plane's variables hold besides its own spec.
type Surroundings struct {
	// Cluster is the name of the Cluster.
	Cluster string
	// EKSVersion is the Kubernetes version in EKS' form, for example 1.31.
	EKSVersion string
	Region     string
	// VPCID is empty while the VPC is not known.
	VPCID string
}

// ControlPlaneIntent is what a CAPTControlPlane writes for its EKS cluster: variables under the names that CAPT v0.3 gave
// them, maps and lists as JSON. Those CAPT sets take precedence over the user's.
func ControlPlaneIntent(controlPlane *controlplanev1.CAPTControlPlane, in Surroundings) (Intent, error) {
	spec := &controlPlane.Spec
	out := make(map[string]string, len(spec.Variables)+len(spec.AdditionalTags)+10)
	maps.Copy(out, spec.Variables)
	out[naming.ClusterVariable] = in.Cluster
	out[naming.VersionVariable] = in.EKSVersion
	out[naming.RegionVariable] = in.Region

	access := ptr.Deref(spec.EndpointAccess, controlplanev1.EndpointAccess{})
	out["endpoint_public_access"] = strconv.FormatBool(access.HasPublic())
	out["endpoint_private_access"] = strconv.FormatBool(access.HasPrivate())
	for tag, value := range spec.AdditionalTags {
		out["tags_"+tag] = string(value)
	}
	for name, value := range map[string]any{
		"endpoint_public_access_cidrs": orEmptyList(access.PublicCIDRs),
		"addons":                       orEmptyList(spec.Addons),
		"tags":                         orEmptyMap(spec.AdditionalTags),
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

// For is the intent for a WorkspaceTemplateApply that exists, or nil: variables that are the identity of cloud resources keep the
// value they have, and so does the connection Secret, which others may read by its name. One that was adopted without a Secret gets none.
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
	case ofLegacy(apply):
		out.ConnectionSecret = "" // The template says it, or there is none. Another one would change the Workspace.
	}
	return out
}

// ofLegacy reports whether a WorkspaceTemplateApply was adopted: its Workspace is cluster-wide, and has the name that CAPT v0.3
// gave, or another one that today's naming scheme does not give.
func ofLegacy(apply *infrav1.WorkspaceTemplateApply) bool {
	ref := apply.Status.WorkspaceRef
	key := types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name}
	return ref != nil && ref.Namespace == "" && ref.Name != naming.Workspace(terraform.ScopeCluster, key)
}

// Upon returns a WorkspaceTemplateApply as it is once its owner has written the intent into it. Variables of others stay.
func (in Intent) Upon(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
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
