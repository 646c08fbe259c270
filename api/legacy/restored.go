// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Restored reports whether a WorkspaceTemplateApply is a copy that was restored from a backup or moved, and whose status does not record
// its Workspace yet: its annotations were written for an object with another UID.
func Restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef == nil && apply.Annotations[naming.ExternalNameAnnotation] != "" &&
		apply.Annotations[naming.ExternalNameUIDAnnotation] != string(apply.UID)
}
