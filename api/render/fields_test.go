// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// allForProvider sets every field of forProvider, and namespaces as a cluster-scoped Workspace has them.
const allForProvider = `{
	"source": "Remote", "module": "git::https://example.com/vpc.git", "inlineFormat": "JSON", "entrypoint": "vpc",
	"vars": [{"key": "zones", "value": "[1]"}], "varmap": {"tags": {"a": 1}},
	"varFiles": [
		{"source": "ConfigMapKey", "configMapKeyRef": {"name": "c", "namespace": "default", "key": "c-key"}, "format": "JSON"},
		{"source": "SecretKey", "secretKeyRef": {"name": "s", "namespace": "default", "key": "s-key"}, "format": "HCL"}
	],
	"env": [
		{"name": "A", "value": "1"}, {"name": "B", "configMapKeyRef": {"name": "c", "namespace": "default", "key": "c-key"}},
		{"name": "C", "secretKeyRef": {"name": "s", "namespace": "default", "key": "s-key"}}
	],
	"initArgs": ["-upgrade"], "planArgs": ["-parallelism=2"], "applyArgs": ["-parallelism=3"], "destroyArgs": ["-parallelism=4"],
	"enableTerraformCLILogging": true, "remotePullPolicy": "Always"
}`

// allOfBothScopes sets all other fields that both scopes have.
const allOfBothScopes = `
	"managementPolicies": ["Observe", "Create"], "writeConnectionSecretToRef": {"name": "out", "namespace": "default"},
	"forProvider": ` + allForProvider

// allClusterScoped sets every field that a cluster-scoped Workspace has.
const allClusterScoped = `{
	"deletionPolicy": "Orphan", "providerConfigRef": {"name": "aws", "policy": {"resolution": "Required", "resolve": "Always"}},
	"publishConnectionDetailsTo": {
		"name": "entry", "configRef": {"name": "store", "kind": "StoreConfig", "policy": {"resolution": "Optional", "resolve": "IfNotPresent"}},
		"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}, "type": "Opaque"}
	}, ` + allOfBothScopes + `}`

// allNamespaced sets every field that a namespaced Workspace has.
const allNamespaced = `{"providerConfigRef": {"name": "aws", "kind": "ProviderConfig"}, ` + allOfBothScopes + `}`

func TestEveryFieldOfATemplateReachesTheWorkspace(t *testing.T) {
	set := map[string]bool{}
	for scope, row := range map[terraform.Scope]struct{ template, want string }{
		terraform.ScopeCluster:    {allClusterScoped, allClusterScoped},
		terraform.ScopeNamespaced: {allNamespaced, strings.ReplaceAll(allNamespaced, `, "namespace": "default"`, "")},
	} {
		t.Run(string(scope), func(t *testing.T) {
			rendered := rendering{template: []builder.Option{builder.WithScope(scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
				*spec = terraform.WorkspaceSpec{}
				require.NoError(t, json.Unmarshal([]byte(row.template), spec))
				require.Empty(t, spec.Unknown)
				require.Empty(t, spec.ForProvider.Unknown)
				addFields(set, reflect.ValueOf(spec), "spec")
			})}}.must(t)
			got, err := json.Marshal(rendered.Object.Object["spec"])
			require.NoError(t, err)
			assert.JSONEq(t, row.want, string(got))
		})
	}
	for path, isSet := range set {
		assert.True(t, isSet, "no template of this test sets %s", path)
	}
}

// addFields adds the fields of a value: whether they are set in any element of their lists.
func addFields(set map[string]bool, value reflect.Value, path string) {
	set[path] = set[path] || !value.IsZero()
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			addFields(set, value.Elem(), path)
		}
	case reflect.Slice:
		for i := range value.Len() {
			addFields(set, value.Index(i), path+"[]")
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ","); name != "-" {
				addFields(set, value.Field(i), path+"."+name)
			}
		}
	default: // Other kinds have no fields.
	}
}
