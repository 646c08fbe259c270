// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim decides whether a WorkspaceTemplateApply belongs to an owner: a CAPTCluster, a CAPTControlPlane, or one of its Fargate
// profiles. The decisions are pure functions of the objects.
package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Expectation is what an owner expects of the WorkspaceTemplateApply that its spec refers to.
type Expectation struct {
	// SchemeName is the name that package naming derives from the name of the owner.
	SchemeName string
	// Recorded is the name in the status of the owner: the WorkspaceTemplateApply that it has; empty without one.
	Recorded string
	// Template is the WorkspaceTemplate that the owner would refer to.
	Template infrav1.WorkspaceTemplateReference
	// Variables are the variables that the owner would set. The value is empty while the owner does not know it.
	Variables map[string]string
	// ProvisionedField is the path of the field of the owner that shows that its cloud resources were created, for example status.vpc.id;
	// empty while no field shows it.
	ProvisionedField string
	// Advice replaces the advice to recreate the owner, where that would destroy cloud resources; empty otherwise.
	Advice string
	// profile is the name of the Fargate profile; empty for a VPC or a control plane.
	profile string
	// nodeGroup is the name of the EKS node group; empty for other owners.
	nodeGroup string
	// byScheme is true for a Fargate profile without a reference: its WorkspaceTemplateApply has the name of the naming scheme.
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
	// Recorded: status of the owner names it.
	Recorded Evidence = "status records it"
	// Owned: it has an owner reference to the owner. Garbage collection deletes it with the owner, so the owner must not be deleted
	// before the user has decided.
	Owned Evidence = "this object owns it"
	// Named: it has the name that the owner would give to a new one.
	Named Evidence = "its name follows the naming scheme"
)

// String is the name and the evidence.
func (c Candidate) String() string {
	words := make([]string, len(c.Evidence))
	for i, evidence := range c.Evidence {
		words[i] = string(evidence)
	}
	return fmt.Sprintf("%s (%s)", c.Name, strings.Join(words, ", "))
}

// CandidatesBy returns the WorkspaceTemplateApplies of a namespace for which there is evidence that they belong to an owner whose spec refers to none,
// sorted by name.
//
// While there is a candidate, the owner must not get a new WorkspaceTemplateApply: if the candidate belongs to the owner, the new
// one would create a second EKS cluster, VPC or Fargate profile.
func CandidatesBy(applies []infrav1.WorkspaceTemplateApply, evidenceFor func(*infrav1.WorkspaceTemplateApply) []Evidence) (candidates []Candidate) {
	for i := range applies {
		if evidence := evidenceFor(&applies[i]); len(evidence) > 0 {
			candidates = append(candidates, Candidate{Name: applies[i].Name, Evidence: evidence})
		}
	}
	slices.SortFunc(candidates, func(a, b Candidate) int { return strings.Compare(a.Name, b.Name) })
	return candidates
}

// EvidenceFor returns why a WorkspaceTemplateApply may belong to an owner whose spec refers to none, the strongest evidence first: it has the name of
// the naming scheme or the one in the status of the owner, or an owner reference to the owner.
func (want Expectation) EvidenceFor(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) (found []Evidence) {
	recorded, named := apply.Name == want.Recorded, apply.Name == want.SchemeName
	if recorded {
		found = append(found, Recorded)
	}
	if Owns(owner, apply) && (named || recorded || want.matchesTemplate(apply)) {
		found = append(found, Owned)
	}
	if named {
		found = append(found, Named)
	}
	return found
}

// HasClusterName reports whether cluster_name is the name of the Cluster or of the owner.
func (want Expectation) HasClusterName(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	given := apply.Spec.Variables.Text(naming.ClusterVariable)
	return given != "" && (given == want.Variables[naming.ClusterVariable] || given == owner.GetName())
}

// matchesTemplate reports whether a WorkspaceTemplateApply has the template that the owner would refer to. A control plane also owns
// WorkspaceTemplateApplies with other templates, such as those of its Fargate profiles. If it referred to one of these, Terraform would replace
// its resources by an EKS cluster.
func (want Expectation) matchesTemplate(apply *infrav1.WorkspaceTemplateApply) bool {
	return want.profileDifference(apply) == "" && (want.Template.Name == "" || want.SameTemplate(apply))
}

// Names returns the names of the candidates that have a given evidence.
func Names(candidates []Candidate, evidence Evidence) (names []string) {
	for _, candidate := range candidates {
		if slices.Contains(candidate.Evidence, evidence) {
			names = append(names, candidate.Name)
		}
	}
	return names
}

