// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // For the template, the style and the script.
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/picture"
)

type reportOptions struct{ cli.Options }

// NewReport returns captctl report.
func NewReport(environment *cli.Environment) *cobra.Command {
	o := &reportOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "report",
		Short: "Write a page that shows the Clusters, their causes and graphs",
		Long: `Writes one HTML page to standard output: the number of Clusters in each state, a table, and for
each Cluster the cause and the next step, what Terraform would change when what waits is applied,
conditions, objects, health checks, Fargate profiles, machine pools and a picture of what it
depends on.

The page loads nothing: it can be mailed, attached to a ticket or opened without a network. Its only
script sorts and filters the table. It has no values of Secrets, which captctl does not read here;
the state of Secrets and templates is the one in status.dependencies of the control plane.`,
		Example: `  # The whole fleet
  captctl report > fleet.html

  # One namespace
  captctl report -n team-a -o html > team-a.html`,
	}
	o.AddAllNamespaces(command)
	o.AddFormats(command, "html")
	return cli.NewConnected(command, o)
}

func (o *reportOptions) Run(ctx context.Context, reader client.WithWatch) error {
	found, err := read(ctx, &o.Options, reader)
	if err != nil {
		return err
	}
	report := found.page(o.Clock.Now())
	report.From, report.Version, report.Scope = o.Access.Describe(), cli.BuildVersion().Version, "all namespaces"
	if found.namespace != "" {
		report.Scope = "namespace " + found.namespace
	}
	return report.write(o.Out)
}

// page is one HTML file that loads nothing. All of its texts may come from objects: the template escapes them.
type page struct {
	Scope    string // Scope is which Clusters are shown.
	From     string // From is the management cluster.
	Now      metav1.Time
	Version  string // Version of captctl.
	Counts   []count
	Clusters []*section
}

type count struct {
	cell
	Clusters int
}

// section is a Cluster: a row of the table, and what is known about it.
type section struct {
	*Description
	StateText, VersionText string
	Tables                 []pageTable
	Graph                  *picture.Picture
}

type pageTable struct {
	Caption string
	Columns []output.Column
	Rows    [][]cell
}

// cell is a text with its meaning: good, bad, attention or plain; since or age for times. It is never shown without its text.
type cell struct{ Text, Class string }

func (f *fleet) page(now time.Time) *page {
	report, counts := &page{Now: metav1.NewTime(now)}, map[string]int{}
	for _, objects := range f.clusters {
		d := newDescription(objects, nil, report.Now)
		shown := &section{Description: d, StateText: stateText(&d.Cluster), VersionText: versionText(&d.Cluster)}
		counts[shown.StateText]++
		if tree := f.reportedTree(objects); tree != nil {
			shown.Graph = picture.New(tree.Graph, tree.Root)
		}
		shown.addTables(objects.Conditions(), now)
		report.Clusters = append(report.Clusters, shown)
	}
	rank := func(s *section) int { return slices.Index(states, s.StateText) }
	slices.SortStableFunc(report.Clusters, func(a, b *section) int { return cmp.Compare(rank(a), rank(b)) })
	for _, state := range states {
		if counts[state] > 0 {
			report.Counts = append(report.Counts, count{cellOf(state), counts[state]})
		}
	}
	return report
}

func (s *section) Open() bool { return s.Cause != nil || s.Paused }

// mostSummary is how many characters of a cause the table shows.
const mostSummary = 160

// Summary is the cause in one line.
func (s *section) Summary() string {
	if s.Cause == nil {
		return ""
	}
	text := []rune(output.OneLine(s.Cause.Message))
	if len(text) > mostSummary {
		text = append(text[:mostSummary], '…')
	}
	return strings.TrimSuffix(s.Cause.Reason+": "+string(text), ": ")
}

func (s *section) addTables(conditions []overview.Condition, now time.Time) {
	others := table{"Other conditions", []output.Column{{Name: "Object"}, {Name: "Condition"}, {Name: "Reason"}, {Name: "Since"}, {Name: "Message"}}, nil}
	for _, condition := range conditions {
		if s.Cause != nil && s.Cause.Kind == condition.Kind && s.Cause.Name == condition.Name && s.Cause.Condition == condition.Type {
			continue // It is shown above.
		}
		others.rows = append(others.rows, []string{
			condition.Kind + " " + condition.Name, condition.Type + " " + string(condition.Status), condition.Reason,
			output.Age(now, &condition.LastTransitionTime), messageOf(condition.Message, s.Cause),
		})
	}
	tables := []table{s.plans(), others, s.checks(now), s.profiles(now), s.pools(now)}
	if s.Graph == nil { // It has them.
		objects := table{"Objects", []output.Column{{Name: "Object"}, {Name: "Ready", Style: stateStyle}, {Name: "Age"}, {Name: "Reason", Style: reasonStyle}}, nil}
		for _, object := range s.Objects {
			objects.rows = append(objects.rows, []string{object.Kind + " " + object.Name, string(object.Ready), output.Age(now, &object.Created), object.Reason})
		}
		tables = append(tables, objects)
	}
	for _, t := range tables {
		if len(t.rows) > 0 {
			s.Tables = append(s.Tables, t.forPage())
		}
	}
}

func (t *table) forPage() pageTable {
	shown := pageTable{t.caption, t.columns, nil}
	for _, row := range t.rows {
		var cells []cell
		for i, text := range row {
			switch column := t.columns[i]; {
			case column.Name == "Since", column.Name == "Age":
				cells = append(cells, cell{text, strings.ToLower(column.Name)})
			case column.Style != nil:
				cells = append(cells, cell{text, classOf(column.Style(text))})
			default:
				cells = append(cells, cell{Text: text})
			}
		}
		shown.Rows = append(shown.Rows, cells)
	}
	return shown
}

// cellOf is a state with what its color means.
func cellOf(state string) cell { return cell{state, classOf(stateStyle(state))} }

func classOf(style output.Style) string {
	return map[output.Style]string{output.Good: "good", output.Bad: "bad", output.Attention: "attention", output.Plain: "plain"}[style]
}

//go:embed page.html.tmpl
var source string

//go:embed page.css
var style string

//go:embed page.js
var script string

// write writes the page. The policy has the hashes of style and script: a browser runs no other script, whatever a Cluster reports.
func (p *page) write(to io.Writer) error {
	styles := picture.Style + style
	templates, err := picture.Template()
	if err != nil {
		return err
	}
	now := p.Now.Time
	templates.Funcs(template.FuncMap{
		"style":    func() template.CSS { return template.CSS(styles) }, //nolint:gosec // It is embedded.
		"script":   func() template.JS { return template.JS(script) },   //nolint:gosec // It is embedded.
		"state":    func(state any) cell { return cellOf(fmt.Sprint(state)) },
		"machine":  func(at *metav1.Time) string { return at.UTC().Format(time.RFC3339) },
		"moment":   func(at *metav1.Time) string { return output.Moment(at.Time) },
		"age":      func(at *metav1.Time) string { return output.Age(now, at) },
		"progress": func(progress *overview.Progress) string { return progressDetails(progress, now) },
	})
	policy := strings.NewReplacer("STYLE-HASH", hash(styles), "SCRIPT-HASH", hash(script))
	if templates, err = templates.New("page").Parse(policy.Replace(source)); err != nil {
		return err
	}
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, "page", p); err != nil {
		return err
	}
	_, err = io.WriteString(to, picture.Printable(text.String()))
	return err
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
