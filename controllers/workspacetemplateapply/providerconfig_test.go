// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func inAccount(name, kind string) builder.Option {
	return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: name, Kind: kind}
	})
}

func inNoAccount() builder.Option {
	return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) { spec.ProviderConfigRef = nil })
}

// Another ProviderConfig is another account or backend: Terraform would find an empty state there, and create everything again.
func TestSafety02ProviderConfigOfALiveWorkspaceIsNeverChanged(t *testing.T) {
	edit := func(options ...builder.Option) func(w *world) { return func(w *world) { w.template(options...) } }
	for name, row := range map[string]struct {
		before     builder.Option
		change     func(w *world)
		is, wanted string
	}{
		"the template is edited":             {inAccount("one", ""), edit(inAccount("two", "")), "ClusterProviderConfig/one", "ClusterProviderConfig/two"},
		"with another change":                {inAccount("one", ""), edit(inAccount("two", ""), builder.WithModule("# new")), "ClusterProviderConfig/one", "ClusterProviderConfig/two"},
		"another kind":                       {inAccount("one", ""), edit(inAccount("one", "ProviderConfig")), "ClusterProviderConfig/one", "ProviderConfig/one"},
		"the reference is removed":           {inAccount("one", ""), edit(inNoAccount()), "ClusterProviderConfig/one", "ClusterProviderConfig/default"},
		"the default is replaced by another": {inNoAccount(), edit(inAccount("two", "")), "ClusterProviderConfig/default", "ClusterProviderConfig/two"},
		"a variable in its name": {inAccount("${cluster_name}", ""), func(w *world) {
			w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables = map[string]string{"cluster_name": "other"} })
		}, "ClusterProviderConfig/demo", "ClusterProviderConfig/other"},
		"another template": {inAccount("one", ""), func(w *world) {
			w.create(builder.WorkspaceTemplate("other", inAccount("two", "")))
			w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" })
		}, "ClusterProviderConfig/one", "ClusterProviderConfig/two"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc", row.before), builder.WorkspaceTemplateApply("demo-vpc"))
			w.rest("demo-vpc")
			before := w.workspace("demo-vpc").Object["spec"]

			row.change(w)
			assert.Equal(t, []string{"status"}, w.mustReconcile("demo-vpc"))
			assert.Equal(t, before, w.workspace("demo-vpc").Object["spec"])
			assert.Contains(t, w.ready("demo-vpc"), "False ProviderConfigConflict: Workspace demo-vpc uses ProviderConfig "+row.is+", and providerConfigRef of the template is now "+row.wanted)
			assert.Contains(t, w.ready("demo-vpc"), "capt.cluster.x-k8s.io/allow-provider-config="+row.wanted)

			w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[naming.AllowProviderConfigAnnotation] = "true" })
			assert.NotContains(t, w.mustReconcile("demo-vpc"), "apply Workspace", "it must name the ProviderConfig")

			w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				a.Annotations[naming.AllowProviderConfigAnnotation] = row.wanted
			})
			assert.Contains(t, w.mustReconcile("demo-vpc"), "apply Workspace")
		})
	}
}

func TestTheDefaultProviderConfigDoesNotConflict(t *testing.T) {
	for name, row := range map[string]struct {
		live map[string]any
		want builder.Option
	}{
		"the definition filled it in":   {map[string]any{"name": "default", "kind": "ClusterProviderConfig"}, inNoAccount()},
		"the template says the default": {map[string]any{"name": "default", "kind": "ClusterProviderConfig"}, inAccount("default", "")},
		"nothing filled it in":          {nil, inAccount("default", "ClusterProviderConfig")},
	} {
		t.Run(name, func(t *testing.T) {
			adopted := builder.Workspace("demo-vpc", builder.AtRest, builder.With(func(workspace *unstructured.Unstructured) {
				spec := workspace.Object["spec"].(map[string]any)
				delete(spec, "providerConfigRef")
				if row.live != nil {
					spec["providerConfigRef"] = row.live
				}
			}))
			w := newWorld(t, builder.WorkspaceTemplate("vpc", row.want), adopted,
				builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"), builder.WithRecordedWorkspace(adopted)))
			w.mustReconcile("demo-vpc") // It is held.
			assert.Contains(t, w.mustReconcile("demo-vpc"), "apply Workspace")
			assert.NotContains(t, w.ready("demo-vpc"), infrav1.ProviderConfigConflictReason)
		})
	}
}

// The cluster scope has no kind.
func TestAnAdoptedWorkspaceKeepsItsProviderConfig(t *testing.T) {
	adopted := builder.Workspace("demo", builder.AtRest, builder.InClusterScope(), builder.With(func(workspace *unstructured.Unstructured) {
		workspace.Object["spec"].(map[string]any)["providerConfigRef"] = map[string]any{"name": "legacy"}
	}))
	w := newWorld(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster), inAccount("default", "")), adopted,
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo"), builder.WithRecordedWorkspace(adopted)))
	w.mustReconcile("demo-vpc")
	assert.NotContains(t, w.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Contains(t, w.ready("demo-vpc"), "uses ProviderConfig legacy, and providerConfigRef of the template is now default:")
}
