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
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

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
			checkRow(t, table[row], Observe(mustLive(t, builder.Workspace("demo-vpc", row)), false, nil))
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
			checkRow(t, table[row], Observe(mustLive(t, workspace), false, nil))
		})
	}
}

func TestAWorkspaceThatWasNotWrittenYetIsNotUpToDate(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.AtRest)), true, nil)
	assert.False(t, got.UpToDate)
	assert.Equal(t, infrav1.ProvisioningReason, got.Reason)
}

func TestAnErrorCountsEvenForAWorkspaceThatWasNotWrittenYet(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.UpdateFailed)), true, nil)
	assert.True(t, got.Failed)
}

func TestWithProviderV0(t *testing.T) {
	ours, theirs := naming.WorkspaceTemplateApplyFieldManager, "provider-terraform"
	moved := builder.Created.Add(time.Minute)
	for name, row := range map[string]struct {
		written []builder.Option
		want    bool
	}{
		"a Workspace CAPT never wrote is up to date":         {nil, true},
		"one written before its conditions moved, too":       {[]builder.Option{builder.WrittenBy(ours, moved.Add(-time.Second), "{}")}, true},
		"one written in the second in which they moved, too": {[]builder.Option{builder.WrittenBy(ours, moved, "{}")}, true},
		"one written afterwards is not":                      {[]builder.Option{builder.WrittenBy(ours, moved.Add(time.Second), "{}")}, false},
		"what somebody else wrote afterwards does not count": {[]builder.Option{builder.WrittenBy(theirs, moved.Add(time.Second), "{}")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{builder.OfV0()}, row.written...)...)
			assert.Equal(t, row.want, Observe(mustLive(t, workspace), false, nil).UpToDate)
		})
	}
}

// With v1 the generation decides, not the clock.
func TestWithProviderV1ClocksDoNotCount(t *testing.T) {
	late := builder.WrittenBy(naming.WorkspaceTemplateApplyFieldManager, builder.Created.Add(time.Hour), "{}")
	assert.True(t, Observe(mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, late)), false, nil).UpToDate)
}

func TestAWorkspaceIsBothDeletedAndPaused(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.WorkspacePaused, builder.Deleting())), false, nil)
	assert.False(t, got.Failed, "nobody failed: Terraform does not run")
	assert.Equal(t, infrav1.WorkspacePausedReason, got.Reason)
	assert.Contains(t, got.Message, "crossplane.io/paused")
}

// Until destroy returns, Synced is that of before.
func TestWhileAWorkspaceIsDestroyedAnEarlierErrorOfApplyIsNoNews(t *testing.T) {
	for _, row := range []builder.Row{builder.FirstApplyFailed, builder.UpdateFailed} {
		got := Observe(mustLive(t, builder.Workspace("demo-vpc", row, builder.Deleting())), false, nil)
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
		got := Observe(mustLive(t, builder.Workspace("demo-vpc", row, builder.Deleting())), false, nil)
		assert.True(t, got.Failed, row)
		assert.Equal(t, reason, got.Reason, row)
	}
}

func TestANamespaceThatIsBeingDeletedKeepsTheProviderFromDestroying(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.Destroying, builder.WithError(
		`connect failed: cannot track ProviderConfig usage: cannot apply ProviderConfigUsage: cannot create object: providerconfigusages "x" is forbidden: unable to create new content in namespace default because it is being terminated`))
	got := Observe(mustLive(t, workspace), false, nil)
	assert.True(t, got.Failed)
	assert.Equal(t, infrav1.NamespaceTerminatingReason, got.Reason)
	assert.Contains(t, got.Message, "remove the finalizers of the Workspace")
}

func TestReadable(t *testing.T) {
	for name, row := range map[string]struct{ message, want string }{
		"the copy of the output is cut off": {
			"create failed: Summary: bad. To see the full error run: echo \"H4sIAAAA\" | base64 -d | gunzip", "create failed: Summary: bad."},
		"an older form of it, too":    {"create failed: bad: echo \"H4sIAAAA\" | base64 -d", "create failed: bad"},
		"line breaks become blanks":   {"create failed:\n\n  bad\tthing\n", "create failed: bad thing"},
		"what is readable stays":      {"observe failed: cannot diff", "observe failed: cannot diff"},
		"nothing":                     {"", ""},
		"only the copy of the output": {"echo \"H4sIAAAA\" | base64 -d | gunzip", ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, Readable(row.message)) })
	}
}

func TestReadableIsShortAndStaysText(t *testing.T) {
	for shift := range 4 {
		got := Readable(strings.Repeat("x", shift) + strings.Repeat("東", 40_000))
		assert.LessOrEqual(t, len(got), 1024)
		assert.True(t, utf8.ValidString(got))
		assert.True(t, strings.HasSuffix(got, "…"))
	}
}

func TestTheMessageOfAnObservationIsShortToo(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithError("create failed: "+strings.Repeat("long ", 10_000)))
	got := Observe(mustLive(t, workspace), false, nil)
	assert.LessOrEqual(t, len(got.Message), 1024)
	assert.Contains(t, got.Message, "Terraform could not apply")
}

func TestOnlyListedOutputsArePublished(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{
		"vpc_id": "vpc-1", "kubeconfig": "secret", "other": "x",
	}))
	got := Observe(mustLive(t, workspace), false, terraform.PublishedOutputs())
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
	}, Observe(mustLive(t, workspace), false, published).Outputs)
}

func TestAWorkspaceWithoutOutputsPublishesNone(t *testing.T) {
	assert.Nil(t, Observe(mustLive(t, builder.Workspace("demo-vpc", builder.FirstApplyDone)), false, terraform.PublishedOutputs()).Outputs)
}
