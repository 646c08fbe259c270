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
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
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

type subject struct {
	engine.Object
	ref infrav1.WorkspaceTemplateApplyReference
	// observed is status.observedGeneration, and recorded the name in status.workspaceTemplateApply.
	observed int64
	recorded string
}

func subjectOf(c *controlplanev1.CAPTControlPlane) subject {
	return subject{c, c.Spec.WorkspaceTemplateApplyRef, c.Status.ObservedGeneration, claim.ExpectationOfControlPlane(c, "").Recorded}
}

func (s subject) isLegacy() bool { return legacy.LegacyStatus(s.observed, s.GetConditions()) }

func (g *Gate) checkCAPTCluster(ctx context.Context, captCluster *infrav1.CAPTCluster) (v engine.GateDecision, err error) {
	s := subject{captCluster, captCluster.Spec.WorkspaceTemplateApplyRef, captCluster.Status.ObservedGeneration, claim.ExpectationOfCAPTCluster(captCluster, "").Recorded}
	v = s.decision()
	if captCluster.Spec.VPC.Template.IsDefined() {
		v.Correct, err = g.correctVPC(ctx, captCluster)
	} else {
		v.Block, err = g.blockOfExistingVPC(ctx, s)
	}
	if keep := v.Keep; keep != nil {
		v.Keep = func(obj engine.Object, s engine.Situation) {
			keep(obj, s)
			reportReadiness(captCluster, s)
		}
	}
	return v, err
}

// decision about an owner, which depends on the owner alone.
//
// Before adoption, the cloud resources are unchanged: the owner is as ready as CAPT v0.3 left it. An owner without a status has nothing to
// keep. One that was adopted and rolled back stays Ready.
//
// After adoption, the owner may be reconciled before its WorkspaceTemplateApply. An adoption causes no Terraform run, so "Provisioning"
// would be wrong, and every adopted cluster would be Degraded for a moment. The state is reported as soon as the WorkspaceTemplateApply
// was observed in its current generation. A refused request, or a conflict with another owner, is reported at once.
func (s subject) decision() engine.GateDecision {
	v := engine.GateDecision{Inherited: s.isLegacy()}
	if v.Inherited {
		v.Advice = legacy.CheckAdvice
	}
	if !s.GetDeletionTimestamp().IsZero() {
		return v
	}
	if v.Inherited {
		v.BlockMissing, v.BlockConflict = s.blockMissing, func(conflict string) *desired.Blocked {
			return required("this object was created by CAPT v0.3 and has not been adopted: %s", conflict)
		}
	}
	v.Keeps = func(obj engine.Object, now engine.Situation) bool {
		switch {
		case isMigrating(obj):
			return true
		case now.Held:
			return s.isLegacy() || conditions.IsTrue(obj, infrav1.ReadyCondition)
		}
		return now.Settling && (s.isLegacy() || conditions.IsTrue(obj, infrav1.AdoptionRequiredCondition))
	}
	v.Keep = func(obj engine.Object, now engine.Situation) { keepStatus(obj, now.Paused, now.Decision) }
	return v
}

// blockMissing returns the Block of an owner whose WorkspaceTemplateApply does not exist. A reference that CAPT v0.3 did not record is for a new one.
func (s subject) blockMissing(context.Context) (*desired.Blocked, error) {
	if s.recorded != s.ref.Name {
		return nil, nil
	}
	return required("spec.workspaceTemplateApplyRef (workspaceTemplateApplyName in v1beta1) names WorkspaceTemplateApply %s, which CAPT v0.3 recorded and which does not exist: a new one would create the cloud resources a second time. "+
		"Restore it from a backup, and adopt it with captctl migrate (see captctl migrate check). If none of its cloud resources are left, delete and recreate this object", s.ref.Name), nil
}

// blockOfExistingVPC returns the Block of a CAPTCluster with an existing VPC, which is adopted with the control plane of its Cluster: it has no
// WorkspaceTemplateApply that could show whether the cluster was adopted.
func (g *Gate) blockOfExistingVPC(ctx context.Context, s subject) (*desired.Blocked, error) {
	if !s.isLegacy() || !s.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	cluster, err := engine.OwnerCluster(ctx, g.Client, g.Uncached, s)
	if err != nil || cluster == nil || cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" {
		return nil, err
	}
	key := client.ObjectKey{Namespace: s.GetNamespace(), Name: cluster.Spec.ControlPlaneRef.Name}
	controlPlane, err := engine.Get(ctx, g.Client, key, &controlplanev1.CAPTControlPlane{})
	if err != nil {
		return nil, fmt.Errorf("reading CAPTControlPlane %s: %w", key.Name, err)
	}
	if controlPlane == nil {
		return nil, nil
	}
	reader := owner.Reader{Cached: g.Client, Uncached: g.Uncached, Gate: g, GateDecision: subjectOf(controlPlane).decision()}
	apply, err := reader.Observe(ctx, controlPlane, controlPlane.Spec.WorkspaceTemplateApplyRef, claim.ExpectationOfControlPlane(controlPlane, cluster.Name))
	if err != nil || !apply.Held {
		return nil, err
	}
	return required("CAPTControlPlane %s of the same Cluster was created by CAPT v0.3 and has not been adopted: nothing is written. Adopt the cluster with captctl migrate (see captctl migrate check)", key.Name), nil
}

