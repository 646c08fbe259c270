// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// The Certificate of the replicas in config/certmanager, and its Secret. Those of the authority both have the name authorityName.
const (
	servingCertificate = "capt-serving-cert"
	servingSecret      = "capt-webhook-serving-cert"
)

// age is how old a certificate is when a test lets cert-manager renew it.
const age = 20 * time.Second

// TestCertManagerRenewsCertificatesUnderTraffic runs cert-manager's own controllers with the objects of config/default. They issue the
// certificate of the replicas, and inject its authority into all that the API server calls. No request fails during a renewal.
func TestCertManagerRenewsCertificatesUnderTraffic(t *testing.T) {
	f := emptyFleet(newEnvironment(t))
	f.startCertManager()
	f.certificate = f.issued
	f.requireIssuedForTheService()
	f.awaitInjection()
	replicas := f.takeOver(2, nil)
	f.awaitInjection()
	traffic := newTraffic(f)
	traffic.resume(t)

	f.subtest("the certificate is renewed when it is due", func(env *environment) {
		first := f.secret(servingSecret)
		f.renewAt(servingCertificate, age)
		second := f.awaitRenewal(first)
		f.rotate(env.T, traffic, second.Data["ca.crt"], replicas...)
		f.awaitRenewal(second)
		f.renewAt(servingCertificate, 0)
		f.rotate(env.T, traffic, second.Data["ca.crt"], replicas...)
	})
	f.subtest("the authority is renewed with the same key", func(env *environment) {
		before := f.secret(authorityName)
		f.renewAt(authorityName, age)
		after := f.awaitRenewal(before)
		f.renewAt(authorityName, 0)
		require.Equal(env, before.Data[corev1.TLSPrivateKeyKey], after.Data[corev1.TLSPrivateKeyKey])
		traffic.resume(env.T)
		f.rotateAfterDeletion(env.T, traffic, replicas)
	})
	f.subtest("the authority is replaced, because its Secret was deleted", func(env *environment) {
		before := f.secret(authorityName)
		require.NoError(env, f.Delete(env.Context(), before))
		after := f.awaitRenewal(before)
		require.NotEqual(env, before.Data[corev1.TLSPrivateKeyKey], after.Data[corev1.TLSPrivateKeyKey])
		traffic.resume(env.T)
		f.rotateAfterDeletion(env.T, traffic, replicas)
	})
	traffic.rest()
}

// rotateAfterDeletion deletes the Secret of the serving certificate, as docs/runbooks.md advises. The API server trusts the authority of the
// new one before a replica has it.
func (f *fleet) rotateAfterDeletion(t *testing.T, traffic *traffic, replicas []*replica) {
	t.Helper()
	before := f.secret(servingSecret)
	require.NoError(t, f.Delete(t.Context(), before))
	after := f.awaitRenewal(before)
	require.Equal(t, f.secret(authorityName).Data[corev1.TLSCertKey], after.Data["ca.crt"])
	require.NotEqual(t, before.Data["ca.crt"], after.Data["ca.crt"])
	f.awaitInjection()
	traffic.resume(t)
	f.rotate(t, traffic, after.Data["ca.crt"], replicas...)
}

// startCertManager installs cert-manager's CRDs, starts its controllers, and waits until the objects of config/default are ready.
func (f *fleet) startCertManager() {
	f.Helper()
	path, err := binaries.Built(f.Context(), os.Stderr, binaries.CertManager)
	require.NoError(f, err)
	root, err := binaries.Root()
	require.NoError(f, err)
	source, err := binaries.Source(f.Context(), root, binaries.CertManager)
	require.NoError(f, err)
	definitions, err := manifests.Load(filepath.Join(source, "deploy", "crds"))
	require.NoError(f, err)
	require.NoError(f, manifests.Apply(f.Context(), f.API, definitions...))
	require.NoError(f, manifests.WaitEstablished(f.Context(), f.API, definitions))
	f.Cleanup(func() { f.removeCertManager(definitions) })

	f.launch("cert-manager", path)
	objects, err := manifests.Load("../../config/default")
	require.NoError(f, err)
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().Group != "cert-manager.io" })
	require.NotEmpty(f, objects)
	// Server-side apply rejects fields that the CRDs do not have.
	require.NoError(f, manifests.Apply(f.Context(), f.API, objects...))
	output, err := shared.Kubectl(f.Context(), "--namespace="+sandbox.ManagerNamespace, "wait", "--for=condition=Ready", "--timeout=3m", "--all",
		"issuers.cert-manager.io,certificates.cert-manager.io")
	require.NoError(f, err, output)
}

