// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package adoption decides which WorkspaceTemplateApply belongs to which owner, from evidence alone.
package adoption

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Expectation is what an owner expects of the WorkspaceTemplateApply that its spec refers to.
type Expectation struct {
	// SchemeName is the name that the naming scheme gives.
	SchemeName string
	// Recorded is the name in the owner's status: of the one that it has taken or created before.
	Recorded string
	// Template is what the owner would refer to.
	Template infrav1.WorkspaceTemplateReference
	// Variables are those that the owner would set, as far as it knows.
	Variables map[string]string
	// Built is the field that shows that the owner's cloud resources were created once; empty when none does.
	Built string
	// Legacy is true when the status of the owner is the one that CAPT v0.3 left.
	Legacy bool
	// profile is the Fargate profile that it is about; empty when it is a VPC, or the control plane itself.
	profile string
	// byScheme is true when no reference says which one it is, but the naming scheme.
	byScheme bool
}

// Candidate is a WorkspaceTemplateApply that may belong to an owner, and about which the user has to decide.
type Candidate struct {
	Name string
	// Evidence for it; never empty.
	Evidence []Evidence
}

// Evidence is why a WorkspaceTemplateApply may belong to an owner.
type Evidence string

const (
	// Recorded: the owner had it before.
	Recorded Evidence = "status records it"
	// Owned: it is deleted with the owner, which must not be deleted before the user has decided.
	Owned Evidence = "this object owns it"
	// Named: the owner would create one of that name.
	Named Evidence = "its name follows the naming scheme"
	// Unowned: it may be this object's, and no other object controls it.
	Unowned Evidence = "no controller owns it, it uses the same template, and its cluster_name matches or is empty"
	// Referred: spec of the owner names it, and it has not been adopted from CAPT v0.3.
	Referred Evidence = "spec refers to it"
)

// String is the name and the evidence.
func (c Candidate) String() string {
	words := make([]string, len(c.Evidence))
	for i, evidence := range c.Evidence {
		words[i] = string(evidence)
	}
	return fmt.Sprintf("%s (%s)", c.Name, strings.Join(words, ", "))
}

// Candidates returns the WorkspaceTemplateApplies of a namespace that may belong to an owner which refers to none, sorted by name: the one
// that the naming scheme would name, the one that status records, those that it owns, and those of CAPT v0.3 that no controller owns and
// that are of its template or its cluster.
//
// An owner with any candidate must not get a new WorkspaceTemplateApply: if the candidate is its own after all, the new
// one would be a second EKS cluster, VPC or Fargate profile.
func (want Expectation) Candidates(owner metav1.Object, applies []infrav1.WorkspaceTemplateApply) []Candidate {
	var candidates []Candidate
	for i := range applies {
		if evidence := want.EvidenceFor(owner, &applies[i]); len(evidence) > 0 {
			candidates = append(candidates, Candidate{Name: applies[i].Name, Evidence: evidence})
		}
	}
	slices.SortFunc(candidates, func(a, b Candidate) int { return strings.Compare(a.Name, b.Name) })
	return candidates
}

// EvidenceFor returns why a WorkspaceTemplateApply may belong to an owner that refers to none, the strongest first.
func (want Expectation) EvidenceFor(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) (found []Evidence) {
	recorded, named := apply.Name == want.Recorded, apply.Name == want.SchemeName
	if recorded {
		found = append(found, Recorded)
	}
	if owns(owner, apply) && (named || recorded || want.expects(apply) || want.perhaps(owner, apply)) {
		found = append(found, Owned)
	}
	if named {
		found = append(found, Named)
	}
	if len(found) == 0 && Ownerless(apply) && want.perhaps(owner, apply) {
		found = want.likeness(owner, apply)
	}
	return found
}

