// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/test/builder"
)

// observe observes a Workspace that is as rendered, and uses no secrets.
func observe(t *testing.T, workspace *unstructured.Unstructured) Observation {
	t.Helper()
	live := mustLive(t, workspace)
	return Observe(live, ObserveInput{Failure: report(live)})
}

func report(live *Live) failure.Report {
	if !live.failed() {
		return failure.Report{}
	}
	return failure.Explain(live.condition(conditionSynced).Message, failure.Secrets{}, "")
}

// observed is the expected observation of a state of a Workspace.
type observed struct {
	upToDate, failed, applied bool
	reason, message           string
}

var table = map[builder.Row]observed{
	builder.Queued:            {reason: infrav1.ProvisioningReason, message: "waiting for provider-terraform to run terraform init and plan"},
	builder.Planning:          {reason: infrav1.ProvisioningReason, message: "waiting for provider-terraform to run terraform init and plan"},
	builder.FirstApplyRunning: {reason: infrav1.ProvisioningReason, message: "waiting for Terraform to apply the module for the first time"},
	builder.FirstApplyDone:    {reason: infrav1.ProvisioningReason, message: "waiting for Terraform to apply the module for the first time"},
	builder.AtRest:            {upToDate: true, applied: true, reason: infrav1.UpToDateReason},
	builder.FirstApplyFailed:  {failed: true, reason: infrav1.ApplyFailedReason, message: "VpcLimitExceeded"},
	builder.Updating:          {applied: true, reason: infrav1.ProvisioningReason, message: "provider-terraform has not reported on it yet"},
	builder.UpdateFailed:      {failed: true, applied: true, reason: infrav1.ApplyFailedReason, message: "ThrottlingException"},
	builder.PlanFailed:        {failed: true, applied: true, reason: infrav1.PlanFailedReason, message: "Unsupported argument"},
	builder.ProviderConfigMissing: {
		failed: true, reason: infrav1.ProviderConfigFailedReason, message: `ProviderConfig.tf.upbound.io "aws" not found`},
	builder.WorkspacePaused: {applied: true, reason: infrav1.WorkspacePausedReason, message: "crossplane.io/paused"},
	builder.Destroying:      {applied: true, reason: infrav1.WorkspaceDeletingReason, message: " is being deleted: Terraform destroys its resources"},
	builder.DestroyFailed:   {failed: true, reason: infrav1.DestroyFailedReason, message: "DependencyViolation"},
	builder.Interrupted:     {failed: true, reason: infrav1.CreateInterruptedReason, message: "crossplane.io/external-create-pending"},
	builder.ResourcesExist:  {applied: true, reason: infrav1.ProvisioningReason, message: "at its next poll, 10 minutes later by default"},
}

func checkRow(t *testing.T, want observed, got Observation) {
	t.Helper()
	assert.Equal(t, want, observed{upToDate: got.UpToDate, failed: got.Failed, applied: got.Applied, reason: got.Reason, message: want.message})
	if want.message == "" {
		assert.Empty(t, got.Message)
	}
	assert.Contains(t, got.Message, want.message)
	assert.NotContains(t, got.Message, builder.Secret)
	assert.NotContains(t, got.Message, "echo")
}

// Before v1 no condition of the provider has a generation.
func TestObserveAllStates(t *testing.T) {
	require.Len(t, table, len(builder.Rows()))
	for _, row := range builder.Rows() {
		t.Run(string(row), func(t *testing.T) {
			checkRow(t, table[row], observe(t, builder.Workspace("demo-vpc", row)))
			checkRow(t, table[row], observe(t, builder.Workspace("demo-vpc", row, builder.OfV0(), specChanged(builder.Created))))
		})
	}
}

func TestAChangeOfAnUnreportedWorkspaceIsPending(t *testing.T) {
	changed := mustLive(t, builder.Workspace("demo-vpc", builder.ResourcesExist, builder.WithGeneration(2)))
	assert.Contains(t, Observe(changed, ObserveInput{}).Message, "is pending or in progress")
	assert.True(t, InProgress(changed, nil, ""))
}

