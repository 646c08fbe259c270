// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner creates a plan from a snapshot and the decisions of the user. It sends no requests. owners.go matches owners with their
// WorkspaceTemplateApplies by evidence, and reports what the evidence does not decide; gate.go examines Workspaces, and blocks what would make
// Terraform run; planner.go lists the fields to write, and repeats all of it for one unit before that is written.
//
// Functions named check… report what prevents the adoption of an owner: they set its state, add a finding, and return true.
package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// New plans the adoption of a fleet. It is pure: the same snapshot and decisions give the same plan. The plan assigns each owner at most one
// WorkspaceTemplateApply, and each of those at most one Workspace. What the evidence does not decide is a finding, and its unit has no steps.
func New(s *migrate.Snapshot, decisions *migrate.Decisions) (*plan.Plan, error) {
	return newPlan(s, decisions, nil)
}

// newPlan is New with owners that must pass the render gate even if they are helpers, or adopted: an interrupted apply may have done that.
func newPlan(s *migrate.Snapshot, decisions *migrate.Decisions, mustPassGate map[types.UID]bool) (*plan.Plan, error) {
	f, made := newFleet(s, decisions, mustPassGate), ptr.Deref(decisions, migrate.Decisions{})
	if err := f.unknownDecisions(made); err != nil {
		return nil, err
	}
	f.resolve()
	tooMany := f.tooManyNamespaces()
	p := &plan.Plan{ClusterUID: s.ClusterUID, Created: metav1.NewTime(s.Taken), Namespace: s.Namespace, Decisions: decisions}
	var owners []migrate.Finding
	for _, group := range f.groupByCluster() {
		unit, err := f.planUnit(group)
		if err != nil {
			return nil, err
		}
		p.Units = append(p.Units, unit)
		for _, o := range group {
			owners = append(owners, o.findings...)
		}
	}
	slices.SortFunc(p.Units, func(a, b plan.Unit) int { return strings.Compare(a.Name(), b.Name()) })
	p.Findings = slices.Concat(mergeConflicts(owners), f.unusedDecisions(made), tooMany, grantedPermissions(p.Units), f.invalidEndpoints(), f.pendingChanges())
	return p, p.Seal()
}

// groupByCluster returns the owners in scope, grouped by units: by Cluster, and alone without a Cluster.
func (f *fleet) groupByCluster() (groups [][]*owner) {
	for _, o := range f.ownersInScope() {
		last := len(groups) - 1
		if last >= 0 && o.cluster != "" && groups[last][0].cluster == o.cluster && groups[last][0].Object.Namespace == o.Object.Namespace {
			groups[last] = append(groups[last], o)
			continue
		}
		groups = append(groups, []*owner{o})
	}
	return groups
}

// planUnit plans owners that are adopted together. Only a unit that is adoptable as a whole has steps.
func (f *fleet) planUnit(owners []*owner) (plan.Unit, error) {
	unit := plan.Unit{Object: owners[0].Object, State: stateOf(owners)}
	if name := owners[0].cluster; name != "" {
		unit.Object = migrate.ObjectRef{Group: clusterv1.GroupVersion.Group, Kind: "Cluster", Namespace: unit.Object.Namespace, Name: name}
	}
	if cluster := f.clusters[types.NamespacedName{Namespace: unit.Object.Namespace, Name: owners[0].cluster}]; cluster != nil {
		unit.Object.UID = cluster.UID
		if cluster.Spec.ControlPlaneRef.Kind == kindControlPlane && (unit.State == plan.Adoptable || unit.State == plan.Adopted) {
			unit.Endpoint = endpointStep(cluster)
		}
	}
	for _, o := range owners {
		unit.Members = append(unit.Members, o.Member)
		if unit.State != plan.Adoptable {
			continue
		}
		if len(o.steps) > 0 {
			unit.Steps = append(append(unit.Steps, f.permissionSteps(unit.Steps, o)...), o.steps...)
		}
		live := f.protectedWorkspace(o)
		if live == nil {
			continue
		}
		item, err := migrate.RecordWorkspace(live)
		if err != nil {
			return unit, err
		}
		unit.Workspaces = append(unit.Workspaces, item)
	}
	return unit, nil
}

