// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package faults_test lets a provider misbehave, and checks the reaction of CAPT: what a user sees, what happens next, and
// that no Workspace is made twice, renamed or left behind. Everything is real but Terraform, which follows a script.
package faults_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// control is a control plane with CAPT's manager, and a provider that does what scripts say.
type control struct {
	// The client of the server is that of all tests. There is none where definitions come and go: a client caches what it has discovered.
	*fixture.Server
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

func TestMain(m *testing.M) {
	os.Exit(fixture.Suite{
		Parallel: 200,
		Start:    start,
		Check:    func() error { return secretsLogged(current, limited) },
	}.Run(m))
}

func start(ctx context.Context, dir string, keep func(*sandbox.Sandbox)) error {
	definitions, err := clusterDefinitions(ctx)
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
				AuditPolicy: []byte(audit.OnlyWrites), Manifests: definitions, ProviderArgs: args,
			})
			if err != nil {
				return err
			}
			keep(s)
			server := &fixture.Server{Sandbox: s, Scripts: scripted.At(scripts)}
			*c.into = &control{Server: server, history: newHistory(), conditions: withGenerations, watching: ctx}
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
	var err error
	if c.API, err = client.NewWithWatch(c.Config(), client.Options{Scheme: controllers.Scheme()}); err != nil {
		return err
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

// clusterDefinitions are the definitions of Clusters and MachinePools, which CAPT's manager watches. No test here has one, so Cluster API's
// own controllers are not needed.
func clusterDefinitions(ctx context.Context) ([]string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the source of Cluster API: %w", err)
	}
	bases := filepath.Join(strings.TrimSpace(string(output)), "core", "config", "crd", "bases")
	return []string{filepath.Join(bases, "cluster.x-k8s.io_clusters.yaml"), filepath.Join(bases, "cluster.x-k8s.io_machinepools.yaml")}, nil
}
