// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// A file may hold its documents in any order: what they refer to may come later in the file. GitOps tools apply them in
// an order of their own.
func TestAFileIsAcceptedInEveryOrderOfItsDocuments(t *testing.T) {
	t.Parallel()
	w := startWorld(t, sandbox.Options{ClusterAPI: true, Manager: true})
	k := kubectl{world: w, cache: t.TempDir()}
	documents := everything(t)

	// Whoever applies a file does so again and again, also after the controllers have written into its objects. The only
	// object without a namespace is there from the first time on.
	for _, flag := range []string{"--server-side=true", "--server-side=false"} {
		t.Run("as given and again with "+flag, func(t *testing.T) {
			file := k.write(t, documents)
			k.apply(t, file, len(documents), flag)
			k.apply(t, file, len(documents), flag)
		})
	}
	backwards := slices.Clone(documents)
	slices.Reverse(backwards)
	t.Run("backwards", func(t *testing.T) { k.apply(t, k.write(t, backwards), len(documents)) })
	// The documents of a sample stand together, so that each of them is rotated in every way as well.
	for first := 1; first < len(documents); first++ {
		t.Run(fmt.Sprintf("from document %d on", first+1), func(t *testing.T) {
			t.Parallel()
			k.apply(t, k.write(t, append(slices.Clone(documents[first:]), documents[:first]...)), len(documents))
		})
	}
}

// document is an object of a sample.
type document struct {
	sample string
	object *unstructured.Unstructured
}

// everything that we publish for users to apply, and what users of the older CAPT have.
func everything(t *testing.T) []document {
	t.Helper()
	var documents []document
	for sample, path := range map[string]string{
		"aws":     filepath.Join(root, "config", "samples", "aws"),
		"sandbox": filepath.Join(root, "config", "samples", "sandbox"),
		"legacy":  filepath.Join("testdata", "legacy", "manifests.yaml"),
	} {
		for _, object := range load(t, path) {
			documents = append(documents, document{sample, object})
		}
	}
	slices.SortStableFunc(documents, func(a, b document) int { return strings.Compare(a.sample, b.sample) })
	return documents
}

type kubectl struct {
	world *world
	cache string
}

// write writes the documents as one file, each sample into a namespace that nobody has used.
func (k kubectl) write(t *testing.T, documents []document) string {
	t.Helper()
	namespaces := map[string]string{}
	var text bytes.Buffer
	for _, d := range documents {
		object := d.object.DeepCopy()
		if object.GetKind() != "ClusterProviderConfig" {
			if namespaces[d.sample] == "" {
				namespaces[d.sample] = k.world.namespace(t)
			}
			object.SetNamespace(namespaces[d.sample])
		}
		data, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		text.WriteString("---\n")
		text.Write(data)
	}
	file := filepath.Join(t.TempDir(), "everything.yaml")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

// apply applies a file and requires that every object in it was accepted.
func (k kubectl) apply(t *testing.T, file string, objects int, flags ...string) {
	t.Helper()
	arguments := append([]string{"--kubeconfig=" + k.world.sandbox.Kubeconfig(), "--cache-dir=" + k.cache, "apply", "-f", file}, flags...)
	command := exec.CommandContext(t.Context(), k.world.sandbox.Binary(binaries.Kubectl), arguments...)
	var said, complaints bytes.Buffer
	command.Stdout, command.Stderr = &said, &complaints
	require.NoError(t, command.Run(), complaints.String())
	require.Len(t, strings.Split(strings.TrimSpace(said.String()), "\n"), objects, said.String())
}
