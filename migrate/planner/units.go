// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Units returns a plan with one unit per Cluster.
func Units(s *migrate.Snapshot, options Options) (*plan.Plan, error) {
	options.Scope = migrate.ScopeAdopt
	byOwner, err := New(s, options)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{
		ClusterUID: byOwner.ClusterUID, Created: byOwner.Created, Namespace: byOwner.Namespace, Decisions: options.Decisions, Findings: byOwner.Findings,
	}
	g := grouping{Snapshot: s, byOwner: byOwner, units: map[string]*plan.Unit{}}
	for i := range byOwner.Units {
		if err := g.add(&byOwner.Units[i]); err != nil {
			return nil, err
		}
	}
	for _, unit := range g.units {
		p.Units = append(p.Units, *unit)
	}
	slices.SortFunc(p.Units, func(a, b plan.Unit) int { return strings.Compare(a.Name(), b.Name()) })
	return p, p.Seal()
}

// grouping collects the owners of each Cluster in one unit.
type grouping struct {
	*migrate.Snapshot
	byOwner *migrate.Plan
	units   map[string]*plan.Unit
}

func (g *grouping) add(owner *migrate.Unit) error {
	unit, err := g.unit(owner)
	if err != nil {
		return err
	}
	unit.Members = append(unit.Members, plan.Member{
		Object: owner.Owner, WorkspaceTemplateApply: owner.WorkspaceTemplateApply, Workspace: owner.Workspace, Evidence: owner.Evidence,
	})
	for _, item := range g.byOwner.Baseline.Workspaces {
		if owner.Workspace != nil && item.UID == owner.Workspace.UID {
			unit.Workspaces = append(unit.Workspaces, item)
		}
	}
	if err := g.permissions(unit, owner); err != nil {
		return err
	}
	for i := range owner.Steps {
		fields, err := fieldsOfPatch(&owner.Steps[i])
		if err != nil {
			return err
		}
		step := plan.Step{Object: owner.Steps[i].Object, Subresource: owner.Steps[i].Subresource, Why: owner.Steps[i].Why, Fields: fields}
		if document := owner.Steps[i].Create; document != nil {
			if err := json.Unmarshal(document, &step.Create); err != nil {
				return fmt.Errorf("%s: %w", step.Object, err)
			}
		}
		unit.Steps = append(unit.Steps, step)
	}
	return nil
}

// unit of an owner: that of its Cluster, if it belongs to one.
func (g *grouping) unit(owner *migrate.Unit) (*plan.Unit, error) {
	object, key := owner.Owner, owner.Owner.String()
	if owner.Cluster != "" {
		object = migrate.ObjectRef{Group: clusterv1.GroupVersion.Group, Kind: "Cluster", Namespace: owner.Owner.Namespace, Name: owner.Cluster}
		key = object.String()
	}
	if known := g.units[key]; known != nil {
		return known, nil
	}
	unit := &plan.Unit{Object: object}
	g.units[key] = unit
	for i := range g.Clusters {
		cluster := &g.Clusters[i]
		if owner.Cluster == "" || cluster.Namespace != object.Namespace || cluster.Name != object.Name {
			continue
		}
		unit.Object.UID = cluster.UID
		endpoint, err := endpointStep(unit.Object, cluster.Spec.ControlPlaneEndpoint)
		if err != nil {
			return nil, err
		}
		unit.Endpoint = endpoint
	}
	return unit, nil
}

// endpointStep repairs an endpoint that CAPT v0.3 wrote as a URL; nil if there is nothing to repair.
func endpointStep(cluster migrate.ObjectRef, stored clusterv1.APIEndpoint) (*plan.Step, error) {
	repaired := validation.Endpoint(stored)
	if repaired.Host == "" || repaired == stored {
		return nil, nil
	}
	step := &plan.Step{Object: cluster, Why: "the host of an endpoint has no scheme"}
	for _, field := range []struct {
		path          string
		before, after any
	}{{"/spec/controlPlaneEndpoint/host", stored.Host, repaired.Host}, {"/spec/controlPlaneEndpoint/port", stored.Port, repaired.Port}} {
		if field.before == field.after {
			continue
		}
		before, err := json.Marshal(field.before)
		if err != nil {
			return nil, err
		}
		if field.before == int32(0) {
			before = nil // The API server does not store it.
		}
		after, err := json.Marshal(field.after)
		if err != nil {
			return nil, err
		}
		step.Fields = append(step.Fields, plan.Field{Path: field.path, Before: before, After: after})
	}
	return step, nil
}