// protectedWorkspace is the Workspace that the adoption must not change: not one that is being deleted, or that may belong to another unit.
func (f *fleet) protectedWorkspace(o *owner) *unstructured.Unstructured {
	if o.live != nil || o.apply == nil || o.apply.DeletionTimestamp != nil {
		return o.live
	}
	key := f.workspaceKey(o.apply)
	live := f.workspaces[key]
	if live == nil || live.GetDeletionTimestamp() != nil || len(f.claims[key]) > 1 || claimedByAnother(o.apply, live) != "" {
		return nil
	}
	return live
}

// stateOf returns the state of the unit of some owners. If one owner is blocked or ambiguous, so is the unit: it is never adopted in part.
func stateOf(owners []*owner) plan.UnitState {
	for _, rule := range []struct {
		owner migrate.OwnerState
		unit  plan.UnitState
	}{
		{migrate.OwnerBlocked, plan.Blocked}, {migrate.OwnerAmbiguous, plan.NeedsDecision}, {migrate.Adoptable, plan.Adoptable},
		{migrate.Adopted, plan.Adopted}, {migrate.OwnerSkipped, plan.Skipped},
	} {
		if slices.ContainsFunc(owners, func(o *owner) bool { return o.State == rule.owner }) {
			return rule.unit
		}
	}
	return plan.NeverBuilt
}

// endpointStep returns the step that repairs the endpoint of a Cluster; nil if that is not necessary, or not possible.
func endpointStep(cluster *clusterv1.Cluster) *plan.Step {
	var c change
	stored := cluster.Spec.ControlPlaneEndpoint
	if repaired := validation.RepairEndpoint(stored); repaired.Host != "" {
		c.set("/spec/controlPlaneEndpoint/host", stored.Host, repaired.Host, whyEndpoint)
		c.set("/spec/controlPlaneEndpoint/port", stored.Port, repaired.Port, "the port of its API server")
	}
	for _, repair := range stepsFor("Cluster", cluster, "", c) {
		return &repair
	}
	return nil
}

func (f *fleet) unknownDecisions(decisions migrate.Decisions) error {
	known := f.knownObjects()
	for _, d := range decisions.Owners {
		if known[d.UID].Name == "" {
			return fmt.Errorf("there is no CAPTCluster, CAPTControlPlane or WorkspaceTemplateApply with UID %s (uid in owners of the decisions)", d.UID)
		}
		if d.Take != "" && known[d.Take].Name == "" {
			return fmt.Errorf("there is no WorkspaceTemplateApply with UID %s (take in owners of the decisions)", d.Take)
		}
	}
	for _, d := range decisions.Workspaces {
		if known[d.UID].Name == "" { // What is wrong with belongsTo is a finding.
			return fmt.Errorf("there is no Workspace with UID %s (uid in workspaces of the decisions)", d.UID)
		}
	}
	return nil
}

func (f *fleet) knownObjects() map[types.UID]migrate.ObjectRef {
	known := map[types.UID]migrate.ObjectRef{}
	for _, o := range f.owners {
		known[o.Object.UID] = o.Object
	}
	for i := range f.Applies {
		known[f.Applies[i].UID] = migrate.Ref(kindApply, &f.Applies[i])
	}
	for _, workspace := range f.workspaces {
		known[workspace.GetUID()] = migrate.RefOf(workspace)
	}
	return known
}

// Current returns the decisions of earlier plans whose objects exist and that contradict no adoption since.
func Current(s *migrate.Snapshot, decisions *migrate.Decisions) *migrate.Decisions {
	if decisions == nil {
		return nil
	}
	f := newFleet(s, nil, nil)
	known, adopted := f.knownObjects(), f.adoptedWorkspaces()
	current := *decisions
	current.Owners = slices.DeleteFunc(slices.Clone(decisions.Owners), func(d migrate.OwnerDecision) bool {
		has, alreadyAdopted := adopted[d.UID]
		return known[d.UID].Name == "" || d.Take != "" && known[d.Take].Name == "" || alreadyAdopted && (d.Skip || d.Take != "" && d.Take != has)
	})
	current.Workspaces = slices.DeleteFunc(slices.Clone(decisions.Workspaces), func(d migrate.WorkspaceDecision) bool {
		holder, held := adopted[d.UID]
		return known[d.UID].Name == "" || known[d.BelongsTo].Name == "" || held && holder != d.BelongsTo
	})
	return &current
}

