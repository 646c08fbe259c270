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

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
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
		Long: `Shows the complete text of the last error of Terraform, without secrets, of each
WorkspaceTemplateApply of a Cluster whose last apply or destroy failed, or of one
WorkspaceTemplateApply.

The text is in the status of the Workspace, and may quote the Secrets that the Workspace uses. To
redact their values, captctl reads them: it needs the right to get the Workspace and these Secrets.
Without it, or if one of the Secrets has changed since the error, captctl shows the shortened
message that the manager has published, and why.

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
	Name    string `json:"name"`    // Name of the WorkspaceTemplateApply.
	Class   string `json:"class"`   // Class of the error, see docs/recovery.md, or DestroyFailed.
	Message string `json:"message"` // Message is shortened, as the manager publishes it.
	// Text is the complete text of Terraform, with line breaks and without secrets. It is absent if it is not available.
	Text string `json:"text,omitempty"`
	// TextUnavailable is why there is no text.
	TextUnavailable string `json:"textUnavailable,omitempty"`
	// Observed is when captctl --follow observed it; absent if it was there before.
	Observed *metav1.Time `json:"observed,omitempty"`
}

// errorsOf returns the errors of WorkspaceTemplateApplies.
func errorsOf(ctx context.Context, reader client.Reader, applies []*infrav1.WorkspaceTemplateApply) []TerraformError {
	found := []TerraformError{}
	for _, apply := range applies {
		one := TerraformError{Name: apply.Name, Class: apply.Status.LastFailureClass, Message: apply.Status.LastFailureMessage}
		if destroy := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition); destroy != nil && destroy.Reason == infrav1.DestroyFailedReason {
			one.Class, one.Message = destroy.Reason, destroy.Message
		}
		// Other errors, such as a Workspace that the API server rejected, are complete.
		if one.Message == "" || strings.Contains(one.Message, failure.CompleteText) {
			one.addText(ctx, reader, apply)
		}
		if one.Message != "" {
			found = append(found, one)
		}
	}
	return found
}

// addText adds the text of the Workspace. If the manager has not published the error, because it does not run or has not observed it yet, the
// rest is added, too.
func (e *TerraformError) addText(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply) {
	failed, secrets, err := failureOf(ctx, reader, apply)
	if failed != nil {
		if e.Message == "" {
			report := failure.Explain(failed.Message, secrets, failure.Command(apply))
			e.Class, e.Message = string(report.Class), report.Message
		}
		e.Text, err = failure.Text(failed.Message, secrets), secrets.Missing
	}
	if e.Text == "" && err != nil {
		e.TextUnavailable = output.OneLine(err.Error())
	}
}

// repeats reports whether an error is the same as an earlier one. Texts differ at each attempt, for example in IDs of requests.
func (e TerraformError) repeats(earlier TerraformError) bool {
	return e.Name == earlier.Name && e.Class == earlier.Class && e.Message == earlier.Message
}

// failureOf reads the error of the Workspace of a WorkspaceTemplateApply, and the secrets that it may quote; the error says why there is none.
func failureOf(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply) (*metav1.Condition, failure.Secrets, error) {
	ref := apply.Status.WorkspaceRef
	scope, ok := ref.Scope()
	if !ok {
		return nil, failure.Secrets{}, errors.New("status.workspaceRef names no Workspace")
	}
	live, workspace := &unstructured.Unstructured{}, &terraform.Workspace{}
	live.SetGroupVersionKind(scope.GroupVersionKind())
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live); err != nil {
		return nil, failure.Secrets{}, fmt.Errorf("reading Workspace %s: %w", ref.Name, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, workspace); err != nil {
		return nil, failure.Secrets{}, fmt.Errorf("decoding Workspace %s: %w", ref.Name, err)
	}
	failed := workspace.Failure()
	if failed == nil || !render.IsRecorded(live, apply) {
		return nil, failure.Secrets{}, fmt.Errorf("the Workspace %s does not have this error now", ref.Name)
	}
	return failed, failure.SecretsOf(workspace, func(key types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, reader.Get(ctx, key, secret)
	}), nil
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
	found := errorsOf(ctx, reader, applies)
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
			message, _, _ := strings.Cut(one.Message, failure.CompleteText)
			p.Text("  ", output.Plain, cmp.Or(one.Text, message))
			if one.TextUnavailable != "" {
				p.Text("  ", output.Attention, "The complete text is not available: "+one.TextUnavailable+".")
			}
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
		now := errorsOf(ctx, reader, applies)
		for _, one := range now {
			if slices.ContainsFunc(before, one.repeats) {
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
