// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// obstacle is why the render gate blocks an owner.
type obstacle struct {
	reason, message string              // reason and message are those of the finding.
	differences     []render.Difference // differences are the fields of the Workspace that would change.
	pinnable        bool                // pinnable is true if a template that reproduces the Workspace removes the obstacle.
}

// checkGate is the render gate: it blocks an owner if Terraform would run for its Workspace. It renders the WorkspaceTemplateApply as it is once it
// is adopted, and as its owner will write it. If the user decided so, it pins the template.
func (f *fleet) checkGate(o *owner) (blocked bool) {
	found := f.findObstacle(o)
	if found != nil && found.pinnable && f.decided.owners[o.typed.GetUID()].Pin {
		found = f.pinTemplate(o)
	}
	if found == nil {
		return false
	}
	finding := o.markBlocked(found.reason, found.message)
	finding.Differences = found.differences
	if key := client.ObjectKeyFromObject(o.live); found.pinnable && len(f.claims[key]) > 1 {
		finding.Message += fmt.Sprintf(". %d WorkspaceTemplateApplies refer to this Workspace: before you pin it, make sure that belongsTo in --decisions names the right one", len(f.claims[key]))
		finding.Candidates = f.claimCandidates(key)
	}
	return true
}

// findObstacle returns what would make Terraform run for the Workspace of an owner; nil if nothing would.
func (f *fleet) findObstacle(o *owner) *obstacle {
	live := o.live.GetName()
	if f.templates[o.apply.TemplateKey()] == nil {
		return &obstacle{reason: ReasonWorkspaceTemplateNotFound, pinnable: true, message: fmt.Sprintf(
			"WorkspaceTemplate %s does not exist, so what the manager would write into Workspace %s is not known. Restore it%s%s", o.apply.TemplateKey(), live, orPin, orSkip)}
	}
	if o.Object.Kind == kindCAPTCluster && o.apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain && o.whyRetained() == "" {
		return &obstacle{reason: ReasonDeletionPolicyDiffers, message: fmt.Sprintf(
			"spec.deletionPolicy of WorkspaceTemplateApply %s is Retain, but spec.vpc.template.deletionPolicy of its CAPTCluster is not. The manager would write the latter, and the VPC would be destroyed with the CAPTCluster. Set both to the same value, Retain to keep the VPC%s", o.apply.Name, orSkip)}
	}
	variants, err := f.variants(o)
	if err != nil {
		return &obstacle{reason: ReasonRenderFailed, message: fmt.Sprintf("%v. Correct the field%s", err, orSkip)}
	}
	for _, variant := range variants {
		differences, err := f.differencesFrom(variant.apply, o.live)
		if err != nil {
			return &obstacle{reason: ReasonRenderFailed, pinnable: true, message: fmt.Sprintf("Workspace %s cannot be rendered: %v. Correct the template%s%s", live, err, orPin, orSkip)}
		}
		if len(differences) > 0 {
			return &obstacle{reason: ReasonWorkspaceDiffers, pinnable: true, differences: differences, message: f.differsMessage(o, f.editedObject(variant, differences), differences)}
		}
	}
	return nil
}

// differsMessage proposes a pin before a revert, because other Workspaces may have been built from the edited template. While a unit is applied,
// the snapshot does not have the other Workspaces, so nothing is proposed.
func (f *fleet) differsMessage(o *owner, source string, differences []render.Difference) string {
	live, fields := o.live.GetName(), strings.Join(fieldsOf(differences), ", ")
	if f.mustPassGate != nil {
		return fmt.Sprintf("%s changed since the plan was created (%s): Terraform would run for Workspace %s, in %s", source, ReasonWorkspaceDiffers, live, fields)
	}
	return fmt.Sprintf("Terraform would run for Workspace %s, in %s: %s was edited since CAPT v0.3 rendered it. "+
		"Set pin: true in --decisions to keep the Workspace as it is, with a WorkspaceTemplate of its own%s. %s",
		live, fields, source, orSkip, f.revertAdvice(o, source, "CAPT v0.3"))
}

