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
	// LegacyNamed: an older CAPT gave this name to every control plane's.
	LegacyNamed Evidence = "it has the name that an older CAPT gave"
	// SameTemplate: what it makes is of the kind that the owner wants.
	SameTemplate Evidence = "it is made from the template that spec names"
	// SameCluster: it makes the cloud resources of a cluster of that name.
	SameCluster Evidence = "its cluster_name is the Cluster's"
	// SameSecret: the owner reads what it writes.
	SameSecret Evidence = "it writes the connection Secret of this object"
	// SameOutputs: nobody else has the endpoint of this EKS cluster, or the ID of this VPC.
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
	// Decided is the UID of the WorkspaceTemplateApply that a person said is its own.
	Decided types.UID
}

// Suspect is a WorkspaceTemplateApply that may be an owner's.
type Suspect struct {
	Apply *infrav1.WorkspaceTemplateApply
	For   []Evidence
	// Against is what speaks against it, in words.
	Against []string
}

// Match is what the evidence says about an owner. Either Apply is set, or Problem says why a person has to decide; both are empty
// when nothing speaks for any WorkspaceTemplateApply.
type Match struct {
	Claimant *Claimant
	Apply    *infrav1.WorkspaceTemplateApply
	// Suspects are all for which there is evidence, the strongest first.
	Suspects []Suspect
	Problem  string
}

