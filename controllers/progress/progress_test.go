// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

const (
	creation   = infrav1.OperationCreation
	update     = infrav1.OperationUpdate
	recreation = infrav1.OperationRecreation
	fargate    = infrav1.OperationFargateProfileUpdate
)

// at is a time after the start, in minutes.
func at(minutes int) time.Time { return builder.Created.Add(time.Duration(minutes) * time.Minute) }

// look is a reconcile; minute is when.
type look struct {
	minute int
	Observed
	want string
}

// text is progress in one line: operation, percentage, remaining minutes, and the history.
func text(p *infrav1.Progress) string {
	if p == nil {
		return "none"
	}
	line := fmt.Sprintf("%s %d%%", p.CurrentOperation, ptr.Deref(p.PercentComplete, -1))
	if p.EstimatedSecondsRemaining != nil {
		line += fmt.Sprintf(" %dm", *p.EstimatedSecondsRemaining/60)
	}
	for _, record := range p.History {
		line += fmt.Sprintf(", %s %d", record.Name, int(record.StartTime.Sub(at(0)).Minutes()))
		if record.CompletionTime != nil {
			line += fmt.Sprintf("-%d %s", int(record.CompletionTime.Sub(at(0)).Minutes()), record.Outcome)
		}
		line += strings.TrimSuffix(" "+record.Message, " ")
	}
	return strings.TrimSpace(line)
}

// nextOf is Next for a control plane.
func nextOf(before *infrav1.Progress, in *Observed) *infrav1.Progress {
	in.Steps = Steps()["CAPTControlPlane"]
	return Next(before, in)
}

func TestLifeOfProgress(t *testing.T) {
	step := func(operation infrav1.Operation, step Step, revision int64) Observed {
		return Observed{Operation: operation, Step: step, Revision: revision, Working: operation == creation}
	}
	failed := func(message string, revision int64) Observed {
		return Observed{Step: Workspace, Failed: true, Message: message, Revision: revision}
	}
	done := Observed{Step: Done, Revision: 1}
	paused := step(creation, Validation, 0)
	paused.Paused = true
	late := step(update, Workspace, 2)
	late.Started = at(5)
	for name, looks := range map[string][]look{
		"a creation": {
			{0, Observed{Step: Validation}, "none"},
			{0, step(creation, Validation, 0), "Creation 0%, Creation 0"},
			{1, step(creation, Infrastructure, 0), "Creation 5%, Creation 0"},
			{3, step(creation, Workspace, 1), "Creation 25%, Creation 0"},
			{9, step(creation, Workspace, 2), "Creation 25%, Creation 0"},
			{10, step("", Kubeconfig, 1), "Creation 88%, Creation 0"},
			{10, step(fargate, FargateProfiles, 1), "Creation 90%, Creation 0"},
			{12, done, "100%, Creation 0-12 Succeeded"},
			{20, done, "100%, Creation 0-12 Succeeded"},
		},
		"Fargate profiles are a part of the creation, although CAPT has completed the WorkspaceTemplateApply meanwhile": {
			{0, step(creation, Workspace, 1), "Creation 25%, Creation 0"},
			{8, step(fargate, FargateProfiles, 2), "Creation 90%, Creation 0"},
			{9, Observed{Step: Done, Revision: 2}, "100%, Creation 0-9 Succeeded"},
		},
		"a step that is repeated does not reduce the percentage": {
			{0, step(creation, Workspace, 1), "Creation 25%, Creation 0"},
			{1, step(creation, Validation, 1), "Creation 25%, Creation 0"},
		},
		"a failure that is retried is one operation": {
			{0, step(creation, Workspace, 1), "Creation 25%, Creation 0"},
			{5, failed("quota", 1), "25%, Creation 0-5 Failed quota"},
			{6, failed("another text", 1), "25%, Creation 0-5 Failed quota"},
			{7, step(creation, Workspace, 1), "Creation 25%, Creation 0"},
			{8, failed("again", 1), "25%, Creation 0-8 Failed again"},
			{9, done, "100%, Creation 0-9 Succeeded"},
		},
		"a changed spec after a failure is another operation": {
			{0, step(update, Workspace, 2), "Update 5%, Update 0"},
			{5, failed("quota", 2), "5%, Update 0-5 Failed quota"},
			{6, step(update, Workspace, 3), "Update 5%, Update 0-5 Failed quota, Update 6"},
		},
		"a changed spec during an update": {
			{0, step(update, FargateProfiles, 2), "Update 90%, Update 0"},
			{1, step(update, Workspace, 3), "Update 5%, Update 0-1 Superseded, Update 1"},
		},
		"a recreation after an update started": {
			{0, step(update, Workspace, 2), "Update 5%, Update 0"},
			{1, step(recreation, Workspace, 3), "Recreation 5%, Update 0-1 Superseded, Recreation 1"},
			{2, step(recreation, Workspace, 1), "Recreation 5%, Update 0-1 Superseded, Recreation 1"},
		},
		"Fargate profiles only": {
			{0, step(fargate, FargateProfiles, 1), "FargateProfileUpdate 5%, FargateProfileUpdate 0"},
			{1, done, "100%, FargateProfileUpdate 0-1 Succeeded"},
		},
		"paused":                         {{0, paused, "none"}},
		"a reconcile that is late":       {{9, late, "Update 5%, Update 5"}},
		"Ready after status was lost":    {{0, step("", Workspace, 1), "none"}, {1, done, "none"}},
		"Failed after status was lost":   {{0, failed("quota", 1), "none"}},
		"an update after such a restore": {{0, done, "none"}, {1, step(update, Workspace, 2), "Update 5%, Update 1"}, {2, done, "100%, Update 1-2 Succeeded"}},
		"a creation that goes on after status was lost": {
			{0, step(creation, Workspace, 1), "Creation 25%, Creation 0"}, {1, done, "100%, Creation 0-1 Succeeded"},
		},
		"estimates follow from the own history": {
			{0, step(update, Workspace, 2), "Update 5%, Update 0"},
			{20, done, "100%, Update 0-20 Succeeded"},
			{30, step(update, Workspace, 3), "Update 5% 19m, Update 0-20 Succeeded, Update 30"},
			{39, step(update, Workspace, 3), "Update 5% 19m, Update 0-20 Succeeded, Update 30"},
			{48, step(update, FargateProfiles, 3), "Update 90% 2m, Update 0-20 Succeeded, Update 30"},
			{49, failed("quota", 3), "90%, Update 0-20 Succeeded, Update 30-49 Failed quota"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p *infrav1.Progress
			for _, look := range looks {
				before := p.DeepCopy()
				look.Now = at(look.minute)
				next := nextOf(p, &look.Observed)
				assert.Equal(t, look.want, text(next))
				assert.Equal(t, before, p, "the argument is not modified")
				later := look.Observed
				later.Now = later.Now.Add(time.Hour)
				assert.Equal(t, next, nextOf(next, &later), "time alone changes nothing")
				p = next
			}
		})
	}
}

