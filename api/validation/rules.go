// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// ValidateNew checks a new object of one of CAPT's kinds. It returns an error if a lookup failed, or if the object is of another kind.
func ValidateNew(ctx context.Context, reader Reader, object any) (Findings, error) {
	switch object := object.(type) {
	case *infrav1.CAPTCluster:
		return ValidateCAPTCluster(ctx, reader, object)
	case *infrav1.CAPTClusterTemplate:
		return ValidateCAPTClusterTemplate(ctx, reader, object)
	case *controlplanev1.CAPTControlPlane:
		return ValidateCAPTControlPlane(ctx, reader, object)
	case *controlplanev1.CAPTControlPlaneTemplate:
		return ValidateCAPTControlPlaneTemplate(ctx, reader, object)
	case *infrav1.WorkspaceTemplate:
		return ValidateWorkspaceTemplate(object), nil
	case *infrav1.WorkspaceTemplateApply:
		return newApply(ctx, reader, object)
	}
	return Findings{}, fmt.Errorf("unsupported type %T", object)
}

// newApply also checks the name of a new WorkspaceTemplateApply, and the name of its Workspace.
func newApply(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply) (Findings, error) {
	findings, err := ValidateWorkspaceTemplateApply(ctx, reader, apply)
	for _, check := range []func(context.Context, Reader, *infrav1.WorkspaceTemplateApply) (Findings, error){
		ValidateNewWorkspaceTemplateApply, ValidateNewWorkspaceName,
	} {
		if err != nil {
			return findings, err
		}
		var more Findings
		more, err = check(ctx, reader, apply)
		findings.Add(more)
	}
	return findings, err
}
