// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress computes status.progress of an owner of a WorkspaceTemplateApply: the operation in progress, how much of it is complete, when it is expected to
// complete, and the history. It is pure, and depends on transitions and, while Terraform runs, on full minutes: at rest, time never causes a status write.
package progress

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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
	Operation infrav1.Operation
	// Steps are those that operations of the object have, in order, and Step is the first one that is not complete.
	Steps []Step
	Step  Step
	// Failed is true if the operation does not continue until something changes; Message is the cause, without secrets.
	Failed  bool
	Message string
	// Working is true while something is in progress and nothing is wrong: then the percentage also grows with time.
	Working bool
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
func Next(before *infrav1.Progress, in *Observed) *infrav1.Progress {
	p := &state{Progress: ptr.Deref(before, infrav1.Progress{})}
	p.History = append([]infrav1.OperationRecord(nil), p.History...)
	switch {
	case in.Step == Done:
		p.end(infrav1.OutcomeSucceeded, in)
	case in.Failed:
		p.end(infrav1.OutcomeFailed, in)
	case !in.Paused || p.inProgress():
		p.advance(in)
	}
	if len(p.History) == 0 {
		return before
	}
	return &p.Progress
}

// AsOf returns progress with the remaining time as of a status write that has another cause.
func AsOf(p *infrav1.Progress, now time.Time) *infrav1.Progress {
	if p == nil || p.EstimatedCompletionTime == nil {
		return p
	}
	p = p.DeepCopy()
	p.EstimatedSecondsRemaining = seconds(p.EstimatedCompletionTime.Sub(now))
	return p
}

// state is the progress that Next changes.
type state struct{ infrav1.Progress }

func (p *state) last() *infrav1.OperationRecord {
	if len(p.History) == 0 {
		return nil
	}
	return &p.History[len(p.History)-1]
}

func (p *state) inProgress() bool { return p.last() != nil && p.last().CompletionTime == nil }

// end ends the operation in progress. A success after a failure ends the same operation: Terraform was retried.
func (p *state) end(outcome infrav1.Outcome, in *Observed) {
	last := p.last()
	retried := last != nil && last.Outcome == infrav1.OutcomeFailed && outcome == infrav1.OutcomeSucceeded
	if !p.inProgress() && !retried {
		return
	}
	last.CompletionTime, last.Outcome, last.Message = timeOf(in.Now), outcome, ""
	p.Revision = cmp.Or(in.Revision, p.Revision)
	if outcome == infrav1.OutcomeFailed {
		last.Message = failure.Truncate(in.Message, maxMessage)
	}
	p.CurrentOperation, p.EstimatedCompletionTime, p.EstimatedSecondsRemaining = "", nil, nil
	if outcome == infrav1.OutcomeSucceeded {
		p.PercentComplete = ptr.To[int32](100)
	}
}

