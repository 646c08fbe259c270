// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func (s *fixture) status() infrav1.WorkspaceTemplateApplyStatus {
	status(s.apply, s.Facts, s.plan())
	return s.apply.Status
}

func (s *fixture) message(conditionType string) string {
	s.Helper()
	s.status()
	return conditions.GetMessage(s.apply, conditionType)
}

func TestMessages(t *testing.T) {
	missing := newFixture(t).with(func(f *Facts) { f.Missing = lacking("Secret a does not exist", "Workspace b is not up to date") })
	assert.Equal(t, "Secret a does not exist (since 2026-01-02T03:04:05Z); Workspace b is not up to date (since 2026-01-02T03:04:05Z)", missing.message("Ready"))

	paused := newFixture(t).with(func(f *Facts) { f.Paused = "by annotation" })
	assert.Equal(t, "paused (by annotation): Workspace demo-vpc does not exist", paused.message("Ready"))

	claim := newFixture(t).with(func(f *Facts) { f.OlderClaim = "WorkspaceTemplateApply demo" })
	assert.Contains(t, claim.message("Ready"), "belongs to WorkspaceTemplateApply demo, which is older")

	gone := newFixture(t).with(func(f *Facts) { f.Template, f.Rendered = nil, nil })
	assert.Equal(t, "WorkspaceTemplate default/vpc does not exist. Create it, or correct the reference to it", gone.message("Ready"))
	gone.apply.Spec.TemplateRef.Namespace = "shared"
	assert.Contains(t, gone.message("Ready"), "does not exist, or does not allow this namespace", "the message does not reveal which of the two")

	refused := newFixture(t).with(func(f *Facts) { f.Rejected = refused })
	assert.Contains(t, refused.message("Ready"), "spec.forProvider.module: Invalid value")
}

func TestConditionsOmitTheOutputOfTerraform(t *testing.T) {
	for _, row := range builder.Rows() {
		s := newFixture(t).withWorkspace(row).status()
		for _, condition := range s.Conditions {
			assert.NotContains(t, condition.Message, builder.Secret, "%s in %s", condition.Type, row)
		}
		assert.NotContains(t, s.LastFailureMessage, builder.Secret, row)
	}
}

func TestStatusFieldsOfAnUpToDateWorkspace(t *testing.T) {
	outputs := builder.WithOutputs(map[string]any{"vpc_id": "vpc-1", "secret": "x", "mine": []any{"a"}})
	s := newFixture(t, builder.WithGeneration(3)).withWorkspace(builder.AtRest, outputs)
	got := s.status()
	assert.Equal(t, int64(3), got.ObservedGeneration)
	assert.Equal(t, "demo-vpc", got.WorkspaceName)
	assert.Equal(t, render.ReferenceTo(s.Live.Unstructured), got.WorkspaceRef)
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, got.Outputs)
	assert.Equal(t, metav1.ConditionTrue, got.Applied)
	assert.Equal(t, s.Rendered.Revision, got.LastAppliedRevision)
	assert.Equal(t, rollout.HashOf(s.Template), got.TemplateRevision)
	assert.Equal(t, ptr.To(metav1.NewTime(now)), got.LastAppliedTime)
	for _, condition := range got.Conditions {
		assert.Equal(t, int64(3), condition.ObservedGeneration, condition.Type)
	}
	s.Template.Spec.PublishOutputs = []string{"mine"}
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1", "mine": `["a"]`}, s.status().Outputs, "a template may publish more")
}

