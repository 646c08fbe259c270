// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation has the types that the validation rules of all kinds share: Findings, the result of a rule; Reader, the objects that a
// rule may read; and checks of references between objects. The rules are in subpackages: owners for CAPTCluster and CAPTControlPlane,
// templates for WorkspaceTemplate, applies for WorkspaceTemplateApply. Webhooks, controllers and captctl call the same rules.
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

// Reader reads the objects that a rule needs in addition to the object that it checks. In webhooks it reads from the manager's cache, and
// in some cases from the API server. A nil object means that the object does not exist. An error means that the lookup failed; a rule must
// return the error and must not decide.
type Reader interface {
	// WorkspaceTemplate returns the WorkspaceTemplate with a key, or nil.
	WorkspaceTemplate(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error)
	// WorkspaceTemplateApply returns the WorkspaceTemplateApply with a key, or nil.
	WorkspaceTemplateApply(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplateApply, error)
	// ClaimantsOf lists the WorkspaceTemplateApplies of all namespaces whose spec.workspaceName is a given name.
	ClaimantsOf(ctx context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error)
	// UsersOf counts the WorkspaceTemplateApplies of all namespaces that refer to a template.
	UsersOf(ctx context.Context, template types.NamespacedName) (Users, error)
	// CAPTCluster returns the CAPTCluster with a key, or nil.
	CAPTCluster(ctx context.Context, key types.NamespacedName) (*infrav1.CAPTCluster, error)
	// CAPTControlPlane returns the CAPTControlPlane with a key, or nil.
	CAPTControlPlane(ctx context.Context, key types.NamespacedName) (*controlplanev1.CAPTControlPlane, error)
	// ReferrersTo lists the CAPTClusters and CAPTControlPlanes whose spec refers to a WorkspaceTemplateApply.
	ReferrersTo(ctx context.Context, apply types.NamespacedName) ([]Owner, error)
	// ControlPlanesOfTemplate lists the CAPTControlPlanes of all namespaces whose spec.workspaceTemplateRef refers to a template.
	ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error)
	// HasUnownedLegacy reports whether a namespace has a WorkspaceTemplateApply for which adoption.IsUnownedLegacy is true.
	HasUnownedLegacy(ctx context.Context, namespace string) (bool, error)
	// HasUnclaimedWorkspace reports whether a cluster-scoped Workspace with a given name exists that has no naming.ClaimAnnotation, so that
	// CAPT v0.3 may have created it.
	HasUnclaimedWorkspace(ctx context.Context, workspaceName string) (bool, error)
	// Cluster returns the Cluster with a key, or nil.
	Cluster(ctx context.Context, key types.NamespacedName) (*clusterv1.Cluster, error)
	// ClusterOf returns the Cluster whose spec refers to an object as its infrastructure or control plane, or nil.
	ClusterOf(ctx context.Context, owner Owner) (*clusterv1.Cluster, error)
	// NamespaceLabels returns the labels of a namespace; nil when it does not exist.
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
}

// Users are the users of a template.
type Users struct {
	// Applies is the number of WorkspaceTemplateApplies, Clusters that of the Clusters that they belong to.
	Applies, Clusters int
}

// CountUsers counts WorkspaceTemplateApplies.
func CountUsers(applies []infrav1.WorkspaceTemplateApply) Users {
	clusters := map[types.NamespacedName]bool{}
	for i := range applies {
		if name := applies[i].Labels[clusterv1.ClusterNameLabel]; name != "" {
			clusters[types.NamespacedName{Namespace: applies[i].Namespace, Name: name}] = true
		}
	}
	return Users{Applies: len(applies), Clusters: len(clusters)}
}

// Owner is an object that owns WorkspaceTemplateApplies: a CAPTCluster or a CAPTControlPlane.
type Owner interface {
	metav1.Object
	runtime.Object
}

// Findings are the results of the rules for an object.
type Findings struct {
	// Errors reject the object: only a change of the object can resolve them.
	Errors field.ErrorList
	// Warnings do not reject the object: a change of another object may resolve them, for example the creation of a referenced one.
	Warnings []string
}

// Refuse adds errors, which reject the object.
func (f *Findings) Refuse(errs ...*field.Error) { f.Errors = append(f.Errors, errs...) }

// Warn adds a warning about the field at a path.
func (f *Findings) Warn(path *field.Path, format string, args ...any) {
	f.Warnings = append(f.Warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

// Add adds the errors and warnings of other findings.
func (f *Findings) Add(other Findings) {
	f.Errors = append(f.Errors, other.Errors...)
	f.Warnings = append(f.Warnings, other.Warnings...)
}

// AddWarnings adds errors as warnings.
func (f *Findings) AddWarnings(errs field.ErrorList) {
	for _, e := range errs {
		f.Warnings = append(f.Warnings, e.Field+": "+e.Detail)
	}
}

// DowngradeToWarnings turns all errors into warnings.
func (f *Findings) DowngradeToWarnings() {
	f.AddWarnings(f.Errors)
	f.Errors = nil
}
