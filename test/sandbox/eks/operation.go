// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// Status is the status of a Fargate profile or of a managed node group in EKS.
type Status string

// The simulated statuses. Only node groups are updated, fail and are degraded.
const (
	Creating     Status = "CREATING"
	Active       Status = "ACTIVE"
	Updating     Status = "UPDATING"
	Deleting     Status = "DELETING"
	CreateFailed Status = "CREATE_FAILED"
	Degraded     Status = "DEGRADED"
)

// operation is what the files of Fargate profiles and node groups have in common.
type operation struct {
	Status Status `json:"status,omitempty"`
	// Worker is the process that creates, updates or deletes the object. It is empty when the operation has ended.
	Worker process.ID `json:"worker,omitzero"`
}

// inFlight reports whether an operation runs. An object whose worker was killed keeps its status and does not block others.
func (o operation) inFlight() bool { return o.Worker.Alive() }

// began records this process as the worker.
func began(status Status) (operation, error) {
	worker, err := process.Identify(os.Getpid())
	return operation{Status: status, Worker: worker}, err
}

// exclusively calls a function while no other command changes the cluster, which must exist.
func (s Server) exclusively(ctx context.Context, change func() error) error {
	// Check before locking: the lock creates the directory of the cluster.
	if s.Endpoint() == "" {
		return fmt.Errorf("ResourceNotFoundException: No cluster found for name: %s", s.Name)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return change()
}

// pause waits. It returns the cause if the command is interrupted.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(duration):
		return nil
	}
}

// files are the objects of one kind in the directory of a cluster: one file per object.
type files[T any] struct{ dir, suffix string }

func (f files[T]) path(name string) string { return filepath.Join(f.dir, name+f.suffix) }

func (f files[T]) read(name string) (*T, error) {
	data, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object := new(T)
	if err := json.Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path(name), err)
	}
	return object, nil
}

func (f files[T]) list() (objects []T, err error) {
	paths, err := filepath.Glob(f.path("*")) // Without temporary files.
	for _, path := range paths {
		object, err := f.read(strings.TrimSuffix(filepath.Base(path), f.suffix))
		switch {
		case err != nil:
			return nil, err
		case object != nil: // Not deleted concurrently.
			objects = append(objects, *object)
		}
	}
	return objects, err
}

func (f files[T]) write(name string, object T) error {
	data, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return process.WriteFile(f.path(name), append(data, '\n'))
}

func (f files[T]) remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