func TestAnOutdatedWorkspaceIsNotUpToDateAndReportsItsError(t *testing.T) {
	got := Observe(mustLive(t, builder.Workspace("demo-vpc", builder.AtRest)), ObserveInput{Differs: true})
	assert.False(t, got.UpToDate)
	assert.Equal(t, infrav1.ProvisioningReason, got.Reason)
	assert.True(t, Observe(mustLive(t, builder.Workspace("demo-vpc", builder.UpdateFailed)), ObserveInput{Differs: true}).Failed)
}

// specChanged sets when another client last changed the spec of a Workspace.
func specChanged(when time.Time) builder.Option {
	return writtenBy("kubectl", when, `{"f:spec":{"f:forProvider":{}}}`)
}

// statusChanged sets when the provider last changed status.
func statusChanged(when time.Time) builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		object.SetManagedFields(append(object.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: "provider-terraform", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: ptr.To(metav1.NewTime(when)),
		}))
	})
}

func TestProviderV0AStatusAfterTheChangeIsCurrent(t *testing.T) {
	moment := builder.Created.Add(time.Hour)
	for name, row := range map[string]struct {
		generation int64
		options    []builder.Option
		want       bool
	}{
		"never changed":             {1, []builder.Option{specChanged(moment), statusChanged(moment.Add(-time.Minute))}, true},
		"status before the change":  {2, []builder.Option{statusChanged(moment.Add(-time.Second)), specChanged(moment)}, false},
		"status in the same second": {2, []builder.Option{statusChanged(moment), specChanged(moment)}, false},
		"status after the change":   {2, []builder.Option{specChanged(moment), statusChanged(moment.Add(time.Second))}, true},
		"a later change of labels": {2, []builder.Option{
			specChanged(moment), statusChanged(moment.Add(time.Second)), writtenBy("kubectl", moment.Add(time.Hour), `{"f:metadata":{}}`)}, true},
		"no managedFields": {2, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{builder.OfV0(), builder.WithGeneration(row.generation)}, row.options...)...)
			assert.Equal(t, row.want, observe(t, workspace).UpToDate)
		})
	}
}

// The API server does not record that a field was removed, which may be the only change in status.
func TestProviderV0AChangedStatusIsCurrent(t *testing.T) {
	v0 := func(options ...builder.Option) *Live {
		return mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{builder.OfV0(), builder.WithGeneration(2)}, options...)...))
	}
	checksum := builder.With(func(object *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(object.Object, "abc", "status", "atProvider", "checksum"))
	})
	written := v0(checksum).UpdateRecord()
	upToDate := func(live *Live) bool { return Observe(live, ObserveInput{LastUpdate: written}).UpToDate }
	assert.False(t, upToDate(v0(checksum)))
	assert.True(t, upToDate(v0()), "the provider removed the checksum after it applied")
	assert.Equal(t, written, v0(checksum).RefreshRecord(written))
	seen := v0().RefreshRecord(written)
	assert.True(t, Observe(v0(checksum), ObserveInput{LastUpdate: seen}).UpToDate, "the status is the same as before the change")
	again := []builder.Option{builder.WithGeneration(3), statusChanged(builder.Created), specChanged(builder.Created.Add(time.Hour))}
	assert.False(t, upToDate(v0(again...)), "it was changed again")
}

// A Workspace from a backup can have a status of a later generation.
func TestProviderV1OnlyTheGenerationDecides(t *testing.T) {
	atRest := func(generation int64) *Live {
		return mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, specChanged(builder.Created.Add(time.Hour)),
			builder.WithGeneration(generation), builder.With(func(object *unstructured.Unstructured) {
				conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
				conditions[1].(map[string]any)["observedGeneration"] = int64(5)
				require.NoError(t, unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"))
			})))
	}
	assert.True(t, Observe(atRest(5), ObserveInput{}).UpToDate)
	assert.False(t, Observe(atRest(6), ObserveInput{}).UpToDate)
	assert.False(t, Observe(atRest(2), ObserveInput{}).UpToDate)
	earlier := observe(t, builder.Workspace("demo-vpc", builder.UpdateFailed, builder.WithGeneration(2)))
	assert.Equal(t, infrav1.ProvisioningReason, earlier.Reason, "an error of an earlier generation is not reported")
}

