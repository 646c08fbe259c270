// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// References of the template "shared/vpc", as the renderer will look at them when there is a user.
func TestReferencesToNamespaces(t *testing.T) {
	secret := func(namespace, name string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Namespace: namespace, Name: name, Key: "k"}}}
		}
	}
	env := func(namespace string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider.Env = []terraform.EnvVar{
				{Name: "A", ConfigMapKeyRef: &terraform.KeyReference{Namespace: namespace, Name: "a", Key: "k"}},
				{Name: "B", SecretKeyRef: &terraform.KeyReference{Namespace: namespace, Name: "a", Key: "k"}},
			}
		}
	}
	connection := func(namespace string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.WriteConnectionSecretToRef = &terraform.SecretReference{Namespace: namespace, Name: "a"}
		}
	}
	flux := func(module string) func(*terraform.WorkspaceSpec) {
		return func(spec *terraform.WorkspaceSpec) {
			spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceFlux, Module: module}
		}
	}
	const ref, module = templateSpec + "forProvider.varFiles[0].secretKeyRef.namespace", templateSpec + "forProvider.module"
	refused := func(path, text string) []finding { return []finding{{path, field.ErrorTypeForbidden, text}} }
	notAllowed := "refers to namespace other, which the template does not allow: a reference is limited to the namespace of the WorkspaceTemplateApply"
	only := func(path, namespace string) []string {
		return []string{path + ": only works for WorkspaceTemplateApplies in namespace " + namespace + ". Remove the namespace"}
	}
	to := infrav1.AllowedNamespaces{Names: []string{"team"}}
	all := infrav1.AllowedNamespaces{Names: []string{"*"}}

	rows := map[string]templateRow{}
	row := func(name string, scope terraform.Scope, allowed infrav1.AllowedNamespaces, change func(*terraform.WorkspaceSpec), errors []finding, warnings []string) {
		rows[string(scope)+": "+name] = templateRow{with(func(spec *infrav1.WorkspaceTemplateSpec) {
			spec.WorkspaceScope, spec.AllowedNamespaces = scope, allowed
			change(&spec.Template.Spec)
		}), errors, warnings}
	}
	for _, scope := range terraform.Scopes() {
		row("none", scope, all, secret("", "a"), nil, nil)
		row("that of the user", scope, all, secret("${namespace}", "a"), nil, nil)
		row("the own one, of a template for it alone", scope, infrav1.AllowedNamespaces{}, secret("shared", "a"), nil, nil)
		row("another one, for an empty list of namespaces", scope, infrav1.AllowedNamespaces{}, secret("other", "a"), refused(ref, notAllowed), nil)
		row("another one, which is not allowed", scope, to, secret("other", "a"), refused(ref, notAllowed), nil)
		row("another one, which is allowed", scope, to, secret("team", "a"), nil, only(ref, "team"))
		row("another one, when all namespaces are allowed", scope, all, secret("other", "a"), nil, only(ref, "other"))
		row("another one, which labels may allow", scope, blue, secret("other", "a"), nil, only(ref, "other"))
		row("another one for a Secret that a user can replace", scope, infrav1.AllowedNamespaces{}, connection("other"), nil, []string{
			templateSpec + "writeConnectionSecretToRef.namespace: only works for WorkspaceTemplateApplies in namespace other and for those with their own writeConnectionSecretToRef"})
		row("another one in the environment", scope, infrav1.AllowedNamespaces{}, env("other"), append(
			refused(templateSpec+"forProvider.env[0].configMapKeyRef.namespace", notAllowed),
			refused(templateSpec+"forProvider.env[1].secretKeyRef.namespace", notAllowed)...), nil)
		row("the own one for a Flux source", scope, all, flux("GitRepository::shared/modules"), nil, nil)
		row("the own one for a Flux source with a variable", scope, all, flux("GitRepository::shared/${name}"), nil, only(module, "shared"))
		row("another one for a Flux source", scope, infrav1.AllowedNamespaces{}, flux("GitRepository::other/modules"), refused(module, notAllowed+", or to that of the template"), nil)
		row("a variable for a Flux source", scope, all, flux("GitRepository::${namespace}/modules"), nil, nil)
	}
	row("the own one, of a template for others", terraform.ScopeNamespaced, to, secret("shared", "a"), nil, only(ref, "shared"))
	row("the own one, of a template for others", terraform.ScopeCluster, to, secret("shared", "a"), nil, nil)
	row("the own one, of a Secret that a variable names", terraform.ScopeCluster, to, secret("shared", "${name}"), nil, only(ref, "shared"))
	testTemplates(t, rows)
}
