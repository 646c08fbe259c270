// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/capt-provider/capt/test/sandbox/state"
)

// cached is the content of a file of Cached.
type cached struct {
	// Sources is the checksum of the files that the objects were made of.
	Sources string           `json:"sources"`
	Objects []map[string]any `json:"objects"`
}

// Cached is Load for a directory, except that it runs kustomize only when a file below the sources has changed: that takes seconds for large
// definitions. It keeps the objects in a file.
func Cached(file, dir string, sources ...string) ([]*unstructured.Unstructured, error) {
	sum, err := checksum(sources)
	if err != nil {
		return nil, err
	}
	if objects := readCached(file, sum); objects != nil {
		return objects, nil
	}
	objects, err := Load(dir)
	if err != nil {
		return nil, err
	}
	return objects, writeCached(file, sum, objects)
}

func checksum(sources []string) (string, error) {
	hash := sha256.New()
	for _, source := range sources {
		err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			fmt.Fprintf(hash, "%s %d\n%s", path, len(data), data)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// readCached returns nil if the file does not exist or was made of other sources.
func readCached(file, sum string) (objects []*unstructured.Unstructured) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	content := cached{}
	if err := json.Unmarshal(data, &content); err != nil || content.Sources != sum {
		return nil
	}
	for _, object := range content.Objects {
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return objects
}

func writeCached(file, sum string, objects []*unstructured.Unstructured) error {
	content := cached{Sources: sum}
	for _, object := range objects {
		content.Objects = append(content.Objects, object.Object)
	}
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return state.WriteFile(file, data)
}
