// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
)

// Step is what a reconcile does about a WorkspaceTemplateApply.
type Step string

// Steps of the life cycle, in their order.
const (
	// Wait writes nothing; status reports the reason.
	Wait Step = "Wait"
	// Hold adds the finalizer, because the owner has dependents that must be deleted first.
	Hold Step = "Hold"
	// Provision records the reference, then creates or updates the WorkspaceTemplateApply.
	Provision Step = "Provision"
	// WritePolicy writes a changed deletion policy, which may unblock the deletion.
	WritePolicy Step = "WritePolicy"
	// Destroy deletes the WorkspaceTemplateApplies that are next.
	Destroy Step = "Destroy"
	// Release removes the finalizer.
	Release Step = "Release"
)

// Owner is an object that owns a WorkspaceTemplateApply.
type Owner struct {
	client.Object
	// Kind is the kind of the object.
	Kind schema.GroupVersionKind
	// Ref is the field of spec that refers to the WorkspaceTemplateApply.
	Ref          *infrav1.WorkspaceTemplateApplyReference
	Finalizer    string
	FieldManager string
	// Creates is what Terraform creates, for messages.
	Creates string
}

// deleting reports whether the owner is being deleted.
func (o Owner) deleting() bool { return !o.GetDeletionTimestamp().IsZero() }

// applyName returns the name of the WorkspaceTemplateApply: the one that the owner refers to, or that of the naming scheme.
func (o Owner) applyName(want claim.Expectation) string {
	if o.Ref.IsDefined() {
		return o.Ref.Name
	}
	return want.SchemeName
}

// Want describes a WorkspaceTemplateApply as its owner wants it.
type Want struct {
	claim.Expectation
	ClusterName string
	Template    infrav1.WorkspaceTemplateReference
	Intent      desired.Intent
	// Labels are set in addition to those that every WorkspaceTemplateApply of an owner has.
	Labels            map[string]string
	WaitForWorkspaces []infrav1.WorkspaceDependency
	WaitForSecrets    []infrav1.SecretDependency
	// DeletionPolicy is empty when the owner does not set it.
	DeletionPolicy infrav1.DeletionPolicy
}

// PlanInput is what the plan depends on in addition to the facts. The owner provides it in each reconcile.
type PlanInput struct {
	Owner  Owner
	Paused bool
	// Want is nil while something blocks the creation or change of the WorkspaceTemplateApply.
	Want *Want
	// Hold adds the finalizer although there is no WorkspaceTemplateApply.
	Hold bool
	// BlockDeletion is true while dependents exist that need everything that the owner controls, BlockOwnDeletion while they need only
	// its own WorkspaceTemplateApply.
	BlockDeletion, BlockOwnDeletion bool
}

// Plan is what one reconcile does about a WorkspaceTemplateApply.
type Plan struct {
	*Facts
	Owner Owner
	Step  Step
	// Desired is what the owner applies; nil while something blocks it.
	Desired *unstructured.Unstructured
	// Differs is true when the WorkspaceTemplateApply has to be written.
	Differs bool
}

// Plan decides what to do. It is pure.
func (f *Facts) Plan(in PlanInput) (Plan, error) {
	p := Plan{Facts: f, Owner: in.Owner}
	if want := in.Want; want != nil {
		desired, err := f.desired(in.Owner, want)
		if err != nil {
			return p, err
		}
		p.Desired, p.Differs = desired, differs(f.Apply, desired, in.Owner.FieldManager)
	}
	switch {
	case in.Paused:
		p.Step = Wait
	case in.Owner.deleting():
		p.Step = p.deletionStep(in)
	case p.Desired != nil:
		p.Step = Provision
	case (f.Apply != nil || in.Hold) && !controllerutil.ContainsFinalizer(in.Owner, in.Owner.Finalizer):
		p.Step = Hold
	default:
		p.Step = Wait
	}
	return p, nil
}

func (p *Plan) deletionStep(in PlanInput) Step {
	switch {
	case p.Block != nil, len(p.OwnedCandidates) > 0:
		return Wait
	case in.BlockDeletion && p.policyChanged():
		return WritePolicy
	case in.BlockDeletion, p.IsHeld(), p.RetainConflict != "", in.BlockOwnDeletion && p.OwnIsNext():
		return Wait
	case len(p.notYetDeleted()) > 0:
		return Destroy
	case !in.BlockOwnDeletion && len(p.nextToDelete()) == 0:
		return Release
	}
	return Wait
}

// policyChanged reports whether the owner sets another deletion policy than the WorkspaceTemplateApply has.
func (p *Plan) policyChanged() bool {
	if p.Apply == nil || p.Desired == nil {
		return false
	}
	policy, isSet, _ := unstructured.NestedString(p.Desired.Object, "spec", "deletionPolicy")
	return isSet && (policy == string(infrav1.DeletionPolicyRetain)) != (p.Apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain)
}

// desired is the apply configuration of the WorkspaceTemplateApply.
func (f *Facts) desired(owner Owner, want *Want) (*unstructured.Unstructured, error) {
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: owner.applyName(want.Expectation),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: want.ClusterName},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.Kind)},
		},
		Spec: want.Intent.For(f.Apply).Spec(owner.GetNamespace(), want.Template),
	}
	apply.Spec.WaitForWorkspaces, apply.Spec.WaitForSecrets, apply.Spec.DeletionPolicy = want.WaitForWorkspaces, want.WaitForSecrets, want.DeletionPolicy
	maps.Copy(apply.Labels, want.Labels)
	if shard, ok := owner.GetLabels()[clusterv1.WatchLabel]; ok {
		apply.Labels[clusterv1.WatchLabel] = shard // The manager that watches the owner must also watch its WorkspaceTemplateApply.
	}
	apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	return ssa.Unstructured(apply)
}

// mergedLists returns the lists of a WorkspaceTemplateApply that server-side apply merges; see ssa.Differs.
func mergedLists() []string {
	return []string{"ownerReferences", "waitForSecrets", "waitForWorkspaces", "keys"}
}

// differs reports whether a WorkspaceTemplateApply, which may not exist, differs from what the manager of its fields wants.
func differs(apply *infrav1.WorkspaceTemplateApply, desired *unstructured.Unstructured, manager string) bool {
	if apply == nil {
		return true
	}
	live, err := ssa.Unstructured(apply)
	if err != nil {
		return true
	}
	live.SetGroupVersionKind(desired.GroupVersionKind()) // Typed objects from clients have none, those from caches do.
	return ssa.Differs(live, desired, manager, mergedLists()...)
}

// Ready reports whether the WorkspaceTemplateApply is as the owner wants it, and Terraform has applied it.
func (p *Plan) Ready() bool { return p.UpToDate() && !p.Differs }
