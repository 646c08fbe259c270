// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package previews

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspace/planlogs"
)

const (
	// planTimeout is how long after the request of a plan its entry in the log may be missing: the provider reports the plan before that is
	// flushed, or the log cannot be read at the moment.
	planTimeout = 40 * time.Second
	// planInterval is how often the log is read until then.
	planInterval = 5 * time.Second
)

// Limits of the API. It allows longer messages, but status has several of them.
const (
	maxTypes, maxTypeLength, maxUnknown, maxMessage = 64, 256, 1024, 4096
)

// PlanReader reads what Terraform would change, from the newest plan of a Workspace since a time. If that is not known, the error is a
// planlog.UnknownError.
type PlanReader interface {
	Plan(ctx context.Context, workspace string, since time.Time) (*planlog.Changes, error)
}

// Observe adds the error of a preview of a Workspace that is wanted, how often it was exchanged, and what Terraform would change if only that is
// missing for a result.
func (r Runner) Observe(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, of *workspace.Live, f *Facts) error {
	if f.Live != nil && f.Live.ErrorHash() != "" {
		f.Failure = r.Workspaces.ExplainPreview(ctx, f.Live, of)
	}
	f.Exchanged = r.Slots.Exchanged(client.ObjectKeyFromObject(apply), f.Wanted.Revision)
	if !Decide(f).AwaitsPlan {
		return nil
	}
	switch {
	case r.Plans == nil:
		f.Changes = unknown("this manager does not read the log of provider-terraform (flag --provider-namespace)")
		return nil
	case !f.Live.LogsPlan():
		r.Metrics.Unknown(string(planlog.NotJSON))
		f.Changes = unknown("the preview was planned without -json: the plan with it failed, or the API server does not keep enableTerraformCLILogging")
		return nil
	}
	changes, err := r.Plans.Plan(ctx, f.Live.GetName(), f.Live.GetCreationTimestamp().Time)
	var reason *planlog.UnknownError
	switch {
	case err == nil:
		r.Metrics.Read(f.Now.Sub(changes.Time))
		f.Changes = planned(changes)
	case !errors.As(err, &reason):
		return fmt.Errorf("reading the plan of preview %s: %w", f.Live.GetName(), err)
	case !mayBecomeKnown(reason.Reason) || f.Now.Sub(f.Live.AskedAt()).Abs() >= planTimeout:
		r.Metrics.Unknown(string(reason.Reason))
		f.Changes = unknown(reason.Message)
	}
	return nil
}

// mayBecomeKnown reports whether the log may have the changes a moment later. After a restart, the provider plans again.
func mayBecomeKnown(reason planlog.Reason) bool {
	return slices.Contains([]planlog.Reason{planlog.NoEntry, planlog.PlanFailed, planlog.Incomplete, planlogs.LogGone, planlogs.Unreadable}, reason)
}

func unknown(why string) *infrav1.PlannedChanges {
	return &infrav1.PlannedChanges{Unknown: failure.Truncate(why, maxUnknown)}
}

func planned(changes *planlog.Changes) *infrav1.PlannedChanges {
	switch isLong := func(kind string) bool { return len(kind) > maxTypeLength }; {
	case changes.Total+changes.DriftTotal+changes.OutputTotal == 0: // It may only read data.
		return unknown("the plan is not empty, and lists no resource and no output that changes")
	case len(changes.Destroys) > maxTypes:
		return unknown(fmt.Sprintf("resources of %d types would be replaced or deleted, and at most %d types are recorded", len(changes.Destroys), maxTypes))
	case slices.ContainsFunc(changes.Destroys, isLong), slices.ContainsFunc(changes.Resources, func(r planlog.Resource) bool { return isLong(r.Type) }):
		return unknown(fmt.Sprintf("a type of resource has a name of more than %d bytes", maxTypeLength))
	}
	c := &infrav1.PlannedChanges{Destroys: changes.Destroys, Drifted: number(changes.DriftTotal), Outputs: number(changes.OutputTotal)}
	for _, of := range []struct {
		action planlog.Action
		count  int
	}{
		{planlog.Replace, changes.Replace}, {planlog.Delete, changes.Delete}, {planlog.Forget, changes.Forget}, {planlog.Update, changes.Update},
		{planlog.Create, changes.Create}, {planlog.Import, changes.Import}, {planlog.Move, changes.Move},
	} {
		if of.count > 0 {
			c.Counts = append(c.Counts, infrav1.PlannedCount{Action: actionOf(of.action), Count: number(of.count)})
		}
	}
	for _, r := range changes.Resources {
		c.Resources = append(c.Resources, infrav1.PlannedResource{Address: r.Address, Type: r.Type, Action: actionOf(r.Action), Reason: r.Reason})
	}
	return c
}

// actionOf is the name of an action in the API: with a capital letter.
func actionOf(action planlog.Action) infrav1.PlanAction {
	return infrav1.PlanAction(strings.ToUpper(string(action[:1])) + string(action[1:]))
}

func number(count int) int32 { return int32(count) } //nolint:gosec // An entry of the log is limited to some megabytes.
