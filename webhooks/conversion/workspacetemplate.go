// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// WorkspaceTemplate is the converter of WorkspaceTemplate.
var WorkspaceTemplate = conversion.NewHubSpokeConverter(&infrav1.WorkspaceTemplate{},
	conversion.NewSpokeConverter(&infrav1beta1.WorkspaceTemplate{},
		ConvertWorkspaceTemplateHubToV1Beta1, ConvertWorkspaceTemplateV1Beta1ToHub),
)

var (
	workspaceTemplateUp   = preserve.New(workspaceTemplateToHub, workspaceTemplateToSpoke)
	workspaceTemplateDown = preserve.New(workspaceTemplateToSpoke, workspaceTemplateToHub)
)

// ConvertWorkspaceTemplateV1Beta1ToHub converts a v1beta1 WorkspaceTemplate to the hub. Its Workspaces are cluster-scoped:
// those of CAPT v0.3 were, and a Workspace cannot change its scope.
func ConvertWorkspaceTemplateV1Beta1ToHub(_ context.Context, src *infrav1beta1.WorkspaceTemplate, dst *infrav1.WorkspaceTemplate) error {
	return workspaceTemplateUp.Convert(src, dst)
}

// ConvertWorkspaceTemplateHubToV1Beta1 converts a WorkspaceTemplate of the hub to v1beta1.
func ConvertWorkspaceTemplateHubToV1Beta1(_ context.Context, src *infrav1.WorkspaceTemplate, dst *infrav1beta1.WorkspaceTemplate) error {
	return workspaceTemplateDown.Convert(src, dst)
}

func workspaceTemplateToHub(in *infrav1beta1.WorkspaceTemplate, out *infrav1.WorkspaceTemplate) {
	template := &in.Spec.Template
	out.Spec.WorkspaceScope = terraform.ScopeCluster
	if metadata := template.Metadata; metadata != nil {
		out.Spec.Template.Metadata = infrav1.WorkspaceTemplateMetadata{
			Description: deref(metadata.Description), Version: deref(metadata.Version), Tags: copyMap(metadata.Tags),
		}
	}
	out.Spec.Template.Spec = workspaceSpecToHub(&template.Spec)
	out.Status.Conditions = crossplaneConditionsToHub(in.Status.Conditions)
}

func workspaceTemplateToSpoke(in *infrav1.WorkspaceTemplate, out *infrav1beta1.WorkspaceTemplate) {
	metadata := in.Spec.Template.Metadata
	if metadata.Description != "" || metadata.Version != "" || len(metadata.Tags) > 0 {
		out.Spec.Template.Metadata = &infrav1beta1.WorkspaceTemplateMetadata{
			Description: optional(metadata.Description), Version: optional(metadata.Version), Tags: copyMap(metadata.Tags),
		}
	}
	out.Spec.Template.Spec = workspaceSpecToSpoke(&in.Spec.Template.Spec)
	out.Status.Conditions = crossplaneConditionsToSpoke(in.Status.Conditions)
}
