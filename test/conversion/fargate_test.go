// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"maps"
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
  - {name: monitoring, ready: "True", workspaceTemplateApplyName: demo-monitoring-fargate-apply}
  - {name: Batch_1, ready: "False", workspaceTemplateApplyName: by-hand, failureReason: FargateProfileFailed, failureMessage: subnet not found}
  - {name: removed, ready: "False", workspaceTemplateApplyName: demo-removed-fargate-apply}
`

// field is a part of an object, which must be there.
func field(t *testing.T, object *unstructured.Unstructured, path ...string) []any {
	t.Helper()
	list, found, err := unstructured.NestedSlice(object.Object, path...)
	require.NoError(t, err)
	require.True(t, found, "%v", path)
	return list
}

// withBools returns Fargate profiles of v1beta2 as v1beta1 has them: ready is a bool.
func withBools(profiles []any) []any {
	converted := make([]any, 0, len(profiles))
	for _, profile := range profiles {
		profile := maps.Clone(profile.(map[string]any))
		profile["ready"] = profile["ready"] == "True"
		converted = append(converted, profile)
	}
	return converted
}

func TestFargateProfilesAreTheSameInBothVersions(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(fargate), &object.Object))
	object.SetGroupVersionKind(captControlPlane.in(hub).GroupVersion().WithKind(captControlPlane.name))
	namespace := shared.namespace(t)
	created := shared.create(t, namespace, object)[0]

	older := shared.read(t, created, spoke)
	require.Equal(t, withBools(field(t, object, "status", "fargateProfiles")), field(t, older, "status", "fargateProfileStatuses"))

	// A client edits them in v1beta1, which has no references.
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
	require.Equal(t, withBools(field(t, object, "status", "fargateProfiles")), field(t, shared.read(t, created, spoke), "status", "fargateProfileStatuses"))
}
