/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package default_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// webhooks decodes the webhooks of a kind of configuration, which differ in one field only, and returns them by the kind
// that they are for.
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

// kindOf is the one kind that a webhook is for: never status, never somebody else's.
func kindOf(t *testing.T, i installation, webhook admissionv1.ValidatingWebhook) string {
	t.Helper()
	require.Len(t, webhook.Rules, 1)
	rule := webhook.Rules[0]
	require.Equal(t, []string{"v1beta2"}, rule.APIVersions, webhook.Name)
	require.Len(t, rule.Resources, 1, webhook.Name)
	for _, definition := range all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition") {
		if definition.Spec.Names.Plural == rule.Resources[0] && slices.Equal(rule.APIGroups, []string{definition.Spec.Group}) {
			return definition.Spec.Names.Kind
		}
	}
	require.Failf(t, "not ours", "%s is for %v of %v", webhook.Name, rule.Resources, rule.APIGroups)
	return ""
}

func TestWebhooksNeverStandInTheWayOfDeletionOrOfOthers(t *testing.T) {
	i := load(t)
	account := one[corev1.ServiceAccount](t, i, "ServiceAccount")
	mutating := webhooks(t, i, "MutatingWebhookConfiguration", "mutate")
	validating := webhooks(t, i, "ValidatingWebhookConfiguration", "validate")
	assert.ElementsMatch(t, []string{"CAPTCluster", "CAPTControlPlane", "WorkspaceTemplate", "WorkspaceTemplateApply"}, slices.Collect(maps.Keys(mutating)))
	assert.Len(t, validating, len(all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition")), "every kind is validated")

	for _, webhook := range slices.Concat(slices.Collect(maps.Values(mutating)), slices.Collect(maps.Values(validating))) {
		t.Run(webhook.Name, func(t *testing.T) {
			assert.Equal(t, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, webhook.Rules[0].Operations)
			assert.Equal(t, admissionv1.Fail, *webhook.FailurePolicy)
			assert.Equal(t, admissionv1.Equivalent, *webhook.MatchPolicy, "v1beta1 is checked too")
			assert.Equal(t, admissionv1.SideEffectClassNone, *webhook.SideEffects)
			assert.LessOrEqual(t, *webhook.TimeoutSeconds, int32(5))
			assert.Equal(t, []string{"v1"}, webhook.AdmissionReviewVersions)
			require.Len(t, webhook.MatchConditions, 2)
			assert.Equal(t, "!has(object.metadata.deletionTimestamp)", webhook.MatchConditions[0].Expression)
			assert.Equal(t, "request.userInfo.username != 'system:serviceaccount:"+account.Namespace+":"+account.Name+"'", webhook.MatchConditions[1].Expression)
			assert.Nil(t, webhook.NamespaceSelector, "no namespace is exempt")
			assert.Nil(t, webhook.ObjectSelector)
		})
	}
}

func TestPoliciesHoldEverywhere(t *testing.T) {
	i := load(t)
	bound := map[string]bool{}
	for _, binding := range all[admissionv1.ValidatingAdmissionPolicyBinding](t, i, "ValidatingAdmissionPolicyBinding") {
		bound[binding.Spec.PolicyName] = true
		assert.Equal(t, []admissionv1.ValidationAction{admissionv1.Deny}, binding.Spec.ValidationActions)
		assert.Nil(t, binding.Spec.MatchResources, "it holds everywhere")
	}
	policies := all[admissionv1.ValidatingAdmissionPolicy](t, i, "ValidatingAdmissionPolicy")
	require.Len(t, policies, 3)
	for _, policy := range policies {
		assert.True(t, bound[policy.Name], policy.Name)
		assert.Equal(t, admissionv1.Fail, *policy.Spec.FailurePolicy)
		assert.Nil(t, policy.Spec.ParamKind, "parameters could be missing")
	}
}

// policy is the policy of a name.
func policy(t *testing.T, i installation, name string) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	for _, found := range all[admissionv1.ValidatingAdmissionPolicy](t, i, "ValidatingAdmissionPolicy") {
		if found.Name == name {
			return found
		}
	}
	require.Fail(t, "no such policy", name)
	return nil
}

func TestTheDeletePolicyNamesWhatExists(t *testing.T) {
	i := load(t)
	policy := policy(t, i, "capt-delete-through-the-owner")
	account := one[corev1.ServiceAccount](t, i, "ServiceAccount")
	assert.Contains(t, policy.Spec.MatchConditions[0].Expression, "'system:serviceaccount:"+account.Namespace+":"+account.Name+"'")
	assert.Contains(t, policy.Spec.MatchConditions[2].Expression, "'"+clusterctlv1.DeleteForMoveAnnotation+"'")
	assert.Contains(t, policy.Spec.Variables[1].Expression, "'"+naming.AllowDeleteAnnotation+"'")
	assert.Contains(t, policy.Spec.Validations[0].MessageExpression, naming.AllowDeleteAnnotation)
}

func TestTheMovePolicyNamesWhatExists(t *testing.T) {
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

func TestThePolicyOfWhatIsWrittenOnceNamesCaptctl(t *testing.T) {
	policy := policy(t, load(t), "capt-written-once")
	assert.Contains(t, policy.Spec.MatchConditions[0].Expression, "'"+naming.MigrationFieldManager+"'")
	assert.Contains(t, policy.Spec.MatchConditions[0].Expression, "'"+infrav1.GroupVersion.Version+"'")
}
