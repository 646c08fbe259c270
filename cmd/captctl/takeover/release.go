// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

type releaseOptions struct {
	target
	timeout time.Duration
}

func newRelease(environment *cli.Environment) *cobra.Command {
	o := &releaseOptions{target: target{Options: cli.Options{Environment: environment}}}
	command := &cobra.Command{
		Use:   "release (--cluster CLUSTER | --apply NAME)",
		Short: "Take a Cluster out of CAPT again, without touching cloud or state",
		Long: `Deletes the objects of a Cluster, or a WorkspaceTemplateApply, and keeps what Terraform created: the
deletion policy of each WorkspaceTemplateApply becomes Retain, and the protection from deletion of
the CAPTCluster and the CAPTControlPlane ends first. Workspaces of adopted states are removed
without a run of Terraform, and the states stay in the backend, where Terraform finds them.
Workspaces that CAPT has created since are kept; captctl get --retained lists them.

It can be used at any time, also while the plan is not empty, and continues when it is run again.
Suspend a GitOps tool that applies the objects first.`,
		Example: `  captctl adopt release --cluster team-a/shop
  captctl adopt release --apply team-a/shop-nodes --yes`,
	}
	o.addFlags(command)
	command.Flags().DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait for the deletion.")
	return cli.NewConnected(command, o)
}

func (o *releaseOptions) Run(ctx context.Context, connected client.WithWatch) error {
	r := &release{releaseOptions: o, client: connected}
	if err := r.read(ctx); err != nil {
		return err
	}
	if r.isEmpty() {
		o.Printer().Text("", output.Good, o.title()+" does not exist")
		return nil
	}
	if o.Asks() {
		question := fmt.Sprintf("Delete %s, and keep its cloud resources and Terraform states?\n%s", o.title(), strings.Join(r.describe(), "\n"))
		if err := o.Confirm(question); err != nil {
			return err
		}
	}
	return r.run(ctx)
}

// release is what a run does.
type release struct {
	*releaseOptions
	client client.WithWatch
	// objects are those of the Cluster; nil without one. applies are all that are deleted.
	objects *overview.Objects
	applies []*infrav1.WorkspaceTemplateApply
}

func (r *release) read(ctx context.Context) error {
	if r.apply != "" {
		apply, err := cli.Get(ctx, r.client, r.key, &infrav1.WorkspaceTemplateApply{})
		if apply != nil {
			r.applies = append(r.applies, apply)
		}
		return err
	}
	cluster, err := cli.Get(ctx, r.client, r.key, &clusterv1.Cluster{})
	if err != nil {
		return err
	}
	if cluster != nil {
		options := r.Options
		options.Namespace, options.Name = r.key.Namespace, r.key.Name
		if r.objects, err = fleet.ObjectsOf(ctx, &options, r.client); err != nil {
			return err
		}
		r.applies = r.objects.Applies
		return nil
	}
	// An adoption that was interrupted has left them, or the Cluster was deleted before its owners had them.
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.client.List(ctx, &list, client.InNamespace(r.key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.key.Name}); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Spec.TerraformState.Name != "" && metav1.GetControllerOf(&list.Items[i]) == nil {
			r.applies = append(r.applies, &list.Items[i])
		}
	}
	return nil
}

// isEmpty reports whether nothing is left.
func (r *release) isEmpty() bool { return r.objects == nil && len(r.applies) == 0 }

// describe lists what is kept.
func (r *release) describe() (lines []string) {
	for _, apply := range r.applies {
		kept := "the Workspace is kept as well"
		if apply.Spec.TerraformState.Name != "" {
			kept = "Terraform state " + apply.Spec.TerraformState.Name
		}
		lines = append(lines, "  "+apply.Name+": "+kept)
	}
	return lines
}

