// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
)

// echoModule gives a variable back, as an output that is shown. It is indented as deep as a Workspace's spec has it.
const echoModule = `
          variable "word" { type = string }
          output "cluster_name" { value = var.word }
`

// wordAsVariable is how the echo learns its word, unless a test says otherwise.
const wordAsVariable = "vars: [{key: word, value: '${word}'}]"

// echo is a WorkspaceTemplate whose module gives a variable back. further are more lines of its spec.
func echo(name, further string) string { return echoOf(name, further, wordAsVariable) }

// echoOf is an echo that gets its word as inputs say.
func echoOf(name, further, inputs string) string {
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: %s}
spec:
  %s
  passVariables: None
  template:
    spec:
      providerConfigRef: {name: sandbox}
      forProvider:
        source: Inline
        module: |%s
        %s
`, name, further, echoModule, inputs)
}

// allows names the namespaces that may use a template.
func allows(namespaces string) string { return "allowedNamespaces: " + namespaces }

// uses is a WorkspaceTemplateApply of a template. further are more lines of its spec.
func uses(name, namespace, template, further string) string {
	return fixture.WorkspaceTemplateApply(template+", namespace: "+namespace, name, further)
}

// says gives the echo its word.
func says(word string) string { return "variables: {word: " + word + "}" }

func TestATemplateThatIsForbiddenLooksLikeOneThatIsMissing(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	env.apply(env.b,
		echo("closed", ""),
		echo("for-others", allows("{names: [another-team]}")),
		echo("for-labels", allows("{selector: {matchLabels: {team: other}}}")))
	templates := []string{"absent", "closed", "for-others", "for-labels"}
	views := map[string]string{}
	for _, template := range templates {
		name := "user-of-" + template
		env.apply(env.a, uses(name, env.b, template, says("hello")))
		env.awaitRefused(name, infrav1.RenderedCondition, infrav1.TemplateNotFoundReason)
		apply := &infrav1.WorkspaceTemplateApply{}
		env.read(apply, env.a, name)
		views[template] = env.view(apply, name, template)
	}
	for _, template := range templates {
		require.Equal(t, views["absent"], views[template], template)
	}
	for _, entry := range reports.of(env.b) {
		require.NotContains(t, entry.content, env.a, "%s names a namespace that it does not allow", entry.name)
	}
	env.requireNothingLeaked()
}

func TestARefusedUserDoesNotHoldATemplate(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	env.apply(env.b, echo("closed", ""))
	env.apply(env.a, uses("user", env.b, "closed", says("hello")))
	env.awaitRefused("user", infrav1.RenderedCondition, infrav1.TemplateNotFoundReason)
	template := &infrav1.WorkspaceTemplate{}
	env.awaitCondition(template, env.b, "closed", infrav1.InUseCondition, metav1.ConditionFalse, infrav1.NotUsedReason)

	require.NoError(t, env.Delete(t.Context(), template))
	env.awaitGone(template, env.b, "closed")
}

// No other event would report that the last user may no longer use the template.
func TestATemplateInDeletionIsReleasedWhenTheNamespaceOfItsUserLosesItsLabel(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	env.label(env.a, "team", "tenant")
	env.apply(env.b, echo("shared", allows("{selector: {matchLabels: {team: tenant}}}")))
	env.apply(env.a, uses("user", env.b, "shared", says("hello")))
	env.awaitReady(env.a, "user")
	template := &infrav1.WorkspaceTemplate{}
	env.read(template, env.b, "shared")
	require.NoError(t, env.Delete(t.Context(), template))
	env.awaitCondition(template, env.b, "shared", infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason)

	env.label(env.a, "team", "former-tenant")
	env.awaitGone(template, env.b, "shared")
}

func TestPermissionThatIsWithdrawnLeavesTheWorkspaceAsItWas(t *testing.T) {
	for name, row := range map[string]struct {
		allowed  string
		withdraw func(env *environment)
	}{
		"the namespace is taken off the list": {
			"{names: [NAMESPACE, another-team]}",
			func(env *environment) { env.apply(env.b, echo("shared", allows("{names: [another-team]}"))) },
		},
		"the namespace loses its label": {
			"{selector: {matchLabels: {team: tenant}}}",
			func(env *environment) { env.label(env.a, "team", "former-tenant") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeNamespaced)
			env.label(env.a, "team", "tenant")
			env.apply(env.b, echo("shared", allows(strings.ReplaceAll(row.allowed, "NAMESPACE", env.a))))
			env.apply(env.a, uses("user", env.b, "shared", says("before")), uses("user-of-absent", env.b, "absent", says("before")))
			made := fixture.WorkspaceOf(env, env, env.awaitReady(env.a, "user"))

			row.withdraw(env)
			apply := &infrav1.WorkspaceTemplateApply{}
			message := env.awaitCondition(apply, env.a, "user", infrav1.RenderedCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
			ofAbsent := env.awaitRefused("user-of-absent", infrav1.RenderedCondition, infrav1.TemplateNotFoundReason)
			require.Equal(t, strings.ReplaceAll(ofAbsent, "/absent ", "/shared "), message, "but for the name, which spec has")

			env.apply(env.a, uses("user", env.b, "shared", says("after")))
			env.awaitCondition(apply, env.a, "user", infrav1.RenderedCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
			require.Equal(t, made.GetGeneration(), fixture.WorkspaceOf(env, env, apply).GetGeneration(), "the Workspace was changed")
			require.False(t, meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition), "it says that the new variable was applied")

			require.NoError(t, env.Delete(t.Context(), apply))
			env.awaitGone(apply, env.a, "user")
			env.awaitGone(made, made.GetNamespace(), made.GetName())
		})
	}
}

func TestWithoutPermissionAWorkspaceIsNotRecreated(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	env.apply(env.b, echo("shared", allows("{names: ["+env.a+"]}")))
	env.apply(env.a, uses("user", env.b, "shared", says("hello")))
	made := fixture.WorkspaceOf(env, env, env.awaitReady(env.a, "user"))
	env.apply(env.b, echo("shared", ""))
	apply := &infrav1.WorkspaceTemplateApply{}
	env.awaitCondition(apply, env.a, "user", infrav1.RenderedCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)

	require.NoError(t, env.Delete(t.Context(), made))
	env.awaitGone(made, made.GetNamespace(), made.GetName())
	env.awaitCondition(apply, env.a, "user", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
	require.Empty(t, env.workspacesOf("user"))
}

func TestOwnersDoNotLearnWhetherATemplateIsForbiddenOrMissing(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	env.apply(env.b, echo("closed", ""))
	for _, template := range []string{"closed", "absent"} {
		env.apply(env.a,
			fixture.ClusterWithoutControlPlane("vpc-"+template),
			fixture.CAPTClusterWith("vpc-"+template, fmt.Sprintf("{template: {ref: {name: %s, namespace: %s}}}", template, env.b)),
			fixture.ClusterNamed("eks-"+template), fixture.CAPTClusterWith("eks-"+template, "{existingID: vpc-0123}"), controlPlane("eks-"+template, template, env.b))
	}
	for name, owners := range map[string][2]engine.Object{
		"vpc-": {&infrav1.CAPTCluster{}, &infrav1.CAPTCluster{}}, "eks-": {&controlplanev1.CAPTControlPlane{}, &controlplanev1.CAPTControlPlane{}},
	} {
		env.awaitCondition(owners[0], env.a, name+"closed", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
		env.awaitCondition(owners[1], env.a, name+"absent", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
		require.Equal(t, env.view(owners[1], "absent"), env.view(owners[0], "closed"))
	}
	env.requireNothingLeaked()
}

func (env *environment) label(namespace, key, value string) {
	env.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	require.NoError(env, env.Patch(env.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, patch))
}

// controlPlane takes its kubeconfig from Terraform and nowhere else.
func controlPlane(name, template, namespace string) string {
	document := fixture.CAPTControlPlane(name, "kubeconfig: {source: Output}")
	return strings.Replace(document, "{name: eks}", "{name: "+template+", namespace: "+namespace+"}", 1)
}
