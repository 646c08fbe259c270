// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/capt-provider/capt/test/provider/executor"
)

// Script says how the operations of a Workspace go. The zero value lets everything succeed at once.
type Script struct {
	Init    Step `json:"init,omitzero"`
	Plan    Step `json:"plan,omitzero"`
	Apply   Step `json:"apply,omitzero"`
	Destroy Step `json:"destroy,omitzero"`

	// Drift is what the resources look like outside: whenever it is not what it was at the last apply, a plan differs.
	Drift string `json:"drift,omitempty"`

	// Version0 leaves observedGeneration out of the conditions of the Workspace, as provider-terraform v0.18 to v0.21 do.
	Version0 bool `json:"version0,omitempty"`
}

// Step says how one operation goes.
type Step struct {
	// Delay is how long the operation takes.
	Delay time.Duration `json:"delay,omitempty"`
	// Hang keeps the operation from ending until the script says otherwise.
	Hang bool `json:"hang,omitempty"`
	// Stderr makes the operation fail with this text.
	Stderr string `json:"stderr,omitempty"`
	// Times limits the failure to that many runs since the script was written; 0 means unlimited.
	Times int `json:"times,omitempty"`
	// Partial lets an apply that fails make the first half of its resources, and a destroy remove the first half.
	Partial bool `json:"partial,omitempty"`
}

// failedError is a failure that a script asked for.
type failedError struct {
	error
	partial bool
}

func (e failedError) Unwrap() error { return e.error }

// failure is what the step makes of its run of that number, counted from 1.
func (s Step) failure(run int) error {
	if s.Stderr == "" || s.Times > 0 && run > s.Times {
		return nil
	}
	return failedError{executor.Failure(s.Stderr), s.Partial}
}

func (s Script) step(op Operation) Step {
	switch op {
	case Init:
		return s.Init
	case Plan:
		return s.Plan
	case Apply:
		return s.Apply
	case Destroy:
		return s.Destroy
	}
	return Step{}
}

// SetScript gives a Workspace its script, with effect on the operation that runs, too. The namespace of a Workspace in the
// cluster scope is empty.
func (w *Store) SetScript(key types.NamespacedName, s Script) error {
	return w.writeScript(scriptName(key), s)
}

// SetDefaultScript gives a script to every Workspace that has none of its own.
func (w *Store) SetDefaultScript(s Script) error { return w.writeScript(defaultScript, s) }

const defaultScript = "default.json"

func scriptName(key types.NamespacedName) string { return key.Namespace + "_" + key.Name + ".json" }

func (w *Store) writeScript(name string, s Script) error {
	if err := os.MkdirAll(w.scripts(), 0o700); err != nil {
		return err
	}
	return write(filepath.Join(w.scripts(), name), scriptFile{Script: s, ID: string(uuid.NewUUID())})
}

// scriptFile is a script as it is written. The ID distinguishes two writes of the same content.
type scriptFile struct {
	Script
	ID string `json:"id"`
}

// script reads a Workspace's script, and returns what distinguishes it from the same one written again.
func (w *Store) script(key types.NamespacedName) (Script, string, error) {
	for _, name := range []string{scriptName(key), defaultScript} {
		var s scriptFile
		switch err := read(filepath.Join(w.scripts(), name), &s); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return s.Script, "", fmt.Errorf("cannot read the script %s: %w", name, err)
		}
		return s.Script, s.ID, nil
	}
	return Script{}, "", nil
}

// countRun returns how many times an operation was run since the script was written, this run included. The count
// survives the provider: a script that fails once fails once.
func (w *Store) countRun(key types.NamespacedName, op Operation, written string) (int, error) {
	type count struct {
		Written string
		Runs    int
	}
	path := filepath.Join(w.runs(), strings.TrimSuffix(scriptName(key), ".json")+"_"+string(op)+".json")
	var c count
	if err := read(path, &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if c.Written != written {
		c = count{Written: written}
	}
	c.Runs++
	return c.Runs, write(path, c)
}
