// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e_test runs whole scenarios on a management cluster of its own, with the command lines that users have.
package e2e_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// world is a management cluster of one test.
type world struct {
	*testing.T
	client.Client
	*sandbox.Sandbox
}

// newWorld starts one. Scenarios wait for most of their time, so they run in parallel.
func newWorld(t *testing.T, providerArgs ...string) *world {
	t.Helper()
	t.Parallel()
	s := fixture.Start(t, sandbox.Options{
		ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditLog: true, ProviderArgs: providerArgs,
	})
	c, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	return &world{T: t, Client: c, Sandbox: s}
}

// run runs one of the sandbox's command lines and returns what it printed.
func (w *world) run(binary string, args ...string) string {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), w.Binary(binary), args...).CombinedOutput()
	require.NoError(w, err, "%s %s: %s", binary, strings.Join(args, " "), out)
	return string(out)
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.run(sandbox.Kubectl, append([]string{"--kubeconfig", w.Kubeconfig()}, args...)...)
}

func (w *world) clusterctl(args ...string) string {
	w.Helper()
	return w.run(sandbox.Clusterctl, append(args, "--kubeconfig", w.Kubeconfig())...)
}

// await waits until an object is as wanted; want says what is still missing.
func (w *world) await(object client.Object, name string, want func() string) {
	w.Helper()
	fixture.Insist(w.T, tick, func() string {
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return err.Error()
		}
		if lack := want(); lack != "" {
			return fmt.Sprintf("%T %s: %s", object, name, lack)
		}
		return ""
	})
}

// awaitTrue waits until conditions of an object are True.
func (w *world) awaitTrue(object engine.Object, name string, types ...string) {
	w.Helper()
	w.await(object, name, func() string {
		for _, conditionType := range types {
			if condition := meta.FindStatusCondition(object.GetConditions(), conditionType); condition == nil || condition.Status != metav1.ConditionTrue {
				return conditionType + " is not True"
			}
		}
		return ""
	})
}

func (w *world) awaitGone(object client.Object, name string) {
	w.Helper()
	fixture.InsistGone(w.T, tick, w, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// names of the objects of a kind, as namespace/name.
func (w *world) names(apiVersion, kind string) []string {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	require.NoError(w, w.List(w.Context(), list))
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].GetNamespace()+"/"+list.Items[i].GetName())
	}
	return names
}
