// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// A preview must neither apply, destroy nor write a Secret, and must not be taken for the Workspace of its object.
func TestAPreviewOnlyObservesTheStateOfItsWorkspace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("out", ""))
		of := func(module string) *Rendered {
			rendered, errs := Workspace(Input{Apply: apply, Template: builder.WorkspaceTemplate("vpc", builder.WithScope(scope), builder.WithModule(module)), Name: "demo-vpc"})
			require.Empty(t, errs)
			return rendered
		}
		live := of("# 1").Object
		builder.AppliedBy(naming.WorkspaceTemplateApplyFieldManager)(live)
		builder.WithAnnotation(ExternalNameAnnotation, "recorded-state")(live)
		require.NoError(t, unstructured.SetNestedField(live.Object, "of another client", "spec", "forProvider", "entrypoint"))

		preview, err := of("# 2").Preview(live, apply)
		require.NoError(t, err)
		object := preview.Object
		spec := object.Object["spec"].(map[string]any)
		assert.Equal(t, []any{"Observe"}, spec["managementPolicies"])
		assert.NotContains(t, spec, "writeConnectionSecretToRef")
		assert.Equal(t, "# 2", spec["forProvider"].(map[string]any)["module"])
		assert.Equal(t, "of another client", spec["forProvider"].(map[string]any)["entrypoint"], "the update keeps it")
		assert.Equal(t, "recorded-state", object.GetAnnotations()[ExternalNameAnnotation])
		assert.NotContains(t, object.GetAnnotations(), naming.ClaimAnnotation)
		assert.NotEqual(t, live.GetName(), object.GetName())
		assert.Equal(t, live.GetNamespace(), object.GetNamespace())
		assert.Equal(t, live.GroupVersionKind(), object.GroupVersionKind())
		if scope == terraform.ScopeCluster {
			assert.Equal(t, "Orphan", spec["deletionPolicy"])
			assert.Empty(t, object.GetOwnerReferences())
		} else {
			assert.Equal(t, apply.UID, object.GetOwnerReferences()[0].UID)
		}

		assert.True(t, preview.IsUnchanged(object))
		looked := object.DeepCopy()
		builder.WithAnnotation(naming.PreviewLookAnnotation, "now")(looked)
		builder.AppliedBy(naming.WorkspaceTemplateApplyFieldManager)(looked)
		assert.True(t, preview.IsUnchanged(looked), "CAPT requested a plan")
		for name, change := range map[string]func(*unstructured.Unstructured){
			"it may apply": func(o *unstructured.Unstructured) {
				require.NoError(t, unstructured.SetNestedField(o.Object, []any{"*"}, "spec", "managementPolicies"))
			},
			"the field was pruned": func(o *unstructured.Unstructured) {
				unstructured.RemoveNestedField(o.Object, "spec", "managementPolicies")
			},
			"it writes a Secret": func(o *unstructured.Unstructured) {
				require.NoError(t, unstructured.SetNestedField(o.Object, "s", "spec", "writeConnectionSecretToRef", "name"))
			},
			"it was changed and restored": func(o *unstructured.Unstructured) { o.SetGeneration(3) },
			"another state":               func(o *unstructured.Unstructured) { builder.WithAnnotation(ExternalNameAnnotation, "other")(o) },
			"another content": func(o *unstructured.Unstructured) {
				require.NoError(t, unstructured.SetNestedField(o.Object, "# 3", "spec", "forProvider", "module"))
			},
		} {
			changed := object.DeepCopy()
			change(changed)
			assert.False(t, preview.IsUnchanged(changed), name)
		}
	}
}

// With -json, the provider does not keep errors, and without it, its log would have values.
func TestAPreviewHasTwoForms(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	for name, row := range map[string]struct{ args, without, with []any }{
		"none":     {nil, nil, []any{"-json"}},
		"others":   {[]any{"-parallelism=5"}, []any{"-parallelism=5"}, []any{"-parallelism=5", "-json"}},
		"with one": {[]any{"-json", "-parallelism=5"}, []any{"-parallelism=5"}, []any{"-parallelism=5", "-json"}},
		"only one": {[]any{"-json"}, nil, []any{"-json"}},
	} {
		rendered, errs := Workspace(Input{Apply: apply, Template: builder.WorkspaceTemplate("vpc"), Name: "demo-vpc"})
		require.Empty(t, errs)
		if row.args != nil {
			require.NoError(t, unstructured.SetNestedSlice(rendered.Object.Object, row.args, "spec", "forProvider", "planArgs"))
		}
		preview, err := rendered.Preview(rendered.Object, apply)
		require.NoError(t, err)
		logged := preview.WithLog()
		for form, want := range map[*Rendered][]any{preview: row.without, logged: row.with} {
			args, _, err := unstructured.NestedSlice(form.Object.Object, "spec", "forProvider", "planArgs")
			require.NoError(t, err)
			assert.Equal(t, want, args, name)
			logs, _, _ := unstructured.NestedBool(form.Object.Object, "spec", "forProvider", "enableTerraformCLILogging")
			assert.Equal(t, form == logged, logs, name)
			assert.Equal(t, form == logged, LogsPlan(form.Object), name)
			assert.True(t, preview.IsUnchanged(form.Object) && logged.IsUnchanged(form.Object) == (form == logged), name)
			pruned := form.Object.DeepCopy()
			unstructured.RemoveNestedField(pruned.Object, "spec", "forProvider", "enableTerraformCLILogging")
			assert.Equal(t, form != logged, preview.IsUnchanged(pruned), name)
		}
		assert.Equal(t, preview.Revision, logged.Revision, "a result of one is about the other")
	}
}
