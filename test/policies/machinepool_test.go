// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// machinePool is a MachinePool of Cluster demo with 3 replicas, whose infrastructure is the CAPTMachinePool workers, or another object.
func machinePool(name string, ref ...string) string {
	kind, referred := "CAPTMachinePool", "workers"
	if len(ref) > 0 {
		kind, referred = ref[0], ref[1]
	}
	return fmt.Sprintf(`apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: %s}
spec:
  clusterName: demo
  replicas: 3
  template:
    spec:
      clusterName: demo
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %s, name: %s}
`, name, kind, referred)
}

func captMachinePool(fields ...string) string {
	return "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: CAPTMachinePool\nmetadata: {name: workers}\nspec:\n  workspaceTemplateRef: {name: nodegroup}\n" +
		"  scaling: {minSize: 1, maxSize: 5}\n" + strings.Join(fields, "\n")
}

// workers returns a MachinePool and its CAPTMachinePool.
func workers(env *fixture.Environment, fields ...string) (*clusterv1.MachinePool, *infrav1.CAPTMachinePool) {
	env.Helper()
	env.User(fixture.Cluster(), captMachinePool(fields...), machinePool("workers"))
	meta := metav1.ObjectMeta{Namespace: env.Namespace, Name: "workers"}
	return &clusterv1.MachinePool{ObjectMeta: meta}, &infrav1.CAPTMachinePool{ObjectMeta: meta}
}

func clients() []string {
	return []string{
		"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager", sandbox.ClusterAPIUser,
	}
}

func TestAProtectedMachinePoolIsNotDeletedByAnyUser(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	machinePool, pool := workers(env, "  "+protection)
	env.Eventually(func() string { // Cluster API sets it.
		require.True(t, env.Exists(pool, "workers"))
		return fixture.Unless(pool.Labels[clusterv1.ClusterNameLabel] == fixture.Demo, "CAPTMachinePool workers has labels %v", pool.Labels)
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}}
	for _, object := range []client.Object{pool, machinePool, cluster} {
		message := refused(t, probe{shared.API, object}.delete)
		for _, part := range []string{"CAPTMachinePool workers", "is protected from deletion", "first set ", "spec.deletionProtection", "to Disabled"} {
			require.Contains(t, message, part)
		}
		for _, user := range clients() {
			require.ErrorContains(t, probe{as(t, user, "system:masters"), object}.delete(t.Context()), "is protected from deletion", user)
		}
		allow(t, object, "true")
		require.ErrorContains(t, env.Delete(t.Context(), object), "is protected from deletion", "the annotation does not replace the field")
		env.Edit(object, object.GetName(), forMove)
		require.NoError(t, env.Delete(t.Context(), object, client.DryRunAll), "clusterctl move leaves nothing behind")
		env.Edit(object, object.GetName(), `{"metadata":{"annotations":null}}`)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	allow(t, namespace, "true")
	require.Contains(t, kubectlRefused(t, env.Namespace), "CAPTMachinePool workers, which is protected from deletion")

	env.Edit(pool, "workers", unprotect)
	fixture.EventuallyAccepted(t, func(ctx context.Context) error { return env.Delete(ctx, cluster) })
	for _, object := range []client.Object{machinePool, pool, cluster} {
		env.AwaitGone(object, object.GetName())
	}
}

func TestWhatALiveMachinePoolRefersToIsNotDeletedByAnyUser(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	machinePool, pool := workers(env)
	message := refused(t, probe{shared.API, pool}.delete)
	for _, part := range []string{"CAPTMachinePool workers belongs to MachinePool workers", "delete the MachinePool", naming.AllowDeleteAnnotation + ` to "true"`} {
		require.Contains(t, message, part)
	}
	for _, user := range clients() {
		require.ErrorContains(t, probe{as(t, user, "system:masters"), pool}.delete(t.Context()), "belongs to MachinePool workers", user)
	}
	allow(t, pool, "true")
	require.NoError(t, env.Delete(t.Context(), pool, client.DryRunAll))
	env.Edit(pool, "workers", `{"metadata":{"annotations":null}}`)
	env.Remove(machinePool, "workers")
	env.AwaitGone(machinePool, "workers")
	env.AwaitGone(pool, "workers")
}

func TestASecondMachinePoolCannotReferToTheObjectOfAnother(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	first, _ := workers(env)
	create := func(document string) func(context.Context) error {
		return func(ctx context.Context) error {
			return env.Create(ctx, fixture.Decode(t, env.Namespace, document), client.DryRunAll)
		}
	}
	message := refused(t, create(machinePool("copy")))
	for _, part := range []string{"MachinePool copy refers to CAPTMachinePool workers, which belongs to MachinePool workers", "both would have one node group", "namePrefix"} {
		require.Contains(t, message, part)
	}
	require.NoError(t, create(machinePool("copy", "CAPTMachinePool", "another"))(t.Context()))
	env.Edit(first, "workers", `{"metadata":{"labels":{"any":"label"}}}`)
	for _, kind := range []string{"WorkspaceTemplate", "CAPTControlPlane", "CAPTMachinePoolTemplate"} {
		require.Contains(t, refused(t, create(machinePool("any", kind, "vpc"))), "refers to "+kind+" vpc, which is not a machine pool")
	}
	older := `{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachinePool, metadata: {name: any}, spec: {clusterName: demo, template: {spec: {clusterName: demo,
		bootstrap: {configRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: WorkspaceTemplate, name: vpc}},
		infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTMachinePool, name: another}}}}}`
	require.Contains(t, refused(t, create(older)), "refers to WorkspaceTemplate vpc", "the older version does not bypass it")
}

// The webhook of MachinePools sees kubectl scale.
func TestKubectlScaleOutOfTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	workers(env)
	scale := func(replicas string) (string, error) {
		return kubectl(t, "-n", env.Namespace, "scale", "machinepools.cluster.x-k8s.io", "workers", "--replicas="+replicas)
	}
	output, err := scale("6")
	require.Error(t, err, output)
	require.Contains(t, output, "MachinePool workers has 6 replicas, and its node group may have 1 to 5")
	output, err = scale("5")
	require.NoError(t, err, output)
	output, err = kubectl(t, "-n", env.Namespace, "patch", "machinepools.v1beta1.cluster.x-k8s.io", "workers", "--type=merge", "-p", `{"spec":{"replicas":6}}`)
	require.NoError(t, err, output)
	require.Contains(t, output, "Warning: spec.replicas: MachinePool workers has 6 replicas", "a manifest may raise the limits in the same commit")
}
