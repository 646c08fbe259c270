// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Ownership of a Workspace.
type Ownership string

const (
	// Owned by the WorkspaceTemplateApply: it created or adopted it.
	Owned Ownership = "Owned"
	// Foreign: it belongs to another object, or does not have an owner.
	Foreign Ownership = "Foreign"
	// Undecided: it was created for a WorkspaceTemplateApply of this name, but an earlier one may have retained it on purpose. The user must
	// confirm the UID of the Workspace.
	Undecided Ownership = "Undecided"
	// Replaced: another client recreated the recorded Workspace.
	Replaced Ownership = "Replaced"
)

// OwnerOf reports whether a Workspace belongs to a WorkspaceTemplateApply. rendered is what its template renders to; it may be nil. The evidence
// depends on the Workspace:
//
//   - With a claim annotation, and newer than the object: the claim.
//   - With a claim annotation, and older than the object: the claim and, in addition, a record of its UID in status, an annotation from before
//     a move or a restore that names its state, or the confirmation of its UID by the user.
//   - Without a claim annotation, so that this version did not create it: a record of its UID in status, or equality with the rendered
//     Workspace together with its name in status or a confirmation.
func OwnerOf(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply, rendered *Rendered) Ownership {
	switch {
	case naming.IsPreview(workspace):
		return Foreign
	case workspace.GetAnnotations()[naming.ClaimAnnotation] != "":
		return claimedOwner(workspace, apply)
	}
	return unclaimedOwner(workspace, apply, rendered)
}

// claimedOwner decides for a Workspace that this version of CAPT created. A Workspace older than the WorkspaceTemplateApply may be one that an
// earlier object of the same name retained.
func claimedOwner(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) Ownership {
	created := workspace.GetCreationTimestamp()
	older := !created.IsZero() && created.Time.Before(apply.CreationTimestamp.Time)
	switch {
	case !IsClaimed(workspace, apply):
		return Foreign
	case IsRecorded(workspace, apply), isConfirmed(workspace, apply), !older:
		return Owned
	}
	return Undecided
}

// unclaimedOwner decides for a Workspace that CAPT v0.3 or another client created: by what status records, and by whether the Workspace is as
// rendered.
func unclaimedOwner(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply, rendered *Rendered) Ownership {
	same := rendered != nil && !rendered.Differs(workspace)
	switch {
	case IsRecorded(workspace, apply), same && apply.Status.WorkspaceName == workspace.GetName():
		return Owned
	case same && equalsInNamespace(workspace, apply, rendered) && isConfirmed(workspace, apply):
		return Owned
	case same && equalsInNamespace(workspace, apply, rendered):
		return Undecided
	case apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != "":
		return Replaced
	}
	return Foreign
}

// IsClaimed reports whether a Workspace was created for a WorkspaceTemplateApply of that namespace and name.
func IsClaimed(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) bool {
	return workspace.GetAnnotations()[naming.ClaimAnnotation] == naming.Claim(types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name})
}

// IsRecorded reports whether status of a WorkspaceTemplateApply, which users cannot write, records the UID of a Workspace.
func IsRecorded(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) bool {
	ref := apply.Status.WorkspaceRef
	return ref != nil && ref.UID != "" && ref.UID == workspace.GetUID()
}

// isConfirmed reports whether a user has confirmed the UID of the Workspace, or the object was moved or restored with the name of the state. Such
// a name that the object itself recorded does not count: it is set before a Workspace is created, which may find a retained one.
func isConfirmed(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) bool {
	uid, state := apply.Annotations[naming.AdoptWorkspaceAnnotation], apply.Annotations[naming.ExternalNameAnnotation]
	restored := state != "" && state == workspace.GetAnnotations()[ExternalNameAnnotation] && apply.Annotations[naming.ExternalNameUIDAnnotation] != string(apply.UID)
	return restored || uid != "" && uid == string(workspace.GetUID())
}

// equalsInNamespace reports whether a Workspace without a claim is exactly as rendered, except for defaults, and of the same namespace. That
// applying changes nothing does not prove ownership: the fewer fields a template has, the more Workspaces it matches. A user with access to one
// namespace can name any cluster-wide Workspace in spec and render the same spec, but cannot make it write its outputs to that namespace.
func equalsInNamespace(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply, rendered *Rendered) bool {
	return NamespaceOf(workspace) == apply.Namespace && len(Differences(workspace, rendered)) == 0
}

// NamespaceOf returns the namespace that a Workspace belongs to: that of the connection Secret for a cluster-wide one, which users with access to one
// namespace cannot write; empty if that has none.
func NamespaceOf(workspace *unstructured.Unstructured) string {
	if namespace := workspace.GetNamespace(); namespace != "" {
		return namespace
	}
	namespace, _, _ := unstructured.NestedString(workspace.Object, "spec", "writeConnectionSecretToRef", "namespace")
	return namespace
}
