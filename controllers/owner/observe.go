// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package owner implements the life cycle of a WorkspaceTemplateApply that a CAPTCluster, a CAPTControlPlane or a Fargate profile owns:
// observe, plan, hold, provision, destroy, release, report. The owners provide the desired state, and what must be deleted first.
package owner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// Reconciler is what the controllers of all owners have.
type Reconciler struct {
	engine.Engine
	// Namespace is the only namespace in the cache; empty means all.
	Namespace string
	// Recovery has the metrics of recovery; nil when this manager recovers nothing.
	Recovery *metrics.Recovery
}

// Observed are the facts that all owners have, and the results of writes.
type Observed struct {
	Now time.Time
	// GateDecision is about the owner.
	GateDecision engine.GateDecision
	// Cluster is nil until Cluster API has set the owner reference; Clusters refer to the owner.
	Cluster  *clusterv1.Cluster
	Clusters []*clusterv1.Cluster
	// Paused is why the owner is paused; empty when it is not.
	Paused string
	// Apply is its WorkspaceTemplateApply, and Template the WorkspaceTemplate of that.
	Apply    Facts
	Template desired.TemplateFacts
	// Running is for how long Terraform has been running or failing.
	Running Running
	// Earlier are the durations of operations of other owners with the same template; nil at rest.
	Earlier progress.Durations
	// Recovers is true if this manager recovers objects. Recovered is true once this reconcile has started the recovery action of the plan;
	// RecoveryProblem is why it could not.
	Recovers, Recovered bool
	RecoveryProblem     string
	// requeueAfter is the time until the next reconcile without an event; zero means none.
	requeueAfter time.Duration
}

// Observed returns the facts about an object before anything is read.
func (r *Reconciler) Observed(object Object, v engine.GateDecision) (o Observed) {
	o = Observed{GateDecision: v, Now: r.State.Now(), Recovers: r.Recovery != nil}
	r.observeClocks(Owner{Object: object}, &o)
	return o
}

// ObserveClusters reads the Clusters of an owner.
func (r *Reconciler) ObserveClusters(ctx context.Context, object Object, v engine.GateDecision) (o Observed, err error) {
	o = r.Observed(object, v)
	if o.Cluster, err = engine.OwnerCluster(ctx, r.Client, r.Uncached, object); err != nil {
		return o, err
	}
	if o.Clusters, err = engine.ReferringClusters(ctx, r.Client, object); err != nil {
		return o, err
	}
	if o.Paused = desired.Paused(o.PausingCluster(), object); o.Paused != "" { // Time in a pause does not count.
		r.State.Measure(client.ObjectKeyFromObject(object), Owner{Object: object}.retried(o.Now), "", 0)
		o.Running.Reason, o.Running.Persists = "", 0
	}
	return o, nil
}

// PausingCluster is the Cluster that pauses an object: Cluster API sets no owner while the Cluster is paused.
func (o *Observed) PausingCluster() *clusterv1.Cluster {
	if o.Cluster == nil && len(o.Clusters) > 0 {
		return o.Clusters[0]
	}
	return o.Cluster
}

// WaitingForOwner is the condition of an object that no Cluster owns. While the Cluster that refers to it is paused, that is why.
func (o *Observed) WaitingForOwner(conditionType, message string) engine.Condition {
	if o.Paused != "" && len(o.Clusters) > 0 {
		return engine.False(conditionType, clusterv1.PausedReason, engine.PausedMessage("created", o.Paused))
	}
	return engine.False(conditionType, infrav1.WaitingForOwnerReason, message)
}

// ClusterName returns the name of the Cluster; the value of the label if the Cluster no longer exists.
func (o *Observed) ClusterName(object client.Object) string {
	if o.Cluster != nil {
		return o.Cluster.Name
	}
	return object.GetLabels()[clusterv1.ClusterNameLabel]
}

// Reader returns the reader of WorkspaceTemplateApplies. Only if a missing one may be created does it confirm with the API server that it does not
// exist.
func (r *Reconciler) Reader(v engine.GateDecision, mayCreate bool) Reader {
	return Reader{Cached: r.Client, Uncached: r.Uncached, Gate: r.Gate, GateDecision: v, Confirm: mayCreate}
}

