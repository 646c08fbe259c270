// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrInsecure means that a kubeconfig does not verify the certificate of the API server.
var ErrInsecure = errors.New("the kubeconfig does not verify the certificate of the API server, so CAPT does not send its credentials")

// ClientConfig returns the configuration of a client with the address and the credentials of a kubeconfig, and the address. The error never quotes the
// data. It is ErrGetToken or ErrUnsafe if the manager would have to run a command or to read a file, and ErrInsecure.
func ClientConfig(data []byte) (*rest.Config, *url.URL, error) {
	switch err := Check(data); {
	case err == nil, errors.Is(err, ErrShortLived):
	case errors.Is(err, ErrGetToken), errors.Is(err, ErrUnsafe):
		return nil, nil, fmt.Errorf("CAPT does not run commands or read files that a kubeconfig names: %w", err)
	default:
		return nil, nil, err
	}
	return clientConfig(data)
}

// AnonymousConfig is ClientConfig without credentials, also for a kubeconfig with which only users can get some (ErrGetToken).
func AnonymousConfig(data []byte) (*rest.Config, *url.URL, error) {
	if err := Check(data); err != nil && !errors.Is(err, ErrGetToken) && !errors.Is(err, ErrShortLived) {
		return nil, nil, err
	}
	config, address, err := clientConfig(data)
	if err != nil {
		return nil, nil, err
	}
	return rest.AnonymousClientConfig(config), address, nil
}

func clientConfig(data []byte) (*rest.Config, *url.URL, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, nil, errors.New("the value is not a kubeconfig") // The error can quote the value.
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, errors.New("the address in the kubeconfig is invalid")
	}
	if config.Insecure || address.Scheme != "https" {
		return nil, nil, ErrInsecure
	}
	return config, address, nil
}
