// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package previews runs the previews of staged rollouts, of changes of single objects, and as proofs: a second Workspace with the state and the new content of the one of a
// WorkspaceTemplateApply, which may only observe. It shows whether Terraform would change anything.
package previews

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/workspace"
)

// previewTimeout is how long a preview may take. Otherwise, a plan that never ends would keep its slot.
const previewTimeout = 10 * time.Minute

// RejectedInterval is how often what the API server rejected is sent again without a change: the CRD, or an admission rule of the cluster, may have
// changed.
const RejectedInterval = 10 * time.Minute

// Step is what a reconcile does about a preview.
type Step string

const (
	// None: nothing to write.
	None Step = ""
	// Create the preview, when a slot is free.
	Create Step = "Create"
	// Replan: make the provider plan again.
	Replan Step = "Replan"
	// Delete the preview. If the provider may do more than observe it, that is reverted first.
	Delete Step = "Delete"
	// Exchange: delete the preview, to create it in its other form. With a log, the provider does not keep the error of a plan that fails.
	Exchange Step = "Exchange"
)

// Facts of a WorkspaceTemplateApply about its preview, and the results of its writes.
type Facts struct {
	Now time.Time
	// Requested is when a user requested the plan: an older preview does not show it. It is zero for all other previews, which, except for checks, get slots first.
	Requested time.Time
	// Revision is the revision of the template to preview; empty when no preview is wanted. The preview of a change of spec has the revision that the
	// object has.
	Revision string
	// Proof is the request for a proof that the preview answers; empty without one.
	Proof string
	// OfState is true when the object has no Workspace yet: the plan is of the state that it would take over.
	OfState bool
	// IsCheck is true when the content that Terraform has applied is planned once more. The result is not recorded.
	IsCheck bool
	// Assigned is true when the object already has the revision, and nothing else changes.
	Assigned bool
	// Ready is true while the Workspace is at rest. Otherwise the plan would be about a state that changes.
	Ready bool
	// Assumed is a result that needs no preview, with its message; empty when one is needed.
	Assumed infrav1.PreviewResult
	Message string
	// Wanted is the preview. It is nil if the object has the revision, or no preview is possible.
	Wanted *render.Rendered
	// Live is the preview that exists; nil when there is none. Failure is its error.
	Live    *workspace.Live
	Failure failure.Report
	// Exchanged is how often the preview was replaced by its other form.
	Exchanged int
	// Changes are what Terraform would change, or why that is not known; nil while the log is still to be read.
	Changes *infrav1.PlannedChanges
	// Recorded is the last result.
	Recorded *infrav1.RevisionPreview
	// Rejected is why the API server rejected the preview.
	Rejected string
	// Queued is true when the preview waits for a slot, and QueuedFor is when to try again without an event.
	Queued    bool
	QueuedFor time.Duration
}

// Decision is what happens with a preview.
type Decision struct {
	Step Step
	// Result is the one to record; nil for none.
	Result *infrav1.RevisionPreview
	// AwaitsPlan is true when only Changes are missing for a result.
	AwaitsPlan bool
	// After is when to decide again; zero if an event reports it.
	After time.Duration
}

// Decide is pure. A preview is deleted in the reconcile after the one that recorded its result.
func Decide(f *Facts) Decision {
	d := Decision{Result: f.recorded()}
	fresh, left := f.isFresh(d.Result)
	switch {
	case f.Revision == "", f.Assigned:
	case f.Assumed != "":
		if d.Result == nil || d.Result.Result != f.Assumed || d.Result.Message != truncated(f.Message) {
			d.Result = f.result(f.Assumed, f.Message)
		}
	case fresh:
		d.After = left
	case f.IsWanted():
		f.decide(&d)
		return d
	}
	if f.mustDelete() {
		d.Step = Delete
	}
	return d
}

// IsWanted reports whether the object needs its preview now.
func (f *Facts) IsWanted() bool {
	fresh, _ := f.isFresh(f.recorded())
	return f.Revision != "" && !f.Assigned && f.Assumed == "" && !fresh && f.Ready && f.Wanted != nil
}

// decide decides about a preview that is wanted.
func (f *Facts) decide(d *Decision) {
	if f.Live == nil {
		d.Step = Create
		return
	}
	name := f.Live.GetName()
	same, unchanged := f.Live.Previews(f.Wanted)
	switch {
	case !f.isOurs():
		d.Result = f.result(infrav1.PreviewUnavailable, fmt.Sprintf("Workspace %s exists, and CAPT did not create it as a preview. Delete it if it is not used", name))
	case f.Live.Deleting() && f.Live.OnlyObserves():
		f.limit(d, f.Live.DeletedAt(), fmt.Sprintf("preview %s of an earlier content is being deleted, and still has finalizers", name))
	case !same, f.Live.GetCreationTimestamp().Time.Before(f.Requested):
		d.Step = Delete
	case !unchanged:
		d.Result = f.result(infrav1.PreviewUnavailable, fmt.Sprintf("preview %s was changed by another client", name))
		if !f.Live.OnlyObserves() { // The provider could apply the content.
			d.Step = Delete
		}
	default:
		f.decideAsObserved(d)
	}
}

