// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

func (r *Reconciler) act(ctx context.Context, template *infrav1.WorkspaceTemplate, f *Facts, p Plan) error {
	err := engine.Patch(ctx, r.Client, template, func() {
		switch p.Action {
		case Hold:
			controllerutil.AddFinalizer(template, infrav1.WorkspaceTemplateFinalizer)
			removeFinalizers(template, f.Finalizers)
		case Release:
			controllerutil.RemoveFinalizer(template, infrav1.WorkspaceTemplateFinalizer)
			removeFinalizers(template, f.Finalizers)
		case Observe:
		}
	})
	if err != nil {
		return err
	}
	return r.rollOut(ctx, template, f, p)
}

func removeFinalizers(template *infrav1.WorkspaceTemplate, finalizers []string) {
	for _, finalizer := range finalizers {
		controllerutil.RemoveFinalizer(template, finalizer)
	}
}
