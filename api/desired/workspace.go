// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// Workspace is the Workspace of a WorkspaceTemplateApply.
type Workspace struct {
	Apply *infrav1.WorkspaceTemplateApply
	// Name of the Workspace.
	Name string
	// Template is the one that the Workspace is rendered from; nil when it does not exist or does not allow the namespace.
	Template *infrav1.WorkspaceTemplate
	// Revision of the template; empty before a rollout assigns one. RevisionMissing is true when it is not stored.
	Revision        string
	RevisionMissing bool
	// Rendered is nil when the template is missing, or has RenderErrors.
	Rendered     *render.Rendered
	RenderErrors field.ErrorList
	// Live is nil when the Workspace does not exist; Ownership is whether it belongs to the WorkspaceTemplateApply.
	Live      *unstructured.Unstructured
	Ownership render.Ownership
	// OlderClaim names another WorkspaceTemplateApply with an older claim to the same Workspace.
	OlderClaim string
	// StateUser describes another object that has the Terraform state which this one is to take over.
	StateUser string
	// OwnerMissing describes an owner that does not exist, while nothing is recorded for the WorkspaceTemplateApply.
	OwnerMissing string
	Findings
}

// Findings are what the comparison of a WorkspaceTemplateApply with its Workspace shows.
type Findings struct {
	// LostState is the name of the Terraform state that the object had, if Workspace and status no longer exist, and a new Workspace would have
	// another state.
	LostState string
	// StateUnknown is true when there is no Workspace, and nothing records which state a new one must have.
	StateUnknown bool
	// NotRecreated is true when the Workspace no longer exists, and is not recreated because deletionPolicy is Retain.
	NotRecreated bool
	// ScopeChanged is true when the Workspace has another scope than the template.
	ScopeChanged bool
	// ProviderConfig is the ProviderConfig to which an update would change the Workspace without permission of the user; empty when it would
	// not.
	ProviderConfig string
}

// Compare returns the findings. It must be known whether the Workspace exists.
func (w *Workspace) Compare() (f Findings) {
	if w.Live == nil {
		return Findings{
			LostState: w.stateOfRecord(), StateUnknown: validation.IsStateUnknown(w.Apply, w.Template),
			NotRecreated: w.Apply.Status.WorkspaceRef != nil && w.Apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain && !w.ChangesScope(),
		}
	}
	f.ScopeChanged = w.Template != nil && w.scope() != w.Template.Spec.WorkspaceScope.OrDefault()
	if !w.Owned() || f.ScopeChanged || w.Rendered == nil || !w.Rendered.Differs(w.Live) {
		return f
	}
	if want := w.Rendered.ProviderConfig(); want != render.ProviderConfigOf(w.Live) && want != w.Apply.Annotations[naming.AllowProviderConfigAnnotation] {
		f.ProviderConfig = want
	}
	return f
}

// ChangesScope reports whether the recorded Workspace has another scope than the template, and captctl evacuate moves the state to a Workspace of that scope.
func (w *Workspace) ChangesScope() bool {
	scope, recorded := w.Apply.Status.WorkspaceRef.Scope()
	return recorded && w.Template != nil && w.Apply.Annotations[naming.EvacuateAnnotation] != "" && scope != w.Template.Spec.WorkspaceScope.OrDefault()
}

// Render renders the Workspace. A live Workspace that status records keeps its references to other namespaces.
func (w *Workspace) Render(in render.Input) error {
	in.Apply, in.Template, in.Name = w.Apply, w.Template, w.Name
	w.Rendered, w.RenderErrors = render.Workspace(in)
	if len(w.RenderErrors) == 0 || w.Live == nil || !render.IsRecorded(w.Live, w.Apply) {
		return nil
	}
	var err error
	if in.Recorded, err = render.SpecOf(w.Live); err != nil {
		return err
	}
	w.Rendered, w.RenderErrors = render.Workspace(in)
	return nil
}

