// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate contains the types that all parts of the migration from CAPT v0.3 share: snapshots of a fleet, decisions, findings and
// exit codes. Package planner creates a plan from a snapshot, package plan has its types, and package apply writes it.
package migrate

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// APIVersion of the documents that captctl writes: plans, decisions, reports and journals. Fields are added within a version, never
// changed or removed; docs/captctl-output.md describes them.
const APIVersion = "migrate.capt.cluster.x-k8s.io/v1"

// OlderTemplateKind is the kind of CAPT v0.3 that this version spells CAPTControlPlaneTemplate. Both have the same CustomResourceDefinition.
const (
	OlderTemplateKind       = "CaptControlPlaneTemplate"
	OlderTemplateDefinition = "captcontrolplanetemplates.controlplane.cluster.x-k8s.io"
)

// FieldManager is the field manager of all writes of captctl. Admission permits it to revert what an adoption wrote.
const FieldManager = naming.MigrationFieldManager

// LegacyVersion is the API version that CAPT v0.3 wrote, and Version the one that this version writes.
const (
	LegacyVersion = "v1beta1"
	Version       = "v1beta2"
)

// Kind is one of CAPT's kinds.
type Kind struct {
	schema.GroupVersionKind
	Resource string // Its name in paths, in the plural.
}

// Definition is the name of its CustomResourceDefinition.
func (k Kind) Definition() string { return k.Resource + "." + k.Group }

// IsNew reports whether the kind is served in this version's API only.
func (k Kind) IsNew() bool { return k.Kind == "CAPTClusterTemplate" }

// InLegacy reports whether CAPT v0.3 had the kind. It spelled CAPTControlPlaneTemplate differently, which is another kind.
func (k Kind) InLegacy() bool { return !k.IsNew() && k.Kind != "CAPTControlPlaneTemplate" }

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

// ReadOrWritten returns the kinds that a migration reads or writes: Clusters, the kinds of CAPT, and Workspaces.
func ReadOrWritten() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, kind := range Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	return kinds
}

// Definitions returns the existing CustomResourceDefinitions of CAPT, and others, by name.
func Definitions(ctx context.Context, reader client.Reader, others ...string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, kind := range Kinds() {
		others = append(others, kind.Definition())
	}
	for _, name := range others {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, definition)
		if err == nil {
			found[name] = definition
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
	}
	return found, nil
}
