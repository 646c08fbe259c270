// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// samples are what users apply: the published samples, and manifests for CAPT v0.3.
var samples = map[string]string{
	"aws":     filepath.Join("..", "..", "config", "samples", "aws"),
	"sandbox": filepath.Join("..", "..", "config", "samples", "sandbox"),
	"legacy":  filepath.Join("..", "conversion", "testdata", "legacy", "manifests.yaml"),
}

// Documents refer to others that may come later in the file, and GitOps tools have their own order. Forwards and backwards, each
// document comes before and after every other. Files are applied again, also after controllers have written to their objects.
func TestAFileIsAcceptedInAnyOrderOfItsDocuments(t *testing.T) {
	t.Parallel()
	for sample, path := range samples {
		documents, err := manifests.Load(path)
		require.NoError(t, err)
		backwards := slices.Clone(documents)
		slices.Reverse(backwards)
		for order, documents := range map[string][]*unstructured.Unstructured{"forwards": documents, "backwards": backwards} {
			for _, flag := range []string{"--server-side=true", "--server-side=false"} {
				t.Run(sample+" "+order+" "+flag, func(t *testing.T) { // Not parallel: a ClusterProviderConfig is in all of them.
					env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
					file := write(env, documents)
					for range 2 {
						output := env.Kubectl("apply", "--filename="+file, flag)
						require.Len(t, regexp.MustCompile(`(?m)^[^W].* (created|configured|unchanged|serverside-applied)$`).FindAllString(output, -1), len(documents), output)
					}
				})
			}
		}
	}
}

// write writes documents to one file, in the namespace of the environment.
func write(env *fixture.Environment, documents []*unstructured.Unstructured) string {
	env.Helper()
	var text strings.Builder
	for _, document := range documents {
		object := document.DeepCopy()
		if object.GetKind() != "ClusterProviderConfig" {
			object.SetNamespace(env.Namespace)
		}
		data, err := yaml.Marshal(object.Object)
		require.NoError(env, err)
		text.WriteString("---\n" + string(data))
	}
	file := filepath.Join(env.TempDir(), "documents.yaml")
	require.NoError(env, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}