// Facts are what an owner observed of its WorkspaceTemplateApply.
type Facts struct {
	// Live is the WorkspaceTemplateApply; nil when it does not exist.
	Live *infrav1.WorkspaceTemplateApply
	// Helpers are the other WorkspaceTemplateApplies that the owner controls, sorted by name; read only while it is being deleted.
	Helpers []infrav1.WorkspaceTemplateApply
	// HeldBy is why nothing that the owner controls may be deleted, because a Cluster uses it; observed only while it is being deleted.
	HeldBy *desired.Blocked
	// RetainConflict is why the deletion policies forbid to delete what the owner controls; read only while it is being deleted.
	RetainConflict string
	// Block is why the gate forbids to write the owner, or the WorkspaceTemplateApply that it refers to; nil if it does not.
	Block *desired.Blocked
	// Held is true if there is a Block, or the owner waits for a decision about something that is not released.
	Held bool
	// Candidates are WorkspaceTemplateApplies that may belong to an owner without a reference.
	Candidates []claim.Candidate
	// OwnedCandidates are those that the owner owns, so that they would be deleted with it.
	OwnedCandidates []string
	// ProvisionedField is the field that proves that cloud resources exist, when the owner has no reference: a new WorkspaceTemplateApply would
	// create them a second time. Its status was lost, for example by a restore, and it may serve.
	ProvisionedField string
	// Conflict is why the referenced WorkspaceTemplateApply does not belong to the owner. It is neither written nor deleted.
	Conflict string
	// Refused is the error with which the API server refused the WorkspaceTemplateApply, and OwnRefused the one with which it refused the write of the
	// owner before that.
	Refused, OwnRefused error
}

// ReadSecret reads a Secret; nil when it does not exist.
func (r *Reconciler) ReadSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found, err := r.Secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return found, nil
}

// Reader reads WorkspaceTemplateApplies.
type Reader struct {
	Cached   client.Reader
	Uncached client.Reader
	// Gate is asked about each WorkspaceTemplateApply, and GateDecision is its decision about the owner.
	Gate         engine.Gate
	GateDecision engine.GateDecision
	// Confirm makes Observe ask the API server when the cache has neither the referenced one nor a candidate, which may have been created a
	// moment ago.
	Confirm bool
}

// Observe reads the WorkspaceTemplateApply that an owner refers to or, without a reference, those that may belong to it. It asks the API server
// before one is deleted, and before one may be created, because none must be missed. An owner that waits for a decision sends no request.
func (r Reader) Observe(ctx context.Context, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation) (Facts, error) {
	want.Advice = r.GateDecision.Advice
	observe := func(reader client.Reader) (Facts, error) {
		switch {
		case r.GateDecision.Block != nil:
			return Facts{Block: r.GateDecision.Block, Held: true}, nil
		case !ref.IsDefined():
			return r.observeCandidates(ctx, reader, object, want)
		}
		return r.observeReferenced(ctx, reader, object, ref, want)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return observe(r.Uncached)
	}
	facts, err := observe(r.Cached)
	if err == nil && r.Confirm && facts.Live == nil && facts.Conflict == "" && !facts.NeedsDecision() {
		return observe(r.Uncached)
	}
	return facts, err
}

// observeCandidates looks for the WorkspaceTemplateApplies that may belong to an owner without a reference.
func (r Reader) observeCandidates(ctx context.Context, reader client.Reader, object client.Object, want claim.Expectation) (Facts, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return Facts{}, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	blocked := false
	candidates := claim.CandidatesBy(applies.Items, func(apply *infrav1.WorkspaceTemplateApply) []claim.Evidence {
		found := want.EvidenceFor(object, apply)
		if len(found) == 0 {
			found = r.Gate.Evidence(want, object, apply)
		}
		blocked = blocked || len(found) > 0 && r.Gate.BlockOf(apply) != nil
		return found
	})
	facts := Facts{Candidates: candidates, OwnedCandidates: claim.Names(candidates, claim.Owned), ProvisionedField: want.ProvisionedField}
	facts.Held = facts.NeedsDecision() && (r.GateDecision.Inherited || blocked)
	return facts, nil
}

// MayCreate reports whether the owner may create its WorkspaceTemplateApply now. paused is why the owner is paused.
func (f *Facts) MayCreate(owner client.Object, paused string) bool {
	return f.Live == nil && f.Conflict == "" && !f.NeedsDecision() && paused == "" && owner.GetDeletionTimestamp().IsZero()
}

// NeedsDecision reports whether it must be decided which WorkspaceTemplateApply belongs to the owner. Nothing is created before.
func (f *Facts) NeedsDecision() bool {
	return f.Block != nil || len(f.Candidates) > 0 || f.ProvisionedField != ""
}

func (r Reader) observeReferenced(ctx context.Context, reader client.Reader, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation) (Facts, error) {
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	apply, err := engine.Get(ctx, reader, key, &infrav1.WorkspaceTemplateApply{})
	if err != nil {
		return Facts{}, fmt.Errorf("reading WorkspaceTemplateApply %s: %w", ref.Name, err)
	}
	if apply == nil && r.GateDecision.BlockMissing != nil {
		block, err := r.GateDecision.BlockMissing(ctx)
		return Facts{Block: block, Held: block != nil}, err
	}
	if apply == nil {
		return Facts{}, nil
	}
	return r.factsFor(object, want, apply), nil
}