// revertAdvice returns how to revert an edit, unless the edited template renders other Workspaces as they are. stopped must not run meanwhile.
func (f *fleet) revertAdvice(o *owner, source, stopped string) string {
	others, built := f.otherUsers(o)
	switch {
	case others == 0 || !strings.HasPrefix(source, kindTemplate+" "):
		return fmt.Sprintf("Or revert the edit while %s is stopped", stopped)
	case len(built) == 0:
		return fmt.Sprintf("Or revert the edit while %s is stopped (other users of the template: %d, none built from the edit)", stopped, others)
	}
	return fmt.Sprintf("Do not revert an edit of the template (other users: %d): Terraform would run for WorkspaceTemplateApplies that were built from the edit: %s",
		others, abbreviated(built))
}

// otherUsers counts the other WorkspaceTemplateApplies of a template, and lists those whose Workspace is what it renders today.
func (f *fleet) otherUsers(o *owner) (others int, built []string) {
	key := o.apply.TemplateKey()
	if _, known := f.users[key]; !known {
		for i := range f.Applies {
			apply := &f.Applies[i]
			if live := f.workspaces[f.workspaceKey(apply)]; live != nil && apply.TemplateKey() == key {
				differences, err := f.differencesFrom(apply, live)
				f.users[key] = append(f.users[key], user{apply, err == nil && len(differences) == 0})
			}
		}
	}
	for _, user := range f.users[key] {
		if user.apply.UID == o.apply.UID {
			continue
		}
		others++
		if user.built {
			built = append(built, client.ObjectKeyFromObject(user.apply).String())
		}
	}
	return others, built
}

// user is a WorkspaceTemplateApply of a template. built is true if its Workspace is exactly what the template renders now.
type user struct {
	apply *infrav1.WorkspaceTemplateApply
	built bool
}

func fieldsOf(differences []render.Difference) []string {
	fields := make([]string, len(differences))
	for i := range differences {
		fields[i] = differences[i].Field
	}
	return fields
}

// variant is a WorkspaceTemplateApply as it will be rendered. owner is the kind and name of the owner that writes it; empty without one.
type variant struct {
	apply *infrav1.WorkspaceTemplateApply
	owner string
}

// editedObject returns the object whose edit may have caused the differences, for messages. Only the template determines a module without placeholders.
func (f *fleet) editedObject(v variant, differences []render.Difference) string {
	if v.owner != "" {
		return "the spec of " + v.owner
	}
	key := v.apply.TemplateKey()
	template := fmt.Sprintf("%s %s", kindTemplate, key)
	if len(differences) == 1 && differences[0].Field == "spec.forProvider.module" && !terraform.HasPlaceholder(f.templates[key].Spec.Template.Spec.ForProvider.Module) {
		return template
	}
	return fmt.Sprintf("%s or spec.variables of %s %s/%s", template, kindApply, v.apply.Namespace, v.apply.Name)
}

// variants returns the WorkspaceTemplateApply as it is once adopted, and as its owner writes it then: only the first, and an error, if it cannot.
func (f *fleet) variants(o *owner) ([]variant, error) {
	apply := o.apply.DeepCopy()
	apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = o.live.GetName(), render.ReferenceTo(o.live)
	variants := []variant{{apply: apply}}
	if o.Object.Kind == kindApply {
		return variants, nil
	}
	intent, err := f.intent(o)
	if err != nil {
		return variants, err
	}
	written := intent.AppliedTo(apply)
	written.Spec.TemplateRef = o.match.Claimant.Want.Template // A user may have decided for one of another template.
	return append(variants, variant{written, o.Object.String()}), nil
}

