// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

const (
	// The defaults of the timeouts in the CRD of v1beta1. An absent timeout of v1beta2 means the same.
	defaultControlPlaneMinutes, defaultVPCReadyMinutes = 30, 15

	// maxTimeoutMinutes is the maximum of the timeouts in the CRD of v1beta2.
	maxTimeoutMinutes = 24 * 60
)

// CAPTControlPlane converts CAPTControlPlanes. Values that v1beta2 does not allow are converted unchanged, because the intended value is unknown: an
// invalid version or CIDR, tags that AWS rejects, add-ons and profiles with the same name, and an endpoint that is neither public nor private.
var CAPTControlPlane = newKind(captControlPlaneToHub, captControlPlaneToSpoke)

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

func controlPlaneStatusToHub(in *controlplanev1beta1.CAPTControlPlane) controlplanev1.CAPTControlPlaneStatus {
	status := in.Status
	status.ConversionData = "" // It has only the fields that the other version does not have.
	if reflect.ValueOf(status).IsZero() {
		return controlplanev1.CAPTControlPlaneStatus{}
	}
	external := true // Part of the contract; it has no field in v1beta1.
	return controlplanev1.CAPTControlPlaneStatus{
		Conditions:                  controlPlaneConditionsToHub(in),
		Initialization:              controlplanev1.CAPTControlPlaneInitializationStatus{ControlPlaneInitialized: copyPointer(status.Initialized)},
		ExternalManagedControlPlane: &external,
		Phase:                       controlplanev1.Phase(deref(status.Phase)),
		WorkspaceTemplateApply:      controlPlaneSummaryToHub(in),
		FargateProfiles: convertList(status.FargateProfileStatuses, func(p controlplanev1beta1.FargateProfileStatus) controlplanev1.FargateProfileStatus {
			return controlplanev1.FargateProfileStatus{
				Name: p.Name, Ready: statusToHub(p.Ready), WorkspaceTemplateApplyName: deref(p.WorkspaceTemplateApplyName),
				FailureReason: deref(p.FailureReason), FailureMessage: deref(p.FailureMessage),
			}
		}),
	}
}

func controlPlaneStatusToSpoke(in *controlplanev1.CAPTControlPlane) controlplanev1beta1.CAPTControlPlaneStatus {
	status := in.Status
	status.ConversionData = "" // It has only the fields that the other version does not have.
	if reflect.ValueOf(status).IsZero() {
		return controlplanev1beta1.CAPTControlPlaneStatus{}
	}
	secretsReady := meta.IsStatusConditionTrue(status.Conditions, controlplanev1.KubeconfigReadyCondition)
	out := controlplanev1beta1.CAPTControlPlaneStatus{
		Initialized:  copyPointer(status.Initialization.ControlPlaneInitialized),
		SecretsReady: &secretsReady,
		Phase:        optional(string(status.Phase)),
		Conditions:   controlPlaneConditionsToSpoke(in),
		FargateProfileStatuses: convertList(status.FargateProfiles, func(p controlplanev1.FargateProfileStatus) controlplanev1beta1.FargateProfileStatus {
			return controlplanev1beta1.FargateProfileStatus{
				Name: p.Name, Ready: statusToSpoke(p.Ready), WorkspaceTemplateApplyName: optional(p.WorkspaceTemplateApplyName),
				FailureReason: optional(p.FailureReason), FailureMessage: optional(p.FailureMessage),
			}
		}),
	}
	if available := availableCondition(status.Conditions); available != nil {
		ready := available.Status == metav1.ConditionTrue
		out.Ready = &ready
	}
	out.FailureReason, out.FailureMessage = failureToSpoke(status.Conditions)
	if apply := status.WorkspaceTemplateApply; apply != nil {
		// CAPT v0.3 reported only the state of the Workspace, and left the state of the WorkspaceTemplateApply empty.
		out.WorkspaceTemplateStatus = &controlplanev1beta1.WorkspaceTemplateStatus{
			Ready:               statusToSpoke(apply.Ready),
			LastAppliedRevision: optional(apply.LastAppliedRevision),
			LastFailedRevision:  optional(apply.LastFailedRevision),
			LastFailureMessage:  optional(apply.LastFailureMessage),
			Outputs:             copyMap(apply.Outputs),
		}
		out.WorkspaceStatus = &controlplanev1beta1.WorkspaceStatus{Ready: statusToSpoke(apply.Ready), State: optional(apply.State)}
	}
	return out
}

