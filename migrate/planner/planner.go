// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner creates a plan from a snapshot and the decisions of the user. It sends no requests. The files are in this order: fleet.go
// matches owners with their WorkspaceTemplateApplies by evidence, resolve.go and workspace.go report what the evidence does not decide,
// gate.go blocks what would make Terraform run, steps.go lists the fields to write, and recheck.go repeats all of it for one unit.
//
// Functions named check… report what prevents the adoption of an owner: they set its state, add a finding, and return true.
package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Options say what to plan.
type Options struct {
	Decisions *migrate.Decisions
	Now       time.Time
	// mustPassGate are owners that must pass the render gate even if they are helpers, or adopted: an interrupted apply may have done that.
	mustPassGate map[types.UID]bool
}

// New plans the adoption of a fleet. It is pure: the same snapshot and options give the same plan. The plan assigns each owner at most one
// WorkspaceTemplateApply, and each of those at most one Workspace. What the evidence does not decide is a finding, and its unit has no steps.
func New(s *migrate.Snapshot, options Options) (*plan.Plan, error) {
	f := newFleet(s, options)
	decisions := ptr.Deref(options.Decisions, migrate.Decisions{})
	if err := f.unknownDecisions(decisions); err != nil {
		return nil, err
	}
	f.resolve()
	tooMany := f.tooManyNamespaces()
	p := &plan.Plan{ClusterUID: s.ClusterUID, Created: metav1.NewTime(options.Now), Namespace: s.Namespace, Decisions: options.Decisions}
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
	p.Findings = slices.Concat(mergeConflicts(owners), f.unusedDecisions(decisions), tooMany, grantedPermissions(p.Units), f.invalidEndpoints(), f.pendingChanges())
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
	f := newFleet(s, Options{})
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
