// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
)

type stagedFacts struct {
	// History has the stored revisions.
	History rollout.History
	// Users are sorted.
	Users []rollout.User
	Now   time.Time
	// NotStored is why the revision cannot be stored: another client changed, or created, what has its name.
	NotStored string
}

type stagedPlan struct {
	rollout.Decision
	// Revision is the one to roll out; Write is true if it has to be stored.
	Revision rollout.Revision
	Write    bool
	// Copied are other revisions, which have no owner yet.
	Copied []rollout.Revision
	// Obsolete are the ControllerRevisions to delete.
	Obsolete []string
	// At is the time of the facts.
	At time.Time
}

// observeRollout reads the revisions of a template with a staged rollout, and what the rollout depends on. Templates without one read nothing.
func (r *Reconciler) observeRollout(ctx context.Context, template *infrav1.WorkspaceTemplate, users []*infrav1.WorkspaceTemplateApply, f *Facts) error {
	for _, user := range users {
		if user.Spec.TemplateRevision != "" && user.DeletionTimestamp.IsZero() && !rollout.UserOf(user, nil).Paused {
			f.Assigned = append(f.Assigned, client.ObjectKeyFromObject(user))
		}
	}
	if !f.Policy.IsStaged() || f.Block != nil || !template.DeletionTimestamp.IsZero() {
		return nil
	}
	revisions, err := listRevisions(ctx, r.Client, template.Namespace)
	if err != nil {
		return err
	}
	history := rollout.HistoryOf(template, revisions)
	f.Staged = &stagedFacts{History: history, Now: r.Clock.Now()}
	f.Staged.Users, err = rollout.UsersOf(users, history.With(history.Record(template)), func(user *infrav1.WorkspaceTemplateApply) (labels.Set, error) {
		if f.Policy.Canary.Selector == nil {
			return nil, nil
		}
		return r.clusterLabels(ctx, user)
	})
	r.observeAssignments(template, f.Staged)
	return err
}

// assignments has since when this process has seen that users are assigned a revision, while no manager has recorded it in their status.
// It also has the assignments that the API server refused, and the result of the last check.
type assignments struct {
	checked checked
	since   map[types.NamespacedName]seenAssignment
	refused map[types.NamespacedName]refusedAssignments
}

// refusedAssignments are the revisions that an object with a resource version cannot be assigned.
type refusedAssignments struct {
	resourceVersion string
	revisions       []string
}

type seenAssignment struct {
	revision string
	at       time.Time
}

// observeAssignments adds refused assignments, and the times of assignments that are not recorded. Usually that is a matter of seconds, but a user may
// have excluded an object from all managers.
func (r *Reconciler) observeAssignments(template *infrav1.WorkspaceTemplate, f *stagedFacts) {
	state := engine.StateOf[assignments](r.State, client.ObjectKeyFromObject(template))
	seen, refused := map[types.NamespacedName]seenAssignment{}, map[types.NamespacedName]refusedAssignments{}
	for i := range f.Users {
		u := &f.Users[i]
		if before := state.refused[u.Key]; len(before.revisions) > 0 && before.resourceVersion == u.ResourceVersion {
			refused[u.Key], u.Refused = before, before.revisions
		}
		if u.Assigned == "" || !u.AssignedAt.IsZero() {
			continue
		}
		before := state.since[u.Key]
		if before.revision != u.Assigned {
			before = seenAssignment{u.Assigned, f.Now}
		}
		seen[u.Key], u.AssignedAt = before, before.at
	}
	state.since, state.refused = seen, refused
}

// clusterLabels returns the labels of the Cluster of a user; nil without a Cluster.
func (r *Reconciler) clusterLabels(ctx context.Context, user *infrav1.WorkspaceTemplateApply) (labels.Set, error) {
	name := user.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil, nil
	}
	cluster, err := engine.Get(ctx, r.Client, client.ObjectKey{Namespace: user.Namespace, Name: name}, &clusterv1.Cluster{})
	if err != nil || cluster == nil {
		return nil, err
	}
	return cluster.Labels, nil
}

