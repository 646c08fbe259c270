// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package default_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capt-provider/capt/config/crd"
)

func TestKindsWithTwoVersionsAreConverted(t *testing.T) {
	i := load(t)
	definitions := all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition")
	files, err := fs.Glob(crd.Definitions, "bases/*.yaml")
	require.NoError(t, err)
	require.Len(t, definitions, len(files), "every kind is installed")
	for _, definition := range definitions {
		t.Run(definition.Spec.Names.Kind, func(t *testing.T) {
			group, _, _ := strings.Cut(definition.Spec.Group, ".")
			provider := map[string]string{"bootstrap": "infrastructure-capt", "infrastructure": "infrastructure-capt", "controlplane": "control-plane-capt"}[group]
			want := map[string]string{"cluster.x-k8s.io/provider": provider, "clusterctl.cluster.x-k8s.io": ""}
			if slices.Contains([]string{"WorkspaceTemplate", "WorkspaceTemplateApply"}, definition.Spec.Names.Kind) { // They are moved although they need not belong to a Cluster.
				want["clusterctl.cluster.x-k8s.io/move"] = ""
			}
			for _, version := range definition.Spec.Versions {
				want["cluster.x-k8s.io/"+version.Name] = version.Name
				assert.True(t, version.Served)
				assert.Equal(t, version.Name == "v1beta2", version.Storage)
			}
			assert.Equal(t, want, definition.Labels, "Cluster API finds versions by labels")

			if len(definition.Spec.Versions) == 1 {
				assert.Nil(t, definition.Spec.Conversion)
				assert.NotContains(t, definition.Annotations, injection)
				return
			}
			conversion := definition.Spec.Conversion
			assert.Equal(t, apiextensionsv1.WebhookConverter, conversion.Strategy)
			assert.Equal(t, []string{"v1"}, conversion.Webhook.ConversionReviewVersions)
			service := conversion.Webhook.ClientConfig.Service
			assert.Equal(t, "/convert", *service.Path)
			requireCalled(t, i, definition.Annotations, service.Namespace, service.Name)
		})
	}
}

func TestServingCertificateIsForTheService(t *testing.T) {
	i := load(t)
	service := one[corev1.Service](t, i, "Service")
	c, by := signed(t, i, false)
	assert.Contains(t, c.Spec.DNSNames, service.Name+"."+service.Namespace+".svc", "the API server calls it by this name")
	assert.Contains(t, c.Spec.DNSNames, service.Name+"."+service.Namespace+".svc.cluster.local")

	// The certificate authority is valid for longer.
	authority, root := signed(t, i, true)
	assert.Equal(t, authority.Spec.SecretName, by.Spec.CA.SecretName)
	assert.NotNil(t, root.Spec.SelfSigned)
	assert.NotEqual(t, authority.Spec.SecretName, c.Spec.SecretName)
}

func TestSelectorsMatchTheManager(t *testing.T) {
	i := load(t)
	service, deployment := one[corev1.Service](t, i, "Service"), one[appsv1.Deployment](t, i, "Deployment")
	pod := deployment.Spec.Template
	set := labels.Set(pod.Labels)
	require.NotEmpty(t, service.Spec.Selector)
	assert.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(set))
	budget, policy := one[policyv1.PodDisruptionBudget](t, i, "PodDisruptionBudget"), one[networkingv1.NetworkPolicy](t, i, "NetworkPolicy")
	for _, selector := range []*metav1.LabelSelector{
		deployment.Spec.Selector, budget.Spec.Selector, &policy.Spec.PodSelector, pod.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		selects, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		assert.False(t, selects.Empty())
		assert.True(t, selects.Matches(set))
	}
	assert.EqualValues(t, 2, *deployment.Spec.Replicas)
	assert.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue(), "one replica stays")

	var ports, open []string
	for _, port := range pod.Spec.Containers[0].Ports {
		ports = append(ports, port.Name)
	}
	for _, port := range policy.Spec.Ingress[0].Ports {
		open = append(open, port.Port.StrVal)
	}
	assert.Equal(t, ports, open)
	assert.Contains(t, ports, service.Spec.Ports[0].TargetPort.StrVal)
	assert.EqualValues(t, 443, service.Spec.Ports[0].Port)
}

func TestAllNamespacedObjectsAreInOneNamespace(t *testing.T) {
	i := load(t)
	namespace := one[corev1.Namespace](t, i, "Namespace")
	assert.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"])
	for _, object := range i.objects {
		switch object.GetKind() {
		case "Role", "RoleBinding", "ServiceAccount", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "Certificate", "Issuer":
			assert.Equal(t, namespace.Name, object.GetNamespace(), "%s %s", object.GetKind(), object.GetName())
		default:
			assert.Empty(t, object.GetNamespace(), "%s %s", object.GetKind(), object.GetName())
		}
	}
}
