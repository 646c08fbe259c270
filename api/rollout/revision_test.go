// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestTheHashIsThatOfTheWorkspaces(t *testing.T) {
	of := func(options ...builder.Option) string { return HashOf(builder.WorkspaceTemplate("vpc", options...)) }
	assert.Equal(t, of(), of(builder.WithLabel("a", "b"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Template.Metadata = infrav1.WorkspaceTemplateMetadata{Description: "another", Version: "2", Tags: map[string]string{"a": "b"}}
		template.Spec.Rollout.Strategy = infrav1.RolloutStaged
	})))
	assert.NotEqual(t, of(), of(builder.WithScope(terraform.ScopeCluster)))
	assert.NotEqual(t, of(), of(builder.WithModule("# another")))
}

// A field of a newer provider-terraform is kept, too.
func TestARevisionReturnsWithTheContentThatWasStored(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithModule("# old"))
	require.NoError(t, json.Unmarshal([]byte(`{"forProvider":{"source":"Inline","module":"# old","novelty":{"a":1}},"also":true}`), &template.Spec.Template.Spec))
	revision := History(nil).Record(template)
	object, err := revision.Object(template)
	require.NoError(t, err)
	assert.Equal(t, "vpc-"+revision.Hash, object.Name)
	assert.Equal(t, int64(1), object.Revision)
	require.True(t, metav1.IsControlledBy(object, template))

	stored := &appsv1.ControllerRevision{}
	data, err := json.Marshal(object)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, stored))
	read, err := Parse(stored)
	require.NoError(t, err)

	edited := template.DeepCopy()
	edited.Spec.Template.Spec = builder.WorkspaceTemplate("vpc", builder.WithModule("# new")).Spec.Template.Spec
	assert.Equal(t, template, read.At(edited))

	stored.Data.Raw = []byte(`{"workspaceScope":"Namespaced","spec":{"forProvider":{"source":"Inline","module":"# forged"}}}`)
	_, err = Parse(stored)
	require.ErrorContains(t, err, "the name is not that of its content")
	assert.Empty(t, HistoryOf(template, []appsv1.ControllerRevision{*stored}))
}

// stored returns the history of a template after contents were stored one after the other.
func stored(t *testing.T, modules ...string) (*infrav1.WorkspaceTemplate, History) {
	t.Helper()
	var template *infrav1.WorkspaceTemplate
	objects := map[string]appsv1.ControllerRevision{}
	var list []appsv1.ControllerRevision
	for _, module := range modules {
		template = builder.WorkspaceTemplate("vpc", builder.WithModule(module))
		revision := HistoryOf(template, list).Record(template)
		object, err := revision.Object(template)
		require.NoError(t, err)
		objects[object.Name] = *object
		list = nil
		for _, object := range objects {
			list = append(list, object)
		}
	}
	return template, HistoryOf(template, list)
}

func TestARevisionThatReturnsIsTheNewest(t *testing.T) {
	template, history := stored(t, "# 1", "# 2", "# 1")
	require.Len(t, history, 2)
	assert.Equal(t, HashOf(template), history[0].Hash)
	assert.Equal(t, int64(3), history[0].Number)
	assert.Equal(t, history[0], history.Record(template), "nothing to write")
}

// New users must not get a revision that was rolled out long ago before it is rolled out again.
func TestARevisionThatReturnsIsRolledOutOnlyIfNoOtherOneWas(t *testing.T) {
	_, history := stored(t, "# 1", "# 2")
	first := builder.WorkspaceTemplate("vpc", builder.WithModule("# 1"))
	assert.Empty(t, history.Stable())
	history[1].RolledOut = true
	assert.Equal(t, HashOf(first), history.Stable())
	assert.True(t, history.Record(first).RolledOut)
	history[0].RolledOut = true
	assert.Equal(t, history[0].Hash, history.Stable())
	assert.False(t, history.Record(first).RolledOut)
}

func TestRevisionsInUseAreKept(t *testing.T) {
	var modules []string
	for i := range 14 {
		modules = append(modules, fmt.Sprint("# ", i))
	}
	_, history := stored(t, modules...)
	history[12].RolledOut = true
	users := []User{{Assigned: history[11].Hash}}
	assert.Equal(t, []string{history[10].Name, history[13].Name}, history.Obsolete(users))
}

