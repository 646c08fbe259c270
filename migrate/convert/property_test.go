// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

const rounds = 100

// What is read from a converted manifest is what the conversion webhook serves, with the defaults of the API server.
func TestConvertedManifestEqualsWhatTheConversionServes(t *testing.T) {
	c := newConverter(t)
	for kind, fill := range randomObjects() {
		t.Run(kind, func(t *testing.T) {
			defaults := defaultsOf(t)
			refused := 0
			for seed := range uint64(rounds) {
				random := rand.New(rand.NewPCG(seed, 7))
				object := fill(randfill.NewWithSeed(int64(seed)).NilChance(0.4).NumElements(0, 3).Funcs(fillJSON, fillTimeouts, fillEndpointAccess, fillSelectors))
				text, comments := written(t, random, object)
				result, err := c.Convert(t.Context(), "random.yaml", text)
				require.NoError(t, err)
				if len(result.Problems) > 0 {
					require.False(t, result.Changed(), "seed %d: a file with problems is not touched", seed)
					refused++
					continue
				}
				want, got := served(t, text), map[string]any{}
				require.NoError(t, yaml.Unmarshal(result.New, &got))
				defaults(want)
				defaults(got)
				require.JSONEq(t, asJSON(t, want), asJSON(t, got), "seed %d:\n%s\n%s", seed, text, result.New)
				for _, comment := range comments {
					require.Contains(t, string(result.New), comment, "seed %d:\n%s", seed, text)
				}
				again, err := c.Convert(t.Context(), "random.yaml", result.New)
				require.NoError(t, err)
				require.Equal(t, string(result.New), string(again.New))
			}
			require.Less(t, refused, rounds/4, "most random objects can be converted")
		})
	}
}

func fillJSON(j *apiextensionsv1.JSON, c randfill.Continue) {
	j.Raw = []byte(fmt.Sprintf(`{"a":%d,"b":[true,"x: y"]}`, c.Uint32()))
}

func fillEndpointAccess(access *controlplanev1beta1.EndpointAccess, c randfill.Continue) {
	public, private := c.Bool(), c.Bool()
	access.Public, access.Private = &public, &private
	if public {
		access.PublicCIDRs = []string{"198.51.100.0/24", "203.0.113.7/32"}[c.Intn(2):]
	}
}

func fillSelectors(profile *controlplanev1beta1.AdditionalFargateProfile, c randfill.Continue) {
	c.FillNoCustom(profile)
	profile.Selectors = append(profile.Selectors, controlplanev1beta1.FargateSelector{Namespace: "batch"})
}

func fillTimeouts(timeouts *controlplanev1beta1.TimeoutConfig, c randfill.Continue) {
	controlPlane, vpc := 1+c.Intn(1440), 1+c.Intn(1440)
	timeouts.ControlPlaneTimeout, timeouts.VPCReadyTimeout = &controlPlane, &vpc
}

