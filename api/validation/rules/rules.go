// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules selects the validation rules of a kind. The validating webhooks and captctl validate use them for new objects.
package rules

import (
	"context"
	"fmt"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/ownership"
	"github.com/capt-provider/capt/api/validation/templates"
)

// New checks a new object of one of CAPT's kinds. It returns an error if a lookup failed, or if the object is of another kind.
func New(ctx context.Context, reader validation.Reader, object any) (validation.Findings, error) {
	switch object := object.(type) {
	case *infrav1.CAPTCluster:
		return owners.ValidateCAPTCluster(ctx, reader, object)
	case *infrav1.CAPTClusterTemplate:
		return owners.ValidateCAPTClusterTemplate(ctx, reader, object)
	case *controlplanev1.CAPTControlPlane:
		return owners.ValidateCAPTControlPlane(ctx, reader, object)
	case *controlplanev1.CAPTControlPlaneTemplate:
		return owners.ValidateCAPTControlPlaneTemplate(ctx, reader, object)
	case *infrav1.WorkspaceTemplate:
		return templates.ValidateWorkspaceTemplate(object), nil
	case *infrav1.WorkspaceTemplateApply:
		return newApply(ctx, reader, object)
	}
	return validation.Findings{}, fmt.Errorf("unsupported type %T", object)
}

// newApply also checks the name of a new WorkspaceTemplateApply, and the name of its Workspace.
func newApply(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) (validation.Findings, error) {
	findings, err := applies.ValidateWorkspaceTemplateApply(ctx, reader, apply)
	for _, check := range []func(context.Context, validation.Reader, *infrav1.WorkspaceTemplateApply) (validation.Findings, error){
		ownership.ValidateNewWorkspaceTemplateApply, applies.ValidateNewWorkspaceName,
	} {
		if err != nil {
			return findings, err
		}
		var more validation.Findings
		more, err = check(ctx, reader, apply)
		findings.Add(more)
	}
	return findings, err
}
