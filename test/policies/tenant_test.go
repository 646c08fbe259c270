// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

const (
	// hold is a finalizer of the tenant.
	hold = "tenant.example.com/hold"
	// withoutWebhooks labels namespaces for which the webhooks are not called.
	withoutWebhooks = "test.capt.cluster.x-k8s.io/without-webhooks"
)

var excludeOnce sync.Once

// excludeNamespaces changes the webhooks of CAPT so that they are not called for namespaces with the label.
func excludeNamespaces(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		for _, found := range fixture.List(t, shared.API, admissionv1.SchemeGroupVersion.WithKind(kind)) {
			webhooks, _, _ := unstructured.NestedSlice(found.Object, "webhooks")
			var patch []string
			for i := range webhooks {
				patch = append(patch, fmt.Sprintf(`{"op":"add","path":"/webhooks/%d/namespaceSelector","value":{"matchExpressions":[{"key":%q,"operator":"DoesNotExist"}]}}`, i, withoutWebhooks))
			}
			if strings.Contains(found.GetName(), "capt-") {
				require.NoError(t, shared.API.Patch(t.Context(), &found, client.RawPatch(types.JSONPatchType, []byte("["+strings.Join(patch, ",")+"]"))))
			}
		}
	}
}

// tenant is a user with the roles that Kubernetes aggregates to edit, in one namespace.
type tenant struct {
	*fixture.Environment
	api  client.Client
	name string
}

