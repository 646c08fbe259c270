// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

const (
	// shortest is the shortest duration that counts: Terraform applied nothing in a shorter one.
	shortest = 10 * time.Second
	// maxOthers limits how many control planes of a template are read. Any of them serve as a sample.
	maxOthers = 100
)

// Durations are the durations of operations that succeeded.
type Durations map[controlplanev1.Operation][]time.Duration

// add adds the operations of a control plane.
func (d Durations) add(p *controlplanev1.Progress) {
	if p == nil {
		return
	}
	for i := range p.History {
		record := &p.History[i]
		if record.Outcome != controlplanev1.OutcomeSucceeded || record.StartTime == nil || record.CompletionTime == nil {
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

// Earlier reads the operations of the control planes that a cache has and that use the same WorkspaceTemplate for the control plane. index is
// the index by the keys of templates.
func Earlier(ctx context.Context, cache client.Reader, index string, controlPlane *controlplanev1.CAPTControlPlane) (Durations, error) {
	key, self := templateOf(controlPlane), client.ObjectKeyFromObject(controlPlane)
	var others controlplanev1.CAPTControlPlaneList
	if err := cache.List(ctx, &others, client.MatchingFields{index: key}, client.Limit(maxOthers), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the CAPTControlPlanes of WorkspaceTemplate %s: %w", key, err)
	}
	earlier := Durations{}
	for i := range others.Items {
		if other := &others.Items[i]; client.ObjectKeyFromObject(other) != self && templateOf(other) == key {
			earlier.add(other.Status.Progress)
		}
	}
	return earlier, nil
}

func templateOf(controlPlane *controlplanev1.CAPTControlPlane) string {
	return controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace).String()
}