// permissions let the namespace of a unit use the templates that it has used all along.
func (g *grouping) permissions(unit *plan.Unit, owner *migrate.Unit) error {
	template := g.templateOf(owner)
	for i := range g.byOwner.Grants {
		grant := &g.byOwner.Grants[i]
		known := slices.ContainsFunc(unit.Steps, func(step plan.Step) bool { return step.Object == grant.Object })
		if known || grant.Object.Namespace != template.Namespace || grant.Object.Name != template.Name || !grants(grant, owner.Owner.Namespace) {
			continue
		}
		after, err := json.Marshal(owner.Owner.Namespace)
		if err != nil {
			return err
		}
		unit.Steps = append(unit.Steps, plan.Step{
			Object: grant.Object, Why: "namespace " + owner.Owner.Namespace + " may go on using the template",
			Fields: []plan.Field{{Path: "/spec/allowedNamespaces/names", Element: true, After: after}},
		})
	}
	return nil
}

// grants reports whether a step adds a namespace to those that may use a template.
func grants(step *migrate.Step, namespace string) bool {
	for _, operation := range step.Patch {
		var allowed struct {
			Names []string `json:"names"`
		}
		if json.Unmarshal(operation.Value, &allowed) != nil {
			_ = json.Unmarshal(operation.Value, &allowed.Names) // It is the list, or another field.
		}
		if slices.Contains(allowed.Names, namespace) {
			return operation.Op != "test" // What is tested was there before.
		}
	}
	return false
}

func (g *grouping) templateOf(owner *migrate.Unit) types.NamespacedName {
	for i := range g.Applies {
		if owner.WorkspaceTemplateApply != nil && g.Applies[i].UID == owner.WorkspaceTemplateApply.UID {
			return g.Applies[i].TemplateKey()
		}
	}
	return types.NamespacedName{}
}

// fieldsOfPatch returns the fields that a JSON patch writes.
func fieldsOfPatch(step *migrate.Step) (fields []plan.Field, err error) {
	var before json.RawMessage
	for _, operation := range step.Patch {
		field := plan.Field{Path: operation.Path, Before: before, After: operation.Value}
		before = nil
		const owners = "/metadata/ownerReferences"
		switch {
		case operation.Op == "test":
			before = operation.Value
			continue
		case operation.Path == "/status":
			var status struct {
				WorkspaceName string                      `json:"workspaceName"`
				WorkspaceRef  *infrav1.WorkspaceReference `json:"workspaceRef"`
			}
			if err := json.Unmarshal(operation.Value, &status); err != nil {
				return nil, fmt.Errorf("%s: %w", step.Object, err)
			}
			name, _ := json.Marshal(status.WorkspaceName)
			ref, err := json.Marshal(status.WorkspaceRef)
			if err != nil {
				return nil, err
			}
			fields = append(fields, plan.Field{Path: "/status/workspaceName", After: name}, plan.Field{Path: "/status/workspaceRef", After: ref})
			continue
		case operation.Path == owners:
			var references []json.RawMessage
			if err := json.Unmarshal(operation.Value, &references); err != nil {
				return nil, fmt.Errorf("%s: %w", step.Object, err)
			}
			field.After, field.Element, field.Key = references[0], true, "uid"
		case strings.HasPrefix(operation.Path, owners):
			field.Path, field.Element, field.Key = owners, true, "uid"
		}
		fields = append(fields, field)
	}
	return fields, nil
}
