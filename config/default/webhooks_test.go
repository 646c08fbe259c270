// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package default_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// webhooks decodes the webhooks of a kind of configuration, and returns them by the kind of object for which they are called.
func webhooks(t *testing.T, i installation, configuration, verb string) map[string]admissionv1.ValidatingWebhook {
	t.Helper()
	byKind := map[string]admissionv1.ValidatingWebhook{}
	for _, object := range i.objects {
		if object.GetKind() != configuration {
			continue
		}
		items, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		require.NoError(t, err)
		for _, item := range items {
			content := item.(map[string]any)
			delete(content, "reinvocationPolicy")
			webhook := admissionv1.ValidatingWebhook{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, &webhook, true))
			if *webhook.ClientConfig.Service.Path == "/mutate-owners" {
				byKind[ownersOfNew] = webhook
				continue
			}
			kind := kindOf(t, i, webhook)
			requireCalled(t, i, object.GetAnnotations(), webhook.ClientConfig.Service.Namespace, webhook.ClientConfig.Service.Name)
			group := strings.ReplaceAll(webhook.Rules[0].APIGroups[0], ".", "-")
			assert.Equal(t, "/"+verb+"-"+group+"-v1beta2-"+strings.ToLower(kind), *webhook.ClientConfig.Service.Path, "where controller-runtime serves it")
			byKind[kind] = webhook
		}
		assert.Len(t, byKind, len(items), "a kind twice")
	}
	return byKind
}

// kindOf returns the only kind for which a webhook is called. It must not be called for status or for kinds of other projects, except for MachinePools, and
// for kubectl scale of these.
func kindOf(t *testing.T, i installation, webhook admissionv1.ValidatingWebhook) string {
	t.Helper()
	require.Len(t, webhook.Rules, 1)
	rule := webhook.Rules[0]
	require.Equal(t, []string{"v1beta2"}, rule.APIVersions, webhook.Name)
	if slices.Equal(rule.APIGroups, []string{clusterv1.GroupVersion.Group}) && rule.Resources[0] == "machinepools" {
		assert.Subset(t, []string{"machinepools", "machinepools/scale"}, rule.Resources)
		return machinePool
	}
	require.Len(t, rule.Resources, 1, webhook.Name)
	for _, definition := range all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition") {
		if definition.Spec.Names.Plural == rule.Resources[0] && slices.Equal(rule.APIGroups, []string{definition.Spec.Group}) {
			return definition.Spec.Names.Kind
		}
	}
	require.Failf(t, "not ours", "%s is for %v of %v", webhook.Name, rule.Resources, rule.APIGroups)
	return ""
}

const (
	machinePool = "MachinePool"
	// ownersOfNew is the key of the webhook that removes owners of new objects of several kinds.
	ownersOfNew = "owners"
)

