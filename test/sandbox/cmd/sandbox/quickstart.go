// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/progress"
)

// demo is the cluster in the samples.
const demo = "demo"

// quickstartOptions are the options of quickstart.
type quickstartOptions struct {
	genericiooptions.IOStreams
	dir     string
	samples string
	timeout time.Duration
}

func newQuickstartCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &quickstartOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "Start the sandbox and make a cluster in it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", defaultDir, "folder of the sandbox")
	cmd.Flags().StringVar(&o.samples, "samples", "", "what to apply (default: config/samples/sandbox of the repository)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long to wait for the cluster")
	return cmd
}

// Complete makes paths absolute and finds the samples.
func (o *quickstartOptions) Complete([]string) (err error) {
	if o.samples == "" {
		root, err := binaries.Root()
		if err != nil {
			return err
		}
		o.samples = filepath.Join(root, "config", "samples", "sandbox")
	}
	o.dir, err = filepath.Abs(o.dir)
	return err
}

// Validate checks what was given.
func (o *quickstartOptions) Validate() error {
	if o.timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return nil
}

// Run starts the sandbox, or uses the one that runs, and makes the cluster. A sandbox started here is stopped again if
// anything fails; one that ran before is left as it is.
func (o *quickstartOptions) Run(ctx context.Context) error {
	running, err := isRunning(o.dir)
	if err != nil {
		return err
	}
	if running {
		fmt.Fprintf(o.Out, "Using the sandbox that runs in %s.\n", relative(o.dir))
		return o.demonstrate(ctx)
	}
	s, err := startAll(ctx, o.Out, o.dir, false)
	if err != nil {
		return err
	}
	if err := o.supervised(ctx, s); err != nil {
		fmt.Fprintln(o.ErrOut, "Stopping the sandbox and removing its folder (SANDBOX_KEEP=1 keeps it).")
		return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s.Detach()
}

// supervised makes the cluster and gives up as soon as a part of the sandbox dies: waiting would be in vain.
func (o *quickstartOptions) supervised(ctx context.Context, s *sandbox.Sandbox) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-s.Crashes():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return o.demonstrate(ctx)
}

func (o *quickstartOptions) demonstrate(ctx context.Context) error {
	t, err := newTools(o.IOStreams, o.dir)
	if err != nil {
		return err
	}
	if err := o.makeCluster(ctx, t); err != nil {
		return err
	}
	return o.present(ctx, t)
}

// makeCluster applies the samples and shows how the objects move until the cluster answers and has its Fargate profiles.
func (o *quickstartOptions) makeCluster(ctx context.Context, t *tools) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	objects, err := manifests.Load(o.samples)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\n$ kubectl apply -f %s\n", relative(o.samples))
	if err := manifests.Apply(ctx, c, objects...); err != nil {
		return err
	}
	fmt.Fprintln(o.Out)
	limited, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("cluster %s was not ready after %s", demo, o.timeout))
	defer cancel()
	if err := progress.NewTable(c, o.Out).Until(limited, demoIsReady); err != nil {
		o.explain(t, err)
		return err
	}
	return nil
}

// demoIsReady waits for what a user of the cluster wants: it serves requests, Cluster API has reached it, and its control
// plane has all that was asked for.
func demoIsReady(objects []unstructured.Unstructured) bool {
	reached, ready := false, false
	for i := range objects {
		switch object := &objects[i]; {
		case object.GetName() != demo:
		case object.GetKind() == "Cluster":
			reached = progress.IsTrue(object, "Available") && progress.IsTrue(object, "RemoteConnectionProbe")
		case object.GetKind() == "CAPTControlPlane":
			ready = progress.IsTrue(object, "Ready")
		}
	}
	return reached && ready
}

// explain prints what can be known about a cluster that did not become ready, while it is still there.
func (o *quickstartOptions) explain(t *tools, failure error) {
	if errors.Is(failure, context.Canceled) {
		return
	}
	fmt.Fprintf(o.ErrOut, "\n%v. The conditions of its objects:\n\n", failure)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if c, err := t.client(); err == nil {
		if objects, err := progress.List(ctx, c); err == nil {
			progress.Explain(o.ErrOut, objects)
		}
	}
	for _, part := range t.state.Processes {
		if part.Name == sandbox.Manager || part.Name == sandbox.Provider {
			fmt.Fprintf(o.ErrOut, "\nThe end of %s:\n%s\n", relative(part.Log), process.Tail(part.Log, tailLines))
		}
	}
	fmt.Fprint(o.ErrOut, "\nThe first condition that is not as it should be, from the bottom up, is usually the cause.\n"+
		"On a slow machine, try --timeout 20m.\n\n")
}

// present shows the cluster as its users will look at it.
func (o *quickstartOptions) present(ctx context.Context, t *tools) error {
	kinds := "clusters,captclusters,captcontrolplanes,workspacetemplateapplies,workspaces.tf.m.upbound.io"
	if err := t.show(ctx, binaries.Kubectl, "get", kinds); err != nil {
		return err
	}
	profiles := "custom-columns=FARGATE:.status.fargateProfiles[*].name,READY:.status.fargateProfiles[*].ready"
	if err := t.show(ctx, binaries.Kubectl, "get", "captcontrolplane", demo, "-o", profiles); err != nil {
		return err
	}
	if err := t.show(ctx, binaries.Clusterctl, "describe", "cluster", demo); err != nil {
		return err
	}
	kubeconfig, err := t.saveKubeconfig(ctx, demo)
	if err != nil {
		return err
	}
	if err := t.show(ctx, binaries.Kubectl, "--kubeconfig", relative(kubeconfig), "get", "namespaces"); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, `
The cluster is ready. What you may want next:

  export KUBECONFIG=%s      # the management cluster, for kubectl and clusterctl (built into %s)
  kubectl patch captcontrolplane %s --type merge -p '{"spec":{"version":"v1.36.0"}}'      # upgrade it
  make quickstart-down      # destroy it through Terraform and remove everything
`, relative(t.state.Kubeconfig), relative(filepath.Dir(t.state.Binaries[binaries.Kubectl])), demo)
	return nil
}
