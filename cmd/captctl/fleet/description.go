// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
)

// Description is all that is shown of a Cluster.
type Description struct {
	metav1.TypeMeta  `json:",inline"`
	overview.Cluster `json:",inline"`
	// NextStep is what to do, where a command of captctl or kubectl helps.
	NextStep *view.Next        `json:"nextStep,omitempty"`
	Objects  []overview.Object `json:"objects"` // Objects of the Cluster, first those that wait for none of the others.
	// Checks are the health checks of the control plane.
	Checks          []controlplanev1.HealthCheck          `json:"checks,omitempty"`
	FargateProfiles []controlplanev1.FargateProfileStatus `json:"fargateProfiles,omitempty"`
	Operations      []controlplanev1.OperationRecord      `json:"operations,omitempty"` // Operations are the last ones, the oldest first.
	Events          []Event                               `json:"events,omitempty"`     // Events are the latest about the objects, the oldest first.
}

// Event about an object of a Cluster.
type Event struct {
	Time    metav1.Time `json:"time"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Object  string      `json:"object"` // Object is its kind and name.
	Message string      `json:"message"`
	Count   int32       `json:"count,omitempty"` // Count is how often it was sent, if more than once.
}

// newDescription describes a Cluster as of a time, with events about its objects.
func newDescription(o *overview.Objects, events []eventsv1.Event, now metav1.Time) *Description {
	d := &Description{Cluster: overview.Of(o, now), Objects: o.List()}
	d.NextStep = nextStep(o, &d.Cluster)
	if o.ControlPlane != nil {
		status := &o.ControlPlane.Status
		d.FargateProfiles = status.FargateProfiles
		if status.Health != nil {
			d.Checks = status.Health.Checks
		}
		if status.Progress != nil {
			d.Operations = status.Progress.History
		}
	}
	for i := range events {
		event := &events[i]
		found := Event{metav1.NewTime(timeOf(event)), event.Type, event.Reason, event.Regarding.Kind + " " + event.Regarding.Name, event.Note, 0}
		if event.Series != nil {
			found.Count = event.Series.Count
		}
		d.Events = append(d.Events, found)
	}
	return d
}

// timeOf is when an event was last sent. Older clients set other fields.
func timeOf(event *eventsv1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	case !event.DeprecatedLastTimestamp.IsZero():
		return event.DeprecatedLastTimestamp.Time
	}
	return event.CreationTimestamp.Time
}

// showDescription shows a Cluster.
func showDescription(p *output.Printer, d *Description, now time.Time) {
	state := stateText(&d.Cluster)
	if d.Paused {
		state += ", paused"
	}
	for _, field := range [][2]string{
		{"Cluster:", p.Paint(output.Strong, d.Namespace+"/"+d.Name)}, {"State:", p.Paint(stateStyle(stateText(&d.Cluster)), state)},
		{"Version:", p.Paint(output.Plain, versionText(&d.Cluster))}, {"Endpoint:", p.Paint(output.Plain, d.Endpoint)},
		{"Progress:", progressLine(d.Progress, now)}, {"Age:", since(now, &d.Created)},
	} {
		if field[1] != "" {
			p.Linef("%-10s %s", field[0], field[1])
		}
	}
	if cause := d.Cause; cause != nil {
		p.Blank()
		p.Title("Cause:", causeStyle(&d.Cluster), fmt.Sprintf("%s %s: %s (%s)", cause.Kind, cause.Name, cause.Reason, causeAge(cause, now)))
		p.Text("  ", output.Plain, cause.Message)
	}
	if d.NextStep != nil {
		p.Blank()
		p.Title("Next step:", output.Plain, d.NextStep.Step)
		for _, command := range d.NextStep.Commands {
			p.Linef("  %s", p.Paint(output.Plain, command)) // Lines of a command are not broken, so that it can be copied.
		}
	}
	describeObjects(p, d, now)
	describeHistory(p, d, now)
}

// causeStyle is plain while work is in progress as it should be.
func causeStyle(c *overview.Cluster) output.Style {
	switch {
	case c.Cause.IsWaiting():
		return output.Plain
	case c.State == overview.StateDeleting:
		return output.Attention
	}
	return output.Bad
}

// causeAge is how long the condition has had its status, which may be longer than its reason.
func causeAge(cause *overview.Cause, now time.Time) string {
	age := "for " + since(now, &cause.Since)
	if cause.Condition == infrav1.ReadyCondition {
		age = "not Ready " + age
	}
	return age
}

// progressLine is a bar, the percentage, the operation and the remaining time; empty when no operation is in progress.
func progressLine(progress *overview.Progress, now time.Time) string {
	if progress == nil {
		return ""
	}
	const width = 20
	full := int(progress.PercentComplete) * width / 100
	return fmt.Sprintf("[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), progressDetails(progress, now))
}

// progressDetails are the percentage, the operation and the remaining time.
func progressDetails(progress *overview.Progress, now time.Time) string {
	text := fmt.Sprintf("%d%% of %s", progress.PercentComplete, progress.Operation)
	switch {
	case progress.Overdue:
		text += ", longer than expected"
	case progress.Remaining(now) > 0:
		text += ", about " + duration.HumanDuration(progress.Remaining(now)) + " left"
	}
	return text
}

func describeObjects(p *output.Printer, d *Description, now time.Time) {
	rows := output.Rows{}
	for _, object := range d.Objects {
		rows = append(rows, []string{object.Kind + "/" + object.Name, string(object.Ready), object.Reason, since(now, &object.Created)})
	}
	p.Blank()
	p.Table(append(readyColumns("Object"), output.Column{Name: "Age"}), rows)
	rows = output.Rows{}
	for _, check := range d.Checks {
		rows = append(rows, []string{check.Name, string(check.Status), since(now, check.LastTransitionTime), output.OneLine(check.Message)})
	}
	section(p, []output.Column{{Name: "Check"}, {Name: "Status", Style: stateStyle}, {Name: "Since"}, {Name: "Message", Prose: 4}}, rows)
	rows = output.Rows{}
	for _, profile := range d.FargateProfiles {
		rows = append(rows, []string{profile.Name, string(profile.State), since(now, profile.LastTransitionTime), output.OneLine(cmp.Or(profile.FailureMessage, profile.FailureReason))})
	}
	section(p, []output.Column{{Name: "Fargate-Profile"}, {Name: "State", Style: stateStyle}, {Name: "Since"}, {Name: "Message", Prose: 4}}, rows)
}

// mostOperations is how many operations are shown without -o wide.
const mostOperations = 5

func describeHistory(p *output.Printer, d *Description, now time.Time) {
	operations := d.Operations
	if !p.Wide() {
		operations = operations[max(0, len(operations)-mostOperations):]
	}
	rows := output.Rows{}
	for _, operation := range operations {
		took := ""
		if operation.StartTime != nil && operation.CompletionTime != nil {
			took = duration.HumanDuration(operation.CompletionTime.Sub(operation.StartTime.Time))
		}
		rows = append(rows, []string{string(operation.Name), cmp.Or(string(operation.Outcome), "in progress"), since(now, operation.StartTime), took, output.OneLine(messageOf(operation.Message, d.Cause))})
	}
	section(p, []output.Column{{Name: "Operation"}, {Name: "Outcome"}, {Name: "Started"}, {Name: "Took"}, {Name: "Message", Prose: 4}}, rows)
	rows = output.Rows{}
	for i, event := range d.Events {
		if i+1 < len(d.Events) && event.isSame(&d.Events[i+1]) {
			continue // Conditions of an object can change together, for the same reason.
		}
		reason := event.Reason
		if event.Count > 1 {
			reason += fmt.Sprintf(" (x%d)", event.Count)
		}
		rows = append(rows, []string{since(now, &event.Time), event.Type, reason, event.Object, output.OneLine(messageOf(event.Message, d.Cause))})
	}
	section(p, []output.Column{{Name: "Age"}, {Name: "Type", Style: eventStyle}, {Name: "Reason"}, {Name: "Object"}, {Name: "Message", Prose: 2}}, rows)
}

// isSame reports whether another event reports nothing else.
func (e *Event) isSame(other *Event) bool {
	return e.Type == other.Type && e.Reason == other.Reason && e.Object == other.Object && e.Message == other.Message && e.Count == other.Count
}

func eventStyle(kind string) output.Style {
	if kind == "Warning" {
		return output.Attention
	}
	return output.Plain
}

// section prints a table after an empty line; nothing if it has no rows.
func section(p *output.Printer, columns []output.Column, rows output.Rows) {
	if len(rows) > 0 {
		p.Blank()
		p.Table(columns, rows)
	}
}
