// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands that show Clusters.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/page"
	"github.com/capt-provider/capt/cmd/captctl/picture"
	"github.com/capt-provider/capt/migrate"
)

// getOptions are the options of get.
type getOptions struct {
	cli.View
	cli.AllNamespaces
}

// NewGet returns captctl get.
func NewGet(environment *cli.Environment) *cobra.Command {
	o := &getOptions{View: cli.NewView(environment)}
	command := &cobra.Command{
		Use:   "get",
		Short: "List the Clusters, their state, and what they wait for",
		Long: `Lists the Clusters of CAPT with the state, the version, the health and the progress of their control
planes. MESSAGE is the first condition that explains why a Cluster is not Ready: the error of
Terraform, or the object that everything else waits for. captctl describe shows the rest.

PROGRESS is an estimate between two steps, based on the duration of earlier operations.`,
		Example: `  # The whole fleet
  captctl get

  # One namespace, until interrupted
  captctl get -n team-a --watch

  # The Clusters that are not Ready, for a program
  captctl get -o json | jq '.clusters[] | select(.cause) | {namespace, name, cause}'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.View.AddFlags(command)
	o.AllNamespaces.AddFlags(command)
	return command
}

// Complete has nothing to fill in.
func (o *getOptions) Complete([]string) error { return nil }

// Run reads and prints, once or until it is interrupted.
func (o *getOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	return cli.Show(ctx, &o.View, reader, watched(o.Only(o.Access)), func(ctx context.Context) (*fleet, error) {
		return read(ctx, reader, o.Only(o.Access))
	}, func(p *output.Printer, found *fleet) error {
		list := &ClusterList{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ClusterList"}, Clusters: []overview.Cluster{}}
		for _, objects := range found.clusters {
			list.Clusters = append(list.Clusters, overview.Of(objects, o.Now()))
		}
		return p.Document(list, func(p *output.Printer) {
			if len(list.Clusters) == 0 {
				p.Text("", output.Plain, o.none(ctx, reader))
				return
			}
			showClusters(p, list, o.Clock.Now())
		})
	})
}

// none says where there are no Clusters, and that a namespace does not exist if the user may read it.
func (o *getOptions) none(ctx context.Context, reader client.Reader) string {
	namespace := o.Only(o.Access)
	switch {
	case namespace == "":
		return "There are no Clusters of CAPT. Create one as described in docs/quickstart.md, or choose another management cluster with --context."
	case apierrors.IsNotFound(reader.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})):
		return "There is no namespace " + namespace + ". captctl get -A lists the Clusters of all namespaces."
	}
	return "There are no Clusters of CAPT in namespace " + namespace + ". captctl get -A lists those of all namespaces."
}

// ClusterList lists the Clusters of CAPT, sorted by namespace and name.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	Clusters        []overview.Cluster `json:"clusters"`
}

// showClusters shows one line per Cluster, and how many are in each state.
func showClusters(p *output.Printer, list *ClusterList, now time.Time) {
	rows, counts := output.Rows{}, map[string]int{}
	for i := range list.Clusters {
		c := &list.Clusters[i]
		counts[stateText(c)]++
		rows = append(rows, []string{
			c.Namespace, c.Name, stateText(c), versionText(c), string(c.Health), progressText(c.Progress, now), since(now, c.LastApplied), since(now, &c.Created), c.Endpoint, output.OneLine(causeText(c)),
		})
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "State", Style: stateStyle}, {Name: "Version"}, {Name: "Health", Style: stateStyle, Optional: true}, {Name: "Progress"},
		{Name: "Applied", Optional: true}, {Name: "Age"}, {Name: "Endpoint", Wide: true}, {Name: "Message", Prose: 4},
	}, rows)
	p.Blank()
	p.Text("", output.Plain, output.Count(len(list.Clusters), "Cluster")+": "+countsText(counts))
}

// states in the order in which they are counted.
var states = []string{
	string(controlplanev1.StateFailed), string(controlplanev1.StateDegraded), string(controlplanev1.StateRecovering), string(controlplanev1.StatePending),
	string(controlplanev1.StateValidating), string(controlplanev1.StateProvisioning), string(controlplanev1.StateConfiguring),
	string(overview.StateDeleting), stateUnknown, string(controlplanev1.StateReady),
}

// stateUnknown is the state of a Cluster whose control plane CAPT has not reconciled, or that has none.
const stateUnknown = "Unknown"

func countsText(counts map[string]int) string {
	var parts []string
	for _, state := range states {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

func stateText(c *overview.Cluster) string { return cmp.Or(string(c.State), stateUnknown) }

// stateStyle is the style of a state of a control plane, of a result of a health check, and of a status of a condition.
func stateStyle(state string) output.Style {
	switch state {
	case string(controlplanev1.StateReady), string(controlplanev1.HealthHealthy), string(metav1.ConditionTrue):
		return output.Good
	case string(controlplanev1.StateFailed), string(controlplanev1.StateDegraded), string(controlplanev1.HealthUnhealthy):
		return output.Bad
	case string(controlplanev1.StateRecovering), string(overview.StateDeleting), string(metav1.ConditionFalse): // The reason has the color of a failure.
		return output.Attention
	}
	return output.Plain
}

// reasonStyle is the style of the reason why an object is not Ready.
func reasonStyle(reason string) output.Style {
	if infrav1.RequiresUserAction(reason) {
		return output.Bad
	}
	return stateStyle(reason)
}

// readyColumns are the columns of a table of objects.
func readyColumns(name string) []output.Column {
	return []output.Column{{Name: name}, {Name: "Ready", Style: stateStyle}, {Name: "Reason", Style: reasonStyle}}
}

// versionText is the version, and the one that it is updated to.
func versionText(c *overview.Cluster) string {
	switch {
	case c.DesiredVersion == "":
		return c.Version
	case c.Version == "":
		return c.DesiredVersion
	}
	return c.Version + "->" + c.DesiredVersion
}

// progressText is the percentage and the remaining time: "40% 12m". A percentage that is followed by "+" has taken longer than expected.
func progressText(progress *overview.Progress, now time.Time) string {
	switch {
	case progress == nil:
		return ""
	case progress.Overdue:
		return fmt.Sprintf("%d%%+", progress.PercentComplete)
	case progress.Remaining(now) > 0:
		return fmt.Sprintf("%d%% %s", progress.PercentComplete, duration.HumanDuration(progress.Remaining(now)))
	}
	return fmt.Sprintf("%d%%", progress.PercentComplete)
}

// causeText is the message of the cause, or its reason if it has none.
func causeText(c *overview.Cluster) string {
	var parts []string
	if c.Paused && (c.Cause == nil || !strings.HasPrefix(c.Cause.Message, "paused")) {
		parts = append(parts, "paused")
	}
	if c.Cause != nil {
		parts = append(parts, cmp.Or(c.Cause.Message, c.Cause.Reason))
	}
	return strings.Join(parts, ": ")
}

// since is an age as kubectl prints it; empty if the time is unknown.
func since(now time.Time, at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at.Time))
}

// fleet has the objects of the Clusters of CAPT, sorted by namespace and name, and all WorkspaceTemplateApplies of their namespaces.
type fleet struct {
	clusters []*overview.Objects
	applies  map[client.ObjectKey]*infrav1.WorkspaceTemplateApply
}

// read returns the fleet of a namespace, or of all if it is empty.
func read(ctx context.Context, reader client.Reader, namespace string) (*fleet, error) {
	all, err := cli.ReadObjects(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	found := &fleet{applies: all.Applies}
	for i := range all.Clusters {
		o := &overview.Objects{Cluster: &all.Clusters[i]}
		o.CAPTCluster, o.ControlPlane = all.Of(o.Cluster)
		if !isCAPT(o.Cluster) {
			continue
		}
		for _, name := range appliesOf(o) {
			if apply := found.applies[client.ObjectKey{Namespace: o.Cluster.Namespace, Name: name}]; apply != nil {
				o.Applies = append(o.Applies, apply)
			}
		}
		found.clusters = append(found.clusters, o)
	}
	return found, nil
}

// isCAPT reports whether the infrastructure or the control plane of a Cluster is CAPT's.
func isCAPT(c *clusterv1.Cluster) bool {
	return c.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group && c.Spec.InfrastructureRef.Kind == "CAPTCluster" ||
		c.Spec.ControlPlaneRef.APIGroup == controlplanev1.GroupVersion.Group && c.Spec.ControlPlaneRef.Kind == "CAPTControlPlane"
}

// appliesOf are the names of the WorkspaceTemplateApplies that the objects of a Cluster refer to.
func appliesOf(o *overview.Objects) (names []string) {
	if o.CAPTCluster != nil {
		names = append(names, o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name)
	}
	if o.ControlPlane != nil {
		names = append(names, o.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name)
		for _, profile := range o.ControlPlane.Status.FargateProfiles {
			names = append(names, profile.WorkspaceTemplateApplyName)
		}
	}
	return names
}

// selected is the Cluster that an argument names.
type selected struct{ cli.Selected }

// objects returns the Cluster with its objects.
func (s *selected) objects(ctx context.Context, reader client.Reader) (*overview.Objects, error) {
	found, err := s.find(ctx, reader)
	if err == nil && found == nil {
		err = fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; %s", s.Name, s.Namespace, elsewhere(ctx, reader, s.Name))
	}
	return found, err
}

// find returns the Cluster with its objects; nil if it does not exist.
func (s *selected) find(ctx context.Context, reader client.Reader) (*overview.Objects, error) {
	found, err := named(ctx, reader, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &clusterv1.Cluster{})
	if err != nil || found == nil || !isCAPT(found) {
		return nil, err
	}
	o, key := &overview.Objects{Cluster: found}, client.ObjectKey{Namespace: s.Namespace}
	if ref := found.Spec.InfrastructureRef; ref.APIGroup == infrav1.GroupVersion.Group {
		key.Name = ref.Name
		if o.CAPTCluster, err = named(ctx, reader, key, &infrav1.CAPTCluster{}); err != nil {
			return nil, err
		}
	}
	if ref := found.Spec.ControlPlaneRef; ref.APIGroup == controlplanev1.GroupVersion.Group {
		key.Name = ref.Name
		if o.ControlPlane, err = named(ctx, reader, key, &controlplanev1.CAPTControlPlane{}); err != nil {
			return nil, err
		}
	}
	for _, key.Name = range appliesOf(o) {
		apply, err := named(ctx, reader, key, &infrav1.WorkspaceTemplateApply{})
		if err != nil {
			return nil, err
		}
		if apply != nil {
			o.Applies = append(o.Applies, apply)
		}
	}
	return o, nil
}

// named reads an object; nil if it does not exist.
func named[O client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, object O) (none O, err error) {
	if key.Name == "" {
		return none, nil
	}
	if err := reader.Get(ctx, key, object); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return object, nil
}

// watched are the kinds that all commands of the package read, and more.
func watched(namespace string, more ...schema.GroupVersionKind) cli.Watched {
	return cli.Watched{Namespace: namespace, Kinds: append([]schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	}, more...)}
}

// elsewhere says where Clusters of a name are. A user who may not list all namespaces gets no names.
func elsewhere(ctx context.Context, reader client.Reader, name string) string {
	var all clusterv1.ClusterList
	var names []string
	if reader.List(ctx, &all) == nil {
		for i := range all.Items {
			if c := &all.Items[i]; c.Name == name && isCAPT(c) {
				names = append(names, c.Namespace+"/"+c.Name)
			}
		}
	}
	if len(names) == 0 {
		return "captctl get lists all Clusters"
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

// html is the only format of captctl report.
const html output.Format = "html"

// reportOptions are the options of report.
type reportOptions struct {
	*cli.Environment
	cli.AllNamespaces
	output *output.Flag
}

// NewReport returns captctl report.
func NewReport(environment *cli.Environment) *cobra.Command {
	o := &reportOptions{Environment: environment, output: output.NewFlagOf(html)}
	command := &cobra.Command{
		Use:   "report",
		Short: "Write a page that shows the Clusters, their causes and graphs",
		Long: `Writes one HTML page to standard output: the number of Clusters in each state, a table, and for
each Cluster the cause and the next step, conditions, objects, health checks, Fargate profiles and a
picture of what it depends on.

The page loads nothing: it can be mailed, attached to a ticket or opened without a network. Its only
script sorts and filters the table. It has no values of Secrets, which captctl does not read here;
the state of Secrets and templates is the one in status.dependencies of the control plane.`,
		Example: `  # The whole fleet
  captctl report > fleet.html

  # One namespace
  captctl report -n team-a -o html > team-a.html`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.AddFlags(command)
	o.output.Add(command)
	return command
}

// Complete has nothing to fill in.
func (o *reportOptions) Complete([]string) error { return nil }

// Validate checks the flags.
func (o *reportOptions) Validate() error { return o.output.Validate() }

// Run reads and writes the page.
func (o *reportOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	found, err := read(ctx, reader, o.Only(o.Access))
	if err != nil {
		return err
	}
	report := found.page(o.Clock.Now())
	report.From, report.Version, report.Scope = o.Access.Describe(), cli.BuildVersion().Version, "all namespaces"
	if only := o.Only(o.Access); only != "" {
		report.Scope = "namespace " + only
	}
	return report.Write(o.Out)
}

// page is the fleet as of a time.
func (f *fleet) page(now time.Time) *page.Page {
	report, counts := &page.Page{Generated: page.Time{Text: output.Moment(now), At: now}}, map[string]int{}
	for _, objects := range f.clusters {
		d := newDescription(objects, nil, metav1.NewTime(now))
		counts[stateText(&d.Cluster)]++
		shown := newSection(d, now)
		if tree := f.reportedTree(objects); tree != nil {
			shown.Graph = picture.New(tree.Graph, tree.Root)
		}
		shown.Tables = tables(d, objects.Conditions(), shown.Graph != nil, now)
		report.Clusters = append(report.Clusters, shown)
	}
	rank := func(c page.Cluster) int { return slices.Index(states, c.State.Text) }
	slices.SortStableFunc(report.Clusters, func(a, b page.Cluster) int { return cmp.Compare(rank(a), rank(b)) })
	for _, state := range states {
		if counts[state] > 0 {
			report.Counts = append(report.Counts, page.Count{State: stateOf(state), Clusters: counts[state]})
		}
	}
	return report
}

// mostSummary is how many characters of a cause the table shows.
const mostSummary = 160

func newSection(d *Description, now time.Time) page.Cluster {
	c := page.Cluster{
		Name: d.Namespace + "/" + d.Name, State: stateOf(stateText(&d.Cluster)), Paused: d.Paused, Health: stateOf(string(d.Health)),
		Version: versionText(&d.Cluster), Endpoint: d.Endpoint, Age: age(now, &d.Created), Applied: age(now, d.LastApplied),
	}
	if d.Cause != nil {
		c.Summary = d.Cause.Reason
		if text := []rune(output.OneLine(d.Cause.Message)); len(text) > mostSummary {
			c.Summary += ": " + string(text[:mostSummary]) + "…"
		} else if len(text) > 0 {
			c.Summary += ": " + string(text)
		}
		c.Cause = &page.Cause{
			Object: d.Cause.Kind + " " + d.Cause.Name, Reason: d.Cause.Reason, Message: d.Cause.Message,
			Since: page.Time{Text: output.Ago(now, d.Cause.Since.Time), At: d.Cause.Since.Time},
		}
	}
	if d.NextStep != nil {
		c.Next, c.Commands = d.NextStep.Step, d.NextStep.Commands
	}
	if d.Progress != nil {
		c.Progress = &page.Progress{Percent: d.Progress.PercentComplete, Text: progressDetails(d.Progress, now)}
	}
	return c
}

// tables are those of a section that have rows.
func tables(d *Description, conditions []overview.Condition, drawn bool, now time.Time) (list []page.Table) {
	add := func(caption string, columns []string, rows [][]page.State) {
		if len(rows) > 0 {
			list = append(list, page.Table{Caption: caption, Columns: columns, Rows: rows})
		}
	}
	var rows [][]page.State
	for _, condition := range conditions {
		if d.Cause != nil && d.Cause.Kind == condition.Kind && d.Cause.Name == condition.Name && d.Cause.Condition == condition.Type {
			continue // It is shown above.
		}
		rows = append(rows, []page.State{
			text(condition.Kind + " " + condition.Name), text(condition.Type + " " + string(condition.Status)), text(condition.Reason),
			{Text: since(now, &condition.LastTransitionTime), Class: "since"}, text(messageOf(condition.Message, d.Cause)),
		})
	}
	add("Other conditions", []string{"Object", "Condition", "Reason", "Since", "Message"}, rows)
	rows = nil
	for _, check := range d.Checks {
		rows = append(rows, []page.State{text(check.Name), stateOf(string(check.Status)), {Text: since(now, check.LastTransitionTime), Class: "since"}, text(check.Message)})
	}
	add("Health checks", []string{"Check", "Status", "Since", "Message"}, rows)
	rows = nil
	for _, profile := range d.FargateProfiles {
		rows = append(rows, []page.State{
			text(profile.Name), stateOf(string(profile.State)), {Text: since(now, profile.LastTransitionTime), Class: "since"}, text(cmp.Or(profile.FailureMessage, profile.FailureReason)),
		})
	}
	add("Fargate profiles", []string{"Profile", "State", "Since", "Message"}, rows)
	if !drawn { // There is no graph that has them.
		rows = nil
		for _, object := range d.Objects {
			rows = append(rows, []page.State{text(object.Kind + " " + object.Name), stateOf(string(object.Ready)), {Text: since(now, &object.Created), Class: "age"}, {Text: object.Reason, Class: classOf(reasonStyle(object.Reason))}})
		}
		add("Objects", []string{"Object", "Ready", "Age", "Reason"}, rows)
	}
	return list
}

// messageOf is the message of a condition, an event or an operation. That of the cause, which many repeat, is shown once.
func messageOf(message string, cause *overview.Cause) string {
	if cause != nil && cause.Message != "" && strings.HasSuffix(message, cause.Message) {
		return strings.TrimSuffix(message, cause.Message) + "see the cause"
	}
	return message
}

func text(of string) page.State { return page.State{Text: of} }

// stateOf is a state with what its color means.
func stateOf(state string) page.State {
	if state == string(controlplanev1.FargateProfileStateDependencyMissing) {
		return page.State{Text: state, Class: "bad"}
	}
	return page.State{Text: state, Class: classOf(stateStyle(state))}
}

func classOf(style output.Style) page.Class {
	return map[output.Style]page.Class{output.Good: "good", output.Bad: "bad", output.Attention: "attention", output.Plain: "plain"}[style]
}

func age(now time.Time, at *metav1.Time) page.Time {
	if at.IsZero() {
		return page.Time{}
	}
	return page.Time{Text: since(now, at), At: at.Time}
}
