// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package changes computes what the manager would change in the Workspaces of a fleet. It is pure: the rules are those of package desired, which the
// controllers call.
package changes

import (
	"cmp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// Workspace is a Workspace, and what would change in it.
type Workspace struct {
	Namespace string `json:"namespace,omitempty"` // Namespace is empty for a cluster-scoped Workspace.
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"` // Cluster is namespace/name of its Cluster, if it has one.
	// Apply and Template are namespace/name of its WorkspaceTemplateApply and of its WorkspaceTemplate.
	Apply    string `json:"workspaceTemplateApply"`
	Template string `json:"workspaceTemplate"`
	Action   Action `json:"action"`
	Message  string `json:"message,omitempty"` // Message is why the manager does not write, or not yet.
	Reason   string `json:"reason,omitempty"`  // Reason is that of the condition that reports the message.
	// Changes are the fields that would change.
	Changes []render.Difference `json:"changes,omitempty"`
}

// Action is what the manager would do with a Workspace.
type Action string

// Actions.
const (
	ActionNone       Action = "None"       // Nothing would change.
	ActionCreate     Action = "Create"     // The Workspace would be created.
	ActionUpdate     Action = "Update"     // The Workspace would be changed, and Terraform would plan and apply.
	ActionDestroy    Action = "Destroy"    // The Workspace would be deleted, and Terraform would destroy its resources.
	ActionBlocked    Action = "Blocked"    // The manager writes nothing; the message has the reason.
	ActionUnreadable Action = "Unreadable" // The user may not read the Workspace or its WorkspaceTemplate; the message has the error.
	ActionInvalid    Action = "Invalid"    // The Workspace cannot be rendered, so the manager writes nothing; the message has the errors.
)

// Differs reports whether a Workspace would be created, changed or destroyed, now or later.
func (w *Workspace) Differs() bool {
	return w.Action == ActionCreate || w.Action == ActionUpdate || w.Action == ActionDestroy
}

// because sets why the manager does not write, or not yet.
func (w *Workspace) because(blocked *desired.Blocked) {
	if blocked != nil {
		w.Reason, w.Message = blocked.Reason, blocked.Message
	}
}

func newWorkspace(u *Unit) Workspace {
	apply := u.Apply()
	w := Workspace{Name: validation.RecordedWorkspace(apply), Apply: naming.KeyOf(apply).String(), Template: apply.TemplateKey().String(), Action: ActionBlocked}
	if ref := apply.Status.WorkspaceRef; ref != nil {
		w.Namespace = ref.Namespace
	}
	if u.Cluster != nil {
		w.Cluster = naming.KeyOf(u.Cluster).String()
	}
	return w
}

// Compare returns what the manager would do with the Workspace of a unit, if all others stay as they are.
func (f *Fleet) Compare(u *Unit) (Workspace, error) {
	w := newWorkspace(u)
	if f.Held != nil {
		if w.Message = f.Held(u.Owner, u.Live); w.Message != "" {
			return w, nil
		}
	}
	if u.Live == nil && u.ownerDeleted() {
		u.Blocked = &desired.Blocked{Reason: infrav1.DeletingReason, Message: "its owner is being deleted"}
	}
	if u.Live == nil && (u.Blocked != nil || u.Desired == nil) {
		w.because(u.Blocked)
		return w, nil
	}
	if u.deleting() && u.Live.DeletionTimestamp.IsZero() { // The controller of the WorkspaceTemplateApply continues while its owner waits.
		if held := cmp.Or(f.ownerHeld(u), f.ownerWaits(u)); held != nil {
			u.Blocked, u.Desired, u.pending = held, nil, true
			err := f.compareContent(u, &w)
			return w, err
		}
	}
	if u.deleting() {
		err := f.compareDeletion(u, &w)
		return w, err
	}
	err := f.compareContent(u, &w)
	return w, err
}

// compareContent compares the Workspace with what is rendered.
func (f *Fleet) compareContent(u *Unit, w *Workspace) error {
	subject, rollsOut, err := f.subject(u)
	if err != nil {
		return err
	}
	if subject.Template != nil {
		w.Name, w.Namespace = subject.Name, map[terraform.Scope]string{terraform.ScopeNamespaced: subject.Apply.Namespace}[subject.Template.Spec.WorkspaceScope.OrDefault()]
	}
	w.Template = subject.Apply.TemplateKey().String()
	if w.Message, err = f.heldMissing(subject); err != nil || w.Message != "" {
		return err
	}
	if blocked := notWritten(subject); blocked != nil {
		w.neverWritten(u, subject, blocked, rollsOut)
		return nil
	}
	w.compare(subject)
	if w.because(f.notNow(u, subject, w.Differs())); w.Differs() && (w.Reason == "" || infrav1.IsHeld(w.Reason)) {
		w.because(rollsOut)
	}
	if w.Action == ActionNone {
		w.nothingDiffers(u)
	} else if w.Reason == "" {
		w.Message = unreadSecrets(u, subject.Apply)
	}
	return nil
}

// compare sets what differs between the Workspace and what is rendered.
func (w *Workspace) compare(subject *desired.Workspace) {
	if subject.Live == nil {
		w.Action, w.Changes = ActionCreate, subject.Rendered.Content()
		return
	}
	if w.Action, w.Changes = ActionUpdate, subject.Rendered.Changes(subject.Live); len(w.Changes) == 0 {
		w.Action = ActionNone
	}
}

// heldMissing is HeldMissing if the Workspace is one that it is about.
func (f *Fleet) heldMissing(subject *desired.Workspace) (string, error) {
	if f.HeldMissing == nil || subject.Live != nil || !subject.ClusterWide() || subject.Apply.Spec.WorkspaceName != "" {
		return "", nil
	}
	return f.HeldMissing(subject.Apply, f.WorkspaceOf, func(string) ([]infrav1.WorkspaceTemplateApply, error) { return f.othersThan(subject.Apply), nil })
}

// neverWritten reports why the Workspace is not written. later is why a correct one would not be written yet; nil if it would.
func (w *Workspace) neverWritten(u *Unit, subject *desired.Workspace, blocked, later *desired.Blocked) {
	if w.because(blocked); len(subject.RenderErrors) > 0 && slices.Contains([]string{infrav1.TemplateInvalidReason, infrav1.VariableMissingReason, infrav1.VariableInvalidReason}, blocked.Reason) {
		w.Action = ActionInvalid
	}
	if u.Queued { // The WorkspaceTemplateApply does not exist before, and reports nothing.
		later = queued()
	}
	if later != nil {
		w.Reason, w.Message = later.Reason, later.Message+", and when this is corrected: "+w.Message
	}
}

// notWritten returns why the manager does not write a Workspace, whatever its content is; nil if it may.
func notWritten(subject *desired.Workspace) *desired.Blocked {
	if blocked := subject.NotRendered(); blocked != nil {
		return blocked
	}
	if subject.Live != nil && subject.Owned() && subject.Live.GetDeletionTimestamp() != nil {
		return &desired.Blocked{Reason: infrav1.WorkspaceDeletingReason, Message: "the Workspace is being deleted"}
	}
	if conflict := subject.Conflict(); conflict != nil {
		return conflict
	}
	if subject.NotRecreated {
		return &desired.Blocked{Reason: infrav1.WorkspaceNotFoundReason, Message: subject.NotRecreatedMessage()}
	}
	return nil
}

// nothingDiffers keeps a reason only if the owner is blocked, so that something may differ when it continues.
func (w *Workspace) nothingDiffers(u *Unit) {
	switch {
	case u.Blocked == nil:
		w.Reason, w.Message = "", ""
	case u.pending, u.Blocked.Reason != controlplanev1.WaitingForWorkspaceReason:
		w.Action = ActionBlocked
	}
}

// notNow returns why a change is not written yet; nil if it is written at once.
func (f *Fleet) notNow(u *Unit, subject *desired.Workspace, changes bool) *desired.Blocked {
	if paused := f.pausedBy(u); paused != "" {
		return &desired.Blocked{Reason: clusterv1.PausedReason, Message: "written when it is no longer paused"}
	}
	if !changes {
		return u.Blocked
	}
	if missing := f.missing(subject.Apply); missing != "" {
		return &desired.Blocked{Reason: infrav1.WaitingForDependenciesReason, Message: missing}
	}
	if subject.Live == nil && states.IsPending(subject.Apply) {
		return &desired.Blocked{Reason: infrav1.WaitingForProofReason, Message: "written when a plan shows that Terraform would change no resource of the state that it adopts"}
	}
	status, change := &subject.Apply.Status, rollout.Change{}
	if subject.Live != nil || status.WorkspaceRef != nil {
		change = rollout.ChangeOf(subject.Apply, subject.Template.RolloutPolicy(), subject.Rendered.Revision)
	}
	var planned infrav1.RevisionPreview
	if status.Change.Revision == change.Revision {
		planned = status.Change.Preview
	}
	if reason := change.HeldBy(planned); reason != "" {
		return &desired.Blocked{Reason: reason, Message: "held by the rollout policy of the template, or because the object moves to another template: written after its preview, or when content " + change.Revision + " is approved"}
	}
	if u.Queued {
		return queued()
	}
	return nil
}

// queued is why a Fargate profile is not created yet.
func queued() *desired.Blocked {
	return &desired.Blocked{Reason: controlplanev1.FargateProfileCreatingReason, Message: "written when Terraform has changed the other Fargate profiles of the Cluster"}
}

// subject returns the Workspace with the content that the rollout of its template has assigned. If that is what the live one has, or if the user may not
// read it, it returns the Workspace with the current content, and why that is not written yet.
func (f *Fleet) subject(u *Unit) (*desired.Workspace, *desired.Blocked, error) {
	assigned, err := f.workspace(u, false)
	unread := apierrors.IsForbidden(err)
	if !unread && (err != nil || u.deleting() || !isRolledOut(assigned)) {
		return assigned, nil, err
	}
	current, err := f.workspace(u, true)
	switch {
	case err != nil || !unread && current.Revision == assigned.Revision:
	case unread || isWritten(assigned):
		return current, &desired.Blocked{Reason: infrav1.RevisionHeldReason, Message: "written when the rollout of the template assigns revision " + current.Revision}, nil
	case assigned.Rendered == nil && isWritten(current):
		return current, nil, nil
	}
	return assigned, nil, err
}

// isRolledOut reports whether a rollout decides which content the Workspace, which exists, gets.
func isRolledOut(w *desired.Workspace) bool {
	return w.Live != nil && w.Template != nil && w.Template.RolloutPolicy().IsStaged()
}

func isWritten(w *desired.Workspace) bool { return w.Rendered != nil && !w.Rendered.Differs(w.Live) }

// workspace renders the Workspace of a unit, and compares it with the live one. The content is the one that is assigned, or the current one.
func (f *Fleet) workspace(u *Unit, current bool) (*desired.Workspace, error) {
	apply := u.Desired
	if apply == nil || u.Blocked != nil {
		apply = u.Live // The owner does not write it.
	}
	key := apply.TemplateKey()
	template, err := f.permitted(key, apply.Namespace)
	if err != nil {
		return nil, err
	}
	w := &desired.Workspace{Apply: apply, Template: template, Name: validation.WorkspaceName(apply, template)}
	if w.Live, err = f.live(w, u.deleting()); err != nil {
		return nil, err
	}
	if template == nil {
		if w.Live != nil {
			w.Ownership = render.OwnerOf(w.Live, apply, nil)
		}
		return w, nil
	}
	if err := f.render(w, current); err != nil {
		return nil, err
	}
	w.OlderClaim = w.ClaimOf(f.othersThan(w.Apply))
	if w.Live != nil {
		if w.Ownership = render.Foreign; w.OlderClaim == "" {
			w.Ownership = render.OwnerOf(w.Live, apply, w.Rendered)
		}
	}
	if apply.Status.WorkspaceRef == nil {
		if w.OwnerMissing, err = desired.MissingOwner(apply, f.readOwner); err != nil {
			return nil, err
		}
	}
	w.Findings = w.Compare()
	return w, nil
}

// render renders the Workspace, unless the content that is assigned is not stored.
func (f *Fleet) render(w *desired.Workspace, current bool) error {
	policy := w.Template.RolloutPolicy()
	if current {
		policy = infrav1.WorkspaceTemplateRollout{}
	}
	at, revision, err := rollout.ContentFor(w.Apply, w.Template, policy, f.Revisions)
	if w.Revision, w.RevisionMissing = revision, err == nil && at == nil; err != nil || at == nil || revision == "" {
		return err
	}
	w.Template = at
	return w.Render(render.Input{ExternalName: desired.RecordedExternalName(w.Apply)})
}

// live returns the Workspace of a WorkspaceTemplateApply: the one of the template's scope, or else the recorded one.
func (f *Fleet) live(w *desired.Workspace, deleting bool) (*unstructured.Unstructured, error) {
	if w.Template == nil {
		return f.recorded(w.Apply)
	}
	scope := w.Template.Spec.WorkspaceScope.OrDefault()
	found, err := f.WorkspaceOf(scope, w.Apply.Namespace, w.Name)
	if recorded, ok := w.Apply.Status.WorkspaceRef.Scope(); err == nil && found == nil && ok && (deleting || recorded != scope) {
		return f.recorded(w.Apply)
	}
	return found, err
}

// unreadSecrets says on which Secrets a write depends whose values the manager has not reported; empty if there are none.
func unreadSecrets(u *Unit, apply *infrav1.WorkspaceTemplateApply) string {
	var names []string
	for _, dependency := range apply.Spec.WaitForSecrets {
		if u.Live == nil || u.Live.Status.WorkspaceRef == nil || !slices.ContainsFunc(u.Live.Spec.WaitForSecrets, func(d infrav1.SecretDependency) bool { return d.Name == dependency.Name }) {
			names = append(names, dependency.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "written when these Secrets have their values, which captctl does not read: " + strings.Join(names, ", ")
}

// recorded returns the Workspace that status of a WorkspaceTemplateApply records; nil if it does not exist.
func (f *Fleet) recorded(apply *infrav1.WorkspaceTemplateApply) (*unstructured.Unstructured, error) {
	ref := apply.Status.WorkspaceRef
	scope, ok := ref.Scope()
	if !ok {
		return nil, nil
	}
	return f.WorkspaceOf(scope, ref.Namespace, ref.Name)
}
