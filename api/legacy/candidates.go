// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// index finds the candidates of an owner without comparing it with every WorkspaceTemplateApply.
type index struct {
	// outputs are those of MatchFleet.
	outputs map[types.UID]map[string]string
	// by has the WorkspaceTemplateApplies by their keys, see keys.
	by map[string][]*infrav1.WorkspaceTemplateApply
}

func newIndex(applies []infrav1.WorkspaceTemplateApply, outputs map[types.UID]map[string]string) *index {
	x := &index{outputs: outputs, by: map[string][]*infrav1.WorkspaceTemplateApply{}}
	for i := range applies {
		apply := &applies[i]
		for _, key := range x.keys(apply) {
			x.by[key] = append(x.by[key], apply)
		}
	}
	return x
}

// keys returns the keys of a WorkspaceTemplateApply in the index. They begin with the namespace: owners have candidates only in their own.
func (x *index) keys(apply *infrav1.WorkspaceTemplateApply) []string {
	keys := []string{"name/" + apply.Name, "uid/" + string(apply.UID)}
	for _, owner := range apply.OwnerReferences {
		keys = append(keys, "owner/"+string(owner.UID))
	}
	if cluster := apply.Spec.Variables[naming.ClusterVariable]; cluster != "" {
		keys = append(keys, "cluster/"+apply.TemplateKey().String()+"/"+cluster)
	}
	if ref := apply.Spec.WriteConnectionSecretToRef; ref != nil {
		keys = append(keys, "secret/"+ref.Name)
	}
	for name, value := range x.outputs[apply.UID] {
		keys = append(keys, "output/"+name+"="+value)
	}
	for i := range keys {
		keys[i] = apply.Namespace + "/" + keys[i]
	}
	return keys
}

func (x *index) hasWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	_, exists := x.outputs[apply.UID]
	return exists
}

// candidates returns the candidates of an owner, the strongest first.
func (x *index) candidates(claimant *Claimant) []MatchCandidate {
	want, namespace := claimant.Want, claimant.Object.GetNamespace()
	keys := []string{
		"name/" + claimant.Reference, "name/" + want.Recorded, "name/" + want.SchemeName, "name/" + naming.LegacyFixedApply,
		"owner/" + string(claimant.Object.GetUID()), "secret/" + claimant.ConnectionSecret,
		"cluster/" + want.Template.Key(namespace).String() + "/" + want.Variables[naming.ClusterVariable],
		"cluster/" + want.Template.Key(namespace).String() + "/" + claimant.Object.GetName(),
	}
	for name, value := range claimant.Outputs {
		keys = append(keys, "output/"+name+"="+value)
	}
	if claimant.Decided != "" {
		keys = append(keys, "uid/"+string(claimant.Decided))
	}
	seen := map[types.UID]bool{}
	var found []MatchCandidate
	for _, key := range keys {
		for _, apply := range x.by[namespace+"/"+key] {
			if seen[apply.UID] {
				continue
			}
			seen[apply.UID] = true
			if candidate, ok := x.examine(claimant, apply); ok {
				found = append(found, candidate)
			}
		}
	}
	slices.SortFunc(found, func(a, b MatchCandidate) int {
		if a.weight() != b.weight() {
			return b.weight() - a.weight()
		}
		if a.conclusive() != b.conclusive() {
			if a.conclusive() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Apply.Name, b.Apply.Name)
	})
	return found
}

// examine collects the evidence for and against a WorkspaceTemplateApply. It returns false if that is not a candidate: it is a helper of
// CAPT v0.3, or it belongs to a Fargate profile, or to another cluster with the same name or template.
func (x *index) examine(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (MatchCandidate, bool) {
	want := claimant.Want
	referred := claimant.Reference != "" && apply.Name == claimant.Reference
	explicit := referred || want.Records(apply) || apply.UID == claimant.Decided
	if !explicit && (helperRole(claimant.Object.GetName(), apply) != "" || apply.Spec.Variables[naming.ProfileVariable] != "") {
		return MatchCandidate{}, false
	}
	candidate := MatchCandidate{Apply: apply, For: x.evidenceFor(claimant, apply, referred), Against: evidenceAgainst(claimant, apply)}
	if len(candidate.For) == 0 || len(candidate.Against) > 0 && candidate.weight() < weightStrong && !candidate.has(claim.Named) {
		return candidate, apply.UID == claimant.Decided
	}
	return candidate, true
}

// evidenceFor returns why a WorkspaceTemplateApply may belong to an owner. Referred is whether the owner's spec names it.
func (x *index) evidenceFor(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply, referred bool) (found []claim.Evidence) {
	want, ref := claimant.Want, apply.Spec.WriteConnectionSecretToRef
	add := func(evidence claim.Evidence, applies bool) {
		if applies {
			found = append(found, evidence)
		}
	}
	add(Referred, referred)
	add(SameOutputs, sharesOutput(claimant.Outputs, x.outputs[apply.UID]))
	add(claim.Recorded, want.Recorded != "" && want.Records(apply))
	add(claim.Owned, claim.Owns(claimant.Object, apply) && (want.SameTemplate(apply) || apply.Name == want.SchemeName))
	add(claim.Named, apply.Name == want.SchemeName)
	add(SameSecret, ref != nil && claimant.ConnectionSecret != "" && ref.Name == claimant.ConnectionSecret)
	add(SameTemplate, want.SameTemplate(apply))
	add(SameCluster, want.HasClusterName(claimant.Object, apply))
	add(LegacyNamed, apply.Name == naming.LegacyFixedApply && want.SameTemplate(apply))
	return found
}

// sharesOutput reports whether a Workspace reports one of the outputs that an owner must have.
func sharesOutput(want, reported map[string]string) bool {
	for name, value := range want {
		if value != "" && reported[name] == value {
			return true
		}
	}
	return false
}

// evidenceAgainst returns why a WorkspaceTemplateApply may not belong to an owner, as texts for users.
func evidenceAgainst(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (found []string) {
	if other := claim.OtherController(claimant.Object, apply); other != nil {
		found = append(found, fmt.Sprintf("it belongs to %s %s", other.Kind, other.Name))
	}
	if !claimant.Want.SameTemplate(apply) {
		found = append(found, fmt.Sprintf("it uses WorkspaceTemplate %s, but spec refers to %s", apply.TemplateKey(), claimant.Want.Template.Key(apply.Namespace)))
	}
	if given := apply.Spec.Variables[naming.ClusterVariable]; given != "" && !claimant.Want.HasClusterName(claimant.Object, apply) {
		found = append(found, fmt.Sprintf("its cluster_name is %s", given))
	}
	if !apply.DeletionTimestamp.IsZero() {
		found = append(found, "it is being deleted")
	}
	if helper := helperRole(claimant.Object.GetName(), apply); helper != "" {
		found = append(found, "it is the "+helper)
	}
	return found
}
