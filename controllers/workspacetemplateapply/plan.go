// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	clusterlabels "sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
)

// Action is what a reconcile does.
type Action string

const (
	// Observe: nothing to write.
	Observe Action = "Observe"
	// Create the Workspace.
	Create Action = "Create"
	// Protect the owned Workspace: add the finalizer, and the annotation that blocks clusterctl move.
	Protect Action = "Protect"
	// AllowMove: remove the annotation that blocks clusterctl move.
	AllowMove Action = "AllowMove"
	// Update the Workspace to the rendered spec.
	Update Action = "Update"
	// Restore the managedFields of the Workspace, which were lost. Nothing else changes.
	Restore Action = "Restore"
	// Recover: carry out a recovery action that the owner requested.
	Recover Action = "Recover"
	// Reconnect: let the provider write the connection Secret again, or report a state that was taken over before its next poll.
	Reconnect Action = "Reconnect"
	// Pause the Workspace: another run of Terraform would create again what the last one has created.
	Pause Action = "Pause"
	// WaitForKind: the CRD of the Workspace is not installed, or not served.
	WaitForKind Action = "WaitForKind"
	// Destroy: delete the Workspace, so that Terraform destroys its resources.
	Destroy Action = "Destroy"
	// WaitForDestroy: the Workspace is being destroyed.
	WaitForDestroy Action = "WaitForDestroy"
	// Abandon: delete the Workspace of a state that was taken over without destroying its resources.
	Abandon Action = "Abandon"
	// Release: remove the finalizers. The Workspace is gone, or is retained.
	Release Action = "Release"
)

// Plan is the decision of a reconcile.
type Plan struct {
	Action Action
	// Paused is why the object is paused, and what blocks clusterctl move; empty when it is not paused.
	Paused string
	// Preview is what happens with the preview of another revision, or of a change of spec.
	Preview previews.Decision
	// Requested is what happens with the preview that a PlanRequest requested.
	Requested previews.Decision
	// HeldBy is the reason why a change of spec is not written to the Workspace; empty if it is, or if there is none.
	HeldBy string
	// ChangePreview is the preview of that change; the zero value without one.
	ChangePreview infrav1.RevisionPreview
	// StatePlan is the plan of the content with which the object would take its state over; the zero value without one.
	StatePlan infrav1.RevisionPreview
}

// plan is pure.
func plan(apply *infrav1.WorkspaceTemplateApply, f *Facts) (Plan, error) {
	p := Plan{Preview: previews.Decide(&f.Preview)}
	p.ChangePreview = *f.recordedOfChange(apply) // It is kept when the change passes, until that is written.
	if f.Preview.Proof != "" || f.Change.NeedsPreview(p.ChangePreview) {
		p.ChangePreview = ptr.Deref(p.Preview.Result, infrav1.RevisionPreview{})
	}
	if f.Request != nil {
		p.Preview.Step, p.Requested = previews.None, f.decideRequest()
	}
	p.HeldBy = f.Change.HeldBy(p.ChangePreview)
	if f.TakesState {
		p.StatePlan = ptr.Deref(p.Preview.Result, infrav1.RevisionPreview{})
		p.HeldBy = f.stateHeldBy(p.StatePlan)
	}
	switch {
	case f.Paused != "":
		p.Action, p.Paused = planPaused(apply, f)
	case !apply.DeletionTimestamp.IsZero():
		p.Action = deletionAction(apply, f, p.HeldBy != "")
	default:
		p.Action = normalAction(apply, f, p.HeldBy != "")
	}
	return p, nil
}

// planPaused only allows the object to be moved. It returns why the object is paused.
func planPaused(apply *infrav1.WorkspaceTemplateApply, f *Facts) (Action, string) {
	if !f.moveRequested(apply) {
		return Observe, f.Paused
	}
	if blocked := f.moveBlockedBy(apply); blocked != "" {
		return Observe, f.Paused + "; clusterctl move would wait: " + blocked
	}
	return AllowMove, f.Paused
}

// normalAction is the action for an object that is neither paused nor deleted.
func normalAction(apply *infrav1.WorkspaceTemplateApply, f *Facts, held bool) Action {
	switch {
	case f.Block != nil:
		return Observe
	case f.KindMissing:
		return WaitForKind
	case f.unprotected(apply):
		return Protect
	case firstConflict(f) != nil:
		return Observe
	case f.runsWithoutState():
		return Pause
	case !f.writable():
		return Observe
	case f.Live == nil && !held:
		return Create
	case f.outdated():
		return f.updateAction(apply, held)
	case f.recoveryRequested(apply):
		return Recover
	}
	return f.repairAction(apply)
}

