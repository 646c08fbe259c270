// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// TestReplicasAreReplacedUnderTraffic is what a Deployment does for an upgrade. The leader is the first to go.
func TestReplicasAreReplacedUnderTraffic(t *testing.T) {
	f, replicas := newFleet(newEnvironment(t), 2)
	awaitLeader(t, replicas[0])
	traffic := newTraffic(f)
	traffic.resume(t)
	var next []*replica
	for _, old := range replicas {
		next = append(next, f.start())
		traffic.resume(t)
		f.terminate(old)
		traffic.resume(t)
	}
	traffic.rest()
	awaitLeader(t, next...)
}

// TestReplicasStartWithoutAConversionWebhook begins with no replica, an API server that has just started, and an object that is stored in
// v1beta1. The first replica cannot fill its caches before the object is converted, and the API server calls ready replicas only.
func TestReplicasStartWithoutAConversionWebhook(t *testing.T) {
	env := newEnvironment(t)
	k := kinds()[0]
	env.store(k, k.legacy.Version)
	old := env.createStored(k, k.legacy.Version)
	env.store(k, k.current.Version)
	f, _ := newFleet(env, 0)
	require.NoError(t, shared.Restart(t.Context(), sandbox.APIServer))
	err := env.Get(t.Context(), client.ObjectKeyFromObject(old), empty(k.current))
	require.True(t, failsToConvert(err, k), "%v", err)
	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}}
	require.NoError(t, env.Create(t.Context(), plain))
	require.NoError(t, env.Delete(t.Context(), plain), "a namespace without objects of CAPT does not depend on it")

	f.start()
	eventually(t, func() error {
		return env.Create(t.Context(), k.object(k.current, env.Namespace, "new"), client.DryRunAll)
	})
	require.NoError(t, env.Get(t.Context(), client.ObjectKeyFromObject(old), empty(k.current)))
	// A moment after its start, the API server does not know the kind of the parameters of a policy, and refuses the deletion.
	eventually(t, func() error { return env.Delete(t.Context(), old) })
}

// store makes the API server store a kind in another version.
func (env *environment) store(k kind, version string) {
	env.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Name: env.resource(k) + "." + k.current.Group}, definition))
	for i := range definition.Spec.Versions {
		definition.Spec.Versions[i].Storage = definition.Spec.Versions[i].Name == version
	}
	require.NoError(env, env.Update(env.Context(), definition))
}

// createStored creates objects until the API server stores one in the version.
func (env *environment) createStored(k kind, version string) *unstructured.Unstructured {
	env.Helper()
	var object *unstructured.Unstructured
	attempt := 0
	eventually(env.T, func() error {
		attempt++
		object = k.object(k.legacy, env.Namespace, fmt.Sprintf("old-%d", attempt))
		require.NoError(env, env.Create(env.Context(), object))
		if stored := env.stored(k, object.GetName()); stored != version {
			return fmt.Errorf("it is stored in %s", stored)
		}
		return nil
	})
	return object
}

// stored is the version in which etcd holds an object.
func (env *environment) stored(k kind, name string) string {
	env.Helper()
	recorded, err := process.Load(shared.Dir())
	require.NoError(env, err)
	key := "/registry/" + k.current.Group + "/" + env.resource(k) + "/" + env.Namespace + "/" + name
	query, err := json.Marshal(map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key))})
	require.NoError(env, err)
	response, err := http.Post(recorded.EtcdEndpoint+"/v3/kv/range", "application/json", bytes.NewReader(query))
	require.NoError(env, err)
	defer func() { _ = response.Body.Close() }()
	var found struct{ KVs []struct{ Value []byte } }
	require.NoError(env, json.NewDecoder(response.Body).Decode(&found))
	require.Len(env, found.KVs, 1, key)
	content := &unstructured.Unstructured{}
	require.NoError(env, content.UnmarshalJSON(found.KVs[0].Value))
	return content.GroupVersionKind().Version
}

