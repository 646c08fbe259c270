// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package quickstart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/lifecycle"
	"github.com/capt-provider/capt/test/sandbox/progress"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// quickstartDownOptions are the options of quickstart-down.
type quickstartDownOptions struct {
	genericiooptions.IOStreams
	dir     string
	timeout time.Duration
}

func newQuickstartDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &quickstartDownOptions{IOStreams: streams}
	cmd := cli.NewCommand("quickstart-down", "Destroy all clusters through Terraform, then stop and remove the sandbox", &o.dir,
		positive(&o.timeout), o.Run)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait for Terraform")
	return cmd
}

// Run destroys the clusters and removes the sandbox. If destroying fails, the sandbox is removed anyway: nothing in it
// exists outside this machine, and its directory records every server.
func (o *quickstartDownOptions) Run(ctx context.Context) error {
	if _, err := state.Load(o.dir); errors.Is(err, fs.ErrNotExist) {
		return lifecycle.Down(o.dir, o.IOStreams)
	}
	if err := o.destroy(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(o.ErrOut, "Terraform did not destroy everything: %v\nRemoving the sandbox anyway.\n", err)
	}
	return lifecycle.Down(o.dir, o.IOStreams)
}

// destroy deletes every Cluster and waits until all objects of the clusters are gone.
func (o *quickstartDownOptions) destroy(ctx context.Context) error {
	if _, err := lifecycle.Running(o.dir); err != nil {
		return err
	}
	t, err := newTools(o.IOStreams, o.dir)
	if err != nil {
		return err
	}
	c, err := t.client()
	if err != nil {
		return err
	}
	clusters := &unstructured.UnstructuredList{}
	clusters.SetGroupVersionKind(progress.Kinds[0])
	if err := c.List(ctx, clusters); err != nil {
		return err
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		fmt.Fprintf(o.Out, "$ kubectl delete cluster %s --namespace %s\n\n", cluster.GetName(), cluster.GetNamespace())
		if err := client.IgnoreNotFound(c.Delete(ctx, cluster)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("clusters still exist after %s", o.timeout))
	defer cancel()
	last := []unstructured.Unstructured{}
	err = progress.NewTable(c, o.Out).Until(ctx, func(objects []unstructured.Unstructured) bool {
		last = objects
		return len(objects) == 0
	})
	if err != nil {
		progress.Explain(o.ErrOut, last)
		return err
	}
	fmt.Fprintf(o.Out, "\nTerraform destroyed all clusters in %s.\n", cli.Relative(o.dir))
	return nil
}
