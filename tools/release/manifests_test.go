// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// named returns objects by kind and name. Two with the same kind and name are an error.
func named(t *testing.T, objects []object) map[string]object {
	t.Helper()
	found := map[string]object{}
	for _, o := range objects {
		key := o["kind"].(string) + "/" + field(o, "metadata", "name").(string)
		require.NotContains(t, found, key)
		found[key] = o
	}
	return found
}

// decode reads a stream of documents.
func decode(t *testing.T, data []byte) map[string]object {
	t.Helper()
	var objects []object
	for document := range strings.SplitSeq("\n"+string(data), "\n---\n") {
		o := object{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o), document)
		if len(o) > 0 {
			objects = append(objects, o)
		}
	}
	return named(t, objects)
}

var (
	byDefault = installation{defaultNamespace, "", "registry.example.org/capt-manager", "v0.4.0"}
	elsewhere = installation{"elsewhere", "my-", "registry.example.org/capt-manager", "v0.4.0"}
)

// Several tests need these results, and kustomize needs seconds for each.
var (
	releasedFiles = sync.OnceValues(func() (map[string][]byte, error) { return manifests(root, byDefault) })
	elsewhereYAML = sync.OnceValues(func() ([]byte, error) {
		objects, err := elsewhere.render(root)
		if err != nil {
			return nil, err
		}
		return encode(objects)
	})
)

// released returns the files for kubectl and clusterctl.
func released(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := releasedFiles()
	require.NoError(t, err)
	return files
}

// rendered returns the objects of one of the two installations.
func rendered(t *testing.T, names installation) map[string]object {
	t.Helper()
	if names == byDefault {
		return decode(t, released(t)["install.yaml"])
	}
	data, err := elsewhereYAML()
	require.NoError(t, err)
	return decode(t, data)
}

// requireEqual compares objects, and reports the first one that differs.
func requireEqual(t *testing.T, want, got map[string]object) {
	t.Helper()
	require.Equal(t, sorted(want), sorted(got))
	for key := range want {
		require.Equal(t, jsonOf("", want[key]), jsonOf("", got[key]), key)
	}
}

func TestInstallYAMLIsConfigDefaultWithAnImage(t *testing.T) {
	direct, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "default"))
	require.NoError(t, err)
	data, err := direct.AsYaml()
	require.NoError(t, err)
	want := decode(t, data)
	field(field(want["Deployment/capt-manager"], "spec", "template", "spec", "containers").([]any)[0]).(object)["image"] = "registry.example.org/capt-manager:v0.4.0"

	requireEqual(t, want, rendered(t, byDefault))
}

// Every reference in an installation under other names has a target there.
func TestNamesOfAnotherInstallationResolve(t *testing.T) {
	all := rendered(t, elsewhere)
	text, err := yaml.Marshal(all)
	require.NoError(t, err)
	assert.NotRegexp(t, `namespace: capt-system|capt-system\.svc|inject-ca-from: capt-system/`, string(text))
	secrets := map[any]bool{}
	for key, o := range all {
		if strings.HasPrefix(key, "Certificate/") {
			secrets[field(o, "spec", "secretName")] = true
			require.Contains(t, all, "Issuer/"+field(o, "spec", "issuerRef", "name").(string), key)
		}
	}
	service := func(key string, of any) {
		require.Equal(t, "elsewhere", field(of, "namespace"), key)
		require.Contains(t, all, "Service/"+field(of, "name").(string), key)
	}
	for key, o := range all {
		if from, ok := field(o, "metadata", "annotations", "cert-manager.io/inject-ca-from").(string); ok {
			namespace, name, _ := strings.Cut(from, "/")
			require.Equal(t, "elsewhere", namespace)
			require.Contains(t, all, "Certificate/"+name, key)
		}
		if client := field(o, "spec", "conversion", "webhook", "clientConfig", "service"); client != nil {
			service(key, client)
		}
		webhooks, _ := field(o, "webhooks").([]any)
		for _, webhook := range webhooks {
			service(key, field(webhook, "clientConfig", "service"))
		}
		if role := field(o, "roleRef"); role != nil {
			require.Contains(t, all, field(role, "kind").(string)+"/"+field(role, "name").(string), key)
			subject := field(o, "subjects").([]any)[0]
			require.Equal(t, "elsewhere", field(subject, "namespace"))
			require.Contains(t, all, "ServiceAccount/"+field(subject, "name").(string), key)
		}
		if policy, ok := field(o, "spec", "policyName").(string); ok {
			require.Contains(t, all, "ValidatingAdmissionPolicy/"+policy, key)
		}
		if pod := field(o, "spec", "template", "spec"); pod != nil {
			require.Contains(t, all, "ServiceAccount/"+field(pod, "serviceAccountName").(string))
			require.Contains(t, secrets, field(field(pod, "volumes").([]any)[0], "secret", "secretName"))
		}
		require.True(t, strings.HasPrefix(key, "CustomResourceDefinition/") || key == "Namespace/elsewhere" || strings.Contains(key, "/my-"), key)
	}
}

// providers returns clusterctl's own view of the two providers of a release in a local repository.
func providers(t *testing.T, values map[string]string) map[string]repository.Client {
	t.Helper()
	folder := t.TempDir()
	reader := config.NewMemoryReader()
	for name, value := range values {
		reader.Set(name, value)
	}
	settings, err := config.New(t.Context(), "", config.InjectReader(reader))
	require.NoError(t, err)
	clients := map[string]repository.Client{}
	for label, kind := range map[string]v1alpha3.ProviderType{infrastructure: v1alpha3.InfrastructureProviderType, controlPlane: v1alpha3.ControlPlaneProviderType} {
		version := filepath.Join(folder, label, "v0.4.0")
		require.NoError(t, os.MkdirAll(version, 0o755))
		for name, data := range released(t) {
			require.NoError(t, os.WriteFile(filepath.Join(version, name), data, 0o644))
		}
		file := strings.TrimSuffix(label, "-capt") + "-components.yaml"
		clients[label], err = repository.New(t.Context(), config.NewProvider("capt", "file://"+filepath.Join(version, file), kind), settings)
		require.NoError(t, err)
		metadata, err := clients[label].Metadata("v0.4.0").Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "v1beta2", metadata.ReleaseSeries[0].Contract)
	}
	return clients
}

