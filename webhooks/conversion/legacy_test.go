// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
)

// root of the repository.
const root = "../.."

// referenceObjects returns the legacy objects of a kind, as CAPT v0.3 left them in a cluster.
func referenceObjects(t *testing.T, kind string) []string {
	t.Helper()
	folder := os.Getenv("CAPT_REFERENCE")
	if folder == "" {
		folder = filepath.Join(root, "../shared/reference")
	}
	data, err := os.ReadFile(filepath.Join(folder, "legacy", strings.ToLower(kind)+".yaml"))
	if os.IsNotExist(err) {
		t.Skipf("no reference data in %s; CAPT_REFERENCE names their folder", folder)
	}
	require.NoError(t, err)
	return strings.Split(string(data), "\n---\n")
}

func TestRoundTripOfLegacyObjects(t *testing.T) {
	t.Run("CAPTCluster", legacy(captClusters))
	t.Run("CAPTControlPlane", legacy(controlPlanes))
	t.Run("WorkspaceTemplate", legacy(workspaceTemplates))
	t.Run("WorkspaceTemplateApply", legacy(workspaceTemplateApplies))
}

func legacy[Hub, Spoke client.Object](p pair[Hub, Spoke]) func(*testing.T) {
	return func(t *testing.T) {
		kind := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		for _, object := range referenceObjects(t, kind) {
			hub := p.returns(t, object)
			t.Logf("%s keeps %s", hub.GetName(), preserved(hub))
			assert.JSONEq(t, text(t, hub), text(t, withDefaults(t, kind, "v1beta2", hub)),
				"the first write in v1beta2 changes nothing, so that the generation stays")
		}
	}
}

// The API server sets defaults in every write. Converted objects must already have them: otherwise a write of a label would change the
// spec.
func TestConvertedObjectsHaveTheDefaultsOfTheirVersion(t *testing.T) {
	t.Run("CAPTCluster", defaulted(captClusters,
		`{spec: {region: r, vpcTemplateRef: {name: t}}}`,
		`{spec: {region: r, vpc: {template: {ref: {name: t}}}}}`))
	t.Run("CAPTControlPlane", defaulted(controlPlanes,
		`{spec: {version: "1.31", workspaceTemplateRef: {name: t}, controlPlaneConfig: {region: r, endpointAccess: {}, timeouts: {}}}, status: {ready: true}}`,
		`{spec: {version: "1.31", workspaceTemplateRef: {name: t}, endpointAccess: {}, timeouts: {secretSeconds: 10}}, status: {phase: Ready}}`))
	t.Run("CAPTControlPlaneTemplate", defaulted(controlPlaneTemplates,
		`{spec: {template: {spec: {version: "", workspaceTemplateRef: {name: t}, controlPlaneConfig: {region: r, endpointAccess: {}}}}}}`,
		`{spec: {template: {spec: {workspaceTemplateRef: {name: t}, timeouts: {vpcReadySeconds: 61}}}}}`))
	t.Run("WorkspaceTemplate", defaulted(workspaceTemplates,
		`{spec: {template: {spec: {forProvider: {source: Inline, module: ""}}}}}`,
		`{spec: {template: {spec: {publishConnectionDetailsTo: {name: p}, providerConfigRef: {name: a, policy: {}}, forProvider: {source: Inline, module: "", varFiles: [{source: SecretKey}]}}}}}`))
	t.Run("WorkspaceTemplateApply", defaulted(workspaceTemplateApplies, `{spec: {templateRef: {name: t}}}`, `{spec: {templateRef: {name: t}}}`))
}

func defaulted[Hub, Spoke client.Object](p pair[Hub, Spoke], spokeManifest, hubManifest string) func(*testing.T) {
	return func(t *testing.T) {
		kind := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		hub := p.toHub(t, withDefaults(t, kind, "v1beta1", read[Spoke](t, spokeManifest)))
		assert.JSONEq(t, text(t, hub), text(t, withDefaults(t, kind, "v1beta2", hub)))

		original := withDefaults(t, kind, "v1beta2", read[Hub](t, hubManifest))
		spoke := p.toSpoke(t, original)
		written := withDefaults(t, kind, "v1beta1", spoke)
		assert.JSONEq(t, text(t, spoke), text(t, written))
		assert.JSONEq(t, text(t, original), text(t, p.toHub(t, written)), "nor does a write in v1beta1")
	}
}

// withDefaults sets the defaults of a version of a CRD, with the code of the API server.
func withDefaults[T client.Object](t *testing.T, kind, version string, o T) T {
	t.Helper()
	content := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(text(t, o)), &content))
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	group := "infrastructure.cluster.x-k8s.io"
	if strings.HasPrefix(kind, "CAPTControlPlane") {
		group = "controlplane.cluster.x-k8s.io"
	}
	definition, err := schemas.Of(runtimeschema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	require.NoError(t, err)
	structuraldefaulting.Default(content, definition.Structural())
	return parse[T](t, text(t, content))
}
