// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// show prints the status for users.
func (s *Status) show(p *output.Printer, now time.Time) {
	staged := s.Strategy == infrav1.RolloutStaged
	revision, strategy := terraform.ShortRevision(s.Revision), string(s.Strategy)
	if staged {
		revision = fmt.Sprintf("%d (%s)", s.Number, revision)
	} else {
		strategy += ": edits reach all users at once"
	}
	for _, field := range [][2]string{
		{"Template:", p.Paint(output.Strong, s.Namespace+"/"+s.Name)}, {"Deletion:", p.Paint(output.Bad, s.deletionText(now))}, {"Strategy:", strategy}, {"Revision:", p.Paint(output.Plain, revision)},
		{"Stage:", p.Paint(s.stageStyle(), s.stageText(now))}, {"Approved:", p.Paint(output.Plain, s.approvalText(now))}, {"Users:", s.countsText()},
	} {
		if field[1] != "" {
			p.Linef("%-10s %s", field[0], field[1])
		}
	}
	if s.Message != "" {
		p.Blank()
		p.Text("", s.stageStyle(), output.OneLine(s.Message))
	}
	if s.NextStep != nil {
		p.Blank()
		p.Title("Next step:", output.Plain, s.NextStep.Step)
		for _, command := range s.NextStep.Commands {
			p.Linef("  %s", p.Paint(output.Plain, command))
		}
	}
	s.showUsers(p)
	s.showRevisions(p, now)
}

// deletionText is since when the template is being deleted; empty if it is not.
func (s *Status) deletionText(now time.Time) string {
	if s.DeletionTime == nil {
		return ""
	}
	return fmt.Sprintf("requested %s ago; waits for %s", ageOf(now, s.DeletionTime), output.Count(len(s.Users)+len(s.Deleting), "user"))
}

func (s *Status) stageStyle() output.Style {
	switch {
	case s.Reason == infrav1.RolloutStoppedReason, s.Reason == infrav1.RolloutFailingReason:
		return output.Bad
	case s.Reason == infrav1.RolloutWaitingReason:
		return output.Attention
	case s.Stage == infrav1.RolloutComplete:
		return output.Good
	}
	return output.Plain
}

// stageText is the stage, what holds it, and since when the revision is rolled out; empty without a staged rollout.
func (s *Status) stageText(now time.Time) string {
	text := string(s.Stage)
	switch {
	case text == "":
		return ""
	case s.Reason == infrav1.RolloutStoppedReason && s.Counts[rollout.UserFailed] == 0 && s.Counts[rollout.UserStalled] > 0:
		text += ", stopped"
	case s.Reason == infrav1.RolloutStoppedReason:
		text += ", stopped by a failure"
	case s.State == infrav1.RolloutPaused:
		text += ", paused"
	case s.SoakUntil != nil && s.SoakUntil.After(now):
		text += ", for another " + duration.HumanDuration(s.SoakUntil.Sub(now))
	}
	if s.StartTime != nil {
		text += fmt.Sprintf(" (started %s)", output.Ago(now, s.StartTime.Time))
	}
	return text
}

// approvalText is who approved the revision; empty if it needs no approval and has none.
func (s *Status) approvalText(now time.Time) string {
	switch {
	case s.Approval != nil:
		return s.Approval.text(now)
	case s.RequiredApproval == infrav1.RolloutApprovalNone || s.RequiredApproval == "":
		return ""
	}
	return "no"
}

func (a *Approval) text(now time.Time) string {
	if a == nil {
		return ""
	}
	text := cmp.Or(a.By, "unknown user")
	if at, err := time.Parse(time.RFC3339, a.At); err == nil {
		text += ", " + output.Ago(now, at)
	}
	return text
}

// countsText has the users by state, those first that need attention.
func (s *Status) countsText() string {
	var parts []string
	for _, state := range []rollout.UserState{rollout.UserFailed, rollout.UserStalled, rollout.UserUpdating, rollout.UserWaiting, rollout.UserCreating, rollout.UserCurrent} {
		if n := s.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(s.Deleting) > 0 {
		parts = append(parts, fmt.Sprintf("%d being deleted (%s)", len(s.Deleting), rollout.Names(s.Deleting)))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func userStyle(state string) output.Style {
	state, _, _ = strings.Cut(state, ",")
	switch rollout.UserState(state) {
	case rollout.UserFailed, rollout.UserStalled:
		return output.Bad
	case rollout.UserUpdating, rollout.UserCreating:
		return output.Attention
	case rollout.UserCurrent:
		return output.Good
	case rollout.UserWaiting:
	}
	return output.Plain
}

// What follows the state of a user.
const (
	pausedSuffix     = ",paused"
	leftBehindSuffix = ",left behind"
)

func (s *Status) showUsers(p *output.Printer) {
	rows := output.Rows{}
	for i := range s.Users {
		u := &s.Users[i]
		state := string(u.State)
		if u.Paused {
			state += pausedSuffix
		}
		if u.LeftBehind {
			state += leftBehindSuffix
		}
		rows = append(rows, []string{
			u.Namespace, u.Name, u.Cluster, state, s.numberOf(u.Written), map[bool]string{true: "yes"}[u.Canary], terraform.ShortRevision(u.Assigned), terraform.ShortRevision(u.Written), terraform.ShortRevision(u.Applied),
			output.OneLine(strings.TrimSuffix(u.Reason+": "+u.Message, ": ")),
		})
	}
	if len(rows) > 0 {
		p.Blank()
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "Cluster"}, {Name: "State", Style: userStyle}, {Name: "Revision"}, {Name: "Canary"},
		{Name: "Assigned", Wide: true}, {Name: "Written", Wide: true}, {Name: "Applied", Wide: true}, {Name: "Message", Prose: 4},
	}, rows)
}

// numberOf is the number of a revision, or its hash if it is not stored.
func (s *Status) numberOf(hash string) string {
	for i := range s.Revisions {
		if s.Revisions[i].Hash == hash {
			return strconv.FormatInt(s.Revisions[i].Number, 10)
		}
	}
	return terraform.ShortRevision(hash)
}

func (s *Status) showRevisions(p *output.Printer, now time.Time) {
	rows := output.Rows{}
	for i := range s.Revisions {
		r := &s.Revisions[i]
		var notes []string
		if r.Target {
			notes = append(notes, "current content")
		}
		if r.ForNewUsers {
			notes = append(notes, "for new users")
		}
		rows = append(rows, []string{
			strconv.FormatInt(r.Number, 10), terraform.ShortRevision(r.Hash), ageOf(now, r.Created), strconv.Itoa(r.Users), r.Approval.text(now), strings.Join(notes, ", "),
		})
	}
	if len(rows) > 0 {
		p.Blank()
	}
	p.Table([]output.Column{{Name: "Revision"}, {Name: "Hash"}, {Name: "Age"}, {Name: "Users"}, {Name: "Approved"}, {Name: "Notes", Prose: 4}}, rows)
}

func ageOf(now time.Time, at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