// adoptedWorkspaces returns UIDs of WorkspaceTemplateApplies, by those of their adopted owners, of their Workspaces, and their own.
func (f *fleet) adoptedWorkspaces() map[types.UID]types.UID {
	found := map[types.UID]types.UID{}
	for _, o := range f.owners {
		if o.alreadyAdopted {
			found[o.Object.UID] = o.apply.UID
		}
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		if live := f.workspaces[f.workspaceKey(apply)]; live != nil && isAdopted(apply) {
			found[apply.UID], found[live.GetUID()] = apply.UID, apply.UID
		}
	}
	return found
}

// change collects the fields of one step, and why each is written.
type change struct {
	fields []plan.Field
	whys   []string
}

func (c *change) write(field plan.Field, why string) {
	c.fields = append(c.fields, field)
	c.whys = append(c.whys, strings.ReplaceAll(field.Path[1:], "/", ".")+": "+why)
}

func (c *change) set(path string, before, after any, why string) {
	field := plan.Field{Path: path, After: encode(after)}
	if !reflect.ValueOf(before).IsZero() {
		field.Before = encode(before)
	}
	if !bytes.Equal(field.Before, field.After) {
		c.write(field, why)
	}
}

func encode(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // Strings, numbers and API types can be encoded.
	}
	return data
}

// stepsFor returns the step that writes a change of an object; none if nothing changes.
func stepsFor(kind string, object client.Object, subresource string, c change) []plan.Step {
	if len(c.fields) == 0 {
		return nil
	}
	return []plan.Step{{Object: migrate.Ref(kind, object), Subresource: subresource, Why: strings.Join(c.whys, "; "), Fields: c.fields}}
}

// Reasons of findings. docs/migration-reference.md describes each of them. The list is stable: programs may rely on it.
const (
	ReasonSkipped                        = "Skipped"
	ReasonBeingDeleted                   = "BeingDeleted"
	ReasonMultipleCandidates             = "MultipleCandidates"
	ReasonReferenceDiffers               = "ReferenceDiffers"
	ReasonWorkspaceTemplateApplyNotFound = "WorkspaceTemplateApplyNotFound"
	ReasonNeverBuilt                     = "NeverBuilt"
	ReasonWorkspaceShared                = "WorkspaceShared"
	ReasonWorkspaceNotRecorded           = "WorkspaceNotRecorded"
	ReasonWorkspaceNotFound              = "WorkspaceNotFound"
	ReasonWorkspaceClaimed               = "WorkspaceClaimed"
	ReasonWorkspaceTemplateNotFound      = "WorkspaceTemplateNotFound"
	ReasonPermissionRequired             = "PermissionRequired"
	ReasonTooManyNamespaces              = "TooManyNamespaces"
	ReasonRenderFailed                   = "RenderFailed"
	ReasonWorkspaceDiffers               = "WorkspaceDiffers"
	ReasonPinFailed                      = "PinFailed"
	ReasonFargateProfileConflict         = "FargateProfileConflict"
	ReasonDeletionPolicyDiffers          = "DeletionPolicyDiffers"
	ReasonMachineNotAdopted              = "MachineNotAdopted"
	ReasonPendingChange                  = "PendingChange"
	ReasonPaused                         = "Paused"
	ReasonPermissionGranted              = "PermissionGranted"
	ReasonInvalidClusterEndpoint         = "InvalidClusterEndpoint"
)

// mergeConflicts merges the findings about one conflict: about owners that may have the same WorkspaceTemplateApply, or the same Workspace.
func mergeConflicts(findings []migrate.Finding) (merged []migrate.Finding) {
	shared, first := simple.NewUndirectedGraph(), map[types.UID]int64{}
	for i := range findings {
		this := int64(i)
		shared.AddNode(simple.Node(this))
		for _, uid := range conflictObjects(&findings[i]) {
			if other, seen := first[uid]; !seen {
				first[uid] = this
			} else if other != this {
				shared.SetEdge(simple.Edge{F: simple.Node(other), T: simple.Node(this)})
			}
		}
	}
	groups := topo.ConnectedComponents(shared)
	byID := func(a, b graph.Node) int { return cmp.Compare(a.ID(), b.ID()) }
	for _, group := range groups {
		slices.SortFunc(group, byID)
	}
	slices.SortFunc(groups, func(a, b []graph.Node) int { return byID(a[0], b[0]) })
	for _, group := range groups {
		into := findings[group[0].ID()]
		for _, node := range group[1:] {
			mergeInto(&into, &findings[node.ID()])
		}
		merged = append(merged, into)
	}
	return merged
}