// Owns reports whether an object is an owner of a WorkspaceTemplateApply, its controller or not.
func Owns(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.ContainsFunc(apply.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
}

// OtherController returns the controller of a WorkspaceTemplateApply; nil when that is the owner, or when there is none.
func OtherController(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) *metav1.OwnerReference {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.UID == owner.GetUID() {
		return nil
	}
	return controller
}

// Conflict returns, as a message for users, why an owner must not take over the WorkspaceTemplateApply that its spec refers to, or that the
// naming scheme determines for a Fargate profile without a reference. It is empty when there is no conflict.
//
// An owner never takes over a WorkspaceTemplateApply of another controller. It takes over one without a controller if that matches
// what the owner would create, or if the owner's status records it and only the owner reference was lost. Otherwise a wrong name in a
// reference would write the template of an EKS cluster into the Workspace of other resources, and Terraform would destroy these.
func Conflict(owner metav1.Object, want Expectation, apply *infrav1.WorkspaceTemplateApply) string {
	if other := OtherController(owner, apply); other != nil {
		return fmt.Sprintf("%s names WorkspaceTemplateApply %s, which belongs to %s %s: nothing is written. %s",
			want.source(), apply.Name, other.Kind, other.Name, want.otherNameAdvice())
	}
	if differs := want.Mismatch(owner, apply); differs != "" {
		return "nothing is written: " + want.MismatchMessage(apply, differs)
	}
	if want.Variables[naming.ClusterVariable] == "" && !want.Records(apply) && !metav1.IsControlledBy(apply, owner) {
		return fmt.Sprintf("%s names WorkspaceTemplateApply %s, but the reference cannot be verified before the Cluster of this object exists: nothing is written. Create the Cluster that refers to this object",
			want.source(), apply.Name)
	}
	return ""
}

// Mismatch returns why an owner must not take over a WorkspaceTemplateApply that has no other controller; empty when it matches.
//
//   - If the owner's status records it, it always matches: the template of the owner may have changed since.
//   - If the owner controls it, it has the owner's identity variables, but its template must match: it may belong to a Fargate
//     profile.
//   - For a Fargate profile, the identity variables must always match, because a control plane controls the WorkspaceTemplateApplies of
//     all its profiles. If the control plane controls it, its template may differ: the template of the profile may have changed.
//   - In all other cases, template and identity variables must match.
func (want Expectation) Mismatch(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) string {
	controlled := metav1.IsControlledBy(apply, owner)
	switch {
	case want.profile != "" && controlled:
		return want.IdentityDifference(apply)
	case want.Records(apply):
		return ""
	case controlled && want.profileDifference(apply) != "":
		return want.profileDifference(apply)
	case controlled:
		return want.templateDifference(apply)
	}
	return want.Difference(apply)
}

// MayDelete reports whether an owner that is being deleted may delete the WorkspaceTemplateApply that it refers to: the owner controls
// it, or the owner's status records it. Neither is true of an owner that was restored from a backup and is garbage-collected because its
// Cluster does not exist; such an owner must not delete anything. For a Fargate profile it always returns true, because status does not
// prove that its WorkspaceTemplateApply was created.
func (want Expectation) MayDelete(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	return want.profile != "" || metav1.IsControlledBy(apply, owner) || want.Records(apply)
}

// Records reports whether the owner's status records a WorkspaceTemplateApply: the owner had it before.
func (want Expectation) Records(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Name == want.Recorded
}

// Difference returns, as a message for users, how a WorkspaceTemplateApply differs from what an owner would create: in its template, or in
// an identity variable. It is empty when there is no difference. A value that the owner does not know yet is not a difference.
func (want Expectation) Difference(apply *infrav1.WorkspaceTemplateApply) string {
	if difference := want.templateDifference(apply); difference != "" {
		return difference
	}
	return want.IdentityDifference(apply)
}

// IdentityDifference returns the first difference in the identity variables, as a message for users; empty when there is none. cluster_name
// must be set, and profile_name must be set for Fargate profiles and unset for VPCs and control planes. vpc_name may be missing, because a
// template need not use it and control planes do not set it.
func (want Expectation) IdentityDifference(apply *infrav1.WorkspaceTemplateApply) string {
	cluster, vpc := want.Variables[naming.ClusterVariable], want.Variables[naming.VPCVariable]
	switch {
	case cluster != "" && apply.Spec.Variables.Text(naming.ClusterVariable) == "":
		return "has no " + naming.ClusterVariable
	case cluster != "" && apply.Spec.Variables.Text(naming.ClusterVariable) != cluster:
		return "has another " + naming.ClusterVariable
	case want.profileDifference(apply) != "":
		return want.profileDifference(apply)
	case want.nodeGroup != "" && apply.Spec.Variables.Text(naming.NodeGroupVariable) != want.nodeGroup:
		return fmt.Sprintf("has %s %q instead of %q", naming.NodeGroupVariable, apply.Spec.Variables.Text(naming.NodeGroupVariable), want.nodeGroup)
	case vpc != "" && apply.Spec.Variables.Has(naming.VPCVariable) && apply.Spec.Variables.Text(naming.VPCVariable) != vpc:
		return "has another " + naming.VPCVariable
	}
	return ""
}

// TemplateDiffers is the message of Difference for another template.
const TemplateDiffers = "refers to another WorkspaceTemplate"

// templateDifference returns, as a text for users, that the WorkspaceTemplateApply has another template; else it is empty.
func (want Expectation) templateDifference(apply *infrav1.WorkspaceTemplateApply) string {
	if want.SameTemplate(apply) {
		return ""
	}
	return TemplateDiffers
}

// SameTemplate reports whether a WorkspaceTemplateApply has the template that the owner would refer to.
func (want Expectation) SameTemplate(apply *infrav1.WorkspaceTemplateApply) bool {
	return want.Template.Key(apply.Namespace) == apply.TemplateKey()
}

// Restored reports whether a WorkspaceTemplateApply is a copy that was restored from a backup or moved, and whose status does not record
// its Workspace yet: its annotations were written for an object with another UID.
func Restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef == nil && apply.Annotations[naming.ExternalNameAnnotation] != "" &&
		apply.Annotations[naming.ExternalNameUIDAnnotation] != string(apply.UID)
}

