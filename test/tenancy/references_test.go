// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
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
	inBothScopes(t, func(t *testing.T, env *environment) {
		before := env.secrets(env.b)
		for name, row := range map[string]struct {
			theirs bool // The template is one of the other namespace, which permits the tenant to use it.
			change func(spec *terraform.WorkspaceSpec)
			value  string
			says   string
		}{
			"config-map": {false, func(s *terraform.WorkspaceSpec) { s.ForProvider.VarFiles[0].ConfigMapKeyRef.Namespace = env.b },
				"", "forProvider.varFiles[0].configMapKeyRef.namespace: Forbidden"},
			"secret-by-variable": {true, func(s *terraform.WorkspaceSpec) { s.ForProvider.Env[1].SecretKeyRef.Namespace = "${value}" },
				env.b, "forProvider.env[1].secretKeyRef.namespace: Forbidden"},
			"connection-secret": {true, func(s *terraform.WorkspaceSpec) { s.WriteConnectionSecretToRef.Namespace = "${value}" },
				env.b, "writeConnectionSecretToRef.namespace: Forbidden"},
			"flux": {true, func(s *terraform.WorkspaceSpec) {
				s.ForProvider.Source, s.ForProvider.Module = terraform.SourceFlux, "GitRepository::${value}/modules"
			}, env.b, "must be Kind::" + env.a + "/name"},
			"code": {false, func(s *terraform.WorkspaceSpec) {
				s.ForProvider.Module = `output "cluster_name" { value = "${value}" }`
			},
				`${file("/etc/passwd")}`, `the value of variable "value" has characters that could change the module`},
			"environment": {false, func(s *terraform.WorkspaceSpec) { s.ForProvider.Env[0].Name = "${value}" },
				"TF_CLI_CONFIG_FILE", "are reserved for provider-terraform"},
		} {
			spec := complete()
			row.change(spec)
			env.tries(name, row.theirs, spec, row.value)
			require.Contains(t, env.awaitRefused(name, infrav1.RenderedCondition, infrav1.TemplateInvalidReason), row.says, name)
		}
		env.requireNothingLeaked()
		require.Equal(t, before, env.secrets(env.b))
	})
}

// tries lets the tenant use a template that is its own or of the other namespace, with a variable.
func (env *environment) tries(name string, theirs bool, spec *terraform.WorkspaceSpec, value string) {
	env.Helper()
	template := &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.a, Name: name},
		Spec: infrav1.WorkspaceTemplateSpec{
			WorkspaceScope: env.Scope, Template: infrav1.WorkspaceTemplateResource{Spec: *spec},
			AllowedNamespaces: infrav1.AllowedNamespaces{Names: []string{env.a}},
		},
	}
	if theirs {
		template.Namespace = env.b
	}
	require.NoError(env, env.Create(env.Context(), template))
	require.NoError(env, env.Create(env.Context(), &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.a, Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.WorkspaceTemplateReference{Name: name, Namespace: template.Namespace}, Variables: infrav1.TextVariables(map[string]string{"value": value}),
		},
	}))
}

// What the author of a template says literally about its own namespace is permitted. It also shows that what
// is refused elsewhere would have leaked: the value arrives, and the scan finds it.
func TestATemplateMaySayLiterallyWhatOfItsOwnNamespaceIsUsed(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeCluster)
	spec := complete()
	spec.ForProvider.VarFiles[1].SecretKeyRef.Namespace = env.b
	env.tries("given", true, spec, "")
	require.Equal(t, env.canary, env.awaitReady(env.a, "given").Status.Outputs[terraform.OutputClusterName])
	objects := env.everything(env.a)
	for _, kind := range []string{"WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io given", "Secret. connection"} {
		require.NotEmpty(t, find(objects[kind], env.canary), kind)
	}
}

func TestAnyValueArrivesThroughAVariable(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	const hostile = "\" }\n${file(\"/etc/passwd\")} %{ if true } \\ ' 日本 \t"
	spec := complete()
	spec.ForProvider.VarFiles, spec.ForProvider.Vars = nil, []terraform.Var{{Key: "stolen", Value: "${value}"}}
	env.tries("hostile", false, spec, hostile)
	require.Equal(t, hostile, env.awaitReady(env.a, "hostile").Status.Outputs[terraform.OutputClusterName])
}

// waiting waits until a WorkspaceTemplateApply of the tenant waits for something, and returns what the tenant sees.
func (env *environment) waiting(name string, names ...string) string {
	env.Helper()
	env.awaitRefused(name, infrav1.DependenciesReadyCondition, infrav1.WaitingForDependenciesReason)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(apply, env.a, name)
	return env.view(apply, append([]string{name}, names...)...)
}

