// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// corpus has errors as they are in the world, with their origins.
const corpus = "../../api/terraform/failure/testdata/corpus.yaml"

// reported is an error of the corpus.
type reported struct{ Message, Stage, Output string }

// find returns the first error with a text, in a stage if one is given.
func find(t *testing.T, text, stage string) reported {
	t.Helper()
	data, err := os.ReadFile(corpus)
	require.NoError(t, err)
	var all []reported
	require.NoError(t, yaml.Unmarshal(data, &all))
	for _, one := range all {
		if strings.Contains(one.Message+one.Output, text) && (stage == "" || one.Stage == stage) {
			return one
		}
	}
	require.Fail(t, "the corpus has no such error", text)
	return reported{}
}

// script makes Terraform, or the provider before it, fail with the error. An apply creates half of the resources before.
func (r reported) script(while string) scripted.Script {
	step := scripted.Step{Stderr: r.Output, Partial: r.Stage == "apply", While: while}
	switch r.Stage {
	case "init":
		return scripted.Script{Init: step}
	case "workspace":
		return scripted.Script{Select: step}
	case "plan":
		return scripted.Script{Plan: step}
	case "apply":
		return scripted.Script{Apply: step}
	case "destroy":
		return scripted.Script{Destroy: step}
	}
	step.Stderr = strings.TrimPrefix(r.Message, "connect failed: ")
	return scripted.Script{Open: step}
}

// failing is an error of a control plane, what users read about it, and what they do.
type failing struct {
	// error is a part of an error of the corpus, in a stage if one is given; empty if the provider fails by itself.
	error, stage string
	// while is a text of the module or of its variables that causes the error. Without it, the cause is outside: it ends with action.
	while string
	// ready is true if the cluster is Ready before the error.
	ready bool
	// breaks causes the error of a cluster that is Ready, which is then deleted.
	breaks func(env *fixture.Environment)
	// change changes the documents of the cluster before they are applied.
	change *strings.Replacer
	module string // module is that of the control plane, if it is not errorModule.
	reason string
	lookAt failure.Object
	actor  reasons.Actor
	// message and next are parts of the message, and of the next step with its commands.
	message, next []string
	// action is what the user does; nil if nothing is to be done.
	action func(env *fixture.Environment)
}

// nothing is a module without resources and outputs.
const nothing = `
variable "cluster_name" { type = string }`

// errorModule creates two resources.
var errorModule = strings.Replace(fixture.ControlPlaneModule, "\nresource", `
variable "kubernetes_version" { type = string }
resource "terraform_data" "role" { input = var.kubernetes_version }
resource`, 1)

// replaceModule edits the module of the template as a user would.
func replaceModule(before, after string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		env.Helper()
		template := &infrav1.WorkspaceTemplate{}
		require.True(env, env.Exists(template, fixture.ControlPlaneTemplate))
		module := &template.Spec.Template.Spec.ForProvider.Module
		require.Contains(env, *module, before)
		text, err := json.Marshal(strings.Replace(*module, before, after, 1))
		require.NoError(env, err)
		env.Edit(template, template.Name, fmt.Sprintf(`{"spec":{"template":{"spec":{"forProvider":{"module":%s}}}}}`, text))
	}
}

const (
	editsTemplate     = "kubectl edit workspacetemplate -n "
	editsControlPlane = "kubectl edit captcontrolplane -n "
)

