// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	// defaultNamespace is the namespace of config/default.
	defaultNamespace = "capt-system"
	providerLabel    = "cluster.x-k8s.io/provider"
	infrastructure   = "infrastructure-capt"
	controlPlane     = "control-plane-capt"
)

// installation has the names that an installation of CAPT can choose.
type installation struct {
	namespace, prefix, image, tag string
}

// render returns the objects of config/default under these names, as docs/install-reference.md does it: in two layers.
func (i installation) render(root string) ([]*resource.Resource, error) {
	files, err := configuration(root)
	if err != nil {
		return nil, err
	}
	renamed := fmt.Sprintf("resources: [../config/default]\nnamespace: %s\nnamePrefix: %q\nimages: [{name: capt-manager, newName: %q, newTag: %q}]\n",
		i.namespace, i.prefix, i.image, i.tag)
	for name, text := range map[string]string{
		"renamed/kustomization.yaml": renamed,
		"names/kustomization.yaml":   "resources: [../renamed]\ncomponents: [../config/names]\n",
	} {
		if err := files.WriteFile(name, []byte(text)); err != nil {
			return nil, err
		}
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "names")
	if err != nil {
		return nil, fmt.Errorf("rendering config/default: %w", err)
	}
	for _, object := range objects.Resources() {
		// kustomize does not know that ValidatingAdmissionPolicies and their bindings have no namespace. The API server would ignore it.
		if object.GetGvk().Group == "admissionregistration.k8s.io" && object.GetNamespace() != "" {
			if err := object.SetNamespace(""); err != nil {
				return nil, err
			}
		}
	}
	return objects.Resources(), nil
}

// configuration copies the manifests to memory, so that layers can be added.
func configuration(root string) (filesys.FileSystem, error) {
	files, disk := filesys.MakeFsInMemory(), os.DirFS(filepath.Join(root, "config"))
	return files, fs.WalkDir(disk, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		data, err := fs.ReadFile(disk, name)
		if err != nil {
			return err
		}
		return files.WriteFile(path.Join("config", name), data)
	})
}

// components splits the objects of an installation for clusterctl. Cluster API knows two providers, and CAPT is one manager for both. So the
// components of the control plane provider are only the Namespace and its CRDs, and everything else is in those of the infrastructure provider.
// clusterctl requires a Namespace in both.
func components(objects []*resource.Resource, provider string) (found []*resource.Resource) {
	for _, object := range objects {
		if object.GetKind() == "Namespace" || object.GetLabels()[providerLabel] == provider {
			found = append(found, object)
		}
	}
	return found
}

// encode returns objects as a stream of YAML documents.
func encode(objects []*resource.Resource) ([]byte, error) {
	var out bytes.Buffer
	for i, object := range objects {
		text, err := object.AsYAML()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// manifests returns the files for kubectl and clusterctl by name.
func manifests(root string, names installation) (map[string][]byte, error) {
	objects, err := names.render(root)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, part := range map[string][]*resource.Resource{
		"install.yaml":                   objects,
		"infrastructure-components.yaml": components(objects, infrastructure),
		"control-plane-components.yaml":  components(objects, controlPlane),
	} {
		if files[name], err = encode(part); err != nil {
			return nil, err
		}
	}
	if err := addCopies(files, root, "config/clusterctl/*.yaml"); err != nil {
		return nil, err
	}
	templates := map[string][]byte{}
	if err := addCopies(templates, root, "config/samples/aws/*-template.yaml"); err != nil {
		return nil, err
	}
	var all []string
	for _, name := range sorted(templates) {
		// Without a namespace, the user chooses it when the templates are applied.
		all = append(all, strings.ReplaceAll(string(templates[name]), "\n  namespace: default\n", "\n"))
	}
	files["workspace-templates-aws.yaml"] = []byte(strings.Join(all, "---\n"))
	return files, nil
}

// addCopies adds the files that match a pattern.
func addCopies(files map[string][]byte, root, pattern string) error {
	disk := os.DirFS(root)
	names, err := fs.Glob(disk, pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		if files[path.Base(name)], err = fs.ReadFile(disk, name); err != nil {
			return err
		}
	}
	return nil
}
