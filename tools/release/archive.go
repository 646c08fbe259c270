// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// entry is a file or, if its name ends with a slash, a directory of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// archive returns a tar archive in which every time is the same and root owns everything.
func archive(created time.Time, entries ...entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: created, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// directory returns the files of a directory as entries, sorted.
func directory(root string) (entries []entry, err error) {
	disk := os.DirFS(root)
	return entries, fs.WalkDir(disk, ".", func(name string, found fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if found.IsDir() {
			entries = append(entries, entry{name: name + "/", mode: 0o755})
			return nil
		}
		data, err := fs.ReadFile(disk, name)
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
		return err
	})
}

// checksums returns the content of checksums.txt for the files of a directory, as sha256sum writes it.
func checksums(dir string) ([]byte, error) {
	files, err := directory(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, file := range files {
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(file.data), file.name)
	}
	return out.Bytes(), nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
