// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupCAPTControlPlane(mgr ctrl.Manager, cached, live lookup.Reader) error {
	return register(mgr, captControlPlaneDefaulter(lookup.Live{Reader: live, Cached: cached}), captControlPlaneValidator(cached))
}

func captControlPlaneDefaulter(reader validation.Reader) *defaulter[*controlplanev1.CAPTControlPlane] {
	return &defaulter[*controlplanev1.CAPTControlPlane]{reader: reader, create: defaultControlPlane, keepHubFields: validation.ControlPlaneHubFields}
}

// defaultControlPlane sets spec.workspaceTemplateApplyRef of a new CAPTControlPlane and completes its spec.version. It does not set the
// reference if there is no template: validation rejects the object then.
func defaultControlPlane(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (err error) {
	if spec := &controlPlane.Spec; !spec.WorkspaceTemplateApplyRef.IsDefined() && spec.WorkspaceTemplateRef.Name != "" {
		spec.WorkspaceTemplateApplyRef, err = newReference(ctx, reader, controlPlane, legacy.ExpectationOfControlPlane(controlPlane, ""))
	}
	validation.CompleteVersion(controlPlane)
	return err
}

func captControlPlaneValidator(reader validation.Reader) validator[*controlplanev1.CAPTControlPlane] {
	return validator[*controlplanev1.CAPTControlPlane]{
		reader: reader,
		spec:   func(controlPlane *controlplanev1.CAPTControlPlane) any { return controlPlane.Spec },
		check:  validation.ValidateCAPTControlPlane, change: validation.ValidateCAPTControlPlaneUpdate,
		warn: warnOfUnpinning("CAPTControlPlane",
			func(controlPlane *controlplanev1.CAPTControlPlane) infrav1.WorkspaceTemplateReference {
				return controlPlane.Spec.WorkspaceTemplateRef
			},
			func(controlPlane *controlplanev1.CAPTControlPlane) string {
				return controlPlane.Spec.WorkspaceTemplateApplyRef.Name
			}),
	}
}
