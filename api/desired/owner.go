// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
)

// Owner is what CAPT writes a WorkspaceTemplateApply for: a VPC, a control plane, a Fargate profile.
type Owner interface {
	// Blocked returns why the WorkspaceTemplateApply is not written; nil when it may be.
	Blocked() *Blocked
	// Want describes the WorkspaceTemplateApply, while nothing blocks it; nil while that is not known.
	Want() *Want
}

// Existing is what an owner found of its WorkspaceTemplateApply.
type Existing struct {
	// Apply is nil when it does not exist, and when the owner must not write it.
	Apply *infrav1.WorkspaceTemplateApply
	// Undecided is why a user must decide first which WorkspaceTemplateApply belongs to the owner; empty if that is known.
	Undecided string
	// Conflict is why the WorkspaceTemplateApply that spec refers to does not belong to the owner.
	Conflict string
}

// blocked blocks an owner whose WorkspaceTemplateApply is not known.
func (e *Existing) blocked() *Blocked {
	switch {
	case e.Undecided != "":
		return &Blocked{infrav1.AdoptionRequiredReason, e.Undecided}
	case e.Conflict != "":
		return &Blocked{infrav1.ReferenceConflictReason, e.Conflict}
	}
	return nil
}

// unverified is what an owner waits for whose conflict may be only that the name of its EKS cluster is not known yet, such as in a restore.
func (e *Existing) unverified(named bool, waiting func() *Blocked) func() *Blocked {
	if named || e.Conflict == "" {
		return func() *Blocked { return nil }
	}
	return waiting
}

// Want describes a WorkspaceTemplateApply as its owner wants it.
type Want struct {
	claim.Expectation
	// Ref is the reference in spec of the owner.
	Ref         infrav1.WorkspaceTemplateApplyReference
	ClusterName string
	Template    infrav1.WorkspaceTemplateReference
	Intent      Intent
	// Labels are set in addition to those that every WorkspaceTemplateApply of an owner has.
	Labels            map[string]string
	WaitForWorkspaces []infrav1.WorkspaceDependency
	WaitForSecrets    []infrav1.SecretDependency
	// DeletionPolicy is empty when the owner does not set it.
	DeletionPolicy infrav1.DeletionPolicy
}

// ApplyName returns the name of the WorkspaceTemplateApply: the one that the owner refers to, or that of the naming scheme.
func (w *Want) ApplyName() string { return cmp.Or(w.Ref.Name, w.SchemeName) }

// Configuration returns what the owner applies. existing is the WorkspaceTemplateApply, nil if there is none; controller is the owner reference.
func (w *Want) Configuration(owner metav1.Object, controller *metav1.OwnerReference, existing *infrav1.WorkspaceTemplateApply) (*unstructured.Unstructured, error) {
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: w.ApplyName(),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: w.ClusterName},
			OwnerReferences: []metav1.OwnerReference{*controller},
		},
		Spec: w.Intent.For(existing).Spec(owner.GetNamespace(), w.Template),
	}
	apply.Spec.WaitForWorkspaces, apply.Spec.WaitForSecrets, apply.Spec.DeletionPolicy = w.WaitForWorkspaces, w.WaitForSecrets, w.DeletionPolicy
	maps.Copy(apply.Labels, w.Labels)
	if shard, ok := owner.GetLabels()[clusterv1.WatchLabel]; ok {
		apply.Labels[clusterv1.WatchLabel] = shard // The manager that watches the owner must also watch its WorkspaceTemplateApply.
	}
	apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	return ssa.Unstructured(apply)
}

// Differs reports whether a WorkspaceTemplateApply, which may not exist, differs from what the manager of its fields applies.
func Differs(apply *infrav1.WorkspaceTemplateApply, want *unstructured.Unstructured, manager string) bool {
	if apply == nil {
		return true
	}
	compared := &infrav1.WorkspaceTemplateApply{ObjectMeta: apply.ObjectMeta, Spec: apply.Spec} // Without the status, which would be converted, too.
	compared.ManagedFields = slices.DeleteFunc(slices.Clone(apply.ManagedFields), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager != manager })
	live, err := ssa.Unstructured(compared)
	if err != nil {
		return true
	}
	live.SetGroupVersionKind(want.GroupVersionKind())                                                         // Typed objects from clients have none, those from caches do.
	return ssa.Differs(live, want, manager, "ownerReferences", "waitForSecrets", "waitForWorkspaces", "keys") // The lists that server-side apply merges.
}

