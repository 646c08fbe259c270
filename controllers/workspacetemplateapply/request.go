// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/plans"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

// A PlanRequest is served only while no other preview of the object is wanted. Its result is in status.plans, and nothing depends on that.

// restTimeout is how long a PlanRequest waits for an object that is not at rest.
const restTimeout = 10 * time.Minute

// opensOrEnds passes what changes the PlanRequests that are served: creation, completion and deletion.
func opensOrEnds() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.(*infrav1.PlanRequest).IsComplete() != e.ObjectNew.(*infrav1.PlanRequest).IsComplete()
	}}
}

// ofRequest reconciles the WorkspaceTemplateApplies that a PlanRequest is about.
func (r *Reconciler) ofRequest(ctx context.Context, object client.Object) []ctrl.Request {
	request := object.(*infrav1.PlanRequest)
	switch template := request.TemplateKey(); {
	case template.Name != "":
		return r.requests(ctx, client.MatchingFields{workspacetemplate.UserIndex: template.String()})
	case request.Spec.Scope == infrav1.PlanScopeNamespace:
		return r.requests(ctx, client.InNamespace(request.Namespace))
	}
	var keys []client.ObjectKey
	for _, name := range request.Spec.WorkspaceTemplateApplies {
		keys = append(keys, client.ObjectKey{Namespace: request.Namespace, Name: name})
	}
	return requestsOf(keys)
}

// observeRequest finds the PlanRequest that is planned for now, and renders what it is about.
func (r *Reconciler) observeRequest(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if !apply.DeletionTimestamp.IsZero() || f.GateDecision.Proof != "" || f.Preview.IsWanted() && !f.Preview.IsCheck {
		return nil
	}
	for _, key := range plans.KeysFor(apply) {
		var list infrav1.PlanRequestList
		if err := r.Client.List(ctx, &list, client.MatchingFields{plans.Index: key}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing PlanRequests: %w", err)
		}
		f.Requests = append(f.Requests, list.Items...)
	}
	if f.Request = plans.Next(f.Requests, apply); f.Request == nil {
		return nil
	}
	f.Requested = previews.Facts{Now: f.Now, Requested: f.Request.CreationTimestamp.Time, Live: f.Preview.Live}
	q := &f.Requested
	wanted, err := r.renderRequested(apply, f)
	if err != nil || wanted == nil || q.Assumed != "" {
		return err
	}
	q.Wanted, q.Ready = wanted, true
	return r.previews().Observe(ctx, apply, f.Live, q)
}

// renderRequested renders the preview of a PlanRequest. It is nil while the object is not at rest, and if none is possible.
func (r *Reconciler) renderRequested(apply *infrav1.WorkspaceTemplateApply, f *Facts) (*render.Rendered, error) {
	q, o := &f.Requested, f.observationForPreview()
	q.Revision = cmp.Or(apply.Status.WrittenTemplateRevision, f.Revision, f.CurrentRevision, "unknown")
	var rendered *render.Rendered
	q.Assumed, q.Message = f.unplannable()
	if q.Assumed == "" && f.Request.Spec.Template.Name != "" && f.LookupError == nil {
		template := validation.PlannedTemplate(f.Request, cmp.Or(f.Current, f.Template))
		content, errs := r.render(apply, f, template)
		q.Assumed, q.Message = f.refusedRevision(apply, template, content, errs)
		q.Revision, rendered = rollout.HashOf(template), content
	}
	if q.Assumed == "" {
		q.Assumed, q.Message = f.assumedPlan()
	}
	ready := o.UpToDate && f.LookupError == nil
	switch {
	case q.Assumed != "":
	case !ready && f.Now.Sub(q.Requested) >= restTimeout:
		q.Assumed, q.Message = infrav1.PreviewUnavailable, cmp.Or(o.Message, "the Workspace is not up to date, or its template or dependencies cannot be read: see its conditions")
	case ready && rendered == nil:
		return render.PreviewOf(f.Live.Unstructured, apply)
	case ready:
		return rendered.Preview(f.Live.Unstructured, apply)
	}
	return nil, nil
}

// unplannable returns why nothing can be planned for the object; empty if it can.
func (f *Facts) unplannable() (infrav1.PreviewResult, string) {
	conflict, why := firstConflict(f), ""
	switch {
	case f.Block != nil:
		why = f.Block.Message
	case f.Paused != "":
		why = "paused: " + f.Paused
	case conflict != nil:
		why = conflict.Message
	case !f.owned():
		why = "Workspace " + f.Name + " does not exist, or does not belong to this object"
	case f.Request.Spec.Template.Name != "" && f.Template == nil && f.LookupError == nil:
		why = fmt.Sprintf("WorkspaceTemplate %s does not exist, or does not allow the namespace of this object", f.TemplateKey)
	default:
		if o := f.observationAsWritten(); o.Reason == infrav1.WorkspacePausedReason || o.Reason == infrav1.StateNotSavedReason {
			why = o.Message
		}
	}
	if why == "" {
		return "", ""
	}
	return infrav1.PreviewUnavailable, why
}

// decideRequest decides about the preview of a PlanRequest.
func (f *Facts) decideRequest() previews.Decision {
	d := previews.Decide(&f.Requested)
	if d.Result == nil && !f.Requested.Ready {
		d.After = max(f.Requested.Requested.Add(restTimeout).Sub(f.Now), time.Second)
	}
	return d
}

func recordRequested(apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan) {
	if f.Request == nil {
		return
	}
	if result := p.Requested.Recorded(&f.Requested); result != nil {
		plans.Record(apply, f.Requests, f.Request, result)
	}
}