// AwaitsOwner reports whether a WorkspaceTemplateApply takes a Terraform state over for an owner of a Cluster that has not written it yet: the owner adds variables.
func AwaitsOwner(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.TerraformState.Name != "" && apply.Labels[clusterv1.ClusterNameLabel] != "" && metav1.GetControllerOf(apply) == nil
}

// RecordsWorkspace reports whether status records that there is a Workspace, maybe without its name.
func RecordsWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	return RecordedWorkspace(apply).Name != "" || apply.Status.Applied == metav1.ConditionTrue
}

// RecordedWorkspace returns namespace and name of the Workspace that status records; empty when there is none. A name alone is that of a
// cluster-wide one. Users can write the name in spec, so it does not count.
func RecordedWorkspace(apply *infrav1.WorkspaceTemplateApply) types.NamespacedName {
	if ref := apply.Status.WorkspaceRef; ref != nil && ref.Name != "" {
		return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return types.NamespacedName{Name: apply.Status.WorkspaceName}
}

// ClusterName returns the name of the Cluster that an object belongs to: the Cluster that owns it or, without an owner, the one in its label; empty
// if it names none.
func ClusterName(object metav1.Object) string {
	return cmp.Or(OwnerCluster(object), object.GetLabels()[clusterv1.ClusterNameLabel])
}

// OwnerCluster returns the name of the Cluster that owns an object; empty if none does.
func OwnerCluster(object metav1.Object) string { return ownerOfKind(object, "Cluster") }

func ownerOfKind(object metav1.Object, kind string) string {
	for _, ref := range object.GetOwnerReferences() {
		if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == kind && group == clusterv1.GroupVersion.Group {
			return ref.Name
		}
	}
	return ""
}

// ClusterIndex finds Clusters by the CAPTClusters and CAPTControlPlanes that they refer to, with the keys of ClusterKeys.
const ClusterIndex = "captReferences"

// ClusterKeys are the keys of ClusterIndex for a Cluster.
func ClusterKeys(cluster *clusterv1.Cluster) (keys []string) {
	for _, ref := range []clusterv1.ContractVersionedObjectReference{cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef} {
		if ref.IsDefined() {
			keys = append(keys, ClusterKey(ref))
		}
	}
	return keys
}

// ClusterKey is the key of ClusterIndex for a reference of Clusters.
func ClusterKey(ref clusterv1.ContractVersionedObjectReference) string {
	return ref.GroupKind().String() + "/" + ref.Name
}

// ReferenceTo is the reference of a Cluster to a CAPTCluster or a CAPTControlPlane, or of a MachinePool to a CAPTMachinePool; zero for other kinds.
func ReferenceTo(object metav1.Object) clusterv1.ContractVersionedObjectReference {
	switch object.(type) {
	case *infrav1.CAPTCluster:
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: object.GetName()}
	case *controlplanev1.CAPTControlPlane:
		return clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: object.GetName()}
	case *infrav1.CAPTMachinePool:
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool", Name: object.GetName()}
	}
	return clusterv1.ContractVersionedObjectReference{}
}

