// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// clusterctlContract is the contract of providers that clusterctl installs. Its document has no table: its headings are the
// rules.
func clusterctlContract() book {
	const published, parent = "It is about where a provider is published.", "The headings below it are the rules."
	const released = "tools/release makes these files; its tests read them with clusterctl's packages, and those of config/samples check their objects."
	return book{file: "clusterctl.md", rules: []rule{
		{title: "Provider Repositories", reason: parent},
		{title: "Provider Repositories: Adding a provider to clusterctl", reason: published},
		{title: "Provider Repositories: Creating a provider repository on GitHub", reason: published},
		{title: "Provider Repositories: Creating a provider repository on GitLab", reason: published},
		{title: "Provider Repositories: Creating a local provider repository", reason: published},
		{title: "Metadata YAML", test: metadataIsValid},
		{title: "Metadata YAML: Validation Rules", test: metadataIsValid},
		{title: "Components YAML", reason: parent},
		{title: "Components YAML: Naming conventions", reason: released},
		{title: "Components YAML: Target namespace", test: componentsAreInOneNamespace},
		{title: "Components YAML: Controllers & Watching namespace", test: deploymentRunsTheManager},
		{title: "Components YAML: Variables", test: variablesHaveThePrefix},
		{title: "Components YAML: Labels", test: componentsAreLabeled},
		{title: "Workload cluster templates", reason: parent},
		{title: "Workload cluster templates: Naming conventions", reason: released},
		{title: "Workload cluster templates: Target namespace", reason: released},
		{title: "Workload cluster templates: Variables", reason: released},
		{title: "ClusterClass definitions", reason: parent},
		{title: "ClusterClass definitions: Naming conventions", reason: released},
		{title: "ClusterClass definitions: Target namespace", reason: released},
		{title: "ClusterClass definitions: Variables", reason: released},
		{title: "ClusterClass definitions: Note", reason: released},
		{title: "OwnerReferences chain", test: everythingLeadsToTheCluster},
		{title: "Additional notes", reason: parent},
		{title: "Components YAML transformations", reason: "It says what clusterctl does."},
		{title: "Cluster template transformations", reason: "It says what clusterctl does."},
		{title: "Links to external objects", reason: "It says what happens to those who leave objects out of the components."},
		{title: "Move", test: func(t *testing.T) {
			aside(t, "status is rebuilt", statusIsRebuilt)
		}},
	}}
}

// root is the folder of the module.
const root = "../.."

// components are what clusterctl would install.
func components(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Load(filepath.Join(root, "config", "default"))
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	return objects
}

func metadataIsValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config", "clusterctl", "metadata.yaml"))
	require.NoError(t, err)
	metadata := clusterctlv1.Metadata{}
	require.NoError(t, yaml.UnmarshalStrict(text, &metadata))
	require.Equal(t, clusterctlv1.GroupVersion.String(), metadata.APIVersion)
	require.Equal(t, "Metadata", metadata.Kind)
	require.NotEmpty(t, metadata.ReleaseSeries)
	newest := metadata.ReleaseSeries[0]
	require.Equal(t, contractVersion, newest.Contract, "what the labels of the definitions say")
	for _, series := range metadata.ReleaseSeries {
		require.False(t, series.Major > newest.Major || series.Major == newest.Major && series.Minor > newest.Minor, "newest first")
	}
}

func componentsAreInOneNamespace(t *testing.T) {
	namespace := ""
	for _, object := range components(t) {
		if object.GetKind() == "Namespace" {
			require.Empty(t, namespace, "a second Namespace makes clusterctl fail")
			namespace = object.GetName()
		}
	}
	require.NotEmpty(t, namespace)
	for _, object := range components(t) {
		if object.GetNamespace() != "" {
			require.Equal(t, namespace, object.GetNamespace(), "%s %s", object.GetKind(), object.GetName())
		}
	}
}

func deploymentRunsTheManager(t *testing.T) {
	deployments := 0
	for _, object := range components(t) {
		if object.GetKind() != "Deployment" {
			continue
		}
		deployments++
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		require.Len(t, containers, 1)
		container := containers[0].(map[string]any)
		require.Equal(t, "manager", container["name"])
		for _, arg := range container["args"].([]any) {
			require.NotContains(t, arg, "--namespace", "clusterctl installs providers for all namespaces")
		}
	}
	require.Equal(t, 1, deployments)
	// That the manager understands --namespace is tested with several instances.
}

// variable is what clusterctl replaces, or asks the user for.
var variable = regexp.MustCompile(`\$\{\s*([A-Za-z0-9_]+)`)

func variablesHaveThePrefix(t *testing.T) {
	for _, object := range components(t) {
		text, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		for _, match := range variable.FindAllStringSubmatch(string(text), -1) {
			assert.True(t, strings.HasPrefix(match[1], "CAPT_"),
				"%s %s: clusterctl takes %s} for a variable that the user must give", object.GetKind(), object.GetName(), match[0])
		}
	}
}