// repairAction is the action for a Workspace that is as it should be.
func (f *Facts) repairAction(apply *infrav1.WorkspaceTemplateApply) Action {
	switch {
	case f.reconnects():
		return Reconnect
	case f.lostManagedFields(apply):
		return Restore
	}
	return Observe
}

func (f *Facts) unprotected(apply *infrav1.WorkspaceTemplateApply) bool {
	return f.owned() && !f.isProtected(apply)
}

func (f *Facts) runsWithoutState() bool { return f.owned() && f.Live.RunsWithoutState(f.Failure) }

// writable reports whether what was rendered may be written now.
func (f *Facts) writable() bool {
	return f.Rendered != nil && len(f.Missing) == 0 && f.LookupError == nil && !f.NotRecreated && f.Rejected == "" && f.desired().NotRendered() == nil
}

// correctsDestroy reports whether Terraform fails to destroy the resources, and what was rendered since is to be written.
func (f *Facts) correctsDestroy() bool {
	return f.Live.DestroyFailed() && f.Differs() && firstConflict(f) == nil && f.writable()
}

// updateAction is the action for a Workspace that must be updated. While a change of spec is held, recovery continues for the content that it has.
func (f *Facts) updateAction(apply *infrav1.WorkspaceTemplateApply, held bool) Action {
	switch {
	case !held:
		return Update
	case f.recoveryRequested(apply):
		return Recover
	}
	return Observe
}

// deletionAction is the action for an object that is being deleted. While Terraform fails to destroy the resources, corrections reach the Workspace.
func deletionAction(apply *infrav1.WorkspaceTemplateApply, f *Facts, held bool) Action {
	switch {
	case f.DeletionHeld != nil, f.RetainConflict != "":
		return Observe
	case f.abandons():
		return Abandon
	case retained(apply), f.Restored:
		return Release
	case f.Block == nil:
		return f.destroyAction(held)
	}
	return Observe
}

// destroyAction is the action for an object whose cloud resources are to be destroyed.
func (f *Facts) destroyAction(held bool) Action {
	switch {
	case f.KindMissing:
		return WaitForKind
	case !f.owned():
		return Release
	case (f.Dependents != nil || f.desired().OtherState() != nil) && !f.Live.Deleting():
		return Observe
	case !held && f.correctsDestroy():
		return Update
	case f.Live.Deleting():
		return f.destroyingAction()
	}
	return Destroy
}

// destroyingAction is the action while Terraform destroys the resources.
func (f *Facts) destroyingAction() Action {
	switch {
	case f.recoveryRequested(f.apply):
		return Recover
	case f.reconnects():
		return Reconnect
	}
	return WaitForDestroy
}

// setAssignment records since when the object has the revision that a rollout assigned to it. It must not change while the revision is the same: the rollout
// waits for the object until a deadline.
func setAssignment(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	switch recorded, assigned := &apply.Status.Assignment, apply.Spec.TemplateRevision; {
	case assigned == "":
		*recorded = infrav1.RevisionAssignment{}
	case terraform.IsRecordedAs(recorded.TemplateRevision, assigned): // Spec may have its first digits only.
	case !terraform.IsRecordedAs(assigned, recorded.TemplateRevision):
		*recorded = infrav1.RevisionAssignment{TemplateRevision: assigned, Time: ptr.To(metav1.NewTime(f.Now))}
	default:
		recorded.TemplateRevision = assigned
	}
}

const (
	// ownersInterval is how often to read missing owners: no watch reports other kinds, or owners of owners.
	ownersInterval = time.Minute
	// servedInterval is how often to check whether an installed CRD is served: no event reports it.
	servedInterval = 5 * time.Second
)

