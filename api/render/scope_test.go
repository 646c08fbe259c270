// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// referenceKinds lists every place of a template that names a Secret or ConfigMap: how to put a namespace there, where it
// is reported, and where it is rendered to.
var referenceKinds = map[string]struct {
	set  func(spec *terraform.WorkspaceSpec, namespace string)
	path string
	get  func(spec *terraform.WorkspaceSpec) string
}{
	"varFiles, ConfigMap": {
		func(s *terraform.WorkspaceSpec, ns string) {
			s.ForProvider.VarFiles = []terraform.VarFile{{Source: "ConfigMapKey", ConfigMapKeyRef: key(ns)}}
		}, "forProvider.varFiles[0].configMapKeyRef.namespace",
		func(s *terraform.WorkspaceSpec) string { return s.ForProvider.VarFiles[0].ConfigMapKeyRef.Namespace },
	},
	"varFiles, Secret": {
		func(s *terraform.WorkspaceSpec, ns string) {
			s.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: key("")}, {Source: "SecretKey", SecretKeyRef: key(ns)}}
		}, "forProvider.varFiles[1].secretKeyRef.namespace",
		func(s *terraform.WorkspaceSpec) string { return s.ForProvider.VarFiles[1].SecretKeyRef.Namespace },
	},
	"env, ConfigMap": {
		func(s *terraform.WorkspaceSpec, ns string) {
			s.ForProvider.Env = []terraform.EnvVar{{Name: "A", ConfigMapKeyRef: key(ns)}}
		}, "forProvider.env[0].configMapKeyRef.namespace",
		func(s *terraform.WorkspaceSpec) string { return s.ForProvider.Env[0].ConfigMapKeyRef.Namespace },
	},
	"env, Secret": {
		func(s *terraform.WorkspaceSpec, ns string) {
			s.ForProvider.Env = []terraform.EnvVar{{Name: "A", SecretKeyRef: key(ns)}}
		}, "forProvider.env[0].secretKeyRef.namespace",
		func(s *terraform.WorkspaceSpec) string { return s.ForProvider.Env[0].SecretKeyRef.Namespace },
	},
	"writeConnectionSecretToRef": {
		func(s *terraform.WorkspaceSpec, ns string) {
			s.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "out", Namespace: ns}
		}, "writeConnectionSecretToRef.namespace",
		func(s *terraform.WorkspaceSpec) string { return s.WriteConnectionSecretToRef.Namespace },
	},
}

func key(namespace string) *terraform.KeyReference {
	return &terraform.KeyReference{Name: "n", Key: "k", Namespace: namespace}
}

// renderReference renders, for the namespace "team", a template of the namespace "shared" whose reference names a namespace.
func renderReference(scope terraform.Scope, set func(*terraform.WorkspaceSpec, string), namespace string) (*Rendered, []string) {
	rendered, errs := Workspace(rendering{
		apply: []builder.Option{builder.WithNamespace("team"), builder.WithVariables(map[string]string{
			"cluster_name": "demo", "mine": "team", "theirs": "shared", "strangers": "other", "any": "n", "half": "red",
			"all": "GitRepository::shared/modules", "colons": "team::shared", "slashes": "team/../shared/modules",
		})},
		template: []builder.Option{builder.WithNamespace("shared"), builder.WithScope(scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			set(spec, namespace)
		})},
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

func TestANamespacedWorkspaceRefersToItsOwnNamespaceOnly(t *testing.T) {
	for kind, reference := range referenceKinds {
		for namespace, legal := range map[string]bool{
			"": true, "team": true, "${mine}": true,
			"shared": false, "other": false, "${theirs}": false, "${strangers}": false, "${unknown}": false,
		} {
			t.Run(kind+" in "+namespace, func(t *testing.T) {
				rendered, fields := renderReference(terraform.ScopeNamespaced, reference.set, namespace)
				if !legal {
					assert.Equal(t, []string{"spec.template.spec." + reference.path}, fields)
					return
				}
				require.Empty(t, fields)
				assert.Empty(t, reference.get(typed(t, rendered)), "the namespace is implied")
			})
		}
	}
}

func TestAClusterWideWorkspaceRefersToTheNamespaceOfItsApplyOrWhatTheTemplateSaysOfItsOwn(t *testing.T) {
	for kind, reference := range referenceKinds {
		for namespace, want := range map[string]string{
			"": "team", "team": "team", "${mine}": "team", "shared": "shared",
			"other": "", "${theirs}": "", "${strangers}": "", "${unknown}": "",
		} {
			t.Run(kind+" in "+namespace, func(t *testing.T) {
				rendered, fields := renderReference(terraform.ScopeCluster, reference.set, namespace)
				if want == "" {
					assert.Equal(t, []string{"spec.template.spec." + reference.path}, fields)
					return
				}
				require.Empty(t, fields)
				assert.Equal(t, want, reference.get(typed(t, rendered)))
			})
		}
	}
}

// Otherwise a tenant could have the outputs written over any Secret of the template's namespace.
func TestTheApplysOwnConnectionSecretIsInItsOwnNamespace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		for namespace, legal := range map[string]bool{"": true, "team": true, "shared": false, "other": false} {
			_, errs := Workspace(rendering{
				apply: []builder.Option{builder.WithNamespace("team"), builder.WithConnectionSecret("any", namespace)},
				template: []builder.Option{builder.WithNamespace("shared"), builder.WithScope(scope), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
					// The template's own reference is of no consequence, even when it is one that would be permitted.
					spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "out", Namespace: "shared"}
				})},
			}.input())
			assert.Equal(t, legal, len(errs) == 0, "%s scope, namespace %q: %v", scope, namespace, errs)
		}
	}
}

