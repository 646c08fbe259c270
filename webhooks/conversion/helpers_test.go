// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// pair has the two functions of one kind, with JSON encoding as in an API server.
type pair[Hub, Spoke client.Object] struct {
	down func(context.Context, Hub, Spoke) error
	up   func(context.Context, Spoke, Hub) error
}

var (
	captClusters = pair[*infrav1.CAPTCluster, *infrav1beta1.CAPTCluster]{
		conversion.CAPTCluster.ToSpoke, conversion.CAPTCluster.ToHub,
	}
	controlPlanes = pair[*controlplanev1.CAPTControlPlane, *controlplanev1beta1.CAPTControlPlane]{
		conversion.CAPTControlPlane.ToSpoke, conversion.CAPTControlPlane.ToHub,
	}
	controlPlaneTemplates = pair[*controlplanev1.CAPTControlPlaneTemplate, *controlplanev1beta1.CAPTControlPlaneTemplate]{
		conversion.CAPTControlPlaneTemplate.ToSpoke, conversion.CAPTControlPlaneTemplate.ToHub,
	}
	workspaceTemplates = pair[*infrav1.WorkspaceTemplate, *infrav1beta1.WorkspaceTemplate]{
		conversion.WorkspaceTemplate.ToSpoke, conversion.WorkspaceTemplate.ToHub,
	}
	workspaceTemplateApplies = pair[*infrav1.WorkspaceTemplateApply, *infrav1beta1.WorkspaceTemplateApply]{
		conversion.WorkspaceTemplateApply.ToSpoke, conversion.WorkspaceTemplateApply.ToHub,
	}
)

func (p pair[Hub, Spoke]) toHub(t *testing.T, spoke Spoke) Hub {
	t.Helper()
	hub := fresh[Hub]()
	require.NoError(t, p.up(t.Context(), parse[Spoke](t, text(t, spoke)), hub))
	return parse[Hub](t, text(t, hub))
}

func (p pair[Hub, Spoke]) toSpoke(t *testing.T, hub Hub) Spoke {
	t.Helper()
	spoke := fresh[Spoke]()
	require.NoError(t, p.down(t.Context(), parse[Hub](t, text(t, hub)), spoke))
	return parse[Spoke](t, text(t, spoke))
}

// returns requires that a v1beta1 manifest is unchanged after a round trip, and returns the v1beta2 object.
func (p pair[Hub, Spoke]) returns(t *testing.T, manifest string) Hub {
	t.Helper()
	hub := p.toHub(t, read[Spoke](t, manifest))
	want, err := yaml.YAMLToJSON([]byte(manifest))
	require.NoError(t, err)
	spoke := p.toSpoke(t, hub)
	assert.JSONEq(t, withoutTime(t, string(want)), withoutTime(t, text(t, withoutLostFields(spoke))))
	return hub
}

// keeps requires that a v1beta2 manifest is unchanged after a round trip, and returns the v1beta1 object.
func (p pair[Hub, Spoke]) keeps(t *testing.T, manifest string) Spoke {
	t.Helper()
	hub := read[Hub](t, manifest)
	spoke := p.toSpoke(t, hub)
	assert.JSONEq(t, text(t, hub), text(t, p.toHub(t, spoke)))
	return spoke
}

func read[T client.Object](t testing.TB, manifest string) T {
	t.Helper()
	o := fresh[T]()
	require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), o))
	return o
}

// withoutTime removes a null creationTimestamp, which old manifests have, and empty metadata.
func withoutTime(t *testing.T, object string) string {
	t.Helper()
	content := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(object), &content))
	if metadata, ok := content["metadata"].(map[string]any); ok {
		if metadata["creationTimestamp"] == nil {
			delete(metadata, "creationTimestamp")
		}
		if len(metadata) == 0 {
			delete(content, "metadata")
		}
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	return text(t, content)
}

func preserved(o client.Object) string { return o.GetAnnotations()[preserve.Annotation] }