func TestAnUnclaimedWorkspaceIsReportedAfterATimeout(t *testing.T) {
	workspace := mustLive(t, builder.Workspace("demo-vpc", builder.Queued))
	early := Observe(workspace, ObserveInput{UnreconciledFor: time.Minute})
	assert.Equal(t, infrav1.ProvisioningReason, early.Reason)
	assert.Equal(t, time.Minute, early.RequeueAfter)

	late := Observe(workspace, ObserveInput{UnreconciledFor: 2 * time.Minute})
	assert.Equal(t, infrav1.WorkspaceNotReconciledReason, late.Reason)
	assert.Contains(t, late.Message, "created at 2026-01-02T03:04:05Z, and provider-terraform has not reconciled it yet")
	assert.Zero(t, late.RequeueAfter, "its first condition is an event")
}

// Until destroy returns, Synced is of the last apply. Terraform does not run while the Workspace is paused.
func TestAChangeOrADeletionIsReportedAfterATimeoutToo(t *testing.T) {
	for name, row := range map[string]struct {
		workspace *unstructured.Unstructured
		reason    string
		message   string
	}{
		"change":   {builder.Workspace("demo-vpc", builder.Updating), infrav1.NotReportedReason, "the change of Workspace demo-vpc"},
		"deletion": {builder.Workspace("demo-vpc", builder.Destroying), infrav1.WorkspaceDeletingReason, "the deletion of Workspace demo-vpc"},
	} {
		live := mustLive(t, row.workspace)
		before := Observe(live, ObserveInput{UnreconciledFor: ReconcileTimeout - time.Second})
		assert.Equal(t, time.Second, before.RequeueAfter, name)
		assert.NotContains(t, before.Message, "for more than", name)
		got := Observe(live, ObserveInput{UnreconciledFor: ReconcileTimeout})
		assert.True(t, got.Unreported, name)
		assert.Equal(t, row.reason, got.Reason, name)
		assert.Contains(t, got.Message, "provider-terraform has not reported on "+row.message, name)
	}
	for _, row := range []builder.Row{builder.AtRest, builder.UpdateFailed, builder.WorkspacePaused, builder.DestroyFailed} {
		assert.Empty(t, mustLive(t, builder.Workspace("demo-vpc", row)).Unreported(nil), row)
	}
}

func TestAForeignFinalizerIsReportedBecauseTheProviderWaitsForIt(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.Deleting())
	workspace.SetFinalizers([]string{finalizer, "foregroundDeletion"})
	got := observe(t, workspace)
	assert.Contains(t, got.Message, "provider-terraform does not destroy Workspace demo-vpc yet: waiting for finalizers of other controllers: foregroundDeletion")
	assert.Contains(t, got.Message, "kubectl edit workspaces.tf.")
	now := metav1.Now()
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "words", DeletionTimestamp: &now, Finalizers: []string{"example.com/protect"}}}
	assert.Contains(t, mustLive(t, workspace).WaitingForFinalizers(secret), "deletes its connection Secret words first: waiting for finalizers of other controllers: example.com/protect")
}

func TestDuringDestroy(t *testing.T) {
	for row, reason := range map[builder.Row]string{
		builder.WorkspacePaused:       infrav1.WorkspacePausedReason,
		builder.FirstApplyFailed:      infrav1.WorkspaceDeletingReason,
		builder.UpdateFailed:          infrav1.WorkspaceDeletingReason,
		builder.PlanFailed:            infrav1.PlanFailedReason,
		builder.ProviderConfigMissing: infrav1.ProviderConfigFailedReason,
		builder.Interrupted:           infrav1.CreateInterruptedReason,
		builder.DestroyFailed:         infrav1.DestroyFailedReason,
	} {
		got := observe(t, builder.Workspace("demo-vpc", row, builder.Deleting()))
		assert.Equal(t, reason != infrav1.WorkspacePausedReason && reason != infrav1.WorkspaceDeletingReason, got.Failed, row)
		assert.Equal(t, reason, got.Reason, row)
	}
}