// differencesFrom returns the fields in which a live Workspace differs from what is rendered for a WorkspaceTemplateApply.
func (f *fleet) differencesFrom(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) ([]render.Difference, error) {
	template := f.templates[apply.TemplateKey()]
	if template == nil {
		return nil, fmt.Errorf("WorkspaceTemplate %s does not exist", apply.TemplateKey())
	}
	// Status may have a default policy that the next manager does not have, so only the one in spec holds an edit back.
	template, _, err := rollout.ContentFor(apply, template, template.Spec.Rollout, f.storedRevisions())
	if template == nil { // The manager changes nothing until the rollout assigns a revision that is stored.
		return nil, err
	}
	recorded, err := render.SpecOf(live)
	if err != nil {
		return nil, err
	}
	rendered, errs := render.Workspace(render.Input{
		Apply: apply, Template: template, Name: live.GetName(), ExternalName: live.GetAnnotations()[render.ExternalNameAnnotation], Recorded: recorded,
	})
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return render.Differences(live, rendered), nil
}

func (f *fleet) storedRevisions() rollout.Store {
	return rollout.Store{
		First: func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error) {
			for _, key := range keys {
				if object := f.revisions[key]; object != nil {
					return object, nil
				}
			}
			return nil, nil
		},
		All: func(string) ([]appsv1.ControllerRevision, error) { return f.Revisions, nil },
	}
}

func (f *fleet) intent(o *owner) (desired.Intent, error) {
	if o.controlPlane == nil {
		return desired.VPCIntent(o.captCluster, o.cluster), nil
	}
	return desired.NewControlPlane(o.controlPlane, nil, o.captCluster).Intent(o.cluster, f.vpcID(o.captCluster))
}

// vpcID returns the ID of the VPC that the manager will use for a control plane: from the CAPTCluster, or from the outputs of Terraform.
func (f *fleet) vpcID(captCluster *infrav1.CAPTCluster) string {
	if id := desired.VPCID(captCluster); captCluster == nil || id != "" {
		return id
	}
	for _, o := range f.owners {
		if o.typed == captCluster && o.apply != nil {
			return f.outputs[o.apply.UID][terraform.OutputVPCID]
		}
	}
	return ""
}

func (f *fleet) permits(template *infrav1.WorkspaceTemplate, namespace string) bool {
	permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
		for i := range f.Namespaces {
			if f.Namespaces[i].Name == namespace {
				return f.Namespaces[i].Labels, nil
			}
		}
		return nil, nil
	})
	return err == nil && permitted
}

// pinTemplate sets o.pinned to a WorkspaceTemplate that reproduces the live Workspace when it is rendered, or returns why there is none.
func (f *fleet) pinTemplate(o *owner) *obstacle {
	old := f.templates[o.apply.TemplateKey()]
	variants, err := f.variants(o)
	if err != nil {
		return pinFailed(o, err)
	}
	template, err := pinnedTemplate(o, variants, old)
	if err != nil {
		return pinFailed(o, err)
	}
	key := client.ObjectKeyFromObject(template)
	if f.wasEdited(template) {
		return &obstacle{reason: ReasonPinFailed, message: fmt.Sprintf(
			"WorkspaceTemplate %s, which an earlier plan created to reproduce Workspace %s, was edited. Delete it, or keep the edit under another name, and plan again%s", key, o.live.GetName(), orSkip)}
	}
	f.templates[key] = template
	for _, variant := range variants {
		variant.apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: key.Name, Namespace: key.Namespace}
		differences, err := f.differencesFrom(variant.apply, o.live)
		if len(differences) > 0 {
			err = errors.New(strings.Join(fieldsOf(differences), ", ") + " is not taken from the template")
		}
		if err != nil {
			found := pinFailed(o, err)
			found.differences = differences
			return found
		}
	}
	o.pinned = template
	return nil
}