// factsFor returns the facts for a WorkspaceTemplateApply, without the object itself if the owner must not write it: because the gate blocks it, or
// because it belongs to another owner, and each would overwrite or delete the Workspace of the other.
func (r Reader) factsFor(object client.Object, want claim.Expectation, apply *infrav1.WorkspaceTemplateApply) Facts {
	if conflict := claim.Conflict(object, want, apply); conflict != "" {
		if r.GateDecision.BlockConflict != nil {
			return Facts{Block: r.GateDecision.BlockConflict(conflict), Held: true}
		}
		return Facts{Conflict: conflict}
	}
	if !object.GetDeletionTimestamp().IsZero() && !want.MayDelete(object, apply) {
		return Facts{Conflict: desired.KeptMessage(apply.Name)}
	}
	if block := r.Gate.BlockOf(apply); block != nil {
		return Facts{Block: block, Held: true}
	}
	return Facts{Live: apply}
}

// UpToDate reports whether Terraform has applied the WorkspaceTemplateApply as it is now.
func (f *Facts) UpToDate() bool { return desired.IsUpToDate(f.Live) }

// ObserveTemplate reads the template that an object refers to, and checks which fields of the object have no effect with it.
func (r *Reconciler) ObserveTemplate(ctx context.Context, object client.Object, ref infrav1.WorkspaceTemplateReference, fields []validation.TypedField) desired.TemplateFacts {
	lookup := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	key := ref.Key(object.GetNamespace())
	template, unreadable := lookup.Permitted(ctx, key, object.GetNamespace())
	return desired.Template(key, template, unreadable, fields)
}

// TemplateInterval is how often to read a template that blocks an object and that no watch covers.
const TemplateInterval = time.Minute

// ReportTemplates sets the condition that lists the fields without effect, and removes it when there are none.
func ReportTemplates(object engine.Object, templates ...*desired.TemplateFacts) {
	var found field.ErrorList
	reason := infrav1.FieldsWithoutEffectReason
	for _, f := range templates {
		if f.Unreadable != nil {
			return // The condition stays.
		}
		found = append(append(found, f.Restricting...), f.Others...)
		if len(f.Restricting) > 0 {
			reason = infrav1.FieldNotConsumedReason
		}
	}
	if len(found) == 0 {
		conditions.Delete(object, infrav1.FieldsConsumedCondition)
		return
	}
	engine.Set(object, engine.False(infrav1.FieldsConsumedCondition, reason, desired.Messages(found)))
}

// ObserveDeletion reads what the deletion of an owner depends on. profiles are the WorkspaceTemplateApplies of its Fargate profiles. CAPT creates no
// helpers, so the cache has them all. A helper that spec refers to by mistake is not deleted.
func (r *Reconciler) ObserveDeletion(ctx context.Context, f *Facts, owner engine.Object, ref infrav1.WorkspaceTemplateApplyReference, profiles ...*infrav1.WorkspaceTemplateApply) (err error) {
	if owner.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if f.HeldBy, err = r.HeldByUsers(ctx, owner); err != nil {
		return err
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the WorkspaceTemplateApplies that this object controls: %w", err)
	}
	for i := range list.Items {
		apply := &list.Items[i]
		isProfile := slices.ContainsFunc(profiles, func(profile *infrav1.WorkspaceTemplateApply) bool { return profile.UID == apply.UID })
		if metav1.IsControlledBy(apply, owner) && (!ref.IsDefined() || ref.Name != apply.Name) && !isProfile {
			f.Helpers = append(f.Helpers, *apply.DeepCopy())
		}
	}
	slices.SortFunc(f.Helpers, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })

	own := profiles
	if f.Live != nil {
		own = append(own, f.Live)
	}
	var conflicts []string
	for _, apply := range own {
		if conflict := validation.RetainConflict(apply, list.Items); conflict != "" {
			conflicts = append(conflicts, conflict)
		}
	}
	f.RetainConflict = strings.Join(conflicts, "; ")
	return nil
}

func (f *Facts) nextToDelete() []*infrav1.WorkspaceTemplateApply {
	return desired.NextToDelete(f.Live, f.Helpers)
}

// notYetDeleted returns those of nextToDelete whose deletion was not requested yet.
func (f *Facts) notYetDeleted() []*infrav1.WorkspaceTemplateApply {
	return slices.DeleteFunc(f.nextToDelete(), func(apply *infrav1.WorkspaceTemplateApply) bool { return !apply.DeletionTimestamp.IsZero() })
}

// IsHeld reports whether something would be deleted that a Cluster uses. An owner that has nothing, such as a restored copy, is not held.
func (f *Facts) IsHeld() bool { return f.HeldBy != nil && len(f.nextToDelete()) > 0 }

// OwnIsNext reports whether the owner's own WorkspaceTemplateApply is the next one to delete, see nextToDelete.
func (f *Facts) OwnIsNext() bool {
	next := f.nextToDelete()
	return len(next) == 1 && next[0] == f.Live
}

// waitingFor reports what each WorkspaceTemplateApply waits for that is being deleted, or is deleted next; nil without any.
func (f *Facts) waitingFor() *desired.Blocked {
	awaited := f.nextToDelete()
	if f.Live != nil && !f.Live.DeletionTimestamp.IsZero() && !slices.Contains(awaited, f.Live) {
		awaited = append(awaited, f.Live)
	}
	return desired.WaitingForDeletion(awaited)
}