// RefersTo reports whether a Cluster refers to a CAPTCluster or a CAPTControlPlane.
func RefersTo(cluster *clusterv1.Cluster, object metav1.Object) bool {
	ref := ReferenceTo(object)
	return ref.IsDefined() && cluster.Namespace == object.GetNamespace() && (cluster.Spec.InfrastructureRef == ref || cluster.Spec.ControlPlaneRef == ref)
}

// OwnerMachinePool returns the name of the MachinePool that owns an object; empty if none does.
func OwnerMachinePool(object metav1.Object) string { return ownerOfKind(object, "MachinePool") }

// PoolOf returns the name of the CAPTMachinePool of a MachinePool; empty if that has another infrastructure.
func PoolOf(machinePool *clusterv1.MachinePool) string {
	if machinePool == nil {
		return ""
	}
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "CAPTMachinePool" {
		return ""
	}
	return ref.Name
}

// ExpectationOfCAPTCluster returns what a CAPTCluster expects of the WorkspaceTemplateApply of its VPC. cluster is the name of the EKS cluster,
// empty while it is unknown.
func ExpectationOfCAPTCluster(captCluster *infrav1.CAPTCluster, cluster string) Expectation {
	want := Expectation{
		SchemeName: naming.VPCWorkspaceTemplateApply(captCluster.Name),
		Variables:  map[string]string{naming.ClusterVariable: cluster},
	}
	if template := captCluster.Spec.VPC.Template; template.IsDefined() {
		want.Template, want.Variables[naming.VPCVariable] = template.Ref, VPCName(captCluster)
		if captCluster.Status.VPC.ID != "" {
			want.ProvisionedField = "status.vpc.id"
		}
	}
	if known := captCluster.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	return want
}

// VPCName returns the name of the VPC of a CAPTCluster with a template.
func VPCName(captCluster *infrav1.CAPTCluster) string {
	return cmp.Or(captCluster.Spec.VPC.Template.Name, naming.VPC(captCluster.Name))
}

// ExpectationOfControlPlane returns what a CAPTControlPlane expects of the WorkspaceTemplateApply of its EKS cluster. cluster is the name
// of the Cluster, empty while it is unknown.
func ExpectationOfControlPlane(controlPlane *controlplanev1.CAPTControlPlane, cluster string) Expectation {
	want := Expectation{
		SchemeName: naming.ControlPlaneWorkspaceTemplateApply(controlPlane.Name),
		Template:   controlPlane.Spec.WorkspaceTemplateRef,
		Variables:  map[string]string{naming.ClusterVariable: EKSClusterName(controlPlane, cluster)},
	}
	if known := controlPlane.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	switch {
	case controlPlane.Spec.ControlPlaneEndpoint.Host != "":
		want.ProvisionedField = "spec.controlPlaneEndpoint"
	case ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false):
		want.ProvisionedField = "status.initialization"
	}
	return want
}

// ExpectationOfMachinePool returns what a CAPTMachinePool expects of the WorkspaceTemplateApply of its node group. cluster is the name of the EKS
// cluster; it and nodeGroup are empty while they are unknown.
func ExpectationOfMachinePool(pool *infrav1.CAPTMachinePool, cluster, nodeGroup string) Expectation {
	want := Expectation{
		SchemeName: naming.MachinePoolWorkspaceTemplateApply(pool.Name), Template: pool.Spec.WorkspaceTemplateRef, nodeGroup: nodeGroup,
		Variables: map[string]string{naming.ClusterVariable: cluster},
	}
	if known := pool.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	if pool.Spec.ProviderID != "" {
		want.ProvisionedField = "spec.providerID"
	}
	return want
}

// EKSClusterName returns the name of the EKS cluster of a CAPTControlPlane, which is nil without one. cluster is the name of the Cluster; while that is
// unknown, so is the result.
func EKSClusterName(controlPlane *controlplanev1.CAPTControlPlane, cluster string) string {
	if controlPlane == nil || cluster == "" {
		return cluster
	}
	return cmp.Or(controlPlane.Spec.EKSClusterName, cluster)
}

