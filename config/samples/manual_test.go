// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// The documents with examples of Fargate profiles.
const fargateChapter, templatesChapter = "fargate-reference.md", "templates.md"

// block matches a YAML block.
var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

func chapter(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	require.NoError(t, err)
	return string(text)
}

// manual returns the objects in docs/fargate-reference.md, of both versions, in their order.
func manual(t *testing.T) (samples []sample) {
	t.Helper()
	for _, match := range block.FindAllStringSubmatch(chapter(t, fargateChapter), -1) {
		for _, document := range strings.Split("\n"+match[1], "\n---\n") {
			s := sample{file: fargateChapter, raw: map[string]any{}}
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &s.raw), document)
			s.object = decode(t, s.raw, document)
			samples = append(samples, s)
		}
	}
	require.NotEmpty(t, samples)
	return samples
}

// Objects that only show a status get the spec of the first object of their kind.
func TestObjectsInTheDocumentsPassTheirSchemas(t *testing.T) {
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	specs := map[runtimeschema.GroupVersionKind]any{}
	for _, s := range manual(t) {
		if _, secret := s.object.(*corev1.Secret); secret {
			continue
		}
		object := &unstructured.Unstructured{Object: s.raw}
		kind := object.GroupVersionKind()
		if specs[kind] == nil {
			specs[kind] = s.raw["spec"]
		}
		if s.raw["spec"] == nil {
			s.raw["spec"] = specs[kind]
		}
		data, err := json.Marshal(s.raw)
		require.NoError(t, err)
		require.NoError(t, object.UnmarshalJSON(data))
		definition, err := schemas.Of(object.GroupVersionKind())
		require.NoError(t, err)
		require.Empty(t, definition.Validate(t.Context(), object), "%s", data)
	}
}

// Each v1beta1 object follows the same object in v1beta2.
func TestDocumentsShowTheSameObjectInBothVersions(t *testing.T) {
	samples, pairs := manual(t), 0
	for i, s := range samples {
		older, ok := s.object.(*controlplanev1beta1.CAPTControlPlane)
		if !ok {
			continue
		}
		pairs++
		newer := samples[i-1].object.(*controlplanev1.CAPTControlPlane)
		toOlder, toNewer := &controlplanev1beta1.CAPTControlPlane{}, &controlplanev1.CAPTControlPlane{}
		require.NoError(t, conversion.CAPTControlPlane.ToSpoke(t.Context(), newer, toOlder))
		require.NoError(t, conversion.CAPTControlPlane.ToHub(t.Context(), older, toNewer))
		toOlder.SetGroupVersionKind(older.GroupVersionKind())
		toNewer.SetGroupVersionKind(newer.GroupVersionKind())
		requireSays(t, toOlder, s.raw)
		requireSays(t, toNewer, samples[i-1].raw)
		require.Contains(t, []controlplanev1.Phase{"", controlplanev1.PhaseCreating, controlplanev1.PhaseReady}, newer.Status.Phase)
		for _, profile := range newer.Status.FargateProfiles {
			require.Contains(t, []string{"", controlplanev1.FargateProfileFailedReason}, profile.FailureReason)
		}
	}
	require.Equal(t, 5, pairs, "a spec, and the four statuses")
}

// requireSays requires that an object has all fields that the document shows. Empty lists may be absent.
func requireSays(t *testing.T, object client.Object, want map[string]any) {
	t.Helper()
	data, err := json.Marshal(object)
	require.NoError(t, err)
	have := map[string]any{}
	require.NoError(t, json.Unmarshal(data, &have))
	if status, ok := want["status"].(map[string]any); ok {
		for name, value := range status {
			if list, ok := value.([]any); ok && len(list) == 0 {
				require.Empty(t, have["status"].(map[string]any)[name])
				delete(status, name)
			}
		}
	}
	requireContains(t, have, want, "")
}

func TestTemplatesInTheDocumentsGetEveryVariable(t *testing.T) {
	found := ofKind[*infrav1.WorkspaceTemplate](manual(t))
	require.NotEmpty(t, found)
	for _, template := range found {
		requireValid(t, template)
		for _, c := range ofKind[*controlplanev1.CAPTControlPlane](manual(t)) {
			for i := range c.Spec.FargateProfiles {
				requireRendered(t, template, fargateVariables(c, i))
			}
		}
	}
}

func TestDocumentsListEveryVariableThatCAPTSets(t *testing.T) {
	for _, variable := range validation.FargateVariables() {
		require.Contains(t, chapter(t, fargateChapter), "\n| `"+variable+"` | ", variable)
	}
	for _, variable := range slices.Concat(validation.VPCVariables(), validation.ControlPlaneVariables(nil), validation.FargateVariables(), naming.NetworkVariables()) {
		require.Contains(t, chapter(t, templatesChapter), "\n| `"+variable+"` | ", variable)
	}
}

// The samples read the same keys of the connection Secret that the document shows.
func TestDocumentsDescribeTheVPCConfigThatSamplesRead(t *testing.T) {
	for _, flavor := range []string{"aws", "sandbox"} {
		template, err := os.ReadFile(filepath.Join(flavor, "fargate-template.yaml"))
		require.NoError(t, err)
		_, snippet, found := strings.Cut(chapter(t, fargateChapter), "for `varFiles`:\n\n```\n")
		require.True(t, found)
		snippet, _, _ = strings.Cut(snippet, "```")
		require.Contains(t, string(template), snippet)
	}
	secrets := ofKind[*corev1.Secret](manual(t))
	require.Len(t, secrets, 1)
	file, diags := hclsyntax.ParseConfig([]byte(secrets[0].StringData["vpc_config"]), "vpc_config", hcl.InitialPos)
	require.False(t, diags.HasErrors(), diags)
	require.Contains(t, file.Body.(*hclsyntax.Body).Attributes, "private_subnets")
	clusters := ofKind[*infrav1.CAPTCluster](manual(t))
	require.Len(t, clusters, 1)
	require.Equal(t, secrets[0].Name, clusters[0].Spec.VPC.ConnectionSecretRef.Name)
}

func TestDocumentsListEveryConditionAndReasonOfFargateProfiles(t *testing.T) {
	for _, word := range []string{
		controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileFailedCondition,
		controlplanev1.FargateProfileReadyReason, controlplanev1.FargateProfileCreatingReason, controlplanev1.FargateProfileNotCreatingReason,
		controlplanev1.FargateProfileDeletingReason, controlplanev1.FargateProfileFailedReason, controlplanev1.FargateProfileNotFailedReason,
		controlplanev1.FargateProfileDependencyReason, infrav1.QueuedReason, controlplanev1.FargateProfileFinalizer,
	} {
		require.Contains(t, chapter(t, fargateChapter), "`"+word+"`")
	}
}
