// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package references_test checks that kustomize changes every reference to an object that it renames.
package references_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// target is a kind that fields refer to, in the form of kustomize.
type target struct {
	Kind       string `json:"kind"`
	Group      string `json:"group"`
	Version    string `json:"version"`
	FieldSpecs []struct {
		Path  string `json:"path"`
		Kind  string `json:"kind"`
		Group string `json:"group"`
	} `json:"fieldSpecs"`
}

func configuration(t *testing.T) []target {
	t.Helper()
	var content struct {
		NameReference []target `json:"nameReference"`
	}
	text, err := os.ReadFile("references.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &content))
	return content.NameReference
}

// noReference are fields that end with "name" or "class" and do not refer to objects of manifests, with the reason. The keys end paths.
func noReference() map[string]string {
	return map[string]string{
		"eksClusterName":                                      "a name in AWS",
		"fargateProfiles/name":                                "the name of a Fargate profile",
		"FargateProfiles/name":                                "the name of a Fargate profile",
		"template/metadata/name":                              "metadata of an object that CAPT v0.3 created",
		"addons/name":                                         "the name of an add-on",
		"vpc/template/name":                                   "a name in AWS",
		"vpcConfig/name":                                      "a name in AWS",
		"terraformState/name":                                 "the name of a Terraform workspace",
		"env/name":                                            "the name of an environment variable",
		"inputs/name":                                         "the name of a variable",
		"patches/name":                                        "the name of a patch",
		"variables/name":                                      "the name of a variable",
		"overrides/name":                                      "the name of a variable",
		"machineDeployments/class":                            "a class within the ClusterClass",
		"machinePools/class":                                  "a class within the ClusterClass",
		"machineDeployments/name":                             "a name within the Cluster",
		"machinePools/name":                                   "a name within the Cluster",
		"workspaceName":                                       "Workspaces are not in manifests: CAPT derives their names",
		"waitForWorkspaces/name":                              "Workspaces are not in manifests: CAPT derives their names",
		"writeConnectionSecretToRef/name":                     "a Secret that Terraform creates",
		"publishConnectionDetailsTo/name":                     "a name in a secret store of Crossplane",
		"configRef/name":                                      "the configuration of a secret store of Crossplane",
		"remediationTemplate/name":                            "for Machines, which CAPT does not have",
		"remediation/templateRef/name":                        "for Machines, which CAPT does not have",
		"machineInfrastructure/ref/name":                      "for Machines, which CAPT does not have",
		"machineInfrastructure/templateRef/name":              "for Machines, which CAPT does not have",
		"machineDeployments/bootstrap/templateRef/name":       "of another provider",
		"machineDeployments/template/bootstrap/ref/name":      "of another provider",
		"machineDeployments/template/infrastructure/ref/name": "of another provider",
		"bootstrap/configRef/name":                            "of another provider",
		"bootstrap/dataSecretName":                            "EKS bootstraps the nodes",
		"nodeGroupName":                                       "a name in AWS",
		"machineDeployments/infrastructure/templateRef/name":  "of another provider",
		"CAPTControlPlaneTemplate spec/template/spec/workspaceTemplateApplyName":                     "rejected in a template",
		"CAPTControlPlaneTemplate spec/template/spec/fargateProfiles/workspaceTemplateApplyRef/name": "rejected in a template",
	}
}

// definitions are those of CAPT, and those of Cluster API for clusters.
func definitions(t *testing.T) (found []apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	add := func(text []byte, err error) {
		var definition apiextensionsv1.CustomResourceDefinition
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(text, &definition))
		found = append(found, definition)
	}
	files, err := fs.Glob(crd.Definitions, "bases/*.yaml")
	require.NoError(t, err)
	for _, name := range files {
		add(crd.Definitions.ReadFile(name))
	}
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	for _, name := range []string{"cluster.x-k8s.io_clusters", "cluster.x-k8s.io_machinepools", "cluster.x-k8s.io_clusterclasses", "addons.cluster.x-k8s.io_clusterresourcesets"} {
		add(os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "core", "config", "crd", "bases", name+".yaml")))
	}
	return found
}

var isName = regexp.MustCompile(`(^n|N)ame$|^class$`)

// names returns the paths below a schema of strings that may be names of objects. Paths have no marks of lists, as in kustomize.
func names(schema *apiextensionsv1.JSONSchemaProps, path string) (paths []string) {
	if schema.Items != nil {
		return names(schema.Items.Schema, path)
	}
	for key := range schema.Properties {
		property := schema.Properties[key]
		if property.Type == "string" && isName.MatchString(key) {
			paths = append(paths, path+"/"+key)
		}
		paths = append(paths, names(&property, path+"/"+key)...)
	}
	return paths
}

