/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package workspace

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// soon is when a Workspace of the tests is looked at, unless they say otherwise.
var soon = builder.Created.Add(time.Minute)

var circumstances = Circumstances{Now: soon}

// seenAs is what CAPT makes of a row of the table in workspaces.md.
type seenAs struct {
	upToDate, failed, applied bool
	reason, message           string
}

var table = map[builder.Row]seenAs{
	builder.Queued:            {reason: infrav1.ProvisioningReason, message: "waiting for provider-terraform to initialise and plan"},
	builder.Planning:          {reason: infrav1.ProvisioningReason, message: "waiting for provider-terraform to initialise and plan"},
	builder.FirstApplyRunning: {reason: infrav1.ProvisioningReason, message: "Terraform applies the module for the first time"},
	builder.FirstApplyDone:    {reason: infrav1.ProvisioningReason, message: "Terraform applies the module for the first time"},
	builder.AtRest:            {upToDate: true, applied: true, reason: infrav1.UpToDateReason},
	builder.FirstApplyFailed:  {failed: true, reason: infrav1.ApplyFailedReason, message: "VpcLimitExceeded"},
	builder.Updating:          {applied: true, reason: infrav1.ProvisioningReason, message: "Terraform applies a change"},
	builder.UpdateFailed:      {failed: true, applied: true, reason: infrav1.ApplyFailedReason, message: "ThrottlingException"},
	builder.PlanFailed:        {failed: true, applied: true, reason: infrav1.PlanFailedReason, message: "Unsupported argument"},
	builder.ProviderConfigMissing: {
		failed: true, reason: infrav1.ProviderConfigFailedReason, message: `ProviderConfig.tf.upbound.io "aws" not found`},
	builder.WorkspacePaused: {applied: true, reason: infrav1.WorkspacePausedReason, message: "crossplane.io/paused"},
	builder.Destroying:      {applied: true, reason: infrav1.WorkspaceDeletingReason, message: "the Workspace was deleted"},
	builder.DestroyFailed:   {failed: true, reason: infrav1.DestroyFailedReason, message: "DependencyViolation"},
	builder.Interrupted:     {failed: true, reason: infrav1.CreateInterruptedReason, message: "crossplane.io/external-create-pending"},
}

func checkRow(t *testing.T, want seenAs, got Observation) {
	t.Helper()
	assert.Equal(t, want, seenAs{upToDate: got.UpToDate, failed: got.Failed, applied: got.Applied, reason: got.Reason, message: want.message})
	if want.message == "" {
		assert.Empty(t, got.Message)
	}
	assert.Contains(t, got.Message, want.message)
	assert.NotContains(t, got.Message, builder.Secret)
	assert.NotContains(t, got.Message, "echo")
}

func TestEachRowOfTheTableWithProviderV1(t *testing.T) {
	require.Len(t, table, len(builder.Rows()))
	for _, row := range builder.Rows() {
		t.Run(string(row), func(t *testing.T) {
			checkRow(t, table[row], Observe(mustLive(t, builder.Workspace("demo-vpc", row)), circumstances))
		})
	}
}

// Before v1 no condition has a generation. A condition must have moved since our last write.
func TestEachRowOfTheTableWithProviderV0(t *testing.T) {
	for _, row := range builder.Rows() {
		t.Run(string(row), func(t *testing.T) {
			wrote := builder.Created // The conditions moved a minute later.
			if row == builder.Updating {
				wrote = builder.Created.Add(time.Hour)
			}
			workspace := builder.Workspace("demo-vpc", row, builder.OfV0(), builder.WrittenBy(naming.WorkspaceTemplateApplyFieldManager, wrote, "{}"))
			checkRow(t, table[row], Observe(mustLive(t, workspace), circumstances))
		})
	}
}

func TestAWorkspaceThatWasNotWrittenYetIsNotUpToDate(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.AtRest)), Circumstances{Now: soon, Differs: true})
	assert.False(t, got.UpToDate)
	assert.Equal(t, infrav1.ProvisioningReason, got.Reason)
}

func TestAnErrorCountsEvenForAWorkspaceThatWasNotWrittenYet(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.UpdateFailed)), Circumstances{Now: soon, Differs: true})
	assert.True(t, got.Failed)
}

func TestWithProviderV0(t *testing.T) {
	ours, theirs := naming.WorkspaceTemplateApplyFieldManager, "provider-terraform"
	moved := builder.Created.Add(time.Minute)
	for name, row := range map[string]struct {
		written []builder.Option
		want    bool
	}{
		"a Workspace CAPT never wrote is up to date":                 {nil, true},
		"one written before its conditions moved, too":               {[]builder.Option{builder.WrittenBy(ours, moved.Add(-time.Second), "{}")}, true},
		"one written in the second in which they moved may be later": {[]builder.Option{builder.WrittenBy(ours, moved, "{}")}, false},
		"one written afterwards is not":                              {[]builder.Option{builder.WrittenBy(ours, moved.Add(time.Second), "{}")}, false},
		"what somebody else wrote afterwards does not count":         {[]builder.Option{builder.WrittenBy(theirs, moved.Add(time.Second), "{}")}, true},
		"status that was written since tells that it was applied": {
			[]builder.Option{builder.WrittenBy(ours, moved.Add(time.Hour), "{}"), statusWritten(theirs, moved.Add(2*time.Hour))}, true},
		"status that was written before does not": {
			[]builder.Option{statusWritten(theirs, moved.Add(time.Hour)), builder.WrittenBy(ours, moved.Add(time.Hour), "{}")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{builder.OfV0(), builder.WithGeneration(2)}, row.written...)...)
			assert.Equal(t, row.want, Observe(mustLive(t, workspace), circumstances).UpToDate)
		})
	}
}

