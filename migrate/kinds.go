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

package migrate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// FieldManager is under which captctl writes. Admission lets it take back what an adoption wrote.
const FieldManager = naming.MigrationFieldManager

// LegacyVersion is the API version of what the older CAPT wrote, and Version that of today.
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
