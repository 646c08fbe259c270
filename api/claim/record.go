// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Restored reports whether a WorkspaceTemplateApply is a copy that was restored from a backup or moved, and whose status does not record
// its Workspace yet: its annotations were written for an object with another UID.
func Restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef == nil && apply.Annotations[naming.ExternalNameAnnotation] != "" &&
		apply.Annotations[naming.ExternalNameUIDAnnotation] != string(apply.UID)
}

// RecordsWorkspace reports whether status records that there is a Workspace, maybe without its name.
func RecordsWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	return RecordedWorkspace(apply).Name != "" || apply.Status.Applied == metav1.ConditionTrue
}

// RecordedWorkspace returns namespace and name of the Workspace that status records; empty when there is none. A name alone is that of a
// cluster-wide one. Users can write the name in spec, so it does not count.
func RecordedWorkspace(apply *infrav1.WorkspaceTemplateApply) types.NamespacedName {
	if ref := apply.Status.WorkspaceRef; ref != nil && ref.Name != "" {
		return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return types.NamespacedName{Name: apply.Status.WorkspaceName}
}
