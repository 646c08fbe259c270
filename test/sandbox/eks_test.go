// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/test/sandbox/eks"
)

// clusterClient returns a client with the kubeconfig of a simulated EKS cluster.
func clusterClient(t *testing.T, server eks.Server) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", server.Folder()+"/kubeconfig")
	require.NoError(t, err)
	return kubernetes.NewForConfigOrDie(config)
}

func TestSimulatedEKSClusterCanBeUpgraded(t *testing.T) {
	t.Parallel()
	server := eks.Server{Dir: shared.Dir(), Name: "upgraded"}
	ctx := t.Context()

	require.NoError(t, server.Start(ctx, "v1.35.0"))
	c := clusterClient(t, server)
	info, err := c.ServerVersion()
	require.NoError(t, err)
	// /version has the version of the binary and the emulated one.
	require.Equal(t, "35", info.EmulationMinor)
	_, err = c.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	first, err := server.Process()
	require.NoError(t, err)

	// Starting the same version again changes nothing.
	require.NoError(t, server.Start(ctx, "1.35"))
	second, err := server.Process()
	require.NoError(t, err)
	require.Equal(t, first, second)

	// A newer version runs in another process, with the same endpoint, kubeconfig and objects.
	require.NoError(t, server.Start(ctx, "1.36"))
	third, err := server.Process()
	require.NoError(t, err)
	require.NotEqual(t, first, third)
	require.False(t, first.Alive())
	info, err = c.ServerVersion()
	require.NoError(t, err)
	require.Equal(t, "36", info.EmulationMinor)
	_, err = c.CoreV1().ConfigMaps("default").Get(ctx, "mine", metav1.GetOptions{})
	require.NoError(t, err)

	require.ErrorContains(t, server.Start(ctx, "1.20"), "can run as Kubernetes 1.33 to 1.36, but not 1.20")

	require.NoError(t, server.Stop(ctx))
	require.False(t, third.Alive())
	require.NoDirExists(t, server.Folder())
	require.NoError(t, server.Stop(ctx), "stopping is not idempotent")

	// Its keys were deleted: a new cluster of the same name is empty.
	require.NoError(t, server.Start(ctx, "1.35"))
	list, err := clusterClient(t, server).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.NotContains(t, names(list.Items), "mine")
	require.NoError(t, server.Stop(ctx))
}

func names(list []corev1.ConfigMap) []string {
	var all []string
	for _, item := range list {
		all = append(all, item.Name)
	}
	return all
}