func TestAForeignWorkspaceIsNotRecorded(t *testing.T) {
	s := newFixture(t).withWorkspace(builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	s.Ownership = render.Foreign
	got := s.status()
	assert.True(t, got.WorkspaceRef == nil && got.Outputs == nil && got.Applied == "")
}

func TestLastAppliedTimeChangesWithTheRevision(t *testing.T) {
	s := newFixture(t).withWorkspace(builder.AtRest)
	first := s.status().LastAppliedTime
	s.Now = now.Add(time.Hour)
	assert.Equal(t, first, s.status().LastAppliedTime)

	s.apply.Status.LastAppliedRevision = "000000000000"
	assert.Equal(t, metav1.NewTime(s.Now), *s.status().LastAppliedTime)
}

func TestStartedTime(t *testing.T) {
	s := newFixture(t)
	assert.Nil(t, s.status().StartedTime, "there is no Workspace")
	assert.Nil(t, s.withWorkspace(builder.Planning).status().StartedTime, "nothing is applied yet")
	assert.Equal(t, builder.Created, s.withWorkspace(builder.FirstApplyRunning).status().StartedTime.UTC())
	s.Now = now.Add(time.Hour)
	assert.Equal(t, builder.Created, s.withWorkspace(builder.FirstApplyFailed).status().StartedTime.UTC(), "it is the same work")
	assert.Nil(t, s.withWorkspace(builder.AtRest).status().StartedTime, "it is done")
	assert.Equal(t, s.Now, s.withWorkspace(builder.UpdateFailed).status().StartedTime.Time, "drift that cannot be repaired: it was up to date until now")
	s.Now = now.Add(2 * time.Hour)
	assert.Equal(t, now.Add(time.Hour), s.withWorkspace(builder.UpdateFailed).status().StartedTime.Time)
}

func TestAFailureIsRecordedUntilAnApplySucceeds(t *testing.T) {
	s := newFixture(t).withWorkspace(builder.UpdateFailed)
	got := s.status()
	assert.Equal(t, s.Rendered.Revision, got.LastFailedRevision)
	assert.Contains(t, got.LastFailureMessage, "ThrottlingException")
	assert.Equal(t, "Throttle", got.LastFailureClass)

	s.withWorkspace(builder.Updating)
	assert.NotEmpty(t, s.status().LastFailedRevision, "it is not known yet how the next one ends")

	s.withWorkspace(builder.AtRest)
	got = s.status()
	assert.Empty(t, got.LastFailedRevision)
	assert.Empty(t, got.LastFailureMessage)
	assert.Empty(t, got.LastFailureClass)

	s = newFixture(t).with(func(f *Facts) { f.Rejected = refused }) // A rejection is a failure, too.
	assert.Equal(t, s.Rendered.Revision, s.status().LastFailedRevision)
	assert.Contains(t, s.apply.Status.LastFailureMessage, "Invalid value")
}

func TestUnobservedStatusStays(t *testing.T) {
	s := newFixture(t).withWorkspace(builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	s.status()
	before := s.apply.Status.DeepCopy()
	s.Live, s.Ownership = nil, ""
	after := s.status()
	assert.Equal(t, before.WorkspaceRef, after.WorkspaceRef)
	assert.Equal(t, before.Outputs, after.Outputs)
	assert.Equal(t, before.LastAppliedRevision, after.LastAppliedRevision)
	assert.Equal(t, before.Applied, after.Applied)
}

// fixture is a WorkspaceTemplateApply with the facts about it.
type fixture struct {
	*testing.T
	apply *infrav1.WorkspaceTemplateApply
	*Facts
}

func newFixture(t *testing.T, options ...builder.Option) *fixture {
	t.Helper()
	options = append([]builder.Option{
		builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer), builder.WithWorkspaceName("demo-vpc"),
		builder.WithAnnotation(clusterctlv1.BlockMoveAnnotation, blockUntilPaused), builder.WithAnnotation(naming.ExternalNameAnnotation, "demo-vpc"),
	}, options...)
	s := &fixture{T: t, apply: builder.WorkspaceTemplateApply("demo-vpc", options...)}
	s.Facts = &Facts{apply: s.apply, WrittenGeneration: s.apply.Generation, Now: now, Name: "demo-vpc", MoveBlock: blockUntilPaused, Template: builder.WorkspaceTemplate("vpc")}
	s.Revision = rollout.HashOf(s.Template)
	s.CurrentRevision = s.Revision
	var errs field.ErrorList
	s.Rendered, errs = render.Workspace(render.Input{Apply: s.apply, Template: s.Template, Name: s.Name})
	require.Empty(t, errs)
	return s
}

// shows makes the Workspace exist, as it was rendered, in a row of the table.
func (s *fixture) withWorkspace(row builder.Row, options ...builder.Option) *fixture {
	s.Helper()
	object := builder.Workspace(s.Name, row)
	object.Object["spec"] = s.Rendered.Object.DeepCopy().Object["spec"]
	for key, value := range s.Rendered.Object.GetAnnotations() {
		builder.WithAnnotation(key, value)(object)
	}
	builder.AppliedBy(naming.WorkspaceTemplateApplyFieldManager)(object)
	for _, option := range options {
		option(object)
	}
	workspaces := newEnvironment(s.T, object).reconciler.Workspaces
	live, err := workspaces.Get(s.Context(), terraform.ScopeNamespaced, object.GetNamespace(), object.GetName())
	require.NoError(s, err)
	require.NotNil(s, live)
	s.Live, s.Ownership = live, render.Owned
	s.Failure, _ = workspaces.Explain(s.Context(), s.apply, s.Live)
	return s
}

// unrecorded drops the managedFields of a Workspace.
func withoutManagedFields() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) { object.SetManagedFields(nil) })
}

