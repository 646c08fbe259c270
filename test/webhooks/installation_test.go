// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/test/fixture/replicas"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// installation is what config/default says about webhooks and about who serves them.
type installation struct {
	// services are the Services that webhooks are called through, by name.
	services map[string]*corev1.Service
	// targets is what the API server is configured to call for each webhook: by its name, or by that of the definition.
	targets map[string]target
	// grace is how long the process of a Pod has after the signal to stop.
	grace time.Duration
}

func installed(t *testing.T) *installation {
	t.Helper()
	objects, err := manifests.Load("../../config/default")
	require.NoError(t, err)
	i := &installation{services: map[string]*corev1.Service{}, targets: map[string]target{}}
	for _, object := range objects {
		read := func(into any) {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into), object.GetName())
		}
		switch object.GetKind() {
		case "Service":
			service := &corev1.Service{}
			read(service)
			i.services[service.Name] = service
		case "CustomResourceDefinition":
			definition := &apiextensionsv1.CustomResourceDefinition{}
			read(definition)
			if conversion := definition.Spec.Conversion; conversion != nil && conversion.Webhook != nil {
				i.targets[definition.Name] = *conversion.Webhook.ClientConfig
			}
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			for _, webhook := range object.Object["webhooks"].([]any) {
				name, found := webhookOf(t, webhook)
				i.targets[name] = found
			}
		case "Deployment":
			deployment := &appsv1.Deployment{}
			read(deployment)
			pod := deployment.Spec.Template.Spec
			require.NotNil(t, pod.TerminationGracePeriodSeconds)
			require.Nil(t, pod.Containers[0].Lifecycle, "terminate simulates no hooks")
			i.grace = time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
		}
	}
	return i
}

// names are those that the API server expects in the certificates of the Services.
func (i *installation) names() []string {
	names := make([]string, 0, len(i.services))
	for _, service := range i.services {
		names = append(names, service.Name+"."+service.Namespace+".svc")
	}
	return names
}

// serve makes the Services, in front of balancers. They lead to loopback, which the API server reaches under an external
// name only.
func (i *installation) serve(env *environment) map[string]*balancer {
	env.Helper()
	balancers := map[string]*balancer{}
	for name, service := range i.services {
		outside := &corev1.Service{}
		outside.Namespace, outside.Name = service.Namespace, name
		outside.Spec.Type, outside.Spec.ExternalName = corev1.ServiceTypeExternalName, "127.0.0.1"
		require.NoError(env, env.Create(env.Context(), outside))
		env.Cleanup(func() { require.NoError(env, env.Delete(context.Background(), outside)) })
		balancers[name] = &balancer{replicas.NewBalancer(env.T, "127.0.0.1:0"), service.Spec.PublishNotReadyAddresses}
	}
	return balancers
}

// calling makes the API server call the Services, as it does in a cluster. The sandbox makes it call URLs on loopback: there
// it talks HTTP/2, over one connection. A Service it calls with HTTP/1.1, over many connections which it keeps. Ports are
// those at which the Services are, by name.
func (i *installation) calling(bundle []byte, ports map[string]int32) aim {
	return func(name string, _ target) target {
		installed := i.targets[name]
		service := installed.Service.DeepCopy()
		port := ports[service.Name]
		service.Port = &port
		return target{Service: service, CABundle: bundle}
	}
}
