// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// rendering is an apply with a template, to be rendered to the Workspace "demo-vpc".
type rendering struct {
	apply    []builder.Option
	template []builder.Option
}

func (r rendering) input() render.Input {
	return render.Input{
		Apply:    builder.WorkspaceTemplateApply("demo-vpc", r.apply...),
		Template: builder.WorkspaceTemplate("vpc", r.template...),
		Name:     "demo-vpc",
	}
}

func (r rendering) must(t *testing.T) *render.Rendered {
	t.Helper()
	rendered, errs := render.Workspace(r.input())
	require.Empty(t, errs)
	return rendered
}

func params(change func(*terraform.WorkspaceParameters)) []builder.Option {
	return []builder.Option{builder.WithParameters(change)}
}

func varmap(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

func mustLive(t *testing.T, object *unstructured.Unstructured) *Live {
	t.Helper()
	live, err := newLive(object)
	require.NoError(t, err)
	return live
}

// asLive is what the API server has after it accepted a rendered Workspace.
func asLive(t *testing.T, rendered *render.Rendered) *unstructured.Unstructured {
	t.Helper()
	data, err := rendered.Object.MarshalJSON()
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(data))
	object.SetUID(builder.UID(terraform.WorkspaceKind, object.GetName()))
	object.SetGeneration(1)
	return object
}

func recording(object *unstructured.Unstructured, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply("demo-vpc", append([]builder.Option{builder.WithRecordedWorkspace(object)}, options...)...)
}
