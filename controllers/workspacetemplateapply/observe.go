// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/dependencies"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/owners"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

func (r *Reconciler) observe(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, v engine.GateDecision) (*Facts, error) {
	f := &Facts{
		apply: apply,
		Now:   r.Clock.Now(), GateDecision: v, Block: v.Block, Retained: retained(apply), Restored: claim.Restored(apply),
		ReconcileAt: apply.Annotations[naming.ReconcileAnnotation], Generation: apply.Generation, WrittenGeneration: apply.Status.WrittenGeneration, LastUpdate: apply.Status.LastUpdate, SpecHash: rollout.SpecHash(apply),
	}
	if err := r.observePause(ctx, apply, f); err != nil {
		return nil, err
	}
	r.observeTemplate(ctx, apply, f)
	for _, observe := range []func(context.Context, *infrav1.WorkspaceTemplateApply, *Facts) error{
		r.observeDeletion, r.observeWorkspace, r.observeOwners, r.observeMove, r.observePreview,
	} {
		if err := observe(ctx, apply, f); err != nil {
			return nil, err
		}
	}
	f.Rejected, f.RetryAt = r.lastObserved(apply).Rejected(f.request(), f.Now)
	return f, nil
}

// observePause finds out whether the object is paused by its Cluster, by an annotation, or by an owner.
func (r *Reconciler) observePause(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	cluster, err := engine.LabeledCluster(ctx, r.Client, r.Uncached, apply.ObjectMeta)
	if err != nil && !errors.Is(err, util.ErrNoCluster) && !engine.Absent(err) {
		return fmt.Errorf("reading the Cluster: %w", err)
	}
	byOwner, err := r.owners().PausedBy(ctx, apply)
	f.Paused, f.PausedForMove = cmp.Or(desired.Paused(cluster, apply), byOwner), pausedForMove(cluster, apply)
	return err
}

func (r *Reconciler) owners() owners.Reader {
	return owners.Reader{Cached: r.Client, Uncached: r.Uncached}
}

// observeTemplate reads and renders the template, and reads the dependencies.
func (r *Reconciler) observeTemplate(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	f.TemplateKey = apply.TemplateKey()
	templates := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	f.Template, f.LookupError = templates.Permitted(ctx, f.TemplateKey, apply.Namespace)
	f.Name = validation.WorkspaceName(apply, f.Template)
	if f.Template != nil {
		f.LookupError = r.observeRevision(ctx, templates, apply, f)
	}
	if f.hasRevision() {
		f.Rendered, f.RenderErrors = render.Workspace(r.renderInput(apply, f))
	}
	if apply.DeletionTimestamp.IsZero() {
		reader := dependencies.Reader{Client: r.Client, Uncached: r.Uncached, Workspaces: r.Workspaces}
		missing, err := reader.Missing(ctx, apply, f.Now)
		f.Missing, f.LookupError = missing, errors.Join(f.LookupError, err)
	}
}

// observeRevision replaces the template with its content of the revision that is assigned to the object, if rollouts of the template are
// staged.
func (r *Reconciler) observeRevision(ctx context.Context, templates workspacetemplate.Lookup, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	f.CurrentRevision, f.Policy = rollout.HashOf(f.Template), f.Template.RolloutPolicyOr(r.DefaultRollout)
	if f.Policy.IsStaged() {
		f.Current = f.Template
	}
	at, revision, err := rollout.ContentFor(apply, f.Template, f.Policy, templates.Revisions(ctx))
	if f.Revision, f.RevisionMissing = revision, at == nil; at != nil {
		f.Template = at
	}
	// clusterctl moves neither revisions nor status. The object waits for its move until the Workspace is as spec requires, and spec has not changed since.
	f.MovedAsWritten = f.RevisionMissing && err == nil && f.WrittenGeneration == 0 && f.Generation == 1
	return err
}

func (r *Reconciler) renderInput(apply *infrav1.WorkspaceTemplateApply, f *Facts) render.Input {
	return render.Input{Apply: apply, Template: f.Template, Name: f.Name, ExternalName: desired.RecordedExternalName(apply), StatePrefix: r.StatePrefix}
}

// observeDeletion observes what may block the deletion of the object.
func (r *Reconciler) observeDeletion(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	if apply.DeletionTimestamp.IsZero() {
		return nil
	}
	if f.DeletionHeld, err = r.owners().HeldBy(ctx, apply); err != nil {
		return err
	}
	if f.RetainConflict, err = r.retainConflict(ctx, apply); err != nil {
		return err
	}
	f.Dependents, err = r.dependentsOf(ctx, apply)
	return err
}

