// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// A pinned template renders what is live, for the object as it is and as its owner will write it. What did not drift keeps its
// placeholders.
func TestAPinnedTemplateReproducesAWorkspace(t *testing.T) {
	built := rendering{
		apply: append(variables("cluster_name", "demo", "kubernetes_version", "1.31"), builder.WithConnectionSecret("out", "default")),
		template: []builder.Option{builder.WithScope(terraform.ScopeCluster), builder.WithParameters(func(p *terraform.WorkspaceParameters) {
			p.Module = "variable \"kubernetes_version\" {}\nlocals { x = [for zone in [\"a\"] : \"${zone}$\"] }\n"
			p.Vars = []terraform.Var{{Key: "kubernetes_version", Value: "${kubernetes_version}"}, {Key: "name", Value: "${cluster_name}-$"}}
			p.VarMap, p.InitArgs = varmap(`{"tags":{"a":1,"b":"${cluster_name}"}}`), []string{"-upgrade"}
			p.Env = []terraform.EnvVar{{Name: "A", Value: "${WORKSPACE_NAME}"}}
			p.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "${cluster_name}", Namespace: "default", Key: "k"}}}
		})},
	}
	live := asLive(t, built.must(t))

	// Since then, the template got another module and another variable, and the owner asks for another version.
	old := built.input().Template
	params := &old.Spec.Template.Spec.ForProvider
	params.Module += "# edited\n"
	params.Vars = append([]terraform.Var{{Key: "new", Value: "x"}}, params.Vars...)
	asked := built.input().Apply
	asked.Spec.Variables["kubernetes_version"] = "1.32"

	spec, errs := Pin(live.Object["spec"].(map[string]any), "demo-vpc", old, built.input().Apply, asked)
	require.Empty(t, errs)
	pinned := old.DeepCopy()
	pinned.Spec.Template.Spec = *spec
	for _, apply := range []*infrav1.WorkspaceTemplateApply{built.input().Apply, asked} {
		rendered, errs := Workspace(Input{Apply: apply, Template: pinned, Name: "demo-vpc"})
		require.Empty(t, errs)
		assert.Empty(t, Differences(live, rendered))
	}
	assert.Equal(t, []terraform.Var{{Key: "kubernetes_version", Value: "1.31"}, {Key: "name", Value: "${cluster_name}-$"}}, spec.ForProvider.Vars)
	assert.Equal(t, "${WORKSPACE_NAME}", spec.ForProvider.Env[0].Value)
	assert.Equal(t, "${cluster_name}", spec.ForProvider.VarFiles[0].SecretKeyRef.Name)

	// Without a template, all is literal.
	spec, errs = Pin(live.Object["spec"].(map[string]any), "demo-vpc", nil, asked)
	require.Empty(t, errs)
	assert.Equal(t, "demo-$", spec.ForProvider.Vars[1].Value)
}

// The template language cannot escape a placeholder.
func TestAPinnedTemplateCannotSayTheNameOfAVariable(t *testing.T) {
	live := map[string]any{"forProvider": map[string]any{"source": "Inline", "module": `locals { x = [for region in ["a"] : "${region}"] }`}}
	asked := builder.WorkspaceTemplateApply("demo", builder.WithVariables(map[string]string{"region": "eu-west-1"}))

	_, errs := Pin(live, "demo", nil, asked)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Error(), "spec.forProvider.module")
	assert.Contains(t, errs[0].Error(), "${region}")
}
