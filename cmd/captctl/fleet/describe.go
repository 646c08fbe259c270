// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type describeOptions struct{ cli.Options }

// NewDescribe returns captctl describe.
func NewDescribe(environment *cli.Environment) *cobra.Command {
	o := &describeOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "describe [NAMESPACE/]CLUSTER",
		Short: "Show the state of a Cluster, the one cause if it is not Ready, and what to do",
		Long: `Shows the state of a Cluster, its progress, the first object that does not merely wait for another
one with the reason and the message of its condition, the next step, warnings, the objects of the
Cluster, what Terraform would change when what waits is applied, its health, its Fargate profiles
and machine pools, the last operations and the latest events.

Without NAMESPACE, --namespace or the namespace of the kubeconfig's context is used.`,
		Example: `  captctl describe demo
  captctl describe team-a/demo --watch

  # Why is it not Ready?
  captctl describe demo -o json | jq .cause`,
	}
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	o.AddView(command)
	return cli.NewConnected(command, o)
}

type described struct {
	*overview.Objects
	events []eventsv1.Event
}

func (o *describeOptions) Run(ctx context.Context, reader client.WithWatch) error {
	return cli.Show(ctx, &o.Options, reader, watched(o.Namespace, eventsv1.SchemeGroupVersion.WithKind("Event")),
		func(ctx context.Context) (*described, error) { return o.read(ctx, reader) },
		func(p *output.Printer, found *described) error {
			document := newDescription(found.Objects, found.events, o.Now())
			document.TypeMeta = cli.TypeMeta("ClusterDescription")
			return p.Document(document, func(p *output.Printer) { showDescription(p, document, o.Clock.Now()) })
		})
}

func (o *describeOptions) read(ctx context.Context, reader client.Reader) (*described, error) {
	objects, err := ObjectsOf(ctx, &o.Options, reader)
	if err != nil {
		return nil, err
	}
	objects.Failure = failureOfCause(ctx, reader, objects, o.Now())
	if cause := overview.Of(objects, o.Now()).Cause; cause != nil && objects.NeedsProvider(cause, o.Now().Time) {
		objects.Provider = providerOf(ctx, reader, objects)
	}
	events, err := eventsOf(ctx, reader, objects)
	if apierrors.IsForbidden(err) { // The rest does not depend on events.
		o.Warn("events are not shown: %v", err)
		err = nil
	}
	return &described{objects, latest(events, objects)}, err
}

