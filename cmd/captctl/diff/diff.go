// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package diff is captctl diff.
package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/changes"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/manifest"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

const long = `Shows what the manager would change in each Workspace: the module, the variables, and all else that
Terraform runs with. Nothing is written, and Terraform does not run.

With --filename, the objects of the files count as if they were applied: WorkspaceTemplates,
CAPTClusters, CAPTControlPlanes and WorkspaceTemplateApplies that the cluster has. Only the
Workspaces that depend on them are compared. Without --filename, the objects of the cluster count:
then a change is what the manager has not written yet, for example because the Cluster is paused.

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

// options are the options of diff.
type options struct {
	*cli.Environment
	// selected is the Cluster that the argument names; its name is empty if there is no argument.
	selected         cli.Selected
	output           *output.Flag
	paths            []string
	recursive        bool
	detailedExitCode bool
}

// New returns captctl diff.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{Environment: environment, selected: cli.Selected{Of: environment.Access}, output: output.NewFlag()}
	command := &cobra.Command{
		Use:               "diff [[NAMESPACE/]CLUSTER]",
		Short:             "Show what the manager would change in Workspaces",
		Long:              long,
		Example:           example,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: environment.Access.CompleteClusters(),
		RunE:              cli.Run(o),
	}
	cli.AddFileFlags(command, &o.paths, &o.recursive)
	command.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if Workspaces would change.")
	o.output.Add(command)
	return command
}

// Complete takes the argument.
func (o *options) Complete(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return o.selected.Complete(args)
}

// Validate checks the argument and the flags.
func (o *options) Validate() error {
	if o.selected != (cli.Selected{Of: o.Access}) {
		return errors.Join(o.selected.Validate(), o.output.Validate())
	}
	return o.output.Validate()
}

// Run compares and prints.
func (o *options) Run(ctx context.Context) error {
	diff, err := o.compare(ctx)
	if err != nil {
		return err
	}
	p := o.Printer(o.output.Format())
	if err := p.Document(diff, func(p *output.Printer) { show(p, diff) }); err != nil {
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
	files := &manifest.Content{}
	if len(o.paths) > 0 {
		var err error
		if files, err = manifest.Read(ctx, o.Environment, o.paths, o.recursive); err != nil {
			return nil, err
		}
		if err := readable(files); err != nil {
			return nil, err
		}
	}
	reader, err := o.Access.Client()
	if err != nil {
		return nil, err
	}
	namespace := o.Access.Only()
	if o.selected.Name != "" {
		namespace = o.selected.Namespace
	}
	s, err := read(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	s.one = o.selected.Name != ""
	return s, s.edit(ctx, files, o.ErrOut)
}

func (o *options) compare(ctx context.Context) (*Diff, error) {
	s, err := o.source(ctx)
	if err != nil {
		return nil, err
	}
	diff := &Diff{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Diff"}, Workspaces: []changes.Workspace{}}
	units, err := s.fleet(ctx).Units(o.selected.Name)
	if err != nil {
		return nil, err
	}
	if o.selected.Name != "" && len(units) == 0 {
		return nil, fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; captctl get lists all Clusters", o.selected.Name, s.namespace)
	}
	for i := range units {
		if len(o.paths) > 0 && !s.isAffected(&units[i]) {
			continue
		}
		compared, err := s.fleet(ctx).Compare(&units[i])
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

// readable returns the errors of files that kubectl apply would report.
func readable(files *manifest.Content) error {
	var found []string
	for _, object := range files.Objects {
		for _, err := range object.Errors {
			line, column := object.Position(err.Field, err.Detail)
			found = append(found, fmt.Sprintf("%s:%d:%d: %s: %s: %s", object.File, line, column, object, err.Field, cmp.Or(err.Detail, err.Type.String())))
		}
	}
	for _, problem := range files.Problems {
		found = append(found, problem.String())
	}
	if len(found) == 0 {
		return nil
	}
	return &cli.ListError{Title: "the files cannot be compared", Items: found, Next: "captctl validate checks all rules."}
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
