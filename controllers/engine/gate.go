// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Gate decides which objects may be written. It is asked before an object is observed, and about each WorkspaceTemplateApply that an owner finds.
type Gate interface {
	// Check returns the decision about an object. It writes nothing.
	Check(ctx context.Context, obj Object) (GateDecision, error)
	// BlockOf returns why the owner of a WorkspaceTemplateApply must not use it; nil if it may.
	BlockOf(apply *infrav1.WorkspaceTemplateApply) *desired.Blocked
	// Evidence returns why a WorkspaceTemplateApply may belong to an owner, if the owner itself has no evidence.
	Evidence(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []claim.Evidence
	// Origin returns what created a WorkspaceTemplateApply, if its Workspace may be older than its records; empty otherwise.
	Origin(apply *infrav1.WorkspaceTemplateApply) string
	// KeepsSummary reports whether a refused request must not change the summary of an object: DecisionCondition reports it instead.
	KeepsSummary(obj Object, summary string) bool
	// Watch adds watches for what opens the gate for objects of a kind.
	Watch(b *builder.Builder, kind client.Object) *builder.Builder
}

// GateDecision is the decision of a Gate about an object. The zero value is that of an object that may be written.
type GateDecision struct {
	// Block is why nothing of the object is created, changed or deleted; nil if it may be.
	Block *desired.Blocked
	// BlockMissing returns the Block of an object whose cluster-wide Workspace, or WorkspaceTemplateApply, does not exist; BlockConflict that of an
	// owner whose WorkspaceTemplateApply belongs to another object. They are nil if that is no reason for a Block.
	BlockMissing  func(ctx context.Context) (*desired.Blocked, error)
	BlockConflict func(conflict string) *desired.Blocked
	// BlockUnclaimed is the Block of an object that is being deleted, if its Workspace exists and was created for no object.
	BlockUnclaimed *desired.Blocked
	// BlockFor returns the Block of a template with these users; nil if the users do not matter.
	BlockFor func(users []*infrav1.WorkspaceTemplateApply) *desired.Blocked
	// Inherited is true if the controller of this version has not computed the status of the object.
	Inherited bool
	// Advice replaces the advice to recreate the object, whose cloud resources exist; empty if that is right.
	Advice string
	// Proof identifies the request to preview what would be written without Block; empty if there is none.
	Proof string
	// Finalizers are removed with that of the controller.
	Finalizers []string
	// Keeps reports whether the status of an object stays as it is, except for the conditions that Keep sets. Both are nil if it is computed.
	Keeps func(obj Object, s Situation) bool
	Keep  func(obj Object, s Situation)
	// Correct changes recorded values before the status is computed; nil if all are right.
	Correct func(obj Object)
}

// Situation of an object that decides whether its status is kept.
type Situation struct {
	// Paused is why the object is paused; empty when it is not.
	Paused string
	// Held is true if the gate blocks the object, or what may belong to it.
	Held bool
	// Settling is true while what the object controls has not reported its current state.
	Settling bool
	// Decision is DecisionCondition.
	Decision Condition
	// Preview is the result of GateDecision.Proof, and WaitsFor what the proof waits for without a result.
	Preview  infrav1.RevisionPreview
	WaitsFor string
}

// KeepsStatus reports whether the status of an object stays as it is.
func (v GateDecision) KeepsStatus(obj Object, s Situation) bool {
	return v.Keeps != nil && v.Keeps(obj, s)
}

const (
	// DecisionCondition is True while it is not decided what belongs to an object, so that the object is not written.
	DecisionCondition = infrav1.AdoptionRequiredCondition
	// DecisionReason is the reason of DecisionCondition, and of conditions with the same cause.
	DecisionReason = infrav1.AdoptionRequiredReason
)

// Decision returns DecisionCondition; block is nil if everything is decided.
func Decision(block *desired.Blocked) Condition {
	if block == nil {
		return False(DecisionCondition, infrav1.AdoptionNotRequiredReason, "")
	}
	return True(DecisionCondition, block.Reason, block.Message)
}

// Report computes the status of an object with a function, or keeps it.
func (v GateDecision) Report(obj Object, s Situation, compute func()) {
	switch {
	case v.KeepsStatus(obj, s):
		v.Keep(obj, s)
		return
	case v.Correct != nil:
		v.Correct(obj)
	}
	compute()
}

// OpenGate blocks nothing.
type OpenGate struct{}

// Check implements Gate.
func (OpenGate) Check(context.Context, Object) (GateDecision, error) { return GateDecision{}, nil }

// BlockOf implements Gate.
func (OpenGate) BlockOf(*infrav1.WorkspaceTemplateApply) *desired.Blocked { return nil }

// Evidence implements Gate.
func (OpenGate) Evidence(claim.Expectation, metav1.Object, *infrav1.WorkspaceTemplateApply) []claim.Evidence {
	return nil
}

// Origin implements Gate.
func (OpenGate) Origin(*infrav1.WorkspaceTemplateApply) string { return "" }

// KeepsSummary implements Gate.
func (OpenGate) KeepsSummary(Object, string) bool { return false }

// Watch implements Gate.
func (OpenGate) Watch(b *builder.Builder, _ client.Object) *builder.Builder { return b }
