// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// way is a way in which a new cluster cannot work.
type way struct {
	// prepare creates what exists before. Documents of the cluster are changed by replace, pairs of texts; those with the text without are left out.
	prepare func(env *fixture.Environment)
	replace []string
	without string
	// pool and profile add a machine pool and a Fargate profile; more are further documents.
	pool, profile bool
	more          []string
	scripts       map[string]scripted.Script
	then          func(env *fixture.Environment) // then follows the creation.

	// reason and message (a part) are those of the cause in captctl; next are parts of the next step in captctl describe.
	reason, message string
	next            []string
	// state is Failed, unless the control plane serves.
	state infrav1.State
	// failed are the objects that are Failed, of cp, vpc and pool.
	failed string

	// correct does what the next step says. retried is true if the provider notices it only when it retries, with a backoff of its own.
	correct func(env *fixture.Environment)
	retried bool
}

const (
	workers   = "workers"
	vpcTimes  = "spec:\n  timeouts: {waitSeconds: 10}\n  region"
	needsSize = "\n          variable \"size\" {\n            type = number\n            validation {\n              condition = var.size > 2\n              error_message = \"size must be above 2\"\n            }\n          }"
)

// create creates documents; edits changes an object with a merge patch.
func create(documents ...string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		for _, document := range documents {
			env.User(strings.ReplaceAll(document, "NAMESPACE", env.Namespace))
		}
	}
}

func edit(object client.Object, name, patch string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		env.Edit(object.DeepCopyObject().(client.Object), name, strings.ReplaceAll(patch, "NAMESPACE", env.Namespace))
	}
}

// inTemplate replaces a text in the module of a template.
func inTemplate(name, before, after string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		env.Helper()
		template := &infrav1.WorkspaceTemplate{}
		fixture.Change(env, env.Client, client.ObjectKey{Namespace: env.Namespace, Name: name}, template, func() {
			module := &template.Spec.Template.Spec.ForProvider.Module
			require.Contains(env, *module, before)
			*module = strings.ReplaceAll(*module, before, after)
		})
	}
}

func script(apply string, s scripted.Script) map[string]scripted.Script {
	return map[string]scripted.Script{apply: s}
}

func succeeds(apply string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) { env.SetScript(apply, scripted.Script{}) }
}

// secret creates the Secret with the credentials, or changes it.
func credentials(text string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		env.User(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: aws}, stringData: {credentials: %s}}", text))
	}
}

func withCredentials(env *fixture.Environment) {
	env.User(strings.Replace(env.ProviderConfig(), "pluginCache: false", fmt.Sprintf(
		"pluginCache: false, credentials: [{filename: aws, source: Secret, secretRef: {namespace: %s, name: aws, key: credentials}}]", env.Namespace), 1))
}

// policy rejects what the manager creates of a resource, in the namespace, with a reason.
func policy(group, resource string, reason metav1.StatusReason) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		manager, err := env.InstalledManagerUser()
		require.NoError(env, err)
		named := metav1.ObjectMeta{Name: env.Namespace}
		require.NoError(env, env.Create(env.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: env.Namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
				}}},
			},
			MatchConditions: []admissionv1.MatchCondition{{Name: "manager", Expression: fmt.Sprintf("request.userInfo.username == '%s'", manager)}},
			Validations:     []admissionv1.Validation{{Expression: "false", Message: refusal, Reason: ptr.To(reason)}},
		}}))
		require.NoError(env, env.Create(env.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: env.Namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}))
	}
}

// withoutPolicy deletes the policy, and lets CAPT retry as captctl describe says until the API server does not use it any more, which takes a moment.
func withoutPolicy(env *fixture.Environment) {
	require.NoError(env, env.Delete(env.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}))
	env.Eventually(func() string {
		env.Captctl("reconcile", env.Namespace+"/"+fixture.Demo)
		cause := describeCluster(env, fixture.Demo).Cause
		return fixture.Unless(cause == nil || !strings.Contains(cause.Message, refusal), "%+v", cause)
	})
}

var (
	vpcKind, planeKind, poolKind = &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}, &infrav1.CAPTMachinePool{}
)

const (
	refusal = "the platform team says no"
	quota   = "\nError: creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 400, api error VpcLimitExceeded: The maximum number of VPCs has been reached.\n"
	unknown = "\nError: Reference to undeclared local value\n\n  on main.tf line 4, in resource \"terraform_data\" \"x\":\n"
)