// likeness of a WorkspaceTemplateApply that no controller owns to what an owner would create.
func (want Expectation) likeness(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []Evidence {
	cluster := apply.Spec.Variables[naming.ClusterVariable]
	ofCluster := cluster != "" && (cluster == want.Variables[naming.ClusterVariable] || cluster == owner.GetName())
	switch {
	case want.Template.Name != "" && want.sameTemplate(apply) && (ofCluster || cluster == ""):
		return []Evidence{Unowned}
	case ofCluster:
		return []Evidence{SameCluster}
	}
	return nil
}

// perhaps reports whether a WorkspaceTemplateApply of CAPT v0.3 may be that of an owner whatever its name and template: CAPT v0.3 never
// applied a template that the owner got later. Helpers and what belongs to machines or Fargate profiles are not.
func (want Expectation) perhaps(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	return want.profile == "" && want.profileDifference(apply) == "" && Unadopted(apply) != "" && helperOf(owner.GetName(), apply) == "" && Machine(apply) == ""
}

// expects reports whether an owner would have this one among those that it owns, by its template. What a control plane owns of
// another one belongs to a Fargate profile, or is a helper of CAPT v0.3, for example <name>-kubeconfig-apply; to refer to that
// would make an EKS cluster of it.
func (want Expectation) expects(apply *infrav1.WorkspaceTemplateApply) bool {
	return want.profileDifference(apply) == "" && (want.Template.Name == "" || want.sameTemplate(apply))
}

// Names of the candidates for which there is a piece of evidence.
func Names(candidates []Candidate, evidence Evidence) (names []string) {
	for _, candidate := range candidates {
		if slices.Contains(candidate.Evidence, evidence) {
			names = append(names, candidate.Name)
		}
	}
	return names
}

func owns(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.ContainsFunc(apply.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
}

// OtherController returns the controller of a WorkspaceTemplateApply when that is not the owner; else nil.
func OtherController(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) *metav1.OwnerReference {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.UID == owner.GetUID() {
		return nil
	}
	return controller
}

// Conflict says in words why an owner must not take the WorkspaceTemplateApply that its spec refers to, or that a Fargate
// profile without a reference has by the naming scheme; empty when it may.
//
// No owner may take what another controller has. What no controller has is taken when it is what the owner would have created,
// or when the owner had it before and merely lost its owner reference; by whatever name. A reference by a wrong name would
// otherwise put the template of an EKS cluster upon the Workspace of something else, and Terraform would destroy that.
func Conflict(owner metav1.Object, want Expectation, apply *infrav1.WorkspaceTemplateApply) string {
	if other := OtherController(owner, apply); other != nil {
		return fmt.Sprintf("%s names WorkspaceTemplateApply %s, which belongs to %s %s: nothing is written. %s",
			want.source(), apply.Name, other.Kind, other.Name, want.anotherName())
	}
	if differs := want.Mismatch(owner, apply); differs != "" {
		return "nothing is written: " + want.Refusal(apply, differs)
	}
	if want.Variables[naming.ClusterVariable] == "" && !want.Had(apply) && !metav1.IsControlledBy(apply, owner) {
		return fmt.Sprintf("%s names WorkspaceTemplateApply %s, but the reference cannot be verified before the Cluster of this object exists: nothing is written. Create the Cluster that refers to this object",
			want.source(), apply.Name)
	}
	return ""
}

// Mismatch says why an owner must not take over a WorkspaceTemplateApply that no other has; empty when nothing is known
// against it. One that the owner's status records is its own, whatever it holds: the owner may have got another template
// since. One that it controls has its identity from it, but may be a helper of CAPT v0.3, made from another template,
// or belong to a Fargate profile.
//
// A control plane has many for its Fargate profiles, and the variables show which is whose. So they must agree in any case;
// the template need not in one that the control plane controls, since the template of the profile may have changed.
func (want Expectation) Mismatch(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) string {
	controlled := metav1.IsControlledBy(apply, owner)
	switch {
	case want.profile != "" && controlled:
		return want.IdentityDifference(apply)
	case want.Had(apply):
		return ""
	case controlled && want.profileDifference(apply) != "":
		return want.profileDifference(apply)
	case controlled:
		return want.templateDifference(apply)
	}
	return want.Difference(apply)
}

// MayDelete reports whether an owner that is being deleted may delete a WorkspaceTemplateApply that it refers to: it controls it, or
// its status records it. An owner that was restored from a backup, and is garbage-collected because its own owner is gone, has neither
// and must not delete what it never had. A Fargate profile has no status of its own before it is created.
func (want Expectation) MayDelete(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	return want.profile != "" || metav1.IsControlledBy(apply, owner) || want.Had(apply)
}

// Had reports whether the owner has taken or created a WorkspaceTemplateApply before.
func (want Expectation) Had(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Name == want.Recorded
}

// Difference says in which respect a WorkspaceTemplateApply is not what an owner would make: in the template, or in a
// variable that names the cloud resources; empty when in none. What the owner does not know yet is not a difference.
func (want Expectation) Difference(apply *infrav1.WorkspaceTemplateApply) string {
	if difference := want.templateDifference(apply); difference != "" {
		return difference
	}
	return want.IdentityDifference(apply)
}

// IdentityDifference is a Difference in the variables. The one that names the cluster must be there, and so must the one
// that names a Fargate profile, but for VPCs and control planes, which never have it. That of the VPC may be missing, since
// a template need not have it, and a control plane does not set it.
func (want Expectation) IdentityDifference(apply *infrav1.WorkspaceTemplateApply) string {
	cluster, vpc := want.Variables[naming.ClusterVariable], want.Variables[naming.VPCVariable]
	given, named := apply.Spec.Variables[naming.VPCVariable]
	switch {
	case cluster != "" && apply.Spec.Variables[naming.ClusterVariable] == "":
		return "has no " + naming.ClusterVariable
	case cluster != "" && apply.Spec.Variables[naming.ClusterVariable] != cluster:
		return "has another " + naming.ClusterVariable
	case want.profileDifference(apply) != "":
		return want.profileDifference(apply)
	case vpc != "" && named && given != vpc:
		return "has another " + naming.VPCVariable
	}
	return ""
}

// TemplateDiffers is how messages say that a WorkspaceTemplateApply refers to another template than its owner.
const TemplateDiffers = "refers to another WorkspaceTemplate"

func (want Expectation) templateDifference(apply *infrav1.WorkspaceTemplateApply) string {
	if want.sameTemplate(apply) {
		return ""
	}
	return TemplateDiffers
}

func (want Expectation) sameTemplate(apply *infrav1.WorkspaceTemplateApply) bool {
	return want.Template.Key(apply.Namespace) == apply.TemplateKey()
}
