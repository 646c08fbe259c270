// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package quickstart has the commands that create a cluster in a sandbox and destroy it again.
package quickstart

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/lifecycle"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/progress"
)

// demo is the cluster in the samples.
const demo = "demo"

// tailLines is the number of log lines printed when the cluster does not become ready.
const tailLines = 10

// NewCommands returns the commands of this package.
func NewCommands(streams genericiooptions.IOStreams) []*cobra.Command {
	return []*cobra.Command{newQuickstartCommand(streams), newQuickstartDownCommand(streams)}
}

// quickstartOptions are the options of quickstart.
type quickstartOptions struct {
	genericiooptions.IOStreams
	dir     string
	samples string
	timeout time.Duration
}

func newQuickstartCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &quickstartOptions{IOStreams: streams}
	cmd := cli.NewCommand("quickstart", "Start the sandbox and create a cluster in it", &o.dir, positive(&o.timeout), o.complete, o.Run)
	cmd.Flags().StringVar(&o.samples, "samples", "", "manifests to apply (default: config/samples/sandbox of the repository)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long to wait for the cluster")
	return cmd
}

// positive is a step that checks --timeout.
func positive(timeout *time.Duration) func(context.Context) error {
	return func(context.Context) error {
		if *timeout <= 0 {
			return errors.New("--timeout must be positive")
		}
		return nil
	}
}

// complete finds the samples.
func (o *quickstartOptions) complete(context.Context) error {
	if o.samples != "" {
		return nil
	}
	root, err := binaries.Root()
	o.samples = filepath.Join(root, "config", "samples", "sandbox")
	return err
}

// Run starts the sandbox, or uses the running one, and creates the cluster. If anything fails, a sandbox that was started
// here is removed, and one that ran before is left as it is.
func (o *quickstartOptions) Run(ctx context.Context) error {
	running, err := lifecycle.Running(o.dir)
	if err != nil {
		return err
	}
	if running {
		fmt.Fprintf(o.Out, "Using the sandbox that is running in %s.\n", cli.Relative(o.dir))
		return o.demonstrate(ctx)
	}
	s, err := lifecycle.Start(ctx, o.Out, o.dir, false)
	if err != nil {
		return err
	}
	if err := o.supervised(ctx, s); err != nil {
		fmt.Fprintln(o.ErrOut, "Stopping the sandbox and removing its directory (SANDBOX_KEEP=1 keeps the directory).")
		return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s.Detach()
}

// supervised creates the cluster and fails as soon as a component of the sandbox ends.
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
	if err := o.createCluster(ctx, t); err != nil {
		return err
	}
	return o.present(ctx, t)
}

// createCluster applies the samples and shows how the objects change until the cluster is reachable and its Fargate
// profiles exist. It applies with kubectl, so that users can apply changed samples later without a warning.
func (o *quickstartOptions) createCluster(ctx context.Context, t *tools) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	if err := o.apply(ctx, t, c); err != nil {
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

// apply applies the samples unless the cluster exists: it may have been upgraded, and EKS cannot downgrade.
func (o *quickstartOptions) apply(ctx context.Context, t *tools, c client.Client) error {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(progress.Kinds[0])
	err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: demo}, cluster)
	if err == nil {
		fmt.Fprintf(o.Out, "\nCluster %s exists already; the samples are not applied again.\n", demo)
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	return t.show(ctx, binaries.Kubectl, "apply", "-f", cli.Relative(o.samples))
}

// demoIsReady reports whether Cluster API has reached the cluster and the control plane has everything that its spec
// asks for.
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

// explain prints the conditions and logs of a cluster that did not become ready, while they still exist.
func (o *quickstartOptions) explain(t *tools, failure error) {
	if errors.Is(failure, context.Canceled) {
		return
	}
	fmt.Fprintf(o.ErrOut, "\n%v. Conditions of its objects:\n\n", failure)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if c, err := t.client(); err == nil {
		if objects, err := progress.List(ctx, c); err == nil {
			progress.Explain(o.ErrOut, objects)
		}
	}
	for _, component := range t.state.Processes {
		if component.Name == sandbox.Manager || component.Name == sandbox.Provider {
			fmt.Fprintf(o.ErrOut, "\nLast lines of %s:\n%s\n", cli.Relative(component.Log), process.Tail(component.Log, tailLines))
		}
	}
	fmt.Fprint(o.ErrOut, "\nRead the conditions from the bottom up: the first unexpected one is usually the cause.\n"+
		"On a slow machine, use --timeout 20m.\n\n")
}

// present shows the cluster with the commands that its users have.
func (o *quickstartOptions) present(ctx context.Context, t *tools) error {
	kinds := "clusters,captclusters,captcontrolplanes,workspacetemplateapplies,workspaces.tf.m.upbound.io"
	if err := t.show(ctx, binaries.Kubectl, "get", kinds); err != nil {
		return err
	}
	if err := t.show(ctx, binaries.Captctl, "describe", demo); err != nil {
		return err
	}
	if err := t.show(ctx, binaries.Clusterctl, "describe", "cluster", demo); err != nil {
		return err
	}
	kubeconfig, err := t.saveKubeconfig(ctx, demo)
	if err != nil {
		return err
	}
	if err := t.show(ctx, binaries.Kubectl, "--kubeconfig", cli.Relative(kubeconfig), "get", "namespaces"); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, `
The cluster is ready. Next steps (docs/quickstart.md explains them):

  source %s    # KUBECONFIG and PATH for kubectl, clusterctl and captctl
  captctl describe %s    # state, and the cause if it is not Ready
  kubectl patch captcontrolplane %s --type merge -p '{"spec":{"version":"v1.35.0"}}'    # upgrade from v1.34
  %s    # destroy the cluster through Terraform and remove everything
`, cli.Relative(sandbox.EnvFile(o.dir)), demo, demo, cli.Command("quickstart-down", o.dir))
	return nil
}