// conflictObjects returns the UIDs of the objects of a conflict; none for other findings. Findings that share one are about the same conflict.
func conflictObjects(finding *migrate.Finding) (uids []types.UID) {
	switch {
	case finding.Severity != migrate.Ambiguous:
	case finding.Reason == ReasonWorkspaceShared:
		return []types.UID{finding.Workspace.UID}
	case finding.Reason == ReasonMultipleCandidates:
		for _, candidate := range finding.Candidates {
			uids = append(uids, candidate.Object.UID)
		}
	}
	return uids
}

// mergeInto adds a finding to another one of the same conflict. The evidence for a candidate is about one owner, so each candidate gets its owner.
func mergeInto(into, from *migrate.Finding) {
	into.AlsoAbout = append(into.AlsoAbout, from.Object)
	if into.Reason == ReasonWorkspaceShared {
		return // Evidence is about the Workspace, and the same for all owners.
	}
	if len(into.AlsoAbout) == 1 {
		setOwner(into, into.Object)
	}
	setOwner(from, from.Object)
	into.Candidates = append(into.Candidates, from.Candidates...)
	into.Message = fmt.Sprintf("%d owners may have the same WorkspaceTemplateApplies. Decide for each of them which one is its own with take: UID in --decisions, or leave it as it is with skip: true",
		len(into.AlsoAbout)+1)
}

func setOwner(finding *migrate.Finding, owner migrate.ObjectRef) {
	for i := range finding.Candidates {
		finding.Candidates[i].Owner = &owner
	}
}

func warning(reason string, object migrate.ObjectRef, format string, args ...any) migrate.Finding {
	return migrate.Finding{Severity: migrate.Warning, Reason: reason, Object: object, Message: fmt.Sprintf(format, args...)}
}

// invalidEndpoints reports Clusters whose endpoint is the URL that CAPT v0.3 wrote. The manager never writes a Cluster.
func (f *fleet) invalidEndpoints() (findings []migrate.Finding) {
	for i := range f.Clusters {
		cluster := &f.Clusters[i]
		if !f.inScope(cluster) || !strings.Contains(cluster.Spec.ControlPlaneEndpoint.Host, "://") || cluster.Spec.ControlPlaneRef.Kind != kindControlPlane {
			continue
		}
		findings = append(findings, warning(ReasonInvalidClusterEndpoint, migrate.Ref("Cluster", cluster),
			"spec.controlPlaneEndpoint.host is a URL, so clients cannot connect. Apply the plan with --fix-cluster-endpoints, or remove https:// from it"))
	}
	return findings
}

// pendingChanges compares every adopted Workspace with what the manager would write: it may have been edited since the gate of its adoption.
func (f *fleet) pendingChanges() (findings []migrate.Finding) {
	ofOwner := map[types.UID]bool{}
	for _, o := range f.ownersInScope() {
		if o.Object.Kind == kindApply || o.live == nil || !isAdopted(o.apply) {
			continue
		}
		ofOwner[o.apply.UID] = true
		if o.alreadyAdopted && o.typed.GetDeletionTimestamp() == nil { // The gate has looked at the others.
			findings = append(findings, f.pendingChangesOf(o)...)
		}
	}
	for i := range f.Applies {
		if o := f.asOwner(&f.Applies[i]); o != nil && !ofOwner[o.apply.UID] {
			findings = append(findings, f.pendingChangesOf(o)...)
		}
	}
	return findings
}

