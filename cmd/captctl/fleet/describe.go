// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
)

// describeOptions are the options of describe.
type describeOptions struct {
	cli.View
	selected
}

// Validate checks the argument and the flags.
func (o *describeOptions) Validate() error {
	return errors.Join(o.selected.Validate(), o.View.Validate())
}

// NewDescribe returns captctl describe.
func NewDescribe(environment *cli.Environment) *cobra.Command {
	o := &describeOptions{cli.NewView(environment), selected{cli.Selected{Of: environment.Access}}}
	command := &cobra.Command{
		Use:   "describe [NAMESPACE/]CLUSTER",
		Short: "Show the state of a Cluster, the one cause if it is not Ready, and what to do",
		Long: `Shows the state of a Cluster, its progress, the first object that does not merely wait for another
one with the reason and the message of its condition, the next step, the objects of the Cluster,
its health, its Fargate profiles, the last operations and the latest events.

Without NAMESPACE, --namespace or the namespace of the kubeconfig's context is used.`,
		Example: `  captctl describe demo
  captctl describe team-a/demo --watch

  # Why is it not Ready?
  captctl describe demo -o json | jq .cause`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteClusters(),
		RunE:              cli.Run(o),
	}
	o.AddFlags(command)
	return command
}

// described is a Cluster with the events of its objects.
type described struct {
	*overview.Objects
	events []eventsv1.Event
}

// Run reads and prints, once or until it is interrupted.
func (o *describeOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	return cli.Show(ctx, &o.View, reader, watched(o.Namespace, eventsv1.SchemeGroupVersion.WithKind("Event")),
		func(ctx context.Context) (*described, error) { return o.read(ctx, reader) },
		func(p *output.Printer, found *described) error {
			document := newDescription(found.Objects, found.events, o.Now())
			document.TypeMeta = metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ClusterDescription"}
			return p.Document(document, func(p *output.Printer) { showDescription(p, document, o.Clock.Now()) })
		})
}