func TestAStateThatWasNotSavedIsReportedDifferentlyDuringDestroy(t *testing.T) {
	for want, options := range map[string][]builder.Option{
		"each further run would create them again":          nil,
		"so Terraform does not destroy them with Workspace": {builder.Deleting()},
	} {
		workspace := builder.Workspace("demo-vpc", builder.WorkspacePaused, options...)
		annotations := workspace.GetAnnotations()
		annotations[naming.StateNotSavedAnnotation], annotations[terraform.PausedAnnotation] = "true", "true"
		workspace.SetAnnotations(annotations)
		got := observe(t, workspace)
		assert.Equal(t, infrav1.StateNotSavedReason, got.Reason)
		assert.Contains(t, got.Message, want)
		assert.Contains(t, got.Message, "crossplane.io/paused- capt.cluster.x-k8s.io/state-not-saved-")
	}
}

// The provider reports success for a Workspace that it may only observe.
func TestActionsThatAnotherClientForbidsAreReported(t *testing.T) {
	for _, row := range []builder.Row{builder.AtRest, builder.PlanFailed} {
		for want, policies := range map[bool][]string{true: {"Observe"}, false: {"*"}} {
			workspace := builder.Workspace("demo-vpc", row)
			require.NoError(t, unstructured.SetNestedStringSlice(workspace.Object, policies, "spec", "managementPolicies"))
			got := Observe(mustLive(t, workspace), ObserveInput{AllActions: true})
			assert.Equal(t, want, got.Reason == infrav1.WorkspacePausedReason, got.Message)
			assert.NotEqual(t, infrav1.WorkspacePausedReason, Observe(mustLive(t, workspace), ObserveInput{}).Reason, "the template has them")
		}
	}
}

func TestDestroyInATerminatingNamespaceFails(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.Destroying, builder.WithError(
		`connect failed: cannot track ProviderConfig usage: cannot apply ProviderConfigUsage: cannot create object: providerconfigusages "x" is forbidden: unable to create new content in namespace default because it is being terminated`))
	got := observe(t, workspace)
	assert.True(t, got.Failed)
	assert.Equal(t, infrav1.NamespaceTerminatingReason, got.Reason)
	assert.Contains(t, got.Message, "remove the finalizers of the Workspace")
}

func TestOutputsAreTextOrJSON(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{
		"text": "as it is, \"quotes\" included", "empty": "", "number": int64(3), "fraction": 1.5, "truth": true, "nothing": nil,
		"list": []any{"a", int64(1)}, "map": map[string]any{"b": "x", "a": "y"},
	}))
	assert.Nil(t, Observe(mustLive(t, workspace), ObserveInput{Published: terraform.PublishedOutputs()}).Outputs, "only what is listed")
	published := []string{"text", "empty", "number", "fraction", "truth", "nothing", "list", "map", "missing"}
	assert.Equal(t, map[string]string{
		"text": "as it is, \"quotes\" included", "empty": "", "number": "3", "fraction": "1.5", "truth": "true", "nothing": "",
		"list": `["a",1]`, "map": `{"a":"y","b":"x"}`,
	}, Observe(mustLive(t, workspace), ObserveInput{Published: published}).Outputs)
}