// wasEdited reports whether a template of this name exists, from an earlier plan, and has another spec.
func (f *fleet) wasEdited(created *infrav1.WorkspaceTemplate) bool {
	there := f.templates[client.ObjectKeyFromObject(created)]
	if there == nil {
		return false
	}
	live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(there)
	if err != nil {
		return true
	}
	spec := plan.Field{Path: "/spec", After: encode(created.Spec)}
	state, err := spec.State(live)
	return err != nil || state != plan.Applied
}

func pinFailed(o *owner, why error) *obstacle {
	return &obstacle{reason: ReasonPinFailed, message: fmt.Sprintf(
		"a WorkspaceTemplate cannot reproduce Workspace %s: %v. Change that field of the owner or of the WorkspaceTemplateApply while no manager runs, and plan again%s", o.live.GetName(), why, orSkip)}
}

// pinErrors returns the validation errors of a template that reproduces a Workspace, without those that the old template has, too.
func pinErrors(o *owner, template, old *infrav1.WorkspaceTemplate) field.ErrorList {
	errs := validation.ValidateWorkspaceTemplate(template).Errors
	if o.controlPlane == nil {
		return errs
	}
	fields := validation.ControlPlaneFields(o.controlPlane)
	var before field.ErrorList
	if old != nil {
		before, _ = validation.FieldsWithoutEffect(old, fields)
	}
	after, _ := validation.FieldsWithoutEffect(template, fields)
	return append(errs, slices.DeleteFunc(after, func(e *field.Error) bool {
		return slices.ContainsFunc(before, func(b *field.Error) bool { return b.Field == e.Field })
	})...)
}

// pinnedTemplate returns the template that reproduces the live Workspace of an owner for all variants. It is in the namespace of the old template,
// so that references to objects of that namespace stay permitted.
func pinnedTemplate(o *owner, variants []variant, old *infrav1.WorkspaceTemplate) (*infrav1.WorkspaceTemplate, error) {
	var applies []*infrav1.WorkspaceTemplateApply
	for _, variant := range variants {
		applies = append(applies, variant.apply)
	}
	live, _ := o.live.Object["spec"].(map[string]any)
	spec, substitution, err := render.Pin(live, o.live.GetName(), old, applies...)
	if err != nil {
		return nil, err
	}
	template := &infrav1.WorkspaceTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: kindTemplate},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.apply.Namespace, Labels: map[string]string{naming.PinnedLabel: "true"},
			Annotations: map[string]string{naming.PinnedForAnnotation: o.Object.String()},
		},
	}
	template.Spec.WorkspaceScope = terraform.ScopeNamespaced
	if o.live.GetNamespace() == "" {
		template.Spec.WorkspaceScope = terraform.ScopeCluster
	}
	if old != nil {
		template.Namespace, template.Spec.PublishOutputs = old.Namespace, old.Spec.PublishOutputs
		template.Spec.Template.Metadata = old.Spec.Template.Metadata
	}
	if template.Namespace != o.apply.Namespace {
		template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{o.apply.Namespace}}
	}
	template.Spec.Template.Metadata.Description = fmt.Sprintf("Reproduces Workspace %s, as it was when %s was adopted", o.live.GetName(), o.Object)
	template.Spec.Template.Spec, template.Spec.Substitution, template.Spec.PassVariables = *spec, substitution, infrav1.PassNone
	template.Name = naming.PinnedTemplate(o.apply.Name, string(encode(template.Spec)))
	if errs := pinErrors(o, template, old); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return template, nil
}

// pinSteps creates the template. If an earlier plan created it, and a rollback left it, package apply finds it and writes nothing.
func (o *owner) pinSteps() []plan.Step {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.pinned)
	if err != nil {
		panic(err) // API types can be encoded.
	}
	delete(object, "status")
	why := fmt.Sprintf("reproduces Workspace %s, for %s alone, as decided; a rollback leaves it, unused", o.live.GetName(), o.Object)
	return []plan.Step{{Object: migrate.Ref(kindTemplate, o.pinned), Why: why, Create: object}}
}

