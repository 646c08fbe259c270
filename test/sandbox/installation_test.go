// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// warnings collects the warnings of an API server.
type warnings struct {
	lock sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.text = append(w.text, text)
}

// listening returns a client of a sandbox and its warnings.
func listening(t *testing.T, s *sandbox.Sandbox) (client.Client, *warnings) {
	t.Helper()
	heard := &warnings{}
	config := s.Config()
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return c, heard
}

func installation(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Load("../../config/default")
	require.NoError(t, err)
	return objects
}

func TestInstallation(t *testing.T) {
	t.Parallel()
	s := shared
	t.Run("is accepted by the API server", func(t *testing.T) { everythingIsAccepted(t, s) })
	t.Run("has a restricted Pod", func(t *testing.T) { podIsRestricted(t, s) })
	t.Run("lets the manager hold its Lease", func(t *testing.T) { managerMayHoldItsLease(t, s) })
	t.Run("serves the older version only with a conversion webhook", func(t *testing.T) { olderVersionIsNotServed(t, s) })
}

// The sandbox does not install objects that need nodes. The API server validates them too.
func everythingIsAccepted(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	c, heard := listening(t, s)
	for _, object := range installation(t) {
		if object.GroupVersionKind().Group == "cert-manager.io" {
			continue // These kinds are not installed.
		}
		configuration := client.ApplyConfigurationFromUnstructured(object)
		require.NoError(t, c.Apply(t.Context(), configuration, client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll),
			"%s %s", object.GetKind(), object.GetName())
	}
	require.Empty(t, heard.text)
}

// CAPT's namespace enforces the strictest Pod Security standard.
func podIsRestricted(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	c, heard := listening(t, s)
	objects := installation(t)
	index := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	deployment := &appsv1.Deployment{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[index].Object, deployment))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: "capt-manager", Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}

	careless := pod.DeepCopy()
	careless.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
	err := c.Create(t.Context(), careless, client.DryRunAll)
	require.True(t, apierrors.IsForbidden(err), "the namespace enforces nothing: %v", err)

	require.NoError(t, c.Create(t.Context(), pod, client.DryRunAll))
	require.Empty(t, heard.text)
	container := pod.Spec.Containers[0]
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.NotEmpty(t, container.Resources.Requests)
	require.NotEmpty(t, container.Resources.Limits.Memory())
}

// Leader election is not used by the single manager of the sandbox.
func managerMayHoldItsLease(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	c := newClient(t, s)
	const lease = "capt-manager-leader-election"
	for _, test := range []struct {
		group, resource, verb, namespace, name string
		may                                    bool
	}{
		{"coordination.k8s.io", "leases", "create", sandbox.ManagerNamespace, "", true},
		{"coordination.k8s.io", "leases", "get", sandbox.ManagerNamespace, lease, true},
		{"coordination.k8s.io", "leases", "update", sandbox.ManagerNamespace, lease, true},
		{"coordination.k8s.io", "leases", "update", sandbox.ManagerNamespace, "of-a-shard", true},
		{"coordination.k8s.io", "leases", "update", "default", lease, false},
		{"coordination.k8s.io", "leases", "create", "default", "", false},
		{"", "events", "create", sandbox.ManagerNamespace, "", true},
		{"", "events", "create", "default", "", false},
		{"events.k8s.io", "events", "create", "default", "", true},
		{"", "pods", "create", sandbox.ManagerNamespace, "", false},
		{"", "secrets", "delete", sandbox.ManagerNamespace, "", true}, // To restore a lost owner reference of a kubeconfig.
		{"", "secrets", "deletecollection", sandbox.ManagerNamespace, "", false},
		{"", "secrets", "update", sandbox.ManagerNamespace, "", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: sandbox.ManagerUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: test.group, Resource: test.resource, Verb: test.verb, Namespace: test.namespace, Name: test.name,
			},
		}}
		require.NoError(t, c.Create(t.Context(), review))
		require.Equal(t, test.may, review.Status.Allowed, "%+v", test)
	}
}

func olderVersionIsNotServed(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	output, err := kubectl(t, s, "", "get", "captclusters.v1beta1.infrastructure.cluster.x-k8s.io")
	require.Error(t, err, "it would be read wrongly: %s", output)
	output, err = kubectl(t, s, "", "get", "captclusters.v1beta2.infrastructure.cluster.x-k8s.io")
	require.NoError(t, err, output)
}

const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo, namespace: default}
spec:
  clusterNetwork: {pods: {cidrBlocks: ["%s"]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: demo}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}
`

// kubectl runs kubectl as the administrator and returns what it printed.
func kubectl(t *testing.T, s *sandbox.Sandbox, stdin string, args ...string) (string, error) {
	t.Helper()
	require.NoError(t, sandbox.Build(t.Context(), t.Output(), sandbox.Kubectl))
	cmd := exec.CommandContext(t.Context(), s.Binary(sandbox.Kubectl), append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestClusterAPIAcceptsAClusterThroughItsWebhooks(t *testing.T) {
	t.Parallel()
	s := shared

	output, err := kubectl(t, s, strings.ReplaceAll(cluster, "%s", "not a network"), "apply", "-f", "-")
	require.Error(t, err, "the validating webhook was not called")
	require.Contains(t, output, "invalid CIDR")

	output, err = kubectl(t, s, strings.ReplaceAll(cluster, "%s", "10.1.0.0/16"), "apply", "-f", "-")
	require.NoError(t, err, output)

	// The older version is served by the conversion webhook.
	output, err = kubectl(t, s, "", "get", "clusters.v1beta1.cluster.x-k8s.io", "demo", "-o", "jsonpath={.spec.infrastructureRef.name}")
	require.NoError(t, err, output)
	require.True(t, strings.HasSuffix(output, "demo"), output)

	// Core reconciles the Cluster and writes it as its own user.
	require.Eventually(t, func() bool {
		return len(fixture.AuditEvents(t, s, audit.Filter{
			User: sandbox.ClusterAPIUser, Verbs: audit.Writes, Group: clusterv1.GroupVersion.Group, Resource: "clusters", Name: "demo",
		})) > 0
	}, wait, tick)
}
