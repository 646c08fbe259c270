// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

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
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace/failure"
	"github.com/capt-provider/capt/test/builder"
)

// look observes a Workspace that was written as it was rendered, and takes no secrets.
func look(t *testing.T, workspace *unstructured.Unstructured) Observation {
	t.Helper()
	live := mustLive(t, workspace)
	return Observe(live, Circumstances{Told: told(live)})
}

func told(live *Live) failure.Told {
	if !live.failed() {
		return failure.Told{}
	}
	return failure.Tell(live.condition(conditionSynced).Message, nil, false)
}

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
	builder.Updating:          {applied: true, reason: infrav1.ProvisioningReason, message: "provider-terraform has not reported on it yet"},
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
			checkRow(t, table[row], look(t, builder.Workspace("demo-vpc", row)))
		})
	}
}

// Before v1 no condition has a generation.
func TestEachRowOfTheTableWithProviderV0(t *testing.T) {
	for _, row := range builder.Rows() {
		t.Run(string(row), func(t *testing.T) {
			workspace := builder.Workspace("demo-vpc", row, builder.OfV0(), specChanged(builder.Created))
			checkRow(t, table[row], look(t, workspace))
		})
	}
}

func TestAWorkspaceThatWasNotWrittenYetIsNotUpToDate(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.AtRest)), Circumstances{Differs: true})
	assert.False(t, got.UpToDate)
	assert.Equal(t, infrav1.ProvisioningReason, got.Reason)
}

func TestAnErrorCountsEvenForAWorkspaceThatWasNotWrittenYet(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.UpdateFailed)), Circumstances{Differs: true})
	assert.True(t, got.Failed)
}

// specChanged says when somebody last changed the spec of a Workspace.
func specChanged(when time.Time) builder.Option {
	return builder.WrittenBy("somebody", when, `{"f:spec":{"f:forProvider":{}}}`)
}

// statusChanged says when the provider last changed status.
func statusChanged(when time.Time) builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		object.SetManagedFields(append(object.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: "provider-terraform", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: ptr.To(metav1.NewTime(when)),
		}))
	})
}

func TestWithProviderV0AStatusThatChangedSinceTellsOfTheChange(t *testing.T) {
	moment := builder.Created.Add(time.Hour)
	for name, row := range map[string]struct {
		generation int64
		options    []builder.Option
		want       bool
	}{
		"what was never changed can not be stale": {1, []builder.Option{specChanged(moment), statusChanged(moment.Add(-time.Minute))}, true},
		"status of before":                        {2, []builder.Option{statusChanged(moment.Add(-time.Second)), specChanged(moment)}, false},
		"status of the same second":               {2, []builder.Option{statusChanged(moment), specChanged(moment)}, false},
		"status of later":                         {2, []builder.Option{specChanged(moment), statusChanged(moment.Add(time.Second))}, true},
		"a label is no change of spec": {2, []builder.Option{
			specChanged(moment), statusChanged(moment.Add(time.Second)), builder.WrittenBy("kubectl", moment.Add(time.Hour), `{"f:metadata":{}}`)}, true},
		"nobody changed it as far as the API server knows": {2, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{builder.OfV0(), builder.WithGeneration(row.generation)}, row.options...)...)
			assert.Equal(t, row.want, look(t, workspace).UpToDate)
		})
	}
}

// The API server does not record that a field was taken away, which is all that an update may change in status.
func TestWithProviderV0AnyOtherStatusThanThatOfTheWriteTellsOfTheChange(t *testing.T) {
	v0 := func(options ...builder.Option) *Live {
		return mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{builder.OfV0(), builder.WithGeneration(2)}, options...)...))
	}
	checksum := builder.With(func(object *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(object.Object, "abc", "status", "atProvider", "checksum"))
	})
	written := v0(checksum).Update()
	upToDate := func(live *Live) bool { return Observe(live, Circumstances{LastUpdate: written}).UpToDate }
	assert.False(t, upToDate(v0(checksum)))
	assert.True(t, upToDate(v0()), "the provider took the checksum away when it had applied")
	assert.Equal(t, written, v0(checksum).Seen(written))
	seen := v0().Seen(written)
	assert.True(t, Observe(v0(checksum), Circumstances{LastUpdate: seen}).UpToDate, "a later look finds what it found before the change")
	again := []builder.Option{builder.WithGeneration(3), statusChanged(builder.Created), specChanged(builder.Created.Add(time.Hour))}
	assert.False(t, upToDate(v0(again...)), "somebody changed it again")
}

