// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox"
)

// The kinds that Cluster API itself works with.
var (
	captClusterKind          = infrav1.GroupVersion.WithKind("CAPTCluster")
	captClusterTemplateKind  = infrav1.GroupVersion.WithKind("CAPTClusterTemplate")
	controlPlaneKind         = controlplanev1.GroupVersion.WithKind("CAPTControlPlane")
	controlPlaneTemplateKind = controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate")
)

// older is a kind in the older version of the API.
func older(kind schema.GroupVersionKind) schema.GroupVersionKind {
	return kind.GroupKind().WithVersion("v1beta1")
}

// each tests every one of some kinds.
func each(test func(*testing.T, schema.GroupVersionKind), kinds ...schema.GroupVersionKind) func(*testing.T) {
	return func(t *testing.T) {
		for _, kind := range kinds {
			t.Run(kind.Kind, func(t *testing.T) { test(t, kind) })
		}
	}
}

// definition reads the definition of a kind, by the name that Cluster API calculates for it instead of looking it up.
func definition(t *testing.T, kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	name := contract.CalculateCRDName(kind.Group, kind.Kind)
	require.NoError(t, shared.API.Get(t.Context(), client.ObjectKey{Name: name}, definition), "Cluster API finds no definition of %s", kind.Kind)
	return definition
}

// property is the schema of a field, at a path such as status.initialization.provisioned; nil when there is no such field.
// The fields of the elements of a list come right behind the list's name.
func property(version *apiextensionsv1.CustomResourceDefinitionVersion, path string) *apiextensionsv1.JSONSchemaProps {
	at := version.Schema.OpenAPIV3Schema
	for _, name := range strings.Split(path, ".") {
		if at.Items != nil {
			at = at.Items.Schema
		}
		next, ok := at.Properties[name]
		if !ok {
			return nil
		}
		at = &next
	}
	return at
}

// definedField is the schema of a field in the version of a kind; nil when there is no such field.
func definedField(t *testing.T, kind schema.GroupVersionKind, path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	versions := definition(t, kind).Spec.Versions
	at := slices.IndexFunc(versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == kind.Version })
	require.GreaterOrEqual(t, at, 0, "%s is not defined", kind)
	return property(&versions[at], path)
}

// requireFields requires fields of the contract, with their types, in the version that follows it.
func requireFields(t *testing.T, kind schema.GroupVersionKind, types map[string]string) {
	t.Helper()
	for path, want := range types {
		found := definedField(t, kind, path)
		require.NotNil(t, found, "%s has no field %s", kind.Kind, path)
		require.Equal(t, want, found.Type, "%s.%s", kind.Kind, path)
	}
}

// conditionFields are the fields of conditions, for requireFields.
var conditionFields = map[string]string{
	"status.conditions": "array", "status.conditions.type": "string", "status.conditions.status": "string",
	"status.conditions.reason": "string", "status.conditions.message": "string",
	"status.conditions.lastTransitionTime": "string", "status.conditions.observedGeneration": "integer",
}

// requireNoFields requires that a kind does not have fields of the contract, in any version: Cluster API would read them.
func requireNoFields(t *testing.T, kind schema.GroupVersionKind, paths ...string) {
	t.Helper()
	versions := definition(t, kind).Spec.Versions
	for i := range versions {
		for _, path := range paths {
			require.Nil(t, property(&versions[i], path), "%s %s has %s", versions[i].Name, kind.Kind, path)
		}
	}
}

func isNamespaced(t *testing.T, kind schema.GroupVersionKind) {
	require.Equal(t, apiextensionsv1.NamespaceScoped, definition(t, kind).Spec.Scope)
	mapping, err := shared.API.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	require.EqualValues(t, "namespace", mapping.Scope.Name(), "as the API server serves it")
}

func hasTypeMetaAndObjectMeta(t *testing.T, kind schema.GroupVersionKind) {
	for _, version := range definition(t, kind).Spec.Versions {
		for path, want := range map[string]string{"apiVersion": "string", "kind": "string", "metadata": "object"} {
			found := property(&version, path)
			require.NotNil(t, found, "%s %s", version.Name, path)
			require.Equal(t, want, found.Type, "%s %s", version.Name, path)
		}
	}
}

