// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
)

// observe is the management policy with which the provider only plans.
const observe = "Observe"

// jsonArg makes terraform plan print JSON.
const jsonArg = "-json"

// Preview returns the Workspace that previews the update of a live Workspace to the rendered one, and the hash of its spec. It has the state of
// the live one and the content that it would have after the update, fields of other clients included. It may only observe, and it writes no
// Secret. It does not have the claim, so that it cannot be taken for the Workspace of the WorkspaceTemplateApply. It plans without -json, as
// the provider does not keep errors in JSON. Without a live Workspace, it previews the creation of one.
func (r *Rendered) Preview(live *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) (*Rendered, error) {
	if live == nil {
		return previewOf(r.Object, r.Object, apply)
	}
	return previewOf(live, ssa.Applied(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager), apply)
}

// PreviewOf is Preview for the content that the live Workspace has.
func PreviewOf(live *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) (*Rendered, error) {
	return previewOf(live, live, apply)
}

func previewOf(live, content *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) (*Rendered, error) {
	key := naming.KeyOf(apply)
	spec, _, err := unstructured.NestedMap(content.Object, "spec")
	if err != nil || spec == nil {
		return nil, fmt.Errorf("the Workspace has no valid spec: %w", err)
	}
	delete(spec, "writeConnectionSecretToRef")
	delete(spec, "publishConnectionDetailsTo")
	spec["managementPolicies"] = []any{observe} // Terraform plans, and neither applies nor destroys.
	preview := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	preview.SetGroupVersionKind(live.GroupVersionKind())
	preview.SetNamespace(live.GetNamespace())
	scope := terraform.ScopeNamespaced
	if live.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		scope = terraform.ScopeCluster
		spec["deletionPolicy"] = string(terraform.DeletionOrphan)
	} else { // A cluster-wide object cannot have an owner with a namespace.
		preview.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplateApply", Name: apply.Name, UID: apply.UID,
		}})
	}
	preview.SetName(naming.PreviewWorkspace(scope, apply))
	revision, err := terraform.Revision(spec)
	if err != nil {
		return nil, err
	}
	if err := setPlanArgs(preview, slices.DeleteFunc(planArgs(preview), func(arg string) bool { return arg == jsonArg })); err != nil {
		return nil, err
	}
	preview.SetLabels(map[string]string{naming.PreviewLabel: "true"})
	preview.SetAnnotations(map[string]string{
		ExternalNameAnnotation:           cmp.Or(live.GetAnnotations()[ExternalNameAnnotation], live.GetName()),
		naming.PreviewOfAnnotation:       naming.Claim(key),
		naming.PreviewRevisionAnnotation: revision,
	})
	return &Rendered{Object: preview, Revision: revision}, nil
}

func planArgs(workspace *unstructured.Unstructured) []string {
	args, _, _ := unstructured.NestedStringSlice(workspace.Object, "spec", "forProvider", "planArgs") // Others than strings are rejected.
	return args
}

func setPlanArgs(workspace *unstructured.Unstructured, args []string) error {
	if len(args) == 0 {
		unstructured.RemoveNestedField(workspace.Object, "spec", "forProvider", "planArgs")
		return nil
	}
	return unstructured.SetNestedStringSlice(workspace.Object, args, "spec", "forProvider", "planArgs")
}

// LogsPlan reports whether the provider logs what a preview would change.
func LogsPlan(preview *unstructured.Unstructured) bool {
	return slices.Contains(planArgs(preview), jsonArg)
}

// WithLog returns the form of a preview whose plan the provider logs, without values. It has the same hash: the content is the same.
func (r *Rendered) WithLog() *Rendered {
	logged := &Rendered{Object: r.Object.DeepCopy(), Revision: r.Revision}
	if setPlanArgs(logged.Object, append(planArgs(r.Object), jsonArg)) != nil ||
		unstructured.SetNestedField(logged.Object.Object, true, "spec", "forProvider", "enableTerraformCLILogging") != nil {
		return r // It has no valid forProvider, and the API server rejects it.
	}
	return logged
}

// IsUnchanged reports whether a live preview is as it was created, in either form, except for defaults, and may only observe. The generation
// also shows changes that were reverted: the status may be about them.
func (r *Rendered) IsUnchanged(live *unstructured.Unstructured) bool {
	if LogsPlan(live) && !LogsPlan(r.Object) {
		r = r.WithLog()
	}
	_, writes, _ := unstructured.NestedMap(live.Object, "spec", "writeConnectionSecretToRef")
	return live.GetGeneration() <= 1 && OnlyObserves(live) && !writes &&
		!ssa.Differs(live, r.Object, "") // Annotations that CAPT adds later do not count.
}

// OnlyObserves reports whether the provider can neither apply a Workspace nor destroy its resources.
func OnlyObserves(workspace *unstructured.Unstructured) bool {
	policies, _, err := unstructured.NestedStringSlice(workspace.Object, "spec", "managementPolicies")
	return err == nil && slices.Equal(policies, []string{observe})
}

// OnlyObserve makes a Workspace one that the provider can neither apply nor destroy.
func OnlyObserve(workspace *unstructured.Unstructured) error {
	if workspace.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		if err := unstructured.SetNestedField(workspace.Object, string(terraform.DeletionOrphan), "spec", "deletionPolicy"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedStringSlice(workspace.Object, []string{observe}, "spec", "managementPolicies")
}
