// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
)

// Options say what to plan.
type Options struct {
	Scope     migrate.Scope
	Decisions *migrate.Decisions
	Now       time.Time
	// Lifetime is how long the plan may be carried out.
	Lifetime time.Duration
}

// New plans the adoption of a fleet. It is pure: the same snapshot and options give the same plan. The plan is one-to-one
// between owners, WorkspaceTemplateApplies and Workspaces; what is not clear is a finding, and not planned.
func New(s *migrate.Snapshot, options Options) (*migrate.Plan, error) {
	f := newFleet(s, options.Decisions)
	if err := f.unknownDecisions(); err != nil {
		return nil, err
	}
	plan := &migrate.Plan{
		ClusterUID: s.ClusterUID, Created: metav1.NewTime(options.Now), Expires: metav1.NewTime(options.Now.Add(options.Lifetime)),
		Scope: options.Scope, Namespace: s.Namespace,
	}
	if options.Scope != migrate.ScopeStorage {
		if err := f.planAdoption(plan); err != nil {
			return nil, err
		}
	}
	if options.Scope != migrate.ScopeAdopt {
		plan.Storage = f.storage()
	}
	baseline, err := f.baseline()
	if err != nil {
		return nil, err
	}
	plan.Baseline = baseline
	if plan.Baseline.Premises, err = f.premises(plan); err != nil {
		return nil, err
	}
	return plan, plan.Seal()
}

func (f *fleet) planAdoption(plan *migrate.Plan) error {
	if err := f.resolve(); err != nil {
		return err
	}
	grants, findings, err := f.grantSteps()
	if err != nil {
		return err
	}
	plan.Grants = grants
	for _, o := range f.sorted() {
		plan.Findings = append(plan.Findings, o.findings...)
		if len(o.steps) > 0 {
			plan.Units = append(plan.Units, migrate.Unit{
				Owner: o.Owner, Cluster: o.Cluster, WorkspaceTemplateApply: o.WorkspaceTemplateApply, Workspace: o.Workspace,
				Evidence: o.Evidence, Steps: o.steps,
			})
		}
	}
	pending, _ := f.pending()
	plan.Findings = slices.Concat(conflicts(plan.Findings), findings, f.endpoints(), f.olderTemplates(), pending)
	return nil
}

// Inspect reports what there is, without decisions.
func Inspect(s *migrate.Snapshot) (*migrate.Inspection, error) {
	f := newFleet(s, nil)
	if err := f.resolve(); err != nil {
		return nil, err
	}
	inspection := &migrate.Inspection{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Inspection"}, ClusterUID: s.ClusterUID,
		Taken: metav1.NewTime(s.Taken), Namespace: s.Namespace, Counts: map[migrate.OwnerState]int{}, Owners: []migrate.OwnerReport{},
	}
	for _, o := range f.sorted() {
		inspection.Counts[o.State]++
		inspection.Owners = append(inspection.Owners, o.OwnerReport)
		inspection.Findings = append(inspection.Findings, o.findings...)
	}
	_, findings, err := f.grantSteps()
	if err != nil {
		return nil, err
	}
	pending, _ := f.pending()
	for i := range pending {
		if pending[i].Reason == ReasonPendingChange {
			inspection.PendingChanges++
		}
	}
	inspection.Findings = slices.Concat(conflicts(inspection.Findings), findings, f.endpoints(), f.olderTemplates(), pending)
	return inspection, nil
}

// unknownDecisions refuses decisions about objects that do not exist.
func (f *fleet) unknownDecisions() error {
	there := map[types.UID]bool{}
	for uid := range f.Raw {
		there[uid] = true
	}
	for _, workspace := range f.workspaces {
		there[workspace.GetUID()] = true
	}
	for uid, decision := range f.decided.owners {
		if !there[uid] || decision.Take != "" && !there[decision.Take] {
			return fmt.Errorf("decision about owner %s: no object has this UID, or the one of take", uid)
		}
	}
	for uid, decision := range f.decided.workspaces {
		if !there[uid] || !there[decision.BelongsTo] {
			return fmt.Errorf("decision about Workspace %s: no object has this UID, or the one of belongsTo", uid)
		}
	}
	return nil
}