func componentsAreLabeled(t *testing.T) {
	for _, object := range components(t) {
		assert.Contains(t, []string{"infrastructure-capt", "control-plane-capt"}, object.GetLabels()[clusterv1.ProviderNameLabel],
			"%s %s", object.GetKind(), object.GetName())
	}
}

// isLabeledForClusterctl looks at the label of a definition, and at its name, which clusterctl checks before it installs.
func isLabeledForClusterctl(provider string) func(*testing.T, schema.GroupVersionKind) {
	return func(t *testing.T, kind schema.GroupVersionKind) {
		require.Equal(t, provider, definition(t, kind).Labels[clusterv1.ProviderNameLabel])
		definitions := &apiextensionsv1.CustomResourceDefinitionList{}
		require.NoError(t, shared.API.List(t.Context(), definitions, client.MatchingLabels{clusterv1.ProviderNameLabel: provider}))
		require.NotEmpty(t, definitions.Items)
		for _, definition := range definitions.Items {
			require.Equal(t, contract.CalculateCRDName(definition.Spec.Group, definition.Spec.Names.Kind), definition.Name)
		}
	}
}

// linked reports whether clusterctl moves an object: because it leads to a Cluster, or because a label says so.
func linked(object metav1.PartialObjectMetadata, all map[types.UID]metav1.PartialObjectMetadata) bool {
	for _, label := range []string{clusterctlv1.ClusterctlMoveLabel, clusterctlv1.ClusterctlMoveHierarchyLabel} {
		if _, ok := object.Labels[label]; ok {
			return true
		}
	}
	for _, owner := range object.OwnerReferences {
		if owner.Kind == "Cluster" || linked(all[owner.UID], all) {
			return true
		}
	}
	return false
}

func everythingLeadsToTheCluster(t *testing.T) {
	env := demoEnvironment(t)
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(t, shared.API.List(t.Context(), definitions, client.HasLabels{clusterv1.ProviderNameLabel}))
	all := map[types.UID]metav1.PartialObjectMetadata{}
	list := func(kind schema.GroupVersionKind, marks map[string]string, options ...client.ListOption) {
		t.Helper()
		objects := &metav1.PartialObjectMetadataList{}
		objects.SetGroupVersionKind(kind)
		require.NoError(t, env.List(t.Context(), objects, append(options, client.InNamespace(demo))...))
		for _, object := range objects.Items {
			object.SetGroupVersionKind(kind)
			for _, label := range []string{clusterctlv1.ClusterctlMoveLabel, clusterctlv1.ClusterctlMoveHierarchyLabel} {
				if value, ok := marks[label]; ok { // On a definition it is for all objects of the kind.
					metav1.SetMetaDataLabel(&object.ObjectMeta, label, value)
				}
			}
			all[object.UID] = object
		}
	}
	for _, definition := range definitions.Items {
		if strings.HasSuffix(definition.Labels[clusterv1.ProviderNameLabel], "-capt") {
			kind := schema.GroupVersionKind{Group: definition.Spec.Group, Version: contractVersion, Kind: definition.Spec.Names.Kind}
			list(kind, definition.Labels)
		}
	}
	list(corev1.SchemeGroupVersion.WithKind("Secret"), nil, client.MatchingLabels{clusterv1.ClusterNameLabel: demo})
	kinds := map[string]int{}
	for _, object := range all {
		kinds[object.Kind]++
		assert.True(t, linked(object, all), "clusterctl leaves %s %s behind: no owner of it is a Cluster, and no label says to move it", object.Kind, object.Name)
	}
	require.Equal(t, map[string]int{"CAPTCluster": 1, "CAPTControlPlane": 1, "WorkspaceTemplate": 2, "WorkspaceTemplateApply": 2, "Secret": 2}, kinds,
		"a Secret is the kubeconfig for Cluster API, the other that for users")
}

// A move takes everything but status.
func statusIsRebuilt(t *testing.T) {
	env := newEnvironment(t)
	env.apply(everything("moved", "v1.34.0")...)
	owner, captCluster, controlPlane := &clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	env.awaitTrue(controlPlane, "moved", controlplanev1.ReadyCondition)
	before := env.workspaces()
	require.Len(t, before, 2)

	env.change(owner, "moved", func() { owner.Spec.Paused = ptr.To(true) })
	env.awaitTrue(controlPlane, "moved", clusterv1.PausedCondition)
	for object, name := range map[client.Object]string{
		captCluster: "moved", controlPlane: "moved", &infrav1.WorkspaceTemplateApply{}: "moved-vpc",
	} {
		env.read(object, name)
		require.NoError(t, env.Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))))
	}
	env.change(owner, "moved", func() { owner.Spec.Paused = nil })
	env.awaitTrue(captCluster, "moved", infrav1.ReadyCondition)
	env.awaitTrue(controlPlane, "moved", controlplanev1.ReadyCondition)
	require.True(t, *captCluster.Status.Initialization.Provisioned)
	require.Len(t, captCluster.Status.FailureDomains, 2)
	require.True(t, *controlPlane.Status.Initialization.ControlPlaneInitialized)
	require.Equal(t, "v1.34.0", controlPlane.Status.Version)
	require.Equal(t, before, env.workspaces(), "nothing was written to them")
}
