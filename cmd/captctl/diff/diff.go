// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package diff is captctl diff.
package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/changes"
	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

const long = `Shows what the manager would change in each Workspace: the module, the variables, and all else that
Terraform runs with. Nothing is written, and Terraform does not run.

With --filename, the objects of the files count as if they were applied: WorkspaceTemplates,
CAPTClusters, CAPTControlPlanes, MachinePools, CAPTMachinePools and WorkspaceTemplateApplies, and
new Clusters. Only the Workspaces that depend on them are compared. As with kubectl apply, or with
server-side apply by the tool that applied the object before, fields that only the cluster has are
kept, and those that were removed from the file are removed. Server-side apply is a dry run of the
API server; without the right to apply, fields that were removed from the file count as kept.

Without --filename, the objects of the cluster count: then a change is what the manager has not
written yet, for example because the Cluster is paused. A Cluster includes the
WorkspaceTemplateApplies that have its label.

Workspaces with the same changes are shown together; -o wide lists all of them. Secrets are not
read. Values that look like secrets, and values of environment variables, are not shown.

What Terraform would do with a change is not known before it plans.

Exit codes: 0 done; 1 error, an object of the files would be rejected, a Workspace cannot be
rendered, or you may not read it or its WorkspaceTemplate; 2 Workspaces would change (with
--detailed-exitcode only).`

const example = `  # What would an edit of a template change, and where?
  captctl diff -f templates/eks.yaml

  # What would it change for one Cluster?
  captctl diff team-a/demo -f templates/eks.yaml

  # What will the manager change when a paused Cluster is resumed?
  captctl diff team-a/demo

  # In CI: exit code 2 means that Workspaces would change
  captctl diff -f manifests/ -R --detailed-exitcode`

// Diff is what the manager would change.
type Diff struct {
	metav1.TypeMeta `json:",inline"`
	Changed         int                 `json:"changed"`              // Changed is how many Workspaces would be created, changed or destroyed.
	Invalid         int                 `json:"invalid"`              // Invalid is how many Workspaces cannot be rendered.
	Unreadable      int                 `json:"unreadable,omitempty"` // Unreadable is how many Workspaces cannot be compared because the user may not read what they need.
	Workspaces      []changes.Workspace `json:"workspaces"`           // Workspaces are those that were compared, sorted by Cluster.
}

// options are the options of diff. The name of the Cluster is empty if there is no argument.
type options struct {
	cli.Options
	detailedExitCode bool
}

// New returns captctl diff.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:     "diff [[NAMESPACE/]CLUSTER]",
		Short:   "Show what the manager would change in Workspaces",
		Long:    long,
		Example: example,
		Args:    cobra.MaximumNArgs(1),
	}
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	o.AddFiles(command, false)
	command.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if Workspaces would change.")
	o.AddOutput(command)
	return cli.New(command, o)
}

func (o *options) Run(ctx context.Context) error {
	diff, err := o.compare(ctx)
	if err != nil {
		return err
	}
	if err := o.Printer().Document(diff, func(p *output.Printer) { show(p, diff) }); err != nil {
		return err
	}
	switch {
	case diff.Invalid > 0:
		return fmt.Errorf("%s cannot be rendered, see above", output.Count(diff.Invalid, "Workspace"))
	case diff.Unreadable > 0:
		return fmt.Errorf("%s cannot be compared, see above: ask for the right to read what is named there; CAPT's ClusterRole capt-view grants it for templates of a namespace",
			output.Count(diff.Unreadable, "Workspace"))
	case diff.Changed > 0 && o.detailedExitCode:
		return migrate.Pending.Errorf("%s", diff.summary())
	}
	return nil
}

// source returns the objects of the cluster, with those of the files in their place.
func (o *options) source(ctx context.Context) (*source, error) {
	files := &manifests.Content{}
	if len(o.Paths) > 0 {
		var err error
		if files, err = o.ValidManifests(ctx, "the files cannot be compared", "captctl validate checks all rules."); err != nil {
			return nil, err
		}
	}
	o.Access.Warnings = io.Discard // A dry run warns of what the diff shows.
	reader, err := o.Access.Client()
	if err != nil {
		return nil, err
	}
	var s *source
	read := func(namespace string) (err error) {
		s, err = read(ctx, reader, namespace)
		return err
	}
	if o.Options.Namespace != "" {
		err = read(o.Options.Namespace)
	} else {
		err = o.ReadNamespaces(read)
	}
	if err != nil {
		return nil, err
	}
	s.one = o.Name != ""
	return s, s.edit(ctx, files, o.Warn)
}

