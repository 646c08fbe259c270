// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func key(namespace string) *terraform.KeyReference {
	return &terraform.KeyReference{Name: "n", Key: "k", Namespace: namespace}
}

// renderReference renders, for the namespace "team", a template of the namespace "shared" with a changed spec.
func renderReference(scope terraform.Scope, change func(*terraform.WorkspaceSpec)) (*Rendered, []string) {
	rendered, errs := Workspace(rendering{
		apply: []builder.Option{builder.WithNamespace("team"), builder.WithVariables(map[string]string{
			"cluster_name": "demo", "mine": "team", "theirs": "shared", "strangers": "other", "any": "n", "half": "red",
			"all": "GitRepository::shared/modules", "colons": "team::shared", "slashes": "team/../shared/modules",
		})},
		template: []builder.Option{builder.WithNamespace("shared"), builder.WithScope(scope), builder.WithWorkspaceSpec(change)},
	}.input())
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return rendered, fields
}

func typed(t *testing.T, rendered *Rendered) *terraform.WorkspaceSpec {
	t.Helper()
	workspace := &terraform.Workspace{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(rendered.Object.Object, workspace))
	return &workspace.Spec
}

// referring has every kind of reference.
func referring(spec *terraform.WorkspaceSpec) []terraform.Reference {
	spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "ConfigMapKey", ConfigMapKeyRef: key("")}, {Source: "SecretKey", SecretKeyRef: key("")}}
	spec.ForProvider.Env = []terraform.EnvVar{{Name: "A", ConfigMapKeyRef: key("")}, {Name: "B", SecretKeyRef: key("")}}
	spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "out"}
	return spec.References(field.NewPath("spec", "template", "spec"))
}

// A namespaced Workspace can refer only to its own namespace, which is the default. A cluster-scoped Workspace can refer to the namespace
// of its WorkspaceTemplateApply and, without placeholders, to the namespace of its template.
func TestNamespacesOfReferences(t *testing.T) {
	refused := "refused"
	for namespace, want := range map[string]map[terraform.Scope]string{
		"":             {terraform.ScopeNamespaced: "", terraform.ScopeCluster: "team"},
		"team":         {terraform.ScopeNamespaced: "", terraform.ScopeCluster: "team"},
		"${mine}":      {terraform.ScopeNamespaced: "", terraform.ScopeCluster: "team"},
		"shared":       {terraform.ScopeNamespaced: refused, terraform.ScopeCluster: "shared"},
		"other":        {terraform.ScopeNamespaced: refused, terraform.ScopeCluster: refused},
		"${theirs}":    {terraform.ScopeNamespaced: refused, terraform.ScopeCluster: refused},
		"${strangers}": {terraform.ScopeNamespaced: refused, terraform.ScopeCluster: refused},
		"${unknown}":   {terraform.ScopeNamespaced: refused, terraform.ScopeCluster: refused},
	} {
		for scope, want := range want {
			for i, reference := range referring(&terraform.WorkspaceSpec{}) {
				t.Run(fmt.Sprintf("%s/%s in %s", scope, reference.Path, namespace), func(t *testing.T) {
					rendered, fields := renderReference(scope, func(spec *terraform.WorkspaceSpec) { *referring(spec)[i].Namespace = namespace })
					if want == refused {
						assert.Equal(t, []string{reference.Path.Child("namespace").String()}, fields)
						return
					}
					require.Empty(t, fields)
					assert.Equal(t, want, *typed(t, rendered).References(nil)[i].Namespace)
				})
			}
		}
	}
}

// Otherwise a tenant could overwrite any Secret in the namespace of the template with outputs.
func TestConnectionSecretOfTheApplyMustBeInItsNamespace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		for namespace, legal := range map[string]bool{"": true, "team": true, "shared": false, "other": false} {
			_, errs := Workspace(rendering{
				apply: []builder.Option{builder.WithNamespace("team"), builder.WithConnectionSecret("any", namespace)},
				template: []builder.Option{builder.WithNamespace("shared"), builder.WithScope(scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
					// The reference in the template is ignored, even if it would be permitted.
					spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "out", Namespace: "shared"}
				})},
			}.input())
			assert.Equal(t, legal, len(errs) == 0, "%s scope, namespace %q: %v", scope, namespace, errs)
		}
	}
}

