// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress computes status.progress of a control plane: the operation in progress, how much of it is complete, when it is expected to
// complete, and the history. It is pure, and depends on transitions only, so that time alone never causes a status write.
package progress

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Limits of the history. Twenty messages of the size of a condition would exceed what etcd stores.
const (
	maxHistory = 20
	maxMessage = 1024
)

// Observed is what the controller observed and decided in one reconcile.
type Observed struct {
	// Operation is the operation that is needed; empty if none is, or if status was lost and does not show what has happened before.
	Operation controlplanev1.Operation
	// Step is the first step that is not complete.
	Step Step
	// Failed is true if the operation does not continue until something changes; Message is the cause, without secrets.
	Failed  bool
	Message string
	// Paused is true while no operation may start.
	Paused bool
	// Revision is the generation of the WorkspaceTemplateApply; zero while it does not exist.
	Revision int64
	// Started is when Terraform started the current apply, which may be before this reconcile; zero if it is unknown.
	Started time.Time
	Now     time.Time
	// Earlier are the durations of operations of other control planes.
	Earlier Durations
}

// Next returns the progress after a reconcile. It does not modify before, which is nil until the first operation.
func Next(before *controlplanev1.Progress, in *Observed) *controlplanev1.Progress {
	p := &state{Progress: ptr.Deref(before, controlplanev1.Progress{})}
	p.History = append([]controlplanev1.OperationRecord(nil), p.History...)
	switch {
	case in.Step == Done:
		p.end(controlplanev1.OutcomeSucceeded, in)
	case in.Failed:
		p.end(controlplanev1.OutcomeFailed, in)
	case !in.Paused || p.inProgress():
		p.advance(in)
	}
	if len(p.History) == 0 {
		return before
	}
	return &p.Progress
}

// AsOf returns progress with the remaining time as of a status write that has another cause.
func AsOf(p *controlplanev1.Progress, now time.Time) *controlplanev1.Progress {
	if p == nil || p.EstimatedCompletionTime == nil {
		return p
	}
	p = p.DeepCopy()
	p.EstimatedSecondsRemaining = seconds(p.EstimatedCompletionTime.Sub(now))
	return p
}

// state is the progress that Next changes.
type state struct{ controlplanev1.Progress }

// last returns the last operation; nil when there was none.
func (p *state) last() *controlplanev1.OperationRecord {
	if len(p.History) == 0 {
		return nil
	}
	return &p.History[len(p.History)-1]
}

// inProgress reports whether the last operation has not ended.
func (p *state) inProgress() bool { return p.last() != nil && p.last().CompletionTime == nil }

// end ends the operation in progress. A success after a failure ends the same operation: Terraform was retried.
func (p *state) end(outcome controlplanev1.Outcome, in *Observed) {
	last := p.last()
	retried := last != nil && last.Outcome == controlplanev1.OutcomeFailed && outcome == controlplanev1.OutcomeSucceeded
	if !p.inProgress() && !retried {
		return
	}
	last.CompletionTime, last.Outcome, last.Message = timeOf(in.Now), outcome, ""
	p.Revision = cmp.Or(in.Revision, p.Revision)
	if outcome == controlplanev1.OutcomeFailed {
		last.Message = failure.Truncate(in.Message, maxMessage)
	}
	p.CurrentOperation, p.EstimatedCompletionTime, p.EstimatedSecondsRemaining = "", nil, nil
	if outcome == controlplanev1.OutcomeSucceeded {
		p.PercentComplete = ptr.To[int32](100)
	}
}

// advance starts, continues or supersedes an operation, and computes how much of it is complete.
func (p *state) advance(in *Observed) {
	started := false
	switch {
	case p.inProgress() && p.superseded(in):
		p.end(controlplanev1.OutcomeSuperseded, in)
		p.start(in)
		started = true
	case p.inProgress():
	case in.Operation == "":
		return
	case p.retries(in):
		last := p.last()
		last.CompletionTime, last.Outcome, last.Message = nil, "", ""
		started = true
	default:
		p.start(in)
		started = true
	}
	operation := p.last().Name
	p.CurrentOperation = operation
	percent := max(ptr.Deref(p.PercentComplete, 0), percentAt(operation, in.Step))
	if started || percent != ptr.Deref(p.PercentComplete, 0) {
		p.PercentComplete = &percent
		// CAPT itself completes a new WorkspaceTemplateApply, which changes its generation: that alone must not cause a status write.
		p.Revision = cmp.Or(in.Revision, p.Revision)
		p.estimate(in)
	}
}

// superseded reports whether the operation in progress is replaced by another one.
func (p *state) superseded(in *Observed) bool {
	switch {
	case in.Operation == "", in.Paused, in.Operation == controlplanev1.OperationFargateProfileUpdate: // A step of the operation in progress.
		return false
	case in.Operation == controlplanev1.OperationRecreation:
		return p.last().Name != controlplanev1.OperationRecreation
	case in.Operation == controlplanev1.OperationCreation: // CAPT itself completes the WorkspaceTemplateApply while it is created.
		return p.last().Name != controlplanev1.OperationCreation
	}
	return p.Revision != 0 && in.Revision != 0 && p.Revision != in.Revision
}

// retries reports whether the last operation failed and is tried again. It keeps its start and its percentage.
func (p *state) retries(in *Observed) bool {
	last := p.last()
	return last != nil && last.Outcome == controlplanev1.OutcomeFailed && last.Name == in.Operation && (p.Revision == 0 || p.Revision == in.Revision)
}

// start adds an operation to the history. It started when Terraform did, if this reconcile is late.
func (p *state) start(in *Observed) {
	at := in.Now
	if last := p.last(); in.Started.Before(at) && !in.Started.IsZero() && (last == nil || last.CompletionTime.Time.Before(in.Started)) {
		at = in.Started
	}
	p.History = append(p.History, controlplanev1.OperationRecord{Name: in.Operation, StartTime: timeOf(at)})
	p.History = p.History[max(0, len(p.History)-maxHistory):]
	p.PercentComplete, p.Revision = nil, 0
}

// timeOf is a time as the API server stores it.
func timeOf(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t).Rfc3339Copy()) }
