// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/builder"
)

// newApplied is an object whose Workspace was applied, and not planned since.
func newApplied(t *testing.T) (*previewing, *planLog) {
	t.Helper()
	p, log := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges}), &planLog{}
	log.changes = &planlog.Changes{Counts: planlog.Counts{Update: 1}, Total: 1, Resources: []planlog.Resource{{Address: "aws_vpc.this", Type: "aws_vpc", Action: planlog.Update}}}
	p.reconciler.Plans, p.reconciler.PlanCheckDelay = log, time.Minute
	assert.Equal(t, time.Minute, p.look().RequeueAfter)
	return p, log
}

func (p *previewing) neverEmpty() string {
	p.Helper()
	condition := conditions.Get(p.get("demo-vpc"), infrav1.PlanNeverEmptyCondition)
	if condition == nil {
		return ""
	}
	return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
}

// plans makes the provider plan the Workspace without changes.
func (p *previewing) plans() {
	p.Helper()
	object := p.workspace("demo-vpc")
	require.NoError(p, unstructured.SetNestedField(object.Object, "abc", "status", "atProvider", "checksum"))
	p.update(object)
}

// check begins the check after a minute, and lets the plan end with changes.
func (p *previewing) check() {
	p.Helper()
	p.at(60)
	p.look()
	require.NotNil(p, p.preview())
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.at(71)
}

// Nothing waits for a check. After an update of the provider, there can be one for each object.
func TestPreviewsOfRolloutsGetSlotsBeforeAPlanCheck(t *testing.T) {
	p, _ := newApplied(t)
	slots, none := &p.reconciler.slots, func() ([]client.ObjectKey, error) { return nil, nil }
	other := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "other", Name: name} }
	for i := range previews.MaxPreviews {
		wait, err := slots.Take(other(strconv.Itoa(i)), "", now, none)
		require.NoError(t, err)
		require.Zero(t, wait)
	}
	var enqueued []client.ObjectKey
	slots.EnqueueWith(func(key client.ObjectKey) { enqueued = append(enqueued, key) })
	p.at(60)
	p.look()
	require.Nil(t, p.preview())
	wait, err := slots.Take(other("later"), "", now, none)
	require.NoError(t, err)
	require.NotZero(t, wait)
	slots.Release(other("0"), now.Add(time.Minute))
	assert.Equal(t, []client.ObjectKey{other("later")}, enqueued)
}

const neverEmpty = "True PlanHasChanges: Terraform would update aws_vpc.this, although it has just applied this content: it does so at each poll of provider-terraform. " +
	"Correct the module of WorkspaceTemplate default/vpc so that its plan is empty after an apply, for example with lifecycle.ignore_changes"

func TestAModuleWhosePlanIsNeverEmptyIsReported(t *testing.T) {
	p, log := newApplied(t)
	p.at(59)
	assert.Equal(t, time.Second, p.look().RequeueAfter)
	require.Nil(t, p.preview())
	p.check()
	before := p.get("demo-vpc").Status
	assert.Equal(t, []string{"status"}, p.mustWrite())
	assert.Equal(t, neverEmpty, p.neverEmpty())
	after := p.get("demo-vpc").Status
	assert.Equal(t, before.Preview, after.Preview, "it is not a preview of a rollout")
	assert.Empty(t, after.Change)
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
	assert.Contains(t, p.events(), "Warning "+strings.TrimPrefix(strings.Replace(neverEmpty, ":", "", 1), "True "))
	assert.Equal(t, []string{"delete Workspace"}, p.mustWrite())
	assert.Zero(t, p.look().RequeueAfter)
	assert.Empty(t, p.Writes, "at rest nothing is written")
	assert.Len(t, log.reads, 1)

	p.size("2") // The message of the change that waits for an approval names it.
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.at(90)
	p.look()
	assert.Contains(t, p.ready("demo-vpc"), "Condition PlanNeverEmpty names what Terraform changes at each run")
	p.approve(p.change().Revision)
	p.provide("demo-vpc", builder.AtRest)
	p.look()
	assert.Equal(t, "False PlanEmpty: ", p.neverEmpty(), "another content was applied")
	assert.Equal(t, time.Minute, p.look().RequeueAfter)
}