// asOwner returns an adopted WorkspaceTemplateApply as an owner, for pendingChangesOf; nil if it is not adopted, being deleted or out of scope.
func (f *fleet) asOwner(apply *infrav1.WorkspaceTemplateApply) *owner {
	live := f.workspaces[f.workspaceKey(apply)]
	if live == nil || !isAdopted(apply) || apply.DeletionTimestamp != nil || !f.inScope(apply) {
		return nil
	}
	return &owner{typed: apply, apply: apply, live: live, Member: plan.Member{Object: migrate.Ref(kindApply, apply), Workspace: ptr.To(migrate.RefOf(live))}}
}

// pendingChangesOf compares one Workspace with what is rendered for it, also when its owner cannot write the WorkspaceTemplateApply.
func (f *fleet) pendingChangesOf(o *owner) (findings []migrate.Finding) {
	variants, unwritten := f.variants(o)
	for _, variant := range variants {
		differences, err := f.differencesFrom(variant.apply, o.live)
		if err != nil {
			unwritten = cmp.Or(unwritten, err)
			continue
		}
		if len(differences) > 0 {
			source := f.editedObject(variant, differences)
			finding := warning(ReasonPendingChange, o.Object, "the manager would now change Workspace %s in %s, and Terraform would run: %s was edited. If that is intended, start the manager. %s",
				o.live.GetName(), strings.Join(fieldsOf(differences), ", "), source, f.revertAdvice(o, source, "the manager"))
			finding.Differences = differences
			findings = append(findings, finding)
			break
		}
	}
	if unwritten != nil {
		findings = append(findings, warning(ReasonRenderFailed, o.Object,
			"Workspace %s cannot be compared with what the manager would write once this is corrected: %v. Correct it, and compare again before the manager starts", o.live.GetName(), unwritten))
	}
	for i := range findings {
		findings[i].Workspace = o.Workspace
	}
	return findings
}

// Parts of messages, and reasons of fields.
const (
	orSkip         = ", or leave this one as it is with skip: true in --decisions" // It follows another remedy.
	orPin          = ", set pin: true in --decisions to keep it as it is with a WorkspaceTemplate of its own"
	finishDeletion = "Let CAPT v0.3 finish the deletion or, if this version is installed, follow the condition AdoptionRequired of the object so that the manager finishes it, and plan again"
	whyPinned      = "this template reproduces the Workspace, as decided"
	whyEndpoint    = "clients cannot connect to a host with a scheme"
	// maxAllowedNamespaces is how many names spec.allowedNamespaces of a WorkspaceTemplate may have (its definition says so).
	maxAllowedNamespaces = 256
)

func (o *owner) applySteps() []plan.Step {
	var c, status change
	apply := o.apply
	if o.pinned != nil {
		c.set("/spec/templateRef", apply.Spec.TemplateRef, o.pinnedRef(), whyPinned)
	}
	if o.live != nil {
		c.set("/spec/workspaceName", apply.Spec.WorkspaceName, o.live.GetName(), "its Workspace is found without status")
	}
	if why := o.whyRetained(); why != "" {
		c.set("/spec/deletionPolicy", apply.Spec.DeletionPolicy, infrav1.DeletionPolicyRetain, why)
	}
	if o.Object.Kind != kindApply && metav1.GetControllerOf(apply) == nil {
		field := plan.Field{Path: "/metadata/ownerReferences", Element: true, Key: "uid", After: encode(o.controllerReference())}
		for _, before := range apply.GetOwnerReferences() {
			if before.UID == o.Object.UID { // The API server rejects two of one UID.
				field.Before = encode(before)
			}
		}
		c.write(field, "it belongs to "+o.Object.String())
	}
	if o.live != nil && apply.Status.WorkspaceName == "" {
		status.set("/status/workspaceName", "", o.live.GetName(), "CAPT v0.3 did not record it, or the status was lost")
	}
	if o.live != nil && apply.Status.WorkspaceRef == nil {
		status.set("/status/workspaceRef", "", render.ReferenceTo(o.live), "no other Workspace of that name is used")
	}
	return append(stepsFor(kindApply, apply, "", c), stepsFor(kindApply, apply, "status", status)...)
}

