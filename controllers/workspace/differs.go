// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/ssa"
	"github.com/capt-provider/capt/controllers/workspace/render"
)

// Differs tells whether applying the rendered Workspace would change the live one. Asking is free; applying is not, since
// any write to a Workspace makes the provider run a plan.
func (l *Live) Differs(rendered *render.Rendered) bool {
	return ssa.Differs(l.object, l.applicable(rendered), naming.WorkspaceTemplateApplyFieldManager)
}

// Disowned reports whether the managedFields of a Workspace that CAPT created for the WorkspaceTemplateApply were lost. One that
// was adopted is never disowned: CAPT did not write it.
func (l *Live) Disowned(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.ClaimedBy(apply) && ssa.ManagedFieldsLost(l.object, naming.WorkspaceTemplateApplyFieldManager)
}

// madeAs tells whether the Workspace is exactly what was rendered, but for what the API server fills in. That applying would
// change nothing is not enough to say whose it is: the less a template says, the more Workspaces it would fit.
func (l *Live) madeAs(rendered *render.Rendered) bool {
	return len(render.Differences(l.object, rendered)) == 0
}

// applicable is what to apply to this Workspace. The external name it has is where its state is, so it is never changed, and
// one that was adopted keeps its metadata altogether.
func (l *Live) applicable(rendered *render.Rendered) *unstructured.Unstructured {
	want := rendered.Object.DeepCopy()
	if name := l.object.GetAnnotations()[render.ExternalNameAnnotation]; name != "" {
		annotate(want, render.ExternalNameAnnotation, name)
	}
	if l.object.GetAnnotations()[naming.ClaimAnnotation] != want.GetAnnotations()[naming.ClaimAnnotation] {
		want.SetAnnotations(nil)
	}
	return want
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	annotations[key] = value
	object.SetAnnotations(annotations)
}