var errorsOfTheWorld = map[string]failing{
	"a version of the module that does not exist": {
		error: "pathspec 'v9.9.9' did not match", while: "v9.9.9", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectModuleSource, actor: reasons.User,
		module: "\ngit::https://github.com/demo/eks.git?ref=v9.9.9", change: strings.NewReplacer("source: Inline", "source: Remote", "module: |", "module: >-"),
		message: []string{"https://github.com/demo/vpc.git?ref=v9.9.9", "Correct the address, the path or the version of the module in the WorkspaceTemplate"},
		next:    []string{"Look at the address and the version of the module", editsTemplate}, action: replaceModule("v9.9.9", "v1.0.0"),
	},
	"a module that is private": {
		error: "cannot get remote Terraform module: error downloading 'ssh://", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectModuleSource, actor: reasons.User,
		message: []string{"Permission denied (publickey)", "Add them to the credentials of the ProviderConfig", ".git-credentials"},
		next:    []string{"and the credentials for it"},
		action: func(env *fixture.Environment) {
			env.User("{apiVersion: v1, kind: Secret, metadata: {name: git}, stringData: {credentials: 'https://x:words@github.com'}}")
			env.User(strings.Replace(env.ProviderConfig(), "pluginCache: false", fmt.Sprintf(
				"pluginCache: false, credentials: [{filename: .git-credentials, source: Secret, secretRef: {namespace: %s, name: git, key: credentials}}]", env.Namespace), 1))
		},
	},
	"a Flux source that is not ready": {
		error: "GitRepository is not ready", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectFluxSource, actor: reasons.Waiting,
		message: []string{"flux-system/modules", "Flux has not fetched the source"}, next: []string{"No action is needed yet", "the Flux source of the module"},
	},
	"a Flux source that does not exist": {
		error: `GitRepository.source.toolkit.fluxcd.io "modules" not found`, reason: infrav1.PlanFailedReason, lookAt: failure.ObjectFluxSource, actor: reasons.User,
		message: []string{"Create the Flux source, or correct spec.template.spec.forProvider.module"}, next: []string{"Look at the Flux source of the module", editsTemplate},
		action: func(*fixture.Environment) {},
	},
	"a Secret of env that does not exist": {
		reason: infrav1.PlanFailedReason, lookAt: failure.ObjectSecret, actor: reasons.User,
		change:  strings.NewReplacer("source: Inline", "source: Inline\n        env: [{name: DATADOG_API_KEY, secretKeyRef: {name: demo-env, key: key}}]"),
		message: []string{`"demo-env" not found`, "in env of the Workspace", "Create it, or correct the WorkspaceTemplate"},
		next:    []string{"Look at the Secret or ConfigMap that the Workspace reads", editsTemplate},
		action: func(env *fixture.Environment) {
			env.User("{apiVersion: v1, kind: Secret, metadata: {name: demo-env}, stringData: {key: words}}")
		},
	},
	"an error without the word Error": {
		error: `already exists`, stage: "workspace", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectBackend, actor: reasons.Waiting,
		message: []string{`Workspace "demo-vpc" already exists`, "The backend could not be read a moment before"}, next: []string{"No action is needed yet"},
	},
	"a backend that was changed": { // In the ProviderConfig. The working directory keeps the former one until it is removed.
		error: "Backend configuration changed", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectBackend, actor: reasons.User,
		message: []string{"Backend configuration changed", "The backend in the ProviderConfig (ClusterProviderConfig ", "remove the directory /tf/"},
		next:    []string{"Look at the backend", "kubectl edit clusterproviderconfig.tf.m.upbound.io ", "Only if the backend is right and has the state, remove the working directory", "exec provider-terraform", "-- rm -r /tf/"},
		action:  func(*fixture.Environment) {},
	},
	"a full disk": {
		error: "no space left on device", stage: "init", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectProviderPod, actor: reasons.Waiting,
		message: []string{"no space left on device", "Use a larger volume for /tf"}, next: []string{"Look at the Pod of provider-terraform", "kubectl get pods -A -l"},
		action: func(*fixture.Environment) {},
	},
	"a plugin cache that two runs write": {
		error: "text file busy", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectProviderPod, actor: reasons.Waiting,
		message: []string{"text file busy", "The module is not the cause"}, next: []string{"Look at the Pod of provider-terraform"},
	},
	"a working directory without plugins": {
		error: "does not match any of the checksums", reason: infrav1.PlanFailedReason, lookAt: failure.ObjectProviderPod, actor: reasons.Waiting,
		message: []string{"Required plugins are not installed", "The module is not the cause"}, next: []string{"Look at the Pod of provider-terraform"},
	},
	"a program that the image does not have": {
		error: "kubectl: command not found", while: `"role"`, reason: infrav1.ApplyFailedReason, lookAt: failure.ObjectProviderPod, actor: reasons.User,
		message: []string{"terraform, bash, git and curl", "Use a data source or a resource instead"}, next: []string{"an image of provider-terraform that has the program", editsTemplate},
		action: replaceModule(`"role"`, `"data"`),
	},
	"a version that AWS has left": {
		error: "Unsupported Kubernetes minor version update", while: "1.34", ready: true, reason: infrav1.ApplyFailedReason, lookAt: failure.ObjectVersion, actor: reasons.User,
		change:  strings.NewReplacer("v1.35.0", "v1.34.0"),
		message: []string{"If AWS has upgraded the cluster, set spec.version of the CAPTControlPlane to the version that runs"},
		next:    []string{"Look at spec.version of the CAPTControlPlane", editsControlPlane},
		action: func(env *fixture.Environment) {
			env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"version":"v1.35.0"}}`)
		},
	},
	"a lock that a run has left": {
		error: "ConditionalCheckFailedException", reason: infrav1.ApplyFailedReason, lookAt: failure.ObjectLock, actor: reasons.Waiting,
		message: []string{"f9763602-b03f-e35c-da30-4083cdbb99ae", "It was taken at 2021-09-27T00:10:27Z by demo@demo"},
		next:    []string{"a Pod that does not exist any more, so the run has ended", "terraform force-unlock -force f9763602-b03f-e35c-da30-4083cdbb99ae"},
		action:  func(*fixture.Environment) {},
	},
	"a module that creates nothing": {
		module: nothing, reason: infrav1.NothingCreatedReason, actor: reasons.User,
		message: []string{"has created no resource and returned no output", "Add an output that is not null"}, next: []string{"Correct the WorkspaceTemplate", editsTemplate},
		action: replaceModule(nothing[1:], errorModule),
	},
	"a state that is too large": {
		error: "errored.tfstate", stage: "apply", reason: infrav1.StateNotSavedReason, actor: reasons.User,
		message: []string{"could not save its state", "each further run would create them again", "CAPT has paused Workspace demo-eks-controlplane", "needs the s3 backend"},
		next:    []string{"Import or delete", "crossplane.io/paused- "},
		action: func(env *fixture.Environment) { // The command that the message ends with.
			runs := len(env.Operations(fixture.ControlPlane, scripted.Apply))
			assert.Contains(env, env.Captctl("logs", env.Namespace+"/"+fixture.Demo), "Terraform apply failed: Failed to persist state to backend")
			assert.Len(env, env.Operations(fixture.ControlPlane, scripted.Apply), runs, "nothing is created again")
			env.SetScript(fixture.ControlPlane, scripted.Script{})
			apply := &infrav1.WorkspaceTemplateApply{}
			require.True(env, env.Exists(apply, fixture.ControlPlane))
			_, command, _ := strings.Cut(meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition).Message, "Then: kubectl ")
			env.Kubectl(strings.Fields(command)...)
		},
	},
	"prevent_destroy": {
		error: "has prevent_destroy set", stage: "destroy", while: "prevent_destroy", ready: true, reason: infrav1.DestroyFailedReason, lookAt: failure.ObjectTemplate, actor: reasons.User,
		change:  strings.NewReplacer("{ input = var.kubernetes_version }", "{\n            lifecycle { prevent_destroy = true }\n          }"),
		message: []string{"Resource instance aws_kms_key.this has prevent_destroy set", "Remove the protection in the WorkspaceTemplate"},
		next:    []string{"correct what Terraform reports", editsTemplate}, action: replaceModule("lifecycle { prevent_destroy = true }", ""),
	},
	"a module that init cannot load any more": { // Cases 16 and 17 of public reports: the correction reaches what is being deleted.
		error: "pathspec 'master' did not match", while: "v1.0.7", ready: true, reason: infrav1.PlanFailedReason, lookAt: failure.ObjectModuleSource, actor: reasons.User,
		breaks:  replaceModule(`resource "terraform_data" "role"`, "# v1.0.7\nresource \"terraform_data\" \"role\""),
		message: []string{"Terraform init failed", "Failed to download module", "Correct the address, the path or the version of the module in the WorkspaceTemplate"},
		next:    []string{"Look at the address and the version of the module", editsTemplate}, action: replaceModule("v1.0.7", ""),
	},
	"a role that an instance profile uses": {
		error: "must remove roles from instance profile first", stage: "destroy", ready: true, reason: infrav1.DestroyFailedReason, lookAt: failure.ObjectLeftover, actor: reasons.User,
		message: []string{"deleting IAM Role (demo-node)", "for example those of Karpenter", "docs/deletion-reference.md (Other leftovers)"}, next: []string{"Look at what is left in AWS"},
		action: func(*fixture.Environment) {},
	},
	"a subnet that something uses": {
		error: "error deleting EC2 Subnet", stage: "destroy", ready: true, reason: infrav1.DestroyFailedReason, lookAt: failure.ObjectLeftover, actor: reasons.User,
		message: []string{"still use subnet-0cc3d27fc54396aea", "docs/deletion-reference.md (Leftovers in the VPC)"}, next: []string{"Look at what is left in AWS"},
		action: func(*fixture.Environment) {},
	},
	"node groups that are not in the state": {
		error: "Cluster has nodegroups attached", stage: "destroy", ready: true, reason: infrav1.DestroyFailedReason, lookAt: failure.ObjectLeftover, actor: reasons.User,
		message: []string{"Node groups or Fargate profiles that are not in the Terraform state"}, next: []string{"Look at what is left in AWS"},
		action: func(*fixture.Environment) {},
	},
	"a provider of the module that has no cluster any more": {
		error: "http://localhost/api", stage: "destroy", ready: true, reason: infrav1.DestroyFailedReason, lookAt: failure.ObjectTemplate, actor: reasons.User,
		message: []string{"module.eks.kubernetes_config_map.aws_auth[0]", "has no cluster", "terraform state rm", "docs/deletion-reference.md"}, next: []string{"correct what Terraform reports", editsTemplate},
		action: func(*fixture.Environment) {},
	},
}

// Each error of the world names its cause, what to look at and an action, in kubectl get and in captctl describe. The action helps. Recovery creates and destroys nothing.
func TestErrorsOfTheWorldSayWhatHelps(t *testing.T) {
	t.Parallel()
	for name, f := range errorsOfTheWorld {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
			f.inject(env)
			f.requireDescribed(env)
			if f.actor != reasons.Waiting {
				assert.Empty(env, request(env), "no automatic attempt")
			}
			if f.action != nil {
				f.action(env)
			}
			if f.while == "" {
				env.SetScript(fixture.ControlPlane, scripted.Script{})
			}
			f.requireHealed(env)
		})
	}
}

func (f *failing) deleted() bool { return f.stage == "destroy" || f.breaks != nil }

// inject creates the cluster with its error.
func (f *failing) inject(env *fixture.Environment) {
	env.Helper()
	var script scripted.Script
	if f.error != "" {
		script = find(env.T, f.error, f.stage).script(f.while)
	}
	if !f.ready {
		env.SetScript(fixture.ControlPlane, script)
	} else {
		env.SetScript(fixture.ControlPlane, scripted.Script{})
	}
	template := strings.NewReplacer("  passVariables: None\n", "", "        vars:\n", "").Replace(env.Template(fixture.ControlPlaneTemplate, cmp.Or(f.module, errorModule)))
	for _, document := range []string{template, fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-0123}"), fixture.CAPTControlPlane(fixture.Demo, soon)} {
		if f.change != nil {
			document = f.change.Replace(document)
		}
		env.User(document)
	}
	if f.ready {
		env.AwaitState(infrav1.StateReady, "")
		env.SetScript(fixture.ControlPlane, script)
		if f.breaks != nil {
			f.breaks(env)
			env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, infrav1.ReadyCondition, metav1.ConditionFalse, f.reason, f.message...)
		}
		if f.deleted() {
			env.Remove(&clusterv1.Cluster{}, fixture.Demo)
		} else {
			env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"edited":"true"}}}`)
		}
	}
	if f.lookAt == failure.ObjectLock { // The holder of the lock, which had another name, has been replaced by this Pod.
		env.User("{apiVersion: v1, kind: Pod, metadata: {name: terraform, labels: {pkg.crossplane.io/provider: provider-terraform}}, spec: {containers: [{name: package-runtime, image: none}]}}")
		pod := &corev1.Pod{}
		require.True(env, env.Exists(pod, "terraform"))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "package-runtime", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
		require.NoError(env, env.Status().Update(env.Context(), pod))
	}
}

