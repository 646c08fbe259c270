// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// Facts are what a reconcile observed.
type Facts struct {
	owner.Observed
	// ControlPlanes are the names of the Cluster's control planes that still exist; read only while the CAPTCluster is being deleted.
	ControlPlanes []string
	// KeepVPC is true when status.vpc.id must not be overwritten: a control plane was created in that VPC. It is observed only when Terraform
	// reports another VPC.
	KeepVPC bool
	// EKS is the control plane of the Cluster, and OtherClaims are those that may have its EKS cluster; read before the VPC is created.
	EKS         *validation.EKSClaim
	OtherClaims []validation.EKSClaim
}

func (r *Reconciler) observe(ctx context.Context, captCluster *infrav1.CAPTCluster, v engine.GateDecision) (*Facts, error) {
	observed, err := r.ObserveClusters(ctx, captCluster, v)
	if err != nil {
		return nil, err
	}
	f := &Facts{Observed: observed}
	if !captCluster.DeletionTimestamp.IsZero() {
		if f.ControlPlanes, err = r.existingControlPlanes(ctx, captCluster, f.Cluster); err != nil {
			return nil, err
		}
	}
	f.Apply = owner.Facts{Block: v.Block, Held: v.Block != nil}
	if captCluster.Spec.VPC.Template.IsDefined() {
		if err := r.observeVPC(ctx, captCluster, f); err != nil {
			return nil, err
		}
	}
	if f.KeepVPC, err = r.observeReplacement(ctx, captCluster, f); err != nil {
		return nil, err
	}
	return f, r.ObserveDeletion(ctx, &f.Apply, captCluster, captCluster.Spec.WorkspaceTemplateApplyRef)
}

func (r *Reconciler) observeVPC(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts) (err error) {
	if f.EKS, err = r.EKSClaim(ctx, f.Cluster); err != nil {
		return err
	}
	name := f.ClusterName(captCluster)
	if f.EKS != nil {
		name = claim.EKSClusterName(f.EKS.ControlPlane, name)
	}
	spec, want := &captCluster.Spec, claim.ExpectationOfCAPTCluster(captCluster, name)
	f.Apply, err = r.Reader(f.GateDecision, f.Cluster != nil && f.Paused == "").Observe(ctx, captCluster, spec.WorkspaceTemplateApplyRef, want)
	f.Template = r.ObserveTemplate(ctx, captCluster, spec.VPC.Template.Ref, validation.VPCFields(&spec.CAPTClusterTemplateResourceSpec, field.NewPath("spec")))
	r.ObserveRunning(ownerOf(captCluster), &f.Observed, infrav1.VPCReadyTimeoutReason)
	if err == nil {
		err = r.ObserveEarlier(ctx, ownerOf(captCluster), &f.Observed, &infrav1.CAPTClusterList{})
	}
	if err == nil && f.EKS != nil && f.Apply.MayCreate(captCluster, f.Paused) {
		if err = r.CompleteClaim(ctx, f.EKS, f.Cluster); err == nil {
			f.OtherClaims, err = r.OtherClaims(ctx, f.EKS.ControlPlane, name)
		}
	}
	return err
}

// observeReplacement reports whether a control plane was created in the VPC that status records, although Terraform reports another one. What
// was recorded without a generation does not count.
func (r *Reconciler) observeReplacement(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts) (bool, error) {
	status := &captCluster.Status
	if f.Cluster == nil || status.ObservedGeneration == 0 || !isID(status.VPC.ID) || vpcID(captCluster, f) == status.VPC.ID {
		return false, nil
	}
	if f.Cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" {
		return true, nil // What else was created in it is not known.
	}
	names, err := r.existingControlPlanes(ctx, captCluster, f.Cluster)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if created, err := r.isCreated(ctx, client.ObjectKey{Namespace: captCluster.Namespace, Name: name}); created || err != nil {
			return created, err
		}
	}
	return false, nil
}

// isCreated reports whether the WorkspaceTemplateApply of a control plane exists, or may exist. It reads from the API server: a control plane that was
// created a moment ago must not be missed.
func (r *Reconciler) isCreated(ctx context.Context, key client.ObjectKey) (bool, error) {
	controlPlane, err := engine.Get(ctx, r.Uncached, key, &controlplanev1.CAPTControlPlane{})
	if controlPlane == nil {
		return false, err
	}
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	if !ref.IsDefined() {
		return claim.ExpectationOfControlPlane(controlPlane, "").ProvisionedField != "", nil
	}
	apply, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: key.Namespace, Name: ref.Name}, &infrav1.WorkspaceTemplateApply{})
	return apply != nil, err
}

// existingControlPlanes returns the names of the Cluster's CAPTControlPlanes that still exist. It finds them by the reference of the Cluster
// and, if the Cluster no longer exists, by label: a namespace may have a thousand others. Control planes of other providers are ignored,
// because Cluster API deletes the infrastructure after the control plane.
func (r *Reconciler) existingControlPlanes(ctx context.Context, captCluster *infrav1.CAPTCluster, cluster *clusterv1.Cluster) (names []string, err error) {
	if clusterName := captCluster.Labels[clusterv1.ClusterNameLabel]; clusterName != "" {
		var list controlplanev1.CAPTControlPlaneList
		labeled := client.MatchingLabels{clusterv1.ClusterNameLabel: clusterName}
		if err := r.Uncached.List(ctx, &list, client.InNamespace(captCluster.Namespace), labeled); err != nil && !engine.Absent(err) { // Their CRD may not be installed.
			return nil, fmt.Errorf("listing CAPTControlPlanes: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	if cluster == nil || cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" || slices.Contains(names, cluster.Spec.ControlPlaneRef.Name) {
		return names, nil
	}
	key := client.ObjectKey{Namespace: captCluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}
	referred, err := engine.Get(ctx, r.Uncached, key, &controlplanev1.CAPTControlPlane{})
	if err != nil {
		return nil, fmt.Errorf("reading CAPTControlPlane %s: %w", key.Name, err)
	}
	if referred != nil {
		names = append(names, referred.Name)
		slices.Sort(names)
	}
	return names, nil
}
