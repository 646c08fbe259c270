// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package faults_test lets a provider misbehave, and checks the reaction of CAPT: what a user sees, what happens next, and
// that no Workspace is made twice, renamed or left behind. Everything is real but Terraform, which follows a script.
package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// control is a control plane with CAPT's manager, and a provider that does what scripts say.
type control struct {
	*sandbox.Sandbox
	scripts    *scripted.World
	history    *history
	conditions conditions
	// watching ends with the tests.
	watching context.Context //nolint:containedctx // it lives as long as the control plane
}

// conditions is how the provider reports generations in conditions.
type conditions string

const (
	withGenerations    conditions = "v1"
	withoutGenerations conditions = "v0"
)

// The control planes of all tests of the package.
var (
	// current has a provider that works on many Workspaces at a time, so that those that hang do not hold up those of other tests.
	// older is the same control plane for Workspaces that the provider treats as versions before v1 do.
	current, older *control
	// limited is for tests in which the provider is stopped, not installed, or has one worker.
	limited *control
)

// auditPolicy logs writes only: reads are many, and no test needs them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Tests wait for most of their time, so more of them than there are processors may do it together.
	if err := flag.Set("test.parallel", "200"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "capt-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() {
		stop() // So that the histories do not complain about what is stopped next.
		stopAll()
	}()
	if err := startAll(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandboxes:", err)
		return 1
	}
	code := m.Run()
	if err := secretsLogged(current, limited); err != nil {
		fmt.Fprintln(os.Stderr, "Looking into the logs:", err)
		code = 1
	}
	if code != 0 {
		for _, c := range []*control{current, limited} {
			fmt.Fprintln(os.Stderr, c.Logs(sandbox.Manager, 30))
		}
	}
	return code
}

func startAll(ctx context.Context, dir string) error {
	cluster, err := clusterDefinition(ctx)
	if err != nil {
		return err
	}
	group, starting := errgroup.WithContext(ctx)
	for _, c := range []struct {
		into    **control
		name    string
		workers int
		begin   func(c *control, ctx context.Context) error
	}{
		{&current, "current", 60, (*control).begin},
		{&limited, "limited", 1, (*control).removeProvider},
	} {
		group.Go(func() error {
			scripts := filepath.Join(dir, c.name)
			args := []string{"--executor=scripted", "--script-dir=" + scripts, fmt.Sprintf("--max-reconcile-rate=%d", c.workers)}
			s, err := sandbox.Start(starting, sandbox.Options{
				Log: os.Stderr, Manager: true, Provider: true, KubeControllerManager: c.into != &limited,
				AuditPolicy: []byte(auditPolicy), Manifests: []string{cluster}, ProviderArgs: args,
			})
			if err != nil {
				return err
			}
			*c.into = &control{Sandbox: s, scripts: scripted.At(scripts), history: newHistory(), conditions: withGenerations, watching: ctx}
			return c.begin(*c.into, starting)
		})
	}
	return group.Wait()
}

// begin makes a control plane what its tests expect.
func (c *control) begin(context.Context) error {
	kinds := []schema.GroupVersionKind{infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	before := *c
	before.conditions = withoutGenerations
	older = &before
	return c.watch(kinds...)
}

// realistic makes the provider treat a Workspace as its conditions say. A plan before v1 takes as long as one of OpenTofu: there, CAPT recognizes an update that was applied by
// the time of the provider's write, which the API server records in whole seconds.
func (c *control) realistic(script scripted.Script) scripted.Script {
	if c.conditions == withoutGenerations {
		script.Version0 = true
		script.Plan.Delay += 1100 * time.Millisecond
	}
	return script
}

// clusterDefinition is the definition of Clusters, which CAPT's manager watches. No test here has a Cluster, so Cluster API's
// own controllers are not needed.
func clusterDefinition(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the source of Cluster API: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(output)), "core", "config", "crd", "bases", "cluster.x-k8s.io_clusters.yaml"), nil
}

func stopAll() {
	var group errgroup.Group
	for _, c := range []*control{current, limited} {
		if c != nil {
			group.Go(func() error { return c.Stop(context.Background()) })
		}
	}
	if err := group.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "Stopping the sandboxes:", errors.Unwrap(err))
	}
}