// launch starts a program of cert-manager and waits until it is ready.
func (f *fleet) launch(name, path string) {
	f.Helper()
	port, err := process.FreePort()
	require.NoError(f, err)
	health, log := process.Loopback(port), filepath.Join(f.dir, "logs", name+".log")
	started, err := process.Start(process.Spec{
		Name: name, Path: path, Dir: f.dir, Log: log, Args: []string{"--kubeconfig=" + shared.Kubeconfig(), "--health-addr=" + health},
	})
	require.NoError(f, err)
	f.Cleanup(started.Kill)
	f.record(name, started, log)
	ctx, cancel := context.WithTimeout(f.Context(), fixture.Timeout)
	defer cancel()
	require.NoError(f, process.WaitReady(ctx, http.DefaultClient, "http://"+health+"/readyz", started), process.Tail(log, 10))
}

func (f *fleet) removeCertManager(definitions []*unstructured.Unstructured) {
	for _, definition := range definitions {
		require.NoError(f, client.IgnoreNotFound(f.Delete(context.Background(), definition)))
	}
	for _, name := range []string{authorityName, servingSecret} {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = sandbox.ManagerNamespace, name
		require.NoError(f, client.IgnoreNotFound(f.Delete(context.Background(), secret)))
	}
}

func (f *fleet) secret(name string) *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{}
	require.NoError(f, f.Get(f.Context(), client.ObjectKey{Namespace: sandbox.ManagerNamespace, Name: name}, secret))
	return secret
}

// issued is the serving certificate that cert-manager has issued last.
func (f *fleet) issued() pki.Pair {
	f.Helper()
	secret := f.secret(servingSecret)
	return pki.Pair{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
}

// renewAt makes cert-manager renew a certificate when it has the age; without one, at the time that config/certmanager has.
func (f *fleet) renewAt(name string, age time.Duration) {
	f.Helper()
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("cert-manager.io/v1")
	certificate.SetKind("Certificate")
	require.NoError(f, f.Get(f.Context(), client.ObjectKey{Namespace: sandbox.ManagerNamespace, Name: name}, certificate))
	text, _, err := unstructured.NestedString(certificate.Object, "spec", "duration")
	require.NoError(f, err)
	duration, err := time.ParseDuration(text)
	require.NoError(f, err)
	before := "null"
	if age > 0 {
		before = fmt.Sprintf("%q", duration-age)
	}
	require.NoError(f, f.Patch(f.Context(), certificate, mergePatch(`{"spec":{"renewBefore":`+before+`}}`)))
}

// awaitRenewal waits until a Secret has another certificate, and returns it.
func (f *fleet) awaitRenewal(before *corev1.Secret) *corev1.Secret {
	f.Helper()
	now := &corev1.Secret{}
	eventually(f.T, func() error {
		if err := f.Get(f.Context(), client.ObjectKeyFromObject(before), now); err != nil {
			return err
		}
		if bytes.Equal(now.Data[corev1.TLSCertKey], before.Data[corev1.TLSCertKey]) {
			return errors.New("the certificate in Secret " + before.Name + " is not renewed")
		}
		return nil
	})
	return now
}

// requireIssuedForTheService requires that the certificate has the name of the Service, and what config/certmanager says.
func (f *fleet) requireIssuedForTheService() {
	f.Helper()
	secret := f.secret(servingSecret)
	chain, err := cert.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
	require.NoError(f, err)
	require.Subset(f, chain[0].DNSNames, f.names())
	require.Equal(f, x509.ECDSA, chain[0].PublicKeyAlgorithm)
	require.Equal(f, 90*24*time.Hour, chain[0].NotAfter.Sub(chain[0].NotBefore))
	authorities, err := cert.ParseCertsPEM(secret.Data["ca.crt"])
	require.NoError(f, err)
	require.Greater(f, authorities[0].NotAfter, chain[0].NotAfter)
}

// awaitInjection waits until the API server trusts the authority of the serving certificate wherever it calls CAPT.
func (f *fleet) awaitInjection() {
	f.Helper()
	authority := bytes.TrimSpace(f.secret(servingSecret).Data["ca.crt"])
	eventually(f.T, func() error {
		found := f.bundles()
		require.ElementsMatch(f, slices.Collect(maps.Keys(f.targets)), slices.Collect(maps.Keys(found)))
		for name, bundle := range found {
			if !bytes.Contains(bundle, authority) {
				return fmt.Errorf("the authority is not injected for %s", name)
			}
		}
		return nil
	})
}

// bundles are the authorities that the API server trusts, by the name of the webhook or of the CRD.
func (f *fleet) bundles() map[string][]byte {
	f.Helper()
	bundles := map[string][]byte{}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(f, f.List(f.Context(), definitions))
	for _, definition := range definitions.Items {
		if _, ours := f.targets[definition.Name]; ours {
			bundles[definition.Name] = definition.Spec.Conversion.Webhook.ClientConfig.CABundle
		}
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		configurations := list(admissionv1.SchemeGroupVersion.WithKind(kind))
		require.NoError(f, f.List(f.Context(), configurations))
		for _, configuration := range configurations.Items {
			for _, webhook := range configuration.Object["webhooks"].([]any) {
				if name, found := webhookOf(f.T, webhook); f.targets[name].Service != nil {
					bundles[name] = found.CABundle
				}
			}
		}
	}
	return bundles
}
