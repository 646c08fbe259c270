// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

func (r *Reconciler) act(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts) error {
	switch decide(captCluster, f) {
	case Provision:
		return r.provision(ctx, captCluster, f)
	case Hold:
		return engine.Patch(ctx, r.Client, captCluster, func() {
			controllerutil.AddFinalizer(captCluster, infrav1.CAPTClusterFinalizer)
		})
	case WritePolicy:
		return f.Apply.Write(ctx, r.Client, naming.CAPTClusterFieldManager)
	case Destroy:
		// The policy may have changed a moment ago; it must reach the WorkspaceTemplateApply before the deletion does.
		if f.Apply.OnlyOwnLeft() {
			if err := f.Apply.Write(ctx, r.Client, naming.CAPTClusterFieldManager); err != nil {
				return err
			}
		}
		return f.Apply.DeleteNext(ctx, r.Client)
	case Release:
		return engine.Patch(ctx, r.Client, captCluster, func() {
			controllerutil.RemoveFinalizer(captCluster, infrav1.CAPTClusterFinalizer)
		})
	case Observe:
		if f.blocked(captCluster) != nil && f.Template.Unwatched(captCluster.Namespace) {
			return engine.Wait("the WorkspaceTemplate", owner.TemplateInterval)
		}
	}
	return nil
}

// provision writes down which WorkspaceTemplateApply is ours, and only then makes it: whatever happens between the two,
// there is never a second one.
func (r *Reconciler) provision(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts) error {
	err := engine.Patch(ctx, r.Client, captCluster, func() {
		controllerutil.AddFinalizer(captCluster, infrav1.CAPTClusterFinalizer)
		if !captCluster.Spec.WorkspaceTemplateApplyRef.IsDefined() {
			captCluster.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: f.Apply.Desired.GetName()}
		}
	})
	if err != nil {
		return err
	}
	return f.Apply.Write(ctx, r.Client, naming.CAPTClusterFieldManager)
}
