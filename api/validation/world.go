// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation holds what the rules for CAPT's objects share: what they find, what they read, and references between objects.
// The rules are in packages by subject, pure, and called by webhooks, controllers and captctl: package owners for CAPTCluster and
// CAPTControlPlane, package templates for WorkspaceTemplate, package applies for WorkspaceTemplateApply.
package validation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// World is what a rule may look at besides the object it is about. Webhooks answer from the manager's cache, captctl from
// what it was given. A nil object means that there is none; an error means that the lookup failed, and that nothing may be
// concluded.
type World interface {
	// WorkspaceTemplate of a name.
	WorkspaceTemplate(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error)
	// WorkspaceTemplateApply of a name.
	WorkspaceTemplateApply(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplateApply, error)
	// ClaimantsOf lists the WorkspaceTemplateApplies of all namespaces whose spec names a Workspace.
	ClaimantsOf(ctx context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error)
	// UsersOf counts the WorkspaceTemplateApplies of all namespaces that refer to a template.
	UsersOf(ctx context.Context, template types.NamespacedName) (int, error)
	// CAPTCluster of a name.
	CAPTCluster(ctx context.Context, key types.NamespacedName) (*infrav1.CAPTCluster, error)
	// CAPTControlPlane of a name.
	CAPTControlPlane(ctx context.Context, key types.NamespacedName) (*controlplanev1.CAPTControlPlane, error)
	// ReferrersTo lists the CAPTClusters and CAPTControlPlanes whose spec refers to a WorkspaceTemplateApply.
	ReferrersTo(ctx context.Context, apply types.NamespacedName) ([]Owner, error)
	// ControlPlanesOfTemplate lists the CAPTControlPlanes of all namespaces whose spec.workspaceTemplateRef means a template.
	ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error)
	// Orphaned reports whether a namespace holds a WorkspaceTemplateApply that is adoption.Ownerless.
	Orphaned(ctx context.Context, namespace string) (bool, error)
	// Leftover reports whether a cluster-wide Workspace of a name exists that has no claim: CAPT v0.3 may have created it.
	Leftover(ctx context.Context, workspaceName string) (bool, error)
	// Cluster of a name.
	Cluster(ctx context.Context, key types.NamespacedName) (*clusterv1.Cluster, error)
	// ClusterOf finds the Cluster whose spec names an object as its infrastructure or control plane.
	ClusterOf(ctx context.Context, owner Owner) (*clusterv1.Cluster, error)
	// NamespaceLabels returns the labels of a namespace; nil when it does not exist.
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
}

// Owner is an object that has a WorkspaceTemplateApply: a CAPTCluster or a CAPTControlPlane.
type Owner interface {
	metav1.Object
	runtime.Object
}

// Findings are what the rules say about an object.
type Findings struct {
	// Errors cannot disappear without a change of the object: it is refused.
	Errors field.ErrorList
	// Warnings may still come right, for example when what an object refers to is made a moment later.
	Warnings []string
}

// Refuse adds errors.
func (f *Findings) Refuse(errs ...*field.Error) { f.Errors = append(f.Errors, errs...) }

// Warn adds a warning about a field.
func (f *Findings) Warn(path *field.Path, format string, args ...any) {
	f.Warnings = append(f.Warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

// Add adds other findings.
func (f *Findings) Add(other Findings) {
	f.Errors = append(f.Errors, other.Errors...)
	f.Warnings = append(f.Warnings, other.Warnings...)
}

// WarnOf adds errors as warnings.
func (f *Findings) WarnOf(errs field.ErrorList) {
	for _, e := range errs {
		f.Warnings = append(f.Warnings, e.Field+": "+e.Detail)
	}
}

// OnlyWarn turns all errors into warnings.
func (f *Findings) OnlyWarn() {
	f.WarnOf(f.Errors)
	f.Errors = nil
}
