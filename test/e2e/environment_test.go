// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e_test runs whole scenarios on a management cluster of its own, with the command lines that users have.
package e2e_test

import (
	"cmp"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	namespace = "default"
	samples   = "../../config/samples/sandbox"
	// tick is how often a test looks at what it waits for.
	tick = 50 * time.Millisecond
)

// environment is a management cluster of one test.
type environment struct {
	*testing.T
	client.Client
	*sandbox.Sandbox
}

// newEnvironment starts one. Scenarios wait for most of their time, so they run in parallel.
func newEnvironment(t *testing.T, providerArgs ...string) *environment {
	t.Helper()
	t.Parallel()
	s := fixture.Start(t, sandbox.Options{
		ClusterAPI: true, KubeControllerManager: true, Provider: true, ProviderPod: true, Manager: true, AuditLog: true, ProviderArgs: providerArgs,
		Programs: []string{sandbox.Captctl}, // docs/quickstart.md uses it.
	})
	c, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	return &environment{T: t, Client: c, Sandbox: s}
}

// run runs one of the sandbox's command lines and returns what it printed.
func (env *environment) run(binary string, args ...string) string {
	env.Helper()
	out, err := exec.CommandContext(env.Context(), env.Binary(binary), args...).CombinedOutput()
	require.NoError(env, err, "%s %s: %s", binary, strings.Join(args, " "), out)
	return string(out)
}

func (env *environment) kubectl(args ...string) string {
	env.Helper()
	return env.run(sandbox.Kubectl, append([]string{"--kubeconfig", env.Kubeconfig()}, args...)...)
}

func (env *environment) clusterctl(args ...string) string {
	env.Helper()
	return env.run(sandbox.Clusterctl, append(args, "--kubeconfig", env.Kubeconfig())...)
}

// await waits until an object is as wanted; want says what is still missing.
func (env *environment) await(object client.Object, name string, want func() string) {
	env.Helper()
	fixture.EventuallyObject(env, tick, env, client.ObjectKey{Namespace: namespace, Name: name}, object, want)
}

// awaitTrue waits until conditions of an object are True.
func (env *environment) awaitTrue(object engine.Object, name string, types ...string) {
	env.Helper()
	env.await(object, name, func() (missing string) {
		for _, conditionType := range types {
			missing = cmp.Or(missing, fixture.ConditionMismatch(object, conditionType, metav1.ConditionTrue, ""))
		}
		return missing
	})
}

func (env *environment) awaitGone(object client.Object, name string) {
	env.Helper()
	fixture.EventuallyGone(env.T, tick, env, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// names of the objects of a kind, as namespace/name.
func (env *environment) names(apiVersion, kind string) []string {
	env.Helper()
	names := []string{}
	for _, object := range fixture.List(env, env, schema.FromAPIVersionAndKind(apiVersion, kind)) {
		names = append(names, object.GetNamespace()+"/"+object.GetName())
	}
	return names
}
