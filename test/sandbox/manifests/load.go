// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads Kubernetes manifests, adapts them to a control plane without a cluster network, and installs
// them.
package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/dirhash"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/capt-provider/capt/test/sandbox/state"
)

// Load reads a file, a directory with a kustomization, or a directory of YAML files.
func Load(path string) ([]*unstructured.Unstructured, error) {
	options := resource.FilenameOptions{Filenames: []string{path}}
	if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
		options = resource.FilenameOptions{Kustomize: path}
	}
	objects, err := read(resource.NewLocalBuilder().Unstructured().FilenameParam(false, &options))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}

// Decode reads a stream of YAML documents and skips empty ones.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	return read(resource.NewLocalBuilder().Unstructured().Stream(bytes.NewReader(data), "manifests"))
}

func read(builder *resource.Builder) (objects []*unstructured.Unstructured, err error) {
	infos, err := builder.Flatten().Do().Infos()
	for _, info := range infos {
		objects = append(objects, info.Object.(*unstructured.Unstructured))
	}
	return objects, err
}

// cached is the content of a file of Cached.
type cached struct {
	// Sources is the checksum of the files that the objects were made of.
	Sources string                       `json:"sources"`
	Objects []*unstructured.Unstructured `json:"objects"`
}

// Cached is Load for a directory, except that it runs kustomize only when a file below the sources has changed: that takes seconds for large
// definitions. It keeps the objects in a file.
func Cached(file, dir string, sources ...string) ([]*unstructured.Unstructured, error) {
	sum := ""
	for _, source := range sources {
		hash, err := dirhash.HashDir(source, source, dirhash.Hash1)
		if err != nil {
			return nil, err
		}
		sum += hash
	}
	content := cached{}
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &content) == nil && content.Sources == sum {
		return content.Objects, nil
	}
	objects, err := Load(dir)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(cached{sum, objects})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return objects, state.WriteFile(file, data)
}
