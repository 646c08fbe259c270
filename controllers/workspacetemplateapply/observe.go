// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

func (r *Reconciler) observe(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, v engine.GateDecision) (*Facts, error) {
	f := &Facts{
		apply: apply,
		Now:   r.Clock.Now(), GateDecision: v, Block: v.Block, Retained: retained(apply), Restored: claim.Restored(apply),
		WrittenGeneration: apply.Status.WrittenGeneration, LastUpdate: apply.Status.LastUpdate,
	}
	if err := r.observePause(ctx, apply, f); err != nil {
		return nil, err
	}
	r.observeTemplate(ctx, apply, f)
	for _, observe := range []func(context.Context, *infrav1.WorkspaceTemplateApply, *Facts) error{
		r.observeDeletion, r.observeWorkspace, r.observeState, r.observeConnection, r.observeOwners, r.observeMove, r.observePreview, r.observeRequest,
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
	cluster, err := engine.LabeledCluster(ctx, r.Client, r.Uncached, apply)
	if err != nil {
		return err
	}
	byOwner, err := r.pausedByOwner(ctx, apply)
	f.Paused, f.PausedForMove = cmp.Or(desired.Paused(cluster, apply), byOwner), pausedForMove(cluster, apply)
	return err
}

// observeTemplate reads and renders the template, and reads the dependencies.
func (r *Reconciler) observeTemplate(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	f.TemplateKey = apply.TemplateKey()
	templates := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	f.Template, f.LookupError = templates.Permitted(ctx, f.TemplateKey, apply.Namespace)
	f.Name, f.CachedTemplate = validation.WorkspaceName(apply, f.Template), f.Template
	if f.Template != nil {
		f.LookupError = r.observeRevision(ctx, templates, apply, f)
	}
	if f.hasRevision() {
		f.Rendered, f.RenderErrors = r.render(apply, f, f.Template)
	}
	if apply.DeletionTimestamp.IsZero() {
		missing, err := r.missingDependencies(ctx, apply, f.Now)
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
	f.MovedAsWritten = f.RevisionMissing && err == nil && f.WrittenGeneration == 0 && apply.Generation == 1
	return err
}

// render renders the Workspace from a content of the template. A recorded Workspace keeps its references to other namespaces.
func (r *Reconciler) render(apply *infrav1.WorkspaceTemplateApply, f *Facts, template *infrav1.WorkspaceTemplate) (*render.Rendered, field.ErrorList) {
	in := render.Input{Apply: apply, Template: template, Name: f.Name, ExternalName: desired.RecordedExternalName(apply), StatePrefix: r.StatePrefix}
	rendered, errs := render.Workspace(in)
	if len(errs) == 0 || f.Live == nil || !f.Live.RecordedFor(apply) {
		return rendered, errs
	}
	in.Recorded = f.Live.Spec()
	return render.Workspace(in)
}

func (r *Reconciler) observeDeletion(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	if apply.DeletionTimestamp.IsZero() {
		return nil
	}
	if f.DeletionHeld, err = r.heldByOwner(ctx, apply); err != nil {
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
		r.lastObserved(apply).UnreconciledFor("", f.Now, 0)
		f.Findings = f.desired().Compare()
		if err = r.dismissRevision(ctx, apply, f); err == nil && f.desired().ClusterWide() && f.GateDecision.BlockMissing != nil {
			f.Block, err = f.GateDecision.BlockMissing(ctx)
		}
		return err
	}
	r.observeLive(ctx, apply, f)
	if key := connectionSecret(apply, f.Live); key != nil && f.Live.InForegroundDeletion() {
		f.ConnectionSecret, err = engine.Get(ctx, r.Client, *key, engine.Metadata("Secret"))
	}
	return err
}

// connectionSecret is the key of the connection Secret of a Workspace; nil if it has none in the namespace of the object. Others are not its concern, and the
// manager may not read them.
func connectionSecret(apply *infrav1.WorkspaceTemplateApply, live *workspace.Live) *client.ObjectKey {
	ref := live.Spec().WriteConnectionSecretToRef
	if ref == nil || cmp.Or(ref.Namespace, live.GetNamespace()) != apply.Namespace {
		return nil
	}
	return &client.ObjectKey{Namespace: apply.Namespace, Name: ref.Name}
}

// observeLive observes a Workspace that exists: whether this object owns it, and what it reports.
func (r *Reconciler) observeLive(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	r.recognizeRevision(apply, f)
	if len(f.RenderErrors) > 0 {
		f.Rendered, f.RenderErrors = r.render(apply, f, f.Template)
	}
	if f.Ownership = render.Foreign; f.OlderClaim == "" { // Whatever this object records, also during its deletion.
		f.Ownership = f.Live.Owner(apply, f.Rendered)
	}
	if f.Block == nil && f.Ownership == render.Foreign && f.OlderClaim == "" && !f.Live.Claimed() {
		f.Block = f.GateDecision.BlockUnclaimed
	}
	f.Findings = f.desired().Compare()
	r.observeReports(apply, f)
	if f.owned() {
		f.Failure = r.lastObserved(apply).Failure(f.Live.ErrorHash(), func() (failure.Report, bool) { return r.Workspaces.Explain(ctx, apply, f.Live) })
	}
	r.observeInputs(ctx, apply, f)
}

// observeReports measures for how long the provider has not reported on the Workspace.
func (r *Reconciler) observeReports(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	reported := time.Duration(0) // A manager that is restarted does not revert what was reported.
	ref, reasonsNow := apply.Status.WorkspaceRef, []string{conditions.GetReason(apply, infrav1.ReadyCondition), conditions.GetReason(apply, infrav1.DeletingCondition)}
	if ref != nil && ref.UID == f.Live.GetUID() && (slices.Contains(reasonsNow, infrav1.WorkspaceNotReconciledReason) || slices.Contains(reasonsNow, infrav1.NotReportedReason)) {
		reported = workspace.ReconcileTimeout
	}
	f.UnreconciledFor = r.lastObserved(apply).UnreconciledFor(f.Live.Unreported(f.LastUpdate), f.Now, reported)
	unclaimed := time.Duration(0)
	if f.Live.IsNew() {
		unclaimed = f.UnreconciledFor
	}
	r.Unclaimed.Report(client.ObjectKeyFromObject(apply), unclaimed)
}

// connectionInterval is how often a lost connection Secret is requested, as far as anything reconciles the object.
const connectionInterval = 10 * time.Minute

// observeConnection finds out that the connection Secret of a Workspace that is up to date was deleted, or has lost an output. provider-terraform writes it at
// each run. A Workspace that CAPT has not created keeps its metadata: the Secret is written at the next poll.
func (r *Reconciler) observeConnection(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	f.observeDestroyed()
	if f.Paused != "" || !apply.DeletionTimestamp.IsZero() || !f.Observation().UpToDate {
		return nil
	}
	key := connectionSecret(apply, f.Live)
	if key == nil || !f.Live.ClaimedBy(apply) {
		return nil
	}
	secret, err := r.Secrets.Metadata(ctx, *key)
	if err == nil && (secret == nil || f.Live.LostOutput(secret)) { // The cache may be older than the Workspace.
		secret, err = engine.Get(ctx, r.Uncached, *key, engine.Metadata("Secret"))
	}
	switch {
	case err != nil:
		return err
	case secret == nil:
		f.LookRequest = f.Now.UTC().Truncate(connectionInterval).Format(time.RFC3339)
	case f.Live.LostOutput(secret):
		f.LookRequest = "Secret-" + secret.ResourceVersion // One request for each change of the Secret.
	}
	return nil
}

// observeDestroyed asks the provider to look again after a requested attempt to destroy: it would find out that all is destroyed only after its backoff.
func (f *Facts) observeDestroyed() {
	if f.owned() && f.Live.Deleting() && !f.Live.DestroyFailed() {
		if request := f.Live.GetAnnotations()[naming.RecoveryAnnotation]; runs.IsRequested(request) {
			f.LookRequest = request
		}
	}
}

// recognizeRevision finds out that the Workspace has the current content of the template, although no stored revision is assigned to the object, for
// example because it came from another template with this content. Nothing is written then.
func (r *Reconciler) recognizeRevision(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	if f.Current == nil || f.hasRevision() || f.LookupError != nil || f.Live.Scope() != f.Current.Spec.WorkspaceScope.OrDefault() {
		return
	}
	if rendered, errs := r.render(apply, f, f.Current); len(errs) == 0 && !rendered.Differs(f.Live.Unstructured) {
		f.Template, f.Revision, f.RevisionMissing, f.Rendered = f.Current, f.CurrentRevision, false, rendered
	}
}

// observePreview reads the preview of the object, and finds out whether one is wanted: as a proof, of a change of spec, or the current revision.
func (r *Reconciler) observePreview(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	p := &f.Preview
	p.Now, f.Change = f.Now, f.changeOf(apply)
	f.Change.IsPlannable = f.Change.IsPending() && f.canBePreviewed()
	if p.Live, err = r.previews().Live(ctx, apply, f.previewedLive(), f.scopeOfPreview()); err != nil || !apply.DeletionTimestamp.IsZero() {
		return err
	}
	recorded, wanted := &apply.Status.Preview, (*render.Rendered)(nil)
	switch {
	case f.GateDecision.Proof != "":
		wanted = f.observeProof()
	case f.TakesState:
		wanted = f.observeStatePlan(apply)
	case f.Change.NeedsPreview(*f.recordedOfChange(apply)):
		recorded = f.recordedOfChange(apply)
		p.Revision, wanted = f.Revision, f.Rendered
		p.Assumed, p.Message = f.assumedPlan()
	case f.Change.IsPending(), f.Current == nil, !f.Policy.IsPreviewed():
	default:
		p.Revision, p.Assigned = f.CurrentRevision, f.Revision == f.CurrentRevision
		wanted = r.observeCurrent(apply, f)
	}
	if content := r.observePlanCheck(apply, f); content != nil {
		recorded, wanted, p.Revision, p.Assigned, p.IsCheck = &infrav1.RevisionPreview{}, content, f.Revision, false, true
	}
	if recorded.Result != "" {
		p.Recorded = recorded
	}
	return r.observeWanted(ctx, apply, f, wanted)
}

// observeWanted renders the preview of a content, if one is wanted and its plan is not known, and observes it.
func (r *Reconciler) observeWanted(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, wanted *render.Rendered) (err error) {
	p := &f.Preview
	if wanted == nil || p.Assumed != "" {
		return nil
	}
	p.Ready = p.Ready || f.canBePreviewed()
	if p.Wanted, err = wanted.Preview(f.previewedObject(), apply); err != nil {
		return err
	}
	return r.previews().Observe(ctx, apply, f.previewedLive(), p)
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
	rendered, errs := r.render(apply, f, f.Current)
	if f.Preview.Assumed, f.Preview.Message = f.refusedRevision(apply, f.Current, rendered, errs); f.Preview.Assumed == "" {
		f.Preview.Assumed, f.Preview.Message = f.assumedPlan()
	}
	return rendered
}

// observePlanCheck returns the content that Terraform has applied, if it is to be planned once more: the provider, which plans at each poll, has done nothing
// but apply it since. A plan without changes, which is an event, shows that this is not needed.
func (r *Reconciler) observePlanCheck(apply *infrav1.WorkspaceTemplateApply, f *Facts) *render.Rendered {
	if r.PlanCheckDelay == 0 || f.GateDecision.Proof != "" {
		return nil
	}
	atRest := f.owned() && f.Rendered != nil && f.written() && f.canBePreviewed() && f.Live.ReportsGeneration()
	if !atRest || f.Live.PlannedLast() {
		r.lastObserved(apply).AppliedFor(nil, f.Now)
		return nil
	}
	since, planned := r.lastObserved(apply).AppliedFor(f.Live, f.Now)
	switch isRolledOut := f.Preview.Revision == "" || f.Preview.Assigned; {
	case planned, !isRolledOut, conditions.IsTrue(apply, infrav1.PlanNeverEmptyCondition):
		return nil
	case since < r.PlanCheckDelay:
		f.PlanCheckAfter = r.PlanCheckDelay - since
		return nil
	}
	return f.Rendered
}

func (r *Reconciler) previews() previews.Runner {
	return previews.Runner{Workspaces: r.Workspaces, Slots: &r.slots, Strays: &r.strays, Plans: r.Plans, Metrics: r.PlanMetrics}
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
	mustRead := f.Restored && (f.Live == nil || apply.Annotations[naming.AdoptWorkspaceAnnotation] != string(f.Live.GetUID()))
	f.OwnerMissing, err = r.missingOwner(ctx, apply, mustRead)
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

// olderClaim returns an older WorkspaceTemplateApply with the same Workspace. The oldest wins, so that exactly one of two objects that
// were admitted concurrently continues. Objects of all namespaces can have the same cluster-wide Workspace. A record in status, which users cannot
// write, outweighs a name in spec, which they can.
func (r *Reconciler) olderClaim(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (string, error) {
	if f.Name == "" || (f.Live != nil && f.Live.ClaimedBy(apply)) {
		return "", nil
	}
	// Without the namespace, each object of a fleet with namespaced Workspaces would read all others of its name.
	options := []client.ListOption{client.MatchingFields{index.WorkspaceName: f.Name}}
	if !f.desired().ClusterWide() {
		options = append(options, client.InNamespace(apply.Namespace))
	}
	others, err := r.list(ctx, options...)
	if err != nil {
		return "", err
	}
	return f.desired().ClaimOf(others), nil
}

func hasNamespacedWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.Namespace != ""
}

// dismissRevision lets an object that never had a Workspace wait for its revision, unless the one in spec was rolled out or approved: only such a revision is
// assigned to new objects, and a user could have written another one.
func (r *Reconciler) dismissRevision(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if f.Current == nil || !f.hasRevision() || apply.Status.WorkspaceRef != nil || !apply.DeletionTimestamp.IsZero() {
		return nil
	}
	uncached := workspacetemplate.Lookup{Cached: r.Uncached, Uncached: r.Uncached} // The record may be newer than the cache.
	object, err := uncached.Revisions(ctx).First(rollout.StoredAs(f.TemplateKey, f.Revision)...)
	if err != nil {
		return err
	}
	if object != nil {
		if stored, err := rollout.Parse(object); err == nil && stored.Hash == f.Revision && (stored.RolledOut || stored.Approval != rollout.Approval{}) {
			return nil
		}
	}
	f.Revision, f.Rendered, f.RenderErrors = "", nil, nil
	return nil
}

// pausedByOwner reports why the controller of an object is paused by its own annotation; empty when it is not. A paused controller writes
// nothing, but an edited template, or the garbage collector, would still change what it controls. The pause of a Cluster is observed by its
// label.
func (r *Reconciler) pausedByOwner(ctx context.Context, object metav1.Object) (string, error) {
	controller, err := controllerOf(ctx, object, r.Client, r.Uncached)
	if err != nil || controller == nil {
		return "", err
	}
	why := desired.Paused(nil, controller)
	if why == "" {
		return "", nil
	}
	return fmt.Sprintf("%s, which controls this object, is paused: %s", controllerName(object), why), nil
}

// heldByOwner returns why the controller of a WorkspaceTemplateApply forbids to destroy its cloud resources; nil when it does not: it is protected from
// deletion, or it is being deleted although a Cluster refers to it. While the controller is being deleted, everything that it controls is held:
// foreground deletion deletes all of that. Otherwise it protects only its own WorkspaceTemplateApply, because a Fargate profile that was removed
// from spec is deleted. The controller is read from the API server, because a destroy cannot be reverted.
func (r *Reconciler) heldByOwner(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*desired.Blocked, error) {
	controller, err := controllerOf(ctx, apply, r.Uncached)
	if err != nil || controller == nil {
		return nil, err
	}
	own := ""
	switch c := controller.(type) {
	case *infrav1.CAPTCluster:
		own = c.Spec.WorkspaceTemplateApplyRef.Name
	case *controlplanev1.CAPTControlPlane:
		own = c.Spec.WorkspaceTemplateApplyRef.Name
	case *infrav1.CAPTMachinePool:
		own = c.Spec.WorkspaceTemplateApplyRef.Name
	}
	if desired.IsDeletionProtected(controller) && (!controller.GetDeletionTimestamp().IsZero() || own == apply.Name) {
		return desired.DeletionProtected(controllerName(apply)), nil
	}
	if engine.DeletionContinues(controller) {
		return nil, nil
	}
	return engine.HeldByUsers(ctx, r.Client, controller, controllerName(apply))
}

// controllerOf returns the CAPTCluster or CAPTControlPlane that controls an object, from the first reader that has it; nil when there is none.
func controllerOf(ctx context.Context, object metav1.Object, readers ...client.Reader) (found engine.Object, err error) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind == clusterv1.ClusterKind {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	for _, reader := range readers {
		kind := watchedKind(*ref)
		if kind == nil {
			return nil, nil
		}
		if found, err = engine.Get(ctx, reader, key, kind); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		}
		if found != nil {
			break
		}
	}
	if found == nil || found.GetUID() != ref.UID {
		return nil, nil
	}
	return found, nil
}

func controllerName(object metav1.Object) string {
	controller := metav1.GetControllerOf(object)
	return controller.Kind + " " + controller.Name
}

// missingOwner describes an owner of an object, or of its owners, that does not exist; empty when there is none. With mustRead, an owner that
// the manager may not read counts as missing.
//
// A backup restores owner references with UIDs of owners that no longer exist. The garbage collector then deletes the object, and that must
// not destroy the resources of its Workspace. So nothing is recorded or created for an object before its owners, and their owners, exist.
func (r *Reconciler) missingOwner(ctx context.Context, object metav1.Object, mustRead bool) (string, error) {
	missing, err := desired.MissingOwner(object, func(namespace string, ref metav1.OwnerReference) (metav1.Object, bool, error) {
		owner, err := r.readOwner(ctx, namespace, ref)
		switch {
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			if mustRead {
				err = &unreadableError{ref}
				return nil, false, err
			}
			return nil, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("reading owner %s %s: %w", ref.Kind, ref.Name, err)
		}
		return owner, true, nil
	})
	if unreadable := (*unreadableError)(nil); errors.As(err, &unreadable) {
		return unreadable.Error(), nil
	}
	return missing, err
}

// unreadableError is an owner that the manager may not read.
type unreadableError struct{ metav1.OwnerReference }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("owner %s %s (UID %s) cannot be read (if it exists, set annotation %s to the UID of the Workspace)", e.Kind, e.Name, e.UID, naming.AdoptWorkspaceAnnotation)
}

// readOwner reads an owner; nil when no object has its UID.
func (r *Reconciler) readOwner(ctx context.Context, namespace string, ref metav1.OwnerReference) (metav1.Object, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	if cached := watchedKind(ref); cached != nil {
		if err := r.Client.Get(ctx, key, cached); err == nil && cached.GetUID() == ref.UID {
			return cached, nil
		}
	}
	owner := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}}
	owner, err := engine.Get(ctx, r.Uncached, key, owner)
	if err != nil || owner == nil || owner.UID != ref.UID {
		return nil, err
	}
	return owner, nil
}