// whyRetained returns why the cloud resources must outlive the WorkspaceTemplateApply; empty if they need not.
func (o *owner) whyRetained() string {
	switch ofCAPTCluster := o.captCluster != nil && o.controlPlane == nil; {
	case ofCAPTCluster && o.captCluster.Spec.VPC.Template.DeletionPolicy == infrav1.DeletionPolicyRetain:
		return "spec.vpc.template.deletionPolicy of its CAPTCluster is Retain"
	case ofCAPTCluster, !o.retain:
		return ""
	case o.machine:
		return "what a CaptMachine created outlives it"
	case legacy.IsSpotRoleHelper(o.apply):
		return "all clusters of the account use the Spot role"
	}
	return "it is not adopted, and must not block a deletion"
}

func (o *owner) controllerReference() metav1.OwnerReference {
	version := infrav1.GroupVersion
	if o.controlPlane != nil {
		version = controlplanev1.GroupVersion
	}
	return *metav1.NewControllerRef(o.typed, version.WithKind(o.Object.Kind))
}

func (o *owner) ownerSteps() []plan.Step {
	if o.Object.Kind == kindApply {
		return nil
	}
	var c change
	switch {
	case o.pinned == nil:
	case o.controlPlane != nil:
		c.set("/spec/workspaceTemplateRef", o.controlPlane.Spec.WorkspaceTemplateRef, o.pinnedRef(), whyPinned)
	default:
		c.set("/spec/vpc/template/ref", o.captCluster.Spec.VPC.Template.Ref, o.pinnedRef(), whyPinned)
	}
	if !o.referenceInSpec().IsDefined() {
		c.set("/spec/workspaceTemplateApplyRef", "", infrav1.WorkspaceTemplateApplyReference{Name: o.apply.Name}, "no second WorkspaceTemplateApply is created")
	}
	if o.controlPlane != nil {
		stored := o.controlPlane.Spec.ControlPlaneEndpoint
		if repaired := validation.RepairEndpoint(stored); repaired.Host != "" {
			c.set("/spec/controlPlaneEndpoint/host", stored.Host, repaired.Host, whyEndpoint)
		}
	}
	return stepsFor(o.Object.Kind, o.typed, "", c)
}

func (o *owner) referenceInSpec() infrav1.WorkspaceTemplateApplyReference {
	if o.controlPlane != nil {
		return o.controlPlane.Spec.WorkspaceTemplateApplyRef
	}
	return o.captCluster.Spec.WorkspaceTemplateApplyRef
}

// permissionSteps returns the step that allows the namespace of an owner to use its template; none if it, or a given step, already does.
func (f *fleet) permissionSteps(steps []plan.Step, o *owner) []plan.Step {
	template := f.templateToPermit(o)
	if template == nil {
		return nil
	}
	namespace, ref, why := o.apply.Namespace, migrate.Ref(kindTemplate, template), "namespace %s uses the template already"
	if f.decided.owners[o.typed.GetUID()].Permit {
		why = "namespace %s may use the template, as decided"
	}
	if slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Object == ref }) {
		return nil
	}
	var c change
	c.write(plan.Field{Path: "/spec/allowedNamespaces/names", Element: true, After: encode(namespace)}, fmt.Sprintf(why, namespace))
	return stepsFor(kindTemplate, template, "", c)
}

// checkPermission reports that the template of an owner does not permit its namespace, and that nothing shows that CAPT v0.3 used the template from
// there: that status records a Workspace, and that this is exactly what the template renders, as the gate requires.
func (f *fleet) checkPermission(o *owner) (blocked bool) {
	template := f.unpermitted(o)
	if template == nil || isRecorded(o.apply, o.live) || f.decided.owners[o.typed.GetUID()].Permit {
		return false
	}
	o.markAmbiguous(ReasonPermissionRequired, fmt.Sprintf("%s does not permit namespace %s to use it, and status of WorkspaceTemplateApply %s does not record Workspace %s, which would show that CAPT v0.3 used the template there. "+
		"To add the namespace to spec.allowedNamespaces, set permit: true in --decisions%s", migrate.Ref(kindTemplate, template), o.apply.Namespace, o.apply.Name, o.live.GetName(), orSkip), nil)
	return true
}

// templateToPermit returns the template of an owner that must allow the namespace of the owner; nil if there is none. What is adopted has its
// permission, or had it: a user removed it.
func (f *fleet) templateToPermit(o *owner) *infrav1.WorkspaceTemplate {
	if len(o.steps) == 0 || o.live == nil || o.alreadyAdopted {
		return nil
	}
	return f.unpermitted(o)
}

