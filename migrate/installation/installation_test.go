// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

var now = time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC)

// bundleUntil is a certificate that is valid until a time.
func bundleUntil(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

var provided = map[string]string{clusterv1.ProviderNameLabel: "infrastructure-capt"}

// parsed are the definitions, which take a tenth of a second.
var parsed = sync.OnceValues(Definitions)

// healthy are the objects of an installation without errors.
func healthy(t *testing.T) (objects []client.Object) {
	t.Helper()
	definitions, err := parsed()
	require.NoError(t, err)
	for _, definition := range definitions {
		definition = definition.DeepCopy()
		definition.Labels = map[string]string{contractLabel: "v1beta2"}
		definition.Status.StoredVersions = []string{"v1beta2"}
		if len(definition.Spec.Versions) > 1 {
			definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("x")}}}
		}
		objects = append(objects, definition)
	}
	names, err := policyNames()
	require.NoError(t, err)
	assert.Contains(t, names, "capt-approvals")
	for _, name := range names {
		objects = append(objects,
			&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "my-" + name, Labels: provided}},
			&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "my-" + name, Labels: provided},
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "my-" + name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
	}
	config := admissionv1.WebhookClientConfig{CABundle: bundleUntil(t, now.Add(365*24*time.Hour)), Service: &admissionv1.ServiceReference{Namespace: "capt-system", Name: "capt-webhook-service"}}
	return append(objects,
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "capt", Labels: provided}, Webhooks: []admissionv1.MutatingWebhook{{Name: "a", ClientConfig: config}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "capt", Labels: provided}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "b", ClientConfig: config}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "capt-system", Name: "x", Labels: map[string]string{discoveryv1.LabelServiceName: "capt-webhook-service"}},
			Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}},
		deployment("capt-system", "capt-manager", "capt-manager:v0.4.0", map[string]string{"app.kubernetes.io/name": "capt", "app.kubernetes.io/component": "manager"}),
		deployment("capi-system", "capi-controller-manager", "cluster-api-controller:v1.14.2", map[string]string{clusterv1.ProviderNameLabel: "cluster-api"}),
		deployment("crossplane-system", "provider-terraform-1", "provider-terraform@sha256:00", nil),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crossplane-system", Name: "p", Labels: map[string]string{terraform.ProviderPodLabel: "provider-terraform"}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
}

func deployment(namespace, name, image string, labels map[string]string, args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}
	d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: name, Containers: []corev1.Container{{Name: "manager", Image: "example.com:5000/" + image, Args: args, Ports: []corev1.ContainerPort{{Name: "webhooks"}}}}}
	return d
}

// run runs the checks; each right is granted unless denied says otherwise.
func run(t *testing.T, objects []client.Object, funcs interceptor.Funcs, denied ...string) map[string]Check {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)))
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	mapper.Add(terraform.ScopeNamespaced.GroupVersionKind(), meta.RESTScopeNamespace)
	funcs.Create = func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		review := object.(*authorizationv1.SubjectAccessReview)
		of := review.Spec.ResourceAttributes
		review.Status.Allowed = true
		for _, right := range denied {
			review.Status.Allowed = review.Status.Allowed && right != review.Spec.User+" "+of.Verb+" "+of.Resource
		}
		return nil
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	report, err := Run(t.Context(), Options{Client: api, Version: "v0.4.0", Now: now, Progress: migrate.Silent{}})
	require.NoError(t, err)
	found := map[string]Check{}
	for _, check := range report.Checks {
		found[check.Name] = check
	}
	return found
}

func TestAHealthyInstallationHasNoErrors(t *testing.T) {
	for name, check := range run(t, healthy(t), interceptor.Funcs{}) {
		want := map[string]Status{"certificates": Warning}[name] // There is no cert-manager.
		if want == "" {
			want = OK
		}
		assert.Equal(t, want, check.Status, "%s: %v", name, check)
	}
}

