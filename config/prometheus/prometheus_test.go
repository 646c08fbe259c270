// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus_test checks the component for prometheus-operator in an installation. tools/rules tests the alerts.
package prometheus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// serviceMonitor has the fields that these tests need.
type serviceMonitor struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port            string `json:"port"`
			Scheme          string `json:"scheme"`
			HonorLabels     bool   `json:"honorLabels"`
			BearerTokenFile string `json:"bearerTokenFile"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// prometheusRule has the fields that these tests need.
type prometheusRule struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []struct {
			Rules []struct {
				Alert string `json:"alert"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// load builds an overlay of the default installation with the component.
func load(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	overlay, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	component, err := filepath.Rel(overlay, here)
	require.NoError(t, err)
	text := fmt.Sprintf("resources:\n- %s\ncomponents:\n- %s\n", filepath.Join(component, "../default"), component)
	require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600))
	objects, err := manifests.Load(overlay)
	require.NoError(t, err)
	return objects
}

func decode[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	into := new(T)
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into))
			return into
		}
	}
	require.Fail(t, "no "+kind+" "+name)
	return nil
}

func TestTheServiceMonitorReachesTheManager(t *testing.T) {
	objects := load(t)
	monitor := decode[serviceMonitor](t, objects, "ServiceMonitor", "capt-manager")
	service := decode[corev1.Service](t, objects, "Service", "capt-metrics-service")
	pods := decode[appsv1.Deployment](t, objects, "Deployment", "capt-manager").Spec.Template
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	require.NoError(t, err)
	for _, object := range objects {
		if object.GetKind() == "Service" {
			assert.Equal(t, object.GetName() == service.Name, selector.Matches(labels.Set(object.GetLabels())), object.GetName())
		}
	}
	assert.Equal(t, service.Namespace, monitor.Namespace)
	assert.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pods.Labels)))
	require.Len(t, monitor.Spec.Endpoints, 1)
	endpoint := monitor.Spec.Endpoints[0]
	assert.Equal(t, service.Spec.Ports[0].Name, endpoint.Port)
	assert.True(t, slices.ContainsFunc(pods.Spec.Containers[0].Ports, func(port corev1.ContainerPort) bool {
		return port.Name == service.Spec.Ports[0].TargetPort.StrVal
	}))
	assert.Equal(t, "https", endpoint.Scheme)
	assert.NotEmpty(t, endpoint.BearerTokenFile)
	assert.True(t, endpoint.HonorLabels, "otherwise the label namespace would be that of the manager")
}

func TestTheDefaultInstallationNeedsNoPrometheusOperator(t *testing.T) {
	objects, err := manifests.Load("../default")
	require.NoError(t, err)
	for _, object := range objects {
		assert.NotContains(t, object.GetAPIVersion(), "monitoring.coreos.com", object.GetName())
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbooks.md")
	require.NoError(t, err)
	sections := regexp.MustCompile(`(?m)^## (CAPT\w+)$`).FindAllStringSubmatchIndex(string(text), -1)
	var documented, alerts []string
	for i, at := range sections {
		documented = append(documented, string(text[at[2]:at[3]]))
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		for _, part := range []string{"Meaning: ", "Look at: ", "Do: ", "Urgent: "} {
			assert.True(t, strings.Contains(string(text[at[0]:end]), "\n- "+part), "%s: %s", text[at[2]:at[3]], part)
		}
	}
	for _, group := range decode[prometheusRule](t, load(t), "PrometheusRule", "capt-manager").Spec.Groups {
		for _, rule := range group.Rules {
			alerts = append(alerts, rule.Alert)
		}
	}
	assert.ElementsMatch(t, alerts, documented)
}