// Times in objects have whole seconds.
func TestStarted(t *testing.T) {
	changed := builder.Created.Add(time.Hour)
	known := builder.Created.Add(30 * time.Minute)
	for name, row := range map[string]struct {
		row     builder.Row
		options []builder.Option
		known   time.Time
		want    time.Time
	}{
		"in the queue":                {row: builder.Queued},
		"planning":                    {row: builder.Planning},
		"ProviderConfig missing":      {row: builder.ProviderConfigMissing},
		"applying for the first time": {row: builder.FirstApplyRunning, want: builder.Created},
		"retrying":                    {row: builder.FirstApplyFailed, options: []builder.Option{builder.WithAnnotation(terraform.CreatePendingAnnotation, known.Format(time.RFC3339))}, known: builder.Created, want: builder.Created},
		"retrying, status lost":       {row: builder.FirstApplyFailed, options: []builder.Option{builder.WithAnnotation(terraform.CreatePendingAnnotation, known.Format(time.RFC3339))}, want: known},
		"changed after that":          {row: builder.FirstApplyFailed, options: []builder.Option{specChanged(changed)}, known: known, want: changed},
		"an update":                   {row: builder.Updating, options: []builder.Option{specChanged(changed)}, want: changed},
		"an update already recorded":  {row: builder.UpdateFailed, options: []builder.Option{specChanged(changed)}, known: changed, want: changed},
		"moved, not reported yet":     {row: builder.ResourcesExist, options: []builder.Option{builder.WithAnnotation(terraform.CreatePendingAnnotation, known.Format(time.RFC3339))}},
		"an invalid annotation":       {row: builder.FirstApplyRunning, options: []builder.Option{builder.WithAnnotation(terraform.CreatePendingAnnotation, "yesterday")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustLive(t, builder.Workspace("demo-vpc", row.row, row.options...)).Started(row.known)
			assert.True(t, row.want.Equal(got), "%s, not %s", got, row.want)
		})
	}
}

// inProgress calls InProgress without a record of the last change.
func inProgress(t *testing.T, workspace *unstructured.Unstructured) bool {
	t.Helper()
	live := mustLive(t, workspace)
	return InProgress(live, nil, report(live).Class)
}

func TestInProgressUntilDoneOrTerminalError(t *testing.T) {
	rows := map[builder.Row]bool{
		builder.Queued: true, builder.Planning: true, builder.FirstApplyRunning: true, builder.FirstApplyDone: true,
		builder.AtRest: false, builder.FirstApplyFailed: false, builder.Updating: true, builder.UpdateFailed: true,
		builder.PlanFailed: false, builder.ProviderConfigMissing: false, builder.WorkspacePaused: false,
		builder.Destroying: true, builder.DestroyFailed: false, builder.Interrupted: false,
		builder.ResourcesExist: false,
	}
	require.Len(t, rows, len(builder.Rows()))
	for row, want := range rows {
		assert.Equal(t, want, inProgress(t, builder.Workspace("p1", row)), row)
		if row != builder.Updating { // Before v1 the status of the Workspace is that of AtRest.
			assert.Equal(t, want, inProgress(t, builder.Workspace("p1", row, builder.OfV0())), "%s, before v1", row)
		}
	}

	live := mustLive(t, builder.Workspace("p1", builder.AtRest, builder.OfV0(), builder.WithGeneration(2)))
	assert.True(t, InProgress(live, live.UpdateRecord(), ""), "before v1, no status since the write")
	assert.False(t, InProgress(live, live.RefreshRecord(nil), ""))
}

// The last error stays until destroy returns.
func TestDestroyIsInProgressAfterAnyError(t *testing.T) {
	for _, row := range []builder.Row{builder.FirstApplyFailed, builder.PlanFailed, builder.ProviderConfigMissing, builder.AtRest} {
		// A deletion increases the generation.
		deleted := builder.Workspace("p1", row, builder.Deleting(), builder.WithGeneration(2))
		assert.True(t, inProgress(t, deleted), row)
	}
	failed := builder.Workspace("p1", builder.FirstApplyFailed, builder.OfV0(), builder.Deleting())
	assert.True(t, inProgress(t, failed), "before v1, an apply error during deletion is an earlier one")

	// An error of an earlier generation does not end the operation, either.
	assert.True(t, inProgress(t, builder.Workspace("p1", builder.PlanFailed, builder.WithGeneration(2))))
	assert.False(t, inProgress(t, builder.Workspace("p1", builder.PlanFailed, builder.WithGeneration(2), builder.OfV0())),
		"before v1 the generation is unknown, and a permanent error must not block the others")
}

