// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion/carry"
)

const (
	// The defaults of the timeouts in the CRD of v1beta1. An absent timeout of v1beta2 means the same.
	defaultControlPlaneMinutes, defaultVPCReadyMinutes = 30, 15

	// maxTimeoutMinutes is the maximum of the timeouts in the CRD of v1beta2.
	maxTimeoutMinutes = 24 * 60
)

// CAPTControlPlane is the converter of CAPTControlPlane.
var CAPTControlPlane = conversion.NewHubSpokeConverter(&controlplanev1.CAPTControlPlane{},
	conversion.NewSpokeConverter(&controlplanev1beta1.CAPTControlPlane{},
		ConvertCAPTControlPlaneHubToV1Beta1, ConvertCAPTControlPlaneV1Beta1ToHub),
)

var (
	captControlPlaneUp   = carry.New(captControlPlaneToHub, captControlPlaneToSpoke)
	captControlPlaneDown = carry.New(captControlPlaneToSpoke, captControlPlaneToHub)
)

// ConvertCAPTControlPlaneV1Beta1ToHub converts a v1beta1 CAPTControlPlane to the hub. Texts that v1beta2 does not allow
// (an invalid version, an invalid CIDR, tags that AWS would refuse), add-ons and profiles named twice, and an
// endpoint that is neither public nor private are converted unchanged: the intended value is unknown.
func ConvertCAPTControlPlaneV1Beta1ToHub(_ context.Context, src *controlplanev1beta1.CAPTControlPlane, dst *controlplanev1.CAPTControlPlane) error {
	return captControlPlaneUp.Convert(src, dst)
}

// ConvertCAPTControlPlaneHubToV1Beta1 converts a CAPTControlPlane of the hub to v1beta1.
func ConvertCAPTControlPlaneHubToV1Beta1(_ context.Context, src *controlplanev1.CAPTControlPlane, dst *controlplanev1beta1.CAPTControlPlane) error {
	return captControlPlaneDown.Convert(src, dst)
}

func captControlPlaneToHub(in *controlplanev1beta1.CAPTControlPlane, out *controlplanev1.CAPTControlPlane) {
	out.Spec.CAPTControlPlaneTemplateResourceSpec = controlPlaneSpecToHub(&in.Spec)
	out.Spec.Version = in.Spec.Version
	out.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint(value(in.Spec.ControlPlaneEndpoint))
	out.Spec.WorkspaceTemplateApplyRef = applyRefToHub(in.Spec.WorkspaceTemplateApplyName)
	out.Status = controlPlaneStatusToHub(in)
}

func captControlPlaneToSpoke(in *controlplanev1.CAPTControlPlane, out *controlplanev1beta1.CAPTControlPlane) {
	out.Spec = controlPlaneSpecToSpoke(&in.Spec.CAPTControlPlaneTemplateResourceSpec)
	out.Spec.Version = in.Spec.Version
	out.Spec.ControlPlaneEndpoint = optional(controlplanev1beta1.APIEndpoint(in.Spec.ControlPlaneEndpoint))
	out.Spec.WorkspaceTemplateApplyName = applyRefToSpoke(in.Spec.WorkspaceTemplateApplyRef)
	out.Status = controlPlaneStatusToSpoke(in)
}

// controlPlaneSpecToHub converts the fields that a CAPTControlPlane and a CAPTControlPlaneTemplate have in common.
func controlPlaneSpecToHub(in *controlplanev1beta1.CAPTControlPlaneSpec) controlplanev1.CAPTControlPlaneTemplateResourceSpec {
	config := value(in.ControlPlaneConfig)
	out := controlplanev1.CAPTControlPlaneTemplateResourceSpec{
		Region:               config.Region,
		WorkspaceTemplateRef: templateRefToHub(in.WorkspaceTemplateRef),
		EndpointAccess:       pointed(config.EndpointAccess, endpointAccessToHub),
		Addons: list(config.Addons, func(a controlplanev1beta1.Addon) controlplanev1.Addon {
			return controlplanev1.Addon{Name: a.Name, Version: value(a.Version), ConfigurationValues: value(a.ConfigurationValues)}
		}),
		Timeouts:        timeoutsToHub(config.Timeouts),
		FargateProfiles: list(in.AdditionalFargateProfiles, fargateProfileToHub),
	}
	if len(in.AdditionalTags) > 0 {
		out.AdditionalTags = make(map[string]controlplanev1.TagValue, len(in.AdditionalTags))
		for k, v := range in.AdditionalTags {
			out.AdditionalTags[k] = controlplanev1.TagValue(v)
		}
	}
	return out
}

