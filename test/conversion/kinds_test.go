// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/webhooks/conversion"
)

// root of the repository.
const root = "../.."

const (
	spoke = "v1beta1"
	hub   = "v1beta2"
)

var versions = []string{spoke, hub}

// other version than the given one.
func other(version string) string {
	if version == hub {
		return spoke
	}
	return hub
}

// kind is one that has two versions.
type kind struct {
	name, group, resource string
	hasStatus             bool
}

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
)

var (
	captCluster              = kind{"CAPTCluster", infrastructure, "captclusters", true}
	captControlPlane         = kind{"CAPTControlPlane", controlPlane, "captcontrolplanes", true}
	captControlPlaneTemplate = kind{"CAPTControlPlaneTemplate", controlPlane, "captcontrolplanetemplates", false}
	workspaceTemplate        = kind{"WorkspaceTemplate", infrastructure, "workspacetemplates", true}
	workspaceTemplateApply   = kind{"WorkspaceTemplateApply", infrastructure, "workspacetemplateapplies", true}

	kinds = []kind{captCluster, captControlPlane, captControlPlaneTemplate, workspaceTemplate, workspaceTemplateApply}
)

// kindOf an object, also of one that has the older spelling of its kind.
func kindOf(t *testing.T, object *unstructured.Unstructured) kind {
	t.Helper()
	for _, k := range kinds {
		if strings.EqualFold(k.name, object.GetKind()) {
			return k
		}
	}
	require.Failf(t, "no such kind", "%s is none of ours", object.GetKind())
	return kind{}
}

func (k kind) in(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
}

// definition is the name of the kind's CustomResourceDefinition.
func (k kind) definition() string { return k.resource + "." + k.group }

var scheme, registry = conversion.NewRegistry()

// converted is what webhooks/conversion makes of an object, without an API server.
func converted(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	result, err := conversion.Convert(t.Context(), scheme, registry, object, version)
	require.NoError(t, err)
	return result
}

// without returns a copy that lacks some fields.
func without(object *unstructured.Unstructured, paths ...string) *unstructured.Unstructured {
	object = object.DeepCopy()
	for _, path := range paths {
		unstructured.RemoveNestedField(object.Object, strings.Split(path, ".")...)
	}
	return object
}
