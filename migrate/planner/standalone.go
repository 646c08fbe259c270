// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
)

// findStandalone adds the WorkspaceTemplateApplies that no owner has or may have: helpers and machines of CAPT v0.3, and what users made.
func (f *fleet) findStandalone() {
	claimed := map[types.UID]bool{}
	clusters := map[types.UID]string{}
	for _, o := range f.owners {
		clusters[o.object.GetUID()] = o.Cluster
		if o.apply != nil {
			claimed[o.apply.UID] = true
			continue
		}
		for _, candidate := range o.match.Candidates {
			claimed[candidate.Apply.UID] = true
		}
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		ours := apply.Labels[naming.TurnsLabel] != "" // This version created it for a Fargate profile.
		if !claimed[apply.UID] && !adopted(apply) && !ours {
			f.owners = append(f.owners, standalone(apply, clusters))
		}
	}
}

// standalone is a WorkspaceTemplateApply that stands for itself, with its role.
func standalone(apply *infrav1.WorkspaceTemplateApply, clusters map[types.UID]string) *owner {
	o := &owner{object: apply, apply: apply, OwnerReport: migrate.OwnerReport{Owner: migrate.Ref(kindApply, apply), Role: "made by a user"}}
	for _, ref := range apply.OwnerReferences {
		if cluster := clusters[ref.UID]; cluster != "" {
			o.Cluster = cluster
		}
		if ref.Kind == kindControlPlane || ref.Kind == kindCAPTCluster {
			o.Role = fmt.Sprintf("of %s %s", ref.Kind, ref.Name)
		}
	}
	if machine := adoption.Machine(apply); machine != "" {
		o.Role, o.machine, o.retain = "machine of "+machine, true, true
	}
	if helper := adoption.Helper(apply); helper != "" {
		o.Role = fmt.Sprintf("%s of %s %s", helper, kindControlPlane, metav1.GetControllerOf(apply).Name)
		o.helper, o.retain = true, helper == adoption.SpotRole
	}
	return o
}

// machineLeft reports whether a WorkspaceTemplateApply is that of a CaptMachine, and no decision adopts it.
func (f *fleet) machineLeft(o *owner) bool {
	if !o.machine || f.decided.owners[o.object.GetUID()].Take == o.object.GetUID() || adopted(o.apply) {
		return false
	}
	o.State = migrate.NothingToAdopt
	o.find(migrate.Warning, ReasonMachine, fmt.Sprintf("it is the %s of CAPT v0.3, which no kind of this version succeeds: it stays as it is, and what it created is not destroyed when the machine is removed. To adopt it, retained, decide take: %s for it in --decisions",
		o.Role, o.object.GetUID()))
	return true
}

// ofProfile reports whether a WorkspaceTemplateApply is that of a Fargate profile that a control plane lists. CAPT v0.3 had none: users
// created such WorkspaceTemplateApplies by hand, and may have added the profile to the spec once this version served it.
func (f *fleet) ofProfile(o *owner) bool {
	if o.Owner.Kind != kindApply || o.apply.Spec.Variables[naming.ProfileVariable] == "" {
		return false
	}
	for _, other := range f.owners {
		if other.plane == nil || other.plane.Namespace != o.apply.Namespace {
			continue
		}
		for i := range other.plane.Spec.FargateProfiles {
			if meansProfile(o.apply, other.Cluster, &other.plane.Spec.FargateProfiles[i]) {
				return true
			}
		}
	}
	return false
}

func meansProfile(apply *infrav1.WorkspaceTemplateApply, cluster string, profile *controlplanev1.FargateProfile) bool {
	switch ref := profile.WorkspaceTemplateApplyRef; {
	case ref != nil:
		return ref.Name == apply.Name
	case cluster == "": // Its name will be known when its Cluster is.
		return profile.Name == apply.Spec.Variables[naming.ProfileVariable]
	}
	return adoption.OfProfile(cluster, profile).SchemeName == apply.Name
}
