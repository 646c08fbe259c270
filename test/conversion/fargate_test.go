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

package conversion_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const fargate = `
metadata: {name: demo}
spec:
  version: v1.35.0
  workspaceTemplateRef: {name: eks}
  fargateProfiles:
  - {name: monitoring, selectors: [{namespace: one}], workspaceTemplateRef: {name: fargate}, workspaceTemplateApplyRef: {name: demo-monitoring-fargate-apply}}
  - {name: Batch_1, selectors: [{namespace: two, labels: {k: v}}], workspaceTemplateRef: {name: fargate, namespace: shared}, workspaceTemplateApplyRef: {name: by-hand}}
status:
  fargateProfiles:
  - {name: monitoring, ready: true, workspaceTemplateApplyName: demo-monitoring-fargate-apply}
  - {name: Batch_1, ready: false, workspaceTemplateApplyName: by-hand, failureReason: FargateProfileFailed, failureMessage: subnet not found}
  - {name: removed, ready: false, workspaceTemplateApplyName: demo-removed-fargate-apply}
`

// field is a part of an object, which must be there.
func field(t *testing.T, object *unstructured.Unstructured, path ...string) []any {
	t.Helper()
	list, found, err := unstructured.NestedSlice(object.Object, path...)
	require.NoError(t, err)
	require.True(t, found, "%v", path)
	return list
}

func TestFargateProfilesAreTheSameInBothVersions(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(fargate), &object.Object))
	object.SetGroupVersionKind(captControlPlane.in(hub).GroupVersion().WithKind(captControlPlane.name))
	namespace := shared.namespace(t)
	created := shared.create(t, namespace, object)[0]

	older := shared.read(t, created, spoke)
	require.Equal(t, field(t, object, "status", "fargateProfiles"), field(t, older, "status", "fargateProfileStatuses"))

	// Somebody edits them in v1beta1, which knows of no references.
	profiles := field(t, older, "spec", "additionalFargateProfiles")
	require.Equal(t, []any{
		map[string]any{"name": "monitoring", "selectors": []any{map[string]any{"namespace": "one"}}, "workspaceTemplateRef": map[string]any{"name": "fargate"}},
		map[string]any{"name": "Batch_1", "selectors": []any{map[string]any{"namespace": "two", "labels": map[string]any{"k": "v"}}}, "workspaceTemplateRef": map[string]any{"name": "fargate", "namespace": "shared"}},
	}, profiles)
	batch := profiles[1].(map[string]any)
	batch["selectors"] = []any{map[string]any{"namespace": "three"}}
	added := map[string]any{"name": "added", "selectors": []any{map[string]any{"namespace": "four"}}, "workspaceTemplateRef": map[string]any{"name": "fargate"}}
	require.NoError(t, unstructured.SetNestedSlice(older.Object, []any{batch, added}, "spec", "additionalFargateProfiles"))
	_, err := shared.objects.Resource(captControlPlane.in(spoke)).Namespace(namespace).Update(t.Context(), older, metav1.UpdateOptions{})
	require.NoError(t, err)

	newer := shared.read(t, created, hub)
	batch["workspaceTemplateApplyRef"] = map[string]any{"name": "by-hand"}
	require.Equal(t, []any{batch, added}, field(t, newer, "spec", "fargateProfiles"))
	require.Equal(t, field(t, object, "status", "fargateProfiles"), field(t, newer, "status", "fargateProfiles"))
	require.Equal(t, field(t, object, "status", "fargateProfiles"), field(t, shared.read(t, created, spoke), "status", "fargateProfileStatuses"))
}