// CAPT v0.3 wrote connection Secrets into any namespace. What an adopted Workspace writes, it goes on writing, and nothing else.
func TestTheConnectionSecretOfAnAdoptedWorkspaceStaysWhereItIs(t *testing.T) {
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

// A template of CAPT v0.3 could name any namespace. What an adopted Workspace reads already, it may go on reading, and nothing else.
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

func TestWhatOnlyTheClusterScopeHasDoesNotReachANamespacedWorkspace(t *testing.T) {
	spec := typed(t, rendering{template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.DeletionPolicy = terraform.DeletionDelete
		spec.PublishConnectionDetailsTo = &terraform.PublishConnectionDetailsTo{Name: "x"}
		spec.ProviderConfigRef.Policy = &terraform.ReferencePolicy{Resolve: "Always"}
	})}}.must(t))
	assert.Empty(t, spec.DeletionPolicy)
	assert.Nil(t, spec.PublishConnectionDetailsTo)
	assert.Nil(t, spec.ProviderConfigRef.Policy)
	assert.Empty(t, spec.ManagementPolicies, "Delete is the default of both scopes")
}

func TestWhatOnlyTheClusterScopeHasReachesAClusterWideWorkspace(t *testing.T) {
	spec := typed(t, rendering{template: []builder.Option{builder.WithScope(terraform.ScopeCluster), builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.DeletionPolicy = terraform.DeletionOrphan
		spec.PublishConnectionDetailsTo = &terraform.PublishConnectionDetailsTo{Name: "x"}
		spec.ProviderConfigRef.Policy = &terraform.ReferencePolicy{Resolve: "Always"}
	})}}.must(t))
	assert.Equal(t, terraform.DeletionOrphan, spec.DeletionPolicy)
	assert.NotNil(t, spec.PublishConnectionDetailsTo)
	assert.NotNil(t, spec.ProviderConfigRef.Policy)
}

func TestOrphanBecomesManagementWithoutDeleteInANamespace(t *testing.T) {
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
}

func TestTheKindOfTheProviderConfig(t *testing.T) {
	for name, row := range map[string]struct {
		scope       terraform.Scope
		given, want string
	}{
		"namespaced, by default":       {terraform.ScopeNamespaced, "", "ClusterProviderConfig"},
		"namespaced, as given":         {terraform.ScopeNamespaced, "ProviderConfig", "ProviderConfig"},
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

func TestWhatTheTemplateSaysOfItsOwnNamespaceMustBeLiteralAltogether(t *testing.T) {
	for _, row := range []struct {
		namespace, name, key string
		legal                bool
	}{{"shared", "any", "k", true}, {"shared", "${any}", "k", false}, {"shared", "any", "${any}", false}, {"sha${half}", "any", "k", false}} {
		_, fields := renderReference(terraform.ScopeCluster, func(spec *terraform.WorkspaceSpec, _ string) {
			spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Namespace: row.namespace, Name: row.name, Key: row.key}}}
		}, "")
		assert.Equal(t, row.legal, len(fields) == 0, "%+v: %v", row, fields)
	}
}

func TestAFluxSourceIsThatOfTheApplyOrLiterallyThatOfTheTemplate(t *testing.T) {
	for module, legal := range map[string]bool{
		"GitRepository::team/modules": true, "GitRepository::${mine}/modules": true, "GitRepository::shared/modules": true,
		"GitRepository::other/modules": false, "GitRepository::${theirs}/modules": false, "GitRepository::shared/${mine}": false, "modules": false,
		"${all}": false, "GitRepository::${colons}/modules": false, "GitRepository::${slashes}": false,
	} {
		for _, scope := range terraform.Scopes() {
			_, fields := renderReference(scope, func(spec *terraform.WorkspaceSpec, _ string) {
				spec.ForProvider.Source, spec.ForProvider.Module = terraform.SourceFlux, module
			}, "")
			assert.Equal(t, legal, len(fields) == 0, "%s: %v", module, fields)
		}
	}
}
