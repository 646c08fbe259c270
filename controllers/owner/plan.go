// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/managedfields"
	"github.com/capt-provider/capt/controllers/recovery"
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

// Object is a CAPTCluster, a CAPTControlPlane or a CAPTMachinePool.
type Object interface {
	engine.Object
	GetLifecycle() *infrav1.Lifecycle
	GetWorkspaceTemplateRef() infrav1.WorkspaceTemplateReference
}

// Owner is an object that owns a WorkspaceTemplateApply.
type Owner struct {
	Object
	// Kind is the kind of the object.
	Kind schema.GroupVersionKind
	// Sources are other objects whose spec determines the WorkspaceTemplateApply.
	Sources []Source
	// Ref is the field of spec that refers to the WorkspaceTemplateApply.
	Ref          *infrav1.WorkspaceTemplateApplyReference
	Finalizer    string
	FieldManager string
	// Creates is what Terraform creates, for messages.
	Creates string
	// Strategy is spec.recovery.
	Strategy *infrav1.RecoveryStrategy
	// Timeouts are those of spec.timeouts that all owners have.
	Timeouts infrav1.WaitTimeouts
}

// Source is an object of a kind.
type Source struct {
	client.Object
	Kind schema.GroupVersionKind
}

func (o Owner) deleting() bool { return !o.GetDeletionTimestamp().IsZero() }

// PlanInput is what the plan depends on in addition to the facts. The owner provides it in each reconcile.
type PlanInput struct {
	Owner  Owner
	Paused bool
	// Want is nil while something blocks the creation or change of the WorkspaceTemplateApply.
	Want *desired.Want
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
	// Blocked is why it is not written; nil when it may be, and for an owner without a template.
	Blocked *engine.Condition
	// AwaitTemplate is true while a template blocks that no watch covers: whether the owner may use it depends on the labels of its namespace, or
	// the template is outside of the namespaces that the manager watches.
	AwaitTemplate bool
	// Recovery is what is done about a failure of Terraform.
	Recovery recovery.Decision
}

// Described is an owner with a template, as package desired describes it.
type Described interface {
	desired.Owner
	TemplateBlocks() bool
}

// Plan decides what to do about the WorkspaceTemplateApply of an owner, which d describes; nil without a template. conditionType is that of the condition
// that reports why it is not written.
func (o *Observed) Plan(in PlanInput, d Described, conditionType string) (p Plan, err error) {
	var blocked *engine.Condition
	if d != nil {
		if blocked = engine.Blocking(conditionType, d.Blocked()); blocked == nil {
			in.Want = d.Want()
		} else if blocked.Reason == infrav1.WaitingForOwnerReason {
			*blocked = o.WaitingForOwner(conditionType, blocked.Message)
		}
	}
	in.Paused = o.Paused != ""
	p, err = o.Apply.Plan(in)
	p.Blocked = blocked
	p.AwaitTemplate = d != nil && d.TemplateBlocks() && (o.Template.Key.Namespace != in.Owner.GetNamespace() || o.Template.Unreadable != nil)
	return p, err
}

// Existing returns what the rules of package desired need.
func (f *Facts) Existing() desired.Existing {
	return desired.Existing{Apply: f.Live, Undecided: f.DecisionMessage(), Conflict: f.Conflict}
}