func TestFactsOfAUser(t *testing.T) {
	at := metav1.NewTime(now)
	apply := builder.WorkspaceTemplateApply("demo", builder.WithGeneration(2), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRevision = "new"
		s := &apply.Status
		s.ObservedGeneration, s.WrittenTemplateRevision, s.TemplateRevision, s.FailedTemplateRevision = 2, "new", "old", "bad"
		s.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.UpToDateReason, LastTransitionTime: at}}
	}))
	u := UserOf(apply, nil)
	assert.Equal(t, User{Key: u.Key, Assigned: "new", Written: "new", Applied: "old", Failed: "bad", ReadySince: now, CreatedAt: builder.Created, Observed: true}, u)

	later := metav1.NewTime(now.Add(time.Minute))
	apply.Status.LastAppliedTime = &later
	assert.Equal(t, later.Time, UserOf(apply, nil).ReadySince, "a change that Terraform applied within one status")
	apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{}
	assert.True(t, UserOf(apply, nil).Created)
	apply.Status.WorkspaceRef, apply.Annotations = nil, map[string]string{naming.ExternalNameAnnotation: "state"}
	assert.False(t, UserOf(apply, nil).Created, "a user can set the annotation")
	assert.True(t, UserOf(apply, nil).Unrecorded, "it may have been moved without its status")
	apply.Status.Assignment = infrav1.RevisionAssignment{TemplateRevision: "old", Time: &at}
	assert.Zero(t, UserOf(apply, nil).AssignedAt, "of another revision")
	apply.Status.Assignment.TemplateRevision = "new"
	assert.Equal(t, at.Time, UserOf(apply, nil).AssignedAt)
	apply.Annotations[clusterv1.ManagedByAnnotation] = ""
	assert.True(t, UserOf(apply, nil).Paused, "the manager does not write what others manage")

	blocked := apply.DeepCopy()
	blocked.Status.WrittenTemplateRevision = "old"
	blocked.Status.Conditions[0] = metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.TemplateInvalidReason}
	assert.True(t, UserOf(blocked, nil).Blocked)
	blocked.Status.Conditions[0].Reason = infrav1.ApplyFailedReason
	assert.False(t, UserOf(blocked, nil).Blocked, "the failure is of the revision before")
	blocked.Status.Conditions[0].Reason = infrav1.TemplateInvalidReason
	blocked.Generation = 3
	assert.False(t, UserOf(blocked, nil).Blocked, "the status is older than the assignment")

	apply.Generation = 3
	assert.Zero(t, UserOf(apply, nil).ReadySince)
	apply.Annotations[clusterv1.PausedAnnotation] = ""
	assert.True(t, UserOf(apply, nil).Paused)
}

func TestARevisionIsFoundByNumberAndHash(t *testing.T) {
	h := History{{Hash: "c", Number: 3}, {Hash: "b", Number: 2}, {Hash: "a", Number: 1}}
	assert.Equal(t, "b", h.Named("2").Hash)
	assert.Equal(t, "b", h.Named("b").Hash)
	assert.Nil(t, h.Named("4"))
}

func TestARollbackReturnsToWhatWasRolledOut(t *testing.T) {
	h := History{{Hash: "d", Number: 4}, {Hash: "c", Number: 3}, {Hash: "b", Number: 2, RolledOut: true}, {Hash: "a", Number: 1, RolledOut: true}}
	assert.Equal(t, "b", h.Previous("d").Hash, "not to another edit that failed")
	assert.Equal(t, "a", h.Previous("b").Hash)
	assert.Equal(t, "c", h[:2].Previous("d").Hash, "none was rolled out")
	assert.Nil(t, h[:1].Previous("d"))
}

// The record outlives the annotation of the template, which is overwritten by the next approval.
func TestAnApprovalIsStoredWithItsRevision(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithModule("# old"))
	for key, value := range map[string]string{naming.ApproveAnnotation: HashOf(template), naming.ApprovedByAnnotation: "alice", naming.ApprovedAtAnnotation: "today"} {
		builder.WithAnnotation(key, value)(template)
	}
	approved := History(nil).Record(template)
	assert.Equal(t, Approval{"alice", "today"}, approved.Approval)
	object, err := approved.Object(template)
	require.NoError(t, err)
	read, err := Parse(object)
	require.NoError(t, err)
	assert.Equal(t, approved.Approval, read.Approval)

	builder.WithModule("# new")(template)
	edited := History{approved}.Record(template)
	assert.Zero(t, edited.Approval, "the approval is of another content")
	history := History{approved}.With(edited)
	require.Len(t, history, 2)
	builder.WithModule("# old")(template)
	delete(template.Annotations, naming.ApproveAnnotation)
	returned := history.Record(template)
	assert.EqualValues(t, 3, returned.Number)
	assert.Zero(t, returned.Approval, "a revision that returns is approved again")
	assert.Len(t, history.With(returned), 2)
}
