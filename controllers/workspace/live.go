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

// Live is a Workspace as the API server has it.
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
	return &infrav1.WorkspaceReference{
		APIVersion: l.object.GetAPIVersion(), Kind: l.object.GetKind(),
		Name: l.object.GetName(), Namespace: l.object.GetNamespace(), UID: l.object.GetUID(),
		ExternalName: l.ExternalName(),
	}
}

// RecordedFor reports whether status of a WorkspaceTemplateApply, which users cannot write, names this very Workspace.
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

// Deleting tells whether the Workspace is being deleted.
func (l *Live) Deleting() bool { return !l.object.GetDeletionTimestamp().IsZero() }

// DeletedAt is when the Workspace was deleted; zero if it was not.
func (l *Live) DeletedAt() time.Time {
	if at := l.object.GetDeletionTimestamp(); at != nil {
		return at.Time
	}
	return time.Time{}
}

// Ownership says whose a Workspace is.
type Ownership string

const (
	// Owned by the WorkspaceTemplateApply: it created or adopted it.
	Owned Ownership = "Owned"
	// Foreign: another object's, or nothing says whose.
	Foreign Ownership = "Foreign"
	// Undecided: the evidence is for the WorkspaceTemplateApply, but an earlier object of its name may have left the Workspace behind
	// on purpose. A user decides, by naming its UID.
	Undecided Ownership = "Undecided"
	// Replaced: the recorded Workspace is gone, and one of its name came that this WorkspaceTemplateApply did not make.
	Replaced Ownership = "Replaced"
)

// Owner says whether the Workspace belongs to a WorkspaceTemplateApply. The claim written at creation decides, unless the Workspace
// is older than the object: then status must have recorded its UID, the object must remember it from before a move or a restore,
// or a user must have named its UID. A Workspace without a claim was not created by this version; it belongs to the
// WorkspaceTemplateApply when its UID was recorded, or when rendering would not change anything in it and there is evidence that it
// was made for it.
func (l *Live) Owner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) Ownership {
	if l.Claimed() {
		return l.claimedOwner(apply)
	}
	return l.unclaimedOwner(apply, rendered)
}

func (l *Live) claimedOwner(apply *infrav1.WorkspaceTemplateApply) Ownership {
	switch {
	case !l.ClaimedBy(apply):
		return Foreign
	case l.RecordedFor(apply), l.decidedFor(apply), !l.olderThan(apply):
		return Owned
	}
	return Undecided
}

func (l *Live) unclaimedOwner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) Ownership {
	same := rendered != nil && !l.Differs(rendered)
	switch {
	case l.RecordedFor(apply), same && apply.Status.WorkspaceName == l.object.GetName():
		return Owned
	case same && l.madeFor(apply, rendered) && l.decidedFor(apply):
		return Owned
	case same && l.madeFor(apply, rendered):
		return Undecided
	case apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != "":
		return Replaced
	}
	return Foreign
}

// decidedFor reports whether the object remembers the Workspace from before a move or a restore, or a user has named its UID.
func (l *Live) decidedFor(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.rememberedBy(apply) || l.chosenBy(apply)
}

// madeFor reports whether a Workspace without a claim is exactly as rendered, and of the same namespace. Whoever may write in one
// namespace can name any cluster-wide Workspace in spec, and render the same or less; but cannot make it write its outputs into
// that namespace.
func (l *Live) madeFor(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) bool {
	namespace := l.object.GetNamespace()
	if ref := l.typed.Spec.WriteConnectionSecretToRef; namespace == "" && ref != nil {
		namespace = ref.Namespace
	}
	return namespace == apply.Namespace && l.madeAs(rendered)
}

// Claimed tells whether the Workspace was made by this CAPT, for whomever.
func (l *Live) Claimed() bool { return l.object.GetAnnotations()[naming.ClaimAnnotation] != "" }

// ClaimedBy tells whether the Workspace was made for a WorkspaceTemplateApply of that namespace and name.
func (l *Live) ClaimedBy(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.object.GetAnnotations()[naming.ClaimAnnotation] == naming.Claim(types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name})
}

// ExternalName is where the state of the Workspace is.
func (l *Live) ExternalName() string { return l.object.GetAnnotations()[render.ExternalNameAnnotation] }

// rememberedBy reports whether a WorkspaceTemplateApply was moved or restored, and noted before where the state of the Workspace is.
// What it has noted itself, in this life, does not count: it notes the name before it creates a Workspace, and may find one that
// was left behind in its place.
func (l *Live) rememberedBy(apply *infrav1.WorkspaceTemplateApply) bool {
	name := apply.Annotations[naming.ExternalNameAnnotation]
	return name != "" && name == l.ExternalName() && apply.Annotations[naming.NotedByAnnotation] != string(apply.UID)
}

// chosenBy reports whether a user decided that a WorkspaceTemplateApply takes this very Workspace over.
func (l *Live) chosenBy(apply *infrav1.WorkspaceTemplateApply) bool {
	uid := apply.Annotations[naming.AdoptWorkspaceAnnotation]
	return uid != "" && uid == string(l.UID())
}

// ProviderConfig of the Workspace.
func (l *Live) ProviderConfig() string { return render.ProviderConfigOf(l.object) }

// ClaimedElsewhere tells whether the Workspace was made for a WorkspaceTemplateApply of another namespace.
func (l *Live) ClaimedElsewhere(namespace string) bool {
	return l.Claimed() && !strings.HasPrefix(l.object.GetAnnotations()[naming.ClaimAnnotation], namespace+"/")
}

// Scope of the Workspace.
func (l *Live) Scope() terraform.Scope { return scopeOf(l.object) }

func (l *Live) olderThan(apply *infrav1.WorkspaceTemplateApply) bool {
	created := l.object.GetCreationTimestamp()
	return !created.IsZero() && created.Time.Before(apply.CreationTimestamp.Time)
}