// weight of evidence. That which names this one object, and was said on purpose, weighs most; that which may be so by chance, least.
func (s *Suspect) weight() int {
	weight := 0
	for _, evidence := range s.For {
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

// conclusive tells whether the evidence is enough to adopt on, if nothing speaks against it: it names this very object, or both
// what is made and for which cluster are right.
func (s *Suspect) conclusive() bool {
	return len(s.Against) == 0 && (s.weight() >= 2 || slices.Contains(s.For, SameTemplate) && slices.Contains(s.For, SameCluster))
}

// MatchFleet finds for every owner of a fleet the WorkspaceTemplateApply that is its own. The result is one-to-one: what two
// owners may have, neither gets. outputs are what the Workspace of a WorkspaceTemplateApply reports, by its UID.
func MatchFleet(claimants []Claimant, applies []infrav1.WorkspaceTemplateApply, outputs map[types.UID]map[string]string) []Match {
	index := newIndex(applies, outputs)
	matches := make([]Match, len(claimants))
	for i := range claimants {
		matches[i] = index.match(&claimants[i])
	}
	contest(matches)
	return matches
}

// contest takes what several owners may have away from all of them, but for the one that a person named.
func contest(matches []Match) {
	claims := map[types.UID][]*Match{}
	for i := range matches {
		for _, suspect := range matches[i].Suspects {
			if matches[i].has(suspect.Apply.UID) || suspect.weight() >= 2 {
				claims[suspect.Apply.UID] = append(claims[suspect.Apply.UID], &matches[i])
			}
		}
	}
	for uid, rivals := range claims {
		chosen := decidedFor(uid, rivals)
		for i, match := range rivals {
			if len(rivals) < 2 || !match.has(uid) || match == chosen {
				continue
			}
			rival := rivals[(i+1)%len(rivals)].Claimant
			match.Problem = fmt.Sprintf("%s and %s both claim WorkspaceTemplateApply %s", match.Claimant, rival, match.Apply.Name)
		}
	}
	for i := range matches {
		if matches[i].Problem != "" {
			matches[i].Apply = nil
		}
	}
}

// decidedFor is the one rival that a person named; nil when that is none, or several.
func decidedFor(uid types.UID, rivals []*Match) *Match {
	named := slices.DeleteFunc(slices.Clone(rivals), func(match *Match) bool { return match.Claimant.Decided != uid })
	if len(named) != 1 {
		return nil
	}
	return named[0]
}

func (m *Match) has(uid types.UID) bool { return m.Apply != nil && m.Apply.UID == uid }

// String is the kind and name of the owner.
func (c *Claimant) String() string { return c.Kind + " " + c.Object.GetName() }

// index finds suspects without comparing every owner with everything.
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
	match := Match{Claimant: claimant, Suspects: x.suspects(claimant)}
	if claimant.Decided != "" {
		match.decided()
		return match
	}
	match.judge()
	return match
}

// decided takes what a person named, whatever the evidence; but not what is being deleted, or what another controller has.
func (m *Match) decided() {
	for i := range m.Suspects {
		switch suspect := &m.Suspects[i]; {
		case suspect.Apply.UID != m.Claimant.Decided:
		case !suspect.Apply.DeletionTimestamp.IsZero(), OtherController(m.Claimant.Object, suspect.Apply) != nil:
			m.Problem = fmt.Sprintf("WorkspaceTemplateApply %s was decided for, but %s", suspect.Apply.Name, strings.Join(suspect.Against, ", "))
			return
		default:
			m.Apply = suspect.Apply
			return
		}
	}
	m.Problem = fmt.Sprintf("its namespace has no WorkspaceTemplateApply with the UID that was decided for, %s", m.Claimant.Decided)
}

// judge takes the one suspect that stands above all others, if there is one.
func (m *Match) judge() {
	if len(m.Suspects) == 0 {
		return
	}
	best := &m.Suspects[0]
	switch {
	case !best.conclusive():
		m.Problem = fmt.Sprintf("the evidence for WorkspaceTemplateApply %s is not enough", best.Apply.Name)
		if len(best.Against) > 0 {
			m.Problem = fmt.Sprintf("WorkspaceTemplateApply %s would be meant, but %s", best.Apply.Name, strings.Join(best.Against, ", and "))
		}
		return
	case len(m.Suspects) == 1:
		m.Apply = best.Apply
		return
	}
	rival := &m.Suspects[1]
	if rival.weight() >= 2 || best.weight() < 3 {
		m.Problem = fmt.Sprintf("both WorkspaceTemplateApply %s and %s may be meant", best.Apply.Name, rival.Apply.Name)
		return
	}
	m.Apply = best.Apply
}

// suspects of an owner, the strongest first.
func (x *index) suspects(claimant *Claimant) []Suspect {
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
	var suspects []Suspect
	for _, key := range keys {
		for _, apply := range x.by[namespace+"/"+key] {
			if seen[apply.UID] {
				continue
			}
			seen[apply.UID] = true
			if suspect, found := x.examine(claimant, apply); found {
				suspects = append(suspects, suspect)
			}
		}
	}
	slices.SortFunc(suspects, func(a, b Suspect) int {
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
	return suspects
}

// examine collects the evidence. False when what there is means nothing: a helper of the older CAPT, what belongs to a Fargate
// profile, or something of another cluster that merely shares a name or a template.
func (x *index) examine(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (Suspect, bool) {
	want := claimant.Want
	referred := claimant.Reference != "" && apply.Name == claimant.Reference
	meant := referred || want.Had(apply) || apply.UID == claimant.Decided
	if !meant && (helperOf(claimant.Object.GetName(), apply) != "" || apply.Spec.Variables[naming.ProfileVariable] != "") {
		return Suspect{}, false
	}
	suspect := Suspect{Apply: apply, For: x.speaksFor(claimant, apply, referred), Against: speaksAgainst(claimant, apply)}
	named := slices.Contains(suspect.For, Named)
	if len(suspect.For) == 0 || len(suspect.Against) > 0 && suspect.weight() < 2 && !named {
		return suspect, apply.UID == claimant.Decided
	}
	return suspect, true
}

func (x *index) speaksFor(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply, referred bool) (found []Evidence) {
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

// cluster tells whether something is of the owner's cluster. The older CAPT called the cloud resources of a control plane like the
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

func speaksAgainst(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (found []string) {
	if other := OtherController(claimant.Object, apply); other != nil {
		found = append(found, fmt.Sprintf("it belongs to %s %s", other.Kind, other.Name))
	}
	if !claimant.Want.sameTemplate(apply) {
		found = append(found, fmt.Sprintf("it is made from WorkspaceTemplate %s, and spec names %s", apply.TemplateKey(), claimant.Want.Template.Key(apply.Namespace)))
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

// Helpers of the older CAPT, by the suffix of their names: what it made for a control plane besides the EKS cluster.
var helpers = map[string]string{
	"-kubeconfig-apply": "kubeconfig helper",
	"-spot-role-check":  "spot role helper",
	"-spot-role-create": "spot role helper",
}

// Helper returns which helper of CAPT v0.3 a WorkspaceTemplateApply is; empty when it is none. CAPT v0.3 made the control plane its
// controller.
func Helper(apply *infrav1.WorkspaceTemplateApply) string {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.Kind != "CAPTControlPlane" {
		return ""
	}
	return helperOf(controller.Name, apply)
}

// helperOf returns which helper of CAPT v0.3 the name of a WorkspaceTemplateApply means for a control plane; empty when none.
func helperOf(controlPlane string, apply *infrav1.WorkspaceTemplateApply) string {
	suffix, found := strings.CutPrefix(apply.Name, controlPlane)
	if !found {
		return ""
	}
	return helpers[suffix]
}

// SpotRole is what Helper returns of the helpers for the account-wide role of Spot. Other clusters need it, too, so that it is
// never destroyed.
const SpotRole = "spot role helper"