// run lets all WorkspaceTemplateApplies retain what they have, and deletes the Cluster, and then what it leaves.
func (r *release) run(ctx context.Context) error {
	waiting, stop := context.WithTimeout(ctx, r.timeout)
	defer stop()
	// Other errors of the first step are not retried: it may be a missing right.
	if err := retry.OnError(unprotected, isStillProtected, func() error { return r.step(ctx) }); err != nil {
		return err
	}
	gone := false
	err := r.Follow(waiting, r.client, cli.Watched{Namespace: r.key.Namespace, Kinds: kinds()}, func(ctx context.Context) (bool, error) {
		now := &release{releaseOptions: r.releaseOptions, client: r.client}
		if err := now.read(ctx); err != nil {
			return false, err
		}
		gone = now.isEmpty()
		return gone, now.step(ctx)
	})
	switch {
	case err != nil:
		return err
	case !gone && ctx.Err() == nil:
		return migrate.TimedOut.Errorf("%s is not deleted within %s: the condition Deleting of its objects has the reason. Run the command again to continue to wait", r.title(), r.timeout)
	case gone:
		r.Printer().Text("", output.Good, r.title()+" is released: its cloud resources and Terraform states are kept")
	}
	return ctx.Err()
}

// unprotected is how long the API server may need to see that the protection from deletion has ended.
var unprotected = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1, Steps: 60}

func isStillProtected(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is protected from deletion")
}

// step retains everything, and deletes what is not being deleted yet.
func (r *release) step(ctx context.Context) error {
	for _, apply := range r.applies {
		if apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain {
			continue
		}
		if err := patch(ctx, r.client, apply, map[string]any{"spec": map[string]any{"deletionPolicy": infrav1.DeletionPolicyRetain}}); err != nil {
			return err
		}
	}
	if r.objects != nil {
		if err := r.unprotect(ctx); err != nil {
			return err
		}
		return r.delete(ctx, r.objects.Cluster)
	}
	for _, apply := range r.applies {
		if err := r.delete(ctx, apply); err != nil {
			return err
		}
	}
	return nil
}

// unprotect ends the protection of the owners, the pause of an adoption that was interrupted, and lets the VPC be retained.
func (r *release) unprotect(ctx context.Context) error {
	if vpc := r.objects.CAPTCluster; vpc != nil {
		if err := r.unprotectVPC(ctx, vpc); err != nil {
			return err
		}
	}
	var protected []client.Object
	if c := r.objects.ControlPlane; c != nil && c.Spec.DeletionProtection == infrav1.DeletionProtectionEnabled {
		protected = append(protected, c)
	}
	for _, pool := range r.objects.Pools {
		if own := pool.CAPTMachinePool; own != nil && own.Spec.DeletionProtection == infrav1.DeletionProtectionEnabled {
			protected = append(protected, own)
		}
	}
	for _, object := range protected {
		if err := patch(ctx, r.client, object, map[string]any{"spec": map[string]any{"deletionProtection": infrav1.DeletionProtectionDisabled}}); err != nil {
			return err
		}
	}
	if ptr.Deref(r.objects.Cluster.Spec.Paused, false) {
		return patch(ctx, r.client, r.objects.Cluster, map[string]any{"spec": map[string]any{"paused": false}})
	}
	return nil
}

func (r *release) unprotectVPC(ctx context.Context, vpc *infrav1.CAPTCluster) error {
	spec, template := map[string]any{"deletionProtection": infrav1.DeletionProtectionDisabled}, vpc.Spec.VPC.Template
	retains := !template.IsDefined() || template.DeletionPolicy == infrav1.DeletionPolicyRetain
	if vpc.Spec.DeletionProtection != infrav1.DeletionProtectionEnabled && retains {
		return nil
	}
	if template.IsDefined() {
		spec["vpc"] = map[string]any{"template": map[string]any{"deletionPolicy": infrav1.DeletionPolicyRetain}}
	}
	return patch(ctx, r.client, vpc, map[string]any{"spec": spec})
}

// delete deletes an object that was read, once.
func (r *release) delete(ctx context.Context, object client.Object) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())}))
}
