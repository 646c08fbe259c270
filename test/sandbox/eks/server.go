// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package eks simulates Amazon EKS: each cluster is a second kube-apiserver on loopback, with its own certificate authority
// and its own keys in the sandbox's etcd. A Terraform module starts and stops it with the sandbox command, so the server is
// detached and identified by the files in its directory.
package eks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Server is one cluster. Terraform reads the files endpoint, ca.crt and kubeconfig in its directory.
type Server struct {
	// Dir is the sandbox's directory.
	Dir string
	// Name is the name of the cluster.
	Name string
}

// namePattern is EKS's rule for cluster names. It also rejects paths.
var namePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// Validate checks the name.
func (s Server) Validate() error {
	if !namePattern.MatchString(s.Name) {
		return fmt.Errorf("%q is not a cluster name: must be 1 to 100 letters, digits, '-' and '_', beginning with a letter or digit", s.Name)
	}
	return nil
}

func folder(dir string) string { return filepath.Join(dir, "eks") }

// Folder is the directory of the server's files.
func (s Server) Folder() string { return filepath.Join(folder(s.Dir), s.Name) }

// Log is the server's log.
func (s Server) Log() string { return s.file("kube-apiserver.log") }

// Endpoint is the URL of the cluster. It is empty if the cluster does not exist.
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

// port returns the former port of the server, because an endpoint never changes, or a free one.
func (s Server) port() (int, error) {
	if text := s.read("port"); text != "" {
		return strconv.Atoi(text)
	}
	return process.FreePort()
}

// Process returns the ID of the server's process. Without a record it is the zero ID, which is not alive.
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

// Stop stops the cluster and removes its process, its keys in etcd and its directory. A missing cluster is not an error, so
// that a destroy can be repeated. A cluster with Fargate profiles is not stopped.
func (s Server) Stop(ctx context.Context) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if _, err := os.Stat(s.Folder()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.requireNoProfiles(); err != nil {
		return err
	}
	id, err := s.Process()
	if err != nil {
		return err
	}
	if err := id.Stop(stopGrace); err != nil {
		return err
	}
	sandbox, err := state.Load(s.Dir)
	if err != nil {
		return fmt.Errorf("found no sandbox in %s: %w", s.Dir, err)
	}
	if err := deletePrefix(ctx, sandbox.EtcdEndpoint, s.etcdPrefix()+"/"); err != nil {
		return err
	}
	// The lock file stays: removing it would let a third command lock a new file while a second waits on this one.
	return os.RemoveAll(s.Folder())
}

// StopAll kills all servers of a sandbox that is being removed, without removing their data.
func StopAll(dir string) error {
	servers, err := List(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, server := range servers {
		id, err := server.Process()
		if err == nil {
			err = id.Stop(0)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("cluster %s: %w", server.Name, err))
		}
	}
	return errors.Join(failed...)
}

// deletePrefix deletes all keys with a prefix through etcd's JSON gateway, which needs no client library.
func deletePrefix(ctx context.Context, endpoint, prefix string) error {
	// The end of the range is exclusive: the prefix with its last byte incremented.
	end := []byte(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string][]byte{"key": []byte(prefix), "range_end": end})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/v3/kv/deleterange", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("deleting %s from etcd: %w", prefix, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("deleting %s from etcd: %s", prefix, response.Status)
	}
	return nil
}
