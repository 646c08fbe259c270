// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox/pki"
)

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
