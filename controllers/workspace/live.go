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
	return render.IsRecorded(l.object, apply)
}

// Spec of the Workspace. It must not be changed.
func (l *Live) Spec() *terraform.WorkspaceSpec { return &l.typed.Spec }

// Object is the Workspace as the API server returned it.
func (l *Live) Object() *unstructured.Unstructured { return l.object }

// UID of the Workspace.
func (l *Live) UID() types.UID { return l.object.GetUID() }

// Generation of the Workspace.
func (l *Live) Generation() int64 { return l.object.GetGeneration() }

// Deleting reports whether the Workspace is being deleted.
func (l *Live) Deleting() bool { return !l.object.GetDeletionTimestamp().IsZero() }

// CreatedAt is when the Workspace was created.
func (l *Live) CreatedAt() time.Time { return l.object.GetCreationTimestamp().Time }

// DeletedAt is when the Workspace was deleted; zero if it was not.
func (l *Live) DeletedAt() time.Time {
	if at := l.object.GetDeletionTimestamp(); at != nil {
		return at.Time
	}
	return time.Time{}
}

// Ownership of a Workspace.
type Ownership = render.Ownership

// The results of Owner.
const (
	Owned     = render.Owned
	Foreign   = render.Foreign
	Undecided = render.Undecided
	Replaced  = render.Replaced
)

// Owner reports whether the Workspace belongs to a WorkspaceTemplateApply. rendered is what its template renders to; it may be nil.
func (l *Live) Owner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) Ownership {
	return render.OwnerOf(l.object, apply, rendered)
}

// IsPreview reports whether the Workspace is a preview, which is the Workspace of no object.
func (l *Live) IsPreview() bool { return naming.IsPreview(l.object) }

// OnlyObserves reports whether the provider can neither apply the Workspace nor destroy its resources.
func (l *Live) OnlyObserves() bool { return render.OnlyObserves(l.object) }

// Claimed reports whether this version of CAPT created the Workspace.
func (l *Live) Claimed() bool { return l.object.GetAnnotations()[naming.ClaimAnnotation] != "" }

// ClaimedBy reports whether the Workspace was created for a WorkspaceTemplateApply of that namespace and name.
func (l *Live) ClaimedBy(apply *infrav1.WorkspaceTemplateApply) bool {
	return render.IsClaimed(l.object, apply)
}

// ExternalName is the name of the state of the Workspace.
func (l *Live) ExternalName() string { return l.object.GetAnnotations()[render.ExternalNameAnnotation] }

// ProviderConfig of the Workspace.
func (l *Live) ProviderConfig() string { return render.ProviderConfigOf(l.object) }

// ClaimedElsewhere reports whether the Workspace was created for a WorkspaceTemplateApply of another namespace.
func (l *Live) ClaimedElsewhere(namespace string) bool {
	return l.Claimed() && !strings.HasPrefix(l.object.GetAnnotations()[naming.ClaimAnnotation], namespace+"/")
}

// Scope of the Workspace.
func (l *Live) Scope() terraform.Scope { return scopeOf(l.object) }