// eventsOf reads the events about objects of a Cluster. A namespace can have those of many Clusters, so only events about the names are requested. The
// API server searches for each name among all, so it is asked for several at a time.
func eventsOf(ctx context.Context, reader client.Reader, objects *overview.Objects) ([]eventsv1.Event, error) {
	const pageOfEvents = 500 // How many events a request returns.
	names := objects.Names()
	found := make([][]eventsv1.Event, len(names))
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		group.Go(func() error {
			page := eventsv1.EventList{}
			for more := true; more; more = page.Continue != "" {
				options := []client.ListOption{client.InNamespace(objects.Cluster.Namespace), client.MatchingFields{"regarding.name": name}, client.Limit(pageOfEvents), client.Continue(page.Continue)}
				page = eventsv1.EventList{}
				if err := reader.List(ctx, &page, options...); err != nil {
					return err
				}
				found[i] = append(found[i], page.Items...)
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(found...), err
}

// failureOfCause reads the error of the Workspace of the cause and, if they can explain it, the Pods of provider-terraform; nil if there is no error, or the user
// may not read it.
func failureOfCause(ctx context.Context, reader client.Reader, objects *overview.Objects, now metav1.Time) *overview.Failure {
	cause := overview.Of(objects, now).Cause
	if cause == nil {
		return nil
	}
	apply := objects.Failing(cause)
	if apply == nil || apply.Status.WorkspaceRef == nil || !isFailure(cause.Reason) {
		return nil
	}
	failed, secrets, err := failureOf(ctx, reader, apply)
	if err != nil {
		return nil
	}
	found := &overview.Failure{Report: failure.Explain(failed.Message, secrets, ""), Workspace: apply.Status.WorkspaceRef.UID, ProviderConfig: secrets.ProviderConfig()}
	if found.NeedsPods() {
		found.Pods = providerPods(ctx, reader)
	}
	return found
}

// providerPods returns the Pods of provider-terraform; nil if the user may not list them.
func providerPods(ctx context.Context, reader client.Reader) []corev1.Pod {
	list := corev1.PodList{Items: []corev1.Pod{}}
	if reader.List(ctx, &list, client.HasLabels{terraform.ProviderPodLabel}) != nil {
		return nil
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !terraform.IsProviderPod(&pod) })
}

// providerOf returns what is known of provider-terraform. A user who may not list all namespaces only sees what runs in this one.
func providerOf(ctx context.Context, reader client.Reader, objects *overview.Objects) *overview.Provider {
	found := &overview.Provider{Pods: providerPods(ctx, reader)}
	var list infrav1.WorkspaceTemplateApplyList
	if reader.List(ctx, &list) != nil && reader.List(ctx, &list, client.InNamespace(objects.Cluster.Namespace)) != nil {
		return found
	}
	found.Applies = list.Items
	return found
}

func isFailure(reason string) bool {
	switch reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason, infrav1.DestroyFailedReason:
		return true
	}
	return false
}

// latest returns the latest events about objects of a Cluster, the oldest first.
func latest(events []eventsv1.Event, objects *overview.Objects) []eventsv1.Event {
	const mostEvents = 10 // How many events are shown.
	uids := objects.UIDs()
	about := slices.DeleteFunc(events, func(event eventsv1.Event) bool { return !slices.Contains(uids, event.Regarding.UID) })
	slices.SortStableFunc(about, func(a, b eventsv1.Event) int {
		return cmp.Or(timeOf(&a).Compare(timeOf(&b)), cmp.Compare(a.Name, b.Name))
	})
	return about[max(0, len(about)-mostEvents):]
}

// Description is all that is shown of a Cluster.
type Description struct {
	metav1.TypeMeta  `json:",inline"`
	overview.Cluster `json:",inline"`
	// NextStep is what to do, where a command of captctl or kubectl helps.
	NextStep *overview.Next `json:"nextStep,omitempty"`
	// Warnings are conditions that need attention although their objects are Ready.
	Warnings []*overview.Cause `json:"warnings,omitempty"`
	// Plans are what Terraform would change for objects of the Cluster when what waits is applied: a change of their own, or the revision of their template.
	Plans   []overview.Plan   `json:"plans,omitempty"`
	Objects []overview.Object `json:"objects"` // Objects of the Cluster, first those that wait for none of the others.
	// Checks are the health checks of the control plane.
	Checks          []controlplanev1.HealthCheck          `json:"checks,omitempty"`
	FargateProfiles []controlplanev1.FargateProfileStatus `json:"fargateProfiles,omitempty"`
	MachinePools    []overview.MachinePool                `json:"machinePools,omitempty"`
	Operations      []infrav1.OperationRecord             `json:"operations,omitempty"` // Operations are the last ones, the oldest first.
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
	d := &Description{Cluster: overview.Of(o, now), Objects: o.List(), Warnings: o.Warnings(), Plans: o.Plans(), MachinePools: o.MachinePools()}
	d.NextStep = overview.NextStep(o, &d.Cluster, now.Time)
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

func showDescription(p *output.Printer, d *Description, now time.Time) {
	state := stateText(&d.Cluster)
	if d.Paused {
		state += ", paused"
	}
	p.Fields([][2]string{
		{"Cluster:", p.Paint(output.Strong, d.Namespace+"/"+d.Name)}, {"State:", p.Paint(stateStyle(stateText(&d.Cluster)), state)},
		{"Version:", p.Paint(output.Plain, versionText(&d.Cluster))}, {"Endpoint:", p.Paint(output.Plain, d.Endpoint)},
		{"Nodes:", p.Paint(output.Plain, d.Nodes.String())}, {"Progress:", progressLine(d.Progress, now)}, {"Age:", output.Age(now, &d.Created)},
	})
	if cause := d.Cause; cause != nil {
		p.Blank()
		p.Title("Cause:", causeStyle(&d.Cluster), fmt.Sprintf("%s %s: %s (%s)", cause.Kind, cause.Name, cause.Reason, causeAge(cause, now)))
		p.Text("  ", output.Plain, cause.Message)
		if cause.LookAt != "" {
			acts := "you must act"
			if cause.Actor == reasons.Waiting {
				acts = "provider-terraform retries"
			}
			p.Title("Look at:", output.Plain, fmt.Sprintf("%s (%s)", cause.LookAt.Description(), acts))
		}
	}
	if deletion := d.Deletion; deletion != nil {
		for _, of := range []struct {
			title string
			names []string
		}{{"Being destroyed:", deletion.Destroying}, {"Destroyed afterwards:", deletion.Waiting}} {
			if len(of.names) > 0 {
				p.Title(of.title, output.Plain, strings.Join(of.names, ", "))
			}
		}
	}
	if d.NextStep != nil {
		p.NextStep(d.NextStep.Step, d.NextStep.Commands)
	}
	for _, warning := range d.Warnings {
		p.Blank()
		p.Title("Warning:", output.Attention, fmt.Sprintf("%s %s: %s", warning.Kind, warning.Name, warning.Reason))
		p.Text("  ", output.Plain, messageOf(warning.Message, d.Cause))
	}
	describeObjects(p, d, now)
	describeHistory(p, d, now)
}

// causeStyle is plain while work is in progress as it should be.
func causeStyle(c *overview.Cluster) output.Style {
	switch {
	case c.State == overview.StateDeleting && !c.Cause.IsWaiting(), c.State == overview.StateWaitingForApproval:
		return output.Attention
	case c.Cause.IsWaiting():
		return output.Plain
	}
	return output.Bad
}

// causeAge is how long the condition has had its status, which may be longer than its reason.
func causeAge(cause *overview.Cause, now time.Time) string {
	age := "for " + output.Age(now, &cause.Since)
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

// table is a table for a terminal and for the page of captctl report.
type table struct {
	caption string
	columns []output.Column
	rows    output.Rows
}

func (d *Description) checks(now time.Time) table {
	t := table{"Health checks", []output.Column{{Name: "Check"}, {Name: "Status", Style: stateStyle}, {Name: "Since"}, {Name: "Message", Prose: 4}}, nil}
	for _, check := range d.Checks {
		t.rows = append(t.rows, []string{check.Name, string(check.Status), output.Age(now, check.LastTransitionTime), check.Message})
	}
	return t
}

func (d *Description) profiles(now time.Time) table {
	t := table{"Fargate profiles", []output.Column{{Name: "Profile"}, {Name: "State", Style: stateStyle}, {Name: "Since"}, {Name: "Message", Prose: 4}}, nil}
	for _, profile := range d.FargateProfiles {
		t.rows = append(t.rows, []string{profile.Name, string(profile.State), output.Age(now, profile.LastTransitionTime), cmp.Or(profile.FailureMessage, profile.FailureReason)})
	}
	return t
}

func (d *Description) pools(now time.Time) table {
	t := table{"Machine pools", []output.Column{{Name: "Pool"}, {Name: "State", Style: stateStyle}, {Name: "Nodes"}, {Name: "Version"}, {Name: "Since"}, {Name: "Message", Prose: 4}}, nil}
	for i := range d.MachinePools {
		pool := &d.MachinePools[i]
		t.rows = append(t.rows, []string{pool.Name, string(pool.State), pool.Nodes.String(), pool.Version, output.Age(now, pool.Since), messageOf(pool.Message, d.Cause)})
	}
	return t
}

func (d *Description) plans() table {
	const mostDestroyed = 10 // How many resources of a plan that would be replaced or deleted are shown.
	t := table{"Plans of what waits", []output.Column{{Name: "Object"}, {Name: "Content"}, {Name: "Plan"}, {Name: "Destroys", Prose: 4}}, nil}
	for i := range d.Plans {
		plan := &d.Plans[i]
		t.rows = append(t.rows, []string{plan.Name, plan.Content(), plan.Summary, strings.Join(plan.Destroyed(mostDestroyed), ", ")})
	}
	return t
}

func describeObjects(p *output.Printer, d *Description, now time.Time) {
	rows := output.Rows{}
	for _, object := range d.Objects {
		rows = append(rows, []string{object.Kind + "/" + object.Name, string(object.Ready), object.Reason, output.Age(now, &object.Created)})
	}
	p.Blank()
	consequences := make([]bool, len(d.Objects))
	for i := range d.Objects {
		consequences[i] = d.isConsequence(&d.Objects[i])
	}
	p.Table(append(treeColumns("Object", consequences), output.Column{Name: "Age"}), rows)
	plans, checks, profiles, pools := d.plans(), d.checks(now), d.profiles(now), d.pools(now)
	plans.columns[0].Name, profiles.columns[0].Name, pools.columns[0].Name = "Waiting", "Fargate-Profile", "Machine-Pool"
	for _, t := range []table{plans, checks, profiles, pools} {
		p.Section(t.columns, t.rows)
	}
}

// isConsequence reports whether an object is not ready because of the cause, which is another one.
func (d *Description) isConsequence(object *overview.Object) bool {
	return d.Cause != nil && object.Ready != metav1.ConditionTrue && (object.Kind != d.Cause.Kind || object.Name != d.Cause.Name) &&
		(object.Reason == d.Cause.Reason || reasons.Of(object.Reason).Actor == reasons.Waiting || d.Cause.Message != "" && strings.Contains(object.Message, d.Cause.Message))
}

func describeHistory(p *output.Printer, d *Description, now time.Time) {
	const mostOperations = 5 // How many operations are shown without -o wide.
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
		rows = append(rows, []string{string(operation.Name), cmp.Or(string(operation.Outcome), "in progress"), output.Age(now, operation.StartTime), took, messageOf(operation.Message, d.Cause)})
	}
	p.Section([]output.Column{{Name: "Operation"}, {Name: "Outcome"}, {Name: "Started"}, {Name: "Took"}, {Name: "Message", Prose: 4}}, rows)
	rows = output.Rows{}
	for i, event := range d.Events {
		if i+1 < len(d.Events) && event.isSame(&d.Events[i+1]) {
			continue // Conditions of an object can change together, for the same reason.
		}
		reason := event.Reason
		if event.Count > 1 {
			reason += fmt.Sprintf(" (x%d)", event.Count)
		}
		rows = append(rows, []string{output.Age(now, &event.Time), event.Type, reason, event.Object, messageOf(event.Message, d.Cause)})
	}
	p.Section([]output.Column{{Name: "Age"}, {Name: "Type", Style: eventStyle}, {Name: "Reason"}, {Name: "Object"}, {Name: "Message", Prose: 2}}, rows)
}

func (e *Event) isSame(other *Event) bool {
	return e.Type == other.Type && e.Reason == other.Reason && e.Object == other.Object && e.Message == other.Message && e.Count == other.Count
}

func eventStyle(kind string) output.Style {
	return map[string]output.Style{"Warning": output.Attention}[kind]
}

// messageOf is the message of a condition, an event or an operation. That of the cause, which many repeat, is shown once.
func messageOf(message string, cause *overview.Cause) string {
	if cause != nil && cause.Message != "" && strings.HasSuffix(message, cause.Message) {
		return strings.TrimSuffix(message, cause.Message) + "see the cause"
	}
	return message
}
