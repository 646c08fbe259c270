// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package adoption is the gate for objects that CAPT v0.3 left: none of them is written before captctl migrate has adopted it, except for the
// conditions that report this, and each keeps its status until then. Nothing else in controllers knows CAPT v0.3.
package adoption

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
)

// Options of Setup.
type Options struct {
	Workspaces *workspace.Client
	// Namespace is the only namespace in the cache; empty means all.
	Namespace string
	// SkipPhases of the CRD migrator.
	SkipPhases []crdmigrator.Phase
	Metrics    prometheus.Registerer
}

// Setup returns the gate, and adds the controller that migrates stored versions after the last adoption.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) (engine.Gate, error) {
	if err := setupStoredVersions(ctx, mgr, options); err != nil {
		return nil, fmt.Errorf("setting up the migration of stored versions: %w", err)
	}
	return &Gate{Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Workspaces: options.Workspaces, Namespace: options.Namespace}, nil
}

// Gate implements engine.Gate.
type Gate struct {
	// Client reads from the cache.
	Client client.Client
	// Uncached reads templates of namespaces that are not in the cache.
	Uncached   client.Reader
	Workspaces *workspace.Client
	// Namespace is the only namespace in the cache; empty means all.
	Namespace string
}

var _ engine.Gate = &Gate{}

// Check implements engine.Gate.
func (g *Gate) Check(ctx context.Context, obj engine.Object) (engine.GateDecision, error) {
	switch obj := obj.(type) {
	case *infrav1.CAPTCluster:
		return g.checkCAPTCluster(ctx, obj)
	case *controlplanev1.CAPTControlPlane:
		return subjectOf(obj).decision(), nil
	case *infrav1.WorkspaceTemplateApply:
		return g.checkApply(ctx, obj)
	case *infrav1.WorkspaceTemplate:
		return checkTemplate(obj), nil
	}
	return engine.GateDecision{}, nil
}

func required(format string, args ...any) *desired.Blocked {
	return &desired.Blocked{Reason: infrav1.AdoptionRequiredReason, Message: fmt.Sprintf(format, args...)}
}

// BlockOf implements engine.Gate: an owner must not use a WorkspaceTemplateApply that has not been adopted.
func (g *Gate) BlockOf(apply *infrav1.WorkspaceTemplateApply) *desired.Blocked {
	name := legacy.UnadoptedWorkspace(apply)
	if name == "" {
		return nil
	}
	return required("WorkspaceTemplateApply %s has Workspace %s, which was created by CAPT v0.3 and has not been adopted: nothing is written or deleted. Adopt it with captctl migrate (see captctl migrate check)", apply.Name, name)
}

// Evidence implements engine.Gate.
func (g *Gate) Evidence(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []claim.Evidence {
	return legacy.Evidence(want, owner, apply)
}

// Origin implements engine.Gate.
func (g *Gate) Origin(apply *infrav1.WorkspaceTemplateApply) string {
	if legacy.LegacyFinalizer(apply) {
		return "CAPT v0.3"
	}
	return ""
}

// KeepsSummary implements engine.Gate: before adoption, no reconcile would restore a summary that CAPT v0.3 left. The first reconcile of an object
// has no condition about adoption yet.
func (g *Gate) KeepsSummary(obj engine.Object, summary string) bool {
	if required := conditions.Get(obj, infrav1.AdoptionRequiredCondition); required != nil {
		return required.Status != metav1.ConditionFalse
	}
	if known := conditions.Get(obj, summary); known != nil {
		return known.ObservedGeneration == 0
	}
	return legacy.LegacyStatus(0, obj.GetConditions()) // CAPT v0.3 wrote no Ready on a CAPTCluster.
}

// isMigrating reports whether captctl migrate is writing an object, or was interrupted. A status computed from half of its writes would be
// wrong, so the status is kept.
func isMigrating(obj engine.Object) bool {
	return obj.GetAnnotations()[clusterv1.PausedAnnotation] == naming.MigrationPause
}

// checkTemplate lets a template stay as CAPT v0.3 wrote it, with its finalizer, while a user awaits adoption, or none was adopted.
func checkTemplate(template *infrav1.WorkspaceTemplate) engine.GateDecision {
	v := engine.GateDecision{Finalizers: []string{infrav1.LegacyWorkspaceTemplateFinalizer}}
	if !has(template, infrav1.LegacyWorkspaceTemplateFinalizer) || has(template, infrav1.WorkspaceTemplateFinalizer) || !template.DeletionTimestamp.IsZero() {
		return v
	}
	v.BlockFor = func(users []*infrav1.WorkspaceTemplateApply) *desired.Blocked {
		for _, user := range users {
			if legacy.UnadoptedWorkspace(user) != "" {
				return required("its user %s/%s was created by CAPT v0.3 and has not been adopted", user.Namespace, user.Name)
			}
		}
		if len(users) == 0 {
			return required("no user of it was adopted")
		}
		return nil
	}
	return v
}
