// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
)

// For returns what to apply to a live Workspace. Its external name is the name of its state and is never changed, and an adopted Workspace
// keeps all its metadata.
func (r *Rendered) For(live *unstructured.Unstructured) *unstructured.Unstructured {
	want := r.Object.DeepCopy()
	annotations, claim := live.GetAnnotations(), want.GetAnnotations()[naming.ClaimAnnotation]
	switch name := annotations[ExternalNameAnnotation]; {
	case annotations[naming.ClaimAnnotation] != claim:
		want.SetAnnotations(nil)
	case name != "":
		want.SetAnnotations(map[string]string{ExternalNameAnnotation: name, naming.ClaimAnnotation: claim})
	}
	return want
}

// ReferenceTo returns a reference to a live Workspace, for status.
func ReferenceTo(live *unstructured.Unstructured) *infrav1.WorkspaceReference {
	return &infrav1.WorkspaceReference{
		APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName(), Namespace: live.GetNamespace(), UID: live.GetUID(),
		ExternalName: live.GetAnnotations()[ExternalNameAnnotation],
	}
}

// SpecOf returns the spec of a live Workspace.
func SpecOf(live *unstructured.Unstructured) (*terraform.WorkspaceSpec, error) {
	spec, _ := live.Object["spec"].(map[string]any)
	typed := &terraform.WorkspaceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, typed); err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", live.GetName(), err)
	}
	return typed, nil
}

// Differs reports whether applying the rendered Workspace would change the live one.
func (r *Rendered) Differs(live *unstructured.Unstructured) bool {
	return ssa.Differs(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
}

// Changes returns the fields of spec that applying the rendered Workspace would change, sorted by path. In contrast to Differences, fields
// that other clients set and that are not rendered are kept, and are not returned.
func (r *Rendered) Changes(live *unstructured.Unstructured) []Difference {
	applied := ssa.Applied(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
	before, _, _ := unstructured.NestedMap(live.Object, "spec")
	after, _, _ := unstructured.NestedMap(applied.Object, "spec")
	return differences("spec", before, after)
}

// Content returns the fields of spec of a new Workspace, as differences from nothing.
func (r *Rendered) Content() []Difference {
	spec, _, _ := unstructured.NestedMap(r.Object.Object, "spec")
	return differences("spec", map[string]any{"forProvider": map[string]any{}}, spec)
}