func (r *Reconciler) act(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan) error {
	r.reportReplaced(apply, f)
	if p.Action != Update {
		r.RateLimiter.Cancel(client.ObjectKeyFromObject(apply), f.Now)
	}
	// A preview that cannot be written must not keep the object out of its group: all other members would queue.
	previewErr, action := r.actPreview(ctx, apply, f, p), p.Action
	if previewErr != nil {
		action = Observe
	}
	err := r.serialized(ctx, apply, f, action, func() error {
		if previewErr != nil {
			return previewErr
		}
		err := r.carryOut(ctx, apply, f, p.Action)
		if err == nil && f.LookupError != nil && p.Action == Observe && (f.Block == nil || f.Preview.Proof != "") {
			return f.LookupError // Status reports it, and the lookup is retried.
		}
		return err
	})
	return p.Preview.Wait(&f.Preview, p.Requested.Wait(&f.Requested, err))
}

// actPreview carries out what happens with the preview. A check whose plan would change nothing, or that is not possible, is not repeated.
func (r *Reconciler) actPreview(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan) error {
	preview, decision := &f.Preview, p.Preview
	if f.Request != nil {
		preview, decision = &f.Requested, p.Requested
	}
	err := r.previews().Act(ctx, apply, preview, decision)
	if result := p.Preview.Recorded(&f.Preview); f.Preview.IsCheck && result != nil && result.Result != infrav1.PreviewChanges {
		r.lastObserved(apply).applied.planned = true
	}
	return err
}

