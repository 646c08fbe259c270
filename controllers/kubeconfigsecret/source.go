// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfigsecret

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// Cluster is the input from which kubeconfigs are created.
type Cluster struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	// Name of the Cluster.
	Name string
	// EKSName is the name of the EKS cluster that CAPT passed to Terraform.
	EKSName string
	// Region of the EKS cluster.
	Region string
	Outputs
}

// Outputs of Terraform.
type Outputs struct {
	// Published are those of status, which are not sensitive.
	Published map[string]string
	// Connection is the connection Secret; nil when it does not exist or was not read.
	Connection *corev1.Secret
}

// Output returns the value of an output; empty when there is none.
func (o Outputs) Output(name string) string {
	if o.Published[name] != "" {
		return o.Published[name]
	}
	return string(o.connectionValue(name))
}

func (o Outputs) connectionValue(name string) []byte {
	if o.Connection == nil {
		return nil
	}
	return o.Connection.Data[name]
}

// Endpoint of the API server; zero when there is no output, and an error when it cannot be parsed.
func (o Outputs) Endpoint() (clusterv1.APIEndpoint, error) {
	text := o.Output(terraform.OutputClusterEndpoint)
	if text == "" {
		return clusterv1.APIEndpoint{}, nil
	}
	host, port, err := terraform.ParseEndpoint(text)
	return clusterv1.APIEndpoint{Host: host, Port: port}, err
}

// serverAndCA is the URL of the API server, and its certificate authority as Terraform returned it.
func (o Outputs) serverAndCA() (address, ca string, err error) {
	endpoint, err := o.Endpoint()
	if err != nil || endpoint.IsZero() {
		return "", "", errors.New("the endpoint of the API server is unknown; see condition EndpointAvailable")
	}
	if ca = o.Output(terraform.OutputClusterCA); ca == "" {
		if o.Connection == nil {
			return "", "", fmt.Errorf("the connection Secret with output %q does not exist; "+writtenAgain, terraform.OutputClusterCA)
		}
		return "", "", fmt.Errorf("the connection Secret has no output %q; add it to the module", terraform.OutputClusterCA)
	}
	return "https://" + endpoint.String(), ca, nil
}

// writtenAgain is the advice about a connection Secret that was deleted: no module needs a change.
const writtenAgain = "provider-terraform writes it when it next observes the Workspace, within ten minutes by default. If it does not, check provider-terraform"

// sources of kubeconfigs. Each returns a kubeconfig, or the reason and the error why there is none.
type sources struct {
	Plan
	tokens kubeconfig.Tokens
	// published is the kubeconfig of the contract as it is.
	published []byte
	// requeueAfter is when to determine the kubeconfigs again; zero is never.
	requeueAfter time.Duration
}

// requeueWithin asks for another reconcile after a time at the latest.
func (s *sources) requeueWithin(after time.Duration) {
	if s.requeueAfter == 0 || after < s.requeueAfter {
		s.requeueAfter = after
	}
}

// contractKubeconfig is the kubeconfig of Cluster API's contract, from the source of spec.
func (s *sources) contractKubeconfig(ctx context.Context) ([]byte, string, error) {
	switch s.Cluster.ControlPlane.Spec.Kubeconfig.Source {
	case controlplanev1.KubeconfigOutput:
		return s.outputKubeconfig()
	case controlplanev1.KubeconfigExec:
		return s.execKubeconfig()
	case controlplanev1.KubeconfigToken:
		return s.tokenKubeconfig(ctx)
	case controlplanev1.KubeconfigAuto:
	}
	return s.autoKubeconfig(ctx)
}

// autoKubeconfig prefers Terraform's kubeconfig if its credentials do not expire, then one with a token, then Terraform's until it expires, then
// one for users.
func (s *sources) autoKubeconfig(ctx context.Context) ([]byte, string, error) {
	output := s.Cluster.connectionValue(terraform.OutputKubeconfig)
	unusable := kubeconfig.Check(output)
	if unusable == nil {
		return output, "", nil
	}
	data, reason, noToken := s.tokenKubeconfig(ctx)
	if data != nil || s.waitsForToken(noToken) {
		return data, reason, noToken
	}
	if errors.Is(unusable, kubeconfig.ErrShortLived) {
		if data, _, err := s.outputKubeconfig(); err == nil {
			return data, "", nil
		}
	}
	data, reason, err := s.execKubeconfig()
	if err == nil && s.tokens != nil {
		err = fmt.Errorf("the kubeconfig runs \"aws eks get-token\", because %w", noToken)
	}
	return data, reason, err
}

// outputKubeconfig is the kubeconfig of Terraform, if Cluster API or users can use it.
func (s *sources) outputKubeconfig() ([]byte, string, error) {
	const otherSource = "set spec.kubeconfig.source to Token or Exec"
	output := s.Cluster.connectionValue(terraform.OutputKubeconfig)
	unusable := kubeconfig.Check(output)
	switch {
	case s.Cluster.Connection == nil:
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("the connection Secret with output %q does not exist; "+writtenAgain, terraform.OutputKubeconfig)
	case len(output) == 0:
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("the connection Secret has no output %q; add it to the module, or set spec.kubeconfig.source to Exec", terraform.OutputKubeconfig)
	case errors.Is(unusable, kubeconfig.ErrShortLived):
		expiry, _ := kubeconfig.Expiry(output)
		if !s.Now.Before(expiry) {
			return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q has expired: %w; "+otherSource, terraform.OutputKubeconfig, unusable)
		}
		s.requeueWithin(expiry.Sub(s.Now))
	case unusable != nil && !errors.Is(unusable, kubeconfig.ErrGetToken):
		return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q cannot be used: %w; correct it in the module, or "+otherSource, terraform.OutputKubeconfig, unusable)
	}
	return output, "", nil
}

// execKubeconfig is a kubeconfig that requests credentials from AWS wherever it is used.
func (s *sources) execKubeconfig() ([]byte, string, error) {
	server, ca, err := s.Cluster.serverAndCA()
	if err != nil {
		return nil, controlplanev1.KubeconfigMissingReason, err
	}
	name := s.Cluster.Output(terraform.OutputClusterName)
	if name == "" {
		name = s.Cluster.EKSName
	}
	data, err := kubeconfig.ForExec(name, s.Cluster.Region, server, ca)
	if err != nil {
		return nil, controlplanev1.KubeconfigInvalidReason, err
	}
	return data, "", nil
}