func TestCertificateRotationUnderTraffic(t *testing.T) {
	f, replicas := newFleet(newEnvironment(t), 2)
	traffic := newTraffic(f)
	traffic.resume(t)

	f.subtest("new certificates are served", func(env *environment) {
		for range 2 {
			f.rotate(env.T, traffic, f.authority.Bundle(), replicas...)
		}
	})
	// As cert-manager does it with config/certmanager, which does not wait until all certificates are gone that the authority
	// signed before, and the two sides see the change in any order.
	f.subtest("the authority is renewed with the same key, and the API server is faster", func(env *environment) {
		f.renew()
		env.point(env.Context(), trusting(f.authority.Bundle()))
		traffic.resume(env.T)
		f.rotate(env.T, traffic, f.authority.Bundle(), replicas...)
	})
	f.subtest("the authority is renewed with the same key, and the replicas are faster", func(env *environment) {
		old := f.authority.Bundle()
		f.renew()
		f.rotate(env.T, traffic, old, replicas...)
		env.point(env.Context(), trusting(f.authority.Bundle()))
		traffic.resume(env.T)
	})
	f.subtest("the authority is replaced, and both are trusted in between", func(env *environment) {
		next, err := pki.NewAuthority(authorityName)
		require.NoError(env, err)
		both := bytes.Join([][]byte{f.authority.Bundle(), next.Bundle()}, []byte("\n"))
		env.point(env.Context(), trusting(both))
		traffic.resume(env.T)
		f.authority = next
		f.rotate(env.T, traffic, both, replicas...)
		env.point(env.Context(), trusting(next.Bundle()))
		traffic.resume(env.T)
	})

	traffic.rest()
	for name, balancer := range f.balancers {
		for _, r := range replicas {
			require.Positive(t, balancer.Connections(r.Webhook), "%s gives work to both replicas", name)
		}
	}
}

// rotate gives every replica a new certificate, one after the other, as the kubelets of their nodes update it, and shows
// that it is served.
func (f *fleet) rotate(t *testing.T, traffic *traffic, bundle []byte, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		certificate := f.certificate()
		r.volume.write(t, certificate)
		r.serves(t, bundle, certificate)
		traffic.resume(t)
	}
}

const authorityName = "capt-ca"

// renew replaces the authority by one with the same key and another certificate, as config/certmanager has it.
func (f *fleet) renew() {
	f.Helper()
	var err error
	f.authority, err = f.authority.Renewed(authorityName)
	require.NoError(f, err)
}

// sign makes a serving certificate for the Services with a new key.
func (f *fleet) sign() pki.Pair {
	f.Helper()
	names := f.names()
	pair, err := f.authority.Server(names[0], names...)
	require.NoError(f, err)
	return pair
}

// volume is the directory of a Secret mounted into a Pod.
type volume string

// write replaces the content as the kubelet does it: the files are links into a folder which is exchanged in one step,
// and the old folder is removed.
func (v volume) write(t *testing.T, pair pki.Pair) {
	t.Helper()
	dir := string(v)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	next, err := os.MkdirTemp(dir, "..")
	require.NoError(t, err)
	require.NoError(t, pair.Write(next, "tls"))
	current, link := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_tmp")
	old, err := os.Readlink(current)
	first := errors.Is(err, os.ErrNotExist)
	require.NoError(t, os.Symlink(filepath.Base(next), link))
	require.NoError(t, os.Rename(link, current))
	if !first {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, old)))
		return
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
}

// serves shows that a new connection to a replica is given this certificate, and that one who trusts the bundle believes it.
func (r *replica) serves(t *testing.T, bundle []byte, pair pki.Pair) {
	t.Helper()
	block, _ := pem.Decode(pair.Cert)
	require.NotNil(t, block)
	want, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: want.DNSNames[0], MinVersion: tls.VersionTLS12}
	require.True(t, config.RootCAs.AppendCertsFromPEM(bundle))
	eventually(t, func() error {
		connection, err := tls.Dial("tcp", r.Webhook, config)
		if err != nil {
			return err
		}
		if got := connection.ConnectionState().PeerCertificates[0]; got.SerialNumber.Cmp(want.SerialNumber) != 0 {
			err = fmt.Errorf("it still serves certificate %s, not %s", got.SerialNumber, want.SerialNumber)
		}
		return errors.Join(err, connection.Close())
	})
}
