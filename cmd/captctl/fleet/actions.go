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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type actionOptions struct {
	cli.Options
	change func(o *overview.Objects, now time.Time) (change, error)
}

type change struct {
	objects []client.Object // None if there is nothing to change.
	patch   cli.MergePatch  // Patch is that of each of them.
	done    string          // Done describes the result.
}

func annotate(name string, now time.Time, done string, objects ...client.Object) change {
	return change{objects, cli.MergePatch{"metadata": map[string]any{"annotations": map[string]any{name: now.UTC().Format(time.RFC3339Nano)}}}, done}
}

// NewPause returns captctl pause.
func NewPause(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "pause [NAMESPACE/]CLUSTER",
		Short: "Pause a Cluster: CAPT and Cluster API stop changing it",
		Long: `Sets spec.paused of the Cluster. CAPT and Cluster API do not reconcile it until captctl resume.
Terraform that runs already continues, and provider-terraform continues to repair drift.`,
		Example: "  captctl pause team-a/demo",
	}, func(o *overview.Objects, _ time.Time) (change, error) {
		return setPaused(o, true)
	})
}

// NewResume returns captctl resume.
func NewResume(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "resume [NAMESPACE/]CLUSTER",
		Short: "Resume a Cluster that is paused",
		Long: `Sets spec.paused of the Cluster to false. Objects that have the annotation
cluster.x-k8s.io/paused themselves stay paused, and are listed. Remove it to resume them.`,
		Example: "  captctl resume team-a/demo",
	}, func(o *overview.Objects, _ time.Time) (change, error) {
		return setPaused(o, false)
	})
}

// NewRetry returns captctl retry.
func NewRetry(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "retry [NAMESPACE/]CLUSTER",
		Short: "Try again after a failure or a timeout",
		Long: `Sets the annotation capt.cluster.x-k8s.io/retry of the CAPTControlPlane, and of the CAPTCluster and
the CAPTMachinePools that are not Ready, to the current time. Their timeouts and recovery attempts
start again. Fix the cause first: captctl describe shows it.`,
		Example: "  captctl retry team-a/demo",
	}, func(o *overview.Objects, now time.Time) (change, error) {
		if o.ControlPlane == nil {
			return change{}, fmt.Errorf("the Cluster %s has no CAPTControlPlane, so there is nothing to retry", o.Cluster.Name)
		}
		objects, names := []client.Object{o.ControlPlane}, "CAPTControlPlane "+o.ControlPlane.Name
		add := func(kind string, object client.Object, conditions []metav1.Condition) {
			if !meta.IsStatusConditionTrue(conditions, infrav1.ReadyCondition) {
				objects, names = append(objects, object), names+", "+kind+" "+object.GetName()
			}
		}
		if o.CAPTCluster != nil {
			add("CAPTCluster", o.CAPTCluster, o.CAPTCluster.Status.Conditions)
		}
		for _, pool := range o.Pools {
			if own := pool.CAPTMachinePool; own != nil {
				add("CAPTMachinePool", own, own.Status.Conditions)
			}
		}
		return annotate(naming.RetryAnnotation, now, names+": timeouts and recovery attempts start again", objects...), nil
	})
}

// NewReconcile returns captctl reconcile.
func NewReconcile(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "reconcile [NAMESPACE/]CLUSTER",
		Short: "Make CAPT reconcile the objects of a Cluster now",
		Long: `Sets the annotation capt.cluster.x-k8s.io/reconcile-at of the CAPTCluster, the CAPTControlPlane, the
CAPTMachinePools and the WorkspaceTemplateApplies of a Cluster to the current time. CAPT reconciles
an object whenever something that it depends on changes, so this is only needed to skip the wait
before CAPT tries again after an error, for example if the API server rejected a Workspace. It
touches no Workspaces otherwise: Terraform runs only if CAPT finds a change that it has not written
yet. To restart timeouts and recovery attempts, use captctl retry.`,
		Example: "  captctl reconcile team-a/demo",
	}, func(o *overview.Objects, now time.Time) (change, error) {
		var objects []client.Object
		if o.CAPTCluster != nil {
			objects = append(objects, o.CAPTCluster)
		}
		if o.ControlPlane != nil {
			objects = append(objects, o.ControlPlane)
		}
		for _, pool := range o.Pools {
			if pool.CAPTMachinePool != nil {
				objects = append(objects, pool.CAPTMachinePool)
			}
		}
		for _, apply := range o.Applies {
			objects = append(objects, apply)
		}
		if len(objects) == 0 {
			return change{}, fmt.Errorf("the Cluster %s has no objects of CAPT, so there is nothing to reconcile", o.Cluster.Name)
		}
		done := fmt.Sprintf("CAPT reconciles %s", output.Count(len(objects), "object"))
		if ptr.Deref(o.Cluster.Spec.Paused, false) || len(o.PausedByAnnotation()) > 0 {
			done += ", except those that are paused; captctl resume ends a pause"
		}
		return annotate(naming.ReconcileAnnotation, now, done, objects...), nil
	})
}

