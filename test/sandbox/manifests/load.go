// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads Kubernetes manifests, adapts them to a control plane without a cluster network, and installs
// them.
package manifests

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capt-provider/capt/test/sandbox/state"
)

// Load reads a file, a directory with a kustomization, or a directory of YAML files.
func Load(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return loadFile(path)
	}
	if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
		return build(path)
	}
	files, err := filepath.Glob(filepath.Join(path, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		loaded, err := loadFile(file)
		if err != nil {
			return nil, err
		}
		objects = append(objects, loaded...)
	}
	return objects, nil
}

// build runs kustomize in a directory.
func build(dir string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", dir, err)
	}
	data, err := resources.AsYaml()
	if err != nil {
		return nil, err
	}
	return Decode(data)
}

func loadFile(path string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}

// Decode reads a stream of YAML documents and skips empty ones.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

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