// The checksum of a run that a user requested is not one of the provider: that it has planned something is not known before the run ends.
func TestARequestedRunDoesNotEndTheReport(t *testing.T) {
	p, _ := newApplied(t)
	p.check()
	p.mustWrite()
	request := runs.Request(runs.Action, p.workspace("demo-vpc").GetUID(), now)
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, request)(apply)
	})
	p.look()
	p.look()
	assert.Equal(t, request, checksumOf(p.workspace("demo-vpc")))
	assert.Equal(t, neverEmpty, p.neverEmpty())
	p.plans()
	p.look()
	assert.Equal(t, "False PlanEmpty: ", p.neverEmpty())
}

func checksumOf(workspace *unstructured.Unstructured) string {
	checksum, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "checksum")
	return checksum
}

func TestAPlanWithoutChangesEndsTheReport(t *testing.T) {
	p, _ := newApplied(t)
	p.check()
	p.look()
	p.look()
	require.Equal(t, neverEmpty, p.neverEmpty())
	p.plans()
	p.look()
	assert.Equal(t, "False PlanEmpty: ", p.neverEmpty())
	assert.Zero(t, p.look().RequeueAfter)
}

func TestAnAppliedContentIsNotPlannedWithoutNeed(t *testing.T) {
	for name, change := range map[string]func(p *previewing){
		"the provider has planned it without changes": (*previewing).plans,
		"the manager was restarted": func(p *previewing) {
			p.reconciler.State.Forget(client.ObjectKeyFromObject(builder.WorkspaceTemplateApply("demo-vpc")))
		},
		"checks are disabled":        func(p *previewing) { p.reconciler.PlanCheckDelay = 0 },
		"Terraform applies a change": func(p *previewing) { p.provide("demo-vpc", builder.Updating) },
	} {
		p, _ := newApplied(t)
		p.at(30)
		change(p)
		p.look()
		p.at(60)
		p.look()
		assert.Nil(t, p.preview(), name)
	}
}

// What waits for a plan is planned first: an object has one preview at a time.
func TestAPreviewOfAChangePrecedesTheCheck(t *testing.T) {
	p, _ := newApplied(t)
	p.at(60)
	p.size("2")
	assert.Equal(t, "# 2", p.previewedModule())

	p, _ = newApplied(t)
	p.at(60)
	p.create(builder.PlanRequestFor("edited", builder.WorkspaceTemplate("vpc", builder.WithModule("# edited")), atNow))
	p.look()
	assert.Equal(t, "# edited", p.previewedModule(), "of a request, too")
}

func TestAnAppliedContentIsPlannedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		show  func(p *previewing)
		after int
	}{
		"it is empty": {func(p *previewing) { p.shows(builder.AtRest, "abc") }, 61},
		"the plan fails": {func(p *previewing) {
			p.shows(builder.PlanFailed, "", builder.WithError("observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: no."))
		}, 61},
		"it has no result": {func(*previewing) {}, 601},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newApplied(t)
			p.at(60)
			p.look()
			require.NotNil(t, p.preview())
			row.show(p)
			p.at(row.after)
			p.look()
			assert.Empty(t, p.neverEmpty())
			p.look()
			require.Nil(t, p.preview())
			p.at(601 + 100*int(previews.RejectedInterval/time.Second))
			p.look()
			assert.Empty(t, p.Writes)
			assert.Nil(t, p.preview())
		})
	}
}

func TestWhatIsNeverEmptyMayNotBeKnown(t *testing.T) {
	p, log := newApplied(t)
	log.err = planlog.Unknown(planlog.Incomplete, "the log is gone")
	p.check()
	p.at(110)
	p.look()
	assert.Contains(t, p.neverEmpty(), "True PlanHasChanges: Terraform would change something (what changes is not known: the log is gone), although")
	assert.Equal(t, metav1.ConditionTrue, conditions.Get(p.get("demo-vpc"), infrav1.ReadyCondition).Status)
}
