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

package manifest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/migrate/manifest"
	"github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/carry"
)

const rounds = 400

// What is read from a rewritten manifest is what the conversion webhook makes of the original, as the API server stores it.
func TestARewrittenManifestSaysWhatTheConversionSays(t *testing.T) {
	for kind, fill := range randomObjects() {
		t.Run(kind, func(t *testing.T) {
			defaults := defaultsOf(t)
			left := 0
			for seed := range uint64(rounds) {
				random := rand.New(rand.NewPCG(seed, 7))
				object := fill(randfill.NewWithSeed(int64(seed)).NilChance(0.4).NumElements(0, 3).Funcs(fillJSON))
				text, comments := written(t, random, object)
				out, notes, err := manifest.Rewrite("random.yaml", text, nil)
				require.NoError(t, err)
				if slices.ContainsFunc(notes, func(n manifest.Note) bool { return n.Severity == manifest.LeftAlone }) {
					require.Equal(t, string(text), string(out), "seed %d: what is left alone is not touched", seed)
					left++
					continue
				}
				want, got := converted(t, text), map[string]any{}
				require.NoError(t, yaml.Unmarshal(out, &got))
				require.NotContains(t, string(out), carry.Annotation)
				defaults(want)
				defaults(got)
				require.Equal(t, asJSON(t, want), asJSON(t, got), "seed %d:\n%s\n%s", seed, text, out)
				for _, comment := range comments {
					require.True(t, len(notes) > 0 || strings.Contains(string(out), comment), "seed %d lost %s:\n%s\n%s", seed, comment, text, out)
				}
				again, _, err := manifest.Rewrite("random.yaml", out, nil)
				require.NoError(t, err)
				require.Equal(t, string(out), string(again))
			}
			require.Less(t, left, rounds/20, "random texts that look like templates are rare")
		})
	}
}

func fillJSON(j *apiextensionsv1.JSON, c randfill.Continue) {
	j.Raw = []byte(fmt.Sprintf(`{"a":%d,"b":[true,"x: y"]}`, c.Uint32()))
}

// randomObjects are whole objects of v1beta1, such as a manifest holds: with what makes them whole, and without status.
func randomObjects() map[string]func(*randfill.Filler) client.Object {
	infra, controlPlane := infrav1beta1.GroupVersion.String(), controlplanev1beta1.GroupVersion.String()
	return map[string]func(*randfill.Filler) client.Object{
		"CAPTCluster": func(f *randfill.Filler) client.Object {
			object := &infrav1beta1.CAPTCluster{TypeMeta: metav1.TypeMeta{APIVersion: infra, Kind: "CAPTCluster"}}
			f.Fill(&object.Spec)
			if ref := object.Spec.VPCTemplateRef; (ref == nil || ref.Name == "") && (object.Spec.ExistingVPCID == nil || *object.Spec.ExistingVPCID == "") {
				object.Spec.VPCTemplateRef = &infrav1beta1.WorkspaceTemplateReference{Name: "dock"}
			}
			object.Spec.Region = "eu-central-1"
			return object
		},
		"CAPTControlPlane": func(f *randfill.Filler) client.Object {
			object := &controlplanev1beta1.CAPTControlPlane{TypeMeta: metav1.TypeMeta{APIVersion: controlPlane, Kind: "CAPTControlPlane"}}
			f.Fill(&object.Spec)
			object.Spec.Version, object.Spec.WorkspaceTemplateRef.Name = "1.31", "eks"
			return object
		},
		"CaptControlPlaneTemplate": func(f *randfill.Filler) client.Object {
			object := &controlplanev1beta1.CAPTControlPlaneTemplate{TypeMeta: metav1.TypeMeta{APIVersion: controlPlane, Kind: "CaptControlPlaneTemplate"}}
			f.Fill(&object.Spec)
			if object.Spec.Template.Spec == nil {
				object.Spec.Template.Spec = &controlplanev1beta1.CAPTControlPlaneSpec{}
			}
			object.Spec.Template.Spec.WorkspaceTemplateRef.Name = "eks"
			return object
		},
		"WorkspaceTemplate": func(f *randfill.Filler) client.Object {
			object := &infrav1beta1.WorkspaceTemplate{TypeMeta: metav1.TypeMeta{APIVersion: infra, Kind: "WorkspaceTemplate"}}
			f.Fill(&object.Spec)
			object.Spec.Template.Spec.ForProvider.Module = "# a comment\nvariable \"a\" {}\n\n  # {{\nb = 1  \n" + strings.Repeat("\n", len(object.Spec.Template.Spec.ForProvider.Source)%3)
			object.Spec.Template.Spec.ForProvider.Source = "Inline"
			return object
		},
		"WorkspaceTemplateApply": func(f *randfill.Filler) client.Object {
			object := &infrav1beta1.WorkspaceTemplateApply{TypeMeta: metav1.TypeMeta{APIVersion: infra, Kind: "WorkspaceTemplateApply"}}
			f.Fill(&object.Spec)
			object.Spec.TemplateRef.Name = "dock"
			return object
		},
	}
}