func (o *owner) pinnedRef() infrav1.WorkspaceTemplateReference {
	return infrav1.WorkspaceTemplateReference{Name: o.pinned.Name, Namespace: o.pinned.Namespace}
}

// checkWorkspace reports that the Workspace of an owner does not exist, is being deleted, or may belong to another WorkspaceTemplateApply.
func (f *fleet) checkWorkspace(o *owner) (blocked bool) {
	key := f.workspaceKey(o.apply)
	switch {
	case o.apply.DeletionTimestamp != nil:
		o.markAmbiguous(ReasonBeingDeleted, fmt.Sprintf("WorkspaceTemplateApply %s is being deleted. %s%s", o.apply.Name, finishDeletion, orSkip), nil)
		return true
	case o.live == nil:
		return f.checkMissing(o, key)
	case o.live.GetDeletionTimestamp() != nil:
		o.markAmbiguous(ReasonBeingDeleted, fmt.Sprintf("Workspace %s is being deleted: Terraform destroys what it created. Find out who deleted it, let it finish, and plan again%s", key.Name, orSkip), nil)
		return true
	}
	if claim := claimedByAnother(o.apply, o.live); claim != "" {
		o.markBlocked(ReasonWorkspaceClaimed, fmt.Sprintf("Workspace %s was created for WorkspaceTemplateApply %s, as its annotation %s says. Correct status.workspaceName of WorkspaceTemplateApply %s, or the annotation if it is wrong, and plan again%s",
			key.Name, claim, naming.ClaimAnnotation, o.apply.Name, orSkip))
		return true
	}
	return f.checkShared(o, key)
}

// claimedByAnother is the WorkspaceTemplateApply for which this version of CAPT created a Workspace; empty if it is the given one, or none.
func claimedByAnother(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) string {
	claim := live.GetAnnotations()[naming.ClaimAnnotation]
	if claim == naming.Claim(client.ObjectKeyFromObject(apply)) {
		return ""
	}
	return claim
}

// checkShared reports that another owner may have the Workspace. In CAPT v0.3, equal names in two namespaces, and x and x-apply, share one.
func (f *fleet) checkShared(o *owner, key types.NamespacedName) (blocked bool) {
	claims, decided := f.claims[key], f.decided.workspaces[o.live.GetUID()].BelongsTo
	if len(claims) < 2 && decided == "" {
		return f.checkRecorded(o, key)
	}
	problem := f.decisionProblem(o.live, key)
	if problem == "" && decided == o.apply.UID {
		return false
	}
	if holder := indexOfClaim(claims, decided); holder >= 0 && problem == "" {
		o.State = migrate.OwnerSkipped
		o.addFinding(migrate.Skipped, ReasonSkipped, fmt.Sprintf("it stays as it is: Workspace %s belongs to WorkspaceTemplateApply %s, as decided", key.Name, client.ObjectKeyFromObject(claims[holder])))
		return true
	}
	if holder := f.provenHolder(key); holder != nil && decided == "" {
		return f.reportSharedName(o, holder, key)
	}
	if problem == "" {
		problem = fmt.Sprintf("%d WorkspaceTemplateApplies refer to Workspace %s, and only one can have it. Decide which one with belongsTo in --decisions: the owners of the others need no decision", len(claims), key.Name)
	}
	o.markAmbiguous(ReasonWorkspaceShared, problem, f.claimCandidates(key)).Workspace = o.Workspace
	return true
}