// CAPT itself completes a new WorkspaceTemplateApply, which changes its generation. The record of a failure has the last one.
func TestARevisionAloneChangesNothing(t *testing.T) {
	look := Observed{Operation: creation, Step: Workspace, Revision: 1, Now: at(0)}
	first := nextOf(nil, &look)
	look.Revision, look.Now = 2, at(1)
	second := nextOf(first, &look)
	assert.Equal(t, first, second)
	failed := nextOf(second, &Observed{Step: Workspace, Failed: true, Message: "quota", Revision: 2, Now: at(2)})
	assert.EqualValues(t, 2, failed.Revision)
	assert.Equal(t, "Creation 25%, Creation 0", text(nextOf(failed, &look)), "it is retried")
}

func TestHistoryIsBounded(t *testing.T) {
	var p *infrav1.Progress
	for i := range 30 {
		p = nextOf(p, &Observed{Operation: update, Step: Workspace, Revision: int64(i + 1), Now: at(i)})
	}
	assert.Len(t, p.History, 20)
	assert.Equal(t, at(29), p.History[19].StartTime.Time)
	p = nextOf(p, &Observed{Failed: true, Message: strings.Repeat("é", 4000), Now: at(31)})
	assert.LessOrEqual(t, len(p.History[19].Message), 1024)
}

func TestEstimates(t *testing.T) {
	minutes := func(all ...int) Durations {
		d := Durations{}
		for _, m := range all {
			d[creation] = append(d[creation], time.Duration(m)*time.Minute)
		}
		return d
	}
	for name, row := range map[string]struct {
		earlier Durations
		want    *int32
	}{
		"unknown":                      {nil, nil},
		"another operation":            {Durations{update: {time.Hour}}, nil},
		"the median of the other ones": {minutes(16, 12, 900), ptr.To[int32](720)},
		"of two, the longer one":       {minutes(12, 20), ptr.To[int32](900)},
	} {
		t.Run(name, func(t *testing.T) {
			p := nextOf(nil, &Observed{Operation: creation, Step: Workspace, Now: at(0), Earlier: row.earlier})
			assert.Equal(t, row.want, p.EstimatedSecondsRemaining)
			if row.want == nil {
				assert.Nil(t, p.EstimatedCompletionTime)
				assert.Same(t, p, AsOf(p, at(1)))
				return
			}
			assert.Equal(t, at(0).Add(time.Duration(*row.want)*time.Second), p.EstimatedCompletionTime.Time)
			assert.Equal(t, *row.want-60, *AsOf(p, at(1)).EstimatedSecondsRemaining)
			assert.Zero(t, *AsOf(p, at(999)).EstimatedSecondsRemaining, "late")
		})
	}
	assert.Nil(t, AsOf(nil, at(0)))
}

// finished is a control plane whose creation took some minutes, with a WorkspaceTemplate.
func finished(name, template string, took time.Duration, outcome infrav1.Outcome) *controlplanev1.CAPTControlPlane {
	c := builder.CAPTControlPlane(name)
	c.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: template}
	c.Status.Progress = &infrav1.Progress{History: []infrav1.OperationRecord{
		{Name: creation, StartTime: timeOf(at(0)), CompletionTime: timeOf(at(0).Add(took)), Outcome: outcome}, {Name: update, StartTime: timeOf(at(90))},
	}}
	return c
}

