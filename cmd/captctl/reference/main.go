// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Reference writes the documents that are made from the help and types of captctl, docs/captctl.md and docs/captctl-output.md, and
// from what captctl prints, docs/captctl.svg.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER_OF_THE_REPOSITORY")
		os.Exit(1)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// documents by their path in the repository, which is read for the comments of types.
func documents(repository string) (map[string]string, error) {
	schema, err := outputDocument(repository)
	if err != nil {
		return nil, err
	}
	screen, err := screenDocument()
	if err != nil {
		return nil, err
	}
	return map[string]string{"docs/captctl.svg": screen, "docs/captctl.md": commandsDocument(), "docs/captctl-output.md": schema}, nil
}

func write(repository string) error {
	all, err := documents(repository)
	if err != nil {
		return err
	}
	for path, text := range all {
		if err := os.WriteFile(filepath.Join(repository, filepath.FromSlash(path)), []byte(text), 0o644); err != nil { //nolint:gosec // The documents are public.
			return err
		}
	}
	return nil
}
