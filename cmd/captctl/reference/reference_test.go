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

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/migrate"
)

const repository = "../../.."

func TestTheReferenceIsUpToDate(t *testing.T) {
	all, err := documents(repository)
	require.NoError(t, err)
	for path, text := range all {
		written, err := os.ReadFile(filepath.Join(repository, path))
		require.NoError(t, err)
		assert.True(t, string(written) == text, "%s is not what is in the code; make generate writes it", path)
	}
}

// The description is made by reflection; this looks at it from the other side, from what is really printed.
func TestEveryFieldThatIsPrintedIsDescribed(t *testing.T) {
	one := []migrate.Finding{{Candidates: []migrate.Candidate{{For: []string{"x"}, Against: []string{"x"}}}}}
	step := migrate.Step{Subresource: "status", Precondition: migrate.Precondition{Generation: 1, Hash: "x", After: "x"}, Patch: []migrate.Operation{{Value: json.RawMessage("1")}}}
	object := migrate.ObjectRef{Namespace: "x", UID: "x"}
	plan := &migrate.Plan{
		Created: metav1.NewTime(time.Unix(0, 0)), Namespace: "x", Grants: []migrate.Step{step}, Findings: one,
		Units:    []migrate.Unit{{Cluster: "x", WorkspaceTemplateApply: &object, Workspace: &object, Evidence: []string{"x"}}},
		Storage:  []migrate.StorageItem{{ObjectRef: object, OwnerReferences: []metav1.OwnerReference{}}},
		Baseline: migrate.Baseline{Workspaces: []migrate.BaselineItem{{Generation: 1}}, WorkspaceTemplateApplies: []migrate.ObjectRef{object}},
	}
	require.NoError(t, plan.Seal())
	data, err := json.Marshal(plan)
	require.NoError(t, err)
	var printed any
	require.NoError(t, json.Unmarshal(data, &printed))
	schema, err := outputDocument(repository)
	require.NoError(t, err)
	for _, field := range names(printed) {
		assert.Contains(t, schema, "| `"+field+"` |")
	}
}

// names of all fields of a document.
func names(document any) (found []string) {
	switch document := document.(type) {
	case map[string]any:
		for name, value := range document {
			found = append(append(found, name), names(value)...)
		}
	case []any:
		for _, value := range document {
			found = append(found, names(value)...)
		}
	}
	return found
}
