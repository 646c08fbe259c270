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

package validation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// ofItsOwn ends every refusal of a reference: two owners would write the same Workspace in turn, and the deletion of one
// would destroy what the other has.
const ofItsOwn = "each object has one of its own. Leave the reference out, or name another one"

// ownApply checks that an owner may have the WorkspaceTemplateApply that it refers to. One of another name than the naming
// scheme's should exist already; under the scheme's name CAPT makes it.
func ownApply(ctx context.Context, world World, owner Owner, ref *infrav1.WorkspaceTemplateApplyReference, schemeName string, path *field.Path) (Findings, error) {
	return referredApply(ctx, world, owner, ref, schemeName, path, func(apply *infrav1.WorkspaceTemplateApply) (string, error) {
		cluster, err := clusterName(ctx, world, owner)
		return expectationOf(owner, cluster).Mismatch(owner, apply), err
	})
}

// referredApply checks that nobody else has a WorkspaceTemplateApply that an owner refers to, and that it is no mismatch:
// the owner's controller would leave it alone, and the reference can not be corrected.
func referredApply(ctx context.Context, world World, owner Owner, ref *infrav1.WorkspaceTemplateApplyReference, schemeName string, path *field.Path,
	mismatch func(*infrav1.WorkspaceTemplateApply) (string, error)) (Findings, error) {
	var findings Findings
	if ref == nil || ref.Name == "" {
		return findings, nil
	}
	path = path.Child("name")
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: ref.Name}
	referrers, err := world.ReferrersTo(ctx, key)
	if err != nil {
		return findings, err
	}
	if others := otherOwners(owner, referrers); len(others) > 0 {
		findings.Refuse(forbidden(path, "WorkspaceTemplateApply %s is in use by %s, and %s", ref.Name, strings.Join(others, " and "), ofItsOwn))
		return findings, nil
	}
	apply, err := world.WorkspaceTemplateApply(ctx, key)
	if err != nil {
		return findings, err
	}
	if apply == nil {
		if ref.Name != schemeName {
			findings.Warn(path, "WorkspaceTemplateApply %s does not exist, and a new one is made under this name; to adopt one that exists, correct the name", ref.Name)
		}
		return findings, nil
	}
	if other := adoption.OtherController(owner, apply); other != nil {
		if existsAlready(owner, referrers, other.UID) {
			return findings, nil
		}
		findings.Refuse(forbidden(path, "WorkspaceTemplateApply %s belongs to %s %s, and %s", ref.Name, other.Kind, other.Name, ofItsOwn))
		return findings, nil
	}
	differs, err := mismatch(apply)
	if differs != "" && err == nil {
		findings.Refuse(forbidden(path, "%s", adoption.Refusal(apply, differs)))
	}
	return findings, err
}

// existsAlready tells whether an owner that is to be created is there, and is the one that has the WorkspaceTemplateApply. The API
// server then answers so, after admission; clusterctl move, started again, goes on with that answer and with no other.
func existsAlready(owner Owner, referrers []Owner, controller types.UID) bool {
	return slices.ContainsFunc(referrers, func(there Owner) bool {
		return there.GetUID() == controller && kindOf(there) == kindOf(owner) && there.GetName() == owner.GetName()
	})
}

// expectationOf is what an owner would make, as its controller will see it. A cluster that is not known yet has no name.
func expectationOf(owner Owner, cluster string) adoption.Expectation {
	want := adoption.Expectation{Variables: map[string]string{naming.ClusterVariable: cluster}}
	switch owner := owner.(type) {
	case *infrav1.CAPTCluster:
		want.SchemeName = naming.VPCWorkspaceTemplateApply(owner.Name)
		if template := owner.Spec.VPC.Template; template != nil {
			want.Template, want.Variables[naming.VPCVariable] = template.Ref, template.Name
			if template.Name == "" {
				want.Variables[naming.VPCVariable] = naming.VPC(owner.Name)
			}
		}
		if recorded := owner.Status.WorkspaceTemplateApply; recorded != nil {
			want.Recorded = recorded.Name
		}
	case *controlplanev1.CAPTControlPlane:
		want.SchemeName = naming.ControlPlaneWorkspaceTemplateApply(owner.Name)
		want.Template = owner.Spec.WorkspaceTemplateRef
		if recorded := owner.Status.WorkspaceTemplateApply; recorded != nil {
			want.Recorded = recorded.Name
		}
	}
	return want
}

