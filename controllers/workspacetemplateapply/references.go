// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// template returns the WorkspaceTemplate, or nil when there is none that this object may use.
func (r *Reconciler) template(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error) {
	lookup := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	return lookup.Permitted(ctx, apply.TemplateKey(), apply.Namespace)
}
