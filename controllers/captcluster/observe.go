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

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// Facts are everything a decision about a CAPTCluster rests on.
type Facts struct {
	// Cluster is nil until Cluster API made it the owner.
	Cluster *clusterv1.Cluster
	// Paused says why the object is paused; empty when it is not.
	Paused string
	// Apply is the WorkspaceTemplateApply of the VPC.
	Apply owner.Facts
	// Template is the WorkspaceTemplate of the VPC.
	Template owner.TemplateFacts
	// ControlPlanes are those of the Cluster that still exist; looked up only while the CAPTCluster is being deleted.
	ControlPlanes []string
}

func (r *Reconciler) observe(ctx context.Context, captCluster *infrav1.CAPTCluster) (*Facts, error) {
	cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, captCluster.ObjectMeta)
	if err != nil && !engine.Absent(err) {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	f := &Facts{Cluster: cluster, Paused: engine.Paused(cluster, captCluster)}
	if !captCluster.DeletionTimestamp.IsZero() {
		if f.ControlPlanes, err = r.controlPlanes(ctx, captCluster, cluster); err != nil {
			return nil, err
		}
	}
	observe := r.observePartner
	if captCluster.Spec.VPC.Template.IsDefined() {
		observe = r.observeApply
	}
	if err := observe(ctx, captCluster, f); err != nil {
		return nil, err
	}
	return f, f.Apply.ObserveDeletion(ctx, r.Client, captCluster, captCluster.Spec.WorkspaceTemplateApplyRef)
}

// observePartner finds out what a CAPTCluster with an existing VPC is adopted with: it has no WorkspaceTemplateApply, so that the
// control plane of the Cluster tells whether the cluster was adopted.
func (r *Reconciler) observePartner(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts) error {
	if f.Cluster == nil || f.Cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" || !captCluster.DeletionTimestamp.IsZero() ||
		!adoption.LegacyStatus(captCluster.Status.ObservedGeneration, captCluster.Status.Conditions) {
		return nil
	}
	key := client.ObjectKey{Namespace: captCluster.Namespace, Name: f.Cluster.Spec.ControlPlaneRef.Name}
	controlPlane, err := engine.Get(ctx, r.Client, key, &controlplanev1.CAPTControlPlane{})
	if err != nil {
		return fmt.Errorf("reading CAPTControlPlane %s: %w", key.Name, err)
	}
	if controlPlane == nil {
		return nil
	}
	of, err := owner.Observe(ctx, r.Client, r.Uncached, controlPlane, controlPlane.Spec.WorkspaceTemplateApplyRef, adoption.OfControlPlane(controlPlane, f.Cluster.Name))
	if of.AwaitsAdoption {
		f.Apply.Partner, f.Apply.AwaitsAdoption = "CAPTControlPlane "+key.Name, true
	}
	return err
}

// observeApply looks for the WorkspaceTemplateApply of the VPC, and says what it should be.
func (r *Reconciler) observeApply(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts) (err error) {
	clusterName := captCluster.Labels[clusterv1.ClusterNameLabel]
	if f.Cluster != nil {
		clusterName = f.Cluster.Name
	}
	template, ref := captCluster.Spec.VPC.Template, captCluster.Spec.WorkspaceTemplateApplyRef
	want := adoption.OfCAPTCluster(captCluster, clusterName)
	f.Apply, err = owner.Observe(ctx, r.Client, r.Uncached, captCluster, ref, want)
	f.Template = owner.ObserveTemplate(ctx, workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace},
		template.Ref.Key(captCluster.Namespace), captCluster.Namespace, consumption.VPCFields(&captCluster.Spec.CAPTClusterTemplateResourceSpec, field.NewPath("spec")))
	if err == nil && decide(captCluster, f) == Provision {
		err = f.Apply.Confirm(ctx, r.Uncached, captCluster, ref, want)
	}
	if err != nil || clusterName == "" || f.Apply.Undecided() || f.Apply.Claimed != "" || f.blocked(captCluster) != nil {
		return err
	}
	name := want.SchemeName
	if ref.IsDefined() {
		name = ref.Name
	}
	return f.Apply.Desire(r.Client, owner.Want{
		Owner: captCluster, ClusterName: clusterName, Name: name, Template: template.Ref,
		Intent:         adoption.VPCIntent(captCluster, clusterName),
		DeletionPolicy: template.DeletionPolicy,
	})
}

// controlPlanes returns the names of the Cluster's CAPTControlPlanes that still exist: by the reference of the Cluster, and
// by label, for the case that the Cluster is gone already. Control planes of other providers are left to Cluster API, which
// deletes the infrastructure last. A namespace may hold a thousand others: the API server is not asked for all of them.
func (r *Reconciler) controlPlanes(ctx context.Context, captCluster *infrav1.CAPTCluster, cluster *clusterv1.Cluster) (names []string, err error) {
	if clusterName := captCluster.Labels[clusterv1.ClusterNameLabel]; clusterName != "" {
		var list controlplanev1.CAPTControlPlaneList
		labelled := client.MatchingLabels{clusterv1.ClusterNameLabel: clusterName}
		if err := r.Uncached.List(ctx, &list, client.InNamespace(captCluster.Namespace), labelled); err != nil && !engine.Absent(err) { // Their definition may be gone.
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
