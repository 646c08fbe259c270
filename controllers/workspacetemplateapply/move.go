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

// clusterctl move creates objects in another cluster and deletes them here. Whoever moves a WorkspaceTemplateApply without its
// Workspace, or both while Terraform works, gets two providers at the same state. So each one that has a Workspace keeps
// clusterctl waiting, by its annotation for that, until it is paused and nothing can go wrong. Once the annotation is away,
// it is not put back before the object goes on: clusterctl asks in one moment and moves in the next.
//
// The annotation says until when. It is not changed while the object is paused: clusterctl first looks at what there is to move,
// and pauses afterwards, so that only what was so before the pause counts.
const (
	untilPaused   = "until-paused"
	untilLabelled = "until-labelled"
	untilByHand   = "by-hand"
)

// block is what the annotation should be. clusterctl takes Workspaces along only when their definition is labelled, since they
// have no owner. What is cluster-wide it takes along from all namespaces, and leaves here, too.
func (r *Reconciler) block(ctx context.Context, f *Facts) (string, error) {
	switch {
	case f.clusterWide():
		return untilByHand, nil
	case f.Live == nil && f.Template == nil:
		return untilLabelled, nil // Nothing can be made.
	}
	moved, err := r.Workspaces.Moved(ctx, terraform.ScopeNamespaced)
	switch {
	case err != nil && !errors.Is(err, workspace.ErrKindMissing):
		return "", err
	case !moved:
		return untilLabelled, nil
	}
	return untilPaused, nil
}

func (r *Reconciler) observeMove(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	if f.Block, err = r.block(ctx, f); err != nil || !f.asked(apply) {
		return err
	}
	f.Unguarded, err = r.unguarded(ctx)
	return err
}

// movePolicy is the label of the policy of config/policy for Workspaces that are moved. Between clusterctl's writes a Workspace has
// neither its external name nor its finalizer, and without the policy a provider that still runs would create or destroy something.
var movePolicy = client.MatchingLabels{naming.PolicyLabel: "moved-workspaces"}

// unguarded reports whether the policy is missing.
func (r *Reconciler) unguarded(ctx context.Context) (bool, error) {
	bindings := &metav1.PartialObjectMetadataList{}
	bindings.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBindingList"))
	if err := r.Uncached.List(ctx, bindings, movePolicy); err != nil {
		return false, fmt.Errorf("looking for the policy that guards a move: %w", err)
	}
	return len(bindings.Items) == 0, nil
}

// decidePaused is what may be done to a paused object: nothing but to let it be moved.
func decidePaused(apply *infrav1.WorkspaceTemplateApply, f *Facts) Action {
	if f.asked(apply) && f.unmovable(apply) == "" {
		return LetMove
	}
	return Observe
}

// frozen tells whether the object is paused in the way that clusterctl does it. It pauses Clusters; the pause of a single object
// of a Cluster has other reasons. Who has no Cluster must be paused by hand before it can be moved.
func frozen(cluster *clusterv1.Cluster, apply *infrav1.WorkspaceTemplateApply) bool {
	if cluster == nil {
		return annotations.HasPaused(apply)
	}
	return ptr.Deref(cluster.Spec.Paused, false)
}

// blocked tells whether clusterctl is kept from moving the object.
func blocked(apply *infrav1.WorkspaceTemplateApply) bool {
	_, ok := apply.Annotations[clusterctlv1.BlockMoveAnnotation]
	return ok
}

// asked tells whether it has to be found out if the object may be moved.
func (f *Facts) asked(apply *infrav1.WorkspaceTemplateApply) bool { return f.Frozen && blocked(apply) }

// held tells whether everything is on the object that protects its Workspace.
func (f *Facts) held(apply *infrav1.WorkspaceTemplateApply) bool {
	return controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer) &&
		blocked(apply) && apply.Annotations[clusterctlv1.BlockMoveAnnotation] == f.Block &&
		apply.Annotations[naming.ExternalNameAnnotation] != ""
}

// externalName is that of the Workspace, or that which it is about to get.
func (f *Facts) externalName() string {
	if f.Live != nil && f.Live.ExternalName() != "" {
		return f.Live.ExternalName()
	}
	if f.Rendered != nil {
		return f.Rendered.Object.GetAnnotations()[render.ExternalNameAnnotation]
	}
	return f.Name // What the provider calls the state of a Workspace that says nothing else.
}

// unmovable says why the object must not be moved now, and what to do about it; empty when it may.
func (f *Facts) unmovable(apply *infrav1.WorkspaceTemplateApply) string {
	ref := apply.Status.WorkspaceRef
	switch {
	case f.KindMissing:
		return f.kindMissingMessage()
	case f.Live == nil && ref == nil:
		return "" // Nothing was made yet.
	case f.Live == nil:
		return fmt.Sprintf("Workspace %s is gone", ref.Name)
	case f.Ownership != workspace.Owned:
		return conflict(apply, f).Message
	case f.Unguarded:
		return "ValidatingAdmissionPolicyBinding capt-moved-workspaces is not installed, which keeps provider-terraform away from what is moved; install all of CAPT's manifests"
	case f.Block == untilByHand:
		return fmt.Sprintf("Workspace %s is cluster-wide, and clusterctl can not move it; move it by hand, see docs/move.md", f.Name)
	case f.Block == untilLabelled:
		return fmt.Sprintf("it would leave Workspace %s behind. Stop clusterctl, %s, then run kubectl label crd %s %s= %s= and start the move again",
			f.Name, unpause, workspace.DefinitionOf(f.Live.Scope()), clusterctlv1.ClusterctlLabel, clusterctlv1.ClusterctlMoveHierarchyLabel)
	case apply.Annotations[clusterctlv1.BlockMoveAnnotation] != untilPaused:
		return fmt.Sprintf("it looked for what to move before it was allowed to move Workspace %s. Stop clusterctl, %s, and start the move again", f.Name, unpause)
	}
	if o := f.Observation(); !o.UpToDate {
		return fmt.Sprintf("Workspace %s is not at rest (%s), see the conditions Ready and Synced", f.Name, o.Reason)
	}
	return ""
}

// unpause is what takes the pause of clusterctl back, which it leaves when it is stopped.
const unpause = `set spec.paused of the Cluster to false`

// whyPaused says why the object is paused, and what keeps clusterctl from moving it.
func (f *Facts) whyPaused(apply *infrav1.WorkspaceTemplateApply) string {
	if f.asked(apply) {
		if why := f.unmovable(apply); why != "" {
			return f.Paused + "; clusterctl move waits: " + why
		}
	}
	return f.Paused
}
