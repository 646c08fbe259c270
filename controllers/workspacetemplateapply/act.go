// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
)

// ownersInterval is how often to look for the owners of a restored object.
const ownersInterval = time.Minute

// servedInterval is how often to look whether a CRD that is installed is served: nothing tells.
const servedInterval = 5 * time.Second

func (r *Reconciler) act(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	r.tellReplaced(apply, f)
	action, err := r.inTurn(ctx, apply, f, decide(apply, f))
	if err != nil {
		return err
	}
	if action != Update {
		r.Turns.giveUp(client.ObjectKeyFromObject(apply), f.Now)
	}
	err = r.carryOut(ctx, apply, f, action)
	r.acted(apply, f, action, err)
	if err == nil && f.Unreadable != nil && action == Observe && f.Unadopted == "" {
		return f.Unreadable // Status tells what is known, and the look is taken again.
	}
	return err
}

func (r *Reconciler) carryOut(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, action Action) error {
	switch action {
	case Create:
		return r.create(ctx, apply, f)
	case Update:
		return r.update(ctx, apply, f)
	case Restore:
		return r.restore(ctx, apply, f)
	case Hold:
		return r.prepare(ctx, apply, f)
	case LetMove:
		return engine.Patch(ctx, r.Client, apply, func() { delete(apply.Annotations, clusterctlv1.BlockMoveAnnotation) })
	case AwaitKind:
		return awaitKind(f)
	case Destroy:
		ctrl.LoggerFrom(ctx).Info("Deleting Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name))
		return r.Workspaces.Delete(ctx, f.Live)
	case Release:
		return r.release(ctx, apply, f)
	case Observe:
		return await(f)
	case AwaitDestroyed, AwaitTurn:
	}
	return nil
}

// await waits for what no watch reports, when there is nothing to write.
func await(f *Facts) error {
	switch {
	case f.OwnerMissing != "": // No watch reports other kinds, or that an owner got another owner.
		return engine.Wait("the owners of this object", ownersInterval)
	case f.Rejected != "":
		return awaitAccepted(f)
	}
	if after := f.Observation().LookAgain; after > 0 {
		return engine.Wait("provider-terraform to claim the Workspace", after)
	}
	return nil
}

// awaitAccepted waits until a refused Workspace is sent again. What makes the API server accept it is not watched.
func awaitAccepted(f *Facts) error {
	return engine.Wait("something to change that makes the API server accept the Workspace", f.RejectedFor)
}

// awaitKind waits for provider-terraform to be installed. The definition of the kind is watched.
func awaitKind(f *Facts) error {
	if f.KindNotServed {
		return engine.Wait("the API server to serve the Workspace kind", servedInterval)
	}
	return nil
}

// tellReplaced tells once that somebody made the Workspace anew, claim and all, as from a backup. Its state is found by the
// external name, so that Terraform goes on where it was.
func (r *Reconciler) tellReplaced(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	before := apply.Status.WorkspaceRef
	if !apply.DeletionTimestamp.IsZero() || !f.owned() || before == nil || before.UID == "" || before.UID == f.Live.UID() {
		return
	}
	r.Recorder.Eventf(apply, nil, corev1.EventTypeWarning, infrav1.WorkspaceReplacedReason, "Observe",
		"Workspace %s is another one than before: it was deleted and made anew (UID %s, now %s)", f.Name, before.UID, f.Live.UID())
}

// create writes down which Workspace is ours, and only then makes it: whatever happens between the two, the Workspace is
// found again.
func (r *Reconciler) create(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if err := r.prepare(ctx, apply, f); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Creating Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name), "revision", f.Rendered.Revision)
	live, err := r.Workspaces.Create(ctx, apply, f.Rendered)
	return r.written(ctx, apply, f, live, err)
}

func (r *Reconciler) update(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if wait := r.Turns.wait(client.ObjectKeyFromObject(apply), f.Now); wait > 0 {
		return engine.Wait("its turn, so that the users of a template are not all changed at once", wait)
	}
	if err := r.prepare(ctx, apply, f); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Updating Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name), "revision", f.Rendered.Revision)
	live, err := r.Workspaces.Update(ctx, f.Live, f.Rendered)
	if err == nil {
		f.LastUpdate = live.Update()
	}
	return r.written(ctx, apply, f, live, err)
}

// restore restores the managedFields of a Workspace that is as it was rendered. Terraform has nothing to do, so that neither its
// turn nor the last update matter.
func (r *Reconciler) restore(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	ctrl.LoggerFrom(ctx).Info("Restoring the managedFields of the Workspace", "Workspace", klog.KRef(apply.Namespace, f.Name))
	live, err := r.Workspaces.Restore(ctx, f.Live, f.Rendered)
	return r.written(ctx, apply, f, live, err)
}

// written adds what became of a write to the facts. A refused Workspace is reported in status, and sent again when something
// changes, or after refusedInterval. Only the first of equal refusals is logged.
func (r *Reconciler) written(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, live *workspace.Live, err error) error {
	var rejected *workspace.RejectedError
	switch {
	case errors.As(err, &rejected):
		f.Rejected, f.RejectedFor = rejection(rejected), refusedInterval
		if r.refuse(apply, f, f.Rejected) {
			ctrl.LoggerFrom(ctx).Error(err, "The API server refused the Workspace")
		}
		return awaitAccepted(f)
	case errors.Is(err, workspace.ErrKindMissing):
		f.kindMissing(err)
		return awaitKind(f)
	case err != nil:
		f.NotWritten = err
		return err
	}
	f.Live, f.Ownership = live, live.Owner(apply, f.Rendered)
	return nil
}

// prepare sets the finalizer, spec.workspaceName and what keeps clusterctl from moving the object, in one patch. The finalizer of
// CAPT v0.3 stays until the object is released: after a rollback it shows that the object has a Workspace.
func (r *Reconciler) prepare(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	return engine.Patch(ctx, r.Client, apply, func() {
		controllerutil.AddFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer)
		apply.Spec.WorkspaceName = f.Name
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, clusterctlv1.BlockMoveAnnotation, f.Block)
		if name := f.externalName(); apply.Annotations[naming.ExternalNameAnnotation] != name {
			metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ExternalNameAnnotation, name)
			metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.NotedByAnnotation, string(apply.UID))
		}
	})
}

func (r *Reconciler) release(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	held := false
	err := engine.Patch(ctx, r.Client, apply, func() {
		ours := controllerutil.RemoveFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer)
		older := controllerutil.RemoveFinalizer(apply, infrav1.LegacyWorkspaceTemplateApplyFinalizer)
		held = ours || older
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
			"Workspace %s (UID %s) is kept: it is not recorded for this object. To destroy its cloud resources, delete the Workspace", f.Name, f.Live.UID())
	default:
		r.Recorder.Eventf(apply, nil, corev1.EventTypeNormal, "WorkspaceRetained", "Delete", "Workspace %s and what it made are left as they are", f.Name)
	}
	return nil
}