func (f *failing) requireDescribed(env *fixture.Environment) {
	env.Helper()
	conditionType, status := infrav1.ReadyCondition, metav1.ConditionFalse
	if f.deleted() {
		conditionType, status = infrav1.DeletingCondition, metav1.ConditionTrue
	}
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, conditionType, status, f.reason, f.message...)
	env.Eventually(func() string {
		columns := strings.Join(strings.Fields(env.Kubectl("get", "captcontrolplane")), " ")
		for _, part := range f.message {
			if !strings.Contains(columns, part) {
				return fmt.Sprintf("kubectl get does not have %q: %s", part, columns)
			}
		}
		return ""
	})
	var described fleet.Description
	require.NoError(env, json.Unmarshal([]byte(env.Captctl("describe", env.Namespace+"/"+fixture.Demo, "-o", "json")), &described))
	require.NotNil(env, described.Cause)
	assert.Equal(env, "WorkspaceTemplateApply "+fixture.ControlPlane, described.Cause.Kind+" "+described.Cause.Name)
	assert.Equal(env, f.reason, described.Cause.Reason)
	assert.Equal(env, f.lookAt, described.Cause.LookAt)
	assert.Equal(env, f.actor, described.Cause.Actor)
	require.NotNil(env, described.NextStep, described.Cause.Message)
	next := described.NextStep.Step + "\n" + strings.Join(described.NextStep.Commands, "\n")
	for _, part := range f.message {
		assert.Contains(env, described.Cause.Message, part)
	}
	for _, part := range f.next {
		assert.Contains(env, next, part)
	}
}

// requireHealed waits for the end of the error, and requires that nothing was created twice.
func (f *failing) requireHealed(env *fixture.Environment) {
	env.Helper()
	if f.deleted() {
		env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		env.RequireNothingLeft()
		return
	}
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, infrav1.ReadyCondition, metav1.ConditionTrue, "")
	seen := map[string]bool{}
	for _, resource := range env.Cloud() {
		assert.False(env, seen[resource.Address], "%s was created twice", resource.Address)
		seen[resource.Address] = true
	}
	assert.Empty(env, env.Operations(fixture.ControlPlane, scripted.Destroy))
}
