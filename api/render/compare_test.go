// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/api/render"
)

// Differences are printed, logged in pipelines and stored in ConfigMaps that users without access to Workspaces can read.
func TestDifferencesOmitSecrets(t *testing.T) {
	list := func(elements ...map[string]any) []any {
		out := make([]any, len(elements))
		for i := range elements {
			out[i] = elements[i]
		}
		return out
	}
	variable := func(key, value string) map[string]any { return map[string]any{"key": key, "value": value} }
	env := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	reference := func(name, secret string) map[string]any {
		return map[string]any{"name": name, "secretKeyRef": map[string]any{"name": secret, "key": "k"}}
	}
	for name, row := range map[string]struct {
		field          string
		live, rendered any
		want           []render.Difference
	}{
		"one variable of several": {
			"vars", list(variable("region", "eu-west-1"), variable("kubernetes_version", "1.31")), list(variable("region", "eu-west-1"), variable("kubernetes_version", "1.32")),
			[]render.Difference{{Field: "spec.forProvider.vars[kubernetes_version]", Live: "1.31", Rendered: "1.32"}},
		},
		"a variable that is added": {
			"vars", nil, list(variable("zones", "[1]")), []render.Difference{{Field: "spec.forProvider.vars[zones]", Rendered: "[1]"}},
		},
		"a variable that is a secret by its name": {
			"vars", list(variable("db_password", "hunter2")), list(variable("db_password", "hunter3")),
			[]render.Difference{{Field: "spec.forProvider.vars[db_password]", Live: "[redacted]", Rendered: "[redacted]"}},
		},
		"a variable that is a secret by its value": {
			"vars", list(variable("x", "ghp_hunter2hunter2hunter2")), list(variable("x", "plain")),
			[]render.Difference{{Field: "spec.forProvider.vars[x]", Live: "[redacted]", Rendered: "plain"}},
		},
		"a secret in a document": {
			"vars", list(variable("rds", `{"password":"hunter2","size":1}`)), list(variable("rds", `{"password":"hunter2","size":2}`)),
			[]render.Difference{{Field: "spec.forProvider.vars[rds]", Live: `{"password":"[redacted]","size":1}`, Rendered: `{"password":"[redacted]","size":2}`}},
		},
		"only the order of variables": {
			"vars", list(variable("a", "hunter2"), variable("b", "2")), list(variable("b", "2"), variable("a", "hunter2")),
			[]render.Difference{{Field: "spec.forProvider.vars", Live: []string{"a", "b"}, Rendered: []string{"b", "a"}}},
		},
		"an environment variable": {
			"env", list(env("TF_LOG", "hunter2")), list(env("TF_LOG", "hunter3")),
			[]render.Difference{{Field: "spec.forProvider.env[TF_LOG]", Live: "[omitted]", Rendered: "[omitted]"}},
		},
		"an environment variable from a Secret": {
			"env", list(env("TF_LOG", "hunter2")), list(reference("TF_LOG", "s")), []render.Difference{{
				Field: "spec.forProvider.env[TF_LOG]", Live: "[omitted]",
				Rendered: map[string]any{"name": "TF_LOG", "secretKeyRef": map[string]any{"name": "s", "key": "k"}},
			}},
		},
		"a map of variables": {
			"varmap", map[string]any{"api_key": "hunter2"}, map[string]any{"api_key": "hunter3"},
			[]render.Difference{{Field: "spec.forProvider.varmap.api_key", Live: "[redacted]", Rendered: "[redacted]"}},
		},
		"arguments": {
			"planArgs", []any{"-var=password=hunter2"}, []any{"-parallelism=2"},
			[]render.Difference{{Field: "spec.forProvider.planArgs", Live: []any{"-var=password=[redacted]"}, Rendered: []any{"-parallelism=2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := func(value any) *unstructured.Unstructured {
				parameters := map[string]any{"module": "x"}
				if value != nil {
					parameters[row.field] = value
				}
				return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": parameters}}}
			}
			got := render.Differences(workspace(row.live), &render.Rendered{Object: workspace(row.rendered)})
			assert.Equal(t, row.want, got)
			data, err := json.Marshal(got)
			require.NoError(t, err)
			assert.NotContains(t, string(data), "hunter")
		})
	}
}
