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

// Package planfile reads and writes the files of captctl migrate: plans and decisions.
package planfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/capt-provider/capt/migrate"
)

// Stdin is the name by which a file is read from standard input.
const Stdin = "-"

// Read reads a plan from a file, or from in if the file is called "-".
func Read(file string, in io.Reader) (*migrate.Plan, error) {
	data, err := read(file, in)
	if err != nil {
		return nil, err
	}
	plan, err := migrate.ReadPlan(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return plan, nil
}

// ReadDecisions reads decisions from a file, or from in if the file is called "-".
func ReadDecisions(file string, in io.Reader) (*migrate.Decisions, error) {
	data, err := read(file, in)
	if err != nil {
		return nil, err
	}
	decisions, err := migrate.ParseDecisions(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return decisions, nil
}

func read(file string, in io.Reader) ([]byte, error) {
	if file == Stdin {
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return data, nil
	}
	return os.ReadFile(filepath.Clean(file))
}

// Write writes a plan to a file. The file is there completely or not at all; one that was there before is replaced.
func Write(file string, plan *migrate.Plan) error {
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	defer os.Remove(part.Name()) //nolint:errcheck // It is there only if something failed, and that is reported.
	for _, step := range []func() error{
		func() error { return plan.Write(part) },
		part.Sync,
		part.Close,
		func() error { return os.Rename(part.Name(), file) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("writing the plan to %s: %w", file, err)
		}
	}
	return nil
}
