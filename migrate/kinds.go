// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// OlderTemplateKind is how CAPT v0.3 spelled CAPTControlPlaneTemplate, and OlderTemplateDefinition the definition of both. The kind of a
// definition cannot be changed.
const (
	OlderTemplateKind       = "CaptControlPlaneTemplate"
	OlderTemplateDefinition = "captcontrolplanetemplates.controlplane.cluster.x-k8s.io"
)

// FieldManager is under which captctl writes. Admission permits it to revert what an adoption wrote.
const FieldManager = naming.MigrationFieldManager

// LegacyVersion is the API version that CAPT v0.3 wrote, and Version the one that this version writes.
const (
	LegacyVersion = "v1beta1"
	Version       = "v1beta2"
)

// Kind is one of CAPT's kinds.
type Kind struct {
	schema.GroupVersionKind
	// Resource is its name in paths, in the plural.
	Resource string
}

// Definition is the name of its CustomResourceDefinition.
func (k Kind) Definition() string { return k.Resource + "." + k.Group }

// InLegacy reports whether CAPT v0.3 had the kind. It spelled CAPTControlPlaneTemplate differently, which is another kind.
func (k Kind) InLegacy() bool {
	return k.Kind != "CAPTClusterTemplate" && k.Kind != "CAPTControlPlaneTemplate"
}

// Kinds of CAPT, in the order in which their objects are written: what others refer to comes first.
func Kinds() []Kind {
	return []Kind{
		{infrav1.GroupVersion.WithKind("WorkspaceTemplate"), "workspacetemplates"},
		{infrav1.GroupVersion.WithKind("CAPTClusterTemplate"), "captclustertemplates"},
		{controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate"), "captcontrolplanetemplates"},
		{infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), "workspacetemplateapplies"},
		{infrav1.GroupVersion.WithKind("CAPTCluster"), "captclusters"},
		{controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), "captcontrolplanes"},
	}
}
