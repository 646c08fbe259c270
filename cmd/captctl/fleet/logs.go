// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// Kinds of objects that have errors of Terraform.
const (
	clusterKind = "Cluster"
	applyKind   = "WorkspaceTemplateApply"
)

// logsOptions are the options of logs.
type logsOptions struct {
	*cli.Environment
	selected
	output *output.Flag
	follow bool
	kind   string // kind of the object; empty if the argument does not have it.
}

// NewLogs returns captctl logs.
func NewLogs(environment *cli.Environment) *cobra.Command {
	o := &logsOptions{
		Environment: environment, output: output.NewFlag(),
		selected: selected{cluster.Selected{Of: environment.Access}},
	}
	command := &cobra.Command{
		Use:   "logs ([NAMESPACE/]CLUSTER | workspacetemplateapply/[NAMESPACE/]NAME)",
		Short: "Show the last errors of Terraform for a Cluster or a WorkspaceTemplateApply",
		Long: `Shows the last error of Terraform, without secrets, of each WorkspaceTemplateApply of a Cluster
whose last apply or destroy failed, or of one WorkspaceTemplateApply. The complete output of
Terraform is in the log of provider-terraform.

A name without a kind is that of a Cluster or of a WorkspaceTemplateApply. If there are both, write
cluster/NAME or workspacetemplateapply/NAME; the short name of the kind is wta.

With --follow it then prints each further error, after the time (UTC) at which captctl observed it,
until it is interrupted or the object is gone. An error that Terraform repeats is printed once.`,
		Example: `  captctl logs team-a/demo
  captctl logs workspacetemplateapply/team-a/demo-vpc

  # While the Cluster is created, or deleted
  captctl logs team-a/demo --follow

  # The classes of the errors, for a program
  captctl logs team-a/demo -o json | jq -r '.errors[].class'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteFailing(),
		RunE:              cli.Run(o),
	}
	command.Flags().BoolVarP(&o.follow, "follow", "f", false, "Print further errors until interrupted, or until the object is gone.")
	o.output.Add(command)
	return command
}

// Complete takes the argument, which may begin with a kind, as those of kubectl do.
func (o *logsOptions) Complete(args []string) error {
	kinds := map[string]string{
		"cluster": clusterKind, "clusters": clusterKind, "cl": clusterKind,
		"workspacetemplateapply": applyKind, "workspacetemplateapplies": applyKind, "wta": applyKind, "wtapply": applyKind,
	}
	first, name, _ := strings.Cut(args[0], "/")
	if o.kind = kinds[strings.ToLower(first)]; o.kind == "" || name == "" {
		o.kind, name = "", args[0]
	}
	return o.selected.Complete([]string{name})
}

// Validate checks the argument and the flags.
func (o *logsOptions) Validate() error {
	err := o.selected.Validate()
	if err != nil {
		err = fmt.Errorf("%w; a WorkspaceTemplateApply is named workspacetemplateapply/NAME or workspacetemplateapply/NAMESPACE/NAME", err)
	}
	return errors.Join(err, o.output.Validate())
}

// TerraformErrors are the last errors of Terraform for a Cluster or for one WorkspaceTemplateApply.
type TerraformErrors struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string           `json:"namespace"`
	Errors          []TerraformError `json:"errors"` // Errors has at most one for each WorkspaceTemplateApply.
}

// TerraformError is the last error of Terraform for a WorkspaceTemplateApply.
type TerraformError struct {
	Name    string `json:"name"`  // Name of the WorkspaceTemplateApply.
	Class   string `json:"class"` // Class of the error, see docs/recovery.md, or DestroyFailed.
	Message string `json:"message"`
	// Observed is when captctl --follow observed it; absent if it was there before.
	Observed *metav1.Time `json:"observed,omitempty"`
}

// errorsOf returns the errors of WorkspaceTemplateApplies.
func errorsOf(applies []*infrav1.WorkspaceTemplateApply) []TerraformError {
	found := []TerraformError{}
	for _, apply := range applies {
		class, message := apply.Status.LastFailureClass, apply.Status.LastFailureMessage
		if destroy := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition); destroy != nil && destroy.Reason == infrav1.DestroyFailedReason {
			class, message = destroy.Reason, destroy.Message
		}
		if message != "" {
			found = append(found, TerraformError{apply.Name, class, message, nil})
		}
	}
	return found
}

// read returns the WorkspaceTemplateApplies of the object; false if it does not exist.
func (o *logsOptions) read(ctx context.Context, reader client.Reader) (applies []*infrav1.WorkspaceTemplateApply, found bool, err error) {
	if o.kind == applyKind {
		apply := &infrav1.WorkspaceTemplateApply{}
		err = reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, apply)
		return []*infrav1.WorkspaceTemplateApply{apply}, err == nil, client.IgnoreNotFound(err)
	}
	objects, err := o.find(ctx, reader)
	if err != nil || objects == nil {
		return nil, false, err
	}
	return objects.Applies, true, nil
}

// resolve determines the kind of the object if the argument does not have it, and reads the object.
func (o *logsOptions) resolve(ctx context.Context, reader client.Reader) ([]*infrav1.WorkspaceTemplateApply, error) {
	var names []string
	var read []*infrav1.WorkspaceTemplateApply
	kinds := []string{o.kind}
	if o.kind == "" {
		kinds = []string{clusterKind, applyKind}
	}
	for _, kind := range kinds {
		one := *o
		one.kind = kind
		applies, found, err := one.read(ctx, reader)
		if err != nil {
			return nil, err
		}
		if found {
			o.kind, read = kind, applies
			names = append(names, fmt.Sprintf("%s/%s/%s", strings.ToLower(kind), o.Namespace, o.Name))
		}
	}
	switch {
	case len(names) == 1:
		return read, nil
	case len(names) > 1:
		return nil, fmt.Errorf("there are a Cluster and a WorkspaceTemplateApply %s in namespace %s; use %s", o.Name, o.Namespace, strings.Join(names, " or "))
	case o.kind == applyKind:
		return nil, fmt.Errorf("there is no WorkspaceTemplateApply %s in namespace %s; kubectl get workspacetemplateapplies -A lists all", o.Name, o.Namespace)
	}
	return nil, fmt.Errorf("there is no %s %s in namespace %s; %s", strings.Join(kinds, " and no "), o.Name, o.Namespace, elsewhere(ctx, reader, o.Name))
}

// Run reads and prints.
func (o *logsOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	applies, err := o.resolve(ctx, reader)
	if err != nil {
		return err
	}
	found := errorsOf(applies)
	if err := o.show(found); err != nil || !o.follow {
		return err
	}
	return o.followErrors(ctx, reader, found)
}

// show prints errors.
func (o *logsOptions) show(list []TerraformError) error {
	document := &TerraformErrors{metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "TerraformErrors"}, o.Namespace, list}
	return o.Printer(o.output.Format()).Document(document, func(p *output.Printer) {
		for i, one := range list {
			if i > 0 || one.Observed != nil {
				p.Blank()
			}
			at := ""
			if one.Observed != nil {
				at = output.Moment(one.Observed.Time) + " "
			}
			p.Linef("%s%s (%s):", at, p.Paint(output.Strong, applyKind+" "+one.Name), p.Paint(output.Bad, one.Class))
			p.Text("  ", output.Plain, one.Message)
		}
		if len(list) == 0 {
			p.Linef("The last runs of Terraform have reported no errors.")
		}
	})
}

// followErrors prints each error that was not there before. An error that has ended and comes back is printed again.
func (o *logsOptions) followErrors(ctx context.Context, reader client.WithWatch, before []TerraformError) error {
	return cli.Follow(ctx, o.Environment, reader, watched(o.Namespace), func(ctx context.Context) (done bool, err error) {
		applies, found, err := o.read(ctx, reader)
		if err != nil {
			return false, err
		}
		if !found {
			if !o.output.Format().ForMachines() {
				fmt.Fprintf(o.Out, "\n%s %s %s is gone.\n", output.Moment(o.Clock.Now()), o.kind, o.Name)
			}
			return true, nil
		}
		now := errorsOf(applies)
		for _, one := range now {
			if slices.Contains(before, one) {
				continue
			}
			observed := o.Now()
			one.Observed = &observed
			if o.output.Format() == output.YAML {
				fmt.Fprintln(o.Out, "---")
			}
			if err := o.show([]TerraformError{one}); err != nil {
				return false, err
			}
		}
		before = now
		return false, nil
	})
}