// With v1 the generation decides, and neither clocks nor hashes. A Workspace from a backup can show a later one than it has.
func TestWithProviderV1TheGenerationDecides(t *testing.T) {
	atRest := func(generation int64) *Live {
		return mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, specChanged(builder.Created.Add(time.Hour)),
			builder.WithGeneration(generation), builder.With(func(object *unstructured.Unstructured) {
				conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
				conditions[1].(map[string]any)["observedGeneration"] = int64(5)
				require.NoError(t, unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"))
			})))
	}
	assert.True(t, Observe(atRest(5), Circumstances{}).UpToDate)
	assert.False(t, Observe(atRest(6), Circumstances{}).UpToDate)
	assert.False(t, Observe(atRest(2), Circumstances{}).UpToDate)
}

func TestAWorkspaceThatTheProviderDoesNotClaimIsToldAfterAWhile(t *testing.T) {
	workspace := mustLive(t, builder.Workspace("demo-vpc", builder.Queued))
	early := Observe(workspace, Circumstances{Watched: time.Minute})
	assert.Equal(t, infrav1.ProvisioningReason, early.Reason)
	assert.Equal(t, time.Minute, early.LookAgain)

	late := Observe(workspace, Circumstances{Watched: 2 * time.Minute})
	assert.Equal(t, infrav1.WorkspaceUnclaimedReason, late.Reason)
	assert.Contains(t, late.Message, "made at 2026-01-02T03:04:05Z and not yet claimed by provider-terraform")
	assert.Zero(t, late.LookAgain, "its first sign of life is an event")
}

func TestAWorkspaceIsBothDeletedAndPaused(t *testing.T) {
	got := look(t, builder.Workspace("demo-vpc", builder.WorkspacePaused, builder.Deleting()))
	assert.False(t, got.Failed, "nobody failed: Terraform does not run")
	assert.Equal(t, infrav1.WorkspacePausedReason, got.Reason)
	assert.Contains(t, got.Message, "crossplane.io/paused")
}

// Until destroy returns, Synced is that of before.
func TestWhileAWorkspaceIsDestroyedAnEarlierErrorOfApplyIsNoNews(t *testing.T) {
	for _, row := range []builder.Row{builder.FirstApplyFailed, builder.UpdateFailed} {
		got := look(t, builder.Workspace("demo-vpc", row, builder.Deleting()))
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
		got := look(t, builder.Workspace("demo-vpc", row, builder.Deleting()))
		assert.True(t, got.Failed, row)
		assert.Equal(t, reason, got.Reason, row)
	}
}

func TestANamespaceThatIsBeingDeletedKeepsTheProviderFromDestroying(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.Destroying, builder.WithError(
		`connect failed: cannot track ProviderConfig usage: cannot apply ProviderConfigUsage: cannot create object: providerconfigusages "x" is forbidden: unable to create new content in namespace default because it is being terminated`))
	got := look(t, workspace)
	assert.True(t, got.Failed)
	assert.Equal(t, infrav1.NamespaceTerminatingReason, got.Reason)
	assert.Contains(t, got.Message, "remove the finalizers of the Workspace")
}

func TestTheMessageOfAnObservationIsShortToo(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithError("create failed: "+strings.Repeat("long ", 10_000)))
	got := look(t, workspace)
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

// Times in objects have whole seconds.
func TestWhenTerraformBegan(t *testing.T) {
	changed := builder.Created.Add(time.Hour)
	known := builder.Created.Add(30 * time.Minute)
	for name, row := range map[string]struct {
		row     builder.Row
		options []builder.Option
		known   time.Time
		want    time.Time
	}{
		"in the queue":                       {row: builder.Queued},
		"planning":                           {row: builder.Planning},
		"its ProviderConfig is missing":      {row: builder.ProviderConfigMissing},
		"applying for the first time":        {row: builder.FirstApplyRunning, want: builder.Created},
		"trying once more":                   {row: builder.FirstApplyFailed, options: []builder.Option{builder.WithAnnotation(createPending, known.Format(time.RFC3339))}, known: builder.Created, want: builder.Created},
		"trying once more, status was lost":  {row: builder.FirstApplyFailed, options: []builder.Option{builder.WithAnnotation(createPending, known.Format(time.RFC3339))}, want: known},
		"changed after that":                 {row: builder.FirstApplyFailed, options: []builder.Option{specChanged(changed)}, known: known, want: changed},
		"an update":                          {row: builder.Updating, options: []builder.Option{specChanged(changed)}, want: changed},
		"an update that was seen before":     {row: builder.UpdateFailed, options: []builder.Option{specChanged(changed)}, known: changed, want: changed},
		"a note of the provider that is odd": {row: builder.FirstApplyRunning, options: []builder.Option{builder.WithAnnotation(createPending, "yesterday")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustLive(t, builder.Workspace("demo-vpc", row.row, row.options...)).Started(row.known)
			assert.True(t, row.want.Equal(got), "%s, not %s", got, row.want)
		})
	}
}