// NotRendered returns why the Workspace cannot be rendered; nil if it can.
func (w *Workspace) NotRendered() *Blocked {
	switch key := w.Apply.TemplateKey(); {
	case w.Template == nil && key.Namespace == w.Apply.Namespace:
		return &Blocked{infrav1.TemplateNotFoundReason, fmt.Sprintf("WorkspaceTemplate %s does not exist. Create it, or correct the reference to it", key)}
	case w.Template == nil:
		return &Blocked{infrav1.TemplateNotFoundReason, fmt.Sprintf("WorkspaceTemplate %s does not exist, or does not allow this namespace. Create it, or add the namespace to its spec.allowedNamespaces", key)}
	case !w.Template.DeletionTimestamp.IsZero() && w.Live == nil && w.Apply.Status.WorkspaceRef == nil: // It never had a Workspace.
		return &Blocked{infrav1.TemplateDeletingReason, validation.TemplateDeletingMessage(key)}
	case w.Revision == "":
		return &Blocked{infrav1.WaitingForRolloutReason, fmt.Sprintf("no revision of WorkspaceTemplate %s is assigned yet. Approve its rollout, or do what its condition RollingOut says", key)}
	case w.RevisionMissing:
		return &Blocked{infrav1.RevisionMissingReason, fmt.Sprintf("revision %s of WorkspaceTemplate %s is not stored, so the Workspace is not changed until the rollout assigns another revision. To use the current one, approve its rollout. After clusterctl move, create the saved revisions (docs/move.md)",
			terraform.ShortRevision(w.Revision), key)}
	case len(w.RenderErrors) > 0:
		return &Blocked{reasonOf(w.RenderErrors), fmt.Sprintf("WorkspaceTemplate %s: %s%s", naming.KeyOf(w.Template), w.RenderErrors.ToAggregate(), w.variablesOfOwner())}
	}
	return nil
}

// reasonOf returns the reason for errors of rendering. Those about the template come first.
func reasonOf(errs field.ErrorList) string {
	reason := infrav1.VariableMissingReason
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeRequired:
		case field.ErrorTypeTypeInvalid:
			reason = infrav1.VariableInvalidReason
		default:
			return infrav1.TemplateInvalidReason
		}
	}
	return reason
}

// variablesOfOwner is where to correct variables that an owner writes.
func (w *Workspace) variablesOfOwner() string {
	owner := w.owner()
	if owner == nil || !slices.ContainsFunc(w.RenderErrors, func(err *field.Error) bool { return strings.HasPrefix(err.Field, "spec.variables") }) {
		return ""
	}
	path := "spec.variables"
	if owner.Kind == "CAPTCluster" {
		path = "spec.vpc.template.variables"
	}
	return fmt.Sprintf(". %s %s writes the variables of this object: set those of users in its %s", owner.Kind, owner.Name, path)
}

// Conflict returns why the Workspace is not written although it can be rendered: it may belong to another object, or would lose its state.
func (w *Workspace) Conflict() *Blocked {
	return Chain{
		w.stateInUse, w.otherBackend, w.lostState, w.OtherState, w.olderClaim, w.ownerMissing, w.stateUnknown, w.otherScope, w.otherProviderConfig, w.notOwned,
	}.First()
}

// Owned reports whether the Workspace exists and belongs to the WorkspaceTemplateApply.
func (w *Workspace) Owned() bool {
	return w.Live != nil && w.Ownership == render.Owned && w.OwnerMissing == ""
}

// ClusterWide reports whether the Workspace has, or would have, no namespace.
func (w *Workspace) ClusterWide() bool {
	if w.Live != nil {
		return w.Live.GetNamespace() == ""
	}
	return w.Template != nil && w.Template.Spec.WorkspaceScope == terraform.ScopeCluster
}

// ExternalName returns the external name of the live Workspace, or the one that a new Workspace would have.
func (w *Workspace) ExternalName() string {
	if w.Live != nil && w.Live.GetAnnotations()[render.ExternalNameAnnotation] != "" {
		return w.Live.GetAnnotations()[render.ExternalNameAnnotation]
	}
	if w.Rendered != nil {
		return cmp.Or(w.Rendered.Object.GetAnnotations()[render.ExternalNameAnnotation], w.Name)
	}
	return w.Name // The default of the provider.
}

// stateOfRecord returns the name of the Terraform state in the annotation of an object without status, if a new Workspace would have another state.
// After a restore or a move without the Workspace, only the annotation records it.
func (w *Workspace) stateOfRecord() string {
	recorded := w.Apply.Annotations[naming.ExternalNameAnnotation]
	if w.Apply.Status.WorkspaceRef != nil || w.Rendered == nil || recorded == w.ExternalName() {
		return ""
	}
	return recorded
}

