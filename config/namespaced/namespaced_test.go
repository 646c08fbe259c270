// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespaced_test checks that an installation for one namespace has the rights of config/rbac/role.yaml, and grants in the whole management
// cluster only what cannot be granted in a namespace.
package namespaced_test

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// migration is why a right is not granted: the manager has a flag that skips the migration.
const migration = "only the migration of stored versions needs it"

// everywhere returns why rights are granted in the whole management cluster, by resource; docs/install-reference.md has the same list.
func everywhere() map[string]string {
	const noNamespace = "the kind has no namespaces"
	return map[string]string{
		"/namespaces": noNamespace,
		"admissionregistration.k8s.io/validatingadmissionpolicybindings": noNamespace,
		"apiextensions.k8s.io/customresourcedefinitions":                 noNamespace,
		"authentication.k8s.io/tokenreviews":                             noNamespace,
		"authorization.k8s.io/subjectaccessreviews":                      noNamespace,
		"capt.cluster.x-k8s.io/guards":                                   "policies check it at cluster scope",
		"tf.m.upbound.io/clusterproviderconfigs":                         noNamespace,
		"tf.upbound.io/providerconfigs":                                  noNamespace,
		"tf.upbound.io/workspaces":                                       noNamespace,
		"tf.upbound.io/workspaces/status":                                noNamespace,
	}
}

// omitted returns why rights of config/rbac/role.yaml are not granted at all.
func omitted() map[string]string {
	return map[string]string{
		"patch apiextensions.k8s.io/customresourcedefinitions":          migration,
		"patch apiextensions.k8s.io/customresourcedefinitions/status":   migration,
		"get controlplane.cluster.x-k8s.io/captcontrolplanetemplates":   migration,
		"list controlplane.cluster.x-k8s.io/captcontrolplanetemplates":  migration,
		"patch controlplane.cluster.x-k8s.io/captcontrolplanetemplates": migration,
	}
}

// rights of rules, as "verb group/resource".
func rights(rules []rbacv1.PolicyRule) (list []string) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					list = append(list, verb+" "+group+"/"+resource)
				}
			}
		}
	}
	return list
}

func decode[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into))
	return into
}

// built are the objects of the installation that test/roles runs. kustomize takes a second.
var built = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	return manifests.Load("../../test/roles/testdata/namespaced")
})

// installed returns the objects of a kind.
func installed[T any](t *testing.T, kind, name string) (found []*T) {
	t.Helper()
	objects, err := built()
	require.NoError(t, err)
	for _, object := range objects {
		if object.GetKind() == kind && (name == "" || object.GetName() == name) {
			found = append(found, decode[T](t, object))
		}
	}
	return found
}

func TestTheRightsAreThoseOfTheWholeInstallation(t *testing.T) {
	objects, err := manifests.Load("../rbac/role.yaml")
	require.NoError(t, err)
	want := rights(decode[rbacv1.ClusterRole](t, objects[0]).Rules)
	want = slices.DeleteFunc(want, func(right string) bool { return omitted()[right] != "" })

	cluster, namespaced := installed[rbacv1.ClusterRole](t, "ClusterRole", "capt-manager-role"), installed[rbacv1.Role](t, "Role", "capt-manager-role")
	require.Len(t, cluster, 1)
	require.Len(t, namespaced, 1)
	assert.ElementsMatch(t, want, slices.Concat(rights(cluster[0].Rules), rights(namespaced[0].Rules)),
		"a right of config/rbac/role.yaml belongs into config/namespaced/role.yaml, or into cluster_role.yaml if its kind has no namespaces")

	var unused []string
	for resource := range everywhere() {
		unused = append(unused, resource)
	}
	docs, err := os.ReadFile("../../docs/install-reference.md")
	require.NoError(t, err)
	for _, rule := range cluster[0].Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				assert.NotEmpty(t, everywhere()[group+"/"+resource], "%s/%s must not be granted in all namespaces", group, resource)
				assert.Contains(t, string(docs), "`"+resource+"`", "docs/install-reference.md explains each right")
				unused = slices.DeleteFunc(unused, func(known string) bool { return known == group+"/"+resource })
			}
		}
	}
	assert.Empty(t, unused)
}

func TestTheRoleIsBoundToTheManagerInItsNamespace(t *testing.T) {
	binding, role := installed[rbacv1.RoleBinding](t, "RoleBinding", "capt-manager-role"), installed[rbacv1.Role](t, "Role", "capt-manager-role")
	require.Len(t, binding, 1)
	assert.Equal(t, "team-a", binding[0].Namespace)
	assert.Equal(t, "team-a", role[0].Namespace)
	assert.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role[0].Name}, binding[0].RoleRef)
	account := installed[corev1.ServiceAccount](t, "ServiceAccount", "")
	require.Len(t, account, 1)
	assert.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account[0].Namespace, Name: account[0].Name}}, binding[0].Subjects)

	deployment := installed[appsv1.Deployment](t, "Deployment", "capt-manager")
	require.Len(t, deployment, 1)
	assert.Equal(t, []string{"--namespace=team-a", "--skip-crd-migration-phases=StorageVersionMigration", "--leader-elect"}, deployment[0].Spec.Template.Spec.Containers[0].Args)
	assert.Empty(t, installed[corev1.ConfigMap](t, "ConfigMap", ""), "it has the name of the namespace for kustomize only")
}

func TestWebhooksAreCalledForTheNamespaceOnly(t *testing.T) {
	want := map[string]string{corev1.LabelMetadataName: "team-a"}
	for _, configuration := range installed[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration", "") {
		for _, webhook := range configuration.Webhooks {
			if assert.NotNil(t, webhook.NamespaceSelector, webhook.Name) {
				assert.Equal(t, want, webhook.NamespaceSelector.MatchLabels, webhook.Name)
			}
		}
	}
	for _, configuration := range installed[admissionv1.ValidatingWebhookConfiguration](t, "ValidatingWebhookConfiguration", "") {
		for _, webhook := range configuration.Webhooks {
			if assert.NotNil(t, webhook.NamespaceSelector, webhook.Name) {
				assert.Equal(t, want, webhook.NamespaceSelector.MatchLabels, webhook.Name)
			}
		}
	}
}
