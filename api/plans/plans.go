// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package plans has the rules of PlanRequests: which WorkspaceTemplateApplies they are about, which one is next, and what their results are.
package plans

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
)

// Index finds the PlanRequests about a WorkspaceTemplateApply, by KeysFor.
const Index = "spec.covers"

// KeysOf returns the keys of a PlanRequest in Index.
func KeysOf(r *infrav1.PlanRequest) (keys []string) {
	switch template := r.TemplateKey(); {
	case template.Name != "":
		keys = append(keys, templateKey(template))
	case r.Spec.Scope == infrav1.PlanScopeNamespace:
		keys = append(keys, namespaceKey(r.Namespace))
	default:
		for _, name := range r.Spec.WorkspaceTemplateApplies {
			keys = append(keys, applyKey(types.NamespacedName{Namespace: r.Namespace, Name: name}))
		}
	}
	return keys
}

// KeysFor returns the keys of all PlanRequests about a WorkspaceTemplateApply. Those with a content are in the namespace of its template.
func KeysFor(apply *infrav1.WorkspaceTemplateApply) []string {
	return []string{applyKey(naming.KeyOf(apply)), namespaceKey(apply.Namespace), templateKey(apply.TemplateKey())}
}

func applyKey(apply types.NamespacedName) string       { return "apply/" + apply.String() }
func namespaceKey(namespace string) string             { return "namespace/" + namespace }
func templateKey(template types.NamespacedName) string { return "template/" + template.String() }

// MaxPlans is how many plans a WorkspaceTemplateApply keeps.
const MaxPlans = 4

// Of returns the plan of a WorkspaceTemplateApply for a PlanRequest; nil before there is one.
func Of(apply *infrav1.WorkspaceTemplateApply, request types.UID) *infrav1.RevisionPreview {
	for i := range apply.Status.Plans {
		if apply.Status.Plans[i].RequestUID == request {
			return &apply.Status.Plans[i].Plan
		}
	}
	return nil
}

// isOpen reports whether a PlanRequest still gets plans.
func isOpen(r *infrav1.PlanRequest) bool { return !r.IsComplete() && r.DeletionTimestamp.IsZero() }

// Next returns the PlanRequest that a WorkspaceTemplateApply is planned for, of those about it; nil if there is none. The oldest comes first. While as many have
// a plan as are kept, the others wait until one of them is complete.
func Next(requests []infrav1.PlanRequest, apply *infrav1.WorkspaceTemplateApply) (next *infrav1.PlanRequest) {
	kept := 0
	for i := range requests {
		switch r := &requests[i]; {
		case !isOpen(r):
		case Of(apply, r.UID) != nil:
			kept++
		case next == nil || r.IsOlder(next):
			next = r
		}
	}
	if kept >= MaxPlans {
		return nil
	}
	return next
}

// Record adds a plan to the status of a WorkspaceTemplateApply. Those of open requests stay, and the newest others.
func Record(apply *infrav1.WorkspaceTemplateApply, requests []infrav1.PlanRequest, request *infrav1.PlanRequest, plan *infrav1.RevisionPreview) {
	open := map[types.UID]bool{}
	for i := range requests {
		open[requests[i].UID] = isOpen(&requests[i])
	}
	kept := []infrav1.RequestedPlan{{RequestUID: request.UID, RequestName: request.Name, Plan: *plan}}
	for _, isKept := range []bool{true, false} {
		for _, other := range apply.Status.Plans {
			if open[other.RequestUID] == isKept && other.RequestUID != request.UID {
				kept = append(kept, other)
			}
		}
	}
	apply.Status.Plans = kept[:min(len(kept), MaxPlans)]
}

// Progress is how far a PlanRequest has come. The lists have namespace/name.
type Progress struct {
	Total, Planned           int
	Changed, Unknown, Failed []string
	// Unavailable are those that cannot be planned, and why; Pending those without a result.
	Unavailable, Pending []string
}

// Add adds a WorkspaceTemplateApply. blocked is why its manager does not reconcile it; empty if it does.
func (p *Progress) Add(request *infrav1.PlanRequest, apply *infrav1.WorkspaceTemplateApply, blocked string) {
	p.Total++
	name, plan := naming.KeyOf(apply).String(), Of(apply, request.UID)
	if plan == nil {
		if why := notPlanned(apply, blocked); why != "" {
			p.unavailable(request, apply.Namespace, name, why)
			return
		}
		p.Pending = append(p.Pending, name)
		return
	}
	switch plan.Result {
	case infrav1.PreviewEmpty:
		p.Planned++
	case infrav1.PreviewChanges:
		p.Planned++
		p.Changed = append(p.Changed, name)
		if plan.Changes == nil || plan.Changes.Unknown != "" {
			p.Unknown = append(p.Unknown, name)
		}
	case infrav1.PreviewFailed:
		p.Failed = append(p.Failed, name)
	case infrav1.PreviewUnavailable:
		p.unavailable(request, apply.Namespace, name, plan.Message)
	}
}

// AddMissing adds the name of a WorkspaceTemplateApply that does not exist.
func (p *Progress) AddMissing(request *infrav1.PlanRequest, name string) {
	p.Total++
	p.unavailable(request, request.Namespace, request.Namespace+"/"+name, "does not exist")
}

// Expire ends the wait for those without a result.
func (p *Progress) Expire(request *infrav1.PlanRequest) {
	for _, name := range p.Pending {
		p.unavailable(request, request.Namespace, name, "has no result in time")
	}
	p.Pending = nil
}

// unavailable adds the reason only for an object of the namespace: it can name objects.
func (p *Progress) unavailable(request *infrav1.PlanRequest, namespace, name, why string) {
	if namespace == request.Namespace {
		name += " (" + strings.TrimRight(why, ".") + ")"
	}
	p.Unavailable = append(p.Unavailable, name)
}

// notPlanned returns why the reconcile of a WorkspaceTemplateApply gives no result; empty if it does.
func notPlanned(apply metav1.Object, blocked string) string {
	switch {
	case !apply.GetDeletionTimestamp().IsZero():
		return "is being deleted"
	case annotations.IsExternallyManaged(apply):
		return "is managed by another tool"
	}
	return blocked
}

// Reason is the reason of condition Complete.
func (p *Progress) Reason() string {
	switch {
	case len(p.Pending) > 0:
		return infrav1.PlanningReason
	case len(p.Changed) > 0:
		return infrav1.ChangesFoundReason
	case len(p.Failed)+len(p.Unavailable) > 0:
		return infrav1.PlansMissingReason
	}
	return infrav1.NothingChangesReason
}

// Message is the message of condition Complete.
func (p *Progress) Message() string {
	parts := []string{fmt.Sprintf("%d of %d WorkspaceTemplateApplies have a plan", p.Planned, p.Total)}
	for _, list := range []struct {
		title string
		names []string
	}{
		{"Terraform would change", p.Changed}, {"what changes is not known", p.Unknown}, {"the plan fails", p.Failed}, {"cannot be planned", p.Unavailable},
		{"waiting", p.Pending},
	} {
		if slices.Sort(list.names); len(list.names) > 0 {
			parts = append(parts, list.title+": "+rollout.Names(list.names))
		}
	}
	return strings.Join(parts, "; ")
}