func ways(t *testing.T) map[string]way {
	return map[string]way{
		"template of the VPC missing": {without: "metadata: {name: vpc}", reason: infrav1.TemplateNotFoundReason, failed: "vpc cp pool", pool: true, message: "WorkspaceTemplate",
			next: []string{"Create the WorkspaceTemplate"}, correct: func(env *fixture.Environment) { env.User(env.VPCTemplate(fixture.FargateVPCModule)) }},
		"template of the control plane missing": {without: "metadata: {name: eks}", reason: infrav1.TemplateNotFoundReason, failed: "cp",
			next: []string{"Create the WorkspaceTemplate"}, correct: func(env *fixture.Environment) { env.User(env.ControlPlaneTemplate(fixture.ControlPlaneModule)) }},
		"template of the pool missing": {without: "metadata: {name: nodegroup}", reason: infrav1.TemplateNotFoundReason, failed: "pool", pool: true, state: infrav1.StateDegraded,
			next: []string{"Create the WorkspaceTemplate"}, correct: func(env *fixture.Environment) { env.User(env.NodeGroupTemplate(fixture.NodeGroupModule)) }},
		"template of the profile missing": {profile: true, without: "metadata: {name: fargate}", reason: infrav1.TemplateNotFoundReason, state: infrav1.StateDegraded,
			correct: func(env *fixture.Environment) { env.User(env.FargateProfileTemplate(fixture.FargateProfileModule)) }},
		"template not allowed": {prepare: func(env *fixture.Environment) {
			require.NoError(env, env.Create(env.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace + "-templates"}}))
			ofTemplates(env).User(env.VPCTemplate(fixture.VPCModule))
		}, replace: []string{"ref: {name: vpc}", "ref: {name: vpc, namespace: NAMESPACE-templates}"}, reason: infrav1.TemplateNotFoundReason, failed: "vpc cp", next: []string{"spec.allowedNamespaces"},
			correct: func(env *fixture.Environment) {
				ofTemplates(env).Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"allowedNamespaces":{"names":["`+env.Namespace+`"]}}}`)
			}},
		"template with an error of HCL": {replace: []string{"resource \"terraform_data\" \"vpc\" {", "resource \"terraform_data\" {"}, reason: infrav1.PlanFailedReason, failed: "vpc cp", message: "Missing name for resource",
			next: []string{"kubectl edit workspacetemplate"}, correct: inTemplate("vpc", "resource \"terraform_data\" {", "resource \"terraform_data\" \"vpc\" {")},
		"template with an unknown placeholder": {replace: []string{"{key: vpc_name, value: '${vpc_name}'}", "{key: vpc_name, value: '${vpc_nam}'}"}, reason: infrav1.VariableMissingReason, failed: "vpc cp",
			message: "vpc_nam", next: []string{"kubectl edit workspacetemplate"}, correct: func(env *fixture.Environment) { env.User(env.VPCTemplate(fixture.FargateVPCModule)) }},
		"template being deleted": {more: []string{fixture.WorkspaceTemplateApply("vpc", "user", "variables: {vpc_name: a}")}, without: "kind: Cluster\n", then: func(env *fixture.Environment) {
			env.User(env.Template("open", fixture.VPCModule, "vpc_name"))
			env.Await(&infrav1.WorkspaceTemplateApply{}, "user", infrav1.ReadyCondition, metav1.ConditionTrue, "")
			env.RemoveAllowed(&infrav1.WorkspaceTemplate{}, "vpc")
			env.User(fixture.Cluster())
		}, reason: infrav1.TemplateDeletingReason, failed: "vpc cp",
			next: []string{"kubectl edit captcluster"}, correct: edit(vpcKind, fixture.Demo, `{"spec":{"vpc":{"template":{"ref":{"name":"open"}}}}}`)},
		"variable missing": {replace: []string{"\n          variable \"vpc_name\"", needsSize + "\n          variable \"vpc_name\""}, reason: infrav1.PlanFailedReason, failed: "vpc cp",
			message: "size", next: []string{"kubectl edit workspacetemplate", "kubectl edit captcluster"}, correct: inTemplate("vpc", "type = number", "type = number\n default = 3")},
		"variable of another type": {replace: []string{"\n          variable \"vpc_name\"", needsSize + "\n          variable \"vpc_name\"", "ref: {name: vpc}", "ref: {name: vpc}, variables: {size: [a]}", "  passVariables: None\n", ""}, reason: infrav1.VariableInvalidReason, failed: "vpc cp",
			message: "size", next: []string{"kubectl edit captcluster"}, correct: edit(vpcKind, fixture.Demo, `{"spec":{"vpc":{"template":{"variables":{"size":3}}}}}`)},
		"variable refused by a validation": {replace: []string{"\n          variable \"vpc_name\"", needsSize + "\n          variable \"vpc_name\"", "ref: {name: vpc}", "ref: {name: vpc}, variables: {size: 1}", "  passVariables: None\n", ""}, reason: infrav1.VariableInvalidReason, failed: "vpc cp",
			message: "size must be above 2", next: []string{"kubectl edit captcluster"}, correct: edit(vpcKind, fixture.Demo, `{"spec":{"vpc":{"template":{"variables":{"size":3}}}}}`)},
		"field that restricts access not consumed": {replace: []string{"version: v1.35.0", "version: v1.35.0\n  endpointAccess: {publicCIDRs: [203.0.113.0/24]}"}, reason: infrav1.FieldNotConsumedReason, failed: "cp",
			message: "publicCIDRs", next: []string{"kubectl edit"}, correct: func(env *fixture.Environment) {
				env.User(env.Template(fixture.ControlPlaneTemplate, fixture.ControlPlaneModule+"variable \"endpoint_public_access_cidrs\" { type = string }\noutput \"networks\" { value = var.endpoint_public_access_cidrs }\n", "cluster_name", "tags", "endpoint_public_access_cidrs"))
			}},
		"version of the pool": {pool: true, replace: []string{"clusterName: demo\n      bootstrap", "clusterName: demo\n      version: v1.36.0\n      bootstrap"}, reason: infrav1.InvalidVersionReason, failed: "pool", state: infrav1.StateDegraded,
			message: "1.36", next: []string{"machinepool"}, correct: edit(&clusterv1.MachinePool{}, workers, `{"spec":{"template":{"spec":{"version":"v1.35.0"}}}}`)},
		"other region": {replace: []string{"version: v1.35.0", "version: v1.35.0\n  region: eu-west-1"}, reason: controlplanev1.RegionConflictReason, failed: "cp",
			message: "eu-west-1", next: []string{"kubectl edit captcontrolplane"}, correct: edit(planeKind, fixture.Demo, `{"spec":{"region":"eu-central-1"}}`)},
		"EKS name invalid": {replace: []string{"kind: Cluster\nmetadata: {name: demo}", "kind: Cluster\nmetadata: {name: de.mo}"}, reason: infrav1.InvalidEKSClusterNameReason, failed: "vpc cp",
			message: "de.mo", next: []string{"spec.eksClusterName", "kubectl edit captcontrolplane"}, correct: edit(planeKind, fixture.Demo, `{"spec":{"eksClusterName":"demo"}}`)},
		"EKS name taken": {prepare: func(env *fixture.Environment) {
			env.User(append(env.Templates(), fixture.CAPTCluster("other"), fixture.CAPTControlPlane("other", "eksClusterName: demo"), fixture.ClusterNamed("other"))...)
			env.Await(planeKind.DeepCopy(), "other", infrav1.ReadyCondition, metav1.ConditionTrue, "")
		}, reason: infrav1.EKSClusterNameConflictReason, failed: "vpc cp", message: "other", next: []string{"spec.eksClusterName"}, correct: edit(planeKind, fixture.Demo, `{"spec":{"eksClusterName":"demo-2"}}`)},
		"scaling": {pool: true, replace: []string{"metadata: {name: workers, annotations: {}}", "metadata: {name: workers, annotations: {cluster.x-k8s.io/replicas-managed-by: external}}"},
			reason: infrav1.InvalidScalingReason, failed: "pool", state: infrav1.StateDegraded, message: "maxSize", next: []string{"machinepool"},
			correct: edit(poolKind, workers, `{"spec":{"scaling":{"maxSize":5}}}`)},
		"reference to another object": {replace: []string{"  region: eu-central-1", "  workspaceTemplateApplyRef: {name: shared}\n  region: eu-central-1"}, more: []string{fixture.WorkspaceTemplateApply("eks", "shared", "variables: {cluster_name: a, tags: b}")},
			without: "kind: Cluster\n", then: func(env *fixture.Environment) {
				env.Await(&infrav1.WorkspaceTemplateApply{}, "shared", infrav1.ReadyCondition, metav1.ConditionTrue, "")
				env.User(fixture.Cluster())
			},
			reason: infrav1.ReferenceConflictReason, failed: "vpc cp", message: "shared", correct: func(env *fixture.Environment) { env.Remove(&infrav1.WorkspaceTemplateApply{}, "shared") }},
		"Workspace of another object": {prepare: create("{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: demo-vpc}, spec: {providerConfigRef: {kind: ClusterProviderConfig, name: NAMESPACE}, forProvider: {source: Inline, module: 'output \"mine\" { value = true }'}}}"),
			reason: infrav1.WorkspaceConflictReason, failed: "vpc cp", message: "demo-vpc", next: []string{"owns the resource"}, correct: func(env *fixture.Environment) {
				require.NoError(env, env.Delete(env.Context(), env.Workspace(fixture.VPC)))
			}},
		"Workspace rejected by a policy": {prepare: policy("tf.m.upbound.io", "workspaces", metav1.StatusReasonInvalid), reason: infrav1.WorkspaceRejectedReason, failed: "vpc cp",
			message: refusal, next: []string{"captctl reconcile"}, correct: withoutPolicy},
		"Workspace forbidden by a policy": {prepare: policy("tf.m.upbound.io", "workspaces", metav1.StatusReasonForbidden), reason: infrav1.WorkspaceNotWrittenReason, failed: "vpc cp",
			message: refusal, correct: withoutPolicy},
		"WorkspaceTemplateApply rejected by a policy": {prepare: policy(infrav1.GroupVersion.Group, "workspacetemplateapplies", metav1.StatusReasonInvalid), reason: infrav1.ApplyRefusedReason, failed: "vpc cp",
			message: refusal, correct: withoutPolicy},
		"write of the CAPTCluster rejected by a policy": {prepare: policy(infrav1.GroupVersion.Group, "captclusters", metav1.StatusReasonForbidden), reason: infrav1.WriteRefusedReason, failed: "vpc cp",
			message: refusal, correct: withoutPolicy},
		"kubeconfig Secret rejected by a policy": {prepare: policy("", "secrets", metav1.StatusReasonForbidden), replace: []string{"version: v1.35.0", "version: v1.35.0\n  timeouts: {secretSeconds: 60}"},
			reason: infrav1.WriteRefusedReason, failed: "cp", message: refusal, correct: withoutPolicy},
		"ProviderConfig missing": {replace: []string{"providerConfigRef: {kind: ClusterProviderConfig, name: ", "providerConfigRef: {kind: ClusterProviderConfig, name: more-"}, reason: infrav1.ProviderConfigFailedReason, failed: "vpc cp",
			message: "ProviderConfig", next: []string{"Create or correct the ProviderConfig"}, correct: func(env *fixture.Environment) {
				env.User(strings.Replace(env.ProviderConfig(), "name: ", "name: more-", 1))
			}},
		"Secret of the ProviderConfig missing": {prepare: withCredentials, reason: infrav1.ProviderConfigFailedReason, failed: "vpc cp", message: "aws", next: []string{"Secret"}, correct: credentials("right")},
		"credentials": {retried: true, prepare: func(env *fixture.Environment) { withCredentials(env); credentials("wrong")(env) }, scripts: script(fixture.VPC, scripted.Script{Apply: scripted.Step{Stderr: expired}}),
			reason: infrav1.ApplyFailedReason, failed: "vpc cp", message: "ExpiredToken", next: []string{"captctl logs"}, correct: func(env *fixture.Environment) {
				env.SetScript(fixture.VPC, scripted.Script{})
				credentials("right")(env)
			}},
		"quota": {pool: true, retried: true, scripts: script(fixture.VPC, scripted.Script{Apply: scripted.Step{Stderr: quota}}), reason: infrav1.ApplyFailedReason, failed: "vpc cp pool", message: "VpcLimitExceeded", correct: succeeds(fixture.VPC)},
		"error of the module of the control plane": {replace: []string{`input = "${var.cluster_name}`, `input = "wrong ${var.cluster_name}`}, scripts: script(fixture.ControlPlane, scripted.Script{Plan: scripted.Step{Stderr: unknown, While: "wrong"}}),
			reason: infrav1.PlanFailedReason, failed: "cp", message: "undeclared local value", next: []string{"kubectl edit workspacetemplate"}, correct: inTemplate("eks", "wrong ", "")},
		"error of the module of the pool": {pool: true, replace: []string{`input = "${var.nodegroup_name}`, `input = "wrong ${var.nodegroup_name}`}, scripts: script(workers+"-nodegroup", scripted.Script{Plan: scripted.Step{Stderr: unknown, While: "wrong"}}),
			reason: infrav1.PlanFailedReason, failed: "pool", state: infrav1.StateDegraded, message: "undeclared local value", next: []string{"kubectl edit workspacetemplate"}, correct: inTemplate("nodegroup", "wrong ", "")},
		"Workspace paused": {scripts: script(fixture.VPC, scripted.Script{Init: scripted.Step{Stderr: throttled}}), then: func(env *fixture.Environment) {
			env.Eventually(func() string { return fixture.Unless(env.Workspace(fixture.VPC) != nil, "no Workspace") })
			env.Kubectl("annotate", "workspaces.tf.m.upbound.io", env.WorkspaceKey(fixture.VPC).Name, terraform.PausedAnnotation+"=true")
		}, reason: infrav1.WorkspacePausedReason, failed: "vpc cp", message: "paused", next: []string{"annotate workspaces.tf.m.upbound.io demo-vpc crossplane.io/paused-"}, correct: func(env *fixture.Environment) {
			env.SetScript(fixture.VPC, scripted.Script{})
			env.Kubectl("annotate", "workspaces.tf.m.upbound.io", env.WorkspaceKey(fixture.VPC).Name, terraform.PausedAnnotation+"-")
		}},
		"output vpc_id missing": {replace: []string{`output "vpc_id"`, `output "vpc"`}, reason: infrav1.VPCIDMissingReason, failed: "vpc cp", message: "vpc_id", next: []string{"kubectl edit workspacetemplate"}, correct: inTemplate("vpc", `output "vpc"`, `output "vpc_id"`)},
		"output cluster_endpoint missing": {replace: []string{`output "cluster_endpoint"`, `output "endpoint"`}, reason: controlplanev1.EndpointMissingReason, failed: "cp", message: "cluster_endpoint",
			next: []string{"kubectl edit workspacetemplate"}, correct: inTemplate("eks", `output "endpoint"`, `output "cluster_endpoint"`)},
		"nothing created": {without: "metadata: {name: vpc}", prepare: func(env *fixture.Environment) {
			env.User(env.VPCTemplate("\nvariable \"vpc_name\" { type = string }\n"))
		}, reason: infrav1.NothingCreatedReason, failed: "vpc cp",
			message: "no output", next: []string{"kubectl edit workspacetemplate"}, correct: func(env *fixture.Environment) { env.User(env.VPCTemplate(fixture.FargateVPCModule)) }},
		"state that cannot be saved": {scripts: script(fixture.ControlPlane, find(t, "errored.tfstate", "apply").script("")), reason: infrav1.StateNotSavedReason, failed: "cp", message: "could not save its state",
			next: []string{"crossplane.io/paused-"}, correct: func(env *fixture.Environment) {
				env.SetScript(fixture.ControlPlane, scripted.Script{})
				env.Kubectl("annotate", "workspaces.tf.m.upbound.io", env.WorkspaceKey(fixture.ControlPlane).Name, terraform.PausedAnnotation+"-", naming.StateNotSavedAnnotation+"-")
			}},
		"objects that wait for each other": {without: "metadata: {name: vpc}", then: func(env *fixture.Environment) {
			env.Eventually(func() string {
				return fixture.Unless(env.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.VPC), "no WorkspaceTemplateApply")
			})
			env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, `{"spec":{"waitForSecrets":[{"name":"demo-eks-connection"}]}}`)
			env.User(env.VPCTemplate(fixture.FargateVPCModule))
		}, reason: controlplanev1.DependencyCycleReason, failed: "cp", message: "spec.waitForSecrets[0]",
			correct: edit(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, `{"spec":{"waitForSecrets":null}}`)},
		"provider-terraform does not reconcile": {replace: []string{"spec:\n  region", vpcTimes}, scripts: script(fixture.VPC, scripted.Script{Init: scripted.Step{Hang: true}}), reason: infrav1.WorkspaceNotReconciledReason, failed: "vpc cp",
			message: "provider-terraform", next: []string{"kubectl -n crossplane-system logs provider-terraform-0"}, correct: succeeds(fixture.VPC)},
		"control plane missing": {without: "kind: CAPTControlPlane\n", replace: []string{"spec:\n  region", vpcTimes}, reason: infrav1.WaitTimeoutReason, failed: "vpc", message: "CAPTControlPlane demo",
			next: []string{"CAPT continues"}, correct: create(fixture.CAPTControlPlane(fixture.Demo))},
		"CAPTCluster missing": {without: "kind: CAPTCluster\n", replace: []string{"version: v1.35.0", "version: v1.35.0\n  timeouts: {waitSeconds: 10}"}, reason: infrav1.WaitTimeoutReason, failed: "cp", message: "CAPTCluster demo",
			next: []string{"CAPT continues"}, correct: create(fixture.CAPTCluster(fixture.Demo))},
		"profile that takes too long": {profile: true, replace: []string{"version: v1.35.0", "version: v1.35.0\n  timeouts: {fargateProfileSeconds: 10}"}, reason: controlplanev1.FargateProfileFailedReason, state: infrav1.StateDegraded,
			scripts: script(naming.FargateWorkspaceTemplateApply(fixture.Demo, "jobs"), scripted.Script{Apply: scripted.Step{Hang: true}}), message: "fargateProfileSeconds", correct: succeeds(naming.FargateWorkspaceTemplateApply(fixture.Demo, "jobs"))},
		"control plane that takes too long": {replace: []string{"version: v1.35.0", "version: v1.35.0\n  recovery: {maxRetries: 0}\n  timeouts: {controlPlaneSeconds: 10}"}, reason: controlplanev1.ControlPlaneTimeoutReason, failed: "cp",
			scripts: script(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}}), message: "controlPlaneSeconds", next: []string{"captctl logs"}, correct: succeeds(fixture.ControlPlane)},
		"VPC that takes too long": {replace: []string{"  region: eu-central-1", "  recovery: {maxRetries: 0}\n  region: eu-central-1", "ref: {name: vpc}", "ref: {name: vpc}, timeoutSeconds: 10"}, reason: infrav1.VPCReadyTimeoutReason, failed: "vpc cp",
			scripts: script(fixture.VPC, scripted.Script{Apply: scripted.Step{Hang: true}}), message: "timeoutSeconds", next: []string{"captctl logs"}, correct: succeeds(fixture.VPC)},
		"Secret of an existing VPC missing": {replace: []string{"vpc: {template: {ref: {name: vpc}}}", "vpc: {existingID: vpc-1, connectionSecretRef: {name: net}}", "version: v1.35.0", "version: v1.35.0\n  timeouts: {secretSeconds: 10}"},
			reason: controlplanev1.SecretTimeoutReason, failed: "cp", message: "Secret net", next: []string{"Create what the message names"}, correct: create("{apiVersion: v1, kind: Secret, metadata: {name: net}, stringData: {vpc_config: 'vpc_id = \"vpc-1\"\n'}}")},
		"candidate of a user": {prepare: func(env *fixture.Environment) {
			env.User(env.ControlPlaneTemplate(fixture.FargateControlPlaneModule), fixture.WorkspaceTemplateApply("eks", fixture.ControlPlane, "variables: {cluster_name: demo, tags: a}"))
			env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, infrav1.ReadyCondition, metav1.ConditionTrue, "")
		}, reason: infrav1.AdoptionRequiredReason, failed: "cp",
			message: fixture.ControlPlane, correct: edit(planeKind, fixture.Demo, `{"spec":{"workspaceTemplateApplyRef":{"name":"`+fixture.ControlPlane+`"}}}`)},
	}
}

// ofTemplates is the namespace of a platform team.
func ofTemplates(env *fixture.Environment) *fixture.Environment {
	other := *env
	other.Namespace += "-templates"
	return &other
}

// documents of the cluster, the templates after what refers to them, as with GitOps: admission cannot compare them.
func (w *way) documents(env *fixture.Environment) (documents []string) {
	templates := []string{env.VPCTemplate(fixture.FargateVPCModule), env.ControlPlaneTemplate(fixture.FargateControlPlaneModule)}
	lines := []string{"endpointProbe: Disabled"}
	if w.profile {
		lines, templates = append(lines, fixture.FargateProfiles("jobs")), append(templates, env.FargateProfileTemplate(fixture.FargateProfileModule))
	}
	documents = []string{fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, lines...)}
	if w.pool {
		documents = append(documents, fixture.MachinePool(fixture.Demo, workers, 3, ""), fixture.CAPTMachinePool(workers, fixture.NodeGroupTemplate))
		templates = append(templates, env.NodeGroupTemplate(fixture.NodeGroupModule))
	}
	documents = slices.DeleteFunc(slices.Concat(documents, templates, w.more, []string{fixture.Cluster()}), func(document string) bool {
		return w.without != "" && strings.Contains(document, w.without)
	})
	for i := range documents {
		documents[i] = strings.ReplaceAll(strings.NewReplacer(w.replace...).Replace(documents[i]), "NAMESPACE", env.Namespace)
	}
	return documents
}

// observation is what an object reported at a time.
type observation struct {
	at time.Time
	// failed is true if it is Failed, since failedAt; ready is the reason of Ready.
	failed   bool
	failedAt metav1.Time
	ready    string
	object   string
}

// recorder watches all objects of CAPT.
type recorder struct {
	sync.Mutex
	of map[string][]observation
}

func record(t *testing.T, server *fixture.Server) *recorder {
	r := &recorder{of: map[string][]observation{}}
	for _, list := range []client.ObjectList{&infrav1.CAPTClusterList{}, &controlplanev1.CAPTControlPlaneList{}, &infrav1.CAPTMachinePoolList{}, &infrav1.WorkspaceTemplateApplyList{}} {
		watch, err := server.API.Watch(t.Context(), list)
		require.NoError(t, err)
		t.Cleanup(watch.Stop)
		go func() {
			for event := range watch.ResultChan() {
				if object, ok := event.Object.(engine.Object); ok {
					r.see(object)
				}
			}
		}()
	}
	return r
}

func keyOf(object client.Object, namespace, name string) string {
	return fmt.Sprintf("%T %s/%s", object, namespace, name)
}

func (r *recorder) see(object engine.Object) {
	r.Lock()
	defer r.Unlock()
	s := observation{at: time.Now()}
	if failed := meta.FindStatusCondition(object.GetConditions(), infrav1.FailedCondition); failed != nil {
		s.failed, s.failedAt = failed.Status == metav1.ConditionTrue, failed.LastTransitionTime
	}
	if ready := meta.FindStatusCondition(object.GetConditions(), infrav1.ReadyCondition); ready != nil {
		s.ready = ready.Reason
	}
	key := keyOf(object, object.GetNamespace(), object.GetName())
	data, _ := json.Marshal(object) //nolint:errchkjson // It is for the message of a failed test.
	s.object = string(data)
	r.of[key] = append(r.of[key], s)
}

// observations of an object.
func (r *recorder) observations(key string) []observation {
	r.Lock()
	defer r.Unlock()
	return slices.Clone(r.of[key])
}

// started is the cluster of a way.
type started struct {
	way
	name      string
	env       *fixture.Environment
	corrected time.Time
}

// object is an empty object of the kind, and nameOf its name.
func (s *started) object(short string) engine.Object {
	return map[string]engine.Object{"vpc": vpcKind, "cp": planeKind, "pool": poolKind}[short].DeepCopyObject().(engine.Object)
}

func nameOf(short string) string {
	if short == "pool" {
		return workers
	}
	return fixture.Demo
}

func (s *started) clusterName(env *fixture.Environment) string {
	list := &clusterv1.ClusterList{}
	require.NoError(env, env.List(env.Context(), list, client.InNamespace(env.Namespace)))
	for i := range list.Items {
		if list.Items[i].Name != "other" {
			return list.Items[i].Name
		}
	}
	return ""
}

// graceLimit is within what a new object must be Failed, after its reason was first reported, with a reserve for a slow machine.
const graceLimit = 2*time.Minute + 30*time.Second

func (s *started) awaitFailed(t *testing.T, r *recorder, deadline time.Time) {
	env, first := s.env.In(t), time.Time{}
	for _, short := range strings.Fields(s.failed) {
		object, name := s.object(short), nameOf(short)
		key := keyOf(object, env.Namespace, name)
		var all []observation
		fails := func() int {
			all = r.observations(key)
			return slices.IndexFunc(all, func(seen observation) bool { return seen.failed })
		}
		for fails() < 0 && time.Now().Before(deadline) {
			time.Sleep(time.Second)
		}
		i := fails()
		require.GreaterOrEqual(t, i, 0, "%s is not Failed, but %+v", short, all)
		since := i
		for since > 0 && all[since-1].ready == all[i].ready {
			since--
		}
		took := all[i].failedAt.Sub(all[since].at)
		if first.IsZero() {
			first = all[i].failedAt.Time
		} else { // It waits for the first one.
			took = all[i].failedAt.Sub(first)
		}
		require.True(t, env.Exists(object, name))
		t.Logf("%s: %s Failed %s after its reason %s (%s after its creation)", s.name, short, took.Round(time.Second), all[i].ready, all[i].failedAt.Sub(object.GetCreationTimestamp().Time))
		assert.Less(t, took, graceLimit)
		s.requireLegacy(env, object, short)
	}
}

// requireLegacy requires that v1beta1 reports the failure as its contract has it.
func (s *started) requireLegacy(env *fixture.Environment, object engine.Object, short string) {
	gvk := infrav1.GroupVersion.WithKind("CAPTCluster")
	switch short {
	case "cp":
		gvk = controlplanev1.GroupVersion.WithKind("CAPTControlPlane")
	case "pool":
		return // It is not in v1beta1.
	}
	gvk.Version = "v1beta1"
	old := &unstructured.Unstructured{}
	old.SetGroupVersionKind(gvk)
	require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(object), old))
	reason, _, _ := unstructured.NestedString(old.Object, "status", "failureReason")
	message, _, _ := unstructured.NestedString(old.Object, "status", "failureMessage")
	failed := meta.FindStatusCondition(object.GetConditions(), infrav1.FailedCondition)
	assert.Equal(env, failed.Reason, reason)
	assert.Equal(env, failed.Message, message)
}

func describeCluster(env *fixture.Environment, cluster string) (described fleet.Description) {
	require.NoError(env, json.Unmarshal([]byte(env.Captctl("describe", env.Namespace+"/"+cluster, "-o", "json")), &described))
	return described
}

// requireDescribed requires the cause in captctl get, and the action in captctl describe.
func (s *started) requireDescribed(t *testing.T, clusters []overview.Cluster) {
	env := s.env.In(t)
	name, want := s.clusterName(env), cmp.Or(s.state, infrav1.StateFailed)
	described := describeCluster(env, name)
	require.NotNil(t, described.Cause)
	assert.Equal(t, want, described.State)
	assert.Equal(t, s.reason, described.Cause.Reason)
	i := slices.IndexFunc(clusters, func(c overview.Cluster) bool { return c.Namespace == env.Namespace && c.Name == name })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, want, clusters[i].State)
	require.NotNil(t, clusters[i].Cause)
	assert.Equal(t, s.reason, clusters[i].Cause.Reason)
	assert.Contains(t, clusters[i].Cause.Message, s.message)
	next := "(none)"
	if described.NextStep != nil {
		next = described.NextStep.Step + "\n" + strings.Join(described.NextStep.Commands, "\n")
	}
	t.Logf("%s: %s %s\n  %s %s: %s\n  => %s", s.name, described.State, described.Cause.Actor, described.Cause.Kind+" "+described.Cause.Name, described.Cause.Reason, described.Cause.Message, next)
	assert.NotEqual(t, "(none)", next)
	for _, part := range s.next {
		assert.Contains(t, next, part)
	}
}

// promptly is within what an object leaves Failed; with the backoff of the provider, within retried.
const (
	promptly = 30 * time.Second
	retried  = 2 * time.Minute
)

// awaitRecovered waits until the cluster is Ready, and requires that each object was Failed once.
func (s *started) awaitRecovered(t *testing.T, r *recorder) {
	env := s.env.In(t)
	defer func() {
		for _, short := range strings.Fields(s.failed) {
			all := r.observations(keyOf(s.object(short), env.Namespace, nameOf(short)))
			for _, seen := range all {
				if seen.at.After(s.corrected) && !seen.failed {
					took := seen.at.Sub(s.corrected).Round(100 * time.Millisecond)
					t.Logf("%s: %s left Failed after %s", s.name, short, took)
					assert.Less(t, took, map[bool]time.Duration{false: promptly, true: retried}[s.retried])
					break
				}
			}
			times := 0
			for i := range all {
				if all[i].failed && (i == 0 || !all[i-1].failed) {
					times++
				}
			}
			assert.Equal(t, 1, times, "%s was not Failed once", short)
		}
	}()
	env.AwaitState(infrav1.StateReady, "")
	env.AwaitVPC()
	if s.pool {
		env.Await(poolKind.DeepCopy(), workers, infrav1.ReadyCondition, metav1.ConditionTrue, "")
	}
}

// Each way in which a new cluster cannot work makes it Failed within about two minutes, with the cause and what to do, once and without writes while it lasts. Once
// that is done, it leaves Failed by itself and becomes Ready.
func TestANewClusterThatCannotWorkIsFailedUntilItIsCorrected(t *testing.T) {
	server := shared.Exclusive(t)
	r := record(t, server)
	var clusters []*started
	for name, w := range ways(t) {
		clusters = append(clusters, &started{way: w, name: name, env: server.NewEnvironment(t, terraform.ScopeNamespaced)})
	}
	slices.SortFunc(clusters, func(a, b *started) int { return cmp.Compare(a.name, b.name) })
	for _, s := range clusters {
		for apply, script := range s.scripts {
			s.env.SetScript(apply, script)
		}
		if s.prepare != nil {
			s.prepare(s.env)
		}
	}
	began := time.Now()
	for _, s := range clusters {
		for _, document := range s.documents(s.env) {
			object := fixture.Decode(s.env, s.env.Namespace, document)
			if err := s.env.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	t.Logf("created in %s", time.Since(began))
	created := time.Now()
	for _, s := range clusters {
		if s.then != nil {
			s.then(s.env)
		}
	}
	for _, s := range clusters {
		t.Run("Failed/"+s.name, func(t *testing.T) { s.awaitFailed(t, r, created.Add(4*time.Minute)) })
	}
	var fleet struct{ Clusters []overview.Cluster }
	require.NoError(t, json.Unmarshal([]byte(clusters[0].env.Captctl("get", "-o", "json")), &fleet))
	for _, s := range clusters {
		t.Run("Described/"+s.name, func(t *testing.T) { s.requireDescribed(t, fleet.Clusters) })
	}
	t.Run("Rest", func(t *testing.T) { requireRest(t, clusters[0].env.In(t), r) })
	for _, s := range clusters {
		t.Run("Corrected/"+s.name, func(t *testing.T) {
			s.corrected = time.Now()
			s.correct(s.env.In(t))
		})
	}
	for _, s := range clusters {
		t.Run("Ready/"+s.name, func(t *testing.T) { s.awaitRecovered(t, r) })
	}
}

// requireRest requires that nothing is written, also by a manager that is restarted.
func requireRest(t *testing.T, env *fixture.Environment, r *recorder) {
	env.AwaitRest() // Details are written later.
	time.Sleep(10 * time.Second)
	from := time.Now()
	time.Sleep(15 * time.Second)
	require.NoError(t, env.Kill(sandbox.Manager))
	require.NoError(t, env.StartComponent(t.Context(), sandbox.Manager))
	env.AwaitRest()
	r.Lock()
	defer r.Unlock()
	for key, all := range r.of {
		for i, seen := range all {
			assert.False(t, seen.at.After(from), "%s was written: %s\nbefore: %s", key, seen.object, all[max(0, i-1)].object)
		}
	}
}