func (w *Workspace) lostState() *Blocked {
	if w.LostState == "" {
		return nil
	}
	return &Blocked{infrav1.WorkspaceConflictReason, fmt.Sprintf("Workspace %s does not exist, and this object had one with Terraform state %s: a new Workspace would have another state and create all resources a second time. "+
		"Restore the Workspace, or remove the annotation %s if none of its resources are left", w.Name, w.LostState, naming.ExternalNameAnnotation)}
}

// OtherState blocks a Workspace whose state another client has changed: Terraform creates everything in it a second time, and would destroy only that.
func (w *Workspace) OtherState() *Blocked {
	recorded, own := w.Apply.Annotations[naming.ExternalNameAnnotation], w.Apply.Annotations[naming.ExternalNameUIDAnnotation] == string(w.Apply.UID)
	if !w.Owned() || !own || recorded == "" || w.Live.GetAnnotations()[render.ExternalNameAnnotation] == "" || recorded == w.ExternalName() {
		return nil
	}
	resource := "workspaces." + w.Live.GroupVersionKind().Group
	if namespace := w.Live.GetNamespace(); namespace != "" {
		resource = "-n " + namespace + " " + resource
	}
	return &Blocked{infrav1.WorkspaceConflictReason, fmt.Sprintf("another client has changed the Terraform state of Workspace %[1]s from %[2]s to %[3]s (annotation %[4]s), in which Terraform creates all resources a second time. Nothing is updated. "+
		"Set it back, as a user with the verb migrate on guards.capt.cluster.x-k8s.io: kubectl annotate --overwrite %[5]s %[1]s %[4]s=%[2]s. Then destroy what state %[3]s has. If %[3]s is the right state: %[6]s",
		w.Name, recorded, w.ExternalName(), render.ExternalNameAnnotation, resource, AnnotateCommand(w.Apply, naming.ExternalNameAnnotation, w.ExternalName()))}
}

func (w *Workspace) stateInUse() *Blocked {
	if w.StateUser == "" {
		return nil
	}
	return &Blocked{infrav1.WorkspaceConflictReason, fmt.Sprintf("Terraform state %s of spec.terraformState is in use by %s: two Workspaces with one state would change each other's resources, so nothing is planned or created. "+
		"Release it there, or delete this object", w.Apply.Spec.TerraformState.Name, w.StateUser)}
}

// otherBackend blocks the use of a state that exists in another backend than the one for which it was permitted.
func (w *Workspace) otherBackend() *Blocked {
	permitted := w.Apply.Spec.TerraformState.ProviderConfig
	if permitted == "" || w.Live != nil || w.Rendered == nil || w.Apply.Status.WorkspaceRef != nil || w.Rendered.ProviderConfig() == permitted {
		return nil
	}
	return &Blocked{infrav1.ProviderConfigConflictReason, fmt.Sprintf("spec.terraformState is in the backend of ProviderConfig %s, and WorkspaceTemplate %s has %s: nothing is planned or created. Use a template with ProviderConfig %[1]s",
		permitted, w.Apply.TemplateKey(), w.Rendered.ProviderConfig())}
}

func (w *Workspace) olderClaim() *Blocked {
	if w.OlderClaim == "" {
		return nil
	}
	return &Blocked{infrav1.WorkspaceConflictReason, fmt.Sprintf("Workspace %s belongs to %s, which is older. CAPT continues when that no longer exists. Otherwise %s", w.Name, w.OlderClaim, w.anotherName())}
}

func (w *Workspace) ownerMissing() *Blocked {
	if w.OwnerMissing == "" {
		return nil
	}
	return &Blocked{infrav1.WorkspaceConflictReason, w.OwnerMissing + ": the garbage collector may delete this object, so no Workspace is created or recorded for it. Remove the owner reference. After that, this object can also be deleted, and recreated when its owner exists"}
}

