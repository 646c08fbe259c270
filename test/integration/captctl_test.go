// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/migrate/installation"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

func (env environment) described() (description fleet.Description) {
	env.Helper()
	require.NoError(env, json.Unmarshal([]byte(env.Captctl("describe", env.Namespace+"/demo", "-o", "json")), &description))
	return description
}

// captctl shows the cause while Terraform fails, and nothing but facts when the Cluster is Ready.
func TestCaptctlShowsAClusterAsItIs(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.SetScript(fixture.VPC, scripted.Script{Apply: scripted.Step{Stderr: "\nError: AccessDenied: not allowed to create a VPC\n\nError: another error\n\n  on main.tf line 1:\n"}})
	env.User(env.Everything()...)
	env.Eventually(func() string {
		if cause := env.described().Cause; cause == nil || cause.Name != fixture.VPC || cause.Reason != "ApplyFailed" {
			return "the failure of the VPC is not the cause"
		}
		return ""
	})
	assert.Contains(t, env.Captctl("logs", env.Namespace+"/demo"), "\n  Error: AccessDenied: not allowed to create a VPC\n\n  Error: another error\n\n    on main.tf line 1:\n")
	assert.Contains(t, env.Captctl("logs", "wta/"+env.Namespace+"/demo-vpc", "-o", "json"), "AccessDenied: not allowed to create a VPC")
	assert.Regexp(t, `WorkspaceTemplateApply/demo-vpc +False +ApplyFailed`, env.Captctl("tree", env.Namespace+"/demo"))
	env.SetScript(fixture.VPC, scripted.Script{})
	assert.Contains(t, env.Captctl("wait", env.Namespace+"/demo", "--for", "ready", "--ignore-failures"), "/demo: ready")
	env.awaitReady()

	assert.Contains(t, env.Captctl("pause", env.Namespace+"/demo"), "is paused")
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	assert.True(t, env.described().Paused)
	assert.Contains(t, env.Captctl("resume", env.Namespace+"/demo"), "is resumed")
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)

	assert.Contains(t, env.Captctl("kubeconfig", env.Namespace+"/demo"), `"kind":"Config"`)
	ready := env.described()
	assert.Nil(t, ready.Cause)
	assert.Equal(t, infrav1.StateReady, ready.State)
	assert.NotEmpty(t, ready.Events)
	tree := env.Captctl("tree", env.Namespace+"/demo")
	assert.Regexp(t, `Workspace/demo-eks-controlplane +True +-`, tree)
	assert.Regexp(t, `WorkspaceTemplate/eks +True +-`, tree)
	assert.Regexp(t, `DEPENDENT +READY +REASON\nSecret/demo-kubeconfig +True +-`, tree)
	assert.Contains(t, env.Captctl("get", "-n", env.Namespace), "1 Cluster: 1 Ready")
	page := env.Captctl("report", "-n", env.Namespace, "-o", "html")
	assert.Contains(t, page, "<svg")
	assert.Contains(t, page, env.Namespace+"/demo")
	env.diffAgreesWithTheManager()
}