func TestWebhooksDoNotBlockDeletionOrOtherKinds(t *testing.T) {
	i := load(t)
	mutating := webhooks(t, i, "MutatingWebhookConfiguration", "mutate")
	validating := webhooks(t, i, "ValidatingWebhookConfiguration", "validate")
	owners := mutating[ownersOfNew]
	assert.Equal(t, admissionv1.Ignore, *owners.FailurePolicy, "an outage of CAPT does not affect objects of Cluster API")
	assert.Equal(t, []admissionv1.OperationType{admissionv1.Create}, owners.Rules[0].Operations)
	require.Len(t, owners.MatchConditions, 1)
	assert.Contains(t, owners.MatchConditions[0].Expression, "== 'CAPTMachinePool'")
	assert.Contains(t, owners.MatchConditions[0].Expression, "'"+naming.TemplateRevisionLabel+"' in ")
	delete(mutating, ownersOfNew)
	assert.ElementsMatch(t, []string{"CAPTCluster", "CAPTControlPlane", "CAPTMachinePool", "WorkspaceTemplate", "WorkspaceTemplateApply"}, slices.Collect(maps.Keys(mutating)))
	ofClusterAPI := validating[machinePool]
	delete(validating, machinePool)
	assert.Equal(t, admissionv1.Ignore, *ofClusterAPI.FailurePolicy, "an outage of CAPT does not affect objects of Cluster API")
	require.Len(t, ofClusterAPI.MatchConditions, 3)
	assert.Contains(t, ofClusterAPI.MatchConditions[2].Expression, "== 'CAPTMachinePool'")
	ofClusterAPI.FailurePolicy, ofClusterAPI.MatchConditions = ptr.To(admissionv1.Fail), ofClusterAPI.MatchConditions[:2]
	assert.Len(t, validating, len(all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition"))-2, "every kind with fields is validated")
	validating[machinePool] = ofClusterAPI // All else is as for the others.

	for _, webhook := range slices.Concat(slices.Collect(maps.Values(mutating)), slices.Collect(maps.Values(validating))) {
		t.Run(webhook.Name, func(t *testing.T) {
			assert.Equal(t, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, webhook.Rules[0].Operations)
			assert.Equal(t, admissionv1.Fail, *webhook.FailurePolicy)
			assert.Equal(t, admissionv1.Equivalent, *webhook.MatchPolicy, "v1beta1 is checked too")
			assert.Equal(t, admissionv1.SideEffectClassNone, *webhook.SideEffects)
			assert.LessOrEqual(t, *webhook.TimeoutSeconds, int32(5))
			assert.Equal(t, []string{"v1"}, webhook.AdmissionReviewVersions)
			require.Len(t, webhook.MatchConditions, 2)
			assert.Equal(t, "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)", webhook.MatchConditions[0].Expression)
			assert.Equal(t, notByCAPT(t, i), webhook.MatchConditions[1].Expression)
			assert.Nil(t, webhook.NamespaceSelector, "no namespace is exempt")
			assert.Nil(t, webhook.ObjectSelector)
		})
	}
}

// notByCAPT is the CEL expression by which all policies recognize the manager.
func notByCAPT(t *testing.T, i installation) string {
	t.Helper()
	return policy(t, i, "capt-delete-through-the-owner").Spec.MatchConditions[0].Expression
}

// Only the ClusterRole of the manager has the permission by which it is recognized. No role has the permission by which policies recognize
// wildcard permissions.
func TestManagerIsRecognizedByAPermission(t *testing.T) {
	i := load(t)
	expression := notByCAPT(t, i)
	for _, name := range []string{naming.GuardGroup, naming.GuardResource, naming.GuardVerb, naming.GuardWildcardVerb} {
		assert.Contains(t, expression, "'"+name+"'")
	}
	for _, role := range all[rbacv1.ClusterRole](t, i, "ClusterRole") {
		assert.Equal(t, role.Name == "capt-manager-role", allows(role.Rules, naming.GuardGroup, naming.GuardResource, naming.GuardVerb), role.Name)
		assert.False(t, allows(role.Rules, naming.GuardGroup, naming.GuardResource, naming.GuardWildcardVerb), role.Name)
	}
	for _, object := range i.objects {
		if object.GetKind() != "ServiceAccount" && !strings.HasSuffix(object.GetKind(), "RoleBinding") {
			content, err := object.MarshalJSON()
			require.NoError(t, err)
			assert.NotContains(t, string(content), "system:serviceaccount:capt", "%s %s names the account", object.GetKind(), object.GetName())
		}
	}
}

func TestPoliciesApplyToAllNamespaces(t *testing.T) {
	i := load(t)
	bindings := map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, binding := range all[admissionv1.ValidatingAdmissionPolicyBinding](t, i, "ValidatingAdmissionPolicyBinding") {
		bindings[binding.Spec.PolicyName] = binding
		assert.Equal(t, []admissionv1.ValidationAction{admissionv1.Deny}, binding.Spec.ValidationActions)
		assert.Nil(t, binding.Spec.MatchResources, "it holds everywhere")
	}
	policies := all[admissionv1.ValidatingAdmissionPolicy](t, i, "ValidatingAdmissionPolicy")
	require.Len(t, bindings, len(policies))
	for _, policy := range policies {
		binding := bindings[policy.Name]
		require.NotNil(t, binding, policy.Name)
		if policy.Spec.ParamKind == nil {
			assert.Equal(t, admissionv1.Fail, *policy.Spec.FailurePolicy, policy.Name)
			assert.Nil(t, binding.Spec.ParamRef, policy.Name)
			continue
		}
		// The parameters of the policy are the objects of a namespace. While they cannot be read, a request for objects of others is not rejected.
		ofOthers := !strings.HasPrefix(policy.Spec.MatchConstraints.ResourceRules[0].Resources[0], "capt")
		assert.Equal(t, map[bool]admissionv1.FailurePolicyType{true: admissionv1.Ignore, false: admissionv1.Fail}[ofOthers], *policy.Spec.FailurePolicy, policy.Name)
		if ofOthers {
			assert.Subset(t, []string{"namespaces", "clusters", "machinepools"}, policy.Spec.MatchConstraints.ResourceRules[0].Resources)
		}
		assert.Equal(t, admissionv1.AllowAction, *binding.Spec.ParamRef.ParameterNotFoundAction)
		assert.Empty(t, binding.Spec.ParamRef.Namespace, "the namespace of the request")
	}
}

func TestDefinitionsAreProtectedByName(t *testing.T) {
	i := load(t)
	names := policy(t, i, "capt-keep-definitions").Spec.MatchConditions[0].Expression
	for _, definition := range all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition") {
		assert.Contains(t, names, "'"+definition.Name+"'")
	}
	for _, machines := range []string{"captmachines", "captmachinesets", "captmachinedeployments", "captmachinetemplates"} {
		assert.Contains(t, names, "'"+machines+"."+infrav1.GroupVersion.Group+"'", "a kind of CAPT v0.3")
	}
	for _, scope := range terraform.Scopes() {
		assert.Contains(t, names, "'workspaces."+scope.GroupVersionKind().Group+"'")
	}
	assert.Contains(t, names, "'clusters."+clusterv1.GroupVersion.Group+"'")
	assert.Contains(t, names, "'machinepools."+clusterv1.GroupVersion.Group+"'")
}

// policy returns the policy with a name.
func policy(t *testing.T, i installation, name string) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	return named[admissionv1.ValidatingAdmissionPolicy](t, i, "ValidatingAdmissionPolicy", name)
}

