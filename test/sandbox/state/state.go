// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package state is the record that a sandbox keeps in its directory: which processes it started, where the API server and
// etcd listen, and where the programs are. Other processes read it, and stop or restart what is recorded: later runs of the sandbox
// command, the reaper after a crash, and the Terraform modules that start simulated EKS clusters, which have a record each.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// FileName is the name of the file in the sandbox's directory.
const FileName = "sandbox.json"

// State is the content of the file.
type State struct {
	// Ready is set when the sandbox has started completely.
	Ready bool `json:"ready"`
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// EtcdEndpoint is where etcd listens for clients, for example http://127.0.0.1:20379.
	EtcdEndpoint string `json:"etcdEndpoint,omitempty"`
	// Binaries maps the name of a program to its path.
	Binaries map[string]string `json:"binaries,omitempty"`
	// Ports are the ports that components listen on, by the names that the sandbox has for them.
	Ports map[string]int `json:"ports,omitempty"`
	// EtcdPrefix is what the keys of a simulated EKS cluster begin with, and Version its version of Kubernetes.
	EtcdPrefix string `json:"etcdPrefix,omitempty"`
	Version    string `json:"version,omitempty"`
	// AuditLog is set when the API server logs requests.
	AuditLog bool `json:"auditLog,omitempty"`
	// Installation is the directory of the kustomization that installed CAPT, if it is not the default.
	Installation string `json:"installation,omitempty"`
	// Processes lists what was started, in the order of the first start.
	Processes []Process `json:"processes,omitempty"`
}

// Process is one recorded process, with all that is needed to stop it and to start it again.
type Process struct {
	process.ID
	process.Spec
	// Health is the URL that returns 200 when the process is ready. It needs no client certificate.
	Health string `json:"health,omitempty"`
	// CA is the file of the certificate authority of Health, if it is https.
	CA string `json:"ca,omitempty"`
}

// Load reads the state from a sandbox's directory. Without a sandbox, the error is fs.ErrNotExist.
func Load(dir string) (*State, error) {
	data, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	state := &State{}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, FileName), err)
	}
	return state, nil
}

// Save replaces the file atomically: the reaper may read it at any time.
func (s *State) Save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, FileName), data)
}

// WriteFile atomically writes a file that only the owner can read.
func WriteFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// Process returns the record of a process, or nil.
func (s *State) Process(name string) *Process {
	for i := range s.Processes {
		if s.Processes[i].Name == name {
			return &s.Processes[i]
		}
	}
	return nil
}

// Record stores a process. It replaces an earlier process with the same name.
func (s *State) Record(p Process) {
	if recorded := s.Process(p.Name); recorded != nil {
		*recorded = p
		return
	}
	s.Processes = append(s.Processes, p)
}
