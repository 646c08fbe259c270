// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package adoption is the gate for objects that CAPT v0.3 left: none of them is written before captctl migrate has adopted it, except for the
// conditions that report this, and each keeps its status until then. Nothing else in controllers knows CAPT v0.3.
package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
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

func has(object client.Object, finalizer string) bool {
	return slices.Contains(object.GetFinalizers(), finalizer)
}

// checkApply blocks a WorkspaceTemplateApply until the Workspace that CAPT v0.3 created for it is adopted.
func (g *Gate) checkApply(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (v engine.GateDecision, err error) {
	v.Finalizers = []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}
	deleting := !apply.DeletionTimestamp.IsZero()
	if legacy.AwaitsProof(apply) && !deleting {
		v.Proof = apply.Annotations[naming.ProveAnnotation]
	}
	name := legacy.UnadoptedWorkspace(apply)
	if !deleting && (name != "" || isMigrating(apply)) {
		v.Keeps, v.Keep = func(engine.Object, engine.Situation) bool { return true }, keepApply
	}
	switch {
	case name != "":
		v.Block, err = g.blockFor(ctx, apply, name)
	case apply.Spec.WorkspaceName == "":
		v.BlockMissing = func(ctx context.Context) (*desired.Blocked, error) { return g.blockOfRestored(ctx, apply) }
	case deleting && legacy.LegacyFinalizer(apply): // A user set spec.workspaceName: releasing the object would orphan the Workspace.
		v.BlockUnclaimed, err = g.blockFor(ctx, apply, apply.Spec.WorkspaceName)
	}
	return v, err
}

// blockOfRestored returns the Block of an object that was restored without the status of CAPT v0.3, if its Workspace exists.
func (g *Gate) blockOfRestored(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*desired.Blocked, error) {
	held, err := legacy.NotRestored(apply, func(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error) {
		live, err := g.Workspaces.Get(ctx, scope, namespace, name)
		switch {
		case errors.Is(err, workspace.ErrKindMissing):
			return nil, nil
		case err != nil || live == nil:
			return nil, err
		}
		return live.Unstructured, nil
	}, func(name string) ([]infrav1.WorkspaceTemplateApply, error) {
		named, err := g.list(ctx, client.MatchingFields{index.WorkspaceName: name})
		if err != nil {
			return nil, err
		}
		derived, err := g.list(ctx, client.MatchingFields{index.DerivedName: name})
		return slices.Concat(named, derived), err
	})
	if err != nil || held == "" {
		return nil, err
	}
	return g.blockFor(ctx, apply, naming.LegacyWorkspace(apply.Name))
}

// template returns the template of an object; nil if it does not exist or does not allow the namespace.
func (g *Gate) template(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error) {
	templates := workspacetemplate.Lookup{Cached: g.Client, Uncached: g.Uncached, Namespace: g.Namespace}
	return templates.Permitted(ctx, apply.TemplateKey(), apply.Namespace)
}

// blockFor returns the Block of an object whose Workspace was not adopted. CAPT v0.3 shared one Workspace between objects of equal names: if it was
// adopted for another one, as status records, which users cannot write, this object has none.
func (g *Gate) blockFor(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, name string) (*desired.Blocked, error) {
	adopter := ""
	if !legacy.AwaitsProof(apply) {
		others, err := g.list(ctx, client.MatchingFields{index.WorkspaceName: name})
		if err != nil {
			return nil, err
		}
		for i := range others {
			other := &others[i]
			if other.UID == apply.UID || other.Status.WorkspaceRef == nil || !legacy.RecordsClusterWide(other, name) {
				continue
			}
			if adopter = "an object of another namespace"; other.Namespace == apply.Namespace { // Its name is not disclosed.
				adopter = "WorkspaceTemplateApply " + other.Name
				break // The order of the cache must not decide.
			}
		}
	}
	if adopter == "" {
		return required("Workspace %s was created by CAPT v0.3 for this object and has not been adopted: nothing is written or deleted. Adopt it with captctl migrate (see captctl migrate check); if it belongs to another object, set spec.workspaceName to another name", name), nil
	}
	scope := terraform.ScopeCluster
	if template, err := g.template(ctx, apply); err == nil && template != nil {
		scope = template.Spec.WorkspaceScope
	}
	command := fmt.Sprintf(`kubectl -n %s patch workspacetemplateapply %s --type=merge -p '{"spec":{"workspaceName":%q}}'`,
		apply.Namespace, apply.Name, naming.Workspace(scope, client.ObjectKeyFromObject(apply)))
	return required("Workspace %s belongs to %s, for which it was adopted: CAPT v0.3 created none for this object, and nothing is written or deleted. To create a Workspace with another name, and its cloud resources, run: %s", name, adopter, command), nil
}

// list reads WorkspaceTemplateApplies from the cache. They must not be changed.
func (g *Gate) list(ctx context.Context, options ...client.ListOption) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := g.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	return list.Items, nil
}

// keepApply keeps the status of a WorkspaceTemplateApply, and reports the proof of its adoption.
func keepApply(obj engine.Object, s engine.Situation) {
	apply := obj.(*infrav1.WorkspaceTemplateApply)
	apply.Status.Preview = s.Preview
	required := s.Decision
	switch proof := legacy.AwaitsProof(apply); {
	case legacy.NeedsNoAdoption(apply):
		required = engine.False(infrav1.AdoptionRequiredCondition, infrav1.NotManagedReason,
			"this object is a helper of CAPT v0.3, which recorded no Workspace for it, and spec.deletionPolicy is Retain: nothing is written or deleted. No action is needed")
		engine.SetNegativePolarity(apply, required)
	case proof && s.Preview.Result == infrav1.PreviewEmpty:
		required = engine.True(infrav1.AdoptionRequiredCondition, infrav1.ProvenReason, fmt.Sprintf(
			"Terraform would change nothing for Workspace %s: captctl migrate apply adopts it when that is so for all Workspaces of the Cluster", apply.Spec.WorkspaceName))
	case proof && s.Preview.Result == "":
		required = engine.True(infrav1.AdoptionRequiredCondition, infrav1.WaitingForProofReason, fmt.Sprintf(
			"Workspace %s is adopted when a plan shows that Terraform would change nothing: waiting for %s", apply.Spec.WorkspaceName, s.WaitsFor))
	case proof:
		required = engine.True(infrav1.AdoptionRequiredCondition, infrav1.NotProvenReason, fmt.Sprintf(
			"Workspace %s is not adopted: %s. Remove the cause, and run captctl migrate apply --prove again", apply.Spec.WorkspaceName, overview.WhyNotEmpty(s.Preview)))
	}
	keepStatus(apply, s.Paused, required)
}
