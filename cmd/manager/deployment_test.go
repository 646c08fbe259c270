// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// The Deployment runs this very command: its arguments, ports and files are those that the command knows.

func installed(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Load("../../config/default")
	require.NoError(t, err)
	return objects
}

func decode[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	into := new(T)
	for _, object := range objects {
		if object.GetKind() == kind {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true))
			return into
		}
	}
	require.Fail(t, "no "+kind)
	return nil
}

// setting is the value that a flag has in the Deployment.
func setting(t *testing.T, container corev1.Container, name string) string {
	t.Helper()
	command := newOptions().command()
	require.NoError(t, command.ParseFlags(container.Args))
	found := command.Flags().Lookup(name)
	require.NotNil(t, found, name)
	return found.Value.String()
}

func TestTheDeploymentStartsThisCommand(t *testing.T) {
	container := decode[appsv1.Deployment](t, installed(t), "Deployment").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "true", setting(t, container, "leader-elect"), "two replicas")
	assert.Equal(t, "false", setting(t, container, "insecure-diagnostics"))

	ports := map[string]string{}
	for _, port := range container.Ports {
		ports[port.Name] = strconv.Itoa(int(port.ContainerPort))
	}
	for name, flagName := range map[string]string{"health": "health-addr", "metrics": "diagnostics-address"} {
		host, port, err := net.SplitHostPort(setting(t, container, flagName))
		require.NoError(t, err)
		assert.Empty(t, host, "%s is for others", flagName)
		assert.Equal(t, port, ports[name])
	}
	assert.Equal(t, setting(t, container, "webhook-port"), ports["webhooks"])
	for path, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		assert.Equal(t, path, probe.HTTPGet.Path)
		assert.Equal(t, "health", probe.HTTPGet.Port.StrVal)
	}
}

func TestTheServingCertificateIsWhereTheCommandLooks(t *testing.T) {
	objects := installed(t)
	pod := decode[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec
	container := pod.Containers[0]
	require.Len(t, container.VolumeMounts, 1)
	assert.Equal(t, filepath.Clean(setting(t, container, "webhook-cert-dir")), filepath.Clean(container.VolumeMounts[0].MountPath))
	require.Len(t, pod.Volumes, 1)
	assert.Equal(t, pod.Volumes[0].Name, container.VolumeMounts[0].Name)
	for _, object := range objects {
		if object.GetKind() == "Certificate" && strings.Contains(object.GetName(), "serving") {
			secret, _, err := unstructured.NestedString(object.Object, "spec", "secretName")
			require.NoError(t, err)
			assert.Equal(t, secret, pod.Volumes[0].Secret.SecretName)
			return
		}
	}
	assert.Fail(t, "no serving certificate")
}

// The name of a Lease depends on flags, so the role allows those of every shard, in the namespace of the manager alone.
func TestTheRoleAllowsTheLeasesOfEveryShard(t *testing.T) {
	allowed := map[string]bool{}
	for _, rule := range decode[rbacv1.Role](t, installed(t), "Role").Rules {
		if slices.Contains(rule.Resources, "leases") {
			assert.Empty(t, rule.ResourceNames)
			for _, verb := range rule.Verbs {
				allowed[verb] = true
			}
		}
	}
	assert.Equal(t, map[string]bool{"create": true, "get": true, "update": true}, allowed)
	for _, row := range []struct {
		args []string
		want string
	}{
		{nil, naming.LeaderElectionLease("", "")},
		{[]string{"--watch-filter=a"}, naming.LeaderElectionLease("", "a")},
		{[]string{"--namespace=a", "--watch-filter=b"}, naming.LeaderElectionLease("a", "b")},
	} {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags(row.args))
		_ = o.validate() // Validating the logging options fails when it is called again.
		assert.Equal(t, row.want, o.manager.LeaderElectionID, row.args)
	}
}
