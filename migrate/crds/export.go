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

package crds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Folder is the folder of the export within that of the backup, and manifestName the file in it that says what is exported.
const (
	Folder       = "crds"
	manifestName = "export.json"
)

// export is what the manifest says. The objects are in a file that is named after its content and is never written again: an
// interrupted export leaves the one before it whole.
type export struct {
	metav1.TypeMeta `json:",inline"`
	// ClusterUID is the UID of the namespace kube-system.
	ClusterUID types.UID   `json:"clusterUID"`
	Created    metav1.Time `json:"created"`
	// Definition that was installed.
	Definition exported `json:"definition"`
	// Objects of it, sorted by namespace and name.
	Objects []exported `json:"objects"`
	// Checksum is the SHA-256 of the manifest without it.
	Checksum string `json:"checksum"`

	// items are the objects themselves, in the same order, and definition the definition.
	items      []unstructured.Unstructured
	definition unstructured.Unstructured
}

// exported is an object of which a file holds everything that the API server has.
type exported struct {
	Namespace       string    `json:"namespace,omitempty"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	// File that it is in, and SHA256 of that file.
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

func (e exported) key() client.ObjectKey {
	return client.ObjectKey{Namespace: e.Namespace, Name: e.Name}
}

// list is a file of objects, in the form that kubectl reads.
type list struct {
	metav1.TypeMeta `json:",inline"`
	Items           []unstructured.Unstructured `json:"items"`
}

func (e *export) sum() (string, error) {
	content := *e
	content.Checksum = ""
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encoding the export: %w", err)
	}
	return migrate.Sum(data), nil
}

// writeExport writes an export, so that it is on the disk when it returns.
func writeExport(backup string, cluster types.UID, now time.Time, definition *unstructured.Unstructured, objects []unstructured.Unstructured) error {
	if err := os.MkdirAll(filepath.Join(backup, Folder), 0o700); err != nil {
		return fmt.Errorf("making a folder for the export: %w", err)
	}
	folder, err := os.OpenRoot(filepath.Join(backup, Folder))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	e := &export{
		TypeMeta:   metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "DefinitionExport"},
		ClusterUID: cluster, Created: metav1.NewTime(now.UTC()), Objects: []exported{},
	}
	saved, err := writeObjects(folder, "definition", []unstructured.Unstructured{*definition})
	if err != nil {
		return err
	}
	e.Definition = saved[0]
	if e.Objects, err = writeObjects(folder, resource.Resource, objects); err != nil {
		return err
	}
	if e.Checksum, err = e.sum(); err != nil {
		return err
	}
	manifest, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the export: %w", err)
	}
	return writeFile(folder, manifestName, manifest)
}

// writeObjects writes objects into one file.
func writeObjects(folder *os.Root, stem string, objects []unstructured.Unstructured) ([]exported, error) {
	data, err := json.MarshalIndent(list{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: objects}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding objects: %w", err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	name := stem + "-" + digest[:16] + ".json"
	saved := make([]exported, len(objects))
	for i := range objects {
		saved[i] = exported{
			Namespace: objects[i].GetNamespace(), Name: objects[i].GetName(), UID: objects[i].GetUID(),
			ResourceVersion: objects[i].GetResourceVersion(), File: name, SHA256: digest,
		}
	}
	return saved, writeFile(folder, name, data)
}

// writeFile replaces a file at once, or not at all, and returns when it would survive a loss of power.
func writeFile(folder *os.Root, name string, data []byte) error {
	temporary := name + ".part"
	err := func() error {
		file, err := folder.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(data)
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			return err
		}
		if err := folder.Rename(temporary, name); err != nil {
			return err
		}
		directory, err := folder.Open(".")
		if err != nil {
			return err
		}
		return errors.Join(directory.Sync(), directory.Close())
	}()
	if err != nil {
		return fmt.Errorf("writing %s of the export: %w", name, err)
	}
	return nil
}

// readExport reads an export and proves that it is whole; nil if there is none.
func readExport(backup string) (*export, error) {
	folder, err := os.OpenRoot(filepath.Join(backup, Folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	data, err := folder.ReadFile(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := &export{}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, damaged(manifestName, err)
	}
	if sum, err := e.sum(); err != nil || sum != e.Checksum || e.Kind != "DefinitionExport" {
		return nil, damaged(manifestName, errors.New("its checksum is wrong"))
	}
	definitions, err := readObjects(folder, []exported{e.Definition})
	if err != nil {
		return nil, err
	}
	e.definition = definitions[0]
	if e.items, err = readObjects(folder, e.Objects); err != nil {
		return nil, err
	}
	return e, nil
}

func damaged(file string, err error) error {
	return fmt.Errorf("the export is damaged, and nothing is done with it: %s: %w; restore the folder, or name another one", file, err)
}

// readObjects reads objects that are said to be in one file.
func readObjects(folder *os.Root, saved []exported) ([]unstructured.Unstructured, error) {
	if len(saved) == 0 {
		return nil, nil
	}
	name := saved[0].File
	data, err := folder.ReadFile(name)
	if err != nil {
		return nil, damaged(name, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != saved[0].SHA256 {
		return nil, damaged(name, errors.New("its checksum is wrong"))
	}
	var content list
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, damaged(name, err)
	}
	if len(content.Items) != len(saved) {
		return nil, damaged(name, fmt.Errorf("it holds %d objects, and should hold %d", len(content.Items), len(saved)))
	}
	for i, want := range saved {
		item := &content.Items[i]
		if client.ObjectKeyFromObject(item) != want.key() || item.GetUID() != want.UID || item.GetResourceVersion() != want.ResourceVersion {
			return nil, damaged(name, fmt.Errorf("%s is not in it as it should be", want.key()))
		}
	}
	return content.Items, nil
}
