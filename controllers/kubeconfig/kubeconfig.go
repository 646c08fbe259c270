// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig makes the kubeconfig Secrets of a cluster, and checks what they are made from.
package kubeconfig

import (
	"errors"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ForExec makes a kubeconfig that gets its credentials from "aws eks get-token". ca is the certificate authority as EKS
// gives it: base64 of PEM. It is decoded exactly once and must hold certificates.
func ForExec(clusterName, region, endpoint, ca string) ([]byte, error) {
	if !clusterForm.MatchString(clusterName) || !regionForm.MatchString(region) {
		return nil, errors.New("the name or the region of the cluster is none that EKS allows") // The AWS CLI would read a file, say.
	}
	return write(clusterName, endpoint, ca, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1beta1",
		Command:         "aws",
		Args:            []string{"eks", "get-token", "--cluster-name", clusterName, "--region", region, "--output", "json"},
		InstallHint:     "Install the AWS CLI, version 2, and give it credentials that the EKS cluster knows.",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}})
}

// ForToken makes a kubeconfig with a bearer token, such as Tokens give. ca is the certificate authority as EKS gives it.
// The same arguments make the same bytes.
func ForToken(clusterName, endpoint, ca, token string) ([]byte, error) {
	return write(clusterName, endpoint, ca, &clientcmdapi.AuthInfo{Token: token})
}

func write(clusterName, endpoint, ca string, user *clientcmdapi.AuthInfo) ([]byte, error) {
	bundle, err := certificates(ca)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: bundle}
	config.AuthInfos[clusterName] = user
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: clusterName}
	config.CurrentContext = clusterName
	return clientcmd.Write(*config)
}
