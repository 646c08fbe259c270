// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package applies

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

// RetainConflict returns, as a message for users, why a WorkspaceTemplateApply with deletionPolicy Retain must not be deleted yet; empty
// when there is no conflict. There is one if the retained cloud resources depend on resources that the deletion of another
// WorkspaceTemplateApply destroys. The other one need not be in deletion: after the deletion of this one, its own deletion would no longer
// be delayed.
//
// Helpers of CAPT v0.3 have no conflict: they are retained because they cannot be rendered, or because the whole AWS account uses their
// resources.
func RetainConflict(apply *infrav1.WorkspaceTemplateApply, others []infrav1.WorkspaceTemplateApply) string {
	if apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain || apply.Status.WorkspaceRef == nil || legacy.HelperRole(apply) != "" {
		return ""
	}
	allowed := strings.Split(apply.Annotations[naming.AllowReleaseFromAnnotation], ",")
	var names, remedies []string
	for _, other := range destroyedDependencies(apply, others) {
		if !slices.Contains(allowed, other.Name) {
			names, remedies = append(names, other.Name), append(remedies, deletionPolicyField(other))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.deletionPolicy of WorkspaceTemplateApply %[1]s is Retain, but the deletion of WorkspaceTemplateApply %[2]s destroys resources that it depends on. "+
		"Set %[3]s to Retain, or spec.deletionPolicy of WorkspaceTemplateApply %[1]s to Delete. To release only %[1]s, set its annotation %[4]s to %[5]s",
		apply.Name, strings.Join(names, ", "), strings.Join(remedies, " and "), naming.AllowReleaseFromAnnotation, strings.Join(names, ","))
}

// warnOfRetainConflict warns of a deletion policy that would block the deletion of the object.
func warnOfRetainConflict(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, spec *field.Path, findings *validation.Findings) error {
	if apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
		return nil
	}
	var others []infrav1.WorkspaceTemplateApply
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		claimants, err := reader.ClaimantsOf(ctx, dependency.Name)
		if err != nil {
			return err
		}
		others = append(others, claimants...)
	}
	if conflict := RetainConflict(apply, others); conflict != "" {
		findings.Warn(spec.Child("deletionPolicy"), "the deletion will be blocked: %s", conflict)
	}
	return nil
}

// destroyedDependencies returns the WorkspaceTemplateApplies of the namespace that a given one waits for and whose deletion destroys their
// cloud resources, sorted by name.
func destroyedDependencies(apply *infrav1.WorkspaceTemplateApply, others []infrav1.WorkspaceTemplateApply) (found []*infrav1.WorkspaceTemplateApply) {
	for i := range others {
		other := &others[i]
		if other.Namespace == apply.Namespace && other.Name != apply.Name && other.Status.WorkspaceRef != nil &&
			other.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain && waitsFor(apply, other) {
			found = append(found, other)
		}
	}
	slices.SortFunc(found, func(a, b *infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// waitsFor reports whether a WorkspaceTemplateApply waits for the Workspace of another one.
func waitsFor(apply, other *infrav1.WorkspaceTemplateApply) bool {
	return other.Spec.WorkspaceName != "" && slices.ContainsFunc(apply.Spec.WaitForWorkspaces, func(dependency infrav1.WorkspaceDependency) bool {
		return dependency.Name == other.Spec.WorkspaceName && apply.DependencyKey(dependency).Namespace == other.Namespace
	})
}

// deletionPolicyField returns the field that sets the deletion policy, for messages. For a VPC it is in the CAPTCluster, which writes the
// WorkspaceTemplateApply.
func deletionPolicyField(apply *infrav1.WorkspaceTemplateApply) string {
	if controller := metav1.GetControllerOf(apply); controller != nil && controller.Kind == "CAPTCluster" {
		return "spec.vpc.template.deletionPolicy of CAPTCluster " + controller.Name
	}
	return "spec.deletionPolicy of WorkspaceTemplateApply " + apply.Name
}
