// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package owner is the owner's side of a WorkspaceTemplateApply: how CAPTCluster and CAPTControlPlane find, write, delete
// and report the one that belongs to them.
package owner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
)

// Facts are what an owner knows about its WorkspaceTemplateApply.
type Facts struct {
	// Apply is nil when it does not exist.
	Apply *infrav1.WorkspaceTemplateApply
	// Helpers are the other WorkspaceTemplateApplies that the owner controls, sorted by name; looked up only while it is being deleted.
	Helpers []infrav1.WorkspaceTemplateApply
	// RetainConflict is why nothing that the owner controls must be deleted yet; looked up only while it is being deleted.
	RetainConflict string
	// Candidates are WorkspaceTemplateApplies that may belong to the owner although it refers to none, or the one that it refers
	// to and nobody has adopted.
	Candidates []adoption.Candidate
	// Lost is the field that tells that something was built, when the owner refers to no WorkspaceTemplateApply and there is no
	// candidate either: what is made now would be built a second time.
	Lost string
	// Missing is the WorkspaceTemplateApply that the owner refers to and that CAPT v0.3 recorded, when it does not exist: what is
	// created now would be built a second time.
	Missing string
	// Partner is the object that the owner is adopted with, when it has no WorkspaceTemplateApply of its own; empty when that
	// was adopted.
	Partner string
	// AwaitsAdoption is true while the owner, or what it refers to, is as CAPT v0.3 left it.
	AwaitsAdoption bool
	// Owned are those of the candidates that the owner owns, so that they would be deleted with it.
	Owned []string
	// Unadopted is the Workspace that the older CAPT made for the one candidate that the owner does refer to; empty when there
	// is no such one.
	Unadopted string
	// Claimed says in words why the WorkspaceTemplateApply the owner refers to is not the owner's. It is neither written nor
	// deleted then.
	Claimed string
	// Refused is why the API server refused what the owner wrote.
	Refused error
	// Desired is what the owner wants to write; nil when it can not tell yet.
	Desired *unstructured.Unstructured
}

// Observe finds the WorkspaceTemplateApply an owner refers to or, when it refers to none, those it could mean. It looks past
// the cache for what must not be missed: a candidate, and what is to be deleted, that was made a moment ago. Before one that
// is referred to and seems to be missing is made, Confirm that.
func Observe(ctx context.Context, cached, uncached client.Reader, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want adoption.Expectation) (Facts, error) {
	if !ref.IsDefined() {
		var applies infrav1.WorkspaceTemplateApplyList
		if err := uncached.List(ctx, &applies, client.InNamespace(object.GetNamespace())); err != nil {
			return Facts{}, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
		}
		candidates := want.Candidates(object, applies.Items)
		facts := Facts{Candidates: candidates, Owned: adoption.Names(candidates, adoption.Owned)}
		if len(candidates) == 0 {
			facts.Lost = want.Built
		}
		facts.AwaitsAdoption = facts.Undecided() && (want.Legacy || facts.anyUnadopted(applies.Items))
		return facts, nil
	}
	if !object.GetDeletionTimestamp().IsZero() {
		cached = uncached
	}
	return referred(ctx, cached, object, ref, want)
}

// anyUnadopted reports whether one of the candidates was created by CAPT v0.3 and has not been adopted.
func (f *Facts) anyUnadopted(applies []infrav1.WorkspaceTemplateApply) bool {
	for i := range applies {
		named := func(c adoption.Candidate) bool { return c.Name == applies[i].Name }
		if adoption.Unadopted(&applies[i]) != "" && slices.ContainsFunc(f.Candidates, named) {
			return true
		}
	}
	return false
}

// Undecided tells whether a person has to say which WorkspaceTemplateApply is the owner's. Nothing is made before that.
func (f *Facts) Undecided() bool {
	return len(f.Candidates) > 0 || f.Lost != "" || f.Missing != "" || f.Partner != ""
}

// Confirm looks past the cache for a WorkspaceTemplateApply that is referred to and seems to be missing: it could be somebody
// else's, made a moment ago. Who waits for something else need not ask the API server each time.
func (f *Facts) Confirm(ctx context.Context, uncached client.Reader, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want adoption.Expectation) (err error) {
	if ref.IsDefined() && f.Apply == nil && f.Claimed == "" && !f.Undecided() {
		*f, err = referred(ctx, uncached, object, ref, want)
	}
	return err
}

func referred(ctx context.Context, reader client.Reader, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want adoption.Expectation) (Facts, error) {
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	apply, err := engine.Get(ctx, reader, key, &infrav1.WorkspaceTemplateApply{})
	if err != nil {
		return Facts{}, fmt.Errorf("reading WorkspaceTemplateApply %s: %w", ref.Name, err)
	}
	if apply == nil {
		missing := want.Legacy && ref.Name == want.Recorded && object.GetDeletionTimestamp().IsZero()
		facts := Facts{AwaitsAdoption: missing}
		if missing { // A reference to another one says that it is to be created.
			facts.Missing = ref.Name
		}
		return facts, nil
	}
	facts := taken(object, want, apply)
	facts.AwaitsAdoption = facts.Unadopted != "" || facts.Claimed != "" && want.Legacy
	return facts, nil
}