// Plan decides what to do. It is pure.
func (f *Facts) Plan(in PlanInput) (Plan, error) {
	p := Plan{Facts: f, Owner: in.Owner}
	if want := in.Want; want != nil {
		configuration, err := want.Configuration(in.Owner, metav1.NewControllerRef(in.Owner, in.Owner.Kind), f.Live)
		if err != nil {
			return p, err
		}
		p.Desired, p.Differs = configuration, desired.Differs(f.Live, configuration, in.Owner.FieldManager)
	}
	switch {
	case in.Paused:
		p.Step = Wait
	case in.Owner.deleting():
		p.Step = p.deletionStep(in)
	case p.Desired != nil:
		p.Step = Provision
	case (f.Live != nil || in.Hold) && !controllerutil.ContainsFinalizer(in.Owner, in.Owner.Finalizer):
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
	if p.Live == nil || p.Desired == nil {
		return false
	}
	policy, isSet, _ := unstructured.NestedString(p.Desired.Object, "spec", "deletionPolicy")
	return isSet && (policy == string(infrav1.DeletionPolicyRetain)) != (p.Live.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain)
}

// Ready reports whether the WorkspaceTemplateApply is as the owner wants it, and Terraform has applied it.
func (p *Plan) Ready() bool { return p.UpToDate() && !p.Differs }

// Act executes the plan. uncached reads from the API server. prepare modifies the owner in the same patch that records the reference; it may be nil.
func (p *Plan) Act(ctx context.Context, c client.Client, uncached client.Reader, prepare func()) error {
	switch p.Step {
	case Hold:
		return p.Owner.Hold(ctx, c, nil)
	case Provision:
		return p.provision(ctx, c, uncached, prepare)
	case WritePolicy:
		return p.Write(ctx, c, uncached)
	case Destroy:
		return p.destroy(ctx, c, uncached)
	case Release:
		return p.Owner.Release(ctx, c)
	case Wait:
	}
	return nil
}

// Hold adds the finalizer, and modifies the owner with change in the same patch; change may be nil.
func (o Owner) Hold(ctx context.Context, c client.Client, change func()) error {
	return engine.Patch(ctx, c, o.Object, func() {
		controllerutil.AddFinalizer(o.Object, o.Finalizer)
		if change != nil {
			change()
		}
	})
}

// Release removes the finalizer.
func (o Owner) Release(ctx context.Context, c client.Client) error {
	return engine.Patch(ctx, c, o.Object, func() { controllerutil.RemoveFinalizer(o.Object, o.Finalizer) })
}

// provision records the reference before it creates the WorkspaceTemplateApply: a crash between the two never leads to a second one.
func (p *Plan) provision(ctx context.Context, c client.Client, uncached client.Reader, prepare func()) error {
	err := p.Owner.Hold(ctx, c, func() {
		if !p.Owner.Ref.IsDefined() {
			*p.Owner.Ref = infrav1.WorkspaceTemplateApplyReference{Name: p.Desired.GetName()}
		}
		if prepare != nil {
			prepare()
		}
	})
	if engine.IsRefusal(err) {
		p.OwnRefused = err
	}
	if err != nil {
		return err
	}
	return p.Write(ctx, c, uncached)
}

// destroy deletes the WorkspaceTemplateApplies that are next. It writes a changed deletion policy before the deletion.
func (p *Plan) destroy(ctx context.Context, c client.Client, uncached client.Reader) error {
	if p.OwnIsNext() && p.policyChanged() {
		if err := p.Write(ctx, c, uncached); err != nil {
			return err
		}
	}
	for _, apply := range p.notYetDeleted() {
		if err := Delete(ctx, c, apply); err != nil {
			return err
		}
	}
	return nil
}

// Write applies the WorkspaceTemplateApply if it differs, and adds the result to the facts. It also restores lost managedFields.
func (p *Plan) Write(ctx context.Context, c client.Client, uncached client.Reader) error {
	lost := p.lost()
	if !p.Differs && !lost {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Applying WorkspaceTemplateApply", "WorkspaceTemplateApply", klog.KObj(p.Desired), "managedFieldsLost", lost)
	written := p.Desired.DeepCopy()
	if p.Live != nil {
		if err := p.Owner.checkCurrent(ctx, uncached); err != nil {
			return err
		}
		// The API server refuses if it was recreated, or written since it was read, and does not create it again.
		written.SetUID(p.Live.UID)
		written.SetResourceVersion(p.Live.ResourceVersion)
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(written), client.FieldOwner(p.Owner.FieldManager), client.ForceOwnership)
	if apierrors.IsForbidden(err) || engine.IsRefusal(err) {
		p.Refused = err
	}
	if err != nil {
		return fmt.Errorf("applying WorkspaceTemplateApply %s: %w", p.Desired.GetName(), engine.MarkStale(err))
	}
	if err := managedfields.Restore(ctx, c, written, p.Owner.FieldManager); err != nil {
		return err
	}
	p.Live = &infrav1.WorkspaceTemplateApply{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, p.Live); err != nil {
		return err
	}
	p.Differs = desired.Differs(p.Live, p.Desired, p.Owner.FieldManager)
	return nil
}

// lost reports whether managedFields must be restored. The WorkspaceTemplateApply is Ready nevertheless.
func (p *Plan) lost() bool {
	return p.Desired != nil && p.Live != nil && p.Live.DeletionTimestamp.IsZero() && managedfields.Lost(p.Live, p.Owner.FieldManager)
}

// checkCurrent fails if the owner or a source was changed since it was read: a manager that has lost its leadership must not revert what the next one wrote.
func (o Owner) checkCurrent(ctx context.Context, uncached client.Reader) error {
	for _, source := range append([]Source{{o.Object, o.Kind}}, o.Sources...) {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(source.Kind)
		now, err := engine.Get(ctx, uncached, client.ObjectKeyFromObject(source), now)
		switch {
		case err != nil:
			return fmt.Errorf("reading the %s: %w", source.Kind.Kind, err)
		case now == nil || now.UID != source.GetUID() || now.Generation != source.GetGeneration():
			return fmt.Errorf("%s %s was changed during the reconcile", source.Kind.Kind, source.GetName())
		}
	}
	return nil
}

// Delete requests the deletion of a WorkspaceTemplateApply by UID, so that a new object of the same name is not affected.
func Delete(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	ctrl.LoggerFrom(ctx).Info("Deleting WorkspaceTemplateApply", "WorkspaceTemplateApply", klog.KObj(apply))
	err := c.Delete(ctx, apply, client.Preconditions{UID: ptr.To(apply.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting WorkspaceTemplateApply %s: %w", apply.Name, err)
	}
	return nil
}
