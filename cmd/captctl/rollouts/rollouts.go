// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts has the commands of captctl template that show and control staged rollouts. Their rules are in api/rollout.
package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// New returns the commands.
func New(environment *cli.Environment) []*cobra.Command {
	return []*cobra.Command{newStatus(environment), newApprove(environment), newApproveChange(environment), newPause(environment), newResume(environment), newRollback(environment)}
}

func newSelected(environment *cli.Environment) cluster.Selected {
	return cluster.Selected{Of: environment.Access, Kind: "NAME"}
}

// changeOptions are the options of a command that changes a WorkspaceTemplate or one of its users.
type changeOptions struct {
	*cli.Environment
	cluster.Selected
	cli.Writes
	// revision is a number or a hash, which may be required.
	revision string
	required bool
	// confirms is true if the command always asks.
	confirms bool
	// decide returns what to change.
	decide func(o *changeOptions, s *staged) (*change, error)
}

// change is a change of an object.
type change struct {
	// summary shows what the change means. It may be nil.
	summary func(*output.Printer)
	// question is what to confirm; empty if nothing is to be confirmed.
	question string
	// patch of the object; nil if there is nothing to change.
	patch client.Patch
	// done describes the result.
	done string
}

func newChange(environment *cli.Environment, command *cobra.Command, decide func(*changeOptions, *staged) (*change, error)) (*cobra.Command, *changeOptions) {
	o := &changeOptions{Environment: environment, Selected: newSelected(environment), decide: decide}
	command.Args, command.ValidArgsFunction, command.RunE = cobra.ExactArgs(1), environment.Access.CompleteTemplates(), cli.Run(o)
	o.AddDryRun(command)
	return command, o
}

// addRevision adds the flag that names a revision.
func (o *changeOptions) addRevision(command *cobra.Command, flag, usage string) {
	command.Flags().StringVar(&o.revision, flag, "", usage)
	cli.CompleteFlag(command, flag, o.completeRevisions)
}

// completeRevisions completes with the numbers of the revisions of the template.
func (o *changeOptions) completeRevisions(command *cobra.Command, args []string, _ string) (numbers []cobra.Completion, _ cobra.ShellCompDirective) {
	ctx, cancel := o.Access.Patience(command.Context())
	defer cancel()
	if len(args) == 0 || o.Complete(args) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	connected, err := o.Access.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s := &staged{template: &infrav1.WorkspaceTemplate{}}
	if s.readRevisions(ctx, connected, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}) == nil { // A shell shows no errors.
		for i := range s.history {
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(s.history[i].Number, 10), terraform.ShortRevision(s.history[i].Hash)))
		}
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp
}

// Validate checks the argument and the flags.
func (o *changeOptions) Validate() error {
	if err := errors.Join(o.Selected.Validate(), o.ValidateDryRun("")); err != nil {
		return err
	}
	switch {
	case o.required && o.revision == "":
		return errors.New("--revision is required: it names the revision by number or hash; captctl template status lists the revisions")
	case o.confirms && o.revision != "" && o.namesPartOfHash():
		return errors.New("--yes requires the whole hash in --revision: no user confirms the content, and another one can have the same first digits. It is in status.revision of the WorkspaceTemplate, or in status.change.revision of the WorkspaceTemplateApply")
	case o.confirms && o.Asks() && !o.Interactive:
		return cli.ErrNotInteractive
	}
	return nil
}

// namesPartOfHash reports whether the revision is part of a hash, and no user confirms what it means.
func (o *changeOptions) namesPartOfHash() bool {
	isPart := terraform.IsShortRevision(terraform.ShortRevision(o.revision)) && !terraform.IsWholeRevision(o.revision) // A number is shorter.
	return isPart && !o.Asks() && !o.DryRun()
}

// Run reads the template, and changes it.
func (o *changeOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	reader := &reader{Reader: connected, warnings: o.ErrOut}
	s, err := reader.read(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name})
	if err != nil {
		return err
	}
	if err := s.usable(); err != nil {
		return err
	}
	c, err := o.decide(o, s)
	if err != nil {
		return err
	}
	return o.perform(ctx, connected, s.template, s.String(), c)
}

// perform asks, writes, and prints what was done.
func (o *changeOptions) perform(ctx context.Context, connected client.Client, object client.Object, title string, c *change) error {
	p := o.Printer(output.Table)
	if c.patch == nil {
		p.Text("", output.Plain, title+": unchanged: "+c.done)
		return nil
	}
	if c.summary != nil {
		c.summary(p)
	}
	if c.question != "" && o.Asks() {
		if err := o.Confirm(fmt.Sprintf("Do you want to %s of %s in %s?", c.question, title, o.Access.Describe())); err != nil {
			return err
		}
	}
	var options []client.PatchOption
	if o.DryRun() {
		options, c.done = append(options, client.DryRunAll), c.done+" (dry run: nothing was written)"
	}
	if err := connected.Patch(ctx, object, c.patch, options...); err != nil {
		return fmt.Errorf("writing %s: %w", title, err)
	}
	p.Text("", output.Plain, title+": "+c.done)
	return nil
}

// merge returns a merge patch. It changes only the fields that it has, whatever other clients have written since the template was read.
func merge(fields map[string]any) (client.Patch, error) {
	data, err := json.Marshal(fields)
	return client.RawPatch(types.MergePatchType, data), err
}

// name is how texts name a revision.
func name(r *rollout.Revision) string {
	return fmt.Sprintf("revision %d (%s)", r.Number, terraform.ShortRevision(r.Hash))
}
