// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupCAPTCluster(mgr ctrl.Manager, cached, live lookup.Reader) error {
	return register(mgr, captClusterDefaulter(lookup.Live{Reader: live, Cached: cached}), captClusterValidator(cached))
}

func captClusterDefaulter(reader validation.Reader) *defaulter[*infrav1.CAPTCluster] {
	return &defaulter[*infrav1.CAPTCluster]{
		reader: reader, create: defaultVPCReference, keepHubFields: validation.ClusterHubFields,
	}
}

// defaultVPCReference sets spec.workspaceTemplateApplyRef of a new CAPTCluster with a VPC template.
func defaultVPCReference(ctx context.Context, reader validation.Reader, captCluster *infrav1.CAPTCluster) (err error) {
	if !captCluster.Spec.VPC.Template.IsDefined() || captCluster.Spec.WorkspaceTemplateApplyRef.IsDefined() {
		return nil
	}
	captCluster.Spec.WorkspaceTemplateApplyRef, err = newReference(ctx, reader, captCluster, legacy.ExpectationOfCAPTCluster(captCluster, ""))
	return err
}

// newReference returns the reference to the WorkspaceTemplateApply that the controller will create, with the name of the naming scheme. It
// returns an empty reference, which the controller sets later, in these cases:
//
//   - A WorkspaceTemplateApply with that name exists: the user must decide whether it belongs to the owner (AdoptionRequired).
//   - The namespace has a WorkspaceTemplateApply of CAPT v0.3 without a controller: it may belong to the owner. Only the controller can
//     determine that, because it knows the Cluster (claim.Expectation.Candidates).
//   - The status of the owner records cloud resources: the owner was restored from a backup, and its WorkspaceTemplateApply may be
//     restored next, with any name.
//   - The owner has only generateName.
func newReference(ctx context.Context, reader validation.Reader, owner validation.Owner, want claim.Expectation) (infrav1.WorkspaceTemplateApplyReference, error) {
	if owner.GetName() == "" || want.ProvisionedField != "" {
		return infrav1.WorkspaceTemplateApplyReference{}, nil
	}
	apply, err := reader.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: owner.GetNamespace(), Name: want.SchemeName})
	if err != nil {
		return infrav1.WorkspaceTemplateApplyReference{}, err
	}
	if apply != nil {
		return infrav1.WorkspaceTemplateApplyReference{}, nil
	}
	if found, err := reader.HasUnownedLegacy(ctx, owner.GetNamespace()); err != nil || found {
		return infrav1.WorkspaceTemplateApplyReference{}, err
	}
	return infrav1.WorkspaceTemplateApplyReference{Name: want.SchemeName}, nil
}

func captClusterValidator(reader validation.Reader) validator[*infrav1.CAPTCluster] {
	return validator[*infrav1.CAPTCluster]{
		reader: reader,
		spec:   func(captCluster *infrav1.CAPTCluster) any { return captCluster.Spec },
		check:  validation.ValidateCAPTCluster,
		warn: warnOfUnpinning("CAPTCluster", vpcTemplate, func(captCluster *infrav1.CAPTCluster) string {
			return captCluster.Spec.WorkspaceTemplateApplyRef.Name
		}),
	}
}

// vpcTemplate returns the reference to the template of the VPC; empty for an existing VPC.
func vpcTemplate(captCluster *infrav1.CAPTCluster) (ref infrav1.WorkspaceTemplateReference) {
	if template := captCluster.Spec.VPC.Template; template.IsDefined() {
		ref = template.Ref
	}
	return ref
}
