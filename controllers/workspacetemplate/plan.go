// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Action is what a reconcile does.
type Action string

const (
	// Observe: nothing to write.
	Observe Action = "Observe"
	// Hold: add the finalizer before the template can be used.
	Hold Action = "Hold"
	// Release: remove the finalizer.
	Release Action = "Release"
)

// plan decides what to do. It is pure.
func plan(template *infrav1.WorkspaceTemplate, f *Facts) (Action, error) {
	switch {
	case f.AwaitsAdoption:
		return Observe, nil
	case template.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer):
		return Hold, nil
	case !template.DeletionTimestamp.IsZero() && len(f.Users) == 0:
		return Release, nil
	}
	return Observe, nil
}
