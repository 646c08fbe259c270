// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner decides what a migration writes. It is pure: a snapshot and decisions in, a plan out. Evidence says what belongs to
// what (fleet), doubts become findings (resolve, workspace), what would make Terraform run is blocked (gate), and the rest becomes
// fields to write (steps).
package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Options say what to plan.
type Options struct {
	Decisions *migrate.Decisions
	Now       time.Time
	// gated are the owners that must pass the render gate also if they are adopted, since an interrupted apply may have adopted them, and if
	// they are helpers.
	gated map[types.UID]bool
}

// New plans the adoption of a fleet. It is pure: the same snapshot and options give the same plan. The plan is one-to-one between owners,
// WorkspaceTemplateApplies and Workspaces; what is not clear is a finding, and its unit has no steps.
func New(s *migrate.Snapshot, options Options) (*plan.Plan, error) {
	f := newFleet(s, options)
	if err := f.unknownDecisions(); err != nil {
		return nil, err
	}
	if err := f.resolve(); err != nil {
		return nil, err
	}
	tooMany := f.tooManyNamespaces()
	p := &plan.Plan{ClusterUID: s.ClusterUID, Created: metav1.NewTime(options.Now), Namespace: s.Namespace, Decisions: options.Decisions}
	var owners []migrate.Finding
	for _, group := range f.groups() {
		unit, err := f.unit(group)
		if err != nil {
			return nil, err
		}
		p.Units = append(p.Units, unit)
		for _, o := range group {
			owners = append(owners, o.findings...)
		}
	}
	slices.SortFunc(p.Units, func(a, b plan.Unit) int { return strings.Compare(a.Name(), b.Name()) })
	p.Findings = slices.Concat(conflicts(owners), tooMany, sharedTemplates(p.Units), f.endpoints(), f.olderTemplates(), f.pending())
	return p, p.Seal()
}

// groups are the owners of each Cluster, and each WorkspaceTemplateApply that belongs to none.
func (f *fleet) groups() (groups [][]*owner) {
	for _, o := range f.sorted() {
		last := len(groups) - 1
		if last >= 0 && o.cluster != "" && groups[last][0].cluster == o.cluster && groups[last][0].Object.Namespace == o.Object.Namespace {
			groups[last] = append(groups[last], o)
			continue
		}
		groups = append(groups, []*owner{o})
	}
	return groups
}

// unit of owners that are adopted together. Only one that is adoptable as a whole has steps.
func (f *fleet) unit(owners []*owner) (plan.Unit, error) {
	unit := plan.Unit{Object: owners[0].Object, State: stateOf(owners)}
	if name := owners[0].cluster; name != "" {
		unit.Object = migrate.ObjectRef{Group: clusterv1.GroupVersion.Group, Kind: "Cluster", Namespace: unit.Object.Namespace, Name: name}
	}
	if cluster := f.clusters[types.NamespacedName{Namespace: unit.Object.Namespace, Name: owners[0].cluster}]; cluster != nil {
		unit.Object.UID = cluster.UID
		if hasControlPlane(cluster) && (unit.State == plan.Adoptable || unit.State == plan.Adopted) {
			unit.Endpoint = endpointStep(unit.Object, cluster.Spec.ControlPlaneEndpoint)
		}
	}
	for _, o := range owners {
		unit.Members = append(unit.Members, o.Member)
		if unit.State != plan.Adoptable {
			continue
		}
		if len(o.steps) > 0 {
			unit.Steps = append(append(unit.Steps, f.permission(unit.Steps, o)...), o.steps...)
		}
		live := f.unchanged(o)
		if live == nil {
			continue
		}
		hash, err := migrate.WorkspaceHash(live)
		if err != nil {
			return unit, err
		}
		unit.Workspaces = append(unit.Workspaces, migrate.BaselineItem{ObjectRef: migrate.RefOf(live), Generation: live.GetGeneration(), Hash: hash})
	}
	return unit, nil
}

// unchanged is the Workspace of an owner, which the adoption of its unit must not change, whether it is adopted now, before or not at all. One
// that several WorkspaceTemplateApplies refer to may belong to another unit, and one that is being deleted changes.
func (f *fleet) unchanged(o *owner) *unstructured.Unstructured {
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

// stateOf the unit of some owners. A blocked or ambiguous owner decides for all: adopted in part, a unit would be run by two managers' rules.
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

// endpointStep repairs an endpoint that CAPT v0.3 wrote as a URL; nil if there is nothing to repair.
func endpointStep(cluster migrate.ObjectRef, stored clusterv1.APIEndpoint) *plan.Step {
	var c change
	repaired := owners.Endpoint(stored)
	if repaired.Host == "" {
		return nil
	}
	c.replace("/spec/controlPlaneEndpoint/host", stored.Host, repaired.Host)
	if stored.Port == 0 { // The API server does not store it.
		c.add("/spec/controlPlaneEndpoint/port", repaired.Port)
	} else {
		c.replace("/spec/controlPlaneEndpoint/port", stored.Port, repaired.Port)
	}
	if len(c) == 0 {
		return nil
	}
	return &plan.Step{Object: cluster, Why: "the host of an endpoint has no scheme", Fields: c}
}

// unknownDecisions refuses decisions about objects that do not exist.
func (f *fleet) unknownDecisions() error {
	exists := map[types.UID]bool{}
	for _, list := range [][]client.Object{objectsOf(f.CAPTClusters), objectsOf(f.ControlPlanes), objectsOf(f.Applies)} {
		for _, object := range list {
			exists[object.GetUID()] = true
		}
	}
	for _, workspace := range f.workspaces {
		exists[workspace.GetUID()] = true
	}
	for uid, decision := range f.decided.owners {
		if !exists[uid] || decision.Take != "" && !exists[decision.Take] {
			return fmt.Errorf("decision about owner %s: no object has this UID, or the one of take", uid)
		}
	}
	for uid, decision := range f.decided.workspaces {
		if !exists[uid] || !exists[decision.BelongsTo] {
			return fmt.Errorf("decision about Workspace %s: no object has this UID, or the one of belongsTo", uid)
		}
	}
	return nil
}

func objectsOf[T any, P interface {
	*T
	client.Object
}](list []T) []client.Object {
	found := make([]client.Object, len(list))
	for i := range list {
		found[i] = P(&list[i])
	}
	return found
}

// change is the fields that a step writes.
type change []plan.Field

// add writes a field that does not exist.
func (c *change) add(path string, value any) {
	*c = append(*c, plan.Field{Path: path, After: encode(value)})
}

// replace writes a field that has another value.
func (c *change) replace(path string, before, after any) {
	field := plan.Field{Path: path, Before: encode(before), After: encode(after)}
	if !bytes.Equal(field.Before, field.After) {
		*c = append(*c, field)
	}
}

// own adds an owner reference, or replaces the one with the same UID: the API server rejects two of one UID.
func (c *change) own(object metav1.Object, owner metav1.OwnerReference) {
	field := plan.Field{Path: "/metadata/ownerReferences", Element: true, Key: "uid", After: encode(owner)}
	for _, before := range object.GetOwnerReferences() {
		if before.UID == owner.UID {
			field.Before = encode(before)
		}
	}
	*c = append(*c, field)
}

func encode(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // Strings, numbers and API types can be encoded.
	}
	return data
}

// step returns the step of a change; none if nothing changes.
func step(kind string, object client.Object, subresource, why string, c change) []plan.Step {
	if len(c) == 0 {
		return nil
	}
	return []plan.Step{{Object: migrate.Ref(kind, object), Subresource: subresource, Why: why, Fields: c}}
}
