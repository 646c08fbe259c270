// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/progress"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// quickstartDownOptions are the options of quickstart-down.
type quickstartDownOptions struct {
	downOptions
	timeout time.Duration
}

func newQuickstartDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &quickstartDownOptions{downOptions: downOptions{IOStreams: streams}}
	cmd := &cobra.Command{
		Use:   "quickstart-down",
		Short: "Destroy the clusters through Terraform, then stop the sandbox and remove it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", defaultDir, "folder of the sandbox")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait for Terraform")
	return cmd
}

// Validate checks what was given.
func (o *quickstartDownOptions) Validate() error {
	if o.timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return nil
}

// Run destroys the clusters and removes the sandbox. A sandbox too broken to destroy anything is removed all the same:
// nothing in it exists outside this machine, and every server is recorded in its folder.
func (o *quickstartDownOptions) Run(ctx context.Context) error {
	if _, err := state.Load(o.dir); errors.Is(err, fs.ErrNotExist) {
		return o.downOptions.Run()
	}
	if err := o.destroy(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(o.ErrOut, "Not everything could be destroyed through Terraform: %v\nIt is removed without.\n", err)
	}
	return o.downOptions.Run()
}

// destroy deletes every Cluster and waits until all that hung on them is gone.
func (o *quickstartDownOptions) destroy(ctx context.Context) error {
	if _, err := isRunning(o.dir); err != nil {
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
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("clusters were still there after %s", o.timeout))
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
	fmt.Fprintf(o.Out, "\nEverything in %s was destroyed through Terraform.\n", filepath.Base(o.dir))
	return nil
}