// checkRecorded reports that nothing but text that users of any namespace can write (a name, spec, an annotation) connects a WorkspaceTemplateApply with
// its Workspace. The one that CAPT v0.3 created the Workspace for may be gone.
func (f *fleet) checkRecorded(o *owner, key types.NamespacedName) (blocked bool) {
	if isRecorded(o.apply, o.live) || render.IsClaimed(o.live, o.apply) || render.NamespaceOf(o.live) == o.apply.Namespace {
		return false
	}
	name := client.ObjectKeyFromObject(o.apply)
	o.markAmbiguous(ReasonWorkspaceNotRecorded, fmt.Sprintf("status of WorkspaceTemplateApply %s does not record Workspace %s, which writes no connection Secret to namespace %s: only names connect them, which users of any namespace can write. "+
		"If the Workspace was built for it, decide that with belongsTo: %s in --decisions. Otherwise restore the WorkspaceTemplateApply whose Workspace it is, and plan again%s",
		name, key.Name, name.Namespace, o.apply.UID, orSkip), f.claimCandidates(key)).Workspace = o.Workspace
	return true
}

// isRecorded reports whether status of a WorkspaceTemplateApply, which users cannot write, records a Workspace. CAPT v0.3 wrote the name when it had
// created the Workspace, this version the reference.
func isRecorded(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) bool {
	ref := apply.Status.WorkspaceRef
	return apply.Status.WorkspaceName == live.GetName() || ref != nil && ref.Namespace == live.GetNamespace() && ref.Name == live.GetName()
}

func indexOfClaim(claims []*infrav1.WorkspaceTemplateApply, uid types.UID) int {
	return slices.IndexFunc(claims, func(claim *infrav1.WorkspaceTemplateApply) bool { return claim.UID == uid })
}

// decisionProblem returns why the decision about a Workspace is wrong, and what to write instead; empty if it is not wrong, or there is none. With a
// wrong decision, the Workspace would be destroyed together with the wrong Cluster.
func (f *fleet) decisionProblem(live *unstructured.Unstructured, key types.NamespacedName) string {
	decision, decided := f.decided.workspaces[live.GetUID()]
	if !decided {
		return ""
	}
	instead, found, remedy := f.claims[key], "", ""
	if chosen := indexOfClaim(instead, decision.BelongsTo); chosen < 0 {
		found = f.describe(decision.BelongsTo)
	} else if found, instead = f.betterMatches(instead[chosen], live, key); found == "" {
		return ""
	} else {
		remedy = ". If the decision is right, first stop CAPT v0.3, and revert the edit of the template that the evidence shows"
	}
	write := make([]string, len(instead))
	for i, claim := range instead {
		write[i] = fmt.Sprintf("%s (WorkspaceTemplateApply %s)", claim.UID, client.ObjectKeyFromObject(claim))
	}
	return fmt.Sprintf("workspaces[uid=%s].belongsTo in --decisions is wrong for Workspace %s: %s. Write instead: belongsTo: %s%s",
		live.GetUID(), key.Name, found, strings.Join(write, ", or "), remedy)
}

// betterMatches returns WorkspaceTemplateApplies whose rendering is closer to the Workspace than the chosen one; none if that is adopted.
func (f *fleet) betterMatches(chosen *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured, key types.NamespacedName) (why string, by []*infrav1.WorkspaceTemplateApply) {
	differing := func(claim *infrav1.WorkspaceTemplateApply) (sets.Set[string], error) {
		differences, err := f.differencesFrom(claim, live)
		return sets.New(fieldsOf(differences)...), err
	}
	against, failed := differing(chosen)
	if isAdopted(chosen) || failed == nil && against.Len() == 0 {
		return "", nil
	}
	for _, claim := range f.claims[key] {
		fields, err := differing(claim)
		if err == nil && (failed != nil && fields.Len() == 0 || fields.Len() < against.Len() && against.IsSuperset(fields)) {
			by = append(by, claim)
		}
	}
	if len(by) == 0 {
		return "", nil
	}
	why = fmt.Sprintf("WorkspaceTemplateApply %s refers to it, but the Workspace differs from what is rendered from it", client.ObjectKeyFromObject(chosen))
	if failed == nil {
		why += " in " + strings.Join(sets.List(against), ", ")
	}
	return why + ", and differs less from what is rendered from another one", by
}

