// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// ClaimOf returns the one of other WorkspaceTemplateApplies with the same name of a Workspace that has an older claim to it, for messages. The oldest
// wins, so that exactly one of two objects that were admitted concurrently continues. A record in status, which users cannot write, outweighs a name
// in spec, which they can. Objects of all namespaces can have the same cluster-wide Workspace.
func (w *Workspace) ClaimOf(others []infrav1.WorkspaceTemplateApply) string {
	if w.Name == "" || w.Live != nil && render.IsClaimed(w.Live, w.Apply) {
		return ""
	}
	for i := range others {
		other := &others[i]
		if other.Spec.WorkspaceName != w.Name || other.Namespace != w.Apply.Namespace && !w.ClusterWide() {
			continue
		}
		if !w.isOutrankedBy(other) {
			continue
		}
		if other.Namespace == w.Apply.Namespace {
			return "WorkspaceTemplateApply " + other.Name
		}
		if claimsClusterWide(other, w.Name) {
			return "a WorkspaceTemplateApply of another namespace" // Its name is not disclosed.
		}
	}
	return ""
}

// isOutrankedBy reports whether another object is older, unless only status of this one records the Workspace.
func (w *Workspace) isOutrankedBy(other *infrav1.WorkspaceTemplateApply) bool {
	recorded := w.Live != nil && render.IsRecorded(w.Live, w.Apply) && !render.IsRecorded(w.Live, other)
	return other.UID != w.Apply.UID && Older(other, w.Apply) && !recorded
}

// claimsClusterWide reports whether a WorkspaceTemplateApply of another namespace has, or may create, a cluster-wide Workspace. Its user can write any
// name into spec, which is not a claim.
func claimsClusterWide(other *infrav1.WorkspaceTemplateApply, name string) bool {
	mayCreate := other.Status.WorkspaceRef == nil && name == naming.Workspace(terraform.ScopeCluster, naming.KeyOf(other))
	return mayCreate || claim.RecordedWorkspace(other) == types.NamespacedName{Name: name}
}

// RecordedExternalName is the state that status records. For an adopted Workspace without an external name, the provider names the state
// like the Workspace.
func RecordedExternalName(apply *infrav1.WorkspaceTemplateApply) string {
	ref := apply.Status.WorkspaceRef
	switch {
	case ref == nil:
		return ""
	case ref.ExternalName == "" && ref.Namespace == "" && ref.Name != naming.Workspace(terraform.ScopeCluster, naming.KeyOf(apply)):
		return ref.Name
	}
	return ref.ExternalName
}

// Older reports whether one object was created before another. Objects that were created in the same second are ordered by namespace and name.
func Older(one, other metav1.Object) bool {
	first, second := one.GetCreationTimestamp(), other.GetCreationTimestamp()
	return cmp.Or(first.Compare(second.Time), cmp.Compare(one.GetNamespace(), other.GetNamespace()), cmp.Compare(one.GetName(), other.GetName())) < 0
}
