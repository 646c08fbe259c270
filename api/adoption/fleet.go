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

// More evidence, which needs a look at the whole fleet.
const (
	// LegacyNamed: CAPT before v0.3 gave this name to every control plane's.
	LegacyNamed Evidence = "it has the fixed name that CAPT before v0.3 used"
	// SameTemplate: what it makes is of the kind that the owner wants.
	SameTemplate Evidence = "it uses the template that spec refers to"
	// SameCluster: it makes the cloud resources of a cluster of that name.
	SameCluster Evidence = "its cluster_name is that of the Cluster"
	// SameSecret: the owner reads what it writes.
	SameSecret Evidence = "it writes the connection Secret of this object"
	// SameOutputs: its Workspace made the EKS cluster or VPC that the owner has. Clusters behind one shared endpoint have it in common.
	SameOutputs Evidence = "its Workspace reports the endpoint or VPC that this object has"
)

// Claimant is an owner that should have a WorkspaceTemplateApply.
type Claimant struct {
	// Kind of the owner.
	Kind   string
	Object metav1.Object
	Want   Expectation
	// Reference is the name in spec; empty when there is none.
	Reference string
	// ConnectionSecret that the owner would have written.
	ConnectionSecret string
	// Outputs are what a Workspace reports that is this owner's: values by the names of outputs. Endpoints are host:port.
	Outputs map[string]string
	// Decided is the UID of the WorkspaceTemplateApply that a user decided is its own.
	Decided types.UID
}

// MatchCandidate is a WorkspaceTemplateApply that may be an owner's.
type MatchCandidate struct {
	Apply *infrav1.WorkspaceTemplateApply
	For   []Evidence
	// Against is what speaks against it, in words.
	Against []string
}

// Match is what the evidence says about an owner. Either Apply is set, or Problem says why a user has to decide; both are empty
// when there is no evidence for any WorkspaceTemplateApply.
type Match struct {
	Claimant *Claimant
	Apply    *infrav1.WorkspaceTemplateApply
	// Candidates are all for which there is evidence, the strongest first.
	Candidates []MatchCandidate
	Problem    string
	// Misreferred is the match that spec does not refer to; nil if there is none. A decision does not help then.
	Misreferred *infrav1.WorkspaceTemplateApply
}

// weight of evidence. What names this object deliberately weighs most; what may match by chance weighs least.
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

// conclusive reports whether the evidence is enough to adopt on: nothing is against it, and it names this very object, or both
// what is made and for which cluster are right.
func (c *MatchCandidate) conclusive() bool {
	return len(c.Against) == 0 && (c.weight() >= 2 || c.has(SameTemplate) && c.has(SameCluster))
}

func (c *MatchCandidate) has(evidence Evidence) bool { return slices.Contains(c.For, evidence) }

// agreed reports whether owner reference, spec and status all name a candidate, and its Workspace reports no other endpoint or VPC than the
// owner has.
func (x *index) agreed(c *MatchCandidate) bool {
	specAgrees := c.has(Referred) || c.has(SameTemplate) && (c.has(Named) || c.has(LegacyNamed) || c.has(SameCluster))
	sameOutputs := c.has(SameOutputs) || len(x.outputs[c.Apply.UID]) == 0
	return len(c.Against) == 0 && c.has(Owned) && specAgrees && sameOutputs && c.Apply.Status.WorkspaceName != ""
}

// onlySharesOutputs reports whether all that names the owner is an endpoint or VPC, and something else is against the candidate.
func (c *MatchCandidate) onlySharesOutputs() bool {
	others := slices.DeleteFunc(slices.Clone(c.For), func(evidence Evidence) bool { return evidence == SameOutputs })
	return c.has(SameOutputs) && len(c.Against) > 0 && weightOf(others) < 2
}

// MatchFleet finds for every owner of a fleet the WorkspaceTemplateApply that is its own. The result is one-to-one: of a
// WorkspaceTemplateApply that two owners may have, neither gets it. outputs are what the Workspace of a WorkspaceTemplateApply
// reports, by its UID; there is no entry where the Workspace does not exist.
func MatchFleet(claimants []Claimant, applies []infrav1.WorkspaceTemplateApply, outputs map[types.UID]map[string]string) []Match {
	index := newIndex(applies, outputs)
	matches := make([]Match, len(claimants))
	for i := range claimants {
		matches[i] = index.match(&claimants[i])
	}
	resolveConflicts(matches)
	return matches
}

// resolveConflicts gives a WorkspaceTemplateApply that several owners may have to none of them, except to the one that a user named.
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

// decidedFor is the one match that a user named; nil when that is none, or several.
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

// index finds candidates without comparing every owner with everything.
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

// withoutShared drops candidates that merely share an endpoint or VPC with the owner, where all evidence agrees on another one.
func (x *index) withoutShared(candidates []MatchCandidate) []MatchCandidate {
	if !slices.ContainsFunc(candidates, func(c MatchCandidate) bool { return x.agreed(&c) }) {
		return candidates
	}
	return slices.DeleteFunc(candidates, func(c MatchCandidate) bool { return c.onlySharesOutputs() })
}

// withoutNeverBuilt drops candidates of which CAPT v0.3 never created the Workspace, behind one that has its own. The manager creates
// nothing for them: they have the finalizer of CAPT v0.3.
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

// decided takes what a user named, whatever the evidence; but not what is being deleted, or what another controller has.
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

// choose takes the best candidate, if it stands above all others.
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

// candidates of an owner, the strongest first.
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

// examine collects the evidence. False when what there is means nothing: a helper of CAPT v0.3, what belongs to a Fargate
// profile, or something of another cluster that merely shares a name or a template.
func (x *index) examine(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (MatchCandidate, bool) {
	want := claimant.Want
	referred := claimant.Reference != "" && apply.Name == claimant.Reference
	meant := referred || want.Had(apply) || apply.UID == claimant.Decided
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
		{Recorded, want.Recorded != "" && want.Had(apply)},
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

// cluster reports whether something is of the owner's cluster. CAPT v0.3 called the cloud resources of a control plane like the
// Cluster or like the control plane itself.
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
