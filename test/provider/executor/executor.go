// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package executor is the border between the Workspace controller and what carries Terraform out. One
// implementation runs OpenTofu (package tofu); tests may bring others.
package executor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Factory opens Executors. It is shared by all reconciles and must be safe for concurrent use.
type Factory interface {
	// Open makes the module's files available and returns the Executor of that Workspace. It starts nothing that
	// outlives the call and does not touch the backend.
	Open(ctx context.Context, m Module) (Executor, error)

	// Forget drops what Open keeps for a Workspace, once that Workspace is gone and its state with it.
	Forget(uid types.UID) error
}

// Executor carries the operations of one Workspace out, one at a time. A method that runs the CLI returns an error
// made by Failure when the CLI failed, and an error that wraps ctx.Err() when it was stopped: a method returns soon
// after ctx is done, and nothing it started goes on running.
type Executor interface {
	// Init prepares the working directory and connects it to the backend.
	Init(ctx context.Context, args []string) error

	// SelectWorkspace makes the Terraform workspace of that name current, creating it when it does not exist.
	SelectWorkspace(ctx context.Context, name string) error

	// Plan reports whether an apply would change anything.
	Plan(ctx context.Context, o RunOptions) (bool, error)

	// Apply makes the environment match the configuration. It may fail half way, leaving resources in the state.
	Apply(ctx context.Context, o RunOptions) error

	// Destroy removes every resource in the state.
	Destroy(ctx context.Context, o RunOptions) error

	// Resources lists the addresses of the resources in the state.
	Resources(ctx context.Context) ([]string, error)

	// Outputs lists the outputs in the state, sorted by name.
	Outputs(ctx context.Context) ([]Output, error)

	// DeleteWorkspace deletes the current Terraform workspace with its state and makes the default one current; the
	// default one itself is never deleted.
	DeleteWorkspace(ctx context.Context) error

	// Checksum is a fingerprint of the working directory: while it stays the same, Init need not run again.
	Checksum(ctx context.Context) (string, error)
}

// Module is everything an Executor needs to know of a Workspace before it runs anything.
type Module struct {
	// UID, GroupKind, Key and Annotations identify the Workspace. The UID names the working directory.
	UID         types.UID
	GroupKind   schema.GroupKind
	Key         types.NamespacedName
	Annotations map[string]string

	// Remote is the address of the module. Empty when Files hold it.
	Remote string

	// Files go into the root of the module, by base name.
	Files map[string][]byte

	// EntrypointFiles go into the folder the CLI runs in, by base name: credentials, provider configuration, backend
	// settings.
	EntrypointFiles map[string][]byte

	// Entrypoint is the folder inside the module the CLI runs in; empty for its root.
	Entrypoint string

	// Env are variables for the CLI's environment, NAME=value; the last of a name wins.
	Env []string
}

// VarFile is a file of variables.
type VarFile struct {
	Data []byte
	JSON bool
}

// Var is one string variable.
type Var struct {
	Key, Value string
}

// RunOptions are the inputs of plan, apply and destroy, in the order in which they go on the command line: later
// ones win.
type RunOptions struct {
	Vars     []Var
	VarFiles []VarFile
	Args     []string
	// Log receives what the CLI printed, where the Workspace wants that in the provider's log; nil otherwise.
	Log func(text string)
}

// Report logs the end of a command as provider-terraform does: standard output of one that succeeded, standard error of one that failed, and nothing
// of one that was stopped.
func (o RunOptions) Report(stdout string, err error) {
	var failed *FailedError
	switch {
	case o.Log == nil:
	case err == nil:
		o.Log(stdout)
	case errors.As(err, &failed):
		o.Log(failed.Stderr)
	default:
		o.Log("")
	}
}

// Output is one output of a module.
type Output struct {
	Name      string
	Sensitive bool
	// String reports whether the output's type is string; Value then is a Go string.
	String bool
	// Value is the output as encoding/json decodes it.
	Value any
}

// summary finds the line in which the CLI names the first error.
var summary = regexp.MustCompile(`Error: (.+)\n`)

// FailedError is the error of a CLI run that ended with a non-zero exit code: the one-line summary, and behind it the
// whole of stderr, compressed, in the shape of a shell command that shows it. The wording is provider-terraform's,
// since readers of conditions classify on it. Stderr can hold secrets, and so can the error.
type FailedError struct{ Stderr string }

// Failure returns the error of a CLI run that failed.
func Failure(stderr string) error { return &FailedError{stderr} }

func (e *FailedError) Error() string {
	var line string
	if m := summary.FindStringSubmatch(e.Stderr); m != nil {
		line = m[1]
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(e.Stderr))
	if err = errors.Join(err, w.Close()); err != nil {
		return "cannot compress the error output: " + err.Error()
	}
	return fmt.Sprintf("Terraform encountered an error. Summary: %s. To see the full error run: echo %q | base64 -d | gunzip",
		line, base64.StdEncoding.EncodeToString(packed.Bytes()))
}
