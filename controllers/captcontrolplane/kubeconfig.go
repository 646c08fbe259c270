// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"errors"
	"fmt"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// contractKubeconfig is the one that Cluster API works with, from the source that spec names.
func (f *Facts) contractKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) ([]byte, string, error) {
	switch controlPlane.Spec.Kubeconfig.Source {
	case controlplanev1.KubeconfigOutput:
		return f.outputKubeconfig()
	case controlplanev1.KubeconfigExec:
		return f.execKubeconfig(controlPlane)
	case controlplanev1.KubeconfigToken:
		return f.tokenKubeconfig(controlPlane)
	case controlplanev1.KubeconfigAuto:
	}
	return f.anyKubeconfig(controlPlane)
}

// anyKubeconfig is the best that there is: what Terraform made, if it lasts; else one with a token; else what Terraform
// made, while it works; else one with which people get on.
func (f *Facts) anyKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) ([]byte, string, error) {
	output := f.kubeconfigOutput()
	unusable := kubeconfig.Check(output)
	if unusable == nil {
		return output, "", nil
	}
	data, reason, withoutToken := f.tokenKubeconfig(controlPlane)
	if data != nil || f.waitsForToken(withoutToken) {
		return data, reason, withoutToken
	}
	if errors.Is(unusable, kubeconfig.ErrShortLived) {
		if data, _, err := f.outputKubeconfig(); err == nil {
			return data, "", nil
		}
	}
	data, reason, err := f.execKubeconfig(controlPlane)
	if err == nil && f.tokens.kubeconfig != nil {
		err = fmt.Errorf("the kubeconfig runs \"aws eks get-token\", since %w", withoutToken)
	}
	return data, reason, err
}

// outputKubeconfig is the one that Terraform made, if Cluster API or people can use it.
func (f *Facts) outputKubeconfig() ([]byte, string, error) {
	const again = "; set spec.kubeconfig.source to Token or Exec"
	output := f.kubeconfigOutput()
	unusable := kubeconfig.Check(output)
	switch {
	case len(output) == 0:
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("the connection Secret has no output %q; add it to the module, or set spec.kubeconfig.source to Exec", terraform.OutputKubeconfig)
	case errors.Is(unusable, kubeconfig.ErrShortLived):
		ends, _ := kubeconfig.Expiry(output)
		if !f.Now.Before(ends) {
			return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q has ended: %w"+again, terraform.OutputKubeconfig, unusable)
		}
		f.lookAgain(ends.Sub(f.Now))
	case unusable != nil && !errors.Is(unusable, kubeconfig.ErrGetToken):
		return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q can not be used: %w", terraform.OutputKubeconfig, unusable)
	}
	return output, "", nil
}

func (f *Facts) kubeconfigOutput() []byte {
	if f.Connection == nil {
		return nil
	}
	return f.Connection.Data[terraform.OutputKubeconfig]
}

// execKubeconfig is one that asks AWS for credentials wherever it is used.
func (f *Facts) execKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) ([]byte, string, error) {
	server, ca, err := f.server()
	if err != nil {
		return nil, controlplanev1.KubeconfigMissingReason, err
	}
	name := f.output(terraform.OutputClusterName)
	if name == "" {
		name = f.Apply.Apply.Spec.Variables[naming.ClusterVariable]
	}
	data, err := kubeconfig.ForExec(name, f.runningRegion(controlPlane), server, ca)
	if err != nil {
		return nil, controlplanev1.KubeconfigInvalidReason, err
	}
	return data, "", nil
}

// server is the URL of the API server, and its certificate authority as Terraform gave it.
func (f *Facts) server() (address, ca string, err error) {
	endpoint, err := f.endpoint()
	if err != nil || endpoint.IsZero() {
		return "", "", errors.New("the endpoint of the API server is not known")
	}
	if ca = f.output(terraform.OutputClusterCA); ca == "" {
		return "", "", fmt.Errorf("the connection Secret has no output %q; add it to the module", terraform.OutputClusterCA)
	}
	return "https://" + endpoint.String(), ca, nil
}
