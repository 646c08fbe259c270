// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration_test runs CAPT's manager against a real control plane: etcd, kube-apiserver, Cluster API core and a
// Workspace controller with OpenTofu. Each test has a namespace of its own.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/capt-provider/capt/test/sandbox"
)

// shared is the control plane of all tests of the package.
var shared *sandbox.Sandbox

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	shared, err = sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true,
		ProviderArgs: []string{"--max-reconcile-rate=4"},
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
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs(sandbox.Manager, 60))
	}
	return code
}
