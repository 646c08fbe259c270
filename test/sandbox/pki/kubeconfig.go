// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

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