// watchedKind is an empty object of the kind of an owner; nil when the manager does not watch that kind.
func watchedKind(ref metav1.OwnerReference) engine.Object {
	switch schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() {
	case infrav1.GroupVersion.WithKind("CAPTCluster").GroupKind():
		return &infrav1.CAPTCluster{}
	case controlplanev1.GroupVersion.WithKind("CAPTControlPlane").GroupKind():
		return &controlplanev1.CAPTControlPlane{}
	case infrav1.GroupVersion.WithKind("CAPTMachinePool").GroupKind():
		return &infrav1.CAPTMachinePool{}
	case clusterv1.GroupVersion.WithKind("Cluster").GroupKind():
		return &clusterv1.Cluster{}
	}
	return nil
}

// maxNamed limits how many dependencies a message names.
const maxNamed = 20

// missingDependencies lists what a WorkspaceTemplateApply waits for, and since when.
func (r *Reconciler) missingDependencies(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, now time.Time) ([]infrav1.MissingDependency, error) {
	var missing []infrav1.MissingDependency
	for _, dependency := range apply.Spec.WaitForSecrets {
		found, err := r.missingSecret(ctx, apply, dependency)
		if err != nil {
			return nil, err
		}
		missing = append(missing, found...)
	}
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		message, err := r.missingWorkspace(ctx, apply, dependency)
		if err != nil {
			return nil, err
		}
		if message != "" {
			missing = append(missing, infrav1.MissingDependency{Kind: terraform.WorkspaceKind, Name: dependency.Name, Message: message})
		}
	}
	for i := range missing {
		missing[i].Since = missingSince(&missing[i], apply.Status.MissingDependencies, now)
	}
	return missing, nil
}

