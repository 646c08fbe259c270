// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Evidence that only MatchFleet uses, because it requires all objects of the fleet.
const (
	// LegacyNamed: it has the fixed name that CAPT before v0.3 gave to the WorkspaceTemplateApply of every control plane.
	LegacyNamed Evidence = "it has the fixed name that CAPT before v0.3 used"
	// SameTemplate: it uses the template of the owner.
	SameTemplate Evidence = "it uses the template that spec refers to"
	// SameCluster: its variable cluster_name is that of the owner.
	SameCluster Evidence = "its cluster_name is that of the Cluster"
	// SameSecret: it writes the connection Secret that the owner reads.
	SameSecret Evidence = "it writes the connection Secret of this object"
	// SameOutputs: its Workspace reports the endpoint or VPC of the owner. Several clusters may share an endpoint or a VPC.
	SameOutputs Evidence = "its Workspace reports the endpoint or VPC that this object has"
)

// Claimant is an owner for which MatchFleet searches the WorkspaceTemplateApply.
type Claimant struct {
	// Kind of the owner.
	Kind   string
	Object metav1.Object
	Want   Expectation
	// Reference is the name in spec; empty when there is none.
	Reference string
	// ConnectionSecret is the name of the connection Secret of the owner.
	ConnectionSecret string
	// Outputs are the Terraform outputs that the owner's Workspace must report, by name. Endpoints have the form host:port.
	Outputs map[string]string
	// Decided is the UID of the WorkspaceTemplateApply that the user chose for this owner; empty without a decision.
	Decided types.UID
}

// MatchCandidate is a WorkspaceTemplateApply that may belong to an owner.
type MatchCandidate struct {
	Apply *infrav1.WorkspaceTemplateApply
	// For is the evidence that it belongs to the owner.
	For []Evidence
	// Against are the reasons why it may not belong to the owner, as texts for users.
	Against []string
}

// Match is the result for one owner. Either Apply is set, or Problem is the reason why the user has to decide; both are empty
// when there is no evidence for any WorkspaceTemplateApply.
type Match struct {
	Claimant *Claimant
	Apply    *infrav1.WorkspaceTemplateApply
	// Candidates are all WorkspaceTemplateApplies with evidence, the strongest first.
	Candidates []MatchCandidate
	Problem    string
	// Misreferred is the best match, if spec refers to another WorkspaceTemplateApply; else nil. A decision cannot solve this conflict.
	Misreferred *infrav1.WorkspaceTemplateApply
}

// weight is that of the strongest evidence, from 0 to 3: 3 identifies the owner, 1 may match by chance.
func (c *MatchCandidate) weight() int { return weightOf(c.For) }

func weightOf(found []Evidence) int {
	weight := 0
	for _, evidence := range found {
		switch evidence {
		case Referred, Recorded, SameOutputs:
			return 3
		case Owned:
			weight = 2
		default:
			weight = max(weight, 1)
		}
	}
	return weight
}

// conclusive reports whether the evidence is sufficient for adoption: nothing is against the candidate, and the evidence identifies
// the owner, or both template and cluster_name match.
func (c *MatchCandidate) conclusive() bool {
	return len(c.Against) == 0 && (c.weight() >= 2 || c.has(SameTemplate) && c.has(SameCluster))
}

func (c *MatchCandidate) has(evidence Evidence) bool { return slices.Contains(c.For, evidence) }

// agreed reports whether the owner reference, spec and status all confirm a candidate, and its Workspace does not report an endpoint or
// VPC that differs from the owner's.
func (x *index) agreed(c *MatchCandidate) bool {
	specAgrees := c.has(Referred) || c.has(SameTemplate) && (c.has(Named) || c.has(LegacyNamed) || c.has(SameCluster))
	sameOutputs := c.has(SameOutputs) || len(x.outputs[c.Apply.UID]) == 0
	return len(c.Against) == 0 && c.has(Owned) && specAgrees && sameOutputs && c.Apply.Status.WorkspaceName != ""
}

// onlySharesOutputs reports whether an endpoint or VPC is the only strong evidence, and something is against the candidate.
func (c *MatchCandidate) onlySharesOutputs() bool {
	others := slices.DeleteFunc(slices.Clone(c.For), func(evidence Evidence) bool { return evidence == SameOutputs })
	return c.has(SameOutputs) && len(c.Against) > 0 && weightOf(others) < 2
}

// MatchFleet finds the WorkspaceTemplateApply of each owner of a fleet. A WorkspaceTemplateApply is assigned to one owner at most: if
// two owners match the same one, neither gets it. outputs are the Terraform outputs that a Workspace reports, by the UID of its
// WorkspaceTemplateApply; a missing entry means that the Workspace does not exist.
func MatchFleet(claimants []Claimant, applies []infrav1.WorkspaceTemplateApply, outputs map[types.UID]map[string]string) []Match {
	index := newIndex(applies, outputs)
	matches := make([]Match, len(claimants))
	for i := range claimants {
		matches[i] = index.match(&claimants[i])
	}
	resolveConflicts(matches)
	return matches
}