func (o *options) compare(ctx context.Context) (*Diff, error) {
	s, err := o.source(ctx)
	if err != nil {
		return nil, err
	}
	diff := &Diff{TypeMeta: cli.TypeMeta("Diff"), Workspaces: []changes.Workspace{}}
	fleet := s.fleet(ctx)
	units, err := fleet.Units(o.Name)
	if err != nil {
		return nil, err
	}
	if o.Name != "" && len(units) == 0 {
		return nil, fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; captctl get lists all Clusters", o.Name, s.namespace)
	}
	for i := range units {
		if len(o.Paths) > 0 && !s.isAffected(&units[i]) {
			continue
		}
		compared, err := fleet.Compare(&units[i])
		if apierrors.IsForbidden(err) { // The user may read the rest.
			compared.Action, compared.Reason, compared.Message, err = changes.ActionUnreadable, "", err.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		diff.add(compared)
	}
	return diff, nil
}

func (d *Diff) add(w changes.Workspace) {
	if w.Differs() {
		d.Changed++
	}
	switch w.Action {
	case changes.ActionInvalid:
		d.Invalid++
	case changes.ActionUnreadable:
		d.Unreadable++
	default:
	}
	d.Workspaces = append(d.Workspaces, w)
}

func (d *Diff) summary() string {
	if len(d.Workspaces) == 0 {
		return "no Workspace depends on these objects"
	}
	return fmt.Sprintf("%d of %s would change", d.Changed, output.Count(len(d.Workspaces), "Workspace"))
}

// show prints the Workspaces that would change or cannot, those with the same changes together.
func show(p *output.Printer, diff *Diff) {
	groups := map[string][]*changes.Workspace{}
	var order []string
	blocked := 0
	for i := range diff.Workspaces {
		w := &diff.Workspaces[i]
		if w.Action == changes.ActionBlocked {
			blocked++
		}
		if w.Action == changes.ActionNone {
			continue
		}
		fields, _ := json.Marshal(w.Changes) // They were read from JSON.
		key := fmt.Sprintf("%s\n%s\n%s", w.Action, w.Message, fields)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], w)
	}
	for _, key := range order {
		showGroup(p, groups[key])
		p.Blank()
	}
	text := diff.summary()
	if blocked > 0 {
		text += fmt.Sprintf(", %d %s not written", blocked, map[bool]string{true: "is", false: "are"}[blocked == 1])
	}
	if diff.Unreadable > 0 {
		text += fmt.Sprintf(", %d cannot be compared", diff.Unreadable)
	}
	if diff.Invalid > 0 {
		text += fmt.Sprintf(", %d cannot be rendered", diff.Invalid)
	}
	p.Linef("%s", text)
}

func showGroup(p *output.Printer, group []*changes.Workspace) {
	const mostNames = 5 // How many Workspaces with the same changes are listed without -o wide.
	const indent = "    "
	sign, style := map[changes.Action]string{changes.ActionCreate: "+", changes.ActionUpdate: "~", changes.ActionDestroy: "-"}[group[0].Action], output.Attention
	switch group[0].Action {
	case changes.ActionCreate:
		style = output.Good
	case changes.ActionDestroy, changes.ActionInvalid, changes.ActionUnreadable:
		style = output.Bad
	default:
	}
	if sign == "" {
		sign = "!"
	}
	for i, w := range group {
		if i == mostNames && !p.Wide() {
			p.Linef("%s", p.Paint(style, fmt.Sprintf("%s and %d more (-o wide lists all)", sign, len(group)-i)))
			break
		}
		of := ""
		if w.Cluster != "" {
			of = "of Cluster " + w.Cluster + " "
		}
		label := sign + " " + label(w)
		p.Item(label, p.Paint(style, label), indent, output.Plain, of+"(WorkspaceTemplate "+w.Template+")")
	}
	if w := group[0]; w.Message != "" {
		p.Text(indent, style, output.OneLine(w.Message))
	}
	for _, change := range group[0].Changes {
		if reflect.DeepEqual(change.Live, change.Rendered) {
			p.Linef("%s%s", indent, p.Paint(output.Attention, "~ "+change.Field+": changes; the value is not shown"))
			continue
		}
		p.Change(indent, change.Field, output.ValueOf(change.Live), output.ValueOf(change.Rendered))
	}
}

// label is the kind and the name of the Workspace. While its template does not exist, only that of the WorkspaceTemplateApply is known.
func label(w *changes.Workspace) string {
	switch {
	case w.Name == "":
		return "WorkspaceTemplateApply " + w.Apply
	case w.Namespace == "":
		return "Workspace " + w.Name
	}
	return "Workspace " + w.Namespace + "/" + w.Name
}
