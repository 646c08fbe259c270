// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// Live is a Workspace of the API server.
type Live struct {
	*unstructured.Unstructured
	typed terraform.Workspace
	// Rewritten is true for the response to a write that the API server stored with other values: a mutating webhook or policy changed it.
	Rewritten bool
}

func newLive(object *unstructured.Unstructured) (*Live, error) {
	live := &Live{Unstructured: object}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &live.typed); err != nil {
		return nil, fmt.Errorf("decoding Workspace %s: %w", object.GetName(), err)
	}
	return live, nil
}

// HasResult reports whether Terraform has ended with another result than before.
func HasResult(before, after client.Object) bool {
	status := func(object client.Object, condition string) metav1.ConditionStatus {
		found, err := conditions.UnstructuredGet(object.(*unstructured.Unstructured), condition)
		if err != nil || found == nil {
			return ""
		}
		return found.Status
	}
	return status(before, conditionReady) != status(after, conditionReady) || status(before, conditionSynced) != status(after, conditionSynced)
}

// RecordedFor reports whether status of a WorkspaceTemplateApply, which users cannot write, records the UID of this Workspace.
func (l *Live) RecordedFor(apply *infrav1.WorkspaceTemplateApply) bool {
	return render.IsRecorded(l.Unstructured, apply)
}

// Spec of the Workspace. It must not be changed.
func (l *Live) Spec() *terraform.WorkspaceSpec { return &l.typed.Spec }

// Deleting reports whether the Workspace is being deleted.
func (l *Live) Deleting() bool { return !l.GetDeletionTimestamp().IsZero() }

// DeletedAt is when the Workspace was deleted; zero if it was not.
func (l *Live) DeletedAt() time.Time {
	if at := l.GetDeletionTimestamp(); at != nil {
		return at.Time
	}
	return time.Time{}
}

// WaitingForFinalizers is why the provider does not destroy the resources of the Workspace yet; empty if it does. In a foreground deletion, that can be a
// finalizer of the connection Secret, which may be nil.
func (l *Live) WaitingForFinalizers(secret *metav1.PartialObjectMetadata) string {
	own := terraform.WaitingForFinalizers(l, "workspaces."+l.GroupVersionKind().Group)
	if own != "" && secret != nil {
		if of := terraform.WaitingForFinalizers(secret, "secret"); of != "" {
			own = fmt.Sprintf("the garbage collector deletes its connection Secret %s first: %s", secret.Name, of)
		}
	}
	if own != "" {
		own = fmt.Sprintf("provider-terraform does not destroy Workspace %s yet: %s", l.GetName(), own)
	}
	return own
}

// InForegroundDeletion reports whether the Workspace waits for what it owns.
func (l *Live) InForegroundDeletion() bool {
	return l.Deleting() && slices.Contains(l.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// Owner reports whether the Workspace belongs to a WorkspaceTemplateApply. rendered is what its template renders to; it may be nil.
func (l *Live) Owner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) render.Ownership {
	return render.OwnerOf(l.Unstructured, apply, rendered)
}

// OnlyObserves reports whether the provider can neither apply the Workspace nor destroy its resources.
func (l *Live) OnlyObserves() bool { return render.OnlyObserves(l.Unstructured) }

// Claimed reports whether this version of CAPT created the Workspace.
func (l *Live) Claimed() bool { return l.GetAnnotations()[naming.ClaimAnnotation] != "" }

// ClaimedBy reports whether the Workspace was created for a WorkspaceTemplateApply of that namespace and name.
func (l *Live) ClaimedBy(apply *infrav1.WorkspaceTemplateApply) bool {
	return render.IsClaimed(l.Unstructured, apply)
}

// ExternalName is the name of the state of the Workspace.
func (l *Live) ExternalName() string { return l.GetAnnotations()[render.ExternalNameAnnotation] }

// ProviderConfig of the Workspace.
func (l *Live) ProviderConfig() string { return render.ProviderConfigOf(l.Unstructured) }

// ClaimedElsewhere reports whether the Workspace was created for a WorkspaceTemplateApply of another namespace.
func (l *Live) ClaimedElsewhere(namespace string) bool {
	return l.Claimed() && !strings.HasPrefix(l.GetAnnotations()[naming.ClaimAnnotation], namespace+"/")
}

// Scope of the Workspace.
func (l *Live) Scope() terraform.Scope { return scopeOf(l.Unstructured) }
