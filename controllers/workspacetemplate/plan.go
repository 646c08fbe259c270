// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"k8s.io/apimachinery/pkg/types"
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

// Plan is the decision of a reconcile.
type Plan struct {
	Action Action
	// Staged is what the rollout does; nil without a staged one.
	Staged *stagedPlan
	// Unassign are the users that keep no revision of an earlier staged rollout.
	Unassign []types.NamespacedName
}

// plan decides what to do. It is pure.
func plan(template *infrav1.WorkspaceTemplate, f *Facts) (Plan, error) {
	p := Plan{Action: action(template, f)}
	switch {
	case f.Staged != nil:
		p.Staged = planStaged(template, f)
	case !f.Policy.IsStaged(): // A template that is being deleted keeps its users as they are.
		p.Unassign = f.Assigned
	}
	return p, nil
}

func action(template *infrav1.WorkspaceTemplate, f *Facts) Action {
	switch {
	case f.Block != nil:
		return Observe
	case template.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer):
		return Hold
	case !template.DeletionTimestamp.IsZero() && len(f.Users) == 0:
		return Release
	}
	return Observe
}