// asTenant runs a test with webhooks and policies, and with policies alone.
func asTenant(t *testing.T, test func(user tenant)) {
	t.Helper()
	excludeOnce.Do(func() { excludeNamespaces(t) })
	for name, label := range map[string]string{"with webhooks": `{}`, "policies alone": `{"` + withoutWebhooks + `":""}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeCluster)
			env.Edit(&corev1.Namespace{}, env.Namespace, `{"metadata":{"labels":`+label+`}}`)
			user := tenant{Environment: env, name: "tenant-of-" + env.Namespace}
			user.api = as(t, user.name, "system:authenticated")
			roles := &rbacv1.ClusterRoleList{}
			require.NoError(t, administrator(t).List(t.Context(), roles))
			for _, role := range roles.Items {
				if role.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] != "true" && role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" {
					continue
				}
				require.NoError(t, administrator(t).Create(t.Context(), &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: role.Name},
					RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
					Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.name}},
				}))
			}
			env.Eventually(func() string {
				err := user.api.Patch(t.Context(), &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "absent"}}, client.RawPatch(types.MergePatchType, []byte(`{}`)))
				return fixture.Unless(apierrors.IsNotFound(err), "%v", err)
			})
			test(user)
		})
	}
}

// apply returns a WorkspaceTemplateApply of the tenant, which refers to no template.
func (user tenant) apply(name string, finalizers ...string) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: user.Namespace, Name: name, Finalizers: finalizers}}
	apply.Spec.TemplateRef.Name = "absent"
	return apply
}

// patch patches an object as the tenant.
func (user tenant) patch(object client.Object, patch string, options ...client.PatchOption) error {
	return user.api.Patch(user.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), options...)
}

// older returns the identity of a WorkspaceTemplateApply in v1beta1.
func older(apply *infrav1.WorkspaceTemplateApply) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	object.SetNamespace(apply.Namespace)
	object.SetName(apply.Name)
	return object
}

// victim creates what an adopted cluster of another namespace has: a Workspace of CAPT v0.3 without a claim, and a WorkspaceTemplateApply that records
// it. The manager is paused for it, so that the test alone decides what is recorded.
func (user tenant) victim() (*infrav1.WorkspaceTemplateApply, *unstructured.Unstructured) {
	user.Helper()
	other := shared.NewEnvironment(user.T, terraform.ScopeCluster)
	workspace := fixture.Decode(user, "", fmt.Sprintf(`{apiVersion: tf.upbound.io/v1beta1, kind: Workspace, metadata: {name: %[1]s-workspace},
		spec: {managementPolicies: [Observe], providerConfigRef: {name: %[1]s}, forProvider: {source: Inline, module: ''}}}`, other.Namespace))
	require.NoError(user, user.Create(user.Context(), workspace))
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
		Namespace: other.Namespace, Name: "victim", Annotations: map[string]string{"cluster.x-k8s.io/paused": ""},
	}}
	apply.Spec.TemplateRef.Name, apply.Spec.WorkspaceName = "absent", workspace.GetName()
	require.NoError(user, user.Create(user.Context(), apply))
	apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{
		APIVersion: workspace.GetAPIVersion(), Kind: workspace.GetKind(), Name: workspace.GetName(), UID: workspace.GetUID(),
	}
	require.NoError(user, user.Status().Update(user.Context(), apply))
	return apply, workspace
}

// forged is the conversion-data with which v1beta1 kept the record of a Workspace.
func forged(workspace *unstructured.Unstructured) string {
	ref, _ := json.Marshal(infrav1.WorkspaceReference{APIVersion: workspace.GetAPIVersion(), Kind: workspace.GetKind(), Name: workspace.GetName(), UID: workspace.GetUID()})
	data := fmt.Sprintf(`{"fields":[{"path":"/status/workspaceRef","is":%s},{"path":"/spec/workspaceName","is":%q}]}`, ref, workspace.GetName())
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"cluster.x-k8s.io/conversion-data": data}}})
	return string(text)
}

// Webhooks are not called for an object in deletion. The record of an adopted Workspace is the only evidence for its owner.
func TestATenantCannotForgeTheRecordOfAWorkspace(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		theirs, workspace := user.victim()
		for name, write := range map[string]func(*infrav1.WorkspaceTemplateApply) error{
			"deleted": func(apply *infrav1.WorkspaceTemplateApply) error {
				require.NoError(user, user.api.Create(user.Context(), apply))
				require.NoError(user, user.api.Delete(user.Context(), apply))
				return user.patch(older(apply), forged(workspace))
			},
			"updated": func(apply *infrav1.WorkspaceTemplateApply) error {
				require.NoError(user, user.api.Create(user.Context(), apply))
				return user.patch(older(apply), forged(workspace))
			},
			"created": func(apply *infrav1.WorkspaceTemplateApply) error {
				object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(apply)
				require.NoError(user, err)
				created := &unstructured.Unstructured{Object: object}
				created.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply"))
				require.NoError(user, json.Unmarshal([]byte(forged(workspace)), &created.Object))
				created.SetName(apply.Name)
				created.SetNamespace(apply.Namespace)
				created.SetFinalizers(apply.Finalizers)
				return user.api.Create(user.Context(), created)
			},
		} {
			apply := user.apply(name, hold)
			err := write(apply)
			if err != nil {
				require.True(user, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
				require.NotContains(user, err.Error(), theirs.Namespace+"/"+theirs.Name)
			}
			if user.Exists(apply, name) {
				require.Nil(user, apply.Status.WorkspaceRef, name)
				require.NoError(user, client.IgnoreNotFound(user.api.Delete(user.Context(), apply)))
				require.NoError(user, client.IgnoreNotFound(user.patch(user.apply(name), `{"metadata":{"finalizers":null}}`)))
				user.AwaitGone(&infrav1.WorkspaceTemplateApply{}, name)
			}
			require.NoError(user, user.Get(user.Context(), client.ObjectKeyFromObject(workspace), workspace))
			require.Nil(user, workspace.GetDeletionTimestamp(), name)
		}
	})
}

// A two-step attack: the old object that admission sees comes from the same conversion.
func TestATenantCannotForgeTheStatusThatTheNextWriteKeeps(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		apply := user.apply("steps", hold)
		require.NoError(user, user.api.Create(user.Context(), apply))
		data, _ := json.Marshal(`{"fields":[{"path":"/status/workspaceName","is":"victim"},{"path":"/status/applied","is":true}]}`)
		require.NoError(user, user.patch(apply.DeepCopy(), `{"metadata":{"annotations":{"cluster.x-k8s.io/conversion-data":`+string(data)+`}}}`))
		require.NoError(user, user.patch(older(apply), `{"metadata":{"annotations":{"cluster.x-k8s.io/conversion-data":null},"labels":{"a":"b"}}}`))
		require.True(user, user.Exists(apply, "steps"))
		require.Empty(user, apply.Status.WorkspaceName)
		require.Empty(user, apply.Status.Applied)
		require.NoError(user, user.patch(apply, `{"metadata":{"finalizers":null}}`))
	})
}

func TestATenantCannotAssignARevision(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		const revision = `{"spec":{"templateRevision":"unapproved"}}`
		apply := user.apply("assigned", hold)
		require.NoError(user, user.api.Create(user.Context(), apply))
		requireRefused := func(err error) {
			user.Helper()
			require.True(user, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(user, err, "is assigned by CAPT")
		}
		for _, manager := range []string{naming.MigrationFieldManager, naming.RolloutFieldManager, "kubectl"} {
			requireRefused(user.patch(apply.DeepCopy(), revision, client.FieldOwner(manager)))
		}
		created := user.apply("born")
		created.Spec.TemplateRevision = "unapproved"
		requireRefused(user.api.Create(user.Context(), created, client.FieldOwner(naming.MigrationFieldManager)))
		require.NoError(user, user.Create(user.Context(), created), "clusterctl move creates objects with the revision that they had")
		require.NoError(user, user.api.Delete(user.Context(), created))

		require.NoError(user, user.api.Delete(user.Context(), apply))
		requireRefused(user.patch(apply.DeepCopy(), revision, client.FieldOwner(naming.MigrationFieldManager)))
		require.NoError(user, user.patch(apply, `{"metadata":{"finalizers":null}}`))
	})
}

func TestATenantCannotNameATerraformState(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		const state = `{"spec":{"terraformState":{"name":"victim","providerConfig":"ClusterProviderConfig/aws"}}}`
		apply := user.apply("own", hold)
		require.NoError(user, user.api.Create(user.Context(), apply))
		requireRefused := func(err error) {
			user.Helper()
			require.True(user, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
			require.Regexp(user, "terraformState|terraform-state", err)
		}
		for _, manager := range []string{naming.MigrationFieldManager, "captctl-adopt", "kubectl"} {
			requireRefused(user.patch(apply.DeepCopy(), state, client.FieldOwner(manager)))
		}
		created := user.apply("adopter")
		created.Spec.TerraformState = infrav1.TerraformState{Name: "victim", ProviderConfig: "ClusterProviderConfig/aws"}
		requireRefused(user.api.Create(user.Context(), created.DeepCopy(), client.FieldOwner(naming.MigrationFieldManager)))
		require.NoError(user, user.Create(user.Context(), created), "an administrator may")
		for _, patch := range []string{`{"spec":{"terraformState":{"name":"another"}}}`, `{"spec":{"terraformState":{"providerConfig":"ClusterProviderConfig/other"}}}`} {
			requireRefused(user.patch(created.DeepCopy(), patch))
		}
		_ = user.patch(created.DeepCopy(), `{"spec":{"terraformState":null}}`) // The webhook restores it; without webhooks, it is refused.
		require.True(user, user.Exists(created, created.Name))
		require.Equal(user, "victim", created.Spec.TerraformState.Name)

		// The record of a state, which a restore makes spec.terraformState.
		const record = naming.TerraformStateAnnotation
		recorded := user.apply("recorded")
		recorded.Annotations = map[string]string{record: "ClusterProviderConfig/aws victim"}
		requireRefused(user.api.Create(user.Context(), recorded.DeepCopy(), client.FieldOwner(naming.MigrationFieldManager)))
		requireRefused(user.patch(apply.DeepCopy(), `{"metadata":{"annotations":{"`+record+`":"ClusterProviderConfig/aws victim"}}}`, client.FieldOwner(naming.MigrationFieldManager)))
		require.NoError(user, user.Create(user.Context(), recorded), "an administrator may")

		require.NoError(user, user.api.Delete(user.Context(), apply))
		requireRefused(user.patch(apply.DeepCopy(), state))
		require.NoError(user, user.patch(apply, `{"metadata":{"finalizers":null}}`))
	})
}

func TestATenantCannotChangeTheIdentityOfAnObject(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		apply := user.apply("named", hold)
		apply.Spec.WorkspaceName = "mine"
		require.NoError(user, user.api.Create(user.Context(), apply))
		left := func(patch string) string {
			now := apply.DeepCopy()
			err := user.patch(now, patch, client.FieldOwner(naming.MigrationFieldManager))
			require.True(user, err == nil || apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
			require.True(user, user.Exists(now, apply.Name))
			return now.Spec.WorkspaceName
		}
		data, _ := json.Marshal(`{"fields":[{"path":"/spec/workspaceName","is":"victim"}]}`)
		for _, deleted := range []bool{false, true} {
			if deleted {
				require.NoError(user, user.api.Delete(user.Context(), apply))
			}
			require.Equal(user, "mine", left(`{"spec":{"workspaceName":null}}`))
			require.Equal(user, "mine", left(`{"spec":{"workspaceName":"victim"}}`))
			err := user.patch(older(apply), `{"metadata":{"annotations":{"cluster.x-k8s.io/conversion-data":`+string(data)+`}}}`)
			require.True(user, err == nil || apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
			require.Equal(user, "mine", left(`{}`))
		}
		require.NoError(user, user.patch(apply, `{"metadata":{"finalizers":null}}`))

		late := user.apply("late", hold)
		require.NoError(user, user.api.Create(user.Context(), late))
		require.NoError(user, user.api.Delete(user.Context(), late))
		err := user.patch(late.DeepCopy(), `{"spec":{"workspaceName":"victim"}}`)
		require.True(user, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(user, err, "is being deleted")
		require.NoError(user, user.patch(late, `{"metadata":{"finalizers":null}}`))
	})
}

// Server-side apply keeps the deletion timestamp of a new object until admission has seen it.
func TestAnApprovalCannotBeForged(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		now := metav1.NewTime(time.Now())
		for name, deletion := range map[string]*metav1.Time{"usual": nil, "born-deleted": &now} {
			object := older(user.apply(name))
			object.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
			object.SetAnnotations(map[string]string{naming.ApproveAnnotation: "a", naming.ApprovedByAnnotation: "boss", naming.ApprovedAtAnnotation: "2026-01-01T00:00:00Z"})
			object.SetDeletionTimestamp(deletion)
			require.NoError(user, unstructured.SetNestedField(object.Object, "absent", "spec", "templateRef", "name"))
			err := user.api.Apply(user.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("tenant"))
			apply := user.apply(name)
			if err != nil {
				require.True(user, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
				require.False(user, user.Exists(apply, name))
				continue
			}
			require.True(user, user.Exists(apply, name))
			require.Equal(user, user.name, apply.Annotations[naming.ApprovedByAnnotation])
			err = user.patch(apply, `{"metadata":{"annotations":{"`+naming.ApprovedByAnnotation+`":"boss"}}}`)
			require.True(user, err == nil || apierrors.IsForbidden(err), "%v", err)
			require.True(user, user.Exists(apply, name))
			require.Equal(user, user.name, apply.Annotations[naming.ApprovedByAnnotation])
		}
	})
}

// clusterctl move sets the annotation before it deletes an object. Every user can set it.
func TestTheAnnotationOfAMoveIsNoRight(t *testing.T) {
	t.Parallel()
	asTenant(t, func(user tenant) {
		user.User(fixture.CAPTCluster(fixture.Demo) + "  " + protection + "\n")
		object := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: user.Namespace, Name: fixture.Demo}}
		require.NoError(user, user.patch(object, forMove))
		require.ErrorContains(user, user.api.Delete(user.Context(), object), "is protected from deletion")
		require.NoError(user, user.Delete(user.Context(), object, client.DryRunAll), "an administrator may move it")
		require.NoError(user, user.patch(object, `{"metadata":{"annotations":null},"spec":{"deletionProtection":"Disabled"}}`))
		require.NoError(user, user.api.Delete(user.Context(), object))
	})
}