func TestEachCheckFindsItsProblem(t *testing.T) {
	for name, row := range map[string]struct {
		check  string
		status Status
		find   string // In the message or in an object.
		spoil  func(object client.Object)
		denied string
	}{
		"no replica": {"manager", Error, "no replica is available", func(o client.Object) {
			with(o, "capt-manager", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
		}, ""},
		"other version": {"manager", Warning, "captctl has version v0.4.0, and the manager v0.5.0", func(o client.Object) {
			with(o, "capt-manager", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "m:v0.5.0" })
		}, ""},
		"manager rights": {"rights of the manager", Error, "delete workspaces.tf.m.upbound.io", nil, "system:serviceaccount:capt-system:capt-manager delete workspaces"},
		"contract": {"definitions", Error, "cluster.x-k8s.io/v1beta2 is missing", func(o client.Object) {
			with(o, "captclusters.infrastructure.cluster.x-k8s.io", func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels = nil })
		}, ""},
		"stored": {"definitions", Warning, "stored in v1beta1, v1beta2", func(o client.Object) {
			with(o, "captclusters.infrastructure.cluster.x-k8s.io", func(d *apiextensionsv1.CustomResourceDefinition) {
				d.Status.StoredVersions = []string{"v1beta1", "v1beta2"}
			})
		}, ""},
		"schema": {"definitions", Warning, "not that of this captctl", func(o client.Object) {
			with(o, "captclusters.infrastructure.cluster.x-k8s.io", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Schema = nil })
		}, ""},
		"no authority": {"webhooks", Error, "caBundle is empty", func(o client.Object) {
			with(o, "capt", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].ClientConfig.CABundle = nil })
		}, ""},
		"expired": {"webhooks", Error, "caBundle expired at", func(o client.Object) {
			with(o, "capt", func(w *admissionv1.MutatingWebhookConfiguration) {
				w.Webhooks[0].ClientConfig.CABundle = bundleUntil(t, now.Add(-time.Hour))
			})
		}, ""},
		"expires": {"webhooks", Warning, "caBundle expires at", func(o client.Object) {
			with(o, "capt", func(w *admissionv1.MutatingWebhookConfiguration) {
				w.Webhooks[0].ClientConfig.CABundle = bundleUntil(t, now.Add(time.Hour))
			})
		}, ""},
		"no endpoint": {"webhooks", Error, "no endpoint is ready", func(o client.Object) { with(o, "x", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }) }, ""},
		"policy not bound": {"policies", Warning, "my-capt-approvals: no binding", func(o client.Object) {
			with(o, "my-capt-approvals", func(b *admissionv1.ValidatingAdmissionPolicyBinding) { b.Spec.ValidationActions = nil })
		}, ""},
		"policy missing": {"policies", Warning, "capt-approvals: not installed", func(o client.Object) {
			with(o, "my-capt-approvals", func(p *admissionv1.ValidatingAdmissionPolicy) { p.Labels = nil })
		}, ""},
		"Cluster API rights": {"Cluster API", Error, "patch captclusters.infrastructure.cluster.x-k8s.io", nil, "system:serviceaccount:capi-system:capi-controller-manager patch captclusters"},
		"no previews": {"provider-terraform", Warning, "does not accept previews", func(o client.Object) {
			with(o, "provider-terraform-1", func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Args = []string{"--enable-management-policies", "false"}
			})
		}, ""},
		"Pod": {"provider-terraform", Error, "Pod crossplane-system/p: not ready, Pending", func(o client.Object) { with(o, "p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := healthy(t)
			for _, object := range objects {
				if row.spoil != nil {
					row.spoil(object)
				}
			}
			check := run(t, objects, interceptor.Funcs{}, row.denied)[row.check]
			assert.Equal(t, row.status, check.Status)
			assert.Contains(t, strings.Join(append(check.Objects, check.Message), "\n"), row.find)
		})
	}
}

// with changes an object of a type and a name.
func with[T client.Object](object client.Object, name string, change func(T)) {
	if typed, is := object.(T); is && typed.GetName() == name {
		change(typed)
	}
}

func TestAMissingRightMakesOneCheckUnknown(t *testing.T) {
	checks := run(t, healthy(t), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, is := list.(*admissionv1.ValidatingAdmissionPolicyList); is {
			return apierrors.NewForbidden(schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}, "",
				errors.New(`User "jane" cannot list resource "validatingadmissionpolicies" in API group "admissionregistration.k8s.io" at the cluster scope`))
		}
		return c.List(ctx, list, options...)
	}})
	assert.Equal(t, Check{Name: "policies", Status: Unknown, Message: "unknown: needs the right to list validatingadmissionpolicies.admissionregistration.k8s.io at the cluster scope"}, checks["policies"])
	assert.Equal(t, OK, checks["webhooks"].Status)
}
