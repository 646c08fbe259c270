// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// reconcileVPC holds, provisions, destroys or releases the WorkspaceTemplateApply of the VPC.
func (r *Reconciler) reconcileVPC(ctx context.Context, _ *infrav1.CAPTCluster, _ *Facts, p *Plan) error {
	return p.Apply.Act(ctx, r.Client, nil)
}

// awaitTemplate repeats the reconcile while a template blocks that is not watched.
func (r *Reconciler) awaitTemplate(_ context.Context, _ *infrav1.CAPTCluster, _ *Facts, p *Plan) error {
	if p.AwaitTemplate {
		return engine.Wait("the WorkspaceTemplate", owner.TemplateInterval)
	}
	return nil
}