// withSecrets adds each kind of reference to a Secret.
func withSecrets() builder.Option {
	return builder.With(func(workspace *unstructured.Unstructured) {
		ref := func(key string) map[string]any { return map[string]any{"name": "inputs", "key": key} }
		workspace.Object["spec"] = map[string]any{
			"forProvider": map[string]any{
				"varFiles": []any{
					map[string]any{"source": "SecretKey", "secretKeyRef": ref("tfvars")},
					map[string]any{"source": "ConfigMapKey", "configMapKeyRef": ref("tfvars")},
				},
				"env": []any{map[string]any{"name": "A", "secretKeyRef": ref("env")}, map[string]any{"name": "B", "value": "plain"}},
			},
			"writeConnectionSecretToRef": map[string]any{"name": "outputs"},
		}
	})
}

func secretObjects() []client.Object {
	secret := func(name string, data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: name}, Data: data}
	}
	return []client.Object{
		secret("inputs", map[string][]byte{"tfvars": []byte("a-file"), "env": []byte("a-variable"), "other": []byte("not taken")}),
		secret("outputs", map[string][]byte{"kubeconfig": []byte("an-output"), "vpc_id": []byte("vpc-1")}),
	}
}

func failing(options ...builder.Option) *unstructured.Unstructured {
	outputs := builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"})
	return builder.Workspace("demo-vpc", builder.UpdateFailed, append([]builder.Option{withSecrets(), outputs}, options...)...)
}

func TestSecretsOfAWorkspace(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes(), secretObjects()...)
	secrets := env.secrets(ctx, mustLive(t, failing()))
	require.NoError(t, secrets.Missing)
	var values []string
	for _, value := range secrets.Values {
		values = append(values, string(value))
	}
	slices.Sort(values)
	assert.Equal(t, []string{"a-file", "a-variable", "an-output"}, values, "without public outputs and unused keys")
}

func TestSecretsAreReadOnlyAfterAnError(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes(), secretObjects()...)
	env.Uncached = builder.FailingGet[client.Object](env.api, errors.New("nothing should be read"))
	report, complete := env.Explain(ctx, builder.WorkspaceTemplateApply("demo-vpc"), mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, withSecrets())))
	assert.Empty(t, report)
	assert.True(t, complete)
}

// The error is older than the change, and may quote the earlier value.
func TestAChangedSecretOmitsTheErrorText(t *testing.T) {
	rotated := secretObjects()
	rotated[0].SetCreationTimestamp(metav1.NewTime(builder.Created.Add(time.Hour)))
	for name, objects := range map[string][]client.Object{
		"deleted":             nil,
		"rotated":             rotated,
		"key missing":         {&corev1.Secret{ObjectMeta: secretObjects()[0].(*corev1.Secret).ObjectMeta}},
		"only of the outputs": {secretObjects()[0]}, // They are not inputs.
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.Scopes(), objects...)
			assert.Equal(t, name != "only of the outputs", env.secrets(ctx, mustLive(t, failing())).Missing != nil)
		})
	}
}

func TestForbiddenSecretsOmitTheErrorText(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes(), secretObjects()...)
	env.Uncached = builder.FailingGet[client.Object](env.api, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "inputs", nil))
	live := mustLive(t, failing())
	report, complete := env.Explain(ctx, builder.WorkspaceTemplateApply("demo-vpc"), live)
	require.False(t, complete)

	got := Observe(live, ObserveInput{Failure: report})
	assert.True(t, got.Failed)
	assert.NotContains(t, got.Message, "ThrottlingException")
	assert.Contains(t, got.Message, "details omitted: they may contain credentials")
}

// writtenBy says that a field manager applied the spec of a Workspace at a time, and which of its fields.
func writtenBy(manager string, when time.Time, fields string) builder.Option {
	return builder.With(func(workspace *unstructured.Unstructured) {
		written := metav1.NewTime(when)
		workspace.SetManagedFields(append(workspace.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: workspace.GetAPIVersion(),
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}, Time: &written,
		}))
	})
}

