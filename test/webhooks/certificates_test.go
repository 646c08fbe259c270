// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/cluster-api/util/certs"

	"github.com/capt-provider/capt/test/sandbox/pki"
)

// authority signs the certificates of the webhooks. Unlike those of the sandbox, it can be renewed.
type authority struct {
	key         crypto.Signer
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	return (&authority{key: newKey(t)}).renewed(t)
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// renewed is the authority with the same key and another certificate, as config/certmanager has it.
func (a *authority) renewed(t *testing.T) *authority {
	t.Helper()
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "capt-ca"}, a.key)
	require.NoError(t, err)
	return &authority{a.key, certificate}
}

func (a *authority) bundle() []byte { return certs.EncodeCertPEM(a.certificate) }

// sign makes a serving certificate with a new key.
func (a *authority) sign(t *testing.T, names ...string) pki.Pair {
	t.Helper()
	config := certs.Config{
		CommonName: names[0],
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		AltNames:   certs.AltNames{DNSNames: names},
	}
	key := newKey(t)
	certificate, err := config.NewSignedCert(key.(*ecdsa.PrivateKey), a.certificate, a.key)
	require.NoError(t, err)
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)
	return pki.Pair{Cert: certs.EncodeCertPEM(certificate), Key: encoded}
}

// volume is a Secret mounted into a Pod.
type volume struct{ dir string }

func newVolume(t *testing.T, dir string) *volume {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return &volume{dir}
}

// write replaces the content as the kubelet does it: the files are links into a folder which is exchanged in one step,
// and the old folder is removed.
func (v *volume) write(t *testing.T, pair pki.Pair) {
	t.Helper()
	next, err := os.MkdirTemp(v.dir, "..")
	require.NoError(t, err)
	require.NoError(t, pair.Write(next, "tls"))
	current, link := filepath.Join(v.dir, "..data"), filepath.Join(v.dir, "..data_tmp")
	old, err := os.Readlink(current)
	first := errors.Is(err, os.ErrNotExist)
	require.NoError(t, os.Symlink(filepath.Base(next), link))
	require.NoError(t, os.Rename(link, current))
	if !first {
		require.NoError(t, os.RemoveAll(filepath.Join(v.dir, old)))
		return
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name)))
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
		connection, err := tls.Dial("tcp", r.webhook, config)
		if err != nil {
			return err
		}
		if got := connection.ConnectionState().PeerCertificates[0]; got.SerialNumber.Cmp(want.SerialNumber) != 0 {
			err = fmt.Errorf("it still serves certificate %s, not %s", got.SerialNumber, want.SerialNumber)
		}
		return errors.Join(err, connection.Close())
	})
}
