// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// legacyObjects reads objects that CAPT v0.3 and provider-terraform wrote. They are not part of this repository.
func legacyObjects(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	directory := os.Getenv("CAPT_REFERENCE")
	if directory == "" {
		directory = filepath.Join("..", "..", "..", "shared", "reference")
	}
	data, err := os.ReadFile(filepath.Join(directory, "legacy", file))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s has no objects of CAPT v0.3; set CAPT_REFERENCE to a directory that has", directory)
	}
	require.NoError(t, err)
	objects := map[string]map[string]any{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		data, err := json.Marshal(object)
		require.NoError(t, err)
		require.NoError(t, utiljson.Unmarshal(data, &object)) // Whole numbers are integers, as in what the API server returns.
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		objects[name] = object
	}
}

// legacyTemplate is a v1beta1 template in the terms of v1beta2: only the scope is new.
func legacyTemplate(t *testing.T, object map[string]any) *infrav1.WorkspaceTemplate {
	t.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, template))
	template.Spec.WorkspaceScope = terraform.ScopeCluster
	return template
}

// legacyApply is a v1beta1 WorkspaceTemplateApply in the terms of v1beta2: its spec is a part of the new one.
func legacyApply(t *testing.T, object map[string]any) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	// Conditions of CAPT v0.3 have no message.
	unstructured.RemoveNestedField(object, "status", "conditions")
	applied, _, err := unstructured.NestedBool(object, "status", "applied")
	require.NoError(t, err)
	unstructured.RemoveNestedField(object, "status", "applied")
	apply.Status.Applied = infrav1.ConditionStatus(applied)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, apply))
	return apply
}

// asStored fills in what the API server does for a cluster-wide Workspace.
func asStored(spec map[string]any) map[string]any {
	defaults := map[string]any{"deletionPolicy": "Delete", "managementPolicies": []any{"*"}}
	for name, value := range defaults {
		if _, ok := spec[name]; !ok {
			spec[name] = value
		}
	}
	forProvider := spec["forProvider"].(map[string]any)
	if _, ok := forProvider["entrypoint"]; !ok {
		forProvider["entrypoint"] = ""
	}
	return spec
}

// Adoption depends on it.
func TestALegacyWorkspaceIsRenderedAsByV03AndAdoptedWithoutAWrite(t *testing.T) {
	templates := legacyObjects(t, "workspacetemplate.yaml")
	workspaces := legacyObjects(t, "workspaces.yaml")
	seen := 0
	for name, object := range legacyObjects(t, "workspacetemplateapply.yaml") {
		apply := legacyApply(t, object)
		template, ok := templates[apply.Spec.TemplateRef.Name]
		if !ok {
			continue // The template never existed, so there is no Workspace.
		}
		workspace := workspaces[apply.Status.WorkspaceName]
		require.NotNil(t, workspace)
		seen++
		t.Run(name, func(t *testing.T) {
			input := render.Input{Apply: apply, Template: legacyTemplate(t, template), Name: apply.Status.WorkspaceName}
			rendered, errs := render.Workspace(input)
			require.Empty(t, errs)
			assert.Equal(t, workspace["spec"], asStored(rendered.Object.DeepCopy().Object["spec"].(map[string]any)))
			live := mustLive(t, &unstructured.Unstructured{Object: workspace})
			assert.False(t, live.Differs(rendered))
			assert.Equal(t, Owned, live.Owner(apply, rendered))

			apply.Spec.Variables, apply.Status = map[string]string{"cluster_name": "another"}, infrav1.WorkspaceTemplateApplyStatus{}
			apply.ObjectMeta = metav1.ObjectMeta{Namespace: apply.Namespace, Name: apply.Name}
			other, errs := render.Workspace(input)
			require.Empty(t, errs)
			if live.Differs(other) {
				assert.Equal(t, Foreign, live.Owner(apply, other))
			}
		})
	}
	assert.Equal(t, len(workspaces), seen, "every Workspace was compared")
}
