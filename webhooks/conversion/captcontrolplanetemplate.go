/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package conversion

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion/carry"
)

// CAPTControlPlaneTemplate is the converter of CAPTControlPlaneTemplate.
var CAPTControlPlaneTemplate = conversion.NewHubSpokeConverter(&controlplanev1.CAPTControlPlaneTemplate{},
	conversion.NewSpokeConverter(&controlplanev1beta1.CAPTControlPlaneTemplate{},
		ConvertCAPTControlPlaneTemplateHubToV1Beta1, ConvertCAPTControlPlaneTemplateV1Beta1ToHub),
)

var (
	captControlPlaneTemplateUp   = carry.New(captControlPlaneTemplateToHub, captControlPlaneTemplateToSpoke)
	captControlPlaneTemplateDown = carry.New(captControlPlaneTemplateToSpoke, captControlPlaneTemplateToHub)
)

// ConvertCAPTControlPlaneTemplateV1Beta1ToHub converts a v1beta1 CAPTControlPlaneTemplate to the hub. What belongs to one
// cluster only (version, endpoint, WorkspaceTemplateApply) is no part of v1beta2's template, and is carried.
func ConvertCAPTControlPlaneTemplateV1Beta1ToHub(_ context.Context, src *controlplanev1beta1.CAPTControlPlaneTemplate, dst *controlplanev1.CAPTControlPlaneTemplate) error {
	return captControlPlaneTemplateUp.Convert(src, dst)
}

// ConvertCAPTControlPlaneTemplateHubToV1Beta1 converts a CAPTControlPlaneTemplate of the hub to v1beta1.
func ConvertCAPTControlPlaneTemplateHubToV1Beta1(_ context.Context, src *controlplanev1.CAPTControlPlaneTemplate, dst *controlplanev1beta1.CAPTControlPlaneTemplate) error {
	return captControlPlaneTemplateDown.Convert(src, dst)
}

func captControlPlaneTemplateToHub(in *controlplanev1beta1.CAPTControlPlaneTemplate, out *controlplanev1.CAPTControlPlaneTemplate) {
	if metadata := in.Spec.Template.Metadata; metadata != nil {
		out.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{Labels: table(metadata.Labels), Annotations: table(metadata.Annotations)}
	}
	spec := value(in.Spec.Template.Spec)
	out.Spec.Template.Spec = controlPlaneSpecToHub(&spec)
}

func captControlPlaneTemplateToSpoke(in *controlplanev1.CAPTControlPlaneTemplate, out *controlplanev1beta1.CAPTControlPlaneTemplate) {
	if metadata := in.Spec.Template.ObjectMeta; len(metadata.Labels) > 0 || len(metadata.Annotations) > 0 {
		out.Spec.Template.Metadata = &controlplanev1beta1.TemplateMetadata{
			Labels: table(metadata.Labels), Annotations: table(metadata.Annotations),
		}
	}
	spec := controlPlaneSpecToSpoke(&in.Spec.Template.Spec)
	out.Spec.Template.Spec = &spec
}