// advance starts, continues or supersedes an operation, and computes how much of it is complete.
func (p *state) advance(in *Observed) {
	started := false
	switch {
	case p.inProgress() && p.superseded(in):
		p.end(infrav1.OutcomeSuperseded, in)
		p.start(in)
		started = true
	case p.inProgress():
	case in.Operation == "", !in.hasBegun():
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
	percent := max(ptr.Deref(p.PercentComplete, 0), percentAt(operation, in.Step, in.Steps))
	if started || percent != ptr.Deref(p.PercentComplete, 0) {
		p.PercentComplete = &percent
		// CAPT itself completes a new WorkspaceTemplateApply, which changes its generation: that alone must not cause a status write.
		p.Revision = cmp.Or(in.Revision, p.Revision)
		p.estimate(in)
	}
	if !in.hasBegun() {
		p.EstimatedCompletionTime, p.EstimatedSecondsRemaining = nil, nil
	}
	if minute, ok := p.minute(in.Now); ok && in.Working && !in.Paused {
		p.PercentComplete = ptr.To(p.PercentAt(minute))
	}
}

// hasBegun reports whether anything of the operation is in progress: it is not while the object waits for one that does not exist.
func (in *Observed) hasBegun() bool {
	return in.Working || in.Step != Validation && in.Step != Infrastructure
}

// interval is how often the percentage grows between two steps: each time is a status write. So an operation that is shorter has none.
const interval = time.Minute

// minute is the last full interval since the operation in progress started; false without an estimate.
func (p *state) minute(now time.Time) (time.Time, bool) {
	if !p.inProgress() || p.last().StartTime == nil || p.EstimatedCompletionTime == nil {
		return time.Time{}, false
	}
	started := p.last().StartTime.Time
	return started.Add(now.Sub(started).Truncate(interval)), true
}

// UntilNext returns the duration until the percentage grows with time; zero if it does not.
func UntilNext(before *infrav1.Progress, now time.Time) time.Duration {
	p := &state{ptr.Deref(before, infrav1.Progress{})}
	if minute, ok := p.minute(now); ok && minute.Before(p.EstimatedCompletionTime.Time) {
		return minute.Add(interval).Sub(now)
	}
	return 0
}

// superseded reports whether the operation in progress is replaced by another one.
func (p *state) superseded(in *Observed) bool {
	switch {
	case in.Operation == "", in.Paused, in.Operation == infrav1.OperationFargateProfileUpdate: // A step of the operation in progress.
		return false
	case in.Operation == infrav1.OperationRecreation:
		return p.last().Name != infrav1.OperationRecreation
	case in.Operation == infrav1.OperationCreation: // CAPT itself completes the WorkspaceTemplateApply while it is created.
		return p.last().Name != infrav1.OperationCreation
	}
	return p.Revision != 0 && in.Revision != 0 && p.Revision != in.Revision
}

// retries reports whether the last operation failed and is tried again. It keeps its start and its percentage.
func (p *state) retries(in *Observed) bool {
	last := p.last()
	return last != nil && last.Outcome == infrav1.OutcomeFailed && last.Name == in.Operation && (p.Revision == 0 || p.Revision == in.Revision)
}

// start adds an operation to the history. It started when Terraform did, if this reconcile is late.
func (p *state) start(in *Observed) {
	at := in.Now
	if last := p.last(); in.Started.Before(at) && !in.Started.IsZero() && (last == nil || last.CompletionTime.Time.Before(in.Started)) {
		at = in.Started
	}
	p.History = append(p.History, infrav1.OperationRecord{Name: in.Operation, StartTime: timeOf(at)})
	p.History = p.History[max(0, len(p.History)-maxHistory):]
	p.PercentComplete, p.Revision = nil, 0
}

// timeOf is a time as the API server stores it.
func timeOf(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t).Rfc3339Copy()) }

const (
	// shortest is the shortest duration that counts: Terraform applied nothing in a shorter one.
	shortest = 10 * time.Second
	// maxOthers limits how many control planes of a template are read. Any of them serve as a sample.
	maxOthers = 100
)

// Durations are the durations of operations that succeeded.
type Durations map[infrav1.Operation][]time.Duration

// add adds the operations of a control plane.
func (d Durations) add(p *infrav1.Progress) {
	if p == nil {
		return
	}
	for i := range p.History {
		record := &p.History[i]
		if record.Outcome != infrav1.OutcomeSucceeded || record.StartTime == nil || record.CompletionTime == nil {
			continue
		}
		if took := record.CompletionTime.Sub(record.StartTime.Time); took >= shortest {
			d[record.Name] = append(d[record.Name], took)
		}
	}
}

// estimate sets the expected completion: the median duration of this control plane's earlier operations of the kind or, without any, of those
// of other control planes with its template, less what is complete. It is unknown without either.
func (p *state) estimate(in *Observed) {
	p.EstimatedCompletionTime, p.EstimatedSecondsRemaining = nil, nil
	own := Durations{}
	own.add(&p.Progress)
	known := own[p.CurrentOperation]
	if len(known) == 0 {
		known = in.Earlier[p.CurrentOperation]
	}
	if len(known) == 0 {
		return
	}
	remaining := median(known) * time.Duration(100-*p.PercentComplete) / 100
	p.EstimatedCompletionTime = timeOf(in.Now.Add(remaining))
	p.EstimatedSecondsRemaining = seconds(remaining)
}

