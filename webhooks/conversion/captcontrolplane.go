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
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
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
	captControlPlaneUp   = preserve.New(captControlPlaneToHub, captControlPlaneToSpoke)
	captControlPlaneDown = preserve.New(captControlPlaneToSpoke, captControlPlaneToHub)
)

// ConvertCAPTControlPlaneV1Beta1ToHub converts a v1beta1 CAPTControlPlane to the hub. Values that v1beta2 does not allow are converted
// unchanged, because the intended value is unknown: an invalid version or CIDR, tags that AWS rejects, add-ons and profiles with the same
// name, and an endpoint that is neither public nor private.
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
	out.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint(deref(in.Spec.ControlPlaneEndpoint))
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
	config := deref(in.ControlPlaneConfig)
	out := controlplanev1.CAPTControlPlaneTemplateResourceSpec{
		Region:               config.Region,
		WorkspaceTemplateRef: templateRefToHub(in.WorkspaceTemplateRef),
		EndpointAccess:       convertPointer(config.EndpointAccess, endpointAccessToHub),
		Addons: convertList(config.Addons, func(a controlplanev1beta1.Addon) controlplanev1.Addon {
			return controlplanev1.Addon{Name: a.Name, Version: deref(a.Version), ConfigurationValues: deref(a.ConfigurationValues)}
		}),
		Timeouts:        timeoutsToHub(config.Timeouts),
		FargateProfiles: convertList(in.AdditionalFargateProfiles, fargateProfileToHub),
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
		AdditionalFargateProfiles: convertList(in.FargateProfiles, fargateProfileToSpoke),
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
			EndpointAccess: convertPointer(in.EndpointAccess, endpointAccessToSpoke),
			Addons: convertList(in.Addons, func(a controlplanev1.Addon) controlplanev1beta1.Addon {
				return controlplanev1beta1.Addon{
					Name: a.Name, Version: optional(a.Version), ConfigurationValues: optional(a.ConfigurationValues),
				}
			}),
			Timeouts: timeoutsToSpoke(in.Timeouts),
		}
	}
	return out
}

// endpointAccessToHub sets both endpoints explicitly. An absent endpoint is disabled in v1beta1, but an absent public endpoint is enabled
// in v1beta2: a private cluster would become public. v1beta2 allows neither publicCIDRs without a public endpoint nor duplicate CIDRs.
func endpointAccessToHub(in controlplanev1beta1.EndpointAccess) controlplanev1.EndpointAccess {
	out := controlplanev1.EndpointAccess{Public: endpointToHub(in.Public), Private: endpointToHub(in.Private)}
	if out.Public == controlplanev1.EndpointDisabled {
		return out
	}
	for _, cidr := range convertStrings[controlplanev1.CIDR](in.PublicCIDRs) {
		if !slices.Contains(out.PublicCIDRs, cidr) {
			out.PublicCIDRs = append(out.PublicCIDRs, cidr)
		}
	}
	return out
}

func endpointToHub(enabled *bool) controlplanev1.EndpointState {
	if deref(enabled) {
		return controlplanev1.EndpointEnabled
	}
	return controlplanev1.EndpointDisabled
}

func endpointAccessToSpoke(in controlplanev1.EndpointAccess) controlplanev1beta1.EndpointAccess {
	public, private := in.HasPublic(), in.HasPrivate()
	return controlplanev1beta1.EndpointAccess{Public: &public, Private: &private, PublicCIDRs: convertStrings[string](in.PublicCIDRs)}
}

func timeoutsToHub(in *controlplanev1beta1.TimeoutConfig) controlplanev1.Timeouts {
	if in == nil {
		return controlplanev1.Timeouts{}
	}
	return controlplanev1.Timeouts{
		ControlPlaneSeconds: toSeconds(in.ControlPlaneTimeout),
		VPCReadySeconds:     toSeconds(in.VPCReadyTimeout),
	}
}

func timeoutsToSpoke(in controlplanev1.Timeouts) *controlplanev1beta1.TimeoutConfig {
	if in == (controlplanev1.Timeouts{}) {
		return nil
	}
	return &controlplanev1beta1.TimeoutConfig{
		ControlPlaneTimeout: toMinutes(in.ControlPlaneSeconds, defaultControlPlaneMinutes),
		VPCReadyTimeout:     toMinutes(in.VPCReadySeconds, defaultVPCReadyMinutes),
	}
}

// toSeconds converts minutes to seconds, limited to the maximum of v1beta2, one day. v1beta1 has no maximum.
func toSeconds(minutes *int) int32 {
	if minutes == nil {
		return 0
	}
	return int32(min(max(*minutes, 1), maxTimeoutMinutes)) * 60 //nolint:gosec // The number is between 1 and maxTimeoutMinutes.
}

// toMinutes converts seconds to minutes, rounded up so that no timeout becomes shorter. Zero becomes the default of the CRD of v1beta1,
// which the API server would set on the next write.
func toMinutes(seconds int32, byDefault int) *int {
	n := byDefault
	if seconds != 0 {
		n = (int(seconds) + 59) / 60
	}
	return &n
}

func fargateProfileToHub(in controlplanev1beta1.AdditionalFargateProfile) controlplanev1.FargateProfile {
	return controlplanev1.FargateProfile{
		Name: in.Name,
		Selectors: convertRequiredList(in.Selectors, func(s controlplanev1beta1.FargateSelector) controlplanev1.FargateSelector {
			return controlplanev1.FargateSelector{Namespace: s.Namespace, Labels: copyMap(s.Labels)}
		}),
		WorkspaceTemplateRef: templateRefToHub(in.WorkspaceTemplateRef),
	}
}

func fargateProfileToSpoke(in controlplanev1.FargateProfile) controlplanev1beta1.AdditionalFargateProfile {
	return controlplanev1beta1.AdditionalFargateProfile{
		Name: in.Name,
		Selectors: convertRequiredList(in.Selectors, func(s controlplanev1.FargateSelector) controlplanev1beta1.FargateSelector {
			return controlplanev1beta1.FargateSelector{Namespace: s.Namespace, Labels: copyMap(s.Labels)}
		}),
		WorkspaceTemplateRef: templateRefToSpoke(in.WorkspaceTemplateRef),
	}
}