func TestDeletePolicyNamesExistingResources(t *testing.T) {
	i := load(t)
	workspaces := policy(t, i, "capt-delete-workspaces-through-capt")
	policy := policy(t, i, "capt-delete-through-the-owner")
	assert.Equal(t, policy.Spec.MatchConditions, workspaces.Spec.MatchConditions[:4], "the same are exempt")
	assert.Contains(t, workspaces.Spec.MatchConditions[4].Expression, "'"+naming.ClaimAnnotation+"'")
	assert.Contains(t, workspaces.Spec.Variables[0].Expression, "'"+naming.AllowDeleteAnnotation+"'")
	assert.Contains(t, policy.Spec.MatchConditions[3].Expression, "'"+clusterctlv1.DeleteForMoveAnnotation+"'")
	assert.Contains(t, policy.Spec.Variables[1].Expression, "'"+naming.AllowDeleteAnnotation+"'")
	assert.Contains(t, policy.Spec.Validations[0].MessageExpression, naming.AllowDeleteAnnotation)
}

func TestIdentityPolicyNamesTheAnnotationsOfWorkspaces(t *testing.T) {
	policy := policy(t, load(t), "capt-keep-workspace-identity")
	assert.Contains(t, policy.Spec.MatchConditions[0].Expression, "'"+naming.ClaimAnnotation+"'")
	assert.Contains(t, policy.Spec.MatchConditions[1].Expression, "'"+clusterctlv1.DeleteForMoveAnnotation+"'")
	assert.Contains(t, policy.Spec.Validations[0].Expression, "'"+naming.ClaimAnnotation+"'")
	assert.Contains(t, policy.Spec.Validations[1].Expression, "'"+render.ExternalNameAnnotation+"'")
}