// missingSince is when a dependency was first seen missing. A key of a Secret is missing since the whole Secret was.
func missingSince(missing *infrav1.MissingDependency, before []infrav1.MissingDependency, now time.Time) *metav1.Time {
	i := slices.IndexFunc(before, func(b infrav1.MissingDependency) bool {
		return b.Kind == missing.Kind && b.Name == missing.Name && (b.Key == missing.Key || b.Key == "")
	})
	if i < 0 {
		first := metav1.NewTime(now).Rfc3339Copy()
		return &first
	}
	return before[i].Since
}

// missingMessage lists missing dependencies in a sentence.
func missingMessage(missing []infrav1.MissingDependency) string {
	var phrases []string
	for i, m := range missing {
		if i == maxNamed {
			phrases = append(phrases, fmt.Sprintf("and %d more, see status.missingDependencies", len(missing)-i))
			break
		}
		phrases = append(phrases, fmt.Sprintf("%s (since %s)", m.Message, m.Since.UTC().Format(time.RFC3339)))
	}
	return strings.Join(phrases, "; ")
}

// neededKeys is the part of a message about a Secret that does not exist.
func neededKeys(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return ": it needs a value for key " + strings.Join(keys, " and key ")
}

// missingSecret lists what a Secret lacks. A Secret of another namespace counts as missing.
func (r *Reconciler) missingSecret(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, dependency infrav1.SecretDependency) ([]infrav1.MissingDependency, error) {
	var missing []infrav1.MissingDependency
	add := func(key, format string, args ...any) {
		missing = append(missing, infrav1.MissingDependency{Kind: "Secret", Name: dependency.Name, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if dependency.Namespace != "" && dependency.Namespace != apply.Namespace {
		add("", "Secret %s must be in namespace %s, the namespace of this object. Correct its namespace in spec.waitForSecrets", dependency.Name, apply.Namespace)
		return missing, nil
	}
	secret, err := r.Secrets.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: dependency.Name})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", dependency.Name, err)
	}
	if secret == nil {
		add("", "Secret %s does not exist%s", dependency.Name, neededKeys(dependency.Keys))
	} else {
		for _, key := range dependency.Keys {
			if len(secret.Data[key]) == 0 {
				add(key, "Secret %s has no value for key %s", dependency.Name, key)
			}
		}
		if len(dependency.Keys) == 0 && isEmpty(secret) {
			add("", "Secret %s is empty", dependency.Name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	writers, err := r.list(ctx, client.InNamespace(apply.Namespace), client.MatchingFields{index.ConnectionSecret: apply.Namespace + "/" + dependency.Name})
	missing[len(missing)-1].Message += desired.FailureCause(writers, apply)
	return missing, err
}

// isEmpty reports whether a Secret has no values: provider-terraform creates connection Secrets before it fills them.
func isEmpty(secret *corev1.Secret) bool {
	for _, value := range secret.Data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

// missingWorkspace describes why a Workspace is not up to date; empty when it is. Its WorkspaceTemplateApply knows the desired spec. A
// Workspace without one is checked by its own conditions.
func (r *Reconciler) missingWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, dependency infrav1.WorkspaceDependency) (string, error) {
	namespace := apply.DependencyKey(dependency).Namespace
	providers, err := r.list(ctx, client.InNamespace(namespace), client.MatchingFields{index.WorkspaceName: dependency.Name})
	if err != nil {
		return "", err
	}
	return desired.MissingWorkspace(apply, dependency, providers, func() (bool, bool, error) { return r.unownedWorkspace(ctx, namespace, dependency.Name) })
}

// unownedWorkspace reports on a Workspace without a WorkspaceTemplateApply by its own conditions. That one of another namespace exists is not disclosed.
func (r *Reconciler) unownedWorkspace(ctx context.Context, namespace, name string) (exists, upToDate bool, err error) {
	for _, scope := range terraform.Scopes() {
		live, err := r.Workspaces.Get(ctx, scope, namespace, name)
		switch {
		case errors.Is(err, workspace.ErrKindMissing):
			continue
		case err != nil:
			return false, false, err
		case live == nil:
			continue
		}
		if ours, err := r.belongsTo(ctx, namespace, live, name); ours || err != nil {
			return ours, ours && workspace.Observe(live, workspace.ObserveInput{}).UpToDate, err
		}
	}
	return false, false, nil
}

// belongsTo reports whether a Workspace belongs to a namespace. A cluster-wide one without a claim belongs to the
// namespace of the WorkspaceTemplateApply whose status, which users cannot write, records it, or else to that of its connection Secret.
func (r *Reconciler) belongsTo(ctx context.Context, namespace string, live *workspace.Live, name string) (bool, error) {
	if live.Scope() != terraform.ScopeCluster || live.Claimed() {
		return !live.ClaimedElsewhere(namespace), nil
	}
	named, err := r.list(ctx, client.MatchingFields{index.WorkspaceName: name})
	if err != nil {
		return false, err
	}
	for i := range named {
		if live.RecordedFor(&named[i]) {
			return named[i].Namespace == namespace, nil
		}
	}
	derived, err := r.list(ctx, client.InNamespace(namespace), client.MatchingFields{index.DerivedName: name})
	if err != nil || slices.ContainsFunc(derived, func(apply infrav1.WorkspaceTemplateApply) bool { return apply.Status.WorkspaceName == name }) {
		return err == nil, err
	}
	ref := live.Spec().WriteConnectionSecretToRef
	return ref != nil && ref.Namespace == namespace, nil
}
