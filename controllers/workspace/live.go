// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// Live is a Workspace of the API server.
type Live struct {
	object *unstructured.Unstructured
	typed  terraform.Workspace
}

func newLive(object *unstructured.Unstructured) (*Live, error) {
	live := &Live{object: object}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &live.typed); err != nil {
		return nil, fmt.Errorf("decoding Workspace %s: %w", object.GetName(), err)
	}
	return live, nil
}

// Reference to the Workspace, for status.
func (l *Live) Reference() *infrav1.WorkspaceReference {
	return render.ReferenceTo(l.object)
}

// RecordedFor reports whether status of a WorkspaceTemplateApply, which users cannot write, records the UID of this Workspace.
func (l *Live) RecordedFor(apply *infrav1.WorkspaceTemplateApply) bool {
	ref := apply.Status.WorkspaceRef
	return ref != nil && ref.UID != "" && ref.UID == l.UID()
}

// Spec of the Workspace. It must not be changed.
func (l *Live) Spec() *terraform.WorkspaceSpec { return &l.typed.Spec }

// UID of the Workspace.
func (l *Live) UID() types.UID { return l.object.GetUID() }

// Generation of the Workspace.
func (l *Live) Generation() int64 { return l.object.GetGeneration() }

// Deleting reports whether the Workspace is being deleted.
func (l *Live) Deleting() bool { return !l.object.GetDeletionTimestamp().IsZero() }

// DeletedAt is when the Workspace was deleted; zero if it was not.
func (l *Live) DeletedAt() time.Time {
	if at := l.object.GetDeletionTimestamp(); at != nil {
		return at.Time
	}
	return time.Time{}
}

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

// Owner reports whether the Workspace belongs to a WorkspaceTemplateApply. The evidence depends on the Workspace:
//
//   - With a claim annotation, and newer than the object: the claim.
//   - With a claim annotation, and older than the object: the claim and, in addition, a record of its UID in status, an annotation from before
//     a move or a restore that names its state, or the confirmation of its UID by the user.
//   - Without a claim annotation, so that this version did not create it: a record of its UID in status, or equality with the rendered
//     Workspace together with its name in status or a confirmation.
func (l *Live) Owner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) Ownership {
	if l.IsPreview() {
		return Foreign
	}
	if l.Claimed() {
		return l.claimedOwner(apply)
	}
	return l.unclaimedOwner(apply, rendered)
}

// claimedOwner decides for a Workspace that this version of CAPT created. A Workspace older than the WorkspaceTemplateApply may be one that an
// earlier object of the same name retained.
func (l *Live) claimedOwner(apply *infrav1.WorkspaceTemplateApply) Ownership {
	switch {
	case !l.ClaimedBy(apply):
		return Foreign
	case l.RecordedFor(apply), l.confirmedFor(apply), !l.olderThan(apply):
		return Owned
	}
	return Undecided
}

// unclaimedOwner decides for a Workspace that CAPT v0.3 or another client created: by what status records, and by whether the Workspace is as
// rendered.
func (l *Live) unclaimedOwner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) Ownership {
	same := rendered != nil && !l.Differs(rendered)
	switch {
	case l.RecordedFor(apply), same && apply.Status.WorkspaceName == l.object.GetName():
		return Owned
	case same && l.equalsInNamespace(apply, rendered) && l.confirmedFor(apply):
		return Owned
	case same && l.equalsInNamespace(apply, rendered):
		return Undecided
	case apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != "":
		return Replaced
	}
	return Foreign
}

// confirmedFor reports whether the object was moved or restored with the name of the state, or a user has confirmed the UID.
func (l *Live) confirmedFor(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.restoredWith(apply) || l.confirmedByUser(apply)
}

// equalsInNamespace reports whether a Workspace without a claim is exactly as rendered, and of the same namespace. A user with access to one
// namespace can name any cluster-wide Workspace in spec and render the same spec, but cannot make it write its outputs to that namespace.
func (l *Live) equalsInNamespace(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) bool {
	namespace := l.object.GetNamespace()
	if ref := l.typed.Spec.WriteConnectionSecretToRef; namespace == "" && ref != nil {
		namespace = ref.Namespace
	}
	return namespace == apply.Namespace && l.equals(rendered)
}

// IsPreview reports whether the Workspace is a preview, which is the Workspace of no object.
func (l *Live) IsPreview() bool { return naming.IsPreview(l.object) }

// OnlyObserves reports whether the provider can neither apply the Workspace nor destroy its resources.
func (l *Live) OnlyObserves() bool { return render.OnlyObserves(l.object) }

// Claimed reports whether this version of CAPT created the Workspace.
func (l *Live) Claimed() bool { return l.object.GetAnnotations()[naming.ClaimAnnotation] != "" }

// ClaimedBy reports whether the Workspace was created for a WorkspaceTemplateApply of that namespace and name.
func (l *Live) ClaimedBy(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.object.GetAnnotations()[naming.ClaimAnnotation] == naming.Claim(types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name})
}

// ExternalName is the name of the state of the Workspace.
func (l *Live) ExternalName() string { return l.object.GetAnnotations()[render.ExternalNameAnnotation] }

// restoredWith reports whether a WorkspaceTemplateApply was moved or restored with an annotation that names the state of the Workspace. An
// annotation of the object itself does not count: it is set before a Workspace is created, which may find a retained one.
func (l *Live) restoredWith(apply *infrav1.WorkspaceTemplateApply) bool {
	name := apply.Annotations[naming.ExternalNameAnnotation]
	return name != "" && name == l.ExternalName() && apply.Annotations[naming.ExternalNameUIDAnnotation] != string(apply.UID)
}

// confirmedByUser reports whether a user confirmed that the Workspace belongs to a WorkspaceTemplateApply.
func (l *Live) confirmedByUser(apply *infrav1.WorkspaceTemplateApply) bool {
	uid := apply.Annotations[naming.AdoptWorkspaceAnnotation]
	return uid != "" && uid == string(l.UID())
}

// ProviderConfig of the Workspace.
func (l *Live) ProviderConfig() string { return render.ProviderConfigOf(l.object) }

// ClaimedElsewhere reports whether the Workspace was created for a WorkspaceTemplateApply of another namespace.
func (l *Live) ClaimedElsewhere(namespace string) bool {
	return l.Claimed() && !strings.HasPrefix(l.object.GetAnnotations()[naming.ClaimAnnotation], namespace+"/")
}

// Scope of the Workspace.
func (l *Live) Scope() terraform.Scope { return scopeOf(l.object) }

// olderThan reports whether the Workspace was created before the WorkspaceTemplateApply.
func (l *Live) olderThan(apply *infrav1.WorkspaceTemplateApply) bool {
	created := l.object.GetCreationTimestamp()
	return !created.IsZero() && created.Time.Before(apply.CreationTimestamp.Time)
}
