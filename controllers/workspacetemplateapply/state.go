// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// takenRequest is the value of naming.ResumedAnnotation that lets the provider report a state that was taken over.
const takenRequest = "adopted"

// observeState finds out whether the object is to take over the Terraform state that spec.terraformState names, and whether another object has that state.
func (r *Reconciler) observeState(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	f.observeProofs(apply, r.ProveNew)
	f.StateRecord = r.stateRecord(apply, f)
	if f.owned() && f.Paused == "" && f.Live.FoundResources() && (apply.Spec.TerraformState.Name != "" || createdFor(apply)) {
		f.LookRequest = takenRequest // Once: the provider would report the state at its next poll.
	}
	if !f.TakesState || f.ProvesNew || f.ChangesScope || f.Rendered == nil || !apply.DeletionTimestamp.IsZero() {
		return nil
	}
	f.StateUser, err = r.stateUser(ctx, r.Client, apply, f)
	return err
}

// stateRecord records a state whose name only the Workspace has, for an object that is restored without it.
func (r *Reconciler) stateRecord(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	name := f.desired().ExternalName()
	if f.desired().OtherState() != nil {
		return apply.Annotations[naming.TerraformStateAnnotation]
	}
	if !f.owned() || apply.Spec.TerraformState.Name != "" || name == naming.ExternalName(r.StatePrefix, client.ObjectKeyFromObject(apply)) {
		return ""
	}
	return f.Live.ProviderConfig() + " " + name
}

// observeProofs finds out whether the Workspace waits for a proof, and why.
func (f *Facts) observeProofs(apply *infrav1.WorkspaceTemplateApply, proveNew bool) {
	if f.KindMissing {
		return
	}
	isNew := f.Live == nil
	f.ProvesNew = proveNew && isNew && apply.Spec.TerraformState.Name == "" && !claim.RecordsWorkspace(apply)
	f.ChangesScope = (isNew || f.owned() && !f.Live.Deleting()) && f.desired().ChangesScope()
	f.TakesState = isNew && states.IsPending(apply) || f.ProvesNew || f.ChangesScope
}

// createdFor reports whether the Workspace was created for this object, and not for one that was moved.
func createdFor(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Annotations[naming.ExternalNameUIDAnnotation] == string(apply.UID)
}

// stateUser describes another object that has the state which the object is to take over; empty without one. What is in other namespaces is not disclosed.
func (r *Reconciler) stateUser(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply, f *Facts) (string, error) {
	user := states.Claim{Apply: apply, Config: render.ProviderConfigObject(f.Rendered.Object), Own: f.Rendered.Object, Prefix: r.StatePrefix, Read: func(config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(config), config)
	}}
	for _, scope := range terraform.Scopes() {
		if r.Namespace != "" && scope == terraform.ScopeCluster {
			continue // The manager has no rights at cluster scope.
		}
		list, err := r.Workspaces.List(ctx, reader, scope, client.InNamespace(r.Namespace))
		if err != nil {
			return "", err
		}
		user.Workspaces = append(user.Workspaces, list...)
	}
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	templates := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	user.Applies, user.Template = applies.Items, func(other *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error) {
		return templates.Permitted(ctx, other.TemplateKey(), other.Namespace)
	}
	return user.User()
}

// observeStatePlan returns what is to be planned before the object takes its state over.
func (f *Facts) observeStatePlan(apply *infrav1.WorkspaceTemplateApply) *render.Rendered {
	p := &f.Preview
	p.Revision, p.Proof, p.OfState = f.Revision, apply.Annotations[naming.ProveAnnotation], true
	switch {
	case f.ProvesNew:
		p.Proof = apply.Annotations[naming.ReconcileAnnotation]
	case f.ChangesScope:
		p.Proof = apply.Annotations[naming.EvacuateAnnotation]
	}
	p.Ready = f.Paused == "" && f.writable() && (f.ScopeChanged || !f.mustNotBeWritten()) && !claim.AwaitsOwner(apply)
	return f.Rendered
}

// stateHeldBy returns the reason why the Workspace of an object that takes a state over is not created yet; empty if it may be.
func (f *Facts) stateHeldBy(plan infrav1.RevisionPreview) string {
	switch {
	case !f.Preview.Ready, plan.Result == "":
		return infrav1.WaitingForProofReason
	case states.IsProvenBy(&plan):
		return ""
	}
	return infrav1.NotProvenReason
}

// stateMessage is why the Workspace is not created yet, and what to do.
func (f *Facts) stateMessage(apply *infrav1.WorkspaceTemplateApply, p Plan) string {
	state := fmt.Sprintf("Terraform state %s is adopted when a plan shows that Terraform would change no resource", f.desired().ExternalName())
	switch {
	case f.ProvesNew && p.HeldBy == infrav1.NotProvenReason:
		return fmt.Sprintf("Workspace %s is not created, because the manager runs with --prove-new-workspaces, and the plan of Terraform state %s is not empty: %s. Nothing is applied. If the state has another name, "+
			"set spec.terraformState (docs/disaster-recovery.md); if something differs, correct it; to create what is new, run the manager without the flag. %s plans again",
			f.Name, f.desired().ExternalName(), overview.WhyNotEmpty(p.StatePlan), desired.AnnotateCommand(apply, naming.ReconcileAnnotation, "now"))
	case p.HeldBy == infrav1.NotProvenReason:
		return fmt.Sprintf("Terraform state %s is not adopted: %s. Nothing is applied. Correct the variables, the template or the state; captctl adopt state plans again",
			apply.Spec.TerraformState.Name, overview.WhyNotEmpty(p.StatePlan))
	case f.Preview.Queued:
		return state + ": waiting for other previews"
	}
	return state + ": waiting for provider-terraform to plan it"
}

// verifyState confirms with the API server that no other object has the state, before the Workspace is created. These are created one by one: the Workspace of
// one is seen by the next.
func (r *Reconciler) verifyState(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if f.ChangesScope {
		apply = apply.DeepCopy()
		apply.Spec.TerraformState.Name = desired.RecordedExternalName(apply)
	}
	user, err := r.stateUser(ctx, r.Uncached, apply, f)
	if err == nil && user != "" {
		err = errors.New("Terraform state " + apply.Spec.TerraformState.Name + " is in use by " + user)
	}
	return err
}

// abandons reports whether the Workspace of a state that was taken over is deleted without destroying anything: the object is deleted, and retains its resources. The
// state stays where Terraform finds it.
func (f *Facts) abandons() bool {
	return f.Retained && f.apply.Spec.TerraformState.Name != "" && f.owned() && !f.apply.DeletionTimestamp.IsZero()
}

func (r *Reconciler) abandon(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if !f.Live.Deleting() {
		r.Recorder.Eventf(apply, nil, corev1.EventTypeNormal, "StateReleased", "Delete",
			"Workspace %s is deleted without Terraform: its cloud resources and Terraform state %s are kept", f.Name, f.Live.ExternalName())
	}
	return r.Workspaces.DeletePreview(ctx, f.Live)
}
