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

// await repeats the reconcile while a template blocks that is not watched, and when the timeout of the VPC passes.
func (r *Reconciler) await(_ context.Context, captCluster *infrav1.CAPTCluster, f *Facts, p *Plan) error {
	switch left := timeoutOf(captCluster) - f.Running; {
	case p.AwaitTemplate:
		return engine.Wait("the WorkspaceTemplate", owner.TemplateInterval)
	case f.Running > 0 && left > 0 && f.Paused == "":
		return engine.Wait("the timeout of the VPC", left)
	}
	return nil
}