func setPaused(o *overview.Objects, paused bool) (change, error) {
	done, still := "is resumed", o.PausedByAnnotation()
	if paused {
		done = "is paused"
		if !o.Cluster.DeletionTimestamp.IsZero() {
			done += ", so its deletion does not continue before captctl resume"
		}
	}
	if len(still) > 0 && !paused {
		done += fmt.Sprintf(", but these objects are, by their annotation %s: %s", clusterv1.PausedAnnotation, strings.Join(still, ", "))
	}
	if ptr.Deref(o.Cluster.Spec.Paused, false) == paused {
		return change{done: strings.NewReplacer("is paused", "is already paused", "is resumed", "is not paused").Replace(done)}, nil
	}
	return change{[]client.Object{o.Cluster}, cli.MergePatch{"spec": map[string]any{"paused": paused}}, done}, nil
}

func newAction(environment *cli.Environment, command *cobra.Command,
	change func(*overview.Objects, time.Time) (change, error),
) *cobra.Command {
	o := &actionOptions{cli.Options{Environment: environment}, change}
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	return cli.NewConnected(command, o)
}

func (o *actionOptions) Run(ctx context.Context, connected client.WithWatch) error {
	objects, err := ObjectsOf(ctx, &o.Options, connected)
	if err != nil {
		return err
	}
	change, err := o.change(objects, o.Clock.Now())
	if err != nil {
		return err
	}
	for _, object := range change.objects {
		if err := connected.Patch(ctx, object, change.patch); err != nil {
			return err
		}
	}
	o.Printer().Text("", output.Plain, fmt.Sprintf("Cluster %s/%s: %s", o.Namespace, o.Name, change.done))
	return nil
}

// Kinds of objects that have errors of Terraform.
const (
	clusterKind = "Cluster"
	applyKind   = "WorkspaceTemplateApply"
)

type logsOptions struct {
	cli.Options
	follow bool
	kind   string // kind of the object; empty if the argument does not have it.
}

// NewLogs returns captctl logs.
func NewLogs(environment *cli.Environment) *cobra.Command {
	o := &logsOptions{Options: cli.Options{
		Environment: environment, Hint: "; a WorkspaceTemplateApply is named workspacetemplateapply/NAME or workspacetemplateapply/NAMESPACE/NAME",
	}}
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
	}
	o.Takes(command, "CLUSTER", environment.Access.CompleteFailing())
	command.Flags().BoolVarP(&o.follow, "follow", "f", false, "Print further errors until interrupted, or until the object is gone.")
	o.AddOutput(command)
	return cli.NewConnected(command, o)
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
	return o.Options.Complete([]string{name})
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

// WorkspaceOf reads the Workspace that status of a WorkspaceTemplateApply names.
func WorkspaceOf(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply) (*unstructured.Unstructured, *terraform.Workspace, error) {
	ref := apply.Status.WorkspaceRef
	scope, ok := ref.Scope()
	if !ok {
		return nil, nil, errors.New("status.workspaceRef names no Workspace")
	}
	live, workspace := &unstructured.Unstructured{}, &terraform.Workspace{}
	live.SetGroupVersionKind(scope.GroupVersionKind())
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live); err != nil {
		return nil, nil, fmt.Errorf("reading Workspace %s: %w", ref.Name, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, workspace); err != nil {
		return nil, nil, fmt.Errorf("decoding Workspace %s: %w", ref.Name, err)
	}
	return live, workspace, nil
}

// failureOf reads the error of the Workspace of a WorkspaceTemplateApply, and the secrets that it may quote; the error says why there is none.
func failureOf(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply) (*metav1.Condition, failure.Secrets, error) {
	live, workspace, err := WorkspaceOf(ctx, reader, apply)
	if err != nil {
		return nil, failure.Secrets{}, err
	}
	failed := workspace.Failure()
	if failed == nil || !render.IsRecorded(live, apply) {
		return nil, failure.Secrets{}, fmt.Errorf("the Workspace %s does not have this error now", live.GetName())
	}
	return failed, failure.SecretsOf(workspace, func(key types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, reader.Get(ctx, key, secret)
	}), nil
}

// read returns the WorkspaceTemplateApplies of the object; false if it does not exist.
func (o *logsOptions) read(ctx context.Context, reader client.Reader) (applies []*infrav1.WorkspaceTemplateApply, found bool, err error) {
	if o.kind == applyKind {
		apply, err := cli.Get(ctx, reader, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, &infrav1.WorkspaceTemplateApply{})
		return []*infrav1.WorkspaceTemplateApply{apply}, apply != nil, err
	}
	objects, err := find(ctx, &o.Options, reader)
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
	return nil, fmt.Errorf("there is no %s %s in namespace %s; %s", strings.Join(kinds, " and no "), o.Name, o.Namespace, elsewhere(ctx, reader, o.Namespace, o.Name))
}

func (o *logsOptions) Run(ctx context.Context, reader client.WithWatch) error {
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

func (o *logsOptions) show(list []TerraformError) error {
	document := &TerraformErrors{cli.TypeMeta("TerraformErrors"), o.Namespace, list}
	return o.Printer().Document(document, func(p *output.Printer) {
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
	return o.Follow(ctx, reader, watched(o.Namespace), func(ctx context.Context) (done bool, err error) {
		applies, found, err := o.read(ctx, reader)
		if err != nil {
			return false, err
		}
		if !found {
			if !o.Format().ForMachines() {
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
			if o.Format() == output.YAML {
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