// taken leaves what the owner must not have out of the facts: two owners would write the same Workspace, and one would
// delete that of the other. What nobody has adopted from the older CAPT is left as it was.
func taken(object client.Object, want adoption.Expectation, apply *infrav1.WorkspaceTemplateApply) Facts {
	if conflict := adoption.Conflict(object, want, apply); conflict != "" {
		return Facts{Claimed: conflict}
	}
	if !object.GetDeletionTimestamp().IsZero() && !want.MayDelete(object, apply) {
		return Facts{Claimed: fmt.Sprintf("WorkspaceTemplateApply %s is kept: this object neither controls it nor records it in its status", apply.Name)}
	}
	if workspace := adoption.Unadopted(apply); workspace != "" {
		candidate := adoption.Candidate{Name: apply.Name, Evidence: []adoption.Evidence{adoption.Referred}}
		return Facts{Candidates: []adoption.Candidate{candidate}, Owned: []string{apply.Name}, Unadopted: workspace}
	}
	return Facts{Apply: apply}
}

// mergedLists are the lists of a WorkspaceTemplateApply that are merged: by key, and keys as a set.
func mergedLists() []string {
	return []string{"ownerReferences", "waitForSecrets", "waitForWorkspaces", "keys"}
}

// Differs tells whether the WorkspaceTemplateApply is not yet what the owner wants.
func (f *Facts) Differs(manager string) bool {
	if f.Desired == nil {
		return false
	}
	if f.Apply == nil {
		return true
	}
	live, err := engine.Unstructured(f.Apply)
	if err != nil {
		return true
	}
	live.SetGroupVersionKind(f.Desired.GroupVersionKind()) // Clients leave it out of typed objects, caches do not.
	return engine.Differs(live, f.Desired, manager, mergedLists()...)
}

// Ready tells whether the Workspace is what the owner wants: written, seen by the controller of WorkspaceTemplateApplies,
// and applied by Terraform.
func (f *Facts) Ready(manager string) bool {
	return f.Apply != nil && !f.Differs(manager) && f.Apply.DeletionTimestamp.IsZero() &&
		f.Apply.Status.ObservedGeneration == f.Apply.Generation && conditions.IsTrue(f.Apply, infrav1.ReadyCondition)
}

// Want describes a WorkspaceTemplateApply as its owner wants it.
type Want struct {
	Owner       client.Object
	ClusterName string
	Name        string
	Template    infrav1.WorkspaceTemplateReference
	Intent      adoption.Intent
	// Labels besides those that every one has.
	Labels            map[string]string
	WaitForWorkspaces []infrav1.WorkspaceDependency
	WaitForSecrets    []infrav1.SecretDependency
	DeletionPolicy    infrav1.DeletionPolicy
}

// Desire computes what to write.
func (f *Facts) Desire(c client.Client, want Want) error {
	if want.Template.Namespace == "" {
		want.Template.Namespace = want.Owner.GetNamespace() // Said in so many words, since a namespace another manager set would stay.
	}
	intent := want.Intent.For(f.Apply)
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: want.Owner.GetNamespace(), Name: want.Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: want.ClusterName},
		},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef:       want.Template,
			Variables:         intent.Variables,
			WaitForWorkspaces: want.WaitForWorkspaces,
			WaitForSecrets:    want.WaitForSecrets,
			DeletionPolicy:    want.DeletionPolicy,
		},
	}
	maps.Copy(apply.Labels, want.Labels)
	if shard, ok := want.Owner.GetLabels()[clusterv1.WatchLabel]; ok {
		apply.Labels[clusterv1.WatchLabel] = shard // The manager that sees the owner must see what it owns.
	}
	apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	if err := controllerutil.SetControllerReference(want.Owner, apply, c.Scheme()); err != nil {
		return fmt.Errorf("owning WorkspaceTemplateApply %s: %w", want.Name, err)
	}
	if intent.ConnectionSecret != "" {
		apply.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: intent.ConnectionSecret, Namespace: want.Owner.GetNamespace()}
	}
	desired, err := engine.Unstructured(apply)
	f.Desired = desired
	return err
}

// Write makes the WorkspaceTemplateApply what the owner wants, if it differs, and takes the result into the facts. It also
// restores managedFields that were lost; see engine.Disowned.
func (f *Facts) Write(ctx context.Context, c client.Client, manager string) error {
	disowned := f.Disowned(manager)
	if !f.Differs(manager) && !disowned {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Applying WorkspaceTemplateApply", "WorkspaceTemplateApply", klog.KObj(f.Desired), "managedFieldsLost", disowned)
	written := f.Desired.DeepCopy()
	config := client.ApplyConfigurationFromUnstructured(written)
	err := c.Apply(ctx, config, client.FieldOwner(manager), client.ForceOwnership)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		f.Refused = err
	}
	if err != nil {
		return fmt.Errorf("applying WorkspaceTemplateApply %s: %w", f.Desired.GetName(), err)
	}
	if err := engine.Reclaim(ctx, c, written, manager); err != nil {
		return err
	}
	f.Apply = &infrav1.WorkspaceTemplateApply{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, f.Apply)
}

// Disowned reports whether the managedFields of the WorkspaceTemplateApply were lost. It is Ready all the same: nothing of it
// has to change.
func (f *Facts) Disowned(manager string) bool {
	return f.Desired != nil && f.Apply != nil && f.Apply.DeletionTimestamp.IsZero() && engine.Disowned(f.Apply, manager)
}

// Delete asks for the WorkspaceTemplateApply to go, by UID, so that no other one of its name is meant.
func (f *Facts) Delete(ctx context.Context, c client.Client) error { return remove(ctx, c, f.Apply) }

func remove(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	ctrl.LoggerFrom(ctx).Info("Deleting WorkspaceTemplateApply", "WorkspaceTemplateApply", klog.KObj(apply))
	err := c.Delete(ctx, apply, client.Preconditions{UID: ptr.To(apply.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting WorkspaceTemplateApply %s: %w", apply.Name, err)
	}
	return nil
}
