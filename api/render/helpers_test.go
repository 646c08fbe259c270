// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// rendering is an apply with a template, to be rendered to the Workspace "demo-vpc".
type rendering struct {
	apply    []builder.Option
	template []builder.Option
}

func (r rendering) input() Input {
	return Input{
		Apply:    builder.WorkspaceTemplateApply("demo-vpc", r.apply...),
		Template: builder.WorkspaceTemplate("vpc", r.template...),
		Name:     "demo-vpc",
	}
}

func (r rendering) must(t *testing.T) *Rendered {
	t.Helper()
	rendered, errs := Workspace(r.input())
	require.Empty(t, errs)
	return rendered
}

func variables(pairs ...string) []builder.Option {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return []builder.Option{builder.WithVariables(m)}
}

func params(change func(*terraform.WorkspaceParameters)) []builder.Option {
	return []builder.Option{builder.WithParameters(change)}
}

// at returns a value within a rendered Workspace.
func at(t *testing.T, rendered *Rendered, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(rendered.Object.Object, path...)
	require.NoError(t, err)
	return value
}

func varmap(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// asLive is what the API server has after it accepted a rendered Workspace.
func asLive(t *testing.T, rendered *Rendered) *unstructured.Unstructured {
	t.Helper()
	data, err := rendered.Object.MarshalJSON()
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(data))
	return object
}