// correctVPC returns the function that replaces the ID that CAPT v0.3 recorded, which may be outdated, with the one that Terraform reports.
func (g *Gate) correctVPC(ctx context.Context, captCluster *infrav1.CAPTCluster) (func(engine.Object), error) {
	s, ref := &captCluster.Status, captCluster.Spec.WorkspaceTemplateApplyRef
	if s.ObservedGeneration != 0 || s.VPC.ID == "" || !ref.IsDefined() {
		return nil, nil
	}
	apply, err := engine.Get(ctx, g.Client, client.ObjectKey{Namespace: captCluster.Namespace, Name: ref.Name}, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil || apply.Status.Outputs[terraform.OutputVPCID] == "" {
		return nil, err
	}
	return func(engine.Object) { s.VPC.ID = apply.Status.Outputs[terraform.OutputVPCID] }, nil
}

// reportReadiness reports in the condition Ready what CAPT v0.3 reported in status.ready alone: kubectl get and Cluster API read the condition.
func reportReadiness(captCluster *infrav1.CAPTCluster, s engine.Situation) {
	vpc := conditions.Get(captCluster, infrav1.VPCReadyCondition)
	if !s.Held || vpc == nil || conditions.Has(captCluster, infrav1.ReadyCondition) {
		return
	}
	ready := engine.False(infrav1.ReadyCondition, vpc.Reason, vpc.Message)
	if ptr.Deref(captCluster.Status.Initialization.Provisioned, false) {
		ready = engine.True(infrav1.ReadyCondition, infrav1.ReadyReason, "")
	}
	ready.Since = vpc.LastTransitionTime.Time
	engine.Set(captCluster, ready)
}

// Watch implements engine.Gate: CAPTClusters with an existing VPC are adopted together with a control plane.
func (g *Gate) Watch(b *builder.Builder, kind client.Object) *builder.Builder {
	if _, ok := kind.(*infrav1.CAPTCluster); !ok {
		return b
	}
	return b.Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(g.adoptedWith), builder.WithPredicates(onAdoption()))
}

// onAdoption passes a control plane that was adopted, maybe before its first reconcile, or deleted.
func onAdoption() predicate.Predicate { return predicate.Or(owner.Updated(adopted), owner.Deleted()) }

func adopted(before, after client.Object) bool {
	required := func(object client.Object) bool {
		controlPlane := object.(*controlplanev1.CAPTControlPlane)
		if condition := conditions.Get(controlPlane, infrav1.AdoptionRequiredCondition); condition != nil {
			return condition.Status != metav1.ConditionFalse
		}
		return controlPlane.Status.ObservedGeneration == 0
	}
	return required(before) && !required(after)
}

// adoptedWith returns the CAPTClusters that are adopted together with a control plane.
func (g *Gate) adoptedWith(ctx context.Context, controlPlane client.Object) []ctrl.Request {
	return engine.Requests(ctx, g.Client, &infrav1.CAPTClusterList{}, func(object client.Object) bool {
		c := object.(*infrav1.CAPTCluster)
		return !c.Spec.VPC.Template.IsDefined() && conditions.IsTrue(c, infrav1.AdoptionRequiredCondition)
	}, client.InNamespace(controlPlane.GetNamespace()))
}

// keepStatus updates only the conditions about adoption and pause, and keeps the rest of the status as CAPT v0.3 wrote it. It is for objects
// that have not been adopted, or whose adoption was rolled back. required is the condition AdoptionRequired.
func keepStatus(obj engine.Object, paused string, required engine.Condition) {
	engine.SetNegativePolarity(obj, engine.PausedCondition(paused))
	if required.Status != metav1.ConditionFalse || legacy.LegacyStatus(0, obj.GetConditions()) {
		engine.SetNegativePolarity(obj, required)
	}
	ready := conditions.Get(obj, infrav1.ReadyCondition)
	switch {
	case ready == nil:
	case ready.Reason == infrav1.WriteRefusedReason: // CAPT v0.3 did not use this reason: this version wrote the condition, and it is outdated.
		conditions.Delete(obj, infrav1.ReadyCondition)
	case paused == "":
		ready.Message = withoutPause(ready.Message)
	}
}

// withoutPause returns a message without what engine.WithPause added to it.
func withoutPause(message string) string {
	if strings.HasPrefix(message, "paused: ") {
		return ""
	}
	if _, rest, paused := strings.Cut(message, "): "); paused && strings.HasPrefix(message, "paused (") {
		return rest
	}
	return message
}
