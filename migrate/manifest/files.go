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

package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Stdin is the path that means standard input, and the name of what came from there.
const Stdin = "-"

// File is a file with manifests.
type File struct {
	Name string
	Data []byte
	mode fs.FileMode
}

// Files reads the files at paths: files, folders with all that is in them, or standard input. Folders that begin with a dot
// are left out, such as .git, and so are files that are neither YAML nor JSON by their names.
func Files(paths []string, stdin io.Reader) ([]File, error) {
	var files []File
	for _, path := range paths {
		if path == Stdin {
			data, err := io.ReadAll(stdin)
			if err != nil {
				return nil, fmt.Errorf("reading standard input: %w", err)
			}
			files = append(files, File{Name: Stdin, Data: data})
			continue
		}
		found, err := filesAt(path)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

func filesAt(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir(), path != root && !isManifest(path):
			return nil
		}
		info, err := os.Stat(path) // Of what a link leads to.
		if err != nil || !info.Mode().IsRegular() {
			return ignoreDangling(err, path == root)
		}
		data, err := os.ReadFile(path) //nolint:gosec // Paths are what the user names.
		if err != nil {
			return err
		}
		files = append(files, File{Name: path, Data: data, mode: info.Mode().Perm()})
		return nil
	})
	return files, err
}

// ignoreDangling lets links within a folder lead nowhere, or to a folder.
func ignoreDangling(err error, named bool) error {
	if named || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// write puts other content into a file, in one step: whoever reads it meanwhile sees the one or the other. What a link leads
// to is written, and the link stays.
func (f File) write(data []byte) (err error) {
	path, err := filepath.EvalSymlinks(f.Name)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", f.Name, errors.Join(err, os.Remove(temporary.Name())))
		}
	}()
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Chmod(f.mode), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