// unusedDecisions reports the decisions about Workspaces that no WorkspaceTemplateApply refers to: perhaps another one was meant.
func (f *fleet) unusedDecisions(decisions migrate.Decisions) (findings []migrate.Finding) {
	for _, decision := range decisions.Workspaces {
		for key, live := range f.workspaces {
			if live.GetUID() == decision.UID && len(f.claims[key]) == 0 {
				findings = append(findings, warning(ReasonWorkspaceShared, migrate.RefOf(live),
					"workspaces[uid=%s].belongsTo in --decisions has no effect: no WorkspaceTemplateApply refers to this Workspace. Remove the entry, or correct its uid", decision.UID))
			}
		}
	}
	return findings
}

func (f *fleet) describe(uid types.UID) string {
	switch ref := f.knownObjects()[uid]; ref.Kind {
	case "":
		return fmt.Sprintf("no object has UID %s", uid)
	case kindApply:
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		return fmt.Sprintf("it names %s, which refers to Workspace %s", ref, f.workspaceKey(f.applies[key]).Name)
	default:
		return fmt.Sprintf("it names %s, which is not a WorkspaceTemplateApply", ref)
	}
}

// reportSharedName reports that an owner only shares the name of a Workspace, which belongs to holder. It returns false if holder is its own.
func (f *fleet) reportSharedName(o *owner, holder *infrav1.WorkspaceTemplateApply, key types.NamespacedName) (blocked bool) {
	if holder == o.apply {
		return false
	}
	o.State, o.Workspace = migrate.NothingToAdopt, nil
	o.addFinding(migrate.Warning, ReasonNeverBuilt, fmt.Sprintf("nothing was built for it: WorkspaceTemplateApply %s only has the same name as Workspace %s, which belongs to WorkspaceTemplateApply %s. It stays as it is. If you want to delete it, first stop CAPT v0.3, which would delete that Workspace with it",
		o.apply.Name, key.Name, client.ObjectKeyFromObject(holder)))
	return true
}

// provenHolder returns the only WorkspaceTemplateApply whose status records the Workspace and that renders exactly it; nil if the evidence does not decide.
// A name in spec proves nothing: users of any namespace can write it.
func (f *fleet) provenHolder(key types.NamespacedName) *infrav1.WorkspaceTemplateApply {
	var holder *infrav1.WorkspaceTemplateApply
	for _, claim := range f.claims[key] {
		switch records := isRecorded(claim, f.workspaces[key]); {
		case records && holder == nil:
			holder = claim
		case records, legacy.UnadoptedWorkspace(claim) == "", f.ownerBuilt(claim):
			return nil
		}
	}
	if holder == nil {
		return nil
	}
	if differences, err := f.differencesFrom(holder, f.workspaces[key]); err != nil || len(differences) > 0 {
		return nil
	}
	return holder
}

// ownerBuilt reports whether a field of the owner of a WorkspaceTemplateApply shows that cloud resources were created.
func (f *fleet) ownerBuilt(apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.ContainsFunc(f.owners, func(o *owner) bool {
		return o.apply == apply && o.match.Claimant != nil && o.match.Claimant.Want.ProvisionedField != ""
	})
}

// claimCandidates returns the WorkspaceTemplateApplies that refer to a Workspace as candidates, with evidence for and against each.
func (f *fleet) claimCandidates(key types.NamespacedName) []migrate.Candidate {
	candidates := make([]migrate.Candidate, len(f.claims[key]))
	for i, apply := range f.claims[key] {
		candidate := migrate.Candidate{Object: migrate.Ref(kindApply, apply), For: []string{"the name of the Workspace is derived from its name"}}
		if apply.Spec.WorkspaceName != "" {
			candidate.For = []string{"its spec names the Workspace"}
		}
		if apply.Status.WorkspaceName == key.Name {
			candidate.For = []string{"its status names the Workspace"}
		}
		switch differences, err := f.differencesFrom(apply, f.workspaces[key]); {
		case err != nil:
			candidate.Against = []string{"the Workspace cannot be rendered from it: " + err.Error()}
		case len(differences) == 0:
			candidate.For = append(candidate.For, "the Workspace is exactly what is rendered from it")
		default:
			candidate.Against = []string{"the Workspace is not what is rendered from it, in " + strings.Join(fieldsOf(differences), ", ")}
		}
		candidates[i] = candidate
	}
	return candidates
}

