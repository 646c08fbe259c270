// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// future is a spec with unknown fields at both levels, as a later provider-terraform may have.
const future = `{
  "deletionPolicy": "Orphan",
  "futureOfSpec": {"list": [1, "two", null], "on": true},
  "forProvider": {
    "source": "Inline",
    "module": "",
    "vars": [{"key": "a", "value": ""}],
    "futureOfParameters": "kept",
    "futureNumber": 12
  }
}`

func decode(t *testing.T, text string) terraform.WorkspaceSpec {
	t.Helper()
	var spec terraform.WorkspaceSpec
	require.NoError(t, json.Unmarshal([]byte(text), &spec))
	return spec
}

func TestUnknownFieldsAreKeptAtBothLevels(t *testing.T) {
	spec := decode(t, future)
	assert.Equal(t, terraform.DeletionOrphan, spec.DeletionPolicy)
	assert.Equal(t, []terraform.Var{{Key: "a"}}, spec.ForProvider.Vars)
	assert.Len(t, spec.Unknown, 1)
	assert.Contains(t, spec.Unknown, "futureOfSpec")
	assert.Len(t, spec.ForProvider.Unknown, 2)
}

func TestUnknownFieldsSurviveTheUnstructuredConverterBothWays(t *testing.T) {
	template := &infrav1.WorkspaceTemplate{}
	template.Spec.Template.Spec = decode(t, future)

	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	require.NoError(t, err)
	again := &infrav1.WorkspaceTemplate{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, again))

	text, err := json.Marshal(again.Spec.Template.Spec)
	require.NoError(t, err)
	assert.JSONEq(t, future, string(text))
}

func TestDeepCopyDoesNotShareUnknownFields(t *testing.T) {
	spec := decode(t, future)
	copied := spec.DeepCopy()
	copy(spec.Unknown["futureOfSpec"].Raw, "XXXX")
	copy(spec.ForProvider.Unknown["futureOfParameters"].Raw, "XXXX")

	text, err := json.Marshal(copied)
	require.NoError(t, err)
	assert.JSONEq(t, future, string(text))
}

func TestKnownFieldTakesPrecedenceOverAnUnknownOne(t *testing.T) {
	spec := terraform.WorkspaceSpec{
		DeletionPolicy: terraform.DeletionDelete,
		Unknown:        terraform.UnknownFields{"deletionPolicy": runtime.RawExtension{Raw: []byte(`"Orphan"`)}},
	}
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	assert.JSONEq(t, `{"deletionPolicy": "Delete"}`, string(text))
}

func TestDecodingReplacesUnknownFields(t *testing.T) {
	spec := decode(t, future)
	require.NoError(t, json.Unmarshal([]byte(`{"forProvider": {"source": "Remote", "module": "m"}}`), &spec))
	assert.Nil(t, spec.Unknown)
	assert.Nil(t, spec.ForProvider.Unknown)
}

func TestDecodingANonObjectIsAnError(t *testing.T) {
	for _, text := range []string{`[]`, `"text"`, `{"forProvider": []}`} {
		require.Error(t, json.Unmarshal([]byte(text), &terraform.WorkspaceSpec{}), text)
	}
}

func TestKindsOfBothScopes(t *testing.T) {
	assert.Equal(t, "tf.m.upbound.io/v1beta1, Kind=Workspace", terraform.ScopeNamespaced.GroupVersionKind().String())
	assert.Equal(t, "tf.upbound.io/v1beta1, Kind=Workspace", terraform.ScopeCluster.GroupVersionKind().String())
	assert.Equal(t, terraform.ScopeNamespaced.GroupVersionKind(), terraform.Scope("").GroupVersionKind(), "the default is Namespaced")
}

func TestPublishedOutputsAreNotSecret(t *testing.T) {
	assert.NotContains(t, terraform.PublishedOutputs(), terraform.OutputKubeconfig)
	assert.NotContains(t, terraform.PublishedOutputs(), terraform.OutputClusterCA)
}
