// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract_test holds CAPT to Cluster API's contract: one subtest for every rule of the contract's documents, named
// as the rule is, against the real Cluster API core. The rules are read from the documents of the Cluster API that CAPT is
// built with, so a rule that is new there fails the suite until it has a subtest.
//
// Terraform is a scripted executor. The cluster that it pretends to make is the API server of the sandbox itself, so that
// Cluster API can connect to it.
package contract_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// instance is the watch filter of the manager that all tests share. It is a manager with a filter, since what one of
	// several instances leaves alone can be seen only where no other one takes everything.
	instance = "first"
	// demo is a Cluster that is made once, with its namespace. Tests look at it and do not touch it.
	demo = "demo"
)

var (
	// shared is the control plane of all tests of the package.
	shared *sandbox.Sandbox
	// stage is where the scripts of Terraform are.
	stage *scripted.World
	// api talks to the shared control plane as its administrator.
	api client.Client
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for controllers most of the time, so the number of processors says nothing about how many may run.
	if err := flag.Set("test.parallel", "32"); err != nil {
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
	shared, err = sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true,
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + scripts, "--max-reconcile-rate=10"},
		ManagerArgs:  []string{"--watch-filter=" + instance},
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
	if err := begin(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Making the Cluster that tests look at:", err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs(sandbox.Manager, 60))
	}
	return code
}

// begin makes the client and the Cluster that tests look at. It is made while the first tests run; they wait for it.
func begin(ctx context.Context) error {
	scheme := controllers.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	config := shared.Config()
	config.WarningHandler = rest.NoWarnings{}
	var err error
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if module, err = clusterModule(); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demo}}
	if err := api.Create(ctx, namespace); err != nil {
		return err
	}
	for _, document := range everything(demo, "v1.34.0") {
		if err := apply(ctx, demo, document); err != nil {
			return err
		}
	}
	return nil
}
