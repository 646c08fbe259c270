// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Errors of Check for kubeconfigs that are valid but cannot be published.
var (
	// ErrUnsafe: the kubeconfig runs a command or reads files on the machine that uses it. Cluster API and this manager use it in their
	// Pods, so it is never published.
	ErrUnsafe = errors.New("a published kubeconfig must not run commands or read local files")
	// ErrGetToken: the kubeconfig runs only "aws eks get-token", as ForExec writes it. Users can use it; Cluster API has neither that
	// command nor AWS credentials.
	ErrGetToken = errors.New("the kubeconfig runs \"aws eks get-token\", but Cluster API has no AWS CLI")
	// ErrShortLived: the kubeconfig has an EKS token, for example of the Terraform data source aws_eks_cluster_auth. It expires 15 minutes
	// after Terraform ran, see Expiry.
	ErrShortLived = errors.New("the kubeconfig has an EKS token, which expires 15 minutes after Terraform created it")
)

// plainValue matches values that the AWS CLI does not interpret as an option, a file or an address.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// Check validates a kubeconfig for Cluster API: it must parse, its current context must name a cluster with a server, and it must be
// self-contained. Any author of a Terraform module can provide it. The error never quotes the data; it is ErrUnsafe, ErrGetToken or
// ErrShortLived where one of these applies.
func Check(data []byte) error {
	config, err := clientcmd.Load(data)
	if err != nil {
		return errors.New("the value is not a kubeconfig")
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return errors.New("current-context of the kubeconfig does not exist")
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return errors.New("the current context of the kubeconfig has no cluster with a server")
	}
	if err := selfContained(config); err != nil {
		return err
	}
	user := config.AuthInfos[context.AuthInfo]
	switch {
	case user == nil:
		return nil
	case user.Exec != nil:
		return ErrGetToken
	}
	if _, ok := parseToken(user.Token); ok {
		return ErrShortLived
	}
	return nil
}

// selfContained checks all clusters and users, because another context can use them.
func selfContained(config *clientcmdapi.Config) error {
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return unsafeError("certificate-authority: use certificate-authority-data")
		}
	}
	for _, user := range config.AuthInfos {
		if problem := externalReference(user); problem != "" {
			return unsafeError(problem)
		}
	}
	return nil
}

func unsafeError(field string) error { return fmt.Errorf("%w: it has %s", ErrUnsafe, field) }

// externalReference names the field of a user that refers to something outside of the kubeconfig; empty when there is none.
func externalReference(user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil && !isGetToken(user.Exec):
		return "exec: use a token or a client certificate"
	case user.AuthProvider != nil:
		return "auth-provider: use a token or a client certificate"
	case user.TokenFile != "":
		return "tokenFile: use token"
	case user.ClientCertificate != "":
		return "client-certificate: use client-certificate-data"
	case user.ClientKey != "":
		return "client-key: use client-key-data"
	}
	return ""
}

// isGetToken reports whether a command is "aws eks get-token" with only the options of ForExec, in any order. The environment must be
// empty, because it determines which program runs and what it loads. Other options could, for example, assume a role with the
// credentials of the user.
func isGetToken(exec *clientcmdapi.ExecConfig) bool {
	if exec.Command != "aws" || len(exec.Env) > 0 {
		return false
	}
	words := []string{}
	for i := 0; i < len(exec.Args); i++ {
		switch arg := exec.Args[i]; arg {
		case "--cluster-name", "--region", "--output":
			i++
			if i == len(exec.Args) || !plainValue.MatchString(exec.Args[i]) {
				return false
			}
		default:
			words = append(words, arg)
		}
	}
	return slices.Equal(words, []string{"eks", "get-token"})
}
