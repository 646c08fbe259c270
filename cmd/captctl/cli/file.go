// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes a file: completely or not at all. An existing file is replaced.
func Save(file string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // It exists only after an error, which is reported.
	for _, step := range []func() error{
		func() error { return write(temporary) }, temporary.Sync, temporary.Close, func() error { return os.Rename(temporary.Name(), file) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
	}
	return nil
}
