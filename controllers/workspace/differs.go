// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/controllers/ssa"
)

// Differs reports whether applying the rendered Workspace would change the live one. It is checked before each write, because any write makes
// the provider run a plan.
func (l *Live) Differs(rendered *render.Rendered) bool {
	return ssa.Differs(l.object, l.desired(rendered), naming.WorkspaceTemplateApplyFieldManager)
}

// LostManagedFields reports whether the managedFields of a Workspace that CAPT created for the WorkspaceTemplateApply were lost. CAPT did not
// write an adopted one, so it has none.
func (l *Live) LostManagedFields(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.ClaimedBy(apply) && ssa.ManagedFieldsLost(l.object, naming.WorkspaceTemplateApplyFieldManager)
}

// equals reports whether the Workspace is exactly as rendered, except for defaults. That applying changes nothing does not prove ownership:
// the fewer fields a template has, the more Workspaces it matches.
func (l *Live) equals(rendered *render.Rendered) bool {
	return len(render.Differences(l.object, rendered)) == 0
}

// desired is what to apply to this Workspace. Its external name is the name of its state and is never changed, and an adopted Workspace keeps
// all its metadata.
func (l *Live) desired(rendered *render.Rendered) *unstructured.Unstructured {
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