func controlPlaneSpecToSpoke(in *controlplanev1.CAPTControlPlaneTemplateResourceSpec) controlplanev1beta1.CAPTControlPlaneSpec {
	out := controlplanev1beta1.CAPTControlPlaneSpec{
		WorkspaceTemplateRef:      templateRefToSpoke(in.WorkspaceTemplateRef),
		AdditionalFargateProfiles: list(in.FargateProfiles, fargateProfileToSpoke),
	}
	if len(in.AdditionalTags) > 0 {
		out.AdditionalTags = make(map[string]string, len(in.AdditionalTags))
		for k, v := range in.AdditionalTags {
			out.AdditionalTags[k] = string(v)
		}
	}
	if in.Region != "" || in.EndpointAccess != nil || len(in.Addons) > 0 || in.Timeouts != (controlplanev1.Timeouts{}) {
		out.ControlPlaneConfig = &controlplanev1beta1.ControlPlaneConfig{
			Region:         in.Region,
			EndpointAccess: pointed(in.EndpointAccess, endpointAccessToSpoke),
			Addons: list(in.Addons, func(a controlplanev1.Addon) controlplanev1beta1.Addon {
				return controlplanev1beta1.Addon{
					Name: a.Name, Version: optional(a.Version), ConfigurationValues: optional(a.ConfigurationValues),
				}
			}),
			Timeouts: timeoutsToSpoke(in.Timeouts),
		}
	}
	return out
}

// endpointAccessToHub sets both endpoints explicitly. An absent endpoint is disabled in v1beta1, but an absent public endpoint
// is enabled in v1beta2: a private cluster would become public. v1beta2 does not allow publicCIDRs without a public endpoint, nor
// a CIDR twice.
func endpointAccessToHub(in controlplanev1beta1.EndpointAccess) controlplanev1.EndpointAccess {
	out := controlplanev1.EndpointAccess{Public: endpointToHub(in.Public), Private: endpointToHub(in.Private)}
	if out.Public == controlplanev1.EndpointDisabled {
		return out
	}
	for _, cidr := range words[controlplanev1.CIDR](in.PublicCIDRs) {
		if !slices.Contains(out.PublicCIDRs, cidr) {
			out.PublicCIDRs = append(out.PublicCIDRs, cidr)
		}
	}
	return out
}

func endpointToHub(enabled *bool) controlplanev1.EndpointState {
	if value(enabled) {
		return controlplanev1.EndpointEnabled
	}
	return controlplanev1.EndpointDisabled
}

func endpointAccessToSpoke(in controlplanev1.EndpointAccess) controlplanev1beta1.EndpointAccess {
	public, private := in.HasPublic(), in.HasPrivate()
	return controlplanev1beta1.EndpointAccess{Public: &public, Private: &private, PublicCIDRs: words[string](in.PublicCIDRs)}
}

func timeoutsToHub(in *controlplanev1beta1.TimeoutConfig) controlplanev1.Timeouts {
	if in == nil {
		return controlplanev1.Timeouts{}
	}
	return controlplanev1.Timeouts{
		ControlPlaneSeconds: seconds(in.ControlPlaneTimeout),
		VPCReadySeconds:     seconds(in.VPCReadyTimeout),
	}
}

func timeoutsToSpoke(in controlplanev1.Timeouts) *controlplanev1beta1.TimeoutConfig {
	if in == (controlplanev1.Timeouts{}) {
		return nil
	}
	return &controlplanev1beta1.TimeoutConfig{
		ControlPlaneTimeout: minutes(in.ControlPlaneSeconds, defaultControlPlaneMinutes),
		VPCReadyTimeout:     minutes(in.VPCReadySeconds, defaultVPCReadyMinutes),
	}
}

// seconds converts minutes to seconds, limited to the maximum of v1beta2, one day. v1beta1 has no maximum.
func seconds(minutes *int) int32 {
	if minutes == nil {
		return 0
	}
	return int32(min(max(*minutes, 1), maxTimeoutMinutes)) * 60 //nolint:gosec // The number is between 1 and maxTimeoutMinutes.
}

// minutes converts seconds to minutes, rounded up so that no timeout becomes shorter. Zero becomes the default of the CRD of v1beta1, which
// the API server would set on the next write.
func minutes(seconds int32, byDefault int) *int {
	n := byDefault
	if seconds != 0 {
		n = (int(seconds) + 59) / 60
	}
	return &n
}

func fargateProfileToHub(in controlplanev1beta1.AdditionalFargateProfile) controlplanev1.FargateProfile {
	return controlplanev1.FargateProfile{
		Name: in.Name,
		Selectors: requiredList(in.Selectors, func(s controlplanev1beta1.FargateSelector) controlplanev1.FargateSelector {
			return controlplanev1.FargateSelector{Namespace: s.Namespace, Labels: table(s.Labels)}
		}),
		WorkspaceTemplateRef: templateRefToHub(in.WorkspaceTemplateRef),
	}
}

func fargateProfileToSpoke(in controlplanev1.FargateProfile) controlplanev1beta1.AdditionalFargateProfile {
	return controlplanev1beta1.AdditionalFargateProfile{
		Name: in.Name,
		Selectors: requiredList(in.Selectors, func(s controlplanev1.FargateSelector) controlplanev1beta1.FargateSelector {
			return controlplanev1beta1.FargateSelector{Namespace: s.Namespace, Labels: table(s.Labels)}
		}),
		WorkspaceTemplateRef: templateRefToSpoke(in.WorkspaceTemplateRef),
	}
}
