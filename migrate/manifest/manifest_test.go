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
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/manifest"
)

// adoptionPlan adopts the cluster orders in namespace shop, and others of that name elsewhere.
func adoptionPlan() *migrate.Plan {
	ref := func(group, kind, namespace, name string) migrate.ObjectRef {
		return migrate.ObjectRef{Group: group + ".cluster.x-k8s.io", Kind: kind, Namespace: namespace, Name: name}
	}
	pointer := func(ref migrate.ObjectRef) *migrate.ObjectRef { return &ref }
	apply := func(namespace, name string) *migrate.ObjectRef {
		return pointer(ref("infrastructure", "WorkspaceTemplateApply", namespace, name))
	}
	workspace := func(name string) *migrate.ObjectRef {
		return &migrate.ObjectRef{Group: "tf.upbound.io", Kind: "Workspace", Name: name}
	}
	add := func(path string, value any) migrate.Operation {
		data, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		return migrate.Operation{Op: "add", Path: path, Value: data}
	}
	return &migrate.Plan{
		Grants: []migrate.Step{{
			Object: ref("infrastructure", "WorkspaceTemplate", "default", "vpc-template"),
			Patch:  []migrate.Operation{{Op: "test", Path: "/metadata/uid"}, add("/spec/allowedNamespaces", map[string]any{"names": []string{"shop", "archive"}})},
		}},
		Units: []migrate.Unit{
			{
				Owner: ref("infrastructure", "CAPTCluster", "shop", "orders"), WorkspaceTemplateApply: apply("shop", "orders-vpc"), Workspace: workspace("orders-vpc"),
			},
			{
				Owner: ref("infrastructure", "CAPTCluster", "archive", "orders"), WorkspaceTemplateApply: apply("archive", "other-vpc"), Workspace: workspace("other-vpc"),
			},
			{
				Owner: ref("controlplane", "CAPTControlPlane", "shop", "orders"), WorkspaceTemplateApply: apply("shop", "demo-eks-controlplane-apply"), Workspace: workspace("demo-eks-controlplane"),
				Steps: []migrate.Step{
					{Object: ref("controlplane", "CAPTControlPlane", "shop", "orders"), Patch: []migrate.Operation{
						add("/spec/workspaceTemplateApplyRef", map[string]any{"name": "demo-eks-controlplane-apply"}),
						add("/spec/controlPlaneEndpoint/host", "example.com"),
					}},
				},
			},
			{
				Owner: *apply("shop", "jetty"), Workspace: workspace("jetty"),
				Steps: []migrate.Step{{Object: *apply("shop", "jetty"), Patch: []migrate.Operation{add("/spec/workspaceName", "jetty"), add("/spec/deletionPolicy", "Retain")}}},
			},
		},
	}
}

// Each file of testdata/rewrite is rewritten without a plan and with one, as the golden files say. UPDATE_GOLDEN=1 writes them.
func TestManifestsAreRewrittenAsTheGoldenFilesSay(t *testing.T) {
	files, err := filepath.Glob("testdata/rewrite/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		for suffix, plan := range map[string]*migrate.Plan{"": nil, ".adopted": adoptionPlan()} {
			t.Run(name+suffix, func(t *testing.T) {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				out, notes, err := manifest.Rewrite(name, data, plan)
				require.NoError(t, err)
				golden(t, filepath.Join("testdata", "golden", name+suffix), string(out))
				golden(t, filepath.Join("testdata", "golden", name+suffix+".notes"), told(notes))

				again, notes, err := manifest.Rewrite(name, out, plan)
				require.NoError(t, err)
				assert.Equal(t, string(out), string(again), "a second time changes nothing")
				for _, note := range notes {
					assert.NotContains(t, note.Message, "left out", "a second time loses nothing")
				}
			})
		}
	}
}

func told(notes []manifest.Note) string {
	var lines strings.Builder
	for _, note := range notes {
		fmt.Fprintf(&lines, "%s:%d: %s: %s\n", note.File, note.Line, note.Severity, note.Message)
	}
	return lines.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, path)
}