// randomObjects are whole objects of v1beta1 that lose nothing, without status.
func randomObjects() map[string]func(*randfill.Filler) client.Object {
	infra, controlPlane := infrav1beta1.GroupVersion.String(), controlplanev1beta1.GroupVersion.String()
	return map[string]func(*randfill.Filler) client.Object{
		"CAPTCluster": func(f *randfill.Filler) client.Object {
			object := &infrav1beta1.CAPTCluster{TypeMeta: metav1.TypeMeta{APIVersion: infra, Kind: "CAPTCluster"}}
			f.Fill(&object.Spec)
			object.Spec.Region = "eu-central-1"
			if id := object.Spec.ExistingVPCID; id == nil || *id == "" {
				object.Spec.ExistingVPCID, object.Spec.VPCTemplateRef = nil, &infrav1beta1.WorkspaceTemplateReference{Name: "dock"}
			} else {
				object.Spec.VPCTemplateRef, object.Spec.RetainVPCOnDelete, object.Spec.VPCConfig = nil, nil, nil
			}
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
			object.Spec.Template.Spec = &controlplanev1beta1.CAPTControlPlaneSpec{}
			f.Fill(object.Spec.Template.Spec)
			object.Spec.Template.Spec.WorkspaceTemplateApplyName = nil
			object.Spec.Template.Spec.ControlPlaneEndpoint = controlplanev1beta1.CAPTControlPlaneSpec{}.ControlPlaneEndpoint
			object.Spec.Template.Spec.Version, object.Spec.Template.Spec.WorkspaceTemplateRef.Name = "1.31", "eks"
			return object
		},
		"WorkspaceTemplate": func(f *randfill.Filler) client.Object {
			object := &infrav1beta1.WorkspaceTemplate{TypeMeta: metav1.TypeMeta{APIVersion: infra, Kind: "WorkspaceTemplate"}}
			f.Fill(&object.Spec)
			object.Spec.WriteConnectionSecretToRef = nil
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

// written is an object as a user may have written it: with comments, in one of several styles.
func written(t *testing.T, random *rand.Rand, object client.Object) ([]byte, []string) {
	t.Helper()
	object.SetName("random")
	data, err := yaml.Marshal(object)
	require.NoError(t, err)
	var file kyaml.Node
	require.NoError(t, kyaml.Unmarshal(data, &file))
	replaceEnumerated(&file)
	data, err = kyaml.Marshal(&file)
	require.NoError(t, err)
	var comments []string
	decorate(random, &file, &comments)
	var out bytes.Buffer
	encoder := kyaml.NewEncoder(&out)
	encoder.SetIndent(2 + 2*random.IntN(2))
	if random.IntN(2) == 0 {
		encoder.DefaultSeqIndent()
	}
	require.NoError(t, encoder.Encode(&file))
	var before, after any
	require.NoError(t, yaml.Unmarshal(data, &before))
	if yaml.Unmarshal(out.Bytes(), &after) != nil || asJSON(t, before) != asJSON(t, after) {
		return data, nil // With comments, the encoder does not always write what it was given.
	}
	return out.Bytes(), comments
}

// enumerated are fields of a WorkspaceTemplate that allow few values.
var enumerated = map[string]string{
	"deletionPolicy": "Orphan", "inlineFormat": "JSON", "format": "HCL", "source": "SecretKey", "resolution": "Optional", "resolve": "Always", "managementPolicies": "Observe",
}

func replaceEnumerated(node *kyaml.Node) {
	for i, inner := range node.Content {
		value, found := "", false
		if node.Kind == kyaml.MappingNode && i%2 == 1 {
			value, found = enumerated[node.Content[i-1].Value]
		}
		switch {
		case found && inner.Kind == kyaml.ScalarNode && inner.Value != "Inline":
			inner.SetString(value)
		case found && inner.Kind == kyaml.SequenceNode:
			for _, element := range inner.Content {
				element.SetString(value)
			}
		default:
			replaceEnumerated(inner)
		}
	}
}

func decorate(random *rand.Rand, node *kyaml.Node, comments *[]string) {
	comment := func(into *string) {
		if random.IntN(8) == 0 {
			*into = fmt.Sprintf("# comment <%d>", len(*comments))
			*comments = append(*comments, *into)
		}
	}
	if node.Kind == kyaml.MappingNode && random.IntN(10) == 0 && isFlat(node) {
		node.Style = kyaml.FlowStyle
		return
	}
	for i, inner := range node.Content {
		if node.Kind == kyaml.MappingNode && i%2 == 0 {
			comment(&inner.HeadComment)
			continue
		}
		if node.Kind == kyaml.MappingNode && inner.Kind == kyaml.ScalarNode && !strings.Contains(inner.Value, "\n") {
			comment(&inner.LineComment)
		}
		decorate(random, inner, comments)
	}
}

// isFlat reports whether a mapping can be written in braces.
func isFlat(node *kyaml.Node) bool {
	for _, inner := range node.Content {
		if strings.Contains(inner.Value, "\n") || !isFlat(inner) {
			return false
		}
	}
	return true
}

// served is what the webhook makes of a manifest, without what does not belong into one.
func served(t *testing.T, text []byte) map[string]any {
	t.Helper()
	scheme, registry := conversion.NewRegistry()
	text = bytes.Replace(text, []byte("CaptControlPlaneTemplate"), []byte("CAPTControlPlaneTemplate"), 1)
	var meta metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal(text, &meta))
	kind := runtimeschema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	from, err := scheme.New(kind)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, from))
	kind.Version = "v1beta2"
	to, err := scheme.New(kind)
	require.NoError(t, err)
	to.GetObjectKind().SetGroupVersionKind(kind)
	converter, _ := registry.GetConverter(kind.GroupKind())
	require.NoError(t, converter.ConvertObject(t.Context(), from, to))
	annotations := to.(client.Object).GetAnnotations()
	delete(annotations, preserve.Annotation)
	to.(client.Object).SetAnnotations(annotations)
	value := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, to)), &value))
	delete(value, "status")
	if kind.Kind == "WorkspaceTemplate" { // What is stored means this; a new template has another default.
		require.NoError(t, unstructured.SetNestedField(value, "None", "spec", "passVariables"))
	}
	return value
}