// What was never changed can not be stale, whatever the clocks say.
func TestAWorkspaceThatWasNotChangedSinceItWasMadeIsSeen(t *testing.T) {
	written := builder.WrittenBy(naming.WorkspaceTemplateApplyFieldManager, builder.Created.Add(time.Hour), "{}")
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.OfV0(), builder.WithGeneration(1), written)
	assert.True(t, Observe(mustLive(t, workspace), circumstances).UpToDate)
}

// statusWritten says when the provider last changed status.
func statusWritten(manager string, when time.Time) builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		object.SetManagedFields(append(object.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: ptr.To(metav1.NewTime(when)),
		}))
	})
}

func TestAWorkspaceThatTheProviderDoesNotClaimIsToldAfterAWhile(t *testing.T) {
	workspace := mustLive(t, builder.Workspace("demo-vpc", builder.Queued))
	early := Observe(workspace, Circumstances{Now: builder.Created.Add(time.Minute)})
	assert.Equal(t, infrav1.ProvisioningReason, early.Reason)
	assert.Equal(t, time.Minute, early.LookAgain)

	late := Observe(workspace, Circumstances{Now: builder.Created.Add(2 * time.Minute)})
	assert.Equal(t, infrav1.WorkspaceUnclaimedReason, late.Reason)
	assert.Contains(t, late.Message, "made at 2026-01-02T03:04:05Z and not yet claimed by provider-terraform")
	assert.Zero(t, late.LookAgain, "its first sign of life is an event")
}

// With v1 the generation decides, not the clock.
func TestWithProviderV1ClocksDoNotCount(t *testing.T) {
	late := builder.WrittenBy(naming.WorkspaceTemplateApplyFieldManager, builder.Created.Add(time.Hour), "{}")
	assert.True(t, Observe(mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, late)), circumstances).UpToDate)
}

func TestAWorkspaceIsBothDeletedAndPaused(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.WorkspacePaused, builder.Deleting())), circumstances)
	assert.False(t, got.Failed, "nobody failed: Terraform does not run")
	assert.Equal(t, infrav1.WorkspacePausedReason, got.Reason)
	assert.Contains(t, got.Message, "crossplane.io/paused")
}

// Until destroy returns, Synced is that of before.
func TestWhileAWorkspaceIsDestroyedAnEarlierErrorOfApplyIsNoNews(t *testing.T) {
	for _, row := range []builder.Row{builder.FirstApplyFailed, builder.UpdateFailed} {
		got := Observe(mustLive(t, builder.Workspace("demo-vpc", row, builder.Deleting())), circumstances)
		assert.False(t, got.Failed, row)
		assert.Equal(t, infrav1.WorkspaceDeletingReason, got.Reason, row)
	}
}

func TestWhatKeepsAWorkspaceFromBeingDestroyedIsTold(t *testing.T) {
	for row, reason := range map[builder.Row]string{
		builder.PlanFailed:            infrav1.PlanFailedReason,
		builder.ProviderConfigMissing: infrav1.ProviderConfigFailedReason,
		builder.Interrupted:           infrav1.CreateInterruptedReason,
		builder.DestroyFailed:         infrav1.DestroyFailedReason,
	} {
		got := Observe(mustLive(t, builder.Workspace("demo-vpc", row, builder.Deleting())), circumstances)
		assert.True(t, got.Failed, row)
		assert.Equal(t, reason, got.Reason, row)
	}
}

func TestANamespaceThatIsBeingDeletedKeepsTheProviderFromDestroying(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.Destroying, builder.WithError(
		`connect failed: cannot track ProviderConfig usage: cannot apply ProviderConfigUsage: cannot create object: providerconfigusages "x" is forbidden: unable to create new content in namespace default because it is being terminated`))
	got := Observe(mustLive(t, workspace), circumstances)
	assert.True(t, got.Failed)
	assert.Equal(t, infrav1.NamespaceTerminatingReason, got.Reason)
	assert.Contains(t, got.Message, "remove the finalizers of the Workspace")
}

func TestTheMessageOfAnObservationIsShortToo(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithError("create failed: "+strings.Repeat("long ", 10_000)))
	got := Observe(mustLive(t, workspace), circumstances)
	assert.LessOrEqual(t, len(got.Message), 1024)
	assert.Contains(t, got.Message, "Terraform could not apply")
}

func TestOnlyListedOutputsArePublished(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{
		"vpc_id": "vpc-1", "kubeconfig": "secret", "other": "x",
	}))
	got := Observe(mustLive(t, workspace), Circumstances{Published: terraform.PublishedOutputs()})
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, got.Outputs)
}

func TestOutputsAreTextOrJSON(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{
		"text": "as it is, \"quotes\" included", "empty": "", "number": int64(3), "fraction": 1.5, "truth": true, "nothing": nil,
		"list": []any{"a", int64(1)}, "map": map[string]any{"b": "x", "a": "y"},
	}))
	published := []string{"text", "empty", "number", "fraction", "truth", "nothing", "list", "map", "missing"}
	assert.Equal(t, map[string]string{
		"text": "as it is, \"quotes\" included", "empty": "", "number": "3", "fraction": "1.5", "truth": "true", "nothing": "",
		"list": `["a",1]`, "map": `{"a":"y","b":"x"}`,
	}, Observe(mustLive(t, workspace), Circumstances{Published: published}).Outputs)
}

func TestAWorkspaceWithoutOutputsPublishesNone(t *testing.T) {
	assert.Nil(t, Observe(mustLive(t, builder.Workspace("demo-vpc", builder.FirstApplyDone)), Circumstances{Published: terraform.PublishedOutputs()}).Outputs)
}
