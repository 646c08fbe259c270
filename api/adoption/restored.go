// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Restored reports whether a WorkspaceTemplateApply came from a backup or a move, and has not been recorded as the owner of its
// Workspace since: another object, of which it is a copy, noted the state.
func Restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef == nil && apply.Annotations[naming.ExternalNameAnnotation] != "" &&
		apply.Annotations[naming.NotedByAnnotation] != string(apply.UID)
}