func planStaged(template *infrav1.WorkspaceTemplate, facts *Facts) *stagedPlan {
	f := facts.Staged
	revision := f.History.Record(template)
	found := f.History.Find(revision.Hash)
	history := f.History.With(revision)
	p := &stagedPlan{
		Decision: rollout.Next(rollout.FactsOf(template, facts.Policy, history, f.Users, f.Now)), Obsolete: history.Obsolete(f.Users), At: f.Now,
		Write: found == nil || found.Number != revision.Number || found.RolledOut != revision.RolledOut || found.Approval != revision.Approval || found.Copied,
	}
	for _, other := range f.History {
		if other.Copied && other.Hash != revision.Hash {
			other.Copied = false
			p.Copied = append(p.Copied, other)
		}
	}
	if p.RolledOut && !revision.RolledOut {
		revision.RolledOut, p.Write = true, true
	}
	p.Revision = revision
	return p
}

// rollOut stores the revision, and then assigns it: a user must never be assigned a revision that is not stored. Without a staged rollout, it
// removes the assignments of an earlier one.
func (r *Reconciler) rollOut(ctx context.Context, template *infrav1.WorkspaceTemplate, f *Facts, p Plan) error {
	var errs []error // An object that cannot be written must not stop the others.
	for _, user := range p.Unassign {
		errs = append(errs, r.assign(ctx, user, ""))
	}
	if p.Staged == nil {
		return errors.Join(errs...)
	}
	write := p.Staged.Copied
	if p.Staged.Write {
		write = append(write, p.Staged.Revision)
	}
	for _, revision := range write {
		if err := r.store(ctx, template, revision, f.Staged); err != nil {
			return err
		}
	}
	for _, assignment := range p.Staged.Assign {
		err := r.assign(ctx, assignment.User, assignment.Revision)
		r.recordRefusal(template, f.Staged, assignment, err)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range p.Staged.Obsolete {
		object := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: template.Namespace, Name: name}}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("deleting ControllerRevision %s: %w", object.Name, err)
		}
	}
	if at := p.Staged.CheckAt(); !at.IsZero() {
		return engine.Wait("a deadline of the rollout", at.Sub(p.Staged.At))
	}
	return nil
}

// recordRefusal records that an object cannot be assigned a revision as it is. The next reconcile counts it as failed, and selects others. A missing
// right of the manager is not the fault of the object, and is retried.
func (r *Reconciler) recordRefusal(template *infrav1.WorkspaceTemplate, f *stagedFacts, assignment rollout.Assignment, err error) {
	if !engine.IsRefusal(err) || apierrors.IsForbidden(err) {
		return
	}
	state := engine.StateOf[assignments](r.State, client.ObjectKeyFromObject(template))
	for i := range f.Users {
		if u := &f.Users[i]; u.Key == assignment.User {
			state.refused[u.Key] = refusedAssignments{u.ResourceVersion, append(slices.Clone(state.refused[u.Key].revisions), assignment.Revision)}
		}
	}
}

// store creates the ControllerRevision of a revision, or gives it its new number.
func (r *Reconciler) store(ctx context.Context, template *infrav1.WorkspaceTemplate, revision rollout.Revision, f *stagedFacts) error {
	object, err := revision.Object(template)
	if err != nil {
		return err
	}
	stored := f.History.Find(revision.Hash)
	if stored == nil {
		ctrl.LoggerFrom(ctx).Info("Storing revision", "ControllerRevision", klog.KObj(object), "number", revision.Number)
		err := r.Client.Create(ctx, object, client.FieldOwner(naming.RolloutFieldManager))
		if apierrors.IsAlreadyExists(err) {
			return r.checkStored(ctx, template, object, f)
		}
		if err != nil {
			return fmt.Errorf("creating ControllerRevision %s: %w", object.Name, err)
		}
		return nil
	}
	before, err := stored.Object(template)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, object, client.MergeFrom(before), client.FieldOwner(naming.RolloutFieldManager)); err != nil {
		return fmt.Errorf("writing ControllerRevision %s: %w", object.Name, err)
	}
	return nil
}