// fields returns "Kind path" of all fields of spec that may be names of objects.
func fields(t *testing.T) (found []string) {
	t.Helper()
	for _, definition := range definitions(t) {
		if definition.Spec.Names.Kind == "PlanRequest" { // No manifest keeps a request.
			continue
		}
		for _, version := range definition.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			for _, path := range names(&spec, "spec") {
				found = append(found, definition.Spec.Names.Kind+" "+path)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryReferenceIsConfigured(t *testing.T) {
	configured, unused := map[string]bool{}, noReference()
	for _, target := range configuration(t) {
		for _, spec := range target.FieldSpecs {
			path := spec.Kind + " " + strings.TrimSuffix(spec.Path, "/name")
			assert.False(t, configured[path+" "+target.Kind], "twice: %s", path)
			configured[path], configured[path+" "+target.Kind] = true, true
		}
	}
	all := fields(t)
	for _, field := range all {
		reason := ""
		for end := range noReference() {
			if strings.HasSuffix(field, end) {
				reason = end
				delete(unused, end)
			}
		}
		kind, path, _ := strings.Cut(strings.TrimSuffix(field, "/name"), " ")
		known := configured[kind+" "+path] || configured[" "+path] // Without a kind, it is a field of all.
		assert.NotEqual(t, known, reason != "", "add %s to references.yaml or, if it refers to no object of a manifest, to noReference", field)
	}
	assert.Empty(t, unused, "fields that no longer exist")
	for path := range configured {
		if kind, field, _ := strings.Cut(path, " "); strings.HasPrefix(field, "spec/") && !strings.Contains(field, " ") && !strings.HasSuffix(kind, "ProviderConfig") && kind != "" {
			assert.True(t, slices.Contains(all, path) || slices.Contains(all, path+"/name"), "no such field: %s", path)
		}
	}
}

// build returns what kustomize makes of manifests with a prefix and a suffix of names.
func build(t *testing.T, prefix, suffix string, texts ...[]byte) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	component, err := filepath.Abs(".")
	require.NoError(t, err)
	relative, err := filepath.Rel(dir, component)
	require.NoError(t, err)
	kustomization := fmt.Sprintf("namePrefix: %q\nnameSuffix: %q\ncomponents: [%s]\nresources:\n", prefix, suffix, relative)
	for i, text := range texts {
		name := fmt.Sprintf("%d.yaml", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		kustomization += "- " + name + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600))
	objects, err := manifests.Load(dir)
	require.NoError(t, err)
	return objects
}

// elements returns the elements of a path. A slash within an element is escaped.
func elements(path string) []string {
	list := strings.Split(strings.ReplaceAll(path, `\/`, "|"), "/")
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "|", "/")
	}
	return list
}

// values returns the names at a path.
func values(node any, path []string) (found []string) {
	switch node := node.(type) {
	case string:
		return []string{node}
	case []any:
		for _, item := range node {
			found = append(found, values(item, path)...)
		}
	case map[string]any:
		if len(path) == 0 {
			return values(node["name"], nil)
		}
		return values(node[path[0]], path[1:])
	}
	return found
}

// assertFollowed asserts that all references to objects among manifests have the new names, and returns their number.
func assertFollowed(t *testing.T, texts ...[]byte) (followed int) {
	t.Helper()
	before, after := build(t, "", "", texts...), build(t, "dev-", "-x", texts...)
	require.Len(t, after, len(before))
	exist := map[string]bool{}
	for _, object := range before {
		exist[object.GetKind()+" "+object.GetName()] = true
	}
	for _, target := range configuration(t) {
		for _, spec := range target.FieldSpecs {
			for i, object := range before {
				if spec.Kind != "" && spec.Kind != object.GetKind() || spec.Group != "" && spec.Group != object.GroupVersionKind().Group {
					continue
				}
				was, is := values(object.Object, elements(spec.Path)), values(after[i].Object, elements(spec.Path))
				for j, name := range was {
					if exist[target.Kind+" "+name] {
						followed++
						assert.Equal(t, "dev-"+name+"-x", is[j], "%s of %s %s", spec.Path, object.GetKind(), object.GetName())
					}
				}
			}
		}
	}
	return followed
}

func TestReferencesOfSamplesFollowRenamedObjects(t *testing.T) {
	for _, patterns := range [][]string{
		{"aws/*.yaml"}, {"aws/*-template.yaml", "aws/workers/*.yaml"}, {"sandbox/*.yaml"}, {"sandbox/*-template.yaml", "sandbox/clusterclass/*.yaml"},
	} {
		var texts [][]byte
		for _, pattern := range patterns {
			files, err := filepath.Glob(filepath.Join("..", "samples", pattern))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				texts = append(texts, text)
			}
		}
		assert.Greater(t, assertFollowed(t, texts...), 4, "%s", patterns)
	}
}

// TestEveryConfiguredReferenceFollows has an object for each path, also for those that no sample has, such as the paths of v1beta1.
func TestEveryConfiguredReferenceFollows(t *testing.T) {
	var texts [][]byte
	add := func(group, version, kind, name string, path []string, value any) {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		if path != nil {
			require.NoError(t, unstructured.SetNestedField(object.Object, value, path...))
		}
		object.SetAPIVersion(strings.TrimPrefix(group+"/"+version, "/"))
		object.SetKind(kind)
		object.SetName(name)
		object.SetNamespace("team-a")
		text, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		texts = append(texts, text)
	}
	want := 0
	for i, target := range configuration(t) {
		add(target.Group, cmp.Or(target.Version, "v1"), target.Kind, "target", nil, nil)
		for j, spec := range target.FieldSpecs {
			path := elements(spec.Path)
			var value any = "target"
			if last := path[len(path)-1]; !isName.MatchString(last) && !strings.HasSuffix(last, "-name") {
				value = map[string]any{"name": "target"}
			}
			add(cmp.Or(spec.Group, "example.com"), "v1", cmp.Or(spec.Kind, "Thing"), fmt.Sprintf("referrer-%d-%d", i, j), path, value)
			want++
		}
	}
	assert.GreaterOrEqual(t, assertFollowed(t, texts...), want)
}