// controlPlaneConditionsToHub returns the conditions of v1beta1, with conditions for its fields ready, secretsReady and failureReason.
func controlPlaneConditionsToHub(in *controlplanev1beta1.CAPTControlPlane) []metav1.Condition {
	conditions := conditionsToHub(in.Status.Conditions)
	since := in.CreationTimestamp
	if deref(in.Status.Ready) && availableCondition(conditions) == nil {
		conditions = withCondition(conditions, readySince(since))
	}
	if deref(in.Status.SecretsReady) && meta.FindStatusCondition(conditions, controlplanev1.KubeconfigReadyCondition) == nil {
		conditions = withCondition(conditions, secretsReadySince(since))
	}
	failed, ok := failureCondition(in.Status.FailureReason, in.Status.FailureMessage, since)
	if ok {
		conditions = withCondition(conditions, failed)
	}
	return conditions
}

// controlPlaneConditionsToSpoke returns the conditions of the hub without those that only repeat ready and secretsReady.
func controlPlaneConditionsToSpoke(in *controlplanev1.CAPTControlPlane) []metav1.Condition {
	ready, secretsReady := readySince(in.CreationTimestamp), secretsReadySince(in.CreationTimestamp)
	out := make([]metav1.Condition, 0, len(in.Status.Conditions))
	for i := range in.Status.Conditions {
		if c := &in.Status.Conditions[i]; !isSame(c, &ready) && !isSame(c, &secretsReady) {
			out = append(out, *c)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// isSame reports whether two conditions are equal in all fields.
func isSame(a, b *metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// readySince and secretsReadySince return the conditions for the fields ready and secretsReady of v1beta1, which have no transition time.
func readySince(since metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: controlplanev1.ReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: since, Reason: controlplanev1.ReadyReason,
	}
}

func secretsReadySince(since metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: controlplanev1.KubeconfigReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: since,
		Reason: controlplanev1.KubeconfigReadyReason,
	}
}

// availableCondition returns the condition that corresponds to the field ready of v1beta1: Available or, for objects of CAPT v0.3, Ready.
func availableCondition(conditions []metav1.Condition) *metav1.Condition {
	if available := meta.FindStatusCondition(conditions, controlplanev1.AvailableCondition); available != nil {
		return available
	}
	return meta.FindStatusCondition(conditions, controlplanev1.ReadyCondition)
}

// controlPlaneSummaryToHub converts the state of the WorkspaceTemplateApply and its Workspace; nil when v1beta1 has neither.
func controlPlaneSummaryToHub(in *controlplanev1beta1.CAPTControlPlane) *controlplanev1.WorkspaceTemplateApplyStatus {
	template, workspace := in.Status.WorkspaceTemplateStatus, in.Status.WorkspaceStatus
	if template == nil && workspace == nil {
		return nil
	}
	out := &controlplanev1.WorkspaceTemplateApplyStatus{
		WorkspaceTemplateApplySummary: infrav1.WorkspaceTemplateApplySummary{Name: deref(in.Spec.WorkspaceTemplateApplyName)},
	}
	if workspace != nil {
		out.Ready, out.State = statusToHub(workspace.Ready), deref(workspace.State)
	}
	if template == nil {
		return out
	}
	if template.Ready != nil {
		out.Ready = statusToHub(template.Ready)
	}
	if state := deref(template.State); state != "" {
		out.State = state
	}
	out.LastAppliedRevision = deref(template.LastAppliedRevision)
	out.LastFailedRevision = deref(template.LastFailedRevision)
	out.LastFailureMessage = deref(template.LastFailureMessage)
	out.Outputs = copyMap(template.Outputs)
	return out
}

// CAPTControlPlaneTemplate converts CAPTControlPlaneTemplates. Fields of a single cluster (version, endpoint, WorkspaceTemplateApply) do not exist in the
// template of v1beta2; package preserve keeps them in its annotation.
var CAPTControlPlaneTemplate = newKind(captControlPlaneTemplateToHub, captControlPlaneTemplateToSpoke)

func captControlPlaneTemplateToHub(in *controlplanev1beta1.CAPTControlPlaneTemplate, out *controlplanev1.CAPTControlPlaneTemplate) {
	if metadata := in.Spec.Template.Metadata; metadata != nil {
		out.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{Labels: copyMap(metadata.Labels), Annotations: copyMap(metadata.Annotations)}
	}
	spec := deref(in.Spec.Template.Spec)
	out.Spec.Template.Spec = controlPlaneSpecToHub(&spec)
}

func captControlPlaneTemplateToSpoke(in *controlplanev1.CAPTControlPlaneTemplate, out *controlplanev1beta1.CAPTControlPlaneTemplate) {
	if metadata := in.Spec.Template.ObjectMeta; len(metadata.Labels) > 0 || len(metadata.Annotations) > 0 {
		out.Spec.Template.Metadata = &controlplanev1beta1.TemplateMetadata{
			Labels: copyMap(metadata.Labels), Annotations: copyMap(metadata.Annotations),
		}
	}
	spec := controlPlaneSpecToSpoke(&in.Spec.Template.Spec)
	out.Spec.Template.Spec = &spec
}
