// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace"
)

// clusterctl move creates objects in another cluster and deletes them here. If a WorkspaceTemplateApply is moved without its Workspace, or
// both while Terraform works, two providers use the same state. So each object with a Workspace has the annotation that blocks
// clusterctl move, until it is paused and its Workspace is at rest. The annotation is not set again before the object is unpaused: clusterctl
// checks it before it moves.
//
// The value of the annotation is what the move waits for. It does not change while the object is paused: clusterctl discovers objects
// before it pauses them, so only the state before the pause counts.
const (
	blockUntilPaused  = "until-paused"
	blockUntilLabeled = "until-labeled"
	blockUntilManual  = "by-hand"
)

// moveBlock is the value that the annotation should have. clusterctl moves Workspaces only when their definition is labeled, because
// they have no owner, and moves cluster-wide ones of all namespaces.
func (r *Reconciler) moveBlock(ctx context.Context, f *Facts) (string, error) {
	switch {
	case f.desired().ClusterWide():
		return blockUntilManual, nil
	case f.Live == nil && f.Template == nil:
		return blockUntilLabeled, nil // No Workspace can be created.
	}
	movable, err := r.Workspaces.IsMovable(ctx, terraform.ScopeNamespaced)
	switch {
	case err != nil && !errors.Is(err, workspace.ErrKindMissing):
		return "", err
	case !movable:
		return blockUntilLabeled, nil
	}
	return blockUntilPaused, nil
}

func (r *Reconciler) observeMove(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	if f.MoveBlock, err = r.moveBlock(ctx, f); err != nil || !f.moveRequested(apply) {
		return err
	}
	bindings := &metav1.PartialObjectMetadataList{}
	bindings.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBindingList"))
	if err := r.Uncached.List(ctx, bindings, movePolicyLabels()); err != nil {
		return fmt.Errorf("looking up the policy for moved Workspaces: %w", err)
	}
	f.MovePolicyMissing = len(bindings.Items) == 0
	return nil
}

// movePolicyLabels select the binding of the policy for moved Workspaces. Between the writes of clusterctl a Workspace has neither external
// name nor finalizer, and without the policy a running provider would create or destroy resources.
func movePolicyLabels() client.MatchingLabels {
	return client.MatchingLabels{naming.PolicyLabel: "moved-workspaces"}
}

// pausedForMove reports whether the object is paused as clusterctl move does it: by its Cluster. An object without a Cluster must be paused by
// the user before it is moved.
func pausedForMove(cluster *clusterv1.Cluster, apply *infrav1.WorkspaceTemplateApply) bool {
	if cluster == nil {
		return annotations.HasPaused(apply)
	}
	return ptr.Deref(cluster.Spec.Paused, false)
}

// blocksMove reports whether the object has the annotation that blocks clusterctl move.
func blocksMove(apply *infrav1.WorkspaceTemplateApply) bool {
	_, ok := apply.Annotations[clusterctlv1.BlockMoveAnnotation]
	return ok
}

// moveRequested reports whether clusterctl move may be waiting.
func (f *Facts) moveRequested(apply *infrav1.WorkspaceTemplateApply) bool {
	return f.PausedForMove && blocksMove(apply)
}

// isProtected reports whether the object has the finalizer and the annotations that protect its Workspace.
func (f *Facts) isProtected(apply *infrav1.WorkspaceTemplateApply) bool {
	return controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer) &&
		blocksMove(apply) && apply.Annotations[clusterctlv1.BlockMoveAnnotation] == f.MoveBlock &&
		apply.Annotations[naming.ExternalNameAnnotation] != "" && apply.Annotations[naming.TerraformStateAnnotation] == f.StateRecord
}

// moveBlockedBy reports why the object must not be moved now, and what to do; empty when it may be moved.
func (f *Facts) moveBlockedBy(apply *infrav1.WorkspaceTemplateApply) string {
	const unpause = "set spec.paused of the Cluster to false" // clusterctl leaves the pause when it is stopped.
	ref := apply.Status.WorkspaceRef
	switch {
	case f.KindMissing:
		return f.kindMissingMessage()
	case f.Preview.Live != nil:
		return "its preview is being deleted"
	case f.Live == nil && ref == nil:
		return "" // Nothing was created.
	case f.Live == nil:
		return fmt.Sprintf("Workspace %s does not exist", ref.Name)
	case f.Ownership != render.Owned:
		return conflict(f).Message
	case f.MovePolicyMissing:
		return "ValidatingAdmissionPolicyBinding capt-moved-workspaces, which protects moved Workspaces from provider-terraform, is not installed. Install all manifests of CAPT"
	case f.MoveBlock == blockUntilManual:
		return fmt.Sprintf("Workspace %s is cluster-wide, and clusterctl cannot move it. Move it manually as described in docs/move.md", f.Name)
	case f.MoveBlock == blockUntilLabeled:
		return fmt.Sprintf("clusterctl would not move Workspace %s, because its CustomResourceDefinition had no clusterctl labels. To move it, stop clusterctl, %s, then run kubectl label crd %s %s= %s= and start the move again",
			f.Name, unpause, workspace.DefinitionOf(f.Live.Scope()), clusterctlv1.ClusterctlLabel, clusterctlv1.ClusterctlMoveHierarchyLabel)
	case apply.Annotations[clusterctlv1.BlockMoveAnnotation] != blockUntilPaused:
		return fmt.Sprintf("Workspace %s could not be moved yet when clusterctl listed the objects. To move it, stop clusterctl, %s, and start the move again", f.Name, unpause)
	}
	if o := f.Observation(); !o.UpToDate {
		return fmt.Sprintf("Workspace %s is not up to date (%s). See its conditions Ready and Synced", f.Name, o.Reason)
	}
	return ""
}