// neverBuilt reports whether CAPT v0.3 stopped before it created the Workspace of an owner. It returns false if any record of the owner, or of the
// control plane of its Cluster, shows that a Workspace exists or existed.
func (f *fleet) neverBuilt(o *owner) bool {
	key := f.workspaceKey(o.apply)
	if claim.RecordsWorkspace(o.apply) || o.apply.Spec.WorkspaceName != "" || !legacy.LegacyFinalizer(o.apply) || f.workspaces[types.NamespacedName{Name: key.Name}] != nil {
		return false
	}
	return !slices.ContainsFunc(f.owners, func(other *owner) bool {
		sameCluster := o.cluster != "" && other.cluster == o.cluster && other.Object.Namespace == o.Object.Namespace
		return f.recordsWorkspace(other) && (other == o || other.controlPlane != nil && sameCluster)
	})
}

// recordsWorkspace reports whether an owner shows that cloud resources were created, or has a Workspace.
func (f *fleet) recordsWorkspace(o *owner) bool {
	claimant := o.match.Claimant
	return claimant != nil && claimant.Want.ProvisionedField != "" || o.apply != nil && f.workspaces[f.workspaceKey(o.apply)] != nil
}

// checkMissing reports that the Workspace does not exist. Without blocking a helper: that gets deletionPolicy Retain, so that it can be deleted.
func (f *fleet) checkMissing(o *owner, key types.NamespacedName) (blocked bool) {
	switch {
	case o.helper:
		o.retain = true
		return false
	case f.neverBuilt(o):
		o.State = migrate.NothingToAdopt
		o.addFinding(migrate.Warning, ReasonNeverBuilt, fmt.Sprintf("CAPT v0.3 never created Workspace %s for WorkspaceTemplateApply %s: the WorkspaceTemplateApply stays as it is, and the manager neither creates nor deletes the Workspace. "+
			"If CAPT v0.3 still runs, wait until it has created the Workspace, and plan again. Otherwise stop CAPT v0.3, install this version, check in AWS that none of its resources exist, "+
			"and run kubectl -n %s patch workspacetemplateapply %s --type=merge -p '{\"spec\":{\"deletionPolicy\":\"Retain\"}}', then kubectl -n %s delete workspacetemplateapply %s. "+
			"Its owner, if it has one, then creates a new WorkspaceTemplateApply, or reports what is left to do in its condition AdoptionRequired. If only the status was lost, because a backup was restored, restore the Workspace instead",
			key.Name, o.apply.Name, o.apply.Namespace, o.apply.Name, o.apply.Namespace, o.apply.Name))
	case o.Object.Kind == kindApply:
		o.State = migrate.NothingToAdopt
		o.addFinding(migrate.Warning, ReasonWorkspaceNotFound, fmt.Sprintf("Workspace %s does not exist: this WorkspaceTemplateApply stays as it is, and the manager reports that its Workspace is missing. If it is not needed, stop CAPT v0.3 first, then delete it", key.Name))
	default:
		o.markBlocked(ReasonWorkspaceNotFound, fmt.Sprintf("WorkspaceTemplateApply %s belongs to it, but Workspace %s does not exist: the manager would create the Workspace, and Terraform the resources, again. Restore the Workspace from a backup, and plan again%s",
			o.apply.Name, key.Name, orSkip))
	}
	return true
}
