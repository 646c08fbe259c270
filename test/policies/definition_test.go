// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// olderDefinition is a definition of a kind that only CAPT v0.3 has, or another one.
func olderDefinition(kind, plural, group string) *apiextensionsv1.CustomResourceDefinition {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}}
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1beta1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		}},
	}
	return definition
}

func definitions(t *testing.T) (found []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	objects, err := manifests.Load("../../config/crd")
	require.NoError(t, err)
	for _, object := range objects {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, administrator(t).Get(t.Context(), client.ObjectKey{Name: object.GetName()}, definition))
		found = append(found, definition)
	}
	require.Len(t, found, 11)
	return found
}

func TestDefinitionsAreNotDeleted(t *testing.T) {
	t.Parallel()
	for _, definition := range definitions(t) {
		message := refused(t, func(ctx context.Context) error {
			return administrator(t).Delete(ctx, definition.DeepCopy(), client.DryRunAll)
		})
		for _, part := range []string{definition.Name, definition.Spec.Names.Kind, naming.AllowDeleteAnnotation + ` to "true"`} {
			require.Contains(t, message, part)
		}
		output, err := kubectl(t, "delete", "crd", "--wait=false", definition.Name)
		require.Error(t, err, output)
		require.Contains(t, output, "(Forbidden)")
	}
	err := as(t, "system:kube-controller-manager", "system:masters").Delete(t.Context(), definitions(t)[0], client.DryRunAll)
	require.True(t, apierrors.IsForbidden(err), "the policy applies to controllers of Kubernetes, too")

	// What kubectl delete -f and helm uninstall do with the manifests.
	objects, err := manifests.Load(installation)
	require.NoError(t, err)
	var all []byte
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			document, err := yaml.Marshal(object.Object)
			require.NoError(t, err)
			all = append(append(all, "---\n"...), document...)
		}
	}
	file := filepath.Join(t.TempDir(), "definitions.yaml")
	require.NoError(t, os.WriteFile(file, all, 0o600))
	output, err := kubectl(t, "delete", "--wait=false", "-f", file)
	require.Error(t, err, output)
	require.Len(t, definitions(t), 11)
	for _, definition := range definitions(t) {
		require.Nil(t, definition.DeletionTimestamp, definition.Name)
	}
}

// Workspaces go with the definitions of provider-terraform, and Clusters with that of Cluster API. Deleting a collection names no
// definition.
func TestDefinitionsThatClustersStandOnAreNotDeleted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"workspaces.tf.upbound.io", "workspaces.tf.m.upbound.io", "clusters.cluster.x-k8s.io", "machinepools.cluster.x-k8s.io"} {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		message := refused(t, func(ctx context.Context) error { return administrator(t).Delete(ctx, definition, client.DryRunAll) })
		require.Contains(t, message, name)
		collection := &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}
		client.MatchingFields{"metadata.name": name}.ApplyToDeleteAllOf(collection)
		err := administrator(t).DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}, collection)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
	}
}

func TestDefinitionsOfCAPTv03AreGuarded(t *testing.T) {
	t.Parallel()
	definition := olderDefinition("CaptMachine", "captmachines", "infrastructure.cluster.x-k8s.io")
	require.NoError(t, administrator(t).Create(t.Context(), definition))
	refused(t, func(ctx context.Context) error {
		return administrator(t).Delete(ctx, definition.DeepCopy(), client.DryRunAll)
	})
	named := client.Preconditions{UID: ptr.To(definition.UID)}
	require.True(t, apierrors.IsForbidden(administrator(t).Delete(t.Context(), definition.DeepCopy(), named, client.DryRunAll)))

	allow(t, definition, "false")
	require.True(t, apierrors.IsForbidden(administrator(t).Delete(t.Context(), definition.DeepCopy())))
	output, err := kubectl(t, "annotate", "crd", definition.Name, "--overwrite", naming.AllowDeleteAnnotation+"=true")
	require.NoError(t, err, output)
	output, err = kubectl(t, "delete", "crd", definition.Name)
	require.NoError(t, err, output)

	for _, group := range []string{"example.com", "infrastructure.cluster.x-k8s.io"} {
		other := olderDefinition("Somewhat", "somewhats", group)
		require.NoError(t, administrator(t).Create(t.Context(), other))
		require.NoError(t, administrator(t).Delete(t.Context(), other), "a definition of others is deleted freely")
	}
}

// The policies are there, and neither CAPT's kinds nor those of provider-terraform: between an uninstallation and the next
// installation, for example.
func TestPoliciesDoNoHarmWhereTheKindsAreMissing(t *testing.T) {
	t.Parallel()
	s := fixture.Start(t, sandbox.Options{NoCRDs: true})
	api, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	policies, err := manifests.Load("../../config/policy")
	require.NoError(t, err)
	require.NoError(t, manifests.Apply(t.Context(), api, policies...))

	// The policy for definitions needs no kind of CAPT. When it holds, the API server has seen the others as well.
	definition := olderDefinition("CaptMachine", "captmachines", "infrastructure.cluster.x-k8s.io")
	require.NoError(t, api.Create(t.Context(), definition))
	refused(t, func(ctx context.Context) error { return api.Delete(ctx, definition, client.DryRunAll) })

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	require.NoError(t, api.Create(t.Context(), namespace))
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Timeout)
	defer cancel()
	require.NoError(t, api.Delete(ctx, namespace), "it must not hang")

	// The commands of captctl migrate check annotate this definition before they delete it.
	older := olderDefinition("CaptControlPlaneTemplate", "captcontrolplanetemplates", "controlplane.cluster.x-k8s.io")
	require.NoError(t, api.Create(t.Context(), older))
	require.True(t, apierrors.IsForbidden(api.Delete(t.Context(), older.DeepCopy(), client.DryRunAll)))
	require.NoError(t, sandbox.AllowDelete(t.Context(), api, older))
	require.NoError(t, api.Delete(t.Context(), older, client.DryRunAll))
}
