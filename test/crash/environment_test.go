// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// timeout is how long one phase of a life may take, with a restart of the manager.
	timeout = 5 * time.Minute
	tick    = 20 * time.Millisecond
	// silence is how long the manager's controllers must have had nothing to do.
	silence = 200 * time.Millisecond
)

// environment is a namespace in which one life follows another, under the same names.
type environment struct {
	*testing.T
	client.Client
	server    *server
	namespace string
	scope     terraform.Scope
	observed  *observed
	metrics   string
	// killed receives the write at which the manager was killed.
	killed <-chan proxy.Write
	// killedAt is that write, if the manager was killed in this phase.
	killedAt *proxy.Write
}

func newEnvironment(t *testing.T, s *server, scope terraform.Scope) *environment {
	t.Helper()
	c, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	namespace := fixture.NewNamespace(t, c)
	return &environment{
		T: t, Client: c, server: s, namespace: namespace, scope: scope, metrics: s.MetricsURL(sandbox.Manager),
		observed: watchWorkspaces(t, s.Config(), namespace),
	}
}

// eventually tries until it works: while the manager is down, its webhooks refuse what a user wants. Whenever the manager was
// killed it is started again.
func (env *environment) eventually(what string, try func(ctx context.Context) error) {
	env.Helper()
	env.await(what, func(ctx context.Context) error {
		select {
		case write := <-env.killed:
			env.killedAt = &write
			env.server.restart(env.T)
		default:
		}
		return try(ctx)
	})
}

// await tries until it works.
func (env *environment) await(what string, try func(ctx context.Context) error) {
	env.Helper()
	missing := fmt.Errorf("it was not tried yet")
	err := wait.PollUntilContextTimeout(env.Context(), tick, timeout, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err == nil || ctx.Err() == nil { // A timeout alone is not worth reporting.
			missing = err
		}
		return err == nil, nil
	})
	require.NoError(env, err, "%s: %v\n%s", what, missing, env.server.Logs(sandbox.Manager, 40))
}

// apply applies a document, as a user would.
func (env *environment) apply(document string) {
	env.Helper()
	object := fixture.Decode(env, env.namespace, document)
	env.eventually("applying "+document, func(ctx context.Context) error {
		return env.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("user"))
	})
}

// remove deletes an object, as a user would.
func (env *environment) remove(object client.Object, name string) {
	env.Helper()
	object.SetNamespace(env.namespace)
	object.SetName(name)
	require.NoError(env, client.IgnoreNotFound(env.Delete(env.Context(), object)))
}

// absent is nil when an object of the test does not exist.
func (env *environment) absent(ctx context.Context, object client.Object, name string) error {
	err := env.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: name}, object)
	switch {
	case err == nil:
		return fmt.Errorf("%T %s still exists", object, name)
	case engine.Absent(err):
		return nil
	}
	return err
}

// awaitSilence waits until the manager's controllers have looked at what there is, and have nothing left to do.
func (env *environment) awaitSilence() {
	env.Helper()
	var before fixture.Activity
	since := time.Now()
	env.eventually("waiting for the controllers to be done", func(ctx context.Context) error {
		now, err := fixture.ReadActivity(ctx, env.metrics)
		if err != nil {
			return err
		}
		if len(now.Since(before)) > 0 || now.Pending > 0 {
			before, since = now, time.Now()
		}
		if time.Since(since) < silence {
			return fmt.Errorf("they have done something a moment ago: %+v", now)
		}
		if now.Reconciles["workspacetemplateapply"] == 0 && env.absent(ctx, &infrav1.WorkspaceTemplateApply{}, applyName) != nil {
			return fmt.Errorf("they have not begun yet: %+v", now)
		}
		return nil
	})
}

// server is a control plane whose manager reaches the API server through a proxy that can kill it.
type server struct {
	*sandbox.Sandbox
	proxy *proxy.Proxy
	// terraform is what the provider pretends to run.
	terraform *scripted.Store
	// restarts is how long the manager took each time to come back.
	restarts []time.Duration
}

