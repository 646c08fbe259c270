// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupCAPTControlPlane(mgr ctrl.Manager, cached, live lookup.Reader) error {
	return serve(mgr, captControlPlaneDefaults(lookup.Live{Reader: live, Cached: cached}), captControlPlaneRules(cached))
}

func captControlPlaneDefaults(reader validation.Reader) *defaults[*controlplanev1.CAPTControlPlane] {
	return &defaults[*controlplanev1.CAPTControlPlane]{reader: reader, create: referControlPlane, keep: keepWritten, keepHubFields: keepControlPlane}
}

// referControlPlane sets spec.workspaceTemplateApplyRef of a new CAPTControlPlane, unless that has no template: validation rejects it then.
func referControlPlane(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (err error) {
	completeVersion(controlPlane)
	if controlPlane.Spec.WorkspaceTemplateApplyRef.IsDefined() || controlPlane.Spec.WorkspaceTemplateRef.Name == "" {
		return nil
	}
	controlPlane.Spec.WorkspaceTemplateApplyRef, err = newReference(ctx, reader, controlPlane, adoption.OfControlPlane(controlPlane, ""))
	return err
}

// keepWritten restores fields of spec that CAPT wrote and an update omits. An endpoint in the invalid form of CAPT v0.3 is corrected, or
// removed so that the controller writes it again.
func keepWritten(old, controlPlane *controlplanev1.CAPTControlPlane) {
	if controlPlane.Spec.Version != old.Spec.Version { // An unchanged version keeps the form of CAPT v0.3, so that a write of other fields does not change it.
		completeVersion(controlPlane)
	}
	keepReference(old.Spec.WorkspaceTemplateApplyRef, &controlPlane.Spec.WorkspaceTemplateApplyRef)
	if controlPlane.Spec.ControlPlaneEndpoint.IsZero() {
		controlPlane.Spec.ControlPlaneEndpoint = owners.Endpoint(old.Spec.ControlPlaneEndpoint)
	}
	references := map[string]infrav1.WorkspaceTemplateApplyReference{}
	for i := range old.Spec.FargateProfiles {
		references[old.Spec.FargateProfiles[i].Name] = old.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef
	}
	for i := range controlPlane.Spec.FargateProfiles {
		profile := &controlPlane.Spec.FargateProfiles[i]
		keepReference(references[profile.Name], &profile.WorkspaceTemplateApplyRef)
	}
}

// completeVersion changes spec.version to the form that Cluster API's contract requires: a semantic version with the prefix v. It ignores an
// invalid version, which validation rejects.
func completeVersion(controlPlane *controlplanev1.CAPTControlPlane) {
	if version, err := versions.ParseKubernetesVersion(controlPlane.Spec.Version); err == nil {
		controlPlane.Spec.Version = version.Semantic
	}
}

func captControlPlaneRules(reader validation.Reader) rules[*controlplanev1.CAPTControlPlane] {
	return rules[*controlplanev1.CAPTControlPlane]{
		reader: reader,
		spec:   func(controlPlane *controlplanev1.CAPTControlPlane) any { return controlPlane.Spec },
		check:  owners.CAPTControlPlane, change: consumption.CAPTControlPlaneChange,
		warn: leavesPin("CAPTControlPlane",
			func(controlPlane *controlplanev1.CAPTControlPlane) infrav1.WorkspaceTemplateReference {
				return controlPlane.Spec.WorkspaceTemplateRef
			},
			func(controlPlane *controlplanev1.CAPTControlPlane) string {
				return controlPlane.Spec.WorkspaceTemplateApplyRef.Name
			}),
	}
}
