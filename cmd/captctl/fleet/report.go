// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/page"
	"github.com/capt-provider/capt/cmd/captctl/picture"
	"github.com/capt-provider/capt/cmd/captctl/version"
)

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
	report.From, report.Version, report.Scope = o.Access.Describe(), version.Get().Version, "all namespaces"
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
