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

// The kinds of kubeconfig that parse, and that Check refuses all the same.
var (
	// ErrUnsafe is a kubeconfig that makes whoever uses it run a command or read files of their own. Cluster API and this
	// manager use it in their own Pods, so it is never published.
	ErrUnsafe = errors.New("a kubeconfig that is published can not run commands or read files where it is used")
	// ErrGetToken is a kubeconfig that runs "aws eks get-token" as ForExec writes it, and nothing else. People can use it;
	// Cluster API has neither that command nor credentials of AWS.
	ErrGetToken = errors.New("it runs \"aws eks get-token\" for its credentials, and Cluster API has no such command")
	// ErrShortLived is a kubeconfig with a token of EKS, as the Terraform data source aws_eks_cluster_auth gives it. It ends
	// 15 minutes after Terraform ran, which Expiry tells.
	ErrShortLived = errors.New("it holds a token of EKS, which ends 15 minutes after Terraform made it, and which only Terraform would renew")
)

// plain is a value that the AWS CLI takes for what it is: not an option, and not a file or an address to read it from.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// Check tells whether data is a kubeconfig with which Cluster API can work as it is: one that parses, whose current
// context names a cluster with a server, and that needs nothing but itself. It may come from anybody who can write a
// Terraform module. The error never quotes the data; it is ErrUnsafe, ErrGetToken or ErrShortLived where one of these fits.
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
	if _, ok := readToken(user.Token); ok {
		return ErrShortLived
	}
	return nil
}

// selfContained looks at all clusters and users, since it takes no more than another current context to use them.
func selfContained(config *clientcmdapi.Config) error {
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return refuse("certificate-authority; use certificate-authority-data")
		}
	}
	for _, user := range config.AuthInfos {
		if problem := reachOf(user); problem != "" {
			return refuse(problem)
		}
	}
	return nil
}

func refuse(field string) error { return fmt.Errorf("%w: it has %s", ErrUnsafe, field) }

// reachOf names the field with which a user reaches beyond the kubeconfig; empty when there is none.
func reachOf(user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil && !isGetToken(user.Exec):
		return "exec; use a token or a client certificate, or leave the kubeconfig out of the outputs to have one made"
	case user.AuthProvider != nil:
		return "auth-provider"
	case user.TokenFile != "":
		return "tokenFile; use token"
	case user.ClientCertificate != "":
		return "client-certificate; use client-certificate-data"
	case user.ClientKey != "":
		return "client-key; use client-key-data"
	}
	return ""
}

// isGetToken tells whether a command is "aws eks get-token" with no more than ForExec would give it, in any order. The
// environment must be empty, since it decides which program "aws" is and what it loads, and so must every other option
// be absent: a role, say, would be assumed with the credentials of whoever runs the command.
func isGetToken(exec *clientcmdapi.ExecConfig) bool {
	if exec.Command != "aws" || len(exec.Env) > 0 {
		return false
	}
	words := []string{}
	for i := 0; i < len(exec.Args); i++ {
		switch arg := exec.Args[i]; arg {
		case "--cluster-name", "--region", "--output":
			i++
			if i == len(exec.Args) || !plain.MatchString(exec.Args[i]) {
				return false
			}
		default:
			words = append(words, arg)
		}
	}
	return slices.Equal(words, []string{"eks", "get-token"})
}