// written is an object as somebody may have written it: with comments, in one of the styles that there are.
func written(t *testing.T, random *rand.Rand, object client.Object) ([]byte, []string) {
	t.Helper()
	object.SetName("random")
	data, err := yaml.Marshal(object)
	require.NoError(t, err)
	var file yamlv3.Node
	require.NoError(t, yamlv3.Unmarshal(data, &file))
	var comments []string
	decorate(random, &file, &comments)
	var out bytes.Buffer
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2 + 2*random.IntN(2))
	require.NoError(t, encoder.Encode(&file))
	var again any
	if yaml.Unmarshal(out.Bytes(), &again) != nil || asJSON(t, again) != asJSONOf(t, data) {
		return data, nil // The encoder does not always write what it was given, if there are comments.
	}
	return out.Bytes(), comments
}

func decorate(random *rand.Rand, node *yamlv3.Node, comments *[]string) {
	comment := func(into *string) {
		if random.IntN(8) == 0 {
			*into = fmt.Sprintf("# comment <%d>", len(*comments))
			*comments = append(*comments, *into)
		}
	}
	if node.Kind == yamlv3.MappingNode && random.IntN(10) == 0 && flat(node) {
		node.Style = yamlv3.FlowStyle
		return
	}
	for i, inner := range node.Content {
		if node.Kind == yamlv3.MappingNode && i%2 == 0 {
			comment(&inner.HeadComment)
			continue
		}
		if node.Kind == yamlv3.MappingNode && inner.Kind == yamlv3.ScalarNode && !strings.Contains(inner.Value, "\n") {
			comment(&inner.LineComment)
		}
		decorate(random, inner, comments)
	}
}

// flat tells whether a mapping can be written in braces.
func flat(node *yamlv3.Node) bool {
	for _, inner := range node.Content {
		if strings.Contains(inner.Value, "\n") || !flat(inner) {
			return false
		}
	}
	return true
}

// converted is what the webhook makes of a manifest, without what does not belong into one.
func converted(t *testing.T, text []byte) map[string]any {
	t.Helper()
	scheme, registry := conversion.NewRegistry()
	text = bytes.Replace(text, []byte("CaptControlPlaneTemplate"), []byte("CAPTControlPlaneTemplate"), 1)
	var meta metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal(text, &meta))
	kind := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	from, err := scheme.New(kind)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, from))
	kind.Version = "v1beta2"
	to, err := scheme.New(kind)
	require.NoError(t, err)
	to.GetObjectKind().SetGroupVersionKind(kind)
	converter, _ := registry.GetConverter(kind.GroupKind())
	require.NoError(t, converter.ConvertObject(t.Context(), from, to))
	to.(client.Object).SetAnnotations(nil)
	value := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, to)), &value))
	delete(value, "status")
	return value
}

// defaultsOf are the defaults of v1beta2's definitions, as the API server sets them.
func defaultsOf(t *testing.T) func(map[string]any) {
	t.Helper()
	schemas := map[string]*structuralschema.Structural{}
	paths, err := fs.Glob(crd.Definitions, "bases/*.yaml")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := fs.ReadFile(crd.Definitions, path)
		require.NoError(t, err)
		var definition apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.Unmarshal(data, &definition))
		for _, version := range definition.Spec.Versions {
			if version.Name != "v1beta2" {
				continue
			}
			var internal apiextensions.JSONSchemaProps
			require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil))
			schemas[definition.Spec.Names.Kind], err = structuralschema.NewStructural(&internal)
			require.NoError(t, err)
		}
	}
	require.Len(t, schemas, 6)
	return func(object map[string]any) {
		defaulting.Default(object, schemas[object["kind"].(string)])
		delete(object["metadata"].(map[string]any), "creationTimestamp")
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return string(data)
}

func asJSONOf(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	require.NoError(t, yaml.Unmarshal(text, &value))
	return asJSON(t, value)
}