// diffAgreesWithTheManager edits a template: diff shows the change of the file, and nothing once the manager has written it.
func (env environment) diffAgreesWithTheManager() {
	env.Helper()
	demo := env.Namespace + "/demo"
	assert.Contains(env, env.Captctl("diff", demo), "0 of 2 Workspaces would change")
	template := &infrav1.WorkspaceTemplate{}
	require.True(env, env.Exists(template, "eks"))
	template.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplate"))
	template.Spec.Template.Spec.ForProvider.Module += "# edited\n"
	template.ManagedFields, template.ResourceVersion = nil, ""
	data, err := yaml.Marshal(template)
	require.NoError(env, err)
	file := filepath.Join(env.TempDir(), "eks.yaml")
	require.NoError(env, os.WriteFile(file, data, 0o600))
	edited := env.Captctl("diff", "-f", file, "-n", env.Namespace)
	assert.Contains(env, edited, "+# edited\n")
	assert.Contains(env, edited, "1 of 1 Workspace would change")

	ofFile := fixture.CAPTControlPlane(fixture.Demo, "additionalTags: {file: a}")
	env.User(ofFile)
	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"patched":"true"}}}`)
	env.awaitNoDiff()
	apply := func(documents ...string) string {
		env.Helper()
		require.NoError(env, os.WriteFile(file, []byte(strings.Join(documents, "---\n")), 0o600))
		return env.Captctl("diff", "-f", file, "-n", env.Namespace)
	}
	assert.Contains(env, apply(ofFile), "0 of 1 Workspace would change", "what another client has set is kept, as by the API server")
	assert.Regexp(env, `- spec.forProvider.vars\[tags\]: .*file.*patched.*\n *\+ spec.forProvider.vars\[tags\]: [^f]*patched[^f]*\n`, apply(fixture.CAPTControlPlane(fixture.Demo)), "the file does not have it any more")
	assert.Contains(env, apply(fixture.ClusterNamed("other"), fixture.CAPTCluster("other"), fixture.CAPTControlPlane("other")), "+ Workspace "+env.Namespace+"/other-vpc of Cluster "+env.Namespace+"/other")

	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"forProvider": map[string]any{"module": template.Spec.Template.Spec.ForProvider.Module}}}}})
	require.NoError(env, err)
	env.Edit(&infrav1.WorkspaceTemplate{}, "eks", string(patch))
	env.awaitNoDiff()
}

func (env environment) awaitNoDiff() {
	env.Helper()
	env.Eventually(func() string {
		found := env.Captctl("diff", env.Namespace+"/demo")
		return fixture.Unless(strings.Contains(found, "0 of 2 Workspaces would change"), "the manager has not written the edit: %s", found)
	})
}

// The API server rejects a Workspace. CAPT sends it again after minutes, or at once with captctl reconcile. Without a cause, that changes nothing.
func TestCaptctlReconcileSkipsTheWaitAfterARejection(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	accept := env.rejectWorkspaces()
	env.Eventually(func() string { // The API server needs a moment to apply the policy.
		workspace := fixture.Decode(env, env.Namespace, "{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: probe}, spec: {forProvider: {source: Inline, module: ''}}}")
		return fixture.Unless(apierrors.IsInvalid(env.Create(env.Context(), workspace, client.DryRunAll)), "the policy has no effect yet")
	})
	env.User(env.Everything()...)
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceRejectedReason, "CAPT retries every 10m")
	accept()
	env.Eventually(func() string {
		env.Captctl("reconcile", env.Namespace+"/demo")
		return fixture.Unless(env.Workspace(fixture.VPC) != nil, "the Workspace is not sent again")
	})
	env.awaitReady()

	applied := len(env.Operations(fixture.VPC, scripted.Apply)) + len(env.Operations(fixture.ControlPlane, scripted.Apply))
	generations := func() (all []int64) {
		for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
			all = append(all, env.Workspace(name).GetGeneration())
		}
		return all
	}
	before := generations()
	assert.Contains(t, env.Captctl("reconcile", env.Namespace+"/demo"), "CAPT reconciles 4 objects")
	env.awaitReady()
	assert.Equal(t, before, generations())
	assert.Equal(t, applied, len(env.Operations(fixture.VPC, scripted.Apply))+len(env.Operations(fixture.ControlPlane, scripted.Apply)))
}

// Without captctl run, Terraform would run at the next poll, or after its own backoff.
func TestCaptctlRunMakesTerraformRunNow(t *testing.T) {
	t.Parallel()
	env := ready(t)
	demo := env.Namespace + "/demo"
	run := func(want string, arguments ...string) fleet.TerraformRun {
		t.Helper()
		streams, _, stdout, _ := genericiooptions.NewTestIOStreams()
		err := command.New("captctl", append([]string{"run", demo, "-o", "json", "--kubeconfig", shared.Kubeconfig()}, arguments...), streams).ExecuteContext(t.Context())
		var list fleet.TerraformRuns
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &list), "%v", err)
		for _, one := range list.Runs {
			assert.Equal(t, want, string(one.Result), one)
		}
		assert.Equal(t, want == "Failed" || want == "NotStarted", err != nil, "%v", err)
		return list.Runs[0]
	}
	planned := len(env.Operations(fixture.VPC, scripted.Plan))
	run("NothingToChange")
	assert.Greater(t, len(env.Operations(fixture.VPC, scripted.Plan)), planned)

	applied := len(env.Operations(fixture.VPC, scripted.Apply))
	env.SetScript(fixture.VPC, scripted.Script{Drift: "changed by hand"})
	run("Applied", "--only", "vpc")
	assert.Len(t, env.Operations(fixture.VPC, scripted.Apply), applied+1)

	env.SetScript(fixture.VPC, scripted.Script{Plan: scripted.Step{Stderr: "\nError: AccessDenied: not allowed to read the VPC\n"}})
	assert.Contains(t, run("Failed", "--only", fixture.VPC).Message, "AccessDenied: not allowed to read the VPC")
	env.SetScript(fixture.VPC, scripted.Script{Drift: "changed by hand"})
	run("NothingToChange", "--only", "vpc")
	env.awaitReady()

	env.Captctl("pause", demo)
	assert.Contains(t, run("NotStarted", "--only", "vpc").Message, "paused")
	env.Captctl("resume", demo)

	// What kept Terraform from destroying the control plane is gone, but the provider waits for its backoff.
	env.SetScript(fixture.ControlPlane, scripted.Script{Destroy: scripted.Step{Stderr: "\nError: DependencyViolation: something uses it\n"}})
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.Eventually(func() string {
		attempts := len(env.Operations(fixture.ControlPlane, scripted.Destroy))
		return fixture.Unless(attempts >= 5, "%d attempts", attempts) // The next one is in 16 seconds.
	})
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	began := time.Now()
	assert.Contains(t, run("Applied", "--only", "controlplane").Message, "is destroyed")
	t.Logf("destroyed %s after captctl run", time.Since(began).Round(time.Second))
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
}

// The sandbox has no Deployments: what runs outside of the cluster is a warning.
func TestCaptctlCheckFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	env := ready(t)
	check := func() (map[string]installation.Check, error) {
		t.Helper()
		streams, _, stdout, _ := genericiooptions.NewTestIOStreams()
		err := command.New("captctl", []string{"check", "-o", "json", "--kubeconfig", shared.Kubeconfig()}, streams).ExecuteContext(t.Context())
		var report installation.Report
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &report), "%v", err)
		checks := map[string]installation.Check{}
		for _, check := range report.Checks {
			checks[check.Name] = check
		}
		return checks, err
	}
	checks, _ := check()
	for _, name := range []string{"definitions", "conversion", "webhooks", "policies"} {
		assert.Equal(t, installation.OK, checks[name].Status, checks[name])
	}
	env.User(`{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: other}, spec: {providerConfigRef: {kind: ClusterProviderConfig, name: absent}, forProvider: {source: Inline, module: ''}}}`)
	manager := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "capt-manager", Labels: map[string]string{"app.kubernetes.io/name": "capt", "app.kubernetes.io/component": "manager"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{ServiceAccountName: "capt-manager", Containers: []corev1.Container{
				{Name: "manager", Image: "example.com/capt-manager:v0.4.0", Ports: []corev1.ContainerPort{{Name: "webhooks", ContainerPort: 9443}}},
			}}},
		},
	}
	require.NoError(t, env.Create(t.Context(), manager))
	checks, err := check()
	require.ErrorContains(t, err, "checks found errors, see above")
	assert.Contains(t, strings.Join(checks["ProviderConfigs"].Objects, "\n"), "ClusterProviderConfig absent (tf.m.upbound.io): does not exist")
	assert.Contains(t, checks["manager"].Commands, "kubectl -n "+env.Namespace+" rollout status deployment/capt-manager --timeout=5m")
	assert.Equal(t, installation.Error, checks["rights of the manager"].Status)
	assert.Contains(t, checks["rights of the manager"].Objects, "patch workspaces/status.tf.m.upbound.io", "the ServiceAccount has no binding")
}

// rejectWorkspaces makes the API server reject all Workspaces of the namespace, until the returned function is called.
func (env environment) rejectWorkspaces() (accept func()) {
	env.Helper()
	name := metav1.ObjectMeta{Name: env.Namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{"tf.m.upbound.io"}, APIVersions: []string{"*"}, Resources: []string{"workspaces"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "false", Message: "rejected by a test"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: env.Namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: env.Namespace}}},
	}}
	for _, object := range []client.Object{policy, binding} {
		require.NoError(env, env.Create(env.Context(), object))
		env.Cleanup(func() { assert.NoError(env, client.IgnoreNotFound(env.Delete(context.Background(), object))) })
	}
	return func() { require.NoError(env, env.Delete(env.Context(), binding)) }
}

// captctl template test runs OpenTofu, which finds what no rule of CAPT knows, and places it in the file.
func TestATemplateIsTestedWithOpenTofu(t *testing.T) {
	t.Parallel()
	require.NoError(t, sandbox.Build(t.Context(), os.Stderr, sandbox.Captctl, sandbox.Tofu))
	env := newEnvironment(t)
	file := filepath.Join(t.TempDir(), "template.yaml")
	for module, want := range map[string]string{
		fixture.VPCModule: "validate found no errors",
		strings.Replace(fixture.VPCModule, "input = ", "inputs = ", 1): `error: WorkspaceTemplate vpc: spec.template.spec.forProvider.module: line `,
	} {
		require.NoError(t, os.WriteFile(file, []byte(env.VPCTemplate(module)), 0o600))
		command := exec.CommandContext(t.Context(), env.Binary(sandbox.Captctl), "template", "test", "-f", file)
		command.Env = append(os.Environ(), "PATH="+filepath.Dir(env.Binary(sandbox.Tofu)))
		output, err := command.CombinedOutput()
		assert.Equal(t, module != fixture.VPCModule, err != nil, "%s", output)
		assert.Contains(t, string(output), want)
	}

	// What init writes is a template that the API server accepts, and that renders.
	module := filepath.Join(t.TempDir(), "main.tf")
	require.NoError(t, os.WriteFile(module, []byte(fixture.VPCModule), 0o600))
	made, err := exec.CommandContext(t.Context(), env.Binary(sandbox.Captctl), "template", "init", filepath.Dir(module), "--name", "made", "--provider-config", env.Namespace).Output()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, made, 0o600))
	assert.Contains(t, env.Captctl("template", "render", "-f", file, "--var", "vpc_name=demo"), "vpc_name: demo")
	env.User(string(made), fixture.WorkspaceTemplateApply("made", "made", "variables: {vpc_name: demo}"))
	env.Await(&infrav1.WorkspaceTemplateApply{}, "made", infrav1.ReadyCondition, metav1.ConditionTrue, "")
}