// observeWorkspace reads the Workspace, and compares it with what the template renders.
func (r *Reconciler) observeWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	f.Live, err = r.findWorkspace(ctx, apply, f)
	if errors.Is(err, workspace.ErrKindMissing) {
		f.setKindMissing(err)
		return nil
	}
	if err != nil {
		return err
	}
	if f.OlderClaim, err = r.olderClaim(ctx, apply, f); err != nil {
		return err
	}
	if f.Live == nil {
		r.Unclaimed.Report(client.ObjectKeyFromObject(apply), 0)
		r.lastObserved(apply).UnreconciledFor("", f.Now)
		f.Findings = f.desired().Compare()
		if err = r.dismissRevision(ctx, apply, f); err == nil && f.clusterWide() && f.GateDecision.BlockMissing != nil {
			f.Block, err = f.GateDecision.BlockMissing(ctx)
		}
		return err
	}
	r.observeLive(ctx, apply, f)
	return nil
}

// observeLive observes a Workspace that exists: whether this object owns it, and what it reports.
func (r *Reconciler) observeLive(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	r.recognizeRevision(apply, f)
	if len(f.RenderErrors) > 0 && f.Live.RecordedFor(apply) { // A recorded Workspace keeps its references to other namespaces.
		again := r.renderInput(apply, f)
		again.Recorded = f.Live.Spec()
		f.Rendered, f.RenderErrors = render.Workspace(again)
	}
	if f.Ownership = workspace.Foreign; f.OlderClaim == "" { // Whatever this object records, also during its deletion.
		f.Ownership = f.Live.Owner(apply, f.Rendered)
	}
	if f.Block == nil && f.Ownership == workspace.Foreign && f.OlderClaim == "" && !f.Live.Claimed() {
		f.Block = f.GateDecision.BlockUnclaimed
	}
	f.Findings = f.desired().Compare()
	var unreconciled types.UID
	if f.Live.Unreconciled() {
		unreconciled = f.Live.UID()
	}
	f.UnreconciledFor = r.lastObserved(apply).UnreconciledFor(unreconciled, f.Now)
	r.Unclaimed.Report(client.ObjectKeyFromObject(apply), f.UnreconciledFor)
	if f.owned() {
		f.Failure = r.lastObserved(apply).Failure(f.Live.ErrorHash(), func() (failure.Report, bool) { return r.Workspaces.Explain(ctx, apply, f.Live) })
	}
	r.observeInputs(ctx, apply, f)
}

// recognizeRevision finds out that the Workspace has the current content of the template, although no stored revision is assigned to the object, for
// example because it came from another template with this content. Nothing is written then.
func (r *Reconciler) recognizeRevision(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	if f.Current == nil || f.hasRevision() || f.LookupError != nil || f.Live.Scope() != f.Current.Spec.WorkspaceScope.OrDefault() {
		return
	}
	if rendered, errs := r.renderCurrent(apply, f); len(errs) == 0 && !f.Live.Differs(rendered) {
		f.Template, f.Revision, f.RevisionMissing, f.Rendered = f.Current, f.CurrentRevision, false, rendered
	}
}

// observePreview reads the preview of the object, and finds out whether one is wanted: as a proof, of a change of spec, or the current revision.
func (r *Reconciler) observePreview(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	p := &f.Preview
	p.Now, f.Change = f.Now, f.changeOf(apply)
	if p.Live, err = r.previews().Live(ctx, apply, f.Live); err != nil || !apply.DeletionTimestamp.IsZero() {
		return err
	}
	recorded, wanted := &apply.Status.Preview, (*render.Rendered)(nil)
	switch {
	case f.GateDecision.Proof != "":
		wanted = f.observeProof()
	case f.Change.NeedsPreview():
		recorded = f.recordedOfChange(apply)
		p.Revision, wanted = f.Revision, f.Rendered
		p.Assumed, p.Message = f.assumedPlan()
	case f.Change.IsPending(), f.Current == nil, !f.Policy.IsPreviewed():
	default:
		p.Revision, p.Assigned = f.CurrentRevision, f.Revision == f.CurrentRevision
		wanted = r.observeCurrent(apply, f)
	}
	if recorded.Result != "" {
		p.Recorded = recorded
	}
	if wanted == nil || p.Assumed != "" {
		return nil
	}
	if p.Live != nil && p.Live.ErrorHash() != "" {
		p.Failure = r.Workspaces.ExplainPreview(ctx, p.Live, f.Live)
	}
	p.Ready = p.Ready || f.canBePreviewed()
	p.Wanted, err = f.Live.Preview(apply, wanted)
	return err
}

// recordedOfChange is the last result of the change that is pending, without a result if it is about another change.
func (f *Facts) recordedOfChange(apply *infrav1.WorkspaceTemplateApply) *infrav1.RevisionPreview {
	if change := &apply.Status.Change; change.Revision == f.Change.Revision {
		return &change.Preview
	}
	return &infrav1.RevisionPreview{}
}

