// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A manifest in v1beta1, without the annotation in which conversion carries what v1beta1 has no words for, says nothing of it.
func TestFieldsThatAnOlderManifestCannotExpressAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	today := document("WorkspaceTemplate", "vpc", `{workspaceScope: Namespaced, allowedNamespaces: {names: [shop]}, publishOutputs: [words],
		template: {spec: {deletionPolicy: Delete, managementPolicies: ["*"], providerConfigRef: {kind: ClusterProviderConfig, name: aws}, forProvider: {source: Inline, module: ""}}}}`)
	w.apply(today)
	before := w.object(today)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(before), before))
	older := legacyDocument("WorkspaceTemplate", "vpc", `{template: {spec: {providerConfigRef: {name: aws}, forProvider: {source: Inline, module: "locals {}"}}}}`)
	w.apply(strings.Replace(older, "{name: vpc}", "{name: vpc, annotations: {cluster.x-k8s.io/conversion-data: ''}}", 1))

	now := w.object(today)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(now), now))
	for _, field := range []string{"workspaceScope", "allowedNamespaces", "publishOutputs"} {
		require.Equal(t, before.Object["spec"].(map[string]any)[field], now.Object["spec"].(map[string]any)[field], field)
	}
	spec := now.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	require.Equal(t, "ClusterProviderConfig", spec["providerConfigRef"].(map[string]any)["kind"])
	require.Equal(t, "locals {}", spec["forProvider"].(map[string]any)["module"], "what it can say, it says")
}