// checkStored finds out why a ControllerRevision exists although it is not in the history. An earlier reconcile, or another manager, created it, and its event
// follows. Otherwise no event may report that a user has corrected it, because the cache has only those with the label.
func (r *Reconciler) checkStored(ctx context.Context, template *infrav1.WorkspaceTemplate, object *appsv1.ControllerRevision, f *stagedFacts) error {
	live, err := engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(object), &appsv1.ControllerRevision{})
	if err != nil {
		return fmt.Errorf("reading ControllerRevision %s: %w", object.Name, err)
	}
	if live != nil {
		f.NotStored = rollout.WhyNotInHistory(template, live)
	}
	if f.NotStored == "" {
		return engine.Wait("the cache to have ControllerRevision "+object.Name, countingDelay)
	}
	return fmt.Errorf("storing the revision: %s", f.NotStored)
}

// assign sets spec.templateRevision of a user; empty removes it. A patch of this one field works whatever the cache has, and leaves the fields of
// other owners alone.
func (r *Reconciler) assign(ctx context.Context, user types.NamespacedName, revision string) error {
	ctrl.LoggerFrom(ctx).Info("Assigning revision", "WorkspaceTemplateApply", klog.KRef(user.Namespace, user.Name), "revision", revision)
	var value any
	if revision != "" {
		value = revision
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"templateRevision": value}})
	if err != nil {
		return err
	}
	object := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: user.Namespace, Name: user.Name}}
	err = r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(naming.RolloutFieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("assigning revision %q to WorkspaceTemplateApply %s: %w", revision, user, err)
	}
	return nil
}

// rolloutStatus returns the status of a staged rollout. The time at which it started is kept for the same revision.
func rolloutStatus(template *infrav1.WorkspaceTemplate, policy infrav1.WorkspaceTemplateRollout, p *stagedPlan) (s infrav1.WorkspaceTemplateRolloutStatus) {
	if p == nil {
		return s
	}
	before := template.Status.Rollout
	count := func(users []string) *int32 { return ptr.To(int32(len(users))) } //nolint:gosec // No cluster holds 2^31 objects.
	s = infrav1.WorkspaceTemplateRolloutStatus{
		Revision: p.Revision.Hash, Number: p.Revision.Number, Stage: p.Stage,
		Current: count(p.Current), Updating: count(p.Updating), Waiting: count(p.Waiting), Failed: count(p.Failed),
		Stalled: count(p.Stalled), LeftBehind: count(p.LeftBehind), StartTime: before.StartTime,
	}
	if policy.IsPreviewed() {
		s.PreviewedEmpty, s.PreviewedChanges, s.PreviewedDestroy = count(p.PreviewedEmpty), count(p.PreviewedChanges), count(p.PreviewedDestroy)
		s.PreviewFailed = count(p.PreviewFailed)
	}
	if !terraform.IsRecordedAs(s.Revision, before.Revision) || before.Number != s.Number || before.StartTime == nil {
		s.StartTime = ptr.To(metav1.NewTime(p.At))
	}
	if template.Annotations[naming.ApproveAnnotation] == s.Revision {
		s.ApprovedBy = template.Annotations[naming.ApprovedByAnnotation]
	}
	if !p.SoakUntil.IsZero() {
		s.SoakUntil = ptr.To(metav1.NewTime(p.SoakUntil))
	}
	return s
}

func stagedCondition(f *stagedFacts, p *stagedPlan) engine.Condition {
	if f.NotStored != "" {
		return engine.True(infrav1.RollingOutCondition, infrav1.RolloutWaitingReason, fmt.Sprintf(
			"revision %s cannot be stored, and no user gets it before that: %s", terraform.ShortRevision(p.Revision.Hash), f.NotStored))
	}
	if p.Stage == infrav1.RolloutComplete {
		return engine.False(infrav1.RollingOutCondition, infrav1.RolledOutReason, p.Message)
	}
	return engine.True(infrav1.RollingOutCondition, p.Reason, p.Message)
}