func TestASecretOfAnotherNamespaceIsAsGoodAsMissing(t *testing.T) {
	for name, keys := range map[string]string{"any key": "[]", "a key that is there": "[value]", "a key that is not": "[other]"} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeNamespaced)
			env.requireSameAsMissing("canary", fmt.Sprintf("waitForSecrets: [{name: NAME, namespace: %s, keys: %s}]", env.b, keys))
		})
	}
}

// requireSameAsMissing proves that a tenant who waits for an object of the other namespace sees the same as for one that does not exist.
func (env *environment) requireSameAsMissing(theirs, waits string) {
	env.Helper()
	env.apply(env.a, echo("mine", ""))
	for name, waitsFor := range map[string]string{"waits-for-theirs": theirs, "waits-for-absent": "absent"} {
		env.apply(env.a, uses(name, env.a, "mine", says("hello")+"\n  "+strings.ReplaceAll(waits, "NAME", waitsFor)))
	}
	require.Equal(env, env.waiting("waits-for-absent", "absent"), env.waiting("waits-for-theirs", theirs))
	env.requireNothingLeaked()
}

func TestAWorkspaceOfAnotherNamespaceLooksTheSameNotReadyOrMissing(t *testing.T) {
	inBothScopes(t, func(_ *testing.T, env *environment) {
		env.requireSameAsMissing(env.unready(), "waitForWorkspaces: [{name: NAME, namespace: "+env.b+"}]")
	})
}

// A Workspace in the cluster scope has no namespace, so that its name alone finds it.
func TestAClusterWideWorkspaceOfAnotherNamespaceIsNotFoundByItsName(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeCluster)
	env.requireSameAsMissing(env.unready(), "waitForWorkspaces: [{name: NAME}]")
}

// Workspaces of CAPT v0.3 have no claim. A name and a finalizer of CAPT v0.3, which the tenant can write, do not prove that one is its own.
func TestAWorkspaceThatV03CreatedForAnotherNamespaceIsNotFoundByItsName(t *testing.T) {
	for name, inTenant := range map[string]string{"the name alone": "mine", "an object as of CAPT v0.3": "THEIRS"} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeCluster)
			theirs := env.olderWorkspace("vars: [{key: word, value: demo}]").GetName() // It is ready.
			env.apply(env.a, strings.Replace(uses(strings.ReplaceAll(inTenant, "THEIRS", theirs), env.a, "absent", ""),
				"metadata: {", "metadata: {finalizers: ["+infrav1.LegacyWorkspaceTemplateApplyFinalizer+"], ", 1))
			env.requireSameAsMissing(theirs, "waitForWorkspaces: [{name: NAME}]")
		})
	}
}

// unready makes a Workspace of the other namespace that Terraform never gets done with, and returns its name.
func (env *environment) unready() string {
	env.Helper()
	there := *env.Environment
	there.Namespace = env.b
	there.SetScript("theirs", scripted.Script{Plan: scripted.Step{Stderr: "Error: not today\n"}})
	env.apply(env.b, echo("theirs", "workspaceScope: "+string(env.Scope)), uses("theirs", env.b, "theirs", says("secret")))
	env.awaitCondition(&infrav1.WorkspaceTemplateApply{}, env.b, "theirs", infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.PlanFailedReason)
	return there.WorkspaceKey("theirs").Name
}

func TestOutputsAreWrittenToNoOtherNamespace(t *testing.T) {
	inBothScopes(t, func(t *testing.T, env *environment) {
		before := env.secrets(env.b)
		env.apply(env.a, echo("mine", "workspaceScope: "+string(env.Scope)))
		for name, secret := range map[string]string{"overwrites": "canary", "adds": "new"} {
			env.apply(env.a, uses(name, env.a, "mine", says("hello")+fmt.Sprintf("\n  writeConnectionSecretToRef: {name: %s, namespace: %s}", secret, env.b)))
		}
		overwrites := env.awaitRefused("overwrites", infrav1.RenderedCondition, infrav1.TemplateInvalidReason)
		require.Contains(t, overwrites, "must be \""+env.a+"\", the namespace of the WorkspaceTemplateApply")
		require.Equal(t, overwrites, env.awaitRefused("adds", infrav1.RenderedCondition, infrav1.TemplateInvalidReason))
		require.Equal(t, before, env.secrets(env.b))
	})
}

// secrets lists the Secrets of a namespace with their versions.
func (env *environment) secrets(namespace string) map[string]string {
	env.Helper()
	versions := map[string]string{}
	for _, secret := range fixture.List(env, env, corev1.SchemeGroupVersion.WithKind("Secret"), client.InNamespace(namespace)) {
		versions[secret.GetName()] = secret.GetResourceVersion()
	}
	return versions
}
