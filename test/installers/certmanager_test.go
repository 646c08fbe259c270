// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"context"
	"encoding/base64"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// injection is the annotation that names the Certificate whose authority cert-manager injects.
const injection = "cert-manager.io/inject-ca-from"

func certificateKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
}

// issue creates the Secrets of serving certificates.
func (n *node) issue(ctx context.Context) error {
	certificates := &unstructured.UnstructuredList{}
	certificates.SetGroupVersionKind(certificateKind())
	if err := n.API.List(ctx, certificates); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	for _, certificate := range certificates.Items {
		names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
		secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
		if len(names) == 0 {
			continue // A certificate authority.
		}
		if err := n.API.Get(ctx, client.ObjectKey{Namespace: certificate.GetNamespace(), Name: secret}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		if err := n.createCertificate(ctx, certificate.GetNamespace(), secret, names...); err != nil {
			return err
		}
	}
	return nil
}

// createCertificate creates a Secret with a certificate for names.
func (n *node) createCertificate(ctx context.Context, namespace, secret string, names ...string) error {
	pair, err := n.authority.Server(names[0], names[1:]...)
	if err != nil {
		return err
	}
	return n.API.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key},
	})
}

// webhooks are the kinds that call webhooks.
func webhooks() []schema.GroupVersionKind {
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	return []schema.GroupVersionKind{
		admission.WithKind("MutatingWebhookConfiguration"), admission.WithKind("ValidatingWebhookConfiguration"),
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	}
}

// inject sets the CA bundle of webhooks whose annotation names a Certificate that exists. It reads only the metadata of objects that it has seen
// before: definitions are large.
func (n *node) inject(ctx context.Context) error {
	for _, kind := range webhooks() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := n.API.List(ctx, list); err != nil {
			return err
		}
		for _, found := range list.Items {
			namespace, name, ok := strings.Cut(found.Annotations[injection], "/")
			if !ok || n.injected[found.UID] == found.ResourceVersion {
				continue
			}
			certificate := &unstructured.Unstructured{}
			certificate.SetGroupVersionKind(certificateKind())
			if err := n.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, certificate); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return err
			}
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			if err := n.API.Get(ctx, client.ObjectKey{Name: found.Name}, object); err != nil {
				return client.IgnoreNotFound(err)
			}
			for _, call := range calls(object) {
				call["caBundle"] = base64.StdEncoding.EncodeToString(n.authority.Bundle())
			}
			if err := n.API.Update(ctx, object, client.FieldOwner("cert-manager-cainjector")); err != nil {
				return err
			}
			n.injected[found.UID] = object.GetResourceVersion()
		}
	}
	return nil
}

// calls returns what an object configures for calls of webhooks.
func calls(object *unstructured.Unstructured) (all []map[string]any) {
	if conversion, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook", "clientConfig"); found {
		all = append(all, conversion.(map[string]any))
	}
	webhooks, _ := object.Object["webhooks"].([]any)
	for _, webhook := range webhooks {
		all = append(all, webhook.(map[string]any)["clientConfig"].(map[string]any))
	}
	return all
}
