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

package manifest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/migrate/manifest"
)

// Objects of the older CAPT as other packages have them, exported ones among them, are rewritten, too.
func TestSamplesOfTheOlderCAPTSayTheSameInV1Beta2(t *testing.T) {
	files, err := filepath.Glob("../../webhooks/conversion/testdata/*.yaml")
	require.NoError(t, err)
	files = append(files, "../../test/conversion/testdata/legacy/manifests.yaml", "../../test/conversion/testdata/legacy/objects.yaml")
	reference, err := filepath.Glob(filepath.Join(os.Getenv("CAPT_REFERENCE"), "legacy", "*.yaml"))
	require.NoError(t, err)
	defaults := defaultsOf(t)
	rewritten := 0
	for _, file := range append(files, reference...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			out, notes, err := manifest.Rewrite(file, data, nil)
			require.NoError(t, err)
			for _, note := range notes {
				require.NotEqual(t, manifest.LeftAlone, note.Severity, "%+v", note)
			}
			before, after := documents(data), documents(out)
			require.Len(t, after, len(before))
			for i := range before {
				if !bytes.Contains(before[i], []byte("x-k8s.io/v1beta1\nkind: CAPT")) && !bytes.Contains(before[i], []byte("x-k8s.io/v1beta1\nkind: Workspace")) {
					continue
				}
				want, got := converted(t, before[i]), map[string]any{}
				require.NoError(t, yaml.Unmarshal(after[i], &got))
				defaults(want)
				defaults(got)
				assert.Equal(t, asJSON(t, want["spec"]), asJSON(t, got["spec"]), "%s", after[i])
				rewritten++
			}
		})
	}
	require.Greater(t, rewritten, 10)
}

func documents(data []byte) [][]byte { return bytes.Split(data, []byte("\n---\n")) }