// endpoints reports Clusters whose endpoint is the URL that CAPT v0.3 wrote. CAPT writes no Cluster, and neither does captctl.
func (f *fleet) endpoints() (findings []migrate.Finding) {
	for i := range f.Clusters {
		cluster := &f.Clusters[i]
		stored := cluster.Spec.ControlPlaneEndpoint
		if !f.inScope(cluster) || !strings.Contains(stored.Host, "://") || cluster.Spec.ControlPlaneRef.Kind != kindControlPlane {
			continue
		}
		repaired := validation.Endpoint(stored)
		patch := fmt.Sprintf("\"host\":%q", repaired.Host)
		if repaired.Port != stored.Port {
			patch += fmt.Sprintf(",\"port\":%d", repaired.Port)
		}
		ref := migrate.ObjectRef{Group: "cluster.x-k8s.io", Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name, UID: cluster.UID}
		findings = append(findings, migrate.Finding{Severity: migrate.Warning, Reason: ReasonClusterEndpoint, Object: ref, Message: fmt.Sprintf(
			"its spec.controlPlaneEndpoint.host is %s: clients cannot connect to a URL. Remove the scheme with kubectl -n %s patch cluster %s --type=merge -p '{\"spec\":{\"controlPlaneEndpoint\":{%s}}}'",
			stored.Host, cluster.Namespace, cluster.Name, patch)})
	}
	return findings
}

// olderTemplates reports the objects of the kind that CAPT v0.3 spelled differently, all at once: their definition goes as a whole.
func (f *fleet) olderTemplates() (findings []migrate.Finding) {
	for i := range f.OlderTemplates {
		object := &f.OlderTemplates[i]
		ref := migrate.ObjectRef{
			Group: object.GroupVersionKind().Group, Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		}
		if !f.inScope(object) {
			continue
		}
		if len(findings) > 0 {
			findings[0].AlsoAbout = append(findings[0].AlsoAbout, ref)
			continue
		}
		definition := migrate.OlderTemplateDefinition
		findings = []migrate.Finding{{Severity: migrate.Warning, Reason: ReasonOlderTemplate, Object: ref, Message: fmt.Sprintf(
			"Cluster API could never use this kind, and the spelling of a kind cannot be changed in place. Export the objects and delete the definition before this version is installed:\nkubectl get %s --all-namespaces -o yaml > captcontrolplanetemplates.yaml\nkubectl delete crd %s",
			definition, definition)}}
	}
	return findings
}

// storage lists the objects in scope that still speak of an older version, in the order of Kinds. Which bytes are stored can not be
// read; that is what finalize proves.
func (f *fleet) storage() []migrate.StorageItem {
	var items []migrate.StorageItem
	for _, kind := range migrate.Kinds() {
		for _, object := range f.objects(kind.Kind) {
			if !f.inScope(object) || !f.Older[object.GetUID()] {
				continue
			}
			item := migrate.StorageItem{ObjectRef: migrate.Ref(kind.Kind, object)}
			for _, ref := range object.GetOwnerReferences() {
				if migrate.IsOlder(ref.APIVersion) {
					item.OwnerReferences = object.GetOwnerReferences()
				}
			}
			items = append(items, item)
		}
	}
	return items
}

func (f *fleet) objects(kind string) (found []metav1.Object) {
	switch kind {
	case kindTemplate:
		return objectsOf(f.Templates)
	case "CAPTClusterTemplate":
		return objectsOf(f.ClusterTemplates)
	case "CAPTControlPlaneTemplate":
		return objectsOf(f.ControlPlaneTemplates)
	case kindApply:
		return objectsOf(f.Applies)
	case kindCAPTCluster:
		return objectsOf(f.CAPTClusters)
	}
	return objectsOf(f.ControlPlanes)
}

func objectsOf[T any, P interface {
	*T
	metav1.Object
}](list []T) []metav1.Object {
	found := make([]metav1.Object, len(list))
	for i := range list {
		found[i] = P(&list[i])
	}
	return found
}

// baseline is what must stay: the Workspaces of WorkspaceTemplateApplies in scope, whether planned or not, and these themselves.
func (f *fleet) baseline() (migrate.Baseline, error) {
	var baseline migrate.Baseline
	taken := map[types.UID]bool{}
	for i := range f.Applies {
		apply := &f.Applies[i]
		if !f.inScope(apply) {
			continue
		}
		baseline.WorkspaceTemplateApplies = append(baseline.WorkspaceTemplateApplies, migrate.Ref(kindApply, apply))
		live := f.workspaces[f.workspaceKey(apply)]
		if live == nil || taken[live.GetUID()] {
			continue
		}
		taken[live.GetUID()] = true
		item, err := baselineOf(live)
		if err != nil {
			return baseline, err
		}
		baseline.Workspaces = append(baseline.Workspaces, item)
	}
	return baseline, nil
}

func baselineOf(live *unstructured.Unstructured) (migrate.BaselineItem, error) {
	hash, err := migrate.WorkspaceHash(live)
	return migrate.BaselineItem{ObjectRef: *workspaceRef(live), Generation: live.GetGeneration(), Hash: hash}, err
}

// listed is a list for people, which may be long.
func listed(names []string) string {
	const shown = 10
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
