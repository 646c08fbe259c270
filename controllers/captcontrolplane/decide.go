// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/controllers/engine"
)

// Action is what to do about a CAPTControlPlane.
type Action string

const (
	// Observe: nothing to write, status says what is waited for.
	Observe Action = "Observe"
	// Hold: put the finalizer on, since a WorkspaceTemplateApply of ours is there: the object was adopted, or restored from a
	// backup.
	Hold Action = "Hold"
	// Provision: write the WorkspaceTemplateApply.
	Provision Action = "Provision"
	// Configure: write endpoint and kubeconfig.
	Configure Action = "Configure"
	// Destroy: delete the WorkspaceTemplateApplies that come next.
	Destroy Action = "Destroy"
	// Release: the CAPTControlPlane may go.
	Release Action = "Release"
)

// decide is pure.
func decide(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) Action {
	switch {
	case f.Paused != "":
		return Observe
	case !controlPlane.DeletionTimestamp.IsZero():
		return decideDeletion(f)
	case f.Apply.Apply != nil && !controllerutil.ContainsFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer):
		return Hold
	case blocked(controlPlane, f) != nil:
		return Observe
	case f.Apply.Ready(manager):
		return Configure
	}
	return Provision
}

func decideDeletion(f *Facts) Action {
	switch {
	case len(f.Apply.Owned) > 0, f.Apply.RetainConflict != "", len(f.Fargate.Leaving) > 0 && f.Apply.OnlyOwnLeft():
		return Observe
	case len(f.Apply.Undeleted()) > 0:
		return Destroy
	case len(f.Fargate.Leaving)+len(f.Apply.Next()) == 0:
		return Release
	}
	return Observe
}

// blocked says what must be there before the WorkspaceTemplateApply is written, first time or changed; nil when all is. It
// becomes the condition DependenciesReady.
func blocked(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) *engine.Condition {
	no := func(reason, message string) *engine.Condition {
		condition := engine.False(controlplanev1.DependenciesReadyCondition, reason, message)
		return &condition
	}
	switch {
	case f.Cluster == nil:
		return no(controlplanev1.WaitingForOwnerReason, "no Cluster refers to this object yet; create one whose spec.controlPlaneRef names it")
	case f.VersionError != nil:
		return no(controlplanev1.InvalidVersionReason, "spec.version: "+f.VersionError.Error())
	case f.Apply.Undecided():
		adoption := f.Apply.AdoptionCondition(controlplanev1.DependenciesReadyCondition)
		return no(adoption.Reason, adoption.Message)
	case f.Apply.Claimed != "":
		return no(infrav1.ReferenceConflictReason, f.Apply.Claimed)
	case f.templateBlocks(controlPlane) != nil:
		return f.templateBlocks(controlPlane)
	case f.Infrastructure != nil && owners.RegionConflict(controlPlane, f.Infrastructure, f.Apply.Apply) != nil:
		return no(controlplanev1.RegionConflictReason, owners.RegionConflict(controlPlane, f.Infrastructure, f.Apply.Apply).Error())
	case !f.infrastructureReady():
		return no(controlplanev1.WaitingForInfrastructureReason, fmt.Sprintf("waiting for the infrastructure of Cluster %s", f.Cluster.Name))
	case f.region(controlPlane) == "":
		return no(controlplanev1.RegionConflictReason, "spec.region is empty, and the infrastructure of the Cluster names none; set spec.region")
	}
	return changed(controlPlane, f, no)
}

// templateBlocks says why the template is not taken into use; nil when it may be, or is in use already.
func (f *Facts) templateBlocks(controlPlane *controlplanev1.CAPTControlPlane) *engine.Condition {
	built := adoption.OfControlPlane(controlPlane, f.Cluster.Name).Built != ""
	if f.Template.InUse(f.Apply.Apply, built) {
		return nil
	}
	return f.Template.Blocks(controlplanev1.DependenciesReadyCondition)
}

// changed refuses what would build another cluster in place of the one that runs, or what EKS would refuse. A version that
// Terraform has already is no change, whatever EKS runs by now.
func changed(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, no func(reason, message string) *engine.Condition) *engine.Condition {
	if err := owners.RegionMove(controlPlane, f.Infrastructure, f.Apply.Apply); err != nil {
		return no(controlplanev1.RegionConflictReason, err.Error())
	}
	from := versions.VersionsOf(controlPlane, f.Apply.Apply)
	if from.Given == f.Version.EKS {
		return nil
	}
	if err := versions.KubernetesVersionStep(from, f.Version.EKS); err != nil {
		return no(controlplanev1.InvalidVersionReason, "spec.version: "+err.Error())
	}
	return nil
}