// resolveConflicts removes a WorkspaceTemplateApply that several owners claim from all of them, except from the one that the user chose.
func resolveConflicts(matches []Match) {
	claims := map[types.UID][]*Match{}
	for i := range matches {
		for j := range matches[i].Candidates {
			candidate := &matches[i].Candidates[j]
			if matches[i].has(candidate.Apply.UID) || candidate.weight() >= 2 {
				claims[candidate.Apply.UID] = append(claims[candidate.Apply.UID], &matches[i])
			}
		}
	}
	for uid, claimed := range claims {
		chosen := decidedFor(uid, claimed)
		for i, match := range claimed {
			if len(claimed) < 2 || !match.has(uid) || match == chosen {
				continue
			}
			other := claimed[(i+1)%len(claimed)].Claimant
			match.Problem = fmt.Sprintf("%s and %s both claim WorkspaceTemplateApply %s", match.Claimant, other, match.Apply.Name)
		}
	}
	for i := range matches {
		if matches[i].Problem != "" {
			matches[i].Apply = nil
		}
	}
}

// decidedFor returns the match for which the user chose a WorkspaceTemplateApply; nil when that is none, or more than one.
func decidedFor(uid types.UID, claimed []*Match) *Match {
	named := slices.DeleteFunc(slices.Clone(claimed), func(match *Match) bool { return match.Claimant.Decided != uid })
	if len(named) != 1 {
		return nil
	}
	return named[0]
}

func (m *Match) has(uid types.UID) bool { return m.Apply != nil && m.Apply.UID == uid }

// String is the kind and name of the owner.
func (c *Claimant) String() string { return c.Kind + " " + c.Object.GetName() }