// A control plane whose VPC does not exist has not begun, however long others took.
func TestWhatHasNotBegunHasNoProgress(t *testing.T) {
	in := Observed{Operation: creation, Step: Infrastructure, Now: at(0), Earlier: Durations{creation: {100 * time.Minute}}}
	assert.Equal(t, "none", text(nextOf(nil, &in)))
	in.Working, in.Now = true, at(90)
	begun := nextOf(nil, &in)
	assert.Equal(t, "Creation 5% 95m, Creation 90", text(begun))
	in.Working, in.Now = false, at(100)
	assert.Nil(t, nextOf(begun, &in).EstimatedCompletionTime, "what it waits for was deleted")
}

func TestEarlier(t *testing.T) {
	const index = "templates"
	clients := builder.Clients(
		finished("self", "eks", time.Minute, infrav1.OutcomeSucceeded), finished("a", "eks", 12*time.Minute, infrav1.OutcomeSucceeded),
		finished("failed", "eks", 13*time.Minute, infrav1.OutcomeFailed), finished("nothing-applied", "eks", 2*time.Second, infrav1.OutcomeSucceeded),
		finished("profile-uses-it", "other", 14*time.Minute, infrav1.OutcomeSucceeded), builder.CAPTControlPlane("new"),
	).WithIndex(&controlplanev1.CAPTControlPlane{}, index, func(client.Object) []string { return []string{"default/eks"} })
	got, err := Earlier(t.Context(), clients.Build(), &controlplanev1.CAPTControlPlaneList{}, index, finished("self", "eks", 0, ""))
	require.NoError(t, err)
	assert.Equal(t, Durations{creation: {12 * time.Minute}}, got)
}

func TestWeights(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	require.NoError(t, err)
	for operation := range Weights() {
		for kind, steps := range Steps() {
			assert.EqualValues(t, 100, percentAt(operation, Done, steps), "%s of %s", operation, kind)
			assert.Zero(t, percentAt(operation, Validation, steps), "%s of %s", operation, kind)
		}
	}
	for _, step := range append(Steps()["CAPTControlPlane"], Nodes) {
		of := func(operation infrav1.Operation) int32 { return Weights()[operation][step] }
		assert.Equal(t, of(update), of(recreation))
		assert.Contains(t, string(manual), fmt.Sprintf("\n| `%s` | %d | %d | %d |", step, of(creation), of(update), of(fargate)))
	}
	assert.EqualValues(t, 85, percentAt(creation, Nodes, Steps()["CAPTMachinePool"]))
	assert.EqualValues(t, 7, percentAt(creation, Workspace, Steps()["CAPTCluster"]))
}

// A write each minute at most: of an operation that takes as long as expected, and of one that takes longer; none if it is short, fails or has no estimate.
func TestThePercentageGrowsOncePerMinute(t *testing.T) {
	looks := func(change func(*Observed), seconds int) (changes int, last *infrav1.Progress) {
		in := Observed{Operation: update, Steps: Steps()["CAPTControlPlane"], Step: Workspace, Working: true, Now: at(0), Earlier: Durations{update: {10 * time.Minute}}}
		change(&in)
		last = Next(nil, &in)
		for range seconds {
			in.Now = in.Now.Add(time.Second)
			next := Next(last, &in)
			if *next.PercentComplete != *last.PercentComplete {
				changes++
				assert.Zero(t, in.Now.Sub(at(0))%time.Minute)
			}
			until := UntilNext(next, in.Now)
			assert.Equal(t, in.Earlier != nil && at(0).Add(in.Now.Sub(at(0)).Truncate(time.Minute)).Before(next.EstimatedCompletionTime.Time), until > 0 && until <= time.Minute, in.Now)
			last = next
		}
		return changes, last
	}
	none := func(*Observed) {}
	changes, last := looks(none, 5*60)
	assert.Equal(t, 5, changes)
	assert.EqualValues(t, 52, *last.PercentComplete)
	assert.Equal(t, last.EstimatedCompletionTime, Next(last, &Observed{Operation: update, Step: Workspace, Now: at(6), Working: true}).EstimatedCompletionTime, "time alone does not change when it is expected to end")
	changes, last = looks(none, 60*60)
	assert.Equal(t, 10, changes, "nothing more is written once it is late")
	assert.EqualValues(t, 99, *last.PercentComplete)
	for name, change := range map[string]func(*Observed){
		"it waits for the user": func(in *Observed) { in.Working = false }, "there is no estimate": func(in *Observed) { in.Earlier = nil },
	} {
		changes, _ = looks(change, 5*60)
		assert.Zero(t, changes, name)
	}
	changes, _ = looks(none, 59)
	assert.Zero(t, changes, "it is short")
	assert.Zero(t, UntilNext(nil, at(0)))
}
