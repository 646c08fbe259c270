// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// refusal is a policy that refuses the manager one kind of write in one namespace.
type refusal struct {
	group, resource string
	operation       admissionv1.OperationType
}

// refuse installs a policy and returns what takes it away. It waits until the API server knows it.
func refuse(env *fixture.Environment, r refusal, known func() error) func() {
	env.Helper()
	name := fmt.Sprintf("%s-%s-%s", env.Namespace, r.resource, strings.ToLower(string(r.operation)))
	manager, err := env.InstalledManagerUser()
	require.NoError(env, err)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: env.Namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{r.operation},
				Rule:       admissionv1.Rule{APIGroups: []string{r.group}, APIVersions: []string{"*"}, Resources: []string{r.resource}},
			}}},
		},
		MatchConditions: []admissionv1.MatchCondition{{Name: "manager", Expression: fmt.Sprintf("request.userInfo.username == '%s'", manager)}},
		Validations:     []admissionv1.Validation{{Expression: "false", Message: why, Reason: ptr.To(metav1.StatusReasonForbidden)}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	api := as(env.T, "test-administrator", "system:masters")
	require.NoError(env, api.Create(env.Context(), policy))
	require.NoError(env, api.Create(env.Context(), binding))
	env.Eventually(func() string { return fixture.Unless(known() != nil, "the API server does not know the policy") })
	return func() {
		require.NoError(env, api.Delete(env.Context(), binding))
		require.NoError(env, api.Delete(env.Context(), policy))
	}
}

// asManager sends a request as the manager, and keeps nothing of it.
func asManager(env *fixture.Environment, request func(c client.Client) error) func() error {
	manager, err := env.InstalledManagerUser()
	require.NoError(env, err)
	c := as(env.T, manager, "system:serviceaccounts")
	return func() error { return request(c) }
}

const why = "the platform team says no"

// Each refused write is reported in a condition with the reason for the refusal, and succeeds once it is allowed again.
func TestRefusedWriteIsReported(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Templates()...)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: env.Namespace, Name: name} }

	allowUpdates := refuse(env, refusal{infrav1.GroupVersion.Group, "workspacetemplates", admissionv1.Update}, asManager(env, func(c client.Client) error {
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		return c.Patch(t.Context(), &infrav1.WorkspaceTemplate{ObjectMeta: meta(fixture.VPCTemplate)}, label, client.DryRunAll)
	}))
	env.User(env.Template("late", fixture.VPCModule, "vpc_name"))
	env.Await(&infrav1.WorkspaceTemplate{}, "late", infrav1.ValidCondition, metav1.ConditionUnknown, infrav1.WriteRefusedReason, why)
	allowUpdates()
	env.Await(&infrav1.WorkspaceTemplate{}, "late", infrav1.ValidCondition, metav1.ConditionTrue, infrav1.ValidReason)

	allowSecrets := refuse(env, refusal{"", "secrets", admissionv1.Create}, asManager(env, func(c client.Client) error {
		return c.Create(t.Context(), &corev1.Secret{ObjectMeta: meta("probe")}, client.DryRunAll)
	}))
	env.User(env.Everything()...)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.WriteRefusedReason,
		why, "writing Secret demo-kubeconfig", "admission policies")
	allowSecrets()
	env.AwaitState(infrav1.StateReady, "")
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)

	deleted := func(object client.Object) func() error {
		return asManager(env, func(c client.Client) error {
			return c.Delete(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
		})
	}
	allowApplies := refuse(env, refusal{infrav1.GroupVersion.Group, "workspacetemplateapplies", admissionv1.Delete},
		deleted(&infrav1.WorkspaceTemplateApply{ObjectMeta: meta(fixture.ControlPlane)}))
	allowWorkspaces := refuse(env, refusal{env.Scope.GroupVersionKind().Group, "workspaces", admissionv1.Delete}, deleted(env.Workspace(fixture.ControlPlane)))
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WriteRefusedReason,
		why, "deleting WorkspaceTemplateApply "+fixture.ControlPlane)
	allowApplies()
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WriteRefusedReason,
		why, "deleting Workspace "+fixture.ControlPlane[:len("demo-eks-controlplane")])
	allowWorkspaces()
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireNothingLeft()
}