// median tolerates operations that waited long for a user.
func median(durations []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(durations))[len(durations)/2]
}

// seconds is a remaining time; zero when it is over.
func seconds(remaining time.Duration) *int32 {
	return ptr.To(int32(min(max(0, remaining.Seconds()), math.MaxInt32)))
}

// Object is one whose status has progress.
type Object interface {
	client.Object
	GetLifecycle() *infrav1.Lifecycle
	GetWorkspaceTemplateRef() infrav1.WorkspaceTemplateReference
}

// Earlier reads the operations of other objects of a kind that a cache has, and that use the same WorkspaceTemplate for the same purpose. list is an empty
// list of the kind, and index the index by the keys of templates.
func Earlier(ctx context.Context, cache client.Reader, list client.ObjectList, index string, object Object) (Durations, error) {
	key, self := templateOf(object), client.ObjectKeyFromObject(object)
	if err := cache.List(ctx, list, client.MatchingFields{index: key}, client.Limit(maxOthers), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the objects that use WorkspaceTemplate %s: %w", key, err)
	}
	earlier := Durations{}
	return earlier, meta.EachListItem(list, func(item runtime.Object) error {
		if other, ok := item.(Object); ok && client.ObjectKeyFromObject(other) != self && templateOf(other) == key {
			earlier.add(other.GetLifecycle().Progress)
		}
		return nil
	})
}

func templateOf(object Object) string {
	ref := object.GetWorkspaceTemplateRef()
	return ref.Key(object.GetNamespace()).String()
}

// Step is a step of an operation.
type Step string

const (
	// Validation: the Cluster, references, the version, the region and the template are checked.
	Validation Step = "Validation"
	// Infrastructure: what the object is created in, the VPC of a control plane or the control plane of a node group.
	Infrastructure Step = "Infrastructure"
	// Workspace: Terraform applies the Workspace.
	Workspace Step = "Workspace"
	// Endpoint: the endpoint is read from the outputs and published.
	Endpoint Step = "Endpoint"
	// Kubeconfig: the kubeconfig is written.
	Kubeconfig Step = "Kubeconfig"
	// FargateProfiles: Terraform applies the Workspaces of the Fargate profiles.
	FargateProfiles Step = "FargateProfiles"
	// APIServer: the API server answers for the first time, if spec.endpointProbe is Required.
	APIServer Step = "APIServer"
	// Nodes: the nodes join the cluster, and are ready.
	Nodes Step = "Nodes"
	// Done: all steps are complete.
	Done Step = "Done"
)

// Steps of each kind, in order.
func Steps() map[string][]Step {
	return map[string][]Step{
		"CAPTCluster":      {Validation, Workspace},
		"CAPTControlPlane": {Validation, Infrastructure, Workspace, Endpoint, Kubeconfig, FargateProfiles, APIServer},
		"CAPTMachinePool":  {Validation, Infrastructure, Workspace, Nodes},
	}
}

// Weights returns what each step contributes to the percentage of an operation, in relation to the other steps that the kind has; docs/status.md has the
// same table.
func Weights() map[infrav1.Operation]map[Step]int32 {
	apply := map[Step]int32{Validation: 5, Workspace: 80, Endpoint: 3, Kubeconfig: 2, FargateProfiles: 10, Nodes: 15}
	return map[infrav1.Operation]map[Step]int32{
		infrav1.OperationCreation:             {Validation: 5, Infrastructure: 20, Workspace: 60, Endpoint: 3, Kubeconfig: 2, FargateProfiles: 8, APIServer: 2, Nodes: 15},
		infrav1.OperationUpdate:               apply,
		infrav1.OperationRecreation:           apply,
		infrav1.OperationFargateProfileUpdate: {Validation: 5, FargateProfiles: 95},
	}
}

// percentAt returns the percentage of an operation that is complete when a step begins, for an object with steps.
func percentAt(operation infrav1.Operation, step Step, steps []Step) int32 {
	var complete, all int32
	weights, before := Weights()[operation], true
	for _, is := range steps {
		before = before && is != step
		if before {
			complete += weights[is]
		}
		all += weights[is]
	}
	return complete * 100 / max(all, 1)
}