func (r *Reconciler) carryOut(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, action Action) error {
	switch action {
	case Create:
		return r.create(ctx, apply, f)
	case Update:
		return r.update(ctx, apply, f)
	case Restore: // Terraform does nothing, so it is neither serialized nor limited.
		ctrl.LoggerFrom(ctx).Info("Restoring managedFields of Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name))
		live, err := r.Workspaces.Restore(ctx, f.Live, f.Rendered)
		return r.recordWrite(ctx, apply, f, live, err)
	case Recover, Reconnect, Pause:
		return r.annotateWorkspace(ctx, apply, f, action)
	case Protect:
		return r.protect(ctx, apply, f)
	case AllowMove:
		return engine.Patch(ctx, r.Client, apply, func() { delete(apply.Annotations, clusterctlv1.BlockMoveAnnotation) })
	case WaitForKind:
		return waitForKind(f)
	case Destroy:
		ctrl.LoggerFrom(ctx).Info("Deleting Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name))
		return r.Workspaces.Delete(ctx, apply, f.Live)
	case Abandon:
		return r.abandon(ctx, apply, f)
	case Release:
		return r.release(ctx, apply, f)
	case Observe, WaitForDestroy:
		return waitForUnwatched(f)
	}
	return nil
}

// annotateWorkspace requests a recovery of the Workspace, or pauses it.
func (r *Reconciler) annotateWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, action Action) error {
	annotate, request := r.Workspaces.Pause, apply.Annotations[naming.RecoveryAnnotation]
	if action == Recover {
		annotate = func(ctx context.Context, live *workspace.Live) (*workspace.Live, error) {
			return r.Workspaces.Recover(ctx, live, request, f.LastUpdate)
		}
	}
	if action == Reconnect {
		annotate = func(ctx context.Context, live *workspace.Live) (*workspace.Live, error) {
			return r.Workspaces.Reconnect(ctx, live, f.LookRequest)
		}
	}
	ctrl.LoggerFrom(ctx).Info("Annotating Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name), "action", action)
	live, err := annotate(ctx, f.Live)
	return r.recordWrite(ctx, apply, f, live, err)
}

// waitForUnwatched requeues an object that has nothing to write, and that waits for something that no watch reports.
func waitForUnwatched(f *Facts) error {
	switch {
	case f.OwnerMissing != "":
		return engine.Wait("the owners of this object", ownersInterval)
	case f.Rejected != "":
		return waitForRetry(f)
	}
	if after := f.Observation().RequeueAfter; after > 0 {
		return engine.Wait("provider-terraform to reconcile the Workspace", after)
	}
	if f.PlanCheckAfter > 0 {
		return engine.Wait("provider-terraform to plan the Workspace", f.PlanCheckAfter)
	}
	return nil
}

func waitForRetry(f *Facts) error {
	return engine.Wait("the next attempt to write the rejected Workspace", f.RetryAt.Sub(f.Now))
}

// waitForKind waits for provider-terraform. The definition of the kind is watched.
func waitForKind(f *Facts) error {
	if f.KindNotServed {
		return engine.Wait("the API server to serve the Workspace kind", servedInterval)
	}
	return nil
}

// serialized runs an action that starts Terraform only if the object is, or becomes, the active member of its group.
func (r *Reconciler) serialized(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, action Action, run func() error) error {
	group, member := serialize.GroupOf(apply)
	switch {
	case !member:
		r.serializer.Forget(client.ObjectKeyFromObject(apply))
		return run()
	case !slices.Contains([]Action{Create, Update, Recover, Reconnect, Destroy}, action): // It does not start Terraform.
		r.serializer.Record(apply, group, f.inProgress())
		return run()
	}
	active, err := r.serializer.Acquire(apply, group, f.inProgress(), func() ([]client.ObjectKey, error) { return r.otherMembers(ctx, apply, group) })
	if err != nil {
		return err
	}
	if !active {
		f.Queued = group.QueuedMessage()
		r.RateLimiter.Cancel(client.ObjectKeyFromObject(apply), f.Now)
		return nil
	}
	err = run()
	// A request without a response may have succeeded.
	requested := err == nil && action == Destroy || err != nil && !notExecuted(err) && f.Rejected == ""
	r.serializer.Record(apply, group, requested || f.inProgress())
	return err
}

// otherMembers lists the other members of a group that this manager reconciles.
func (r *Reconciler) otherMembers(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, group serialize.Group) ([]client.ObjectKey, error) {
	list, err := r.list(ctx, client.InNamespace(group.Namespace), group.Labels())
	var keys []client.ObjectKey
	for i := range list {
		other := &list[i]
		reconciled := r.WatchFilterValue == "" || clusterlabels.HasWatchLabel(other, r.WatchFilterValue)
		if other.Name != apply.Name && reconciled && !annotations.IsExternallyManaged(other) {
			keys = append(keys, client.ObjectKeyFromObject(other))
		}
	}
	return keys, err
}

// notExecuted reports whether an error shows that the API server did not execute the request.
func notExecuted(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// reportReplaced sends one event when the Workspace was recreated with its claim, for example from a backup. Terraform continues with the state
// that the external name of the Workspace identifies.
func (r *Reconciler) reportReplaced(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	before := apply.Status.WorkspaceRef
	if !apply.DeletionTimestamp.IsZero() || !f.owned() || before == nil || before.UID == "" || before.UID == f.Live.GetUID() {
		return
	}
	r.Recorder.Eventf(apply, nil, corev1.EventTypeWarning, infrav1.WorkspaceReplacedReason, "Observe",
		"Workspace %s was deleted and recreated (UID was %s, is %s)", f.Name, before.UID, f.Live.GetUID())
}

// create records the name of the Workspace before it creates it, so that the Workspace is found after a crash between the two.
func (r *Reconciler) create(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if f.TakesState && !f.ProvesNew {
		r.taking.Lock()
		defer r.taking.Unlock()
		if err := r.verifyState(ctx, apply, f); err != nil {
			return err
		}
	}
	if err := r.protect(ctx, apply, f); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Creating Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name), "revision", f.Rendered.Revision)
	live, err := r.Workspaces.Create(ctx, apply, f.Rendered)
	return r.recordWrite(ctx, apply, f, live, err)
}

func (r *Reconciler) update(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if err := r.verifyTemplate(ctx, f); err != nil {
		return err
	}
	if wait := r.RateLimiter.Reserve(client.ObjectKeyFromObject(apply), f.Now); wait > 0 {
		return engine.Wait("the rate limit of updates", wait)
	}
	if apply.DeletionTimestamp.IsZero() {
		if err := r.protect(ctx, apply, f); err != nil {
			return err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Updating Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name), "revision", f.Rendered.Revision)
	live, err := r.Workspaces.Update(ctx, apply, f.Live, f.Rendered)
	if err == nil {
		f.LastUpdate, f.UnreconciledFor = live.UpdateRecord(), 0
	}
	return r.recordWrite(ctx, apply, f, live, err)
}

// verifyTemplate confirms with the API server that the template is as it was read: a manager that has lost its leadership must not revert to the content of before,
// which the next one has replaced since.
func (r *Reconciler) verifyTemplate(ctx context.Context, f *Facts) error {
	was := f.CachedTemplate
	if was == nil {
		return nil
	}
	now, err := engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(was), &infrav1.WorkspaceTemplate{})
	if err == nil && (now == nil || now.UID != was.UID || now.Generation != was.Generation) {
		err = fmt.Errorf("WorkspaceTemplate %s was changed during the reconcile", f.TemplateKey)
	}
	return err
}