// CAPT v0.3 allowed connection Secrets in any namespace. An adopted Workspace keeps its Secret, but cannot get another one.
func TestConnectionSecretOfAnAdoptedWorkspaceKeepsItsNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		scope terraform.Scope
		live  *terraform.SecretReference
		legal bool
	}{
		"the same":          {terraform.ScopeCluster, &terraform.SecretReference{Name: "out", Namespace: "other"}, true},
		"another name":      {terraform.ScopeCluster, &terraform.SecretReference{Name: "in", Namespace: "other"}, false},
		"another namespace": {terraform.ScopeCluster, &terraform.SecretReference{Name: "out", Namespace: "shared"}, false},
		"none":              {terraform.ScopeCluster, nil, false},
		"namespaced":        {terraform.ScopeNamespaced, &terraform.SecretReference{Name: "out", Namespace: "other"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := rendering{
				apply:    []builder.Option{builder.WithNamespace("team"), builder.WithConnectionSecret("out", "other")},
				template: []builder.Option{builder.WithNamespace("shared"), builder.WithScope(tc.scope)},
			}.input()
			in.Recorded = &terraform.WorkspaceSpec{WriteConnectionSecretToRef: tc.live}
			rendered, errs := Workspace(in)
			require.Equal(t, tc.legal, len(errs) == 0, "%v", errs)
			if tc.legal {
				assert.Equal(t, tc.live, typed(t, rendered).WriteConnectionSecretToRef)
			}
		})
	}
}

// A template of CAPT v0.3 could refer to any namespace. An adopted Workspace keeps its references, but cannot get others.
func TestReferencesOfAnAdoptedWorkspaceAreAccepted(t *testing.T) {
	reads := func(name string) *terraform.WorkspaceSpec {
		ref := key("other")
		ref.Name = name
		return &terraform.WorkspaceSpec{ForProvider: terraform.WorkspaceParameters{VarFiles: []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: ref}}}}
	}
	configMap := reads("n")
	file := &configMap.ForProvider.VarFiles[0]
	file.Source, file.ConfigMapKeyRef, file.SecretKeyRef = "ConfigMapKey", file.SecretKeyRef, nil
	for name, tc := range map[string]struct {
		recorded *terraform.WorkspaceSpec
		legal    bool
	}{
		"the same":        {reads("n"), true},
		"a ConfigMap":     {configMap, false},
		"another Secret":  {reads("another"), false},
		"nothing":         {nil, false},
		"written, unread": {&terraform.WorkspaceSpec{WriteConnectionSecretToRef: &terraform.SecretReference{Name: "n/k", Namespace: "other"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := rendering{template: []builder.Option{builder.WithScope(terraform.ScopeCluster), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
				spec.ForProvider.VarFiles = reads("n").ForProvider.VarFiles
			})}}.input()
			in.Recorded = tc.recorded
			_, errs := Workspace(in)
			require.Equal(t, tc.legal, len(errs) == 0, "%v", errs)
		})
	}
}

func TestEveryReferenceToAnotherNamespaceIsReported(t *testing.T) {
	_, errs := Workspace(rendering{template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "out", Namespace: "other"}
		spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: key("other")}}
		spec.ForProvider.Env = []terraform.EnvVar{{Name: "A", SecretKeyRef: key("other")}}
	})}}.input())
	require.Len(t, errs, 3)
	assert.Contains(t, errs[0].Detail, `must be "default", the namespace of the WorkspaceTemplateApply. Remove the field`)
}