// observeCurrent renders the current content of the template, if that is to be previewed, and finds out whether its plan is known without a preview.
func (r *Reconciler) observeCurrent(apply *infrav1.WorkspaceTemplateApply, f *Facts) *render.Rendered {
	if f.Preview.Assigned || !f.owned() {
		return nil
	}
	rendered, errs := r.renderCurrent(apply, f)
	if f.Preview.Assumed, f.Preview.Message = f.refusedRevision(apply, rendered, errs); f.Preview.Assumed == "" {
		f.Preview.Assumed, f.Preview.Message = f.assumedPlan()
	}
	return rendered
}

// renderCurrent renders the current content of the template, although another revision is assigned.
func (r *Reconciler) renderCurrent(apply *infrav1.WorkspaceTemplateApply, f *Facts) (*render.Rendered, field.ErrorList) {
	in := r.renderInput(apply, f)
	in.Template = f.Current
	rendered, errs := render.Workspace(in)
	if len(errs) > 0 && f.Live.RecordedFor(apply) { // As in observeLive.
		in.Recorded = f.Live.Spec()
		return render.Workspace(in)
	}
	return rendered, errs
}

func (r *Reconciler) previews() previews.Runner {
	return previews.Runner{Workspaces: r.Workspaces, Slots: &r.slots}
}

// observeInputs reads what a failed run of Terraform used. An error does not fail the reconcile: then the last result is kept.
func (r *Reconciler) observeInputs(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	if f.Failure.Class != "" && apply.DeletionTimestamp.IsZero() {
		var err error
		if f.Inputs, err = r.Workspaces.Inputs(ctx, f.Live); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot read the ProviderConfig or a Secret of a failed run of Terraform", "Workspace", klog.KRef(apply.Namespace, f.Name))
		}
	}
	r.inputs.Set(client.ObjectKeyFromObject(apply), f.Inputs.Objects)
}

// findWorkspace reads the Workspace that the template determines. It reads the recorded Workspace instead if that has another scope, if there is
// no template, during deletion, and before a move is allowed.
func (r *Reconciler) findWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (*workspace.Live, error) {
	if f.Template == nil || !apply.DeletionTimestamp.IsZero() || recordedInOtherScope(apply, f.Template.Spec.WorkspaceScope) || f.moveRequested(apply) {
		return r.Workspaces.Recorded(ctx, apply, f.Rendered)
	}
	live, err := r.Workspaces.Get(ctx, f.Template.Spec.WorkspaceScope, apply.Namespace, f.Name)
	unexpectedlyAbsent := retained(apply) && apply.Status.WorkspaceRef != nil || f.desired().Compare().LostState != "" || validation.IsStateUnknown(apply, f.Template)
	if live == nil && err == nil && unexpectedlyAbsent { // Confirmed by the API server, and in the other scope, before it is reported.
		return r.Workspaces.Recorded(ctx, apply, f.Rendered)
	}
	return live, err
}

func retained(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain
}

// recordedInOtherScope reports whether the recorded Workspace has another scope than the template. A second Workspace with the same state
// must not be created in the new scope.
func recordedInOtherScope(apply *infrav1.WorkspaceTemplateApply, scope terraform.Scope) bool {
	ref := apply.Status.WorkspaceRef
	return ref != nil && ref.APIVersion != scope.GroupVersionKind().GroupVersion().String()
}

// observeOwners reads the owners of an object for which no Workspace is recorded, also while it is paused: the garbage collector continues.
func (r *Reconciler) observeOwners(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	if apply.Status.WorkspaceRef != nil || !apply.DeletionTimestamp.IsZero() || f.Block != nil {
		return nil
	}
	// The manager may not be able to read owners of other controllers. Only a restored object waits for them, unless a user confirmed
	// the Workspace.
	mustRead := f.Restored && (f.Live == nil || apply.Annotations[naming.AdoptWorkspaceAnnotation] != string(f.Live.UID()))
	f.OwnerMissing, err = r.owners().Missing(ctx, apply, mustRead)
	return err
}

// list reads WorkspaceTemplateApplies from the cache. They must not be changed.
func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	return list.Items, nil
}

// retainConflict returns why a retained object must not be deleted: dependencies of its Workspace would be destroyed. It is empty if there is no
// conflict.
func (r *Reconciler) retainConflict(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	if !retained(apply) {
		return "", nil
	}
	var others []infrav1.WorkspaceTemplateApply
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		found, err := r.list(ctx, client.InNamespace(apply.Namespace), client.MatchingFields{index.WorkspaceName: dependency.Name})
		if err != nil {
			return "", err
		}
		others = append(others, found...)
	}
	return validation.RetainConflict(apply, others), nil
}

// dependentsOf returns why the Workspace is not destroyed before those that depend on it.
func (r *Reconciler) dependentsOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*desired.Blocked, error) {
	if apply.Spec.WorkspaceName == "" {
		return nil, nil
	}
	list, err := r.list(ctx, client.InNamespace(apply.Namespace), client.MatchingFields{index.WaitForWorkspace: apply.Namespace + "/" + apply.Spec.WorkspaceName})
	return desired.WaitingForDependents(apply, list), err
}
