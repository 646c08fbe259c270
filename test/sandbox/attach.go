// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"io"
	"time"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Attach returns the sandbox that another process runs in a directory. It can be used like one of this process, except that
// Stop leaves it running, that nothing can be installed in it, and that StartComponent starts everything that was stopped.
func Attach(dir string) (*Sandbox, error) {
	recorded, err := state.Load(dir)
	if err != nil {
		return nil, err
	}
	if !recorded.Ready {
		return nil, fmt.Errorf("the sandbox in %s has not finished starting", dir)
	}
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		options:  Options{Log: io.Discard, AuditLog: recorded.AuditLog, Installation: recorded.Installation},
		root:     root,
		dir:      dir,
		state:    *recorded,
		ports:    recorded.Ports,
		attached: true,
	}
	s.config, err = s.ConfigOf(admin)
	return s, err
}

// stopRecorded stops a component of a sandbox of another process.
func (s *Sandbox) stopRecorded(name string, grace time.Duration) error {
	recorded, err := state.Load(s.dir)
	if err != nil {
		return err
	}
	for _, p := range recorded.Processes {
		if p.Name == name {
			return p.Stop(grace)
		}
	}
	return fmt.Errorf("the sandbox in %s has no component %s", s.dir, name)
}
