// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
)

// observeOnly are the managementPolicies of a preview: Terraform plans, and neither applies nor destroys.
func observeOnly() []any { return []any{"Observe"} }

// Preview returns the Workspace that previews the update of a live Workspace to the rendered one. It has the state of the live one and the
// content that it would have after the update, fields of other clients included. It may only observe, and it writes no Secret. It does not
// have the claim, so that it cannot be taken for the Workspace of the WorkspaceTemplateApply.
func (r *Rendered) Preview(live *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) *unstructured.Unstructured {
	key := types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name}
	applied := ssa.Applied(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
	spec, _, _ := unstructured.NestedMap(applied.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, "writeConnectionSecretToRef")
	delete(spec, "publishConnectionDetailsTo")
	spec["managementPolicies"] = observeOnly()
	preview := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	preview.SetGroupVersionKind(live.GroupVersionKind())
	preview.SetNamespace(live.GetNamespace())
	preview.SetName(naming.PreviewWorkspace(key))
	preview.SetLabels(map[string]string{naming.PreviewLabel: "true"})
	preview.SetAnnotations(map[string]string{
		ExternalNameAnnotation:     live.GetAnnotations()[ExternalNameAnnotation],
		naming.PreviewOfAnnotation: naming.Claim(key),
	})
	if live.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		spec["deletionPolicy"] = string(terraform.DeletionOrphan) // It cannot have an owner, either: that has a namespace.
		return preview
	}
	preview.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplateApply", Name: apply.Name, UID: apply.UID,
	}})
	return preview
}

// IsPreview reports whether a live Workspace is exactly a preview that Preview returned, except for defaults, and was never changed. A preview
// of another content is not changed but recreated: the status of the former one would be taken for that of the new one.
func IsPreview(live, preview *unstructured.Unstructured) bool {
	is, want := live.GetAnnotations(), preview.GetAnnotations()
	for _, key := range []string{ExternalNameAnnotation, naming.PreviewOfAnnotation} {
		if is[key] != want[key] || is[key] == "" {
			return false
		}
	}
	_, labeled := live.GetLabels()[naming.PreviewLabel]
	cluster := preview.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind()
	spec, _, _ := unstructured.NestedMap(live.Object, "spec")
	wanted, _, _ := unstructured.NestedMap(preview.Object, "spec")
	return labeled && live.GroupVersionKind() == preview.GroupVersionKind() && live.GetGeneration() <= 1 &&
		equality.Semantic.DeepEqual(withDefaults(spec, cluster), withDefaults(wanted, cluster))
}
