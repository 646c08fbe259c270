// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package state is what a sandbox writes down about itself in its folder: which processes it started, where the API
// server and etcd listen, and where the programs are. Whoever comes later reads it there: the sandbox command in
// another process, the reaper after a crash, and a Terraform module that starts a sandbox "EKS".
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// FileName is the name of the file in the sandbox's folder.
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
	// Processes lists what was started and not yet stopped, in the order of starting.
	Processes []Process `json:"processes,omitempty"`
}

// Process is one recorded process.
type Process struct {
	process.ID
	Name string `json:"name"`
	Log  string `json:"log"`
	// Health is the URL that answers 200 when the process is ready, where it can be asked without a certificate.
	Health string `json:"health,omitempty"`
}

// Load reads the state from a sandbox's folder. The error is fs.ErrNotExist when there is no sandbox.
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

// Save replaces the file in one step: the reaper may read it at any moment.
func (s *State) Save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, FileName), data)
}

// WriteFile writes a file readable by the owner only, in one step.
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

// Forget removes the record of a process.
func (s *State) Forget(name string) {
	kept := s.Processes[:0]
	for _, p := range s.Processes {
		if p.Name != name {
			kept = append(kept, p)
		}
	}
	s.Processes = kept
}

// Remember records a process, in place of an earlier one of the same name.
func (s *State) Remember(p Process) {
	for i := range s.Processes {
		if s.Processes[i].Name == p.Name {
			s.Processes[i] = p
			return
		}
	}
	s.Processes = append(s.Processes, p)
}