// Terraform applies such a module indefinitely, and nothing else shows why the Workspace is not Ready.
func TestAModuleThatCreatesNothingIsReported(t *testing.T) {
	at := func(second int) string { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC).Format(time.RFC3339) }
	for name, row := range map[string]struct {
		pending, succeeded, last string
		outputs                  map[string]any
		want                     string
	}{
		"created again":        {at(9), at(5), "", nil, infrav1.NothingCreatedReason},
		"until the next time":  {at(9), at(10), infrav1.NothingCreatedReason, nil, infrav1.NothingCreatedReason},
		"the first time":       {at(3), "", "", nil, infrav1.ProvisioningReason},
		"the first time, done": {at(3), at(5), infrav1.ProvisioningReason, nil, infrav1.ProvisioningReason},
		"with an output":       {at(9), at(5), "", map[string]any{"a": "b"}, infrav1.ProvisioningReason},
	} {
		workspace := builder.Workspace("demo-vpc", builder.FirstApplyDone)
		annotations := workspace.GetAnnotations()
		annotations[terraform.CreatePendingAnnotation] = row.pending
		delete(annotations, createSucceeded)
		if row.succeeded != "" {
			annotations[createSucceeded] = row.succeeded
		}
		workspace.SetAnnotations(annotations)
		if row.outputs != nil {
			require.NoError(t, unstructured.SetNestedMap(workspace.Object, row.outputs, "status", "atProvider", "outputs"))
		}
		assert.Equal(t, row.want, Observe(mustLive(t, workspace), ObserveInput{LastReason: row.last}).Reason, name)
	}
}

// A change does not reach a first apply that runs: it waits for the end of the run.
func TestAChangeDuringTheFirstApplyWaitsForTheRun(t *testing.T) {
	object := builder.Workspace("eks", builder.FirstApplyRunning)
	began, err := time.Parse(time.RFC3339, object.GetAnnotations()[terraform.CreatePendingAnnotation])
	require.NoError(t, err)
	message := func(changed time.Time) string {
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "capt", Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: changed}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}})
		live, err := newLive(object)
		require.NoError(t, err)
		return Observe(live, ObserveInput{}).Message
	}
	assert.Equal(t, "waiting for Terraform to apply the module for the first time", message(began.Add(-time.Minute)))
	assert.Contains(t, message(began.Add(time.Minute)), "It runs since "+began.Format(time.RFC3339)+" with the content before the change at "+began.Add(time.Minute).Format(time.RFC3339))
}

// Another client has removed a key. managedFields that were cleared show nothing.
func TestALostOutputOfTheConnectionSecret(t *testing.T) {
	object := builder.Workspace("demo", builder.AtRest)
	require.NoError(t, unstructured.SetNestedMap(object.Object, map[string]any{"vpc_id": "vpc-1", "absent": nil}, "status", "atProvider", "outputs"))
	live, err := newLive(object)
	require.NoError(t, err)
	for fields, lost := range map[string]bool{
		`{"f:data":{".":{},"f:vpc_id":{},"f:kubeconfig":{}}}`: false,
		`{"f:data":{".":{},"f:kubeconfig":{}}}`:               true,
		`{"f:metadata":{"f:labels":{}}}`:                      true,
		"":                                                    false,
	} {
		secret := &metav1.PartialObjectMetadata{}
		if fields != "" {
			secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "provider", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}}
		}
		assert.Equal(t, lost, live.LostOutput(secret), fields)
	}
}

func TestResultsOfTerraform(t *testing.T) {
	atRest := builder.Workspace("demo", builder.AtRest)
	polled := atRest.DeepCopy()
	polled.SetResourceVersion("2")
	polled.SetAnnotations(map[string]string{"polled": "again"})
	assert.False(t, HasResult(atRest, polled))
	assert.True(t, HasResult(builder.Workspace("demo", builder.FirstApplyRunning), atRest))
	failed := atRest.DeepCopy()
	require.NoError(t, unstructured.SetNestedSlice(failed.Object, []any{map[string]any{"type": "Synced", "status": "False"}, map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions"))
	assert.True(t, HasResult(atRest, failed))
}
