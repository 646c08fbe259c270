// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs kube-apiservers on loopback: the sandbox's own, and those of simulated EKS clusters.
package apiserver

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// Config configures one API server.
type Config struct {
	Port         int
	EtcdEndpoint string
	// EtcdPrefix separates the keys of several API servers in one etcd.
	EtcdPrefix string
	// Dir holds the certificates (WritePKI) and, on demand, the audit policy and log.
	Dir string
	// EmulatedVersion, for example 1.35, makes the server behave as that version. Empty means its own.
	EmulatedVersion string
	// Audit enables the audit log. AuditLog returns its path.
	Audit bool
	// Kubelet makes the server read logs from a kubelet with a certificate of the authority. The server's own client certificate is kubelet-client.
	Kubelet bool
	// Extra arguments come last and override others.
	Extra []string
}

// WritePKI writes the server's certificates: its serving certificate, the authority that signs client certificates, and
// the key pair for service account tokens.
func WritePKI(dir string, authority *pki.Authority) error {
	serving, err := authority.Server("kube-apiserver")
	if err != nil {
		return err
	}
	if err := serving.Write(dir, "apiserver"); err != nil {
		return err
	}
	private, public, err := pki.NewSigningKey()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": authority.Bundle(), "sa.key": private, "sa.pub": public} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// WriteAuditPolicy writes the audit policy, or the default one if none is given.
func WriteAuditPolicy(dir string, policy []byte) error {
	if len(policy) == 0 {
		policy = []byte(audit.Policy)
	}
	return os.WriteFile(filepath.Join(dir, "audit-policy.yaml"), policy, 0o600)
}

// AuditLog is the path of the audit log.
func (c Config) AuditLog() string { return filepath.Join(c.Dir, "audit.log") }

// URL is the address of the server.
func (c Config) URL() string { return "https://" + process.Loopback(c.Port) }

// Args returns the arguments of the server.
func (c Config) Args() []string {
	file := func(name string) string { return filepath.Join(c.Dir, name) }
	args := []string{
		"--etcd-servers=" + c.EtcdEndpoint,
		"--etcd-prefix=" + c.EtcdPrefix,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.Port),
		// Without nodes there is no Service network, so no endpoints must be reconciled.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + file("apiserver.crt"),
		"--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file("sa.pub"),
		"--service-account-signing-key-file=" + file("sa.key"),
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--profiling=false",
	}
	if c.EmulatedVersion != "" {
		args = append(args, "--emulated-version="+c.EmulatedVersion)
	}
	if c.Audit {
		args = append(args,
			"--audit-policy-file="+file("audit-policy.yaml"),
			"--audit-log-path="+c.AuditLog(),
			"--audit-log-mode=blocking",
			// One file: tests count lines, and rotation would hide some.
			"--audit-log-maxsize=4096")
	}
	if c.Kubelet {
		args = append(args,
			"--kubelet-certificate-authority="+file("ca.crt"),
			"--kubelet-client-certificate="+file("kubelet-client.crt"),
			"--kubelet-client-key="+file("kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP")
	}
	return append(args, c.Extra...)
}