// index finds the candidates of an owner without comparing it with every WorkspaceTemplateApply.
type index struct {
	outputs map[types.UID]map[string]string
	by      map[string][]*infrav1.WorkspaceTemplateApply
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

// keys under which a WorkspaceTemplateApply is found. Owners look in their own namespace only.
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

func (x *index) match(claimant *Claimant) Match {
	match := Match{Claimant: claimant, Candidates: x.candidates(claimant)}
	if claimant.Decided != "" {
		match.decided()
	} else {
		match.Candidates = x.withoutNeverBuilt(x.withoutShared(match.Candidates))
		match.choose()
	}
	if match.Apply != nil && claimant.Reference != "" && match.Apply.Name != claimant.Reference {
		// The manager follows the reference, and cannot change it: it would use, or create, the other one.
		match.Problem = fmt.Sprintf("spec refers to WorkspaceTemplateApply %s, but the best match is %s", claimant.Reference, match.Apply.Name)
		match.Apply, match.Misreferred = nil, match.Apply
	}
	return match
}

// withoutShared drops candidates that only share an endpoint or VPC with the owner, if all evidence agrees on another candidate.
func (x *index) withoutShared(candidates []MatchCandidate) []MatchCandidate {
	if !slices.ContainsFunc(candidates, func(c MatchCandidate) bool { return x.agreed(&c) }) {
		return candidates
	}
	return slices.DeleteFunc(candidates, func(c MatchCandidate) bool { return c.onlySharesOutputs() })
}

// withoutNeverBuilt drops candidates for which CAPT v0.3 never created a Workspace, if the best candidate is conclusive and has one. The
// manager does not create Workspaces for those that are dropped, because they have the finalizer of CAPT v0.3.
func (x *index) withoutNeverBuilt(candidates []MatchCandidate) []MatchCandidate {
	if len(candidates) < 2 || !candidates[0].conclusive() || !x.exists(candidates[0].Apply) || candidates[0].Apply.Status.WorkspaceName == "" {
		return candidates
	}
	return slices.DeleteFunc(candidates, func(c MatchCandidate) bool {
		return !c.has(Referred) && Unadopted(c.Apply) != "" && c.Apply.Status.WorkspaceName == "" && !x.exists(c.Apply)
	})
}

func (x *index) exists(apply *infrav1.WorkspaceTemplateApply) bool {
	_, exists := x.outputs[apply.UID]
	return exists
}

// decided selects the candidate that the user chose, regardless of the evidence, unless it is being deleted or has another controller.
func (m *Match) decided() {
	for i := range m.Candidates {
		switch candidate := &m.Candidates[i]; {
		case candidate.Apply.UID != m.Claimant.Decided:
		case !candidate.Apply.DeletionTimestamp.IsZero(), OtherController(m.Claimant.Object, candidate.Apply) != nil:
			m.Problem = fmt.Sprintf("the decision names WorkspaceTemplateApply %s, but %s", candidate.Apply.Name, strings.Join(candidate.Against, ", "))
			return
		default:
			m.Apply = candidate.Apply
			return
		}
	}
	m.Problem = fmt.Sprintf("the decision names UID %s, but no WorkspaceTemplateApply of the namespace has this UID", m.Claimant.Decided)
}

// choose selects the best candidate, if its evidence is conclusive and clearly stronger than that of the second best.
func (m *Match) choose() {
	if len(m.Candidates) == 0 {
		return
	}
	best := &m.Candidates[0]
	switch {
	case !best.conclusive():
		m.Problem = fmt.Sprintf("the evidence for WorkspaceTemplateApply %s is not sufficient", best.Apply.Name)
		if len(best.Against) > 0 {
			m.Problem = fmt.Sprintf("WorkspaceTemplateApply %s is the best match, but %s", best.Apply.Name, strings.Join(best.Against, ", and "))
		}
		return
	case len(m.Candidates) == 1:
		m.Apply = best.Apply
		return
	}
	second := &m.Candidates[1]
	if second.weight() >= 2 || best.weight() < 3 {
		m.Problem = fmt.Sprintf("there is evidence for both WorkspaceTemplateApply %s and %s", best.Apply.Name, second.Apply.Name)
		return
	}
	m.Apply = best.Apply
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

// examine collects the evidence for and against a WorkspaceTemplateApply. It returns false if that is not a candidate: a helper of
// CAPT v0.3, one of a Fargate profile, or one of another cluster that only has the same name or template.
func (x *index) examine(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (MatchCandidate, bool) {
	want := claimant.Want
	referred := claimant.Reference != "" && apply.Name == claimant.Reference
	meant := referred || want.Records(apply) || apply.UID == claimant.Decided
	if !meant && (helperOf(claimant.Object.GetName(), apply) != "" || apply.Spec.Variables[naming.ProfileVariable] != "") {
		return MatchCandidate{}, false
	}
	candidate := MatchCandidate{Apply: apply, For: x.evidenceFor(claimant, apply, referred), Against: evidenceAgainst(claimant, apply)}
	if len(candidate.For) == 0 || len(candidate.Against) > 0 && candidate.weight() < 2 && !candidate.has(Named) {
		return candidate, apply.UID == claimant.Decided
	}
	return candidate, true
}

func (x *index) evidenceFor(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply, referred bool) (found []Evidence) {
	want, ref := claimant.Want, apply.Spec.WriteConnectionSecretToRef
	for _, is := range []struct {
		evidence Evidence
		true     bool
	}{
		{Referred, referred},
		{SameOutputs, sharesOutput(claimant.Outputs, x.outputs[apply.UID])},
		{Recorded, want.Recorded != "" && want.Records(apply)},
		{Owned, owns(claimant.Object, apply) && (want.sameTemplate(apply) || apply.Name == want.SchemeName)},
		{Named, apply.Name == want.SchemeName},
		{SameSecret, ref != nil && claimant.ConnectionSecret != "" && ref.Name == claimant.ConnectionSecret},
		{SameTemplate, want.sameTemplate(apply)},
		{SameCluster, claimant.cluster(apply)},
	} {
		if is.true {
			found = append(found, is.evidence)
		}
	}
	if apply.Name == naming.LegacyFixedApply && slices.Contains(found, SameTemplate) {
		found = append(found, LegacyNamed)
	}
	return found
}

// cluster reports whether cluster_name is that of the owner. CAPT v0.3 used the name of the Cluster or of the control plane.
func (c *Claimant) cluster(apply *infrav1.WorkspaceTemplateApply) bool {
	given := apply.Spec.Variables[naming.ClusterVariable]
	return given != "" && (given == c.Want.Variables[naming.ClusterVariable] || given == c.Object.GetName())
}

func sharesOutput(want, reported map[string]string) bool {
	for name, value := range want {
		if value != "" && reported[name] == value {
			return true
		}
	}
	return false
}

func evidenceAgainst(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (found []string) {
	if other := OtherController(claimant.Object, apply); other != nil {
		found = append(found, fmt.Sprintf("it belongs to %s %s", other.Kind, other.Name))
	}
	if !claimant.Want.sameTemplate(apply) {
		found = append(found, fmt.Sprintf("it uses WorkspaceTemplate %s, but spec refers to %s", apply.TemplateKey(), claimant.Want.Template.Key(apply.Namespace)))
	}
	if given := apply.Spec.Variables[naming.ClusterVariable]; given != "" && !claimant.cluster(apply) {
		found = append(found, fmt.Sprintf("its cluster_name is %s", given))
	}
	if !apply.DeletionTimestamp.IsZero() {
		found = append(found, "it is being deleted")
	}
	if helper := helperOf(claimant.Object.GetName(), apply); helper != "" {
		found = append(found, "it is the "+helper)
	}
	return found
}
