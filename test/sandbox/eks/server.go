// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package eks stands in for Amazon EKS: each cluster is a second, real kube-apiserver on loopback, with its own
// certificate authority and its own keys in the sandbox's etcd. A Terraform module starts and stops it through the
// sandbox command, so the server is detached from whoever started it and known only by what lies in its folder.
package eks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Server is one cluster. The files in its folder are its interface to Terraform: endpoint, ca.crt and kubeconfig.
type Server struct {
	// Dir is the sandbox's folder.
	Dir string
	// Name is the name of the cluster.
	Name string
}

// namePattern is the rule of EKS for cluster names. It also keeps the name from being a path.
var namePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// Validate checks the name.
func (s Server) Validate() error {
	if !namePattern.MatchString(s.Name) {
		return fmt.Errorf("%q is not a cluster name: want 1 to 100 letters, digits, '-' and '_', beginning with a letter or digit", s.Name)
	}
	return nil
}

func folder(dir string) string { return filepath.Join(dir, "eks") }

// Folder is where the server's files are.
func (s Server) Folder() string { return filepath.Join(folder(s.Dir), s.Name) }

// Log is the server's log.
func (s Server) Log() string { return s.file("kube-apiserver.log") }

// Endpoint is the URL of the cluster, or empty when there is none.
func (s Server) Endpoint() string { return s.read("endpoint") }

// Version is the minor version the server was started with.
func (s Server) Version() string { return s.read("version") }

func (s Server) file(name string) string { return filepath.Join(s.Folder(), name) }

func (s Server) read(name string) string {
	data, err := os.ReadFile(s.file(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (s Server) etcdPrefix() string { return "/eks/" + s.Name }

// port returns the port the server had before, because an endpoint never changes, or a free one.
func (s Server) port() (int, error) {
	if text := s.read("port"); text != "" {
		return strconv.Atoi(text)
	}
	return process.FreePort()
}

// Process returns the identity of the server's process; the zero ID, which is not alive, when none is recorded.
func (s Server) Process() (process.ID, error) {
	data, err := os.ReadFile(s.file("pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return process.ID{}, nil
	}
	if err != nil {
		return process.ID{}, err
	}
	id := process.ID{}
	if err := json.Unmarshal(data, &id); err != nil {
		return process.ID{}, fmt.Errorf("reading %s: %w", s.file("pid"), err)
	}
	return id, nil
}

func (s Server) record(id process.ID) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return state.WriteFile(s.file("pid"), data)
}

// List returns the clusters of a sandbox.
func List(dir string) ([]Server, error) {
	entries, err := os.ReadDir(folder(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var servers []Server
	for _, entry := range entries {
		if entry.IsDir() {
			servers = append(servers, Server{Dir: dir, Name: entry.Name()})
		}
	}
	return servers, nil
}
