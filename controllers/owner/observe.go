// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package owner implements the life cycle of a WorkspaceTemplateApply that a CAPTCluster, a CAPTControlPlane or a Fargate profile owns:
// observe, plan, hold, provision, destroy, release, report. The owners provide the desired state, and what must be deleted first.
package owner

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/controllers/engine"
)

// Facts are what an owner observed of its WorkspaceTemplateApply.
type Facts struct {
	// Apply is nil when it does not exist.
	Apply *infrav1.WorkspaceTemplateApply
	// Helpers are the other WorkspaceTemplateApplies that the owner controls, sorted by name; read only while it is being deleted.
	Helpers []infrav1.WorkspaceTemplateApply
	// HeldBy is why nothing that the owner controls may be deleted, because a Cluster uses it; observed only while it is being deleted.
	HeldBy *engine.Hold
	// RetainConflict is why the deletion policies forbid to delete what the owner controls; read only while it is being deleted.
	RetainConflict string
	// Candidates are WorkspaceTemplateApplies that may belong to an owner without a reference, or the referenced one if it has not
	// been adopted.
	Candidates []legacy.Candidate
	// OwnedCandidates are those that the owner owns, so that they would be deleted with it.
	OwnedCandidates []string
	// ProvisionedField is the field that proves that cloud resources exist, when the owner has neither a reference nor a candidate: a new
	// WorkspaceTemplateApply would create them a second time.
	ProvisionedField string
	// Missing is the referenced WorkspaceTemplateApply if CAPT v0.3 recorded it and it does not exist: a new one would create its cloud
	// resources a second time.
	Missing string
	// AdoptedWith is the object with which the owner is adopted, if it has no WorkspaceTemplateApply; empty once that was adopted.
	AdoptedWith string
	// AwaitsAdoption is true while the owner, or what it refers to, is as CAPT v0.3 left it.
	AwaitsAdoption bool
	// Unadopted is the Workspace that CAPT v0.3 created for the referenced WorkspaceTemplateApply, while that is not adopted.
	Unadopted string
	// Conflict is why the referenced WorkspaceTemplateApply does not belong to the owner. It is neither written nor deleted.
	Conflict string
	// Refused is the error with which the API server refused the WorkspaceTemplateApply.
	Refused error
}

// Reader reads WorkspaceTemplateApplies.
type Reader struct {
	Cached   client.Reader
	Uncached client.Reader
	// Confirm makes Observe ask the API server when the cache has neither the referenced one nor a candidate, which may have been created a
	// moment ago.
	Confirm bool
}

// Observe reads the WorkspaceTemplateApply that an owner refers to or, without a reference, those that may belong to it. It asks the API server
// before one is deleted, and before one may be created, because none must be missed. An owner that waits for a decision sends no request.
func (r Reader) Observe(ctx context.Context, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want legacy.Expectation) (Facts, error) {
	observe := func(reader client.Reader) (Facts, error) {
		if !ref.IsDefined() {
			return observeCandidates(ctx, reader, object, want)
		}
		return observeReferenced(ctx, reader, object, ref, want)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return observe(r.Uncached)
	}
	facts, err := observe(r.Cached)
	if err == nil && r.Confirm && facts.Apply == nil && facts.Conflict == "" && !facts.NeedsDecision() {
		return observe(r.Uncached)
	}
	return facts, err
}

// observeCandidates looks for the WorkspaceTemplateApplies that may belong to an owner without a reference.
func observeCandidates(ctx context.Context, reader client.Reader, object client.Object, want legacy.Expectation) (Facts, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, client.InNamespace(object.GetNamespace())); err != nil {
		return Facts{}, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	candidates := want.Candidates(object, applies.Items)
	facts := Facts{Candidates: candidates, OwnedCandidates: legacy.Names(candidates, legacy.Owned)}
	if len(candidates) == 0 {
		facts.ProvisionedField = want.ProvisionedField
	}
	facts.AwaitsAdoption = facts.NeedsDecision() && (want.Legacy || facts.anyUnadopted(applies.Items))
	return facts, nil
}

// anyUnadopted reports whether one of the candidates was created by CAPT v0.3 and has not been adopted.
func (f *Facts) anyUnadopted(applies []infrav1.WorkspaceTemplateApply) bool {
	for i := range applies {
		isCandidate := func(c legacy.Candidate) bool { return c.Name == applies[i].Name }
		if legacy.UnadoptedWorkspace(&applies[i]) != "" && slices.ContainsFunc(f.Candidates, isCandidate) {
			return true
		}
	}
	return false
}

// NeedsDecision reports whether the user must decide which WorkspaceTemplateApply belongs to the owner. Nothing is created before.
func (f *Facts) NeedsDecision() bool {
	return len(f.Candidates) > 0 || f.ProvisionedField != "" || f.Missing != "" || f.AdoptedWith != ""
}

// observeReferenced reads the WorkspaceTemplateApply that an owner refers to.
func observeReferenced(ctx context.Context, reader client.Reader, object client.Object, ref infrav1.WorkspaceTemplateApplyReference, want legacy.Expectation) (Facts, error) {
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	apply, err := engine.Get(ctx, reader, key, &infrav1.WorkspaceTemplateApply{})
	if err != nil {
		return Facts{}, fmt.Errorf("reading WorkspaceTemplateApply %s: %w", ref.Name, err)
	}
	if apply == nil {
		// A reference that CAPT v0.3 did not record is for a new WorkspaceTemplateApply.
		if want.Legacy && ref.Name == want.Recorded && object.GetDeletionTimestamp().IsZero() {
			return Facts{Missing: ref.Name, AwaitsAdoption: true}, nil
		}
		return Facts{}, nil
	}
	facts := factsFor(object, want, apply)
	facts.AwaitsAdoption = facts.Unadopted != "" || facts.Conflict != "" && want.Legacy
	return facts, nil
}

// factsFor returns the facts for a WorkspaceTemplateApply, without the object itself if the owner must not write it: because it belongs to
// another owner, and each would overwrite or delete the Workspace of the other, or because CAPT v0.3 created it and it has not been adopted.
func factsFor(object client.Object, want legacy.Expectation, apply *infrav1.WorkspaceTemplateApply) Facts {
	if conflict := legacy.Conflict(object, want, apply); conflict != "" {
		return Facts{Conflict: conflict}
	}
	if !object.GetDeletionTimestamp().IsZero() && !want.MayDelete(object, apply) {
		return Facts{Conflict: desired.KeptMessage(apply.Name)}
	}
	if workspace := legacy.UnadoptedWorkspace(apply); workspace != "" {
		candidate := legacy.Candidate{Name: apply.Name, Evidence: []legacy.Evidence{legacy.Referred}}
		return Facts{Candidates: []legacy.Candidate{candidate}, OwnedCandidates: []string{apply.Name}, Unadopted: workspace}
	}
	return Facts{Apply: apply}
}

// UpToDate reports whether Terraform has applied the WorkspaceTemplateApply as it is now.
func (f *Facts) UpToDate() bool {
	return f.Apply != nil && f.Apply.DeletionTimestamp.IsZero() &&
		f.Apply.Status.ObservedGeneration == f.Apply.Generation && conditions.IsTrue(f.Apply, infrav1.ReadyCondition)
}