func (o *describeOptions) read(ctx context.Context, reader client.Reader) (*described, error) {
	objects, err := o.objects(ctx, reader)
	if err != nil {
		return nil, err
	}
	found := &described{Objects: objects}
	var list eventsv1.EventList
	err = reader.List(ctx, &list, client.InNamespace(o.Namespace))
	if apierrors.IsForbidden(err) { // The rest does not depend on events.
		fmt.Fprintf(o.ErrOut, "Warning: events are not shown: %v\n", err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	found.events = latest(list.Items, found.Objects)
	return found, nil
}

// mostEvents is how many events are shown.
const mostEvents = 10

// latest returns the latest events about objects of a Cluster, the oldest first.
func latest(events []eventsv1.Event, objects *overview.Objects) []eventsv1.Event {
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

// nextStep is what to do about the cause; nil if its message alone says it.
func nextStep(o *overview.Objects, c *overview.Cluster) *view.Next {
	name := c.Namespace + "/" + c.Name
	switch {
	case ptr.Deref(o.Cluster.Spec.Paused, false):
		return &view.Next{Step: "It is paused. Resume it when the reason for the pause has ended.", Commands: []string{"captctl resume " + name}}
	case c.Paused:
		return &view.Next{Step: "Some of its objects are paused by the annotation cluster.x-k8s.io/paused. If its value is " + naming.MigrationPause +
			", a run of captctl migrate was interrupted: see captctl migrate status. Otherwise remove the annotation when the reason for the pause has ended.", Commands: unpause(o)}
	case c.Cause == nil:
		return nil
	case c.Cause.Reason == infrav1.WaitingForApprovalReason:
		return &view.Next{Step: "See why the change waits, and approve it, or revert it.",
			Commands: []string{fmt.Sprintf("captctl template approve-change %s/%s", c.Namespace, c.Cause.Name)}}
	case c.Cause.IsWaiting():
		return nil
	case c.Cause.Condition == infrav1.AdoptionRequiredCondition:
		return &view.Next{Step: "CAPT v0.3 created it, and it has not been adopted. See what its adoption needs.", Commands: []string{"captctl migrate check --cluster " + name}}
	}
	if next := nextStepFor(o, c, name); next != nil {
		return next
	}
	if c.State == controlplanev1.StateFailed {
		return &view.Next{Commands: []string{"captctl retry " + name}, Step: "Fix the cause. CAPT continues when the spec, the template, the ProviderConfig or a Secret " +
			"changes. If the cause was elsewhere, request a retry."}
	}
	return nil
}

// nextStepFor is what to do about the reason of the cause; nil if that depends on its message.
func nextStepFor(o *overview.Objects, c *overview.Cluster, name string) *view.Next {
	edit := editTemplate(o, c.Cause)
	switch c.Cause.Reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason:
		if isElsewhere(o, c.Cause) {
			return &view.Next{Step: "Remove the cause that the message names. It is not in the template. provider-terraform retries.", Commands: []string{"captctl logs " + name}}
		}
		return &view.Next{Step: "Correct what Terraform reports: the module of the WorkspaceTemplate, a variable of the Cluster, or something in AWS. " +
			"An edit starts Terraform immediately; without one, provider-terraform retries.", Commands: append([]string{"captctl logs " + name}, edit...)}
	case infrav1.DestroyFailedReason:
		return &view.Next{Step: "Delete what still uses the resources, or correct what Terraform reports. provider-terraform retries.", Commands: []string{"captctl logs " + name}}
	case infrav1.ProviderConfigFailedReason:
		return &view.Next{Step: "Create or correct the ProviderConfig, or the Secret with its credentials. If the WorkspaceTemplate names the wrong one, correct " +
			"spec.template.spec.providerConfigRef, and then run the command that captctl describe shows.", Commands: edit}
	case infrav1.VPCIDMissingReason, controlplanev1.EndpointMissingReason:
		return &view.Next{Step: "Add the output to the module of the WorkspaceTemplate, or correct its name.", Commands: edit}
	case infrav1.TemplateNotFoundReason:
		return &view.Next{Step: "Create the WorkspaceTemplate, or correct the reference to it. A template of another namespace must allow this one in spec.allowedNamespaces.",
			Commands: []string{"kubectl get workspacetemplates -A"}}
	case infrav1.TemplateInvalidReason, infrav1.VariableMissingReason, infrav1.WorkspaceRejectedReason:
		return &view.Next{Step: "Correct the WorkspaceTemplate or the variables of the Cluster.", Commands: edit}
	case controlplanev1.APIServerNotAnsweringReason, controlplanev1.HealthCheckFailedReason:
		return &view.Next{Step: "Check whether the API server answers you. If it does, the network or the kubeconfig of CAPT is the cause.", Commands: []string{
			fmt.Sprintf("clusterctl get kubeconfig %s -n %s > %[1]s.kubeconfig", c.Name, c.Namespace),
			fmt.Sprintf("kubectl --kubeconfig %s.kubeconfig get --raw '/readyz?verbose'", c.Name),
		}}
	case infrav1.WorkspaceNotReconciledReason:
		return &view.Next{Step: "Check that provider-terraform runs.", Commands: []string{"kubectl -n crossplane-system get pods"}}
	case overview.NotReconciledReason:
		return &view.Next{Step: "Check that the manager of CAPT runs.", Commands: []string{"kubectl -n capt-system get pods"}}
	}
	return nil
}

// isElsewhere reports whether the class of an error of Terraform rules out that the module or its variables are the cause (docs/recovery.md).
func isElsewhere(o *overview.Objects, cause *overview.Cause) bool {
	i := slices.IndexFunc(o.Applies, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return cause.Kind == applyKind && cause.Name == apply.Name
	})
	return i >= 0 && !slices.Contains([]failure.Class{"", failure.ClassConfig, failure.ClassUnknown}, failure.Class(o.Applies[i].Status.LastFailureClass))
}

// editTemplate are the commands that edit the template of the object that is the cause, and the object that has its variables.
func editTemplate(o *overview.Objects, cause *overview.Cause) (commands []string) {
	edit := func(kind string, object types.NamespacedName) {
		commands = append(commands, fmt.Sprintf("kubectl edit %s -n %s %s", kind, object.Namespace, object.Name))
	}
	isVPC := o.CAPTCluster != nil && cause.Kind == "CAPTCluster"
	if template := templateOf(o, cause.Kind); template.Name != "" {
		edit("workspacetemplate", template)
	}
	for _, apply := range o.Applies {
		if cause.Kind == applyKind && cause.Name == apply.Name && apply.Spec.TemplateRef.Name != "" {
			edit("workspacetemplate", apply.TemplateKey())
			isVPC = o.CAPTCluster != nil && o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name == apply.Name
		}
	}
	switch {
	case isVPC:
		edit("captcluster", client.ObjectKeyFromObject(o.CAPTCluster))
	case o.ControlPlane != nil:
		edit("captcontrolplane", client.ObjectKeyFromObject(o.ControlPlane))
	}
	return commands
}

// templateOf is the template that the spec of an owner names; empty if the kind is another one.
func templateOf(o *overview.Objects, kind string) types.NamespacedName {
	switch {
	case kind == "CAPTCluster" && o.CAPTCluster != nil:
		return o.CAPTCluster.Spec.VPC.Template.Ref.Key(o.CAPTCluster.Namespace)
	case kind == "CAPTControlPlane" && o.ControlPlane != nil:
		return o.ControlPlane.Spec.WorkspaceTemplateRef.Key(o.ControlPlane.Namespace)
	}
	return types.NamespacedName{}
}

// unpause are the commands that remove the annotation cluster.x-k8s.io/paused.
func unpause(o *overview.Objects) (commands []string) {
	for _, object := range o.PausedByAnnotation() {
		commands = append(commands, fmt.Sprintf("kubectl annotate -n %s %s %s-", o.Cluster.Namespace, strings.ToLower(object), clusterv1.PausedAnnotation))
	}
	return commands
}