// decideAsObserved decides about a preview with the wanted content. When the plan with a log fails, the form is exchanged for the error, back once if
// the cause was transient, and then only for another error. After a restart of the manager, a form without a log counts as the last one.
func (f *Facts) decideAsObserved(d *Decision) {
	seen := workspace.ObservePreview(f.Live, f.Now, f.Failure)
	d.After = seen.RequeueAfter
	isChanges := seen.Result == infrav1.PreviewChanges
	switch {
	case seen.NoText, isChanges && !f.Live.LogsPlan() && f.Exchanged == 1:
		d.Step = Exchange
		return
	case isChanges && f.Changes == nil:
		d.AwaitsPlan, d.After = true, planInterval
		return
	case seen.Result != "":
		if d.Result = f.result(seen.Result, seen.Message); isChanges {
			d.Result.Changes = f.Changes
		}
		return
	case seen.Replan:
		d.Step = Replan
	}
	f.limit(d, f.Live.GetCreationTimestamp().Time, cmp.Or(f.Failure.Message, "provider-terraform did not plan it. Check that it runs, and what it is busy with (flag --max-reconcile-rate)"))
}

// limit ends the wait for a result previewTimeout after it began. The wait for a proof ends with captctl, which withdraws the request.
func (f *Facts) limit(d *Decision, since time.Time, why string) {
	if f.Proof != "" && !f.OfState {
		return
	}
	left := since.Add(previewTimeout).Sub(f.Now)
	if left <= 0 {
		d.Step, d.Result = None, f.result(infrav1.PreviewUnavailable, fmt.Sprintf("no result within %s: %s", duration.HumanDuration(previewTimeout), why))
		return
	}
	if d.After == 0 || left < d.After {
		d.After = left
	}
}

// mustDelete reports whether a preview that is not wanted is still to be deleted, or to be reverted while it is being deleted.
func (f *Facts) mustDelete() bool {
	return f.Live != nil && f.isOurs() && (!f.Live.Deleting() || !f.Live.OnlyObserves())
}

// isOurs reports whether the live Workspace is a preview. Another one must not be deleted.
func (f *Facts) isOurs() bool { return naming.IsPreview(f.Live) && !f.Live.Claimed() }

func (f *Facts) result(result infrav1.PreviewResult, message string) *infrav1.RevisionPreview {
	r := &infrav1.RevisionPreview{TemplateRevision: f.Revision, Proof: f.Proof, Result: result, Message: truncated(message), CompletionTime: ptr.To(metav1.NewTime(f.Now))}
	if f.Wanted != nil {
		r.RenderedRevision = f.Wanted.Revision
	}
	return r
}

// truncated limits a message: a content of a user can have any number of errors, and the API server rejects a status with a longer one.
func truncated(message string) string { return failure.Truncate(message, maxMessage) }

// recorded returns the last result if it is about the revision and, before that is assigned, about the content of the Workspace.
func (f *Facts) recorded() *infrav1.RevisionPreview {
	switch r := f.Recorded; {
	case r == nil, r.TemplateRevision != f.Revision, r.Proof != f.Proof:
		return nil
	case f.Wanted != nil && r.RenderedRevision != f.Wanted.Revision:
		return nil
	}
	return f.Recorded
}

// isFresh reports whether a result is final, or recent enough, and for how much longer. A plan that failed is repeated after a while: its cause
// may have been removed.
func (f *Facts) isFresh(r *infrav1.RevisionPreview) (bool, time.Duration) {
	if r == nil {
		return false, 0
	}
	switch r.Result {
	case infrav1.PreviewFailed, infrav1.PreviewUnavailable:
		left := ptr.Deref(r.CompletionTime, metav1.Time{}).Add(RejectedInterval).Sub(f.Now)
		return left > 0, max(0, left)
	case infrav1.PreviewEmpty, infrav1.PreviewChanges:
	}
	return true, 0
}

// Recorded returns the result to record after the writes.
func (d Decision) Recorded(f *Facts) *infrav1.RevisionPreview {
	if f.Rejected != "" {
		return f.result(infrav1.PreviewUnavailable, "the preview was rejected: "+f.Rejected)
	}
	return d.Result
}

// Wait returns when to reconcile again, unless the reconcile ended with an error.
func (d Decision) Wait(f *Facts, err error) error {
	after := d.After
	switch {
	case f.Queued:
		after = f.QueuedFor
	case f.Rejected != "":
		after = RejectedInterval
	}
	if err != nil || after <= 0 {
		return err
	}
	return engine.Wait("the preview", after)
}