// unpermitted returns the template of an owner if that does not allow the namespace of the owner; else nil. A pinned template is the owner's own.
func (f *fleet) unpermitted(o *owner) *infrav1.WorkspaceTemplate {
	template := f.templates[o.apply.TemplateKey()]
	if o.pinned != nil || template == nil || f.permits(template, o.apply.Namespace) {
		return nil
	}
	return template
}

// tooManyNamespaces blocks the owners that use a template if the plan would have to allow more namespaces than it can list.
func (f *fleet) tooManyNamespaces() (findings []migrate.Finding) {
	users := map[*infrav1.WorkspaceTemplate][]*owner{}
	for _, o := range f.ownersInScope() {
		if template := f.templateToPermit(o); template != nil {
			users[template] = append(users[template], o)
		}
	}
	for i := range f.Templates {
		template := &f.Templates[i]
		names := sets.New(template.Spec.AllowedNamespaces.Names...)
		finding := migrate.Finding{Severity: migrate.Blocked, Reason: ReasonTooManyNamespaces, Object: migrate.Ref(kindTemplate, template)}
		for _, o := range users[template] {
			names.Insert(o.apply.Namespace)
			finding.AlsoAbout = append(finding.AlsoAbout, o.Object)
		}
		if len(finding.AlsoAbout) == 0 || names.Len() <= maxAllowedNamespaces {
			continue
		}
		for _, o := range users[template] {
			o.State = migrate.OwnerBlocked
		}
		finding.Message = fmt.Sprintf("%d namespaces use it, and spec.allowedNamespaces.names can hold %d. Once this version is installed, allow them with spec.allowedNamespaces.selector, or \"*\", and plan again",
			names.Len(), maxAllowedNamespaces)
		findings = append(findings, finding)
	}
	return findings
}

// grantedPermissions warns of the templates that the plan allows for other namespaces.
func grantedPermissions(units []plan.Unit) (findings []migrate.Finding) {
	namespaces := map[migrate.ObjectRef][]string{}
	for i := range units {
		for _, step := range units[i].Steps {
			if step.Object.Kind == kindTemplate && step.Create == nil {
				namespaces[step.Object] = append(namespaces[step.Object], units[i].Object.Namespace)
			}
		}
	}
	for template, users := range namespaces {
		findings = append(findings, warning(ReasonPermissionGranted, template,
			"CAPT v0.3 used it from other namespaces, or a decision permits that, and the plan adds them to spec.allowedNamespaces: %s", abbreviated(sets.List(sets.New(users...)))))
	}
	slices.SortFunc(findings, func(a, b migrate.Finding) int { return strings.Compare(a.Object.String(), b.Object.String()) })
	return findings
}

func abbreviated(names []string) string { return naming.List(names, 10) }

// Recheck plans one unit again from a fresh snapshot, right before it is written. The new plan must have exactly the writes that are still missing. Each
// owner must pass the render gate, even if an interrupted apply has adopted it. The error is what changed since the plan was created.
func Recheck(s *migrate.Snapshot, decisions *migrate.Decisions, unit *plan.Unit) error {
	mustPassGate := map[types.UID]bool{}
	for i := range unit.Members {
		member := &unit.Members[i]
		mustPassGate[member.Object.UID] = member.State == migrate.Adoptable && member.Workspace != nil
	}
	current, err := newPlan(s, decisionsAbout(unit, decisions), mustPassGate)
	if err != nil {
		return fmt.Errorf("%s changed since the plan was created: %w. Create a new plan", unit.Name(), err)
	}
	if err := firstUndecided(current.FindingsOf(unit)); err != nil {
		return err
	}
	var steps []plan.Step
	for i := range current.Units {
		steps = append(steps, current.Units[i].Steps...)
	}
	planned := writesOf(steps)
	for _, write := range planned {
		if !slices.Contains(writesOf(unit.Steps), write) {
			return write.changedError("would now also")
		}
	}
	missing, err := missingWrites(s, unit.Steps)
	for _, write := range missing {
		if !slices.Contains(planned, write) {
			return write.changedError("would no longer")
		}
	}
	return err
}