func TestFieldsOfTheClusterScopeAreRemovedInANamespace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		spec := typed(t, rendering{template: []builder.Option{builder.WithScope(scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.DeletionPolicy = terraform.DeletionDelete
			spec.PublishConnectionDetailsTo = &terraform.PublishConnectionDetailsTo{Name: "x"}
			spec.ProviderConfigRef.Policy = &terraform.ReferencePolicy{Resolve: "Always"}
		})}}.must(t))
		wide := scope == terraform.ScopeCluster
		assert.Equal(t, wide, spec.DeletionPolicy == terraform.DeletionDelete)
		assert.Equal(t, wide, spec.PublishConnectionDetailsTo != nil)
		assert.Equal(t, wide, spec.ProviderConfigRef.Policy != nil)
		assert.Empty(t, spec.ManagementPolicies, "Delete is the default of both scopes")
	}
}

func TestOrphanIsConvertedToManagementPoliciesInANamespace(t *testing.T) {
	for name, row := range map[string]struct{ given, want []terraform.ManagementAction }{
		"absent":     {nil, []terraform.ManagementAction{"Observe", "Create", "Update", "LateInitialize"}},
		"everything": {[]terraform.ManagementAction{"*"}, []terraform.ManagementAction{"Observe", "Create", "Update", "LateInitialize"}},
		"a few":      {[]terraform.ManagementAction{"Observe", "Delete", "Update"}, []terraform.ManagementAction{"Observe", "Update"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := typed(t, rendering{template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
				spec.DeletionPolicy, spec.ManagementPolicies = terraform.DeletionOrphan, row.given
			})}}.must(t))
			assert.Equal(t, row.want, spec.ManagementPolicies)
			assert.Empty(t, spec.DeletionPolicy)
		})
	}
	orphan := builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) { spec.DeletionPolicy = terraform.DeletionOrphan })
	wide := typed(t, rendering{template: []builder.Option{builder.WithScope(terraform.ScopeCluster), orphan}}.must(t))
	assert.Equal(t, terraform.DeletionOrphan, wide.DeletionPolicy, "the cluster scope has the field")
}

func TestKindOfTheProviderConfig(t *testing.T) {
	for name, row := range map[string]struct {
		scope       terraform.Scope
		given, want string
	}{
		"namespaced, by default":       {terraform.ScopeNamespaced, "", "ClusterProviderConfig"},
		"namespaced, explicit":         {terraform.ScopeNamespaced, "ProviderConfig", "ProviderConfig"},
		"cluster-wide, which has none": {terraform.ScopeCluster, "ProviderConfig", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := typed(t, rendering{template: []builder.Option{builder.WithScope(row.scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
				spec.ProviderConfigRef.Kind = row.given
			})}}.must(t))
			assert.Equal(t, row.want, spec.ProviderConfigRef.Kind)
		})
	}
}

func TestReferencesToTheNamespaceOfTheTemplateMustBeLiteral(t *testing.T) {
	for _, row := range []struct {
		namespace, name, key string
		legal                bool
	}{{"shared", "any", "k", true}, {"shared", "${any}", "k", false}, {"shared", "any", "${any}", false}, {"sha${half}", "any", "k", false}} {
		_, fields := renderReference(terraform.ScopeCluster, func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Namespace: row.namespace, Name: row.name, Key: row.key}}}
		})
		assert.Equal(t, row.legal, len(fields) == 0, "%+v: %v", row, fields)
	}
}

func TestFluxSourceIsInTheNamespaceOfTheApplyOrLiteral(t *testing.T) {
	for module, legal := range map[string]bool{
		"GitRepository::team/modules": true, "GitRepository::${mine}/modules": true, "GitRepository::shared/modules": true,
		"GitRepository::other/modules": false, "GitRepository::${theirs}/modules": false, "GitRepository::shared/${mine}": false, "modules": false,
		"${all}": false, "GitRepository::${colons}/modules": false, "GitRepository::${slashes}": false,
	} {
		for _, scope := range terraform.Scopes() {
			_, fields := renderReference(scope, func(spec *terraform.WorkspaceSpec) {
				spec.ForProvider.Source, spec.ForProvider.Module = terraform.SourceFlux, module
			})
			assert.Equal(t, legal, len(fields) == 0, "%s: %v", module, fields)
		}
	}
}