func (w *Workspace) stateUnknown() *Blocked {
	if !w.StateUnknown {
		return nil
	}
	recreate := "recreate this object without spec.workspaceName"
	if owner := w.owner(); owner != nil {
		recreate = fmt.Sprintf("delete this object, with its annotation %s set to \"true\", and %s %s creates it without spec.workspaceName,", naming.AllowDeleteAnnotation, owner.Kind, owner.Name)
	}
	return &Blocked{infrav1.WorkspaceConflictReason, fmt.Sprintf("Workspace %s of spec.workspaceName does not exist, and nothing records its Terraform state: a new Workspace would have another state and create all resources a second time. "+
		"Restore the Workspace first, or %s if none of its resources are left", w.Name, recreate)}
}

func (w *Workspace) scope() terraform.Scope {
	if w.Live.GetNamespace() == "" {
		return terraform.ScopeCluster
	}
	return terraform.ScopeNamespaced
}

func (w *Workspace) otherScope() *Blocked {
	if !w.ScopeChanged || !w.Owned() {
		return nil
	}
	return &Blocked{infrav1.WorkspaceScopeConflictReason, fmt.Sprintf("Workspace %s has scope %s, and WorkspaceTemplate %s has scope %s. Use a template with scope %s, or move it with captctl evacuate",
		w.Name, w.scope(), w.Apply.TemplateKey(), w.Template.Spec.WorkspaceScope.OrDefault(), w.scope())}
}

// otherProviderConfig blocks a change of the ProviderConfig that the user did not allow.
func (w *Workspace) otherProviderConfig() *Blocked {
	want := w.ProviderConfig
	if want == "" {
		return nil
	}
	harmless := "If both have the same account and backend"
	if w.Apply.Status.LastAppliedRevision == "" {
		harmless += ", or if Terraform has not created anything yet"
	}
	return &Blocked{infrav1.ProviderConfigConflictReason, fmt.Sprintf("Workspace %s uses ProviderConfig %s, and providerConfigRef of WorkspaceTemplate %s is now %s: with another account or backend, Terraform would create all resources a second time. "+
		"Nothing is updated. Revert the template. %s, run: %s",
		w.Name, render.ProviderConfigOf(w.Live), w.Apply.TemplateKey(), want, harmless, AnnotateCommand(w.Apply, naming.AllowProviderConfigAnnotation, want))}
}

// notOwned blocks a Workspace that exists and does not belong to the object.
func (w *Workspace) notOwned() *Blocked {
	switch {
	case w.Live == nil:
		return nil
	case w.Ownership == render.Replaced:
		return &Blocked{infrav1.WorkspaceReplacedReason, fmt.Sprintf("Workspace %s was recreated by another client; CAPT does not modify it. Restore the original Workspace with its annotations, or delete this one if it has another Terraform state: "+
			"CAPT then creates the original one again, with the state of before", w.Name)}
	case w.Ownership == render.Undecided:
		return &Blocked{infrav1.WorkspaceConflictReason, fmt.Sprintf("Workspace %s (UID %s) exists and is not recorded for this object: an earlier object of this name may have retained it. CAPT does not modify it. "+
			"To take it over with its cloud resources, run: %s. Otherwise %s",
			w.Name, w.Live.GetUID(), AnnotateCommand(w.Apply, naming.AdoptWorkspaceAnnotation, string(w.Live.GetUID())), w.anotherName())}
	case w.Ownership != render.Foreign:
		return nil
	}
	message := fmt.Sprintf("Workspace %s exists and belongs to another object; CAPT does not modify it. CAPT continues when it no longer exists", w.Name)
	if w.Apply.Status.WorkspaceRef != nil || w.Apply.Annotations[naming.ExternalNameAnnotation] != "" { // Its resources exist.
		return &Blocked{infrav1.WorkspaceConflictReason, message + ", with the Terraform state of before"}
	}
	return &Blocked{infrav1.WorkspaceConflictReason, message + ". Otherwise " + w.anotherName()}
}

// anotherName is how an object that has no resources gets a Workspace of another name. One with an owner cannot be deleted alone: a policy rejects that,
// and its owner would create it under the same name.
func (w *Workspace) anotherName() string {
	owner, profile := w.owner(), w.Apply.Spec.Variables.Text(naming.ProfileVariable)
	switch {
	case owner == nil:
		return "delete this object, or recreate it under another name"
	case profile != "":
		return fmt.Sprintf("rename Fargate profile %s in spec.fargateProfiles of %s %s", profile, owner.Kind, owner.Name)
	}
	return fmt.Sprintf("delete Cluster %s, and create it with a %s of another name", w.Apply.Labels[clusterv1.ClusterNameLabel], owner.Kind)
}

