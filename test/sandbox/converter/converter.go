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

// Package converter serves CAPT's conversion webhook from the process of a test, as the manager does from its own: for API
// servers without a manager, on which nobody but the test writes.
package converter

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

// Server is one that runs.
type Server struct {
	http.Server
	sandbox *sandbox.Sandbox
	address string
}

// Serve begins to convert for the API server of a sandbox. Close ends it.
func Serve(s *sandbox.Sandbox) (*Server, error) {
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
	server := &Server{
		sandbox: s, address: listener.Addr().String(),
		Server: http.Server{
			Handler: mux, ReadHeaderTimeout: time.Minute,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return server, nil
}

// Definitions are those in a folder, as users install them, except that this process converts.
func (s *Server) Definitions(folder string) ([]*unstructured.Unstructured, error) {
	definitions, err := manifests.Load(folder)
	if err != nil {
		return nil, err
	}
	server := manifests.WebhookServer{Address: s.address, Bundle: s.sandbox.Config().CAData}
	return definitions, server.Point(definitions)
}
