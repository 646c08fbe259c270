// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenancy_test holds CAPT's controllers to the security rules between namespaces, on a real API server. CAPT's
// webhooks and admission policies are taken away: what they would have refused, the controllers must refuse by themselves.
// Terraform is a scripted executor, which reads Secrets as provider-terraform does and says whatever a test wants it to.
package tenancy_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

var (
	// shared is the control plane of all tests of the package.
	shared *sandbox.Sandbox
	// stage is where the provider's scripts are.
	stage *scripted.World
	// reports is everything that CAPT has reported since the sandbox was started.
	reports *record
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	scripts, err := os.MkdirTemp("", "capt-scripts-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "Making a folder for scripts:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scripts) }()
	stage = scripted.At(scripts)
	shared, err = sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true,
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + scripts, "--max-reconcile-rate=8"},
		ManagerArgs:  []string{"-v=5"}, // A verbose log can leak more.
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandbox:", err)
		return 1
	}
	defer func() {
		if err := shared.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
		}
	}()
	if err := bypassAdmission(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Removing CAPT's admission:", err)
		return 1
	}
	if reports, err = listen(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Watching CAPT's objects:", err)
		return 1
	}
	return m.Run()
}

func newClient() (client.Client, error) {
	config := shared.Config()
	config.WarningHandler = restclient.NoWarnings{}
	return client.New(config, client.Options{Scheme: controllers.Scheme()})
}

// bypassAdmission removes all that guards admission to CAPT's kinds, but for the schemas and their conversion.
func bypassAdmission(ctx context.Context) error {
	c, err := newClient()
	if err != nil {
		return err
	}
	var (
		mutating   admissionv1.MutatingWebhookConfigurationList
		validating admissionv1.ValidatingWebhookConfigurationList
		policies   admissionv1.ValidatingAdmissionPolicyList
		bindings   admissionv1.ValidatingAdmissionPolicyBindingList
		all        []client.Object
	)
	for _, list := range []client.ObjectList{&mutating, &validating, &policies, &bindings} {
		if err := c.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range mutating.Items {
		all = append(all, &mutating.Items[i])
	}
	for i := range validating.Items {
		all = append(all, &validating.Items[i])
	}
	for i := range policies.Items {
		all = append(all, &policies.Items[i])
	}
	for i := range bindings.Items {
		all = append(all, &bindings.Items[i])
	}
	ours := slices.DeleteFunc(all, func(object client.Object) bool { return !strings.HasPrefix(object.GetName(), "capt-") })
	if len(ours) < 4 { // Two configurations, and a policy with its binding.
		return fmt.Errorf("found %d of CAPT's guards: they have other names than this test thinks", len(ours))
	}
	for _, object := range ours {
		if err := c.Delete(ctx, object); err != nil {
			return err
		}
	}
	return awaitBypassed(ctx, c)
}

// awaitBypassed waits until the API server admits what CAPT's webhooks refuse: it learns of their removal a little later.
func awaitBypassed(ctx context.Context, c client.Client) error {
	refused := object(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: refused, namespace: default}
spec: {templateRef: {name: any}, waitForSecrets: [{name: any, namespace: elsewhere}]}
`)
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return c.Create(ctx, refused.DeepCopy(), client.DryRunAll) == nil, nil
	})
}