// inEveryVersion reads the objects of the Cluster that is there in each version: they are the same objects.
func inEveryVersion(name string, kinds ...schema.GroupVersionKind) func(*testing.T) {
	return each(func(t *testing.T, kind schema.GroupVersionKind) {
		env := demoEnvironment(t)
		for _, version := range []schema.GroupVersionKind{kind, older(kind)} {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(version)
			env.read(object, name)
			require.Equal(t, version, object.GroupVersionKind())
			require.NotEmpty(t, object.UID)
			require.Equal(t, name, object.Name)
			require.NotEmpty(t, object.OwnerReferences, version.Version)
			require.NotEmpty(t, object.Labels, version.Version)
			require.NotEmpty(t, object.Finalizers, version.Version)
		}
	}, kinds...)
}

// followsTheContract looks at what Cluster API looks at: the group, the label that leads from a version of the contract to
// versions of the definition, and what Cluster API may do with the objects.
func followsTheContract(t *testing.T, kind schema.GroupVersionKind) {
	definition := definition(t, kind)
	require.True(t, strings.HasSuffix(kind.Group, ".cluster.x-k8s.io"), "Cluster API's own roles are for its own domain")

	served := map[string]bool{}
	for _, version := range definition.Spec.Versions {
		served[version.Name] = version.Served
	}
	require.NotEmpty(t, definition.Labels["cluster.x-k8s.io/"+contractVersion], "no version follows the contract %s", contractVersion)
	for label, versions := range definition.Labels {
		if !strings.HasPrefix(label, "cluster.x-k8s.io/v") {
			continue
		}
		for _, version := range strings.Split(versions, "_") {
			require.True(t, served[version], "%s: %s names version %s, which is not served", definition.Name, label, version)
		}
	}

	plural := definition.Spec.Names.Plural
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: sandbox.ClusterAPIUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: demo, Group: kind.Group, Version: kind.Version, Resource: plural, Verb: verb,
			},
		}}
		require.NoError(t, shared.API.Create(t.Context(), review))
		assert.True(t, review.Status.Allowed, "Cluster API may not %s %s", verb, plural)
	}
}

// isDefined looks at the definition of a kind, and at its list as the API server serves it.
func isDefined(t *testing.T, kind schema.GroupVersionKind) {
	definition := definition(t, kind)
	require.Equal(t, kind.Kind, definition.Spec.Names.Kind)
	require.Equal(t, kind.Kind+"List", definition.Spec.Names.ListKind)
	require.Contains(t, definition.Spec.Names.Categories, "cluster-api", "kubectl get cluster-api shows it")

	stored := ""
	for _, version := range definition.Spec.Versions {
		require.True(t, version.Served, version.Name)
		if version.Storage {
			stored = version.Name
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind.Group + "/" + version.Name)
		list.SetKind(kind.Kind + "List")
		require.NoError(t, shared.API.List(t.Context(), list, client.InNamespace(demo)))
		require.Equal(t, kind.Kind+"List", list.GetKind())
		require.Equal(t, kind.Group+"/"+version.Name, list.GetAPIVersion())
	}
	require.Equal(t, contractVersion, stored)
}

// hasStatus requires that status is a subresource: who writes one does not overwrite the other.
func hasStatus(t *testing.T, kind schema.GroupVersionKind) {
	for _, version := range definition(t, kind).Spec.Versions {
		require.NotNil(t, version.Subresources, version.Name)
		require.NotNil(t, version.Subresources.Status, version.Name)
	}
}

// isTemplateOf requires that a kind is a template of another: Cluster API derives the kind of what it makes from the name of
// the template, and copies spec.template.
func isTemplateOf(t *testing.T, template, object schema.GroupVersionKind, ofOneClusterOnly ...string) {
	isDefined(t, template)
	require.Equal(t, object.Kind+"Template", template.Kind)
	require.Equal(t, object.Group, template.Group)
	requireFields(t, template, map[string]string{
		"spec.template": "object", "spec.template.metadata": "object", "spec.template.spec": "object",
		"spec.template.metadata.labels": "object", "spec.template.metadata.annotations": "object",
	})

	// What the template has is what the object has, less what is of one cluster. The older version keeps what it had.
	ofObject, fields := definedField(t, object, "spec").Properties, definedField(t, template, "spec.template.spec").Properties
	for _, name := range ofOneClusterOnly {
		require.NotContains(t, fields, name)
	}
	for name, ofTemplate := range fields {
		require.Contains(t, ofObject, name)
		require.Equal(t, ofObject[name].Type, ofTemplate.Type, name)
	}
}