// firstUndecided returns the first finding that prevents an adoption, as an error; nil if there is none.
func firstUndecided(findings []migrate.Finding) error {
	for _, finding := range findings {
		switch {
		case finding.Reason == ReasonWorkspaceDiffers && finding.Undecided(): // It names the object that changed.
			return fmt.Errorf("%s. captctl migrate check -n %s shows the differences. Create a new plan", finding.Message, finding.Object.Namespace)
		case finding.Undecided():
			return fmt.Errorf("%s changed since the plan was created (%s): %s", finding.Object, finding.Reason, finding.Message)
		}
	}
	return nil
}

// write is a field that a step writes, in a form that can be compared.
type write struct {
	object                   migrate.ObjectRef
	subresource, path, after string // All are empty for an object that is created.
}

func writesOf(steps []plan.Step) (writes []write) {
	for _, step := range steps {
		if step.Create != nil {
			writes = append(writes, write{object: step.Object})
		}
		for _, field := range step.Fields {
			writes = append(writes, write{step.Object, step.Subresource, field.Path, string(field.After)})
		}
	}
	return writes
}

// changedError returns the error that the adoption of the object would differ from the plan: verb is "would now also" or "would no longer".
func (w write) changedError(verb string) error {
	what := "write " + w.path
	if w.path == "" {
		what = "create it"
	}
	return fmt.Errorf("%s changed since the plan was created: its adoption %s %s. Create a new plan", w.object, verb, what)
}

// missingWrites returns the writes of steps that are not done.
func missingWrites(s *migrate.Snapshot, steps []plan.Step) (missing []write, err error) {
	for _, step := range steps {
		live, err := contentOf(s, step.Object)
		if step.Create != nil && live != nil {
			step.Create = nil
		}
		step.Fields = slices.DeleteFunc(slices.Clone(step.Fields), func(field plan.Field) bool {
			state, stateErr := field.State(live)
			err = cmp.Or(err, stateErr)
			return state == plan.Applied
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Object, err)
		}
		missing = append(missing, writesOf([]plan.Step{step})...)
	}
	return missing, nil
}

// Written counts the steps whose fields all have the planned values in a snapshot. A field that cannot be compared does not count.
func Written(s *migrate.Snapshot, steps []plan.Step) (written int) {
	for i := range steps {
		if missing, err := missingWrites(s, steps[i:i+1]); err == nil && len(missing) == 0 {
			written++
		}
	}
	return written
}

func contentOf(s *migrate.Snapshot, ref migrate.ObjectRef) (map[string]any, error) {
	objects := map[string][]client.Object{
		kindCAPTCluster: migrate.Objects(s.CAPTClusters), kindControlPlane: migrate.Objects(s.ControlPlanes),
		kindApply: migrate.Objects(s.Applies), kindTemplate: migrate.Objects(s.Templates), "Cluster": migrate.Objects(s.Clusters),
	}
	for _, object := range objects[ref.Kind] {
		if object.GetNamespace() == ref.Namespace && object.GetName() == ref.Name {
			return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		}
	}
	return nil, nil
}

// decisionsAbout returns decisions that reproduce the matches of a unit. Its objects may be written in part, and objects that conflict with them
// are not in the snapshot, so the evidence alone may give other matches.
func decisionsAbout(unit *plan.Unit, decisions *migrate.Decisions) *migrate.Decisions {
	made, about := byUID(decisions), &migrate.Decisions{}
	for _, member := range unit.Members {
		owner := made.owners[member.Object.UID]
		owner.UID = member.Object.UID
		switch apply := member.WorkspaceTemplateApply; {
		case member.State != migrate.Adoptable && member.State != migrate.Adopted:
			owner = migrate.OwnerDecision{UID: owner.UID, Skip: true}
		case apply != nil && apply.UID != owner.UID:
			owner.Take = apply.UID
		}
		about.Owners = append(about.Owners, owner)
		if member.Workspace == nil || owner.Skip {
			continue
		}
		if workspace, decided := made.workspaces[member.Workspace.UID]; decided {
			about.Workspaces = append(about.Workspaces, workspace)
		}
	}
	return about
}
