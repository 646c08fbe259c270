// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki creates the certificates of one sandbox: a certificate authority, serving certificates for loopback, and
// client certificates for the users of the components.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/cluster-api/util/certs"
)

// Authority is a certificate authority. It uses elliptic-curve keys: generating an RSA key for each component would take
// longer than starting the component.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Pair is a certificate and its key, in PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// NewAuthority creates a certificate authority.
func NewAuthority(name string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return (&Authority{key: key}).Renewed(name)
}

// Renewed returns an authority with the same key and another certificate.
func (a *Authority) Renewed(name string) (*Authority, error) {
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, a.key)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: a.key}, nil
}

// Bundle is the authority's own certificate in PEM.
func (a *Authority) Bundle() []byte { return certs.EncodeCertPEM(a.cert) }

// Client creates a client certificate. The API server uses the common name as the user and the organizations as the groups,
// so a component can have the user name of its ServiceAccount in a cluster.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	return a.sign(&certs.Config{
		CommonName:   user,
		Organization: groups,
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server creates a serving certificate for loopback, with a name and more of them.
func (a *Authority) Server(name string, more ...string) (Pair, error) {
	return a.sign(&certs.Config{
		CommonName: name,
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		AltNames: certs.AltNames{
			DNSNames: append([]string{"localhost", name}, more...),
			IPs:      []net.IP{net.IPv4(127, 0, 0, 1)},
		},
	})
}

func (a *Authority) sign(config *certs.Config) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	cert, err := config.NewSignedCert(key, a.cert, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing a certificate for %s: %w", config.CommonName, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: certs.EncodeCertPEM(cert), Key: encoded}, nil
}

// Write writes the pair to name.crt and name.key, which only the owner can read.
func (p Pair) Write(dir, name string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o600)
}

// NewSigningKey creates a key pair for service account tokens, in PEM.
func NewSigningKey() (private, public []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if private, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, err
	}
	public, err = certs.EncodePublicKeyPEMFromSigner(key.Public())
	return private, public, err
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// Kubeconfig renders a kubeconfig with embedded certificates, so that it can be copied elsewhere.
func Kubeconfig(cluster, server string, bundle []byte, user string, client Pair) ([]byte, error) {
	context := user + "@" + cluster
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: server, CertificateAuthorityData: bundle}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: client.Cert, ClientKeyData: client.Key}},
		Contexts:       map[string]*clientcmdapi.Context{context: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: context,
	}
	data, err := clientcmd.Write(config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return data, nil
}