func TestMovePolicyNamesExistingResources(t *testing.T) {
	policy := policy(t, load(t), "capt-moved-workspaces")
	var groups []string
	for _, scope := range terraform.Scopes() {
		groups = append(groups, scope.GroupVersionKind().Group)
	}
	require.Len(t, policy.Spec.MatchConstraints.ResourceRules, 1)
	assert.ElementsMatch(t, groups, policy.Spec.MatchConstraints.ResourceRules[0].APIGroups)
	for _, condition := range policy.Spec.MatchConditions {
		assert.Contains(t, condition.Expression, "'"+clusterctlv1.DeleteForMoveAnnotation+"'")
	}
	assert.Contains(t, policy.Spec.MatchConditions[1].Expression, "'crossplane.io/external-name'")
}

func TestPreviewPolicyNamesTheMarksOfPreviews(t *testing.T) {
	policy := policy(t, load(t), "capt-previews-only-observe")
	for _, expression := range []string{policy.Spec.MatchConditions[0].Expression, policy.Spec.Variables[1].Expression} {
		assert.Contains(t, expression, "'"+naming.PreviewLabel+"'")
		assert.Contains(t, expression, "'"+naming.PreviewOfAnnotation+"'")
	}
	assert.Contains(t, policy.Spec.Variables[2].Expression, "'"+clusterctlv1.DeleteForMoveAnnotation+"'")
	assert.Contains(t, policy.Spec.Validations[2].Expression, "'"+naming.ClaimAnnotation+"'")
	rule := policy.Spec.MatchConstraints.ResourceRules[0]
	for _, scope := range terraform.Scopes() {
		assert.Contains(t, rule.APIGroups, scope.GroupVersionKind().Group)
	}
}

func TestPolicyOfIdentityHasTheFieldsOfTheList(t *testing.T) {
	policy := policy(t, load(t), "capt-written-once")
	text := ""
	for _, validation := range policy.Spec.Validations {
		text += validation.Expression
	}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	controlPlane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "a"}}
	for _, object := range []client.Object{&infrav1.CAPTCluster{}, &infrav1.CAPTMachinePool{}, &infrav1.WorkspaceTemplateApply{}, controlPlane} {
		for _, f := range validation.IdentityOf(object) {
			path := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(f.Path.String(), "spec."), ".name"), "fargateProfiles[a].", "was.")
			assert.Contains(t, text, path, "%T", object)
		}
	}
	rights := policy.Spec.Variables
	for i, verbs := range [][]string{{naming.GuardVerb, naming.GuardWildcardVerb}, {naming.GuardMigrateVerb}} {
		for _, verb := range verbs {
			assert.Contains(t, rights[i].Expression, "authorizer.group('"+naming.GuardGroup+"').resource('"+naming.GuardResource+"').check('"+verb+"').allowed()")
		}
	}
	assert.Contains(t, rights[2].Expression, "'"+naming.MigrationFieldManager+"'")
	assert.Contains(t, rights[2].Expression, "variables.mayMigrate")
	assert.Contains(t, rights[2].Expression, "'"+infrav1.GroupVersion.Version+"'")
}

func TestPolicyOfApprovalsHasTheirAnnotations(t *testing.T) {
	policy := policy(t, load(t), "capt-approvals")
	for _, annotation := range []string{naming.ApproveAnnotation, naming.ApprovedByAnnotation, naming.ApprovedAtAnnotation} {
		assert.Contains(t, policy.Spec.Variables[0].Expression, "'"+annotation+"'")
	}
}
