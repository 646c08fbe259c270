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

package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capt-provider/capt/migrate"
)

// Problem is a file of a backup that is not as it was written.
type Problem struct {
	File string `json:"file"`
	// Problem is Missing, Changed or Added.
	Problem string `json:"problem"`
}

func (p Problem) String() string { return p.File + " is " + strings.ToLower(p.Problem) }

const (
	missing = "Missing"
	changed = "Changed"
	added   = "Added"
)

// Read reads what a backup is of. The error is os.ErrNotExist where the folder does not exist or is empty.
func Read(dir string) (*About, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("reading the backup: %s is empty: %w", dir, os.ErrNotExist)
	}
	data, err := os.ReadFile(filepath.Join(dir, aboutFile)) // #nosec G304 -- The operator names the folder.
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is no backup: it has no %s", dir, aboutFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	about := &About{}
	if err := json.Unmarshal(data, about); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, aboutFile), err)
	}
	if about.APIVersion != migrate.APIVersion || about.Kind != kind {
		return nil, fmt.Errorf("%s is no %s of %s", dir, kind, migrate.APIVersion)
	}
	return about, nil
}

// Verify compares a backup with its checksums. No problems mean that every file is there, as it was written, and no other.
func Verify(dir string) ([]Problem, error) {
	sums, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, relative := filepath.Rel(dir, path)
		if err := errors.Join(err, relative); err != nil || entry.IsDir() || name == sumsFile {
			return err
		}
		wanted, known := sums[name]
		delete(sums, name)
		if !known {
			problems = append(problems, Problem{name, added})
			return nil
		}
		sum, err := fileSum(path)
		if err == nil && sum != wanted {
			problems = append(problems, Problem{name, changed})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("verifying the backup: %w", err)
	}
	for name := range sums {
		problems = append(problems, Problem{name, missing})
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.File, b.File) })
	return problems, nil
}

// readSums is the checksum of each file.
func readSums(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, sumsFile)) // #nosec G304 -- The operator names the folder.
	if err != nil {
		return nil, fmt.Errorf("%s is no backup, or not a whole one: %w", dir, err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found || len(sum) != hex.EncodedLen(sha256.Size) {
			return nil, fmt.Errorf("%s is damaged: %q is no checksum of a file", filepath.Join(dir, sumsFile), line)
		}
		sums[name] = sum
	}
	return sums, nil
}

func fileSum(path string) (string, error) {
	file, err := os.Open(path) // #nosec G304 -- The operator names the folder.
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