// operation is how long Terraform takes for what it does: long enough for the manager to report it.
const operation = 100 * time.Millisecond

func startServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{terraform: scripted.At(dir)}
	require.NoError(t, s.terraform.SetDefaultScript(scripted.Script{
		Apply: scripted.Step{Delay: operation}, Destroy: scripted.Step{Delay: operation},
	}))
	s.Sandbox = fixture.Start(t, sandbox.Options{
		Log: t.Output(), ClusterAPI: true, Provider: true, ProviderPod: true, Manager: true,
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + dir},
	})
	s.lead(t)
	return s
}

// lead makes the manager reach the API server through the proxy.
func (s *server) lead(t *testing.T) {
	t.Helper()
	config, err := s.ConfigOf(sandbox.Manager)
	require.NoError(t, err)
	s.proxy, err = proxy.Start(config, func() { _ = s.Kill(sandbox.Manager) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.proxy.Close()) })
	kubeconfig := filepath.Join(s.Dir(), "kubeconfigs", "proxy")
	require.NoError(t, s.proxy.WriteKubeconfig(kubeconfig))
	s.UseKubeconfig(sandbox.Manager, kubeconfig)
	require.NoError(t, s.Restart(t.Context(), sandbox.Manager))
}

// restart starts the manager again after a kill.
func (s *server) restart(t *testing.T) {
	t.Helper()
	began := time.Now()
	s.proxy.Open()
	require.NoError(t, s.StartComponent(t.Context(), sandbox.Manager))
	s.restarts = append(s.restarts, time.Since(began))
}

// Names that every life of a test has in common.
const (
	templateName = "vpc"
	applyName    = "demo"
	// legacyWorkspace is one that the naming scheme would not give.
	legacyWorkspace = "of-an-older-capt"
	// connectionSecret receives the outputs. That it is in the namespace is how an adopted Workspace is known to belong there.
	connectionSecret = "outputs"
)

// template is a WorkspaceTemplate whose module creates one resource, and outputs its range. Its deletion is allowed from the beginning: a manager that is down
// records no smaller number of users, and admits no annotation.
func template(scope terraform.Scope) string {
	kind := "ClusterProviderConfig"
	if scope == terraform.ScopeCluster {
		kind = "ProviderConfig"
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata:
  name: %s
  annotations: {%s: "true"}
spec:
  workspaceScope: %s
  passVariables: None
  publishOutputs: [cidr]
  template:
    spec:
      providerConfigRef: {kind: %s, name: sandbox}
      writeConnectionSecretToRef: {name: %s}
      forProvider:
        source: Inline
        module: |
          variable "cidr" {
            type = string
          }
          resource "terraform_data" "vpc" {
            input = var.cidr
          }
          output "cidr" {
            value = terraform_data.vpc.output
          }
        vars:
        - {key: cidr, value: '${cidr}'}
`, templateName, naming.AllowDeleteAnnotation, scope, kind, connectionSecret)
}

// workspaceTemplateApply uses the template; more are lines of its spec.
func workspaceTemplateApply(cidr string, more ...string) string {
	return fixture.WorkspaceTemplateApply(templateName, applyName, append([]string{"variables: {cidr: " + cidr + "}"}, more...)...)
}

// adopted is a WorkspaceTemplateApply of CAPT v0.3 that a user declares to have a Workspace.
func adopted(cidr string, workspace types.UID) string {
	metadata := fmt.Sprintf("metadata: {finalizers: [%s], annotations: {%s: %q}, ", infrav1.LegacyWorkspaceTemplateApplyFinalizer, naming.AdoptWorkspaceAnnotation, workspace)
	return strings.Replace(workspaceTemplateApply(cidr, "workspaceName: "+legacyWorkspace), "metadata: {", metadata, 1)
}
