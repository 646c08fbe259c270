// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package default_test checks that the parts of an installation are consistent: every reference has a target.
package default_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// injection is the annotation that names the Certificate whose authority cert-manager injects.
const injection = "cert-manager.io/inject-ca-from"

// certificate has the fields of cert-manager's Certificate that these tests need.
type certificate struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		IsCA       bool                   `json:"isCA"`
		DNSNames   []string               `json:"dnsNames"`
		SecretName string                 `json:"secretName"`
		IssuerRef  corev1.ObjectReference `json:"issuerRef"`
	} `json:"spec"`
}

// issuer has the fields of cert-manager's Issuer that these tests need.
type issuer struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

// installation returns all objects that config/default installs, in the order of the file.
type installation struct {
	objects []*unstructured.Unstructured
}

func load(t *testing.T) installation {
	t.Helper()
	objects, err := manifests.Load(".")
	require.NoError(t, err)
	return installation{objects}
}

// all decodes the objects of a kind. An unknown field is an error.
func all[T any](t *testing.T, i installation, kind string) []*T {
	t.Helper()
	var decoded []*T
	for _, object := range i.objects {
		if object.GetKind() != kind {
			continue
		}
		into := new(T)
		content := runtime.DeepCopyJSON(object.Object)
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, into, strings.Contains(object.GetAPIVersion(), "k8s.io")))
		decoded = append(decoded, into)
	}
	require.NotEmpty(t, decoded, "no %s", kind)
	return decoded
}

func one[T any](t *testing.T, i installation, kind string) *T {
	t.Helper()
	decoded := all[T](t, i, kind)
	require.Len(t, decoded, 1, kind)
	return decoded[0]
}

// named returns the object of a kind with a name.
func named[T any, P interface {
	*T
	GetName() string
}](t *testing.T, i installation, kind, name string) *T {
	t.Helper()
	for _, found := range all[T](t, i, kind) {
		if P(found).GetName() == name {
			return found
		}
	}
	require.Failf(t, "not installed", "%s %s", kind, name)
	return nil
}

// signed returns the only Certificate that is, or is not, a certificate authority, and the Issuer that signs it.
func signed(t *testing.T, i installation, authority bool) (*certificate, *issuer) {
	t.Helper()
	for _, c := range all[certificate](t, i, "Certificate") {
		if c.Spec.IsCA != authority {
			continue
		}
		for _, by := range all[issuer](t, i, "Issuer") {
			if by.Name == c.Spec.IssuerRef.Name {
				return c, by
			}
		}
	}
	require.Fail(t, "no certificate, or no issuer for it")
	return nil, nil
}

// requireCalled requires that a webhook is called through CAPT's Service, and that the API server trusts CAPT's certificate authority.
func requireCalled(t *testing.T, i installation, annotations map[string]string, namespace, name string) {
	t.Helper()
	service := one[corev1.Service](t, i, "Service")
	assert.Equal(t, service.Namespace, namespace)
	assert.Equal(t, service.Name, name)
	c, _ := signed(t, i, false)
	assert.Equal(t, c.Namespace+"/"+c.Name, annotations[injection])
}