// clusterctl installs each object once, and the same ones as kustomize in that namespace.
func TestClusterctlInstallsWhatKustomizeInstalls(t *testing.T) {
	clients := providers(t, nil)
	for _, names := range []installation{byDefault, {namespace: "elsewhere"}} {
		want, got := rendered(t, byDefault), map[string]object{}
		for label, client := range clients {
			parts, err := client.Components().Get(t.Context(), repository.ComponentsOptions{Version: "v0.4.0", TargetNamespace: names.namespace})
			require.NoError(t, err)
			assert.Empty(t, parts.Variables(), "clusterctl asks for no values")
			for _, part := range parts.Objs() {
				key := part.GetKind() + "/" + part.GetName()
				require.True(t, part.GetKind() == "Namespace" || got[key] == nil, "%s is in both", key)
				assert.Equal(t, label, part.GetLabels()[providerLabel], key)
				got[key] = part.Object
			}
		}
		if names != byDefault {
			want = rendered(t, elsewhere)
			text, err := yaml.Marshal(want)
			require.NoError(t, err)
			want = map[string]object{}
			require.NoError(t, yaml.Unmarshal(bytes.ReplaceAll(text, []byte("my-capt"), []byte("capt")), &want))
			want = named(t, slices.Collect(maps.Values(want)))
		}
		requireEqual(t, withoutDefaults(want), withoutDefaults(got))
	}
}

// withoutDefaults removes what clusterctl adds to objects: a label, fields that Go types write although they are empty, and the namespace of
// ValidatingAdmissionPolicies and their bindings, which it takes for namespaced. Requests ignore it.
func withoutDefaults(objects map[string]object) map[string]object {
	for _, o := range objects {
		metadata := o["metadata"].(object)
		labels := metadata["labels"].(object)
		delete(labels, v1alpha3.ClusterctlLabel)
		if o["kind"] == "Namespace" {
			delete(labels, providerLabel) // It is in both.
		}
		delete(metadata, "creationTimestamp")
		if o["apiVersion"] == "admissionregistration.k8s.io/v1" {
			delete(metadata, "namespace")
		}
		delete(o, "status")
	}
	return objects
}

func TestClusterctlGeneratesClusters(t *testing.T) {
	values := map[string]string{
		"CLUSTER_NAME": "generated", "NAMESPACE": "team", "KUBERNETES_VERSION": "v1.35.0", "AWS_REGION": "eu-central-1", "CAPT_PUBLIC_CIDRS": `["203.0.113.0/24"]`,
	}
	client := providers(t, values)[infrastructure]
	for flavor, kinds := range map[string]string{
		"":             "CAPTCluster CAPTControlPlane Cluster",
		"fargate":      "CAPTCluster CAPTControlPlane Cluster",
		"clusterclass": "Cluster",
	} {
		template, err := client.Templates("v0.4.0").Get(t.Context(), flavor, "team", false)
		require.NoError(t, err, flavor)
		var got []string
		for _, o := range template.Objs() {
			got = append(got, o.GetKind())
			assert.Equal(t, "team", o.GetNamespace())
		}
		assert.ElementsMatch(t, strings.Fields(kinds), got, flavor)
	}
	class, err := client.ClusterClasses("v0.4.0").Get(t.Context(), "capt", "team", false)
	require.NoError(t, err)
	assert.Len(t, class.Objs(), 3)

	for _, name := range sorted(values)[:3] { // AWS_REGION, CAPT_PUBLIC_CIDRS, CLUSTER_NAME
		without := maps.Clone(values)
		delete(without, name)
		_, err := providers(t, without)[infrastructure].Templates("v0.4.0").Get(t.Context(), "", "team", false)
		assert.ErrorContains(t, err, name)
	}
}

func TestWorkspaceTemplatesHaveNoNamespace(t *testing.T) {
	objects := decode(t, released(t)["workspace-templates-aws.yaml"])
	assert.Equal(t, []string{"WorkspaceTemplate/aws-controlplane", "WorkspaceTemplate/aws-fargate", "WorkspaceTemplate/aws-nodegroup", "WorkspaceTemplate/aws-vpc"}, sorted(objects))
	for key, o := range objects {
		assert.Nil(t, field(o, "metadata", "namespace"), key)
	}
}

func TestVersionsMustBeInTheMetadata(t *testing.T) {
	require.NoError(t, checkVersion(root, "v0.4.0"))
	require.NoError(t, checkVersion(root, "v0.4.7-rc.1"))
	for _, version := range []string{"", "0.4.0", "v0.4", "v0.4.0+build", "v9.9.0"} {
		require.ErrorContains(t, checkVersion(root, version), "-version", regexp.QuoteMeta(version))
	}
}

func TestAReleaseWithoutPlatformsHasManifestsAndTheChart(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, run(t.Context(), []string{"-root=" + root, "-version=v0.4.0", "-platforms=none", "-out=" + out}))
	names, err := filepath.Glob(filepath.Join(out, "*"))
	require.NoError(t, err)
	require.Len(t, names, len(released(t))+2, "%v: also the chart and checksums", names)
}
