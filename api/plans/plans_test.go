// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func request(name string, seconds int) infrav1.PlanRequest {
	return *builder.PlanRequest(name, []string{"a"}, builder.WithCreation(builder.Created.Add(time.Duration(seconds)*time.Second)))
}

func complete(r infrav1.PlanRequest) infrav1.PlanRequest {
	r.Status.CompletionTime = ptr.To(metav1.NewTime(builder.Created))
	return r
}

func planned(names ...string) *infrav1.WorkspaceTemplateApply {
	apply := builder.WorkspaceTemplateApply("a")
	for _, name := range names {
		apply.Status.Plans = append(apply.Status.Plans, infrav1.RequestedPlan{RequestUID: uid(name), RequestName: name})
	}
	return apply
}

func uid(name string) types.UID { return builder.UID("PlanRequest", name) }

func TestKeysOfARequestAreThoseOfItsObjects(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc")
	for name, row := range map[string]struct {
		request *infrav1.PlanRequest
		about   bool
	}{
		"its name":                        {builder.PlanRequest("r", []string{"b", "a"}), true},
		"another name":                    {builder.PlanRequest("r", []string{"b"}), false},
		"its name in another namespace":   {builder.PlanRequest("r", []string{"a"}, builder.WithNamespace("other")), false},
		"all":                             {builder.PlanRequest("r", nil, builder.With(func(r *infrav1.PlanRequest) { r.Spec.Scope = infrav1.PlanScopeNamespace })), true},
		"all of another namespace":        {builder.PlanRequest("r", nil, builder.WithNamespace("other"), builder.With(func(r *infrav1.PlanRequest) { r.Spec.Scope = infrav1.PlanScopeNamespace })), false},
		"its template":                    {builder.PlanRequestFor("r", template), true},
		"a template of another name":      {builder.PlanRequestFor("r", builder.WorkspaceTemplate("eks")), false},
		"a template of another namespace": {builder.PlanRequestFor("r", template, builder.WithNamespace("other")), false},
	} {
		about := false
		for _, of := range KeysOf(row.request) {
			for _, key := range KeysFor(builder.WorkspaceTemplateApply("a")) {
				about = about || of == key
			}
		}
		assert.Equal(t, row.about, about, name)
	}
}

func TestTheOldestRequestWithoutAPlanIsNext(t *testing.T) {
	deleted := request("deleted", 0)
	deleted.DeletionTimestamp = ptr.To(metav1.NewTime(builder.Created))
	requests := []infrav1.PlanRequest{request("third", 3), request("second", 2), request("first", 1), complete(request("complete", 0)), deleted}
	for want, apply := range map[string]*infrav1.WorkspaceTemplateApply{
		"first": planned(), "second": planned("first", "complete"), "third": planned("second", "first"), "none": planned("first", "second", "third"),
	} {
		got := "none"
		if next := Next(requests, apply); next != nil {
			got = next.Name
		}
		assert.Equal(t, want, got)
	}
	assert.Equal(t, "a", Next([]infrav1.PlanRequest{request("b", 1), request("a", 1)}, planned()).Name, "of the same second")
}

func TestPlansOfOpenRequestsAreKept(t *testing.T) {
	requests := []infrav1.PlanRequest{request("a", 0), request("b", 1), complete(request("c", 2)), request("d", 3), request("e", 4), request("f", 5)}
	record := func(apply *infrav1.WorkspaceTemplateApply, name string) (kept []string) {
		r := request(name, 9)
		Record(apply, requests, &r, &infrav1.RevisionPreview{Result: infrav1.PreviewEmpty})
		for i := range apply.Status.Plans {
			kept = append(kept, apply.Status.Plans[i].RequestName)
		}
		return kept
	}
	assert.Equal(t, []string{"a", "c", "gone"}, record(planned("c", "gone"), "a"))
	assert.Equal(t, []string{"d", "a", "b", "gone"}, record(planned("gone", "c", "a", "b"), "d"))
	assert.Equal(t, []string{"a", "b"}, record(planned("a", "b"), "a"), "once")
	assert.Nil(t, Next(requests, planned("a", "b", "d", "e")), "f waits until one of them is complete")
	assert.NotNil(t, Of(planned("a"), uid("a")))
}

func TestProgress(t *testing.T) {
	r := request("r", 0)
	add := func(p *Progress, name string, plan *infrav1.RevisionPreview, options ...builder.Option) {
		apply := builder.WorkspaceTemplateApply(name, options...)
		if plan != nil {
			apply.Status.Plans = []infrav1.RequestedPlan{{RequestUID: r.UID, Plan: *plan}}
		}
		p.Add(&r, apply, "")
	}
	p := &Progress{}
	assert.Equal(t, infrav1.NothingChangesReason, p.Reason())
	add(p, "same", &infrav1.RevisionPreview{Result: infrav1.PreviewEmpty})
	assert.Equal(t, "1 of 1 WorkspaceTemplateApplies have a plan", p.Message())
	add(p, "fails", &infrav1.RevisionPreview{Result: infrav1.PreviewFailed})
	assert.Equal(t, infrav1.PlansMissingReason, p.Reason())
	add(p, "changes", &infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{Outputs: 1}})
	add(p, "unknown", &infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{Unknown: "no log"}})
	add(p, "paused", &infrav1.RevisionPreview{Result: infrav1.PreviewUnavailable, Message: "paused: now."})
	add(p, "elsewhere", &infrav1.RevisionPreview{Result: infrav1.PreviewUnavailable, Message: "paused: Cluster secret"}, builder.WithNamespace("other"))
	add(p, "deleted", nil, builder.Deleting())
	add(p, "other-tool", nil, builder.WithAnnotation("cluster.x-k8s.io/managed-by", "x"))
	p.AddMissing(&r, "absent")
	assert.Equal(t, infrav1.ChangesFoundReason, p.Reason())
	assert.Equal(t, 9, p.Total)
	assert.Equal(t, 3, p.Planned)
	assert.Equal(t, "3 of 9 WorkspaceTemplateApplies have a plan; Terraform would change: default/changes, default/unknown; what changes is not known: default/unknown; "+
		"the plan fails: default/fails; cannot be planned: default/absent (does not exist), default/deleted (is being deleted), default/other-tool (is managed by another tool), "+
		"default/paused (paused: now), other/elsewhere", p.Message())
	add(p, "pending", nil)
	assert.Equal(t, infrav1.PlanningReason, p.Reason())
	assert.Contains(t, p.Message(), "waiting: default/pending")
	p.Expire(&r)
	assert.Empty(t, p.Pending)
	assert.Contains(t, fmt.Sprint(p.Unavailable), "default/pending (has no result in time)")
}