// owner is the CAPTCluster or CAPTControlPlane that controls the object; nil if there is none.
func (w *Workspace) owner() *metav1.OwnerReference {
	owner := metav1.GetControllerOf(w.Apply)
	if owner == nil || !slices.Contains([]string{"CAPTCluster", "CAPTControlPlane"}, owner.Kind) {
		return nil
	}
	return owner
}

// AnnotateCommand is the command that sets an annotation of a WorkspaceTemplateApply.
func AnnotateCommand(apply *infrav1.WorkspaceTemplateApply, annotation, value string) string {
	return fmt.Sprintf("kubectl -n %s annotate --overwrite workspacetemplateapply %s %s=%s", apply.Namespace, apply.Name, annotation, value)
}

// NotRecreatedMessage is the message of NotRecreated.
func (w *Workspace) NotRecreatedMessage() string {
	return "Workspace " + w.Name + " does not exist, and is not recreated because spec.deletionPolicy is Retain. To recreate it, set spec.deletionPolicy to Delete, and back to Retain when the Workspace exists"
}

// ClaimOf returns the one of other WorkspaceTemplateApplies with the same name of a Workspace that has an older claim to it, for messages. The oldest
// wins, so that exactly one of two objects that were admitted concurrently continues. A record in status, which users cannot write, outweighs a name
// in spec, which they can. Objects of all namespaces can have the same cluster-wide Workspace.
func (w *Workspace) ClaimOf(others []infrav1.WorkspaceTemplateApply) string {
	if w.Name == "" || w.Live != nil && render.IsClaimed(w.Live, w.Apply) {
		return ""
	}
	for i := range others {
		other := &others[i]
		if !w.isOlderClaim(other) {
			continue
		}
		if other.Namespace == w.Apply.Namespace {
			return "WorkspaceTemplateApply " + other.Name
		}
		if claimsClusterWide(other, w.Name) {
			return "a WorkspaceTemplateApply of another namespace" // Its name is not disclosed.
		}
	}
	return ""
}

// isOlderClaim reports whether another object may have the same Workspace, and comes first: it is older, unless status of this object records the
// Workspace and that of the other one does not.
func (w *Workspace) isOlderClaim(other *infrav1.WorkspaceTemplateApply) bool {
	same := other.Spec.WorkspaceName == w.Name && (other.Namespace == w.Apply.Namespace || w.ClusterWide())
	outweighed := w.Live != nil && render.IsRecorded(w.Live, w.Apply) && !render.IsRecorded(w.Live, other)
	return same && other.UID != w.Apply.UID && Older(other, w.Apply) && !outweighed
}

// claimsClusterWide reports whether a WorkspaceTemplateApply of another namespace has, or may create, a cluster-wide Workspace. Its user can write any
// name into spec, which is not a claim.
func claimsClusterWide(other *infrav1.WorkspaceTemplateApply, name string) bool {
	mayCreate := other.Status.WorkspaceRef == nil && name == naming.Workspace(terraform.ScopeCluster, naming.KeyOf(other))
	return mayCreate || claim.RecordedWorkspace(other) == types.NamespacedName{Name: name}
}

// RecordedExternalName is the state that status records or, before there is a Workspace, the one that the object is to take over. For an
// adopted Workspace without an external name, the provider names the state like the Workspace.
func RecordedExternalName(apply *infrav1.WorkspaceTemplateApply) string {
	ref := apply.Status.WorkspaceRef
	switch {
	case ref == nil:
		return apply.Spec.TerraformState.Name
	case ref.ExternalName == "" && ref.Namespace == "" && ref.Name != naming.Workspace(terraform.ScopeCluster, naming.KeyOf(apply)):
		return ref.Name
	}
	return ref.ExternalName
}

// Older reports whether one object was created before another. Objects that were created in the same second are ordered by namespace and name.
func Older(one, other metav1.Object) bool {
	first, second := one.GetCreationTimestamp(), other.GetCreationTimestamp()
	return cmp.Or(first.Compare(second.Time), cmp.Compare(one.GetNamespace(), other.GetNamespace()), cmp.Compare(one.GetName(), other.GetName())) < 0
}