// ExpectationOfFargateProfile returns what a control plane expects of the WorkspaceTemplateApply of one of its Fargate profiles.
// clusterName is empty while the Cluster is unknown. Recorded is always empty: the status of a profile repeats the name from spec or from
// the naming scheme, which does not prove that the WorkspaceTemplateApply was created.
func ExpectationOfFargateProfile(clusterName string, profile *controlplanev1.FargateProfile) Expectation {
	want := Expectation{
		profile:  profile.Name,
		byScheme: !profile.WorkspaceTemplateApplyRef.IsDefined(),
		Template: profile.WorkspaceTemplateRef,
		Variables: map[string]string{
			naming.ClusterVariable: clusterName,
			naming.ProfileVariable: profile.Name,
		},
	}
	if clusterName != "" {
		want.SchemeName = naming.FargateWorkspaceTemplateApply(clusterName, profile.Name)
	}
	return want
}

// OfFargateProfile reports whether a Fargate profile refers to a WorkspaceTemplateApply, or gets it by the naming scheme. clusterName is empty while
// the Cluster is unknown.
func OfFargateProfile(apply *infrav1.WorkspaceTemplateApply, clusterName string, profile *controlplanev1.FargateProfile) bool {
	switch ref := profile.WorkspaceTemplateApplyRef; {
	case ref.IsDefined():
		return ref.Name == apply.Name
	case clusterName == "": // Its name will be known when its Cluster is.
		return profile.Name == apply.Spec.Variables.Text(naming.ProfileVariable)
	}
	return ExpectationOfFargateProfile(clusterName, profile).SchemeName == apply.Name
}

// profileDifference returns the difference in the variable profile_name, as a message for users; empty when there is none. A
// WorkspaceTemplateApply with that variable never belongs to a VPC or a control plane.
func (want Expectation) profileDifference(apply *infrav1.WorkspaceTemplateApply) string {
	given := apply.Spec.Variables.Text(naming.ProfileVariable)
	switch {
	case given == want.profile:
		return ""
	case want.profile == "":
		return "belongs to a Fargate profile"
	case given == "":
		return "has no " + naming.ProfileVariable
	}
	return "has another " + naming.ProfileVariable
}

// source returns the field or rule that determines the name of the WorkspaceTemplateApply, for messages.
func (want Expectation) source() string {
	switch {
	case want.profile == "":
		return "spec.workspaceTemplateApplyRef"
	case want.byScheme:
		return "the naming scheme, for Fargate profile " + want.profile + ","
	}
	return fmt.Sprintf("spec.fargateProfiles[%s].workspaceTemplateApplyRef", want.profile)
}

// otherNameAdvice returns what to do to use a WorkspaceTemplateApply with another name. A reference can be set, but not changed.
func (want Expectation) otherNameAdvice() string {
	switch {
	case want.Advice != "":
		return want.Advice
	case want.profile == "":
		return "Recreate this object without the reference"
	case want.byScheme:
		return "Set workspaceTemplateApplyRef of the profile to another name"
	}
	return "Remove the profile from spec, and add it again without the reference"
}

// MismatchMessage is the message that a WorkspaceTemplateApply is not taken over because of a Mismatch, with what to do next.
func (want Expectation) MismatchMessage(apply *infrav1.WorkspaceTemplateApply, mismatch string) string {
	text := fmt.Sprintf("WorkspaceTemplateApply %s does not match what this object would create%s: it %s. ", apply.Name, want.forProfile(), mismatch)
	if want.Advice != "" {
		return text + want.Advice
	}
	text += "If another one is meant, " + want.referenceAdvice()
	if want.profile == "" && want.profileDifference(apply) != "" {
		return text // It cannot belong to a control plane: the variable is the identity of what exists in AWS.
	}
	same := fmt.Sprintf("template and %s", naming.ClusterVariable)
	switch {
	case want.nodeGroup != "":
		same = fmt.Sprintf("template, %s and %s", naming.ClusterVariable, naming.NodeGroupVariable)
	case want.profile != "":
		same = fmt.Sprintf("template, %s and %s", naming.ClusterVariable, naming.ProfileVariable)
	}
	return text + fmt.Sprintf("; if %s belongs to this object, first give both the same %s", apply.Name, same)
}

// forProfile names the Fargate profile in messages; empty for a VPC or a control plane.
func (want Expectation) forProfile() string {
	if want.profile == "" {
		return ""
	}
	return " for Fargate profile " + want.profile
}

// referenceAdvice returns how to refer to another WorkspaceTemplateApply.
func (want Expectation) referenceAdvice() string {
	switch {
	case want.profile == "":
		return "correct the reference (if it is set already, recreate this object)"
	case want.byScheme:
		return "set workspaceTemplateApplyRef of the profile to it"
	}
	return "correct the reference (if it is set already, remove the profile from spec, and add it again)"
}
