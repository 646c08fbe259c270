// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig generates the kubeconfigs of a cluster, and validates their sources.
package kubeconfig

import (
	"errors"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ForExec returns a kubeconfig that gets its credentials from "aws eks get-token". ca is the certificate authority of EKS, base64 of PEM.
func ForExec(clusterName, region, endpoint, ca string) ([]byte, error) {
	if !clusterNamePattern.MatchString(clusterName) || !regionPattern.MatchString(region) {
		return nil, errors.New("the name or the region of the EKS cluster is invalid; correct output cluster_name of the module, or spec.region") // The AWS CLI could, for example, read a file.
	}
	return encode(clusterName, endpoint, ca, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1beta1",
		Command:         "aws",
		Args:            []string{"eks", "get-token", "--cluster-name", clusterName, "--region", region, "--output", "json"},
		InstallHint:     "Install version 2 of the AWS CLI, and configure credentials with access to the EKS cluster.",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}})
}

// ForToken returns a kubeconfig with a bearer token. ca is the certificate authority of EKS. The result is deterministic.
func ForToken(clusterName, endpoint, ca, token string) ([]byte, error) {
	return encode(clusterName, endpoint, ca, &clientcmdapi.AuthInfo{Token: token})
}

func encode(clusterName, endpoint, ca string, user *clientcmdapi.AuthInfo) ([]byte, error) {
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
