// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package move_test moves clusters with the real clusterctl between two control planes, each with CAPT, Cluster API and a
// provider. Terraform is a scripted executor whose cloud and state both providers share, as they would share a backend; what
// it did is in one journal.
package move_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// side is one of the two management clusters.
type side struct {
	*sandbox.Sandbox
	client.Client
}

var (
	// source is where clusters are moved from, and target where to.
	source, target *side
	// stage is where the scripts, the state and the cloud of Terraform are.
	stage *scripted.World
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for controllers and for clusterctl most of the time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
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
	err = sandbox.Build(ctx, os.Stderr, sandbox.Clusterctl, sandbox.Kubectl)
	if err == nil {
		err = start(ctx, scripts)
	}
	defer func() {
		for _, s := range []*side{source, target} {
			if s == nil {
				continue
			}
			if err := s.Stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
			}
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandboxes:", err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		for _, s := range []*side{source, target} {
			fmt.Fprintln(os.Stderr, s.Logs(sandbox.Manager, 40))
		}
	}
	return code
}

// start starts both sides at the same time.
func start(ctx context.Context, scripts string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range []**side{&source, &target} {
		group.Go(func() (err error) {
			*s, err = startSide(ctx, scripts)
			return err
		})
	}
	return group.Wait()
}

func startSide(ctx context.Context, scripts string) (*side, error) {
	started, err := sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditLog: true,
		// A moved Workspace is reported at the second look, which is the first poll.
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + scripts, "--max-reconcile-rate=10", "--poll=5s"},
	})
	if err != nil {
		return nil, err
	}
	s := &side{Sandbox: started}
	scheme := controllers.Scheme()
	config := s.Config()
	config.WarningHandler = rest.NoWarnings{}
	err = apiextensionsv1.AddToScheme(scheme)
	if err == nil {
		s.Client, err = client.New(config, client.Options{Scheme: scheme})
	}
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, started.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// prepare does what an operator does: clusterctl init labels the definitions that it installs, and the providers of both sides
// are configured alike. Those of CAPT are as config/crd has them, since not all users install CAPT with clusterctl.
func (s *side) prepare(ctx context.Context) error {
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := s.List(ctx, definitions, client.MatchingLabels{clusterv1.ProviderNameLabel: "cluster-api"}); err != nil {
		return err
	}
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		patch := client.MergeFrom(definition.DeepCopy())
		definition.Labels[clusterctlv1.ClusterctlLabel] = ""
		if err := s.Patch(ctx, definition, patch); err != nil {
			return err
		}
	}
	for _, scope := range terraform.Scopes() {
		if err := s.apply(ctx, "", documents(scope).ProviderConfig()); err != nil {
			return err
		}
	}
	return nil
}
