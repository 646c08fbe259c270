/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package kubeconfig makes the kubeconfig Secrets of a cluster, and checks what they are made from.
package kubeconfig

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Check tells whether data is a kubeconfig with which a client could work: one that parses, and whose current context
// names a cluster with a server. The error never quotes the data.
func Check(data []byte) error {
	config, err := clientcmd.Load(data)
	if err != nil {
		return errors.New("it is not a kubeconfig")
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return errors.New("its current-context does not exist")
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return errors.New("its current context names no cluster with a server")
	}
	return nil
}

// ForExec makes a kubeconfig that gets its credentials from "aws eks get-token". ca is the certificate authority as EKS
// gives it: base64 of PEM. It is decoded exactly once and must hold a certificate.
func ForExec(clusterName, region, endpoint, ca string) ([]byte, error) {
	bundle, err := certificates(ca)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: bundle}
	config.AuthInfos[clusterName] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1beta1",
		Command:         "aws",
		Args:            []string{"eks", "get-token", "--cluster-name", clusterName, "--region", region, "--output", "json"},
		InstallHint:     "Install the AWS CLI, version 2, and give it credentials that the EKS cluster knows.",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: clusterName}
	config.CurrentContext = clusterName
	return clientcmd.Write(*config)
}

func certificates(ca string) ([]byte, error) {
	bundle, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		return nil, errors.New("the certificate authority is not base64")
	}
	block, _ := pem.Decode(bundle)
	if block == nil {
		return nil, errors.New("the certificate authority is not base64 of PEM, as EKS gives it")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("the certificate authority holds no certificate: %w", err)
	}
	return bundle, nil
}
