// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// CAPTControlPlaneTemplate is the converter of CAPTControlPlaneTemplate.
var CAPTControlPlaneTemplate = conversion.NewHubSpokeConverter(&controlplanev1.CAPTControlPlaneTemplate{},
	conversion.NewSpokeConverter(&controlplanev1beta1.CAPTControlPlaneTemplate{},
		ConvertCAPTControlPlaneTemplateHubToV1Beta1, ConvertCAPTControlPlaneTemplateV1Beta1ToHub),
)

var (
	captControlPlaneTemplateUp   = preserve.New(captControlPlaneTemplateToHub, captControlPlaneTemplateToSpoke)
	captControlPlaneTemplateDown = preserve.New(captControlPlaneTemplateToSpoke, captControlPlaneTemplateToHub)
)

// ConvertCAPTControlPlaneTemplateV1Beta1ToHub converts a v1beta1 CAPTControlPlaneTemplate to the hub. Fields of a single cluster (version,
// endpoint, WorkspaceTemplateApply) do not exist in the template of v1beta2; package preserve keeps them in its annotation.
func ConvertCAPTControlPlaneTemplateV1Beta1ToHub(_ context.Context, src *controlplanev1beta1.CAPTControlPlaneTemplate, dst *controlplanev1.CAPTControlPlaneTemplate) error {
	return captControlPlaneTemplateUp.Convert(src, dst)
}

// ConvertCAPTControlPlaneTemplateHubToV1Beta1 converts a CAPTControlPlaneTemplate of the hub to v1beta1.
func ConvertCAPTControlPlaneTemplateHubToV1Beta1(_ context.Context, src *controlplanev1.CAPTControlPlaneTemplate, dst *controlplanev1beta1.CAPTControlPlaneTemplate) error {
	return captControlPlaneTemplateDown.Convert(src, dst)
}

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