// unclaimed makes a Workspace one that CAPT did not create.
func withoutClaim() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		annotations := object.GetAnnotations()
		delete(annotations, naming.ClaimAnnotation)
		object.SetAnnotations(annotations)
	})
}

// otherwise makes the Workspace differ from what is rendered now.
func withOtherSpec() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		object.Object["spec"] = map[string]any{"forProvider": map[string]any{"source": "Inline", "module": "# before"}}
	})
}

func (s *fixture) plan() Plan {
	s.Helper()
	p, err := plan(s.apply, s.Facts)
	require.NoError(s, err)
	return p
}

func (s *fixture) with(change func(f *Facts)) *fixture {
	change(s.Facts)
	return s
}

const refused = "spec.forProvider.module: Invalid value"

// row is a combination of facts that can happen.
type row struct {
	name    string
	fixture *fixture
}

// rows are what can happen with a WorkspaceTemplateApply.
func rows(t *testing.T) []row {
	invalid := field.ErrorList{field.Invalid(field.NewPath("spec", "template", "spec", "forProvider", "module"), field.OmitValueType{}, "line 1")}
	held := func(finalizers ...string) builder.Option {
		return builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = finalizers })
	}
	paused, missing := func(f *Facts) { f.Paused = "by annotation" }, func(f *Facts) { f.Missing = lacking("x") }
	noTemplate, noKind := func(f *Facts) { f.Template, f.Rendered = nil, nil }, func(f *Facts) { f.KindMissing = true }
	notRendered := func(f *Facts) { f.Rendered, f.RenderErrors = nil, invalid }
	queued := func(f *Facts) { f.Queued = "one at a time" }
	is := func(ownership render.Ownership) func(f *Facts) { return func(f *Facts) { f.Ownership = ownership } }
	all := []row{
		{"nothing there yet", newFixture(t)},
		{"queued for a day", newFixture(t).withWorkspace(builder.Queued).with(func(f *Facts) { f.UnreconciledFor = 24 * time.Hour })},
		{"its managedFields were lost", newFixture(t).withWorkspace(builder.AtRest, withoutManagedFields())},
		{"adopted, and its managedFields were lost", newFixture(t).withWorkspace(builder.AtRest, withoutManagedFields(), withoutClaim())},
		{"different", newFixture(t).withWorkspace(builder.AtRest, withOtherSpec())},
		{"different, while it fails", newFixture(t).withWorkspace(builder.PlanFailed, withOtherSpec())},
		{"paused, nothing there yet", newFixture(t).with(paused)},
		{"paused", newFixture(t).withWorkspace(builder.AtRest).with(paused)},
		{"paused and different", newFixture(t).withWorkspace(builder.AtRest, withOtherSpec()).with(paused)},
		{"unpaused", newFixture(t, builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{{Type: "Paused", Status: metav1.ConditionTrue, Reason: "Paused"}}
		})).withWorkspace(builder.AtRest)},
		{"it is queued", newFixture(t).with(queued)},
		{"it is queued to correct what failed", newFixture(t).withWorkspace(builder.UpdateFailed, withOtherSpec()).with(queued)},
		{"no template", newFixture(t).with(noTemplate)},
		{"its template is gone (defect 10)", newFixture(t).withWorkspace(builder.AtRest).with(noTemplate)},
		{"an invalid template", newFixture(t).with(notRendered)},
		{"an invalid template of a Workspace at rest", newFixture(t).withWorkspace(builder.AtRest).with(notRendered)},
		{"refused by the API server", newFixture(t).with(func(f *Facts) { f.Rejected = refused })},
		{"something is waited for", newFixture(t).with(missing)},
		{"something is waited for before a change", newFixture(t).withWorkspace(builder.AtRest, withOtherSpec()).with(missing)},
		{"what it waited for is gone (defect 10)", newFixture(t).withWorkspace(builder.AtRest).with(missing)},
		{"the kind is not installed", newFixture(t).with(noKind)},
		{"an older one names the same Workspace", newFixture(t).with(func(f *Facts) { f.OlderClaim = "WorkspaceTemplateApply demo" })},
		{"of another owner", newFixture(t).withWorkspace(builder.AtRest, withOtherSpec()).with(is(render.Foreign))},
		{"recreated by another client", newFixture(t).withWorkspace(builder.AtRest, withOtherSpec()).with(is(render.Replaced))},
		{"ours, but nothing holds it", newFixture(t, held()).withWorkspace(builder.AtRest)},
		{"ours, held by CAPT v0.3's finalizer", newFixture(t, held(infrav1.LegacyWorkspaceTemplateApplyFinalizer)).withWorkspace(builder.AtRest)},
		{"of another owner, not held", newFixture(t, held()).withWorkspace(builder.AtRest).with(is(render.Foreign))},
	}
	for _, r := range builder.Rows() {
		all = append(all, row{"Workspace: " + string(r), newFixture(t).withWorkspace(r, builder.WithCreation(now))})
	}
	deleting := func(options ...builder.Option) *fixture { return newFixture(t, append(options, builder.Deleting())...) }
	retain := builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)
	for _, r := range builder.Rows() {
		all = append(all, row{"deleted; Workspace: " + string(r), deleting().withWorkspace(r)})
	}
	return append(all,
		row{"deleted by the explicit policy", deleting(builder.WithDeletionPolicy(infrav1.DeletionPolicyDelete)).withWorkspace(builder.AtRest)},
		row{"deleted, though its template is gone", deleting().withWorkspace(builder.AtRest).with(noTemplate)},
		row{"deleted, though what it waited for is gone", deleting().withWorkspace(builder.AtRest).with(missing)},
		row{"deleted, the Workspace is gone", deleting()},
		row{"deleted, the Workspace has another owner", deleting().withWorkspace(builder.AtRest).with(is(render.Foreign))},
		row{"deleted, the Workspace was recreated by another client", deleting().withWorkspace(builder.AtRest).with(is(render.Replaced))},
		row{"deleted, retained (defect 1)", deleting(retain).withWorkspace(builder.AtRest)},
		row{"deleted, retained, though the kind is not installed", deleting(retain).with(noKind)},
		row{"deleted, the kind is not installed", deleting().with(noKind)},
		row{"deleted, paused: nothing is destroyed", deleting().withWorkspace(builder.AtRest).with(paused)},
		row{"deleted, paused, and nothing is left: still not let go", deleting(retain).with(paused)},
		row{"deleted, nothing is destroyed while the Workspace is paused", deleting().withWorkspace(builder.WorkspacePaused, builder.Deleting())},
		row{"deleted, interrupted: the provider is stuck", deleting().withWorkspace(builder.Interrupted, builder.Deleting())},
		row{"deleted, it is queued", deleting().withWorkspace(builder.UpdateFailed).with(queued)},
	)
}

// TestGoldenTable: rows are facts, columns are the action and the conditions. UPDATE_GOLDEN=1 rewrites it; review the difference.
func TestGoldenTable(t *testing.T) {
	var table strings.Builder
	for _, r := range rows(t) {
		text := []string{string(r.fixture.plan().Action)}
		summary := builder.ConditionSummary(r.fixture.status().Conditions)
		for i := range r.fixture.apply.Status.Conditions {
			r.fixture.apply.Status.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
		}
		once := r.fixture.apply.DeepCopy()
		r.fixture.status()
		assert.Equal(t, once, r.fixture.apply, "at rest nothing is written: %s", r.name)
		for _, condition := range slices.Sorted(maps.Keys(summary)) {
			text = append(text, condition+" "+summary[condition])
		}
		fmt.Fprintf(&table, "%s\n  %s\n", r.name, strings.Join(text, "; "))
	}
	path := filepath.Join("testdata", "status.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}