// Runner reads and writes previews.
type Runner struct {
	Workspaces *workspace.Client
	Slots      *Slots
	// Strays are the names of previews that are not named as those of this version and for the UID of their object, by object.
	Strays *sync.Map
	// Plans reads what Terraform would change; nil if this manager does not read it.
	Plans PlanReader
	// Metrics may be nil.
	Metrics *metrics.Plans
}

// Report is called for an event of a preview of a WorkspaceTemplateApply.
func (r Runner) Report(preview client.Object, apply *infrav1.WorkspaceTemplateApply) {
	scope := terraform.ScopeNamespaced
	if preview.GetNamespace() == "" {
		scope = terraform.ScopeCluster
	}
	if name := preview.GetName(); name != naming.PreviewWorkspace(scope, apply) && preview.GetAnnotations()[naming.ClaimAnnotation] == "" {
		r.Strays.Store(client.ObjectKeyFromObject(apply), name)
	}
}

// Live returns the preview of a WorkspaceTemplateApply, nil when there is none. One with another name is returned first, and deleted. It has the scope of the recorded Workspace. After a rollback, which
// removes that record, it has the scope of the Workspace that exists. That of an object which takes a state over has the scope of its template, if that may exist.
func (r Runner) Live(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, of *workspace.Live, ofTemplate terraform.Scope) (*workspace.Live, error) {
	scope, ok := apply.Status.WorkspaceRef.Scope()
	switch {
	case of == nil && ofTemplate != "":
		scope = ofTemplate
	case ok:
	case of != nil:
		scope = of.Scope()
	case claim.RecordsWorkspace(apply): // A record without a reference is of a cluster-wide Workspace.
		scope = terraform.ScopeCluster
	default:
		return nil, nil
	}
	if stray, ok := r.Strays.Load(client.ObjectKeyFromObject(apply)); ok {
		live, err := r.Workspaces.Get(ctx, scope, apply.Namespace, stray.(string)) //nolint:forcetypeassert // Only Report stores it.
		if live != nil {
			return live, err
		}
		r.Strays.Delete(client.ObjectKeyFromObject(apply))
	}
	live, err := r.Workspaces.Get(ctx, scope, apply.Namespace, naming.PreviewWorkspace(scope, apply))
	if errors.Is(err, workspace.ErrKindMissing) {
		return nil, nil
	}
	return live, err
}

// Act carries a decision out. A preview that the API server rejects is a result.
func (r Runner) Act(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, d Decision) error {
	switch key := client.ObjectKeyFromObject(apply); {
	case f.Live == nil && d.Step != Create:
		r.Slots.Release(key, f.Now)
	case f.Live != nil && f.isOurs():
		r.Slots.Hold(key, apply.TemplateKey().String(), f.Live.GetCreationTimestamp().Time, f.Now)
	}
	switch d.Step {
	case Create:
		return r.create(ctx, apply, f)
	case Replan:
		return r.Workspaces.Replan(ctx, f.Live, f.Now)
	case Delete:
		return r.Workspaces.DeletePreview(ctx, f.Live)
	case Exchange:
		if err := r.Workspaces.DeletePreview(ctx, f.Live); err != nil {
			return err
		}
		r.Slots.Exchange(client.ObjectKeyFromObject(apply), f.Wanted.Revision, f.Live.GetUID())
	case None:
	}
	return nil
}

func (r Runner) create(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	key := client.ObjectKeyFromObject(apply)
	take := r.Slots.Take
	if !f.Requested.IsZero() || f.IsCheck { // Neither a rollout nor a change waits for it.
		take = r.Slots.TakeRequested
	}
	wait, err := take(key, apply.TemplateKey().String(), f.Now, func() ([]client.ObjectKey, error) {
		scope := workspace.ScopeOf(f.Wanted.Object) // Those of the other scope have slots, if this process reconciles their objects.
		return r.Workspaces.Previews(ctx, scope, f.Now.Add(-slotTimeout))
	})
	if err != nil {
		return err
	}
	if f.Queued, f.QueuedFor = wait > 0, wait; f.Queued {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Creating preview", "Workspace", klog.KObj(f.Wanted.Object), "templateRevision", f.Revision)
	form := f.Wanted
	if r.Plans != nil && f.Exchanged%2 == 0 {
		form = f.Wanted.WithLog()
	}
	err = r.Workspaces.CreatePreview(ctx, apply, form)
	var rejected *workspace.RejectedError
	if errors.As(err, &rejected) && form != f.Wanted { // The CRD may not have the field.
		err = r.Workspaces.CreatePreview(ctx, apply, f.Wanted)
	}
	if errors.As(err, &rejected) {
		f.Rejected = rejected.Error()
		r.Slots.Release(key, f.Now)
		return nil
	}
	return err
}
