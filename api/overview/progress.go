// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// Progress of an operation, as of now. Status changes only when a step is complete; between steps, the percentage grows with time.
type Progress struct {
	Operation controlplanev1.Operation `json:"operation"`
	// PercentComplete is from 0 to 99: a complete operation is not in progress.
	PercentComplete int32 `json:"percentComplete"`
	// Started is when the operation started, and EstimatedCompletion when it is expected to complete; absent when unknown.
	Started             *metav1.Time `json:"started,omitempty"`
	EstimatedCompletion *metav1.Time `json:"estimatedCompletion,omitempty"`
	Overdue             bool         `json:"overdue,omitempty"` // Overdue is true after EstimatedCompletion.
}

// mostPercent is the percentage of an operation that is not complete but takes longer than expected.
const mostPercent = 99

// progressOf returns the progress of the operation in progress; nil when none is.
func progressOf(p *controlplanev1.Progress, now metav1.Time) *Progress {
	if p == nil || p.CurrentOperation == "" {
		return nil
	}
	progress := &Progress{Operation: p.CurrentOperation, PercentComplete: ptr.Deref(p.PercentComplete, 0), EstimatedCompletion: p.EstimatedCompletionTime}
	if len(p.History) > 0 {
		progress.Started = p.History[len(p.History)-1].StartTime
	}
	progress.PercentComplete = min(mostPercent, max(progress.PercentComplete, progress.elapsed(now)))
	progress.Overdue = p.EstimatedCompletionTime != nil && p.EstimatedCompletionTime.Before(&now)
	return progress
}

// stalled is the progress of an operation that does not continue without the user: time does not change it.
func (p *Progress) stalled(reported *controlplanev1.Progress) *Progress {
	return &Progress{Operation: p.Operation, Started: p.Started, PercentComplete: ptr.Deref(reported.PercentComplete, 0)}
}

// elapsed is the part of the expected duration that has passed, in percent.
func (p *Progress) elapsed(now metav1.Time) int32 {
	if p.Started == nil || p.EstimatedCompletion == nil {
		return 0
	}
	passed, expected := now.Sub(p.Started.Time), p.EstimatedCompletion.Sub(p.Started.Time)
	if passed <= 0 || expected <= 0 {
		return 0
	}
	return int32(100 * min(1, passed.Seconds()/expected.Seconds()))
}

// Remaining is the time until the operation is expected to complete; zero when that is unknown or has passed.
func (p *Progress) Remaining(now time.Time) time.Duration {
	if p.EstimatedCompletion == nil {
		return 0
	}
	return max(0, p.EstimatedCompletion.Sub(now))
}
