// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controllerconversion "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// converter serves CAPT's conversion webhook in the process of a test, for an API server without a manager.
type converter struct {
	http.Server
	sandbox *sandbox.Sandbox
	address string
}

// serveConversion starts a conversion webhook for the API server of a sandbox. Close stops it.
func serveConversion(s *sandbox.Sandbox) (*converter, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(s.WebhookCertDir(), "tls.crt"), filepath.Join(s.WebhookCertDir(), "tls.key"))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/convert", controllerconversion.NewWebhookHandler(conversion.NewRegistry()))
	server := &converter{
		sandbox: s, address: listener.Addr().String(),
		Server: http.Server{
			Handler: mux, ReadHeaderTimeout: time.Minute,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return server, nil
}

// definitions returns the CRDs in a directory, with this server as their conversion webhook.
func (s *converter) definitions(folder string) ([]*unstructured.Unstructured, error) {
	definitions, err := manifests.Load(folder)
	if err != nil {
		return nil, err
	}
	server := manifests.WebhookServer{Address: s.address, Bundle: s.sandbox.Config().CAData}
	return definitions, server.Point(definitions)
}
