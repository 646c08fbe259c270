// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// complete is a Workspace with every kind of reference, all to objects that the tenant has in its own namespace, too. What
// it reads it returns, as an output that is shown and one that is not.
func complete() *terraform.WorkspaceSpec {
	key := func(key string) *terraform.KeyReference { return &terraform.KeyReference{Name: "canary", Key: key} }
	return &terraform.WorkspaceSpec{
		ProviderConfigRef:          &terraform.ProviderConfigReference{Name: "sandbox"},
		WriteConnectionSecretToRef: &terraform.SecretReference{Name: "connection"},
		ForProvider: terraform.WorkspaceParameters{
			Source: terraform.SourceInline,
			Module: `
variable "stolen" {
  type    = string
  default = "nothing"
}
output "cluster_name" { value = var.stolen }
output "hidden" {
  value     = var.stolen
  sensitive = true
}`,
			VarFiles: []terraform.VarFile{{Source: "ConfigMapKey", ConfigMapKeyRef: key("tfvars")}, {Source: "SecretKey", SecretKeyRef: key("tfvars")}},
			Env:      []terraform.EnvVar{{Name: "FROM_CONFIGMAP", ConfigMapKeyRef: key("value")}, {Name: "FROM_SECRET", SecretKeyRef: key("value")}},
		},
	}
}

// The rules are in api/render. These rows prove that the controller applies them, without help of the webhooks.
func TestNoReferenceLeadsIntoAnotherNamespace(t *testing.T) {
	inBothScopes(t, func(t *testing.T, w *world) {
		before := w.secrets(w.b)
		for name, row := range map[string]struct {
			theirs bool // The template is one of the other namespace, which permits the tenant to use it.
			change func(spec *terraform.WorkspaceSpec)
			value  string
			says   string
		}{
			"config-map": {false, func(s *terraform.WorkspaceSpec) { s.ForProvider.VarFiles[0].ConfigMapKeyRef.Namespace = w.b },
				"", "forProvider.varFiles[0].configMapKeyRef.namespace: Forbidden"},
			"secret-by-variable": {true, func(s *terraform.WorkspaceSpec) { s.ForProvider.Env[1].SecretKeyRef.Namespace = "${value}" },
				w.b, "forProvider.env[1].secretKeyRef.namespace: Forbidden"},
			"connection-secret": {true, func(s *terraform.WorkspaceSpec) { s.WriteConnectionSecretToRef.Namespace = "${value}" },
				w.b, "writeConnectionSecretToRef.namespace: Forbidden"},
			"flux": {true, func(s *terraform.WorkspaceSpec) {
				s.ForProvider.Source, s.ForProvider.Module = terraform.SourceFlux, "GitRepository::${value}/modules"
			}, w.b, "must be Kind::" + w.a + "/name"},
			"code": {false, func(s *terraform.WorkspaceSpec) {
				s.ForProvider.Module = `output "cluster_name" { value = "${value}" }`
			},
				`${file("/etc/passwd")}`, `the value of variable "value" has characters that could change the module`},
			"environment": {false, func(s *terraform.WorkspaceSpec) { s.ForProvider.Env[0].Name = "${value}" },
				"TF_CLI_CONFIG_FILE", "are reserved for the provider"},
		} {
			spec := complete()
			row.change(spec)
			w.tries(name, row.theirs, spec, row.value)
			require.Contains(t, w.awaitRefused(name, infrav1.RenderedCondition, infrav1.TemplateInvalidReason), row.says, name)
		}
		w.requireNothingLeaked()
		require.Equal(t, before, w.secrets(w.b))
	})
}

// tries lets the tenant use a template that is its own or of the other namespace, with a variable.
func (w *world) tries(name string, theirs bool, spec *terraform.WorkspaceSpec, value string) {
	w.Helper()
	template := &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: name},
		Spec: infrav1.WorkspaceTemplateSpec{
			WorkspaceScope: w.Scope, Template: infrav1.WorkspaceTemplateResource{Spec: *spec},
			AllowedNamespaces: infrav1.AllowedNamespaces{Names: []string{w.a}},
		},
	}
	if theirs {
		template.Namespace = w.b
	}
	require.NoError(w, w.Create(w.Context(), template))
	require.NoError(w, w.Create(w.Context(), &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.WorkspaceTemplateReference{Name: name, Namespace: template.Namespace}, Variables: map[string]string{"value": value},
		},
	}))
}

// What the author of a template says literally about its own namespace is permitted. It also shows that what
// is refused elsewhere would have leaked: the value arrives, and the scan finds it.
func TestATemplateMaySayLiterallyWhatOfItsOwnNamespaceIsUsed(t *testing.T) {
	w := newWorld(t, terraform.ScopeCluster)
	spec := complete()
	spec.ForProvider.VarFiles[1].SecretKeyRef.Namespace = w.b
	w.tries("given", true, spec, "")
	require.Equal(t, w.canary, w.awaitReady(w.a, "given").Status.Outputs[terraform.OutputClusterName])
	objects := w.everything(w.a)
	for _, kind := range []string{"WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io given", "Secret. connection"} {
		require.NotEmpty(t, find(objects[kind], w.canary), kind)
	}
}

func TestAnyValueArrivesThroughAVariable(t *testing.T) {
	w := newWorld(t, terraform.ScopeNamespaced)
	const hostile = "\" }\n${file(\"/etc/passwd\")} %{ if true } \\ ' 日本 \t"
	spec := complete()
	spec.ForProvider.VarFiles, spec.ForProvider.Vars = nil, []terraform.Var{{Key: "stolen", Value: "${value}"}}
	w.tries("hostile", false, spec, hostile)
	require.Equal(t, hostile, w.awaitReady(w.a, "hostile").Status.Outputs[terraform.OutputClusterName])
}