// otherOwners are those of a list that are not the owner itself, in words, and in the same order every time: an error that
// was there before an update is known by its text.
func otherOwners(owner Owner, referrers []Owner) []string {
	var others []string
	for _, other := range referrers {
		if kindOf(other) != kindOf(owner) || other.GetName() != owner.GetName() {
			others = append(others, kindOf(other)+" "+other.GetName())
		}
	}
	slices.Sort(others)
	return others
}

// ownApplies checks every reference of a control plane to a WorkspaceTemplateApply.
func ownApplies(ctx context.Context, world World, controlPlane *controlplanev1.CAPTControlPlane) (Findings, error) {
	spec := &controlPlane.Spec
	findings, err := ownApply(ctx, world, controlPlane, spec.WorkspaceTemplateApplyRef,
		naming.ControlPlaneWorkspaceTemplateApply(controlPlane.Name), field.NewPath("spec", "workspaceTemplateApplyRef"))
	if err != nil {
		return findings, err
	}
	findings.Refuse(distinctApplies(controlPlane)...)
	if !slices.ContainsFunc(spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool { return p.WorkspaceTemplateApplyRef != nil }) {
		return findings, nil
	}
	cluster, err := world.ClusterOf(ctx, controlPlane)
	if err != nil {
		return findings, err
	}
	for i := range spec.FargateProfiles {
		profile, schemeName := &spec.FargateProfiles[i], ""
		if cluster != nil {
			schemeName = naming.FargateWorkspaceTemplateApply(cluster.Name, profile.Name)
		}
		path := profilesPath.Index(i).Child("workspaceTemplateApplyRef")
		found, err := referredApply(ctx, world, controlPlane, profile.WorkspaceTemplateApplyRef, schemeName, path,
			func(apply *infrav1.WorkspaceTemplateApply) (string, error) {
				return profileMismatch(controlPlane, profile, cluster, apply), nil
			})
		if err != nil {
			return findings, err
		}
		findings.Add(found)
	}
	return findings, nil
}

// profileMismatch says why a WorkspaceTemplateApply is not taken over for a Fargate profile; empty when nothing is known
// against it. No status records it, so one that the control plane has may be of the template that the profile had before.
func profileMismatch(controlPlane *controlplanev1.CAPTControlPlane, profile *controlplanev1.FargateProfile, cluster *clusterv1.Cluster, apply *infrav1.WorkspaceTemplateApply) string {
	if metav1.IsControlledBy(apply, controlPlane) {
		return ""
	}
	want := adoption.Expectation{Template: profile.WorkspaceTemplateRef}
	if cluster != nil {
		want.Variables = map[string]string{naming.ClusterVariable: cluster.Name}
	}
	return want.Difference(apply)
}

// distinctApplies checks that a control plane and its Fargate profiles do not share a WorkspaceTemplateApply.
func distinctApplies(controlPlane *controlplanev1.CAPTControlPlane) field.ErrorList {
	var errs field.ErrorList
	spec := &controlPlane.Spec
	users := map[string]string{}
	if ref := spec.WorkspaceTemplateApplyRef; ref != nil {
		users[ref.Name] = "the control plane itself"
	}
	for i := range spec.FargateProfiles {
		ref := spec.FargateProfiles[i].WorkspaceTemplateApplyRef
		if ref == nil || ref.Name == "" {
			continue
		}
		if user, ok := users[ref.Name]; ok {
			errs = append(errs, forbidden(profilesPath.Index(i).Child("workspaceTemplateApplyRef", "name"),
				"WorkspaceTemplateApply %s is in use by %s, and %s", ref.Name, user, ofItsOwn))
			continue
		}
		users[ref.Name] = fmt.Sprintf("Fargate profile %s", spec.FargateProfiles[i].Name)
	}
	return errs
}

func kindOf(owner Owner) string {
	if _, ok := owner.(*controlplanev1.CAPTControlPlane); ok {
		return "CAPTControlPlane"
	}
	return "CAPTCluster"
}