// Applied returns a WorkspaceTemplateApply, which may not exist, as it is after its owner has applied it.
func Applied(apply *infrav1.WorkspaceTemplateApply, want *unstructured.Unstructured, manager string) (*infrav1.WorkspaceTemplateApply, error) {
	after := want
	if apply != nil {
		live, err := ssa.Unstructured(apply)
		if err != nil {
			return nil, err
		}
		after = ssa.Applied(live, want, manager)
	}
	result := &infrav1.WorkspaceTemplateApply{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(after.Object, result); err != nil {
		return nil, err
	}
	if apply == nil {
		return result, nil
	}
	result.CreationTimestamp, result.Status = apply.CreationTimestamp, *apply.Status.DeepCopy()
	for _, dependency := range apply.Spec.WaitForWorkspaces { // ssa.Applied replaces lists; these keep the items of others.
		if !slices.Contains(result.Spec.WaitForWorkspaces, dependency) {
			result.Spec.WaitForWorkspaces = append(result.Spec.WaitForWorkspaces, dependency)
		}
	}
	return result, nil
}

// Find returns what an owner finds among the WorkspaceTemplateApplies of its namespace. evidenceFor returns why one may belong to an owner without a
// reference.
func Find(owner metav1.Object, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation, all []infrav1.WorkspaceTemplateApply,
	evidenceFor func(claim.Expectation, metav1.Object, *infrav1.WorkspaceTemplateApply) []claim.Evidence,
) Existing {
	if !ref.IsDefined() {
		candidates := claim.CandidatesBy(all, func(apply *infrav1.WorkspaceTemplateApply) []claim.Evidence { return evidenceFor(want, owner, apply) })
		if len(candidates) > 0 {
			return Existing{Undecided: CandidatesMessage(candidates)}
		}
		if want.ProvisionedField != "" {
			return Existing{Undecided: ProvisionedMessage(want.ProvisionedField)}
		}
		return Existing{}
	}
	i := slices.IndexFunc(all, func(apply infrav1.WorkspaceTemplateApply) bool { return apply.Name == ref.Name })
	if i < 0 {
		return Existing{}
	}
	if conflict := claim.Conflict(owner, want, &all[i]); conflict != "" {
		return Existing{Conflict: conflict}
	}
	if owner.GetDeletionTimestamp() != nil && !want.MayDelete(owner, &all[i]) {
		return Existing{Conflict: KeptMessage(ref.Name)}
	}
	return Existing{Apply: &all[i]}
}

// KeptMessage is why an owner that is being deleted keeps a WorkspaceTemplateApply that spec refers to.
func KeptMessage(name string) string {
	return fmt.Sprintf("WorkspaceTemplateApply %s is kept: it has no owner reference to this object, and the status of this object does not record it. To destroy its cloud resources, delete it", name)
}

// CandidatesMessage is why an owner without a reference waits for a decision about WorkspaceTemplateApplies that may belong to it; empty if there
// are none.
func CandidatesMessage(candidates []claim.Candidate) string {
	if len(candidates) == 0 {
		return ""
	}
	names := make([]string, len(candidates))
	for i, candidate := range candidates {
		names[i] = candidate.String()
	}
	return fmt.Sprintf("spec.workspaceTemplateApplyRef is empty, but WorkspaceTemplateApply %s may belong to this object: nothing is created until this is resolved. Run captctl migrate check, which shows the evidence and how to adopt it",
		strings.Join(names, ", "))
}

// ProvisionedMessage is why an owner without a reference waits for a decision although no WorkspaceTemplateApply may belong to it: a field shows that
// its cloud resources exist.
func ProvisionedMessage(field string) string {
	return fmt.Sprintf("spec.workspaceTemplateApplyRef is empty and no WorkspaceTemplateApply matches, but %s is set, so the cloud resources may exist already: nothing is created. "+
		"Set the reference to the WorkspaceTemplateApply that created them or, if none of them exist, to a new name", field)
}

// Blocked is why something is not written: reason of the condition that reports it, and message, which says what is wrong, why, and what to do.
type Blocked struct{ Reason, Message string }

// Rule returns why something is not written; nil when the rule does not apply.
type Rule func() *Blocked

// Chain are rules in the order in which they are reported.
type Chain []Rule

// First returns why something is not written according to the first rule that applies; nil when none does.
func (c Chain) First() *Blocked {
	for _, rule := range c {
		if blocked := rule(); blocked != nil {
			return blocked
		}
	}
	return nil
}

// blockedBy returns an error as why something is not written; nil without an error.
func blockedBy(reason, prefix string, err error) *Blocked {
	if err == nil {
		return nil
	}
	return &Blocked{reason, prefix + err.Error()}
}