// recordWrite adds the result of a write to the facts. A rejected Workspace is sent again after a change, or at RetryAt. Only the first of
// equal rejections is logged.
func (r *Reconciler) recordWrite(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, live *workspace.Live, err error) error {
	var rejected *workspace.RejectedError
	switch {
	case errors.As(err, &rejected):
		return r.reject(ctx, apply, f, "the API server rejected the Workspace: "+failure.OneLine(rejected.Error()))
	case errors.Is(err, workspace.ErrKindMissing):
		f.setKindMissing(err)
		return waitForKind(f)
	case err != nil:
		f.WriteError = err
		return err
	}
	f.Live, f.Ownership = live, live.Owner(apply, f.Rendered)
	if live.Rewritten {
		return r.reject(ctx, apply, f, rewritten(f))
	}
	return nil
}

// reject records why the Workspace is not as it was written, so that the same request waits.
func (r *Reconciler) reject(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, why string) error {
	f.Rejected, f.RetryAt = why, f.Now.Add(previews.RejectedInterval)
	if r.lastObserved(apply).Reject(*f.request(), why, f.Now) {
		ctrl.LoggerFrom(ctx).Error(errors.New(why), "The Workspace is not as it was written", "Workspace", klog.KRef(apply.Namespace, f.Name))
	}
	return waitForRetry(f)
}

// rewritten is what admission changed in the Workspace. Terraform may run with it.
func rewritten(f *Facts) string {
	var fields []string
	for _, change := range f.Rendered.Changes(f.Live.Unstructured) {
		fields = append(fields, change.Field)
	}
	if len(fields) == 0 {
		fields = []string{"metadata"}
	}
	return fmt.Sprintf("the API server stored another value of %s of Workspace %s than CAPT wrote, and Terraform may run with it: a mutating webhook or policy of this management cluster changes Workspaces "+
		"(kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies). Exclude those of CAPT from it", strings.Join(fields, ", "), f.Name)
}

// protect sets the finalizer, spec.workspaceName and the annotations, in one patch.
func (r *Reconciler) protect(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	return engine.Patch(ctx, r.Client, apply, func() {
		controllerutil.AddFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer)
		apply.Spec.WorkspaceName = f.Name
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, clusterctlv1.BlockMoveAnnotation, f.MoveBlock)
		if f.StateRecord != "" {
			metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.TerraformStateAnnotation, f.StateRecord)
		} else {
			delete(apply.Annotations, naming.TerraformStateAnnotation)
		}
		// An object that is restored without its Workspace gets a new one, which is its own.
		if name := f.desired().ExternalName(); apply.Annotations[naming.ExternalNameAnnotation] != name || f.Live == nil {
			metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ExternalNameAnnotation, name)
			metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ExternalNameUIDAnnotation, string(apply.UID))
		}
	})
}

// release removes the finalizers without destroying the Workspace, and reports as an event what is left and why.
func (r *Reconciler) release(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	held := false
	err := engine.Patch(ctx, r.Client, apply, func() {
		for _, finalizer := range append([]string{infrav1.WorkspaceTemplateApplyFinalizer}, f.GateDecision.Finalizers...) {
			held = controllerutil.RemoveFinalizer(apply, finalizer) || held
		}
	})
	switch {
	case err != nil:
		return err
	case !held:
	case f.Restored && !retained(apply):
		r.Recorder.Eventf(apply, nil, corev1.EventTypeWarning, "WorkspaceLeft", "Delete",
			"Workspace %s and its cloud resources (Terraform state %s) are kept: this object is a restored copy, and was deleted before it was recorded as their owner. "+
				"Recreate the object without metadata.ownerReferences, or with owners that exist; to destroy the resources, delete the Workspace",
			f.Name, apply.Annotations[naming.ExternalNameAnnotation])
	case f.Live == nil:
	case !f.owned() && !retained(apply):
		r.Recorder.Eventf(apply, nil, corev1.EventTypeWarning, "WorkspaceLeft", "Delete",
			"Workspace %s is kept: it is not recorded for this object. To destroy its cloud resources, delete the Workspace", f.Name)
	default:
		r.Recorder.Eventf(apply, nil, corev1.EventTypeNormal, "WorkspaceRetained", "Delete", "Workspace %s and its cloud resources are kept: spec.deletionPolicy is Retain", f.Name)
	}
	return nil
}