// defaultsOf sets the defaults of v1beta2, as the API server does.
func defaultsOf(t *testing.T) func(map[string]any) {
	t.Helper()
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	return func(object map[string]any) {
		known, err := schemas.Of(runtimeschema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string)))
		require.NoError(t, err)
		defaulting.Default(object, known.Structural())
		delete(object["metadata"].(map[string]any), "creationTimestamp")
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return string(data)
}

// Objects of CAPT v0.3 that other packages have, and those of the reference fleet, are converted as the webhook does.
func TestObjectsOfV03AreConvertedAsTheWebhookDoes(t *testing.T) {
	files, err := filepath.Glob("../../webhooks/conversion/testdata/*.yaml")
	require.NoError(t, err)
	files = append(files, "../../test/conversion/testdata/legacy/manifests.yaml")
	reference, err := filepath.Glob(filepath.Join(os.Getenv("CAPT_REFERENCE"), "legacy*", "*.yaml"))
	require.NoError(t, err)
	c, defaults, converted := newConverter(t), defaultsOf(t), 0
	for _, file := range append(files, reference...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			result, err := c.Convert(t.Context(), file, data)
			require.NoError(t, err)
			require.Empty(t, result.Problems)
			before, after := documents(t, data), documents(t, result.New)
			require.Len(t, after, len(before))
			for i := range before {
				if !bytes.Contains(before[i], []byte("x-k8s.io/v1beta1\nkind: C")) && !bytes.Contains(before[i], []byte("x-k8s.io/v1beta1\nkind: Workspace")) ||
					bytes.Contains(before[i], []byte("\nkind: Cluster")) {
					require.Equal(t, bytes.Count(before[i], []byte("\n")), bytes.Count(after[i], []byte("\n")))
					continue
				}
				want, got := served(t, before[i]), map[string]any{}
				require.NoError(t, yaml.Unmarshal(after[i], &got))
				defaults(want)
				defaults(got)
				require.JSONEq(t, asJSON(t, want["spec"]), asJSON(t, got["spec"]), "%s", after[i])
				converted++
			}
		})
	}
	require.Greater(t, converted, 10)
}

// documents are those of a file, or the items of its List.
func documents(t *testing.T, data []byte) [][]byte {
	t.Helper()
	var list struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := yaml.Unmarshal(data, &list); err != nil || list.Kind != "List" {
		return bytes.Split(data, []byte("\n---\n"))
	}
	var items [][]byte
	for _, item := range list.Items {
		text, err := yaml.Marshal(item)
		require.NoError(t, err)
		items = append(items, text)
	}
	return items
}
