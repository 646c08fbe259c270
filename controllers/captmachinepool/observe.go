// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// Facts are what a reconcile observed, and the results of its writes.
type Facts struct {
	owner.Observed
	// MachinePool is nil until Cluster API has set the owner reference.
	MachinePool *clusterv1.MachinePool
	// ControlPlane of the Cluster; nil without a Cluster.
	ControlPlane *desired.ControlPlane
	// NodeGroups are those of the Cluster; read before the node group is created.
	NodeGroups []validation.NodeGroup
	// Nodes are the nodes of the node group. WatchNodes is true if this manager reads them, unless the control plane disables that.
	Nodes      nodes.Nodes
	WatchNodes bool
	// Kubeconfig is the kubeconfig Secret, if the nodes are not watched with it yet. NoKubeconfig is true if it does not exist.
	Kubeconfig   *corev1.Secret
	NoKubeconfig bool
}

func (r *Reconciler) observe(ctx context.Context, pool *infrav1.CAPTMachinePool, v engine.GateDecision) (*Facts, error) {
	f := &Facts{
		Observed: r.Observed(pool, v),
		Nodes:    nodes.Nodes{Problem: "the nodes have not been read", Pending: true}, // An empty list would be that of a pool without nodes.
	}
	if err := r.observeOwners(ctx, pool, f); err != nil {
		return nil, err
	}
	f.Paused, f.WatchNodes = desired.Paused(f.PausingCluster(), pool), r.Nodes != nil && !f.probesDisabled()
	d, ref := f.desired(pool), pool.Spec.WorkspaceTemplateApplyRef
	want := claim.ExpectationOfMachinePool(pool, f.eksName(), d.NodeGroupName())
	var err error
	if f.Apply, err = r.Reader(v, f.Paused == "" && d.ControlPlaneReady()).Observe(ctx, pool, ref, want); err != nil {
		return nil, err
	}
	if f.Cluster != nil && f.Apply.MayCreate(pool, f.Paused) {
		if f.NodeGroups, err = r.NodeGroups(ctx, client.ObjectKeyFromObject(f.Cluster)); err != nil {
			return nil, err
		}
	}
	f.Template = r.ObserveTemplate(ctx, pool, pool.Spec.WorkspaceTemplateRef,
		append(validation.MachinePoolFields(&pool.Spec.CAPTMachinePoolTemplateResourceSpec, field.NewPath("spec")), validation.FieldsOfMachinePool(f.MachinePool)...))
	r.ObserveRunning(ownerOf(pool), &f.Observed, infrav1.NodeGroupTimeoutReason)
	if err := r.ObserveEarlier(ctx, ownerOf(pool), &f.Observed, &infrav1.CAPTMachinePoolList{}); err != nil {
		return nil, err
	}
	if err := r.observeNodes(ctx, pool, f); err != nil {
		return nil, err
	}
	return f, r.ObserveDeletion(ctx, &f.Apply, pool, ref)
}

// observeReferring reads the Cluster of the MachinePool that refers to a pool without an owner.
func (r *Reconciler) observeReferring(ctx context.Context, pool *infrav1.CAPTMachinePool, f *Facts) error {
	var list clusterv1.MachinePoolList
	if err := r.Client.List(ctx, &list, client.InNamespace(pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing MachinePools: %w", err)
	}
	for i := range list.Items {
		if claim.PoolOf(&list.Items[i]) != pool.Name {
			continue
		}
		cluster, err := engine.Get(ctx, r.Client, client.ObjectKey{Namespace: pool.Namespace, Name: list.Items[i].Spec.ClusterName}, &clusterv1.Cluster{})
		if err != nil {
			return fmt.Errorf("reading the Cluster of MachinePool %s: %w", list.Items[i].Name, err)
		}
		if cluster != nil {
			f.Clusters = append(f.Clusters, cluster)
		}
	}
	return nil
}

// probesDisabled reports whether CAPT is not meant to connect to the cluster.
func (f *Facts) probesDisabled() bool {
	c := f.ControlPlane
	return c != nil && c.ControlPlane != nil && c.ControlPlane.Spec.EndpointProbe == controlplanev1.EndpointProbeDisabled
}

// mayHaveNodes reports whether the pool reports the nodes of its node group, once that is being created.
func (f *Facts) mayHaveNodes(pool *infrav1.CAPTMachinePool) bool {
	return f.Cluster != nil && f.Apply.Conflict == "" && pool.DeletionTimestamp.IsZero()
}

// observeNodes reads what is known of the nodes, and the kubeconfig Secret if it is not the one that they are watched with.
func (r *Reconciler) observeNodes(ctx context.Context, pool *infrav1.CAPTMachinePool, f *Facts) error {
	switch {
	case !f.WatchNodes || !f.mayHaveNodes(pool):
		return nil
	case f.Apply.Live != nil:
		f.Nodes = r.nodesOf(f)
	case !f.desired(pool).ControlPlaneReady():
		return nil
	}
	cluster, secret := client.ObjectKeyFromObject(f.Cluster), client.ObjectKey{Namespace: pool.Namespace, Name: naming.KubeconfigSecret(f.Cluster.Name)}
	known, err := r.Secrets.Metadata(ctx, secret)
	if err != nil || known != nil && r.Nodes.Tracks(cluster, client.ObjectKeyFromObject(pool), known.ResourceVersion) {
		return err
	}
	if f.Kubeconfig, err = r.ReadSecret(ctx, secret.Namespace, secret.Name); err != nil {
		return err
	}
	if f.NoKubeconfig = f.Kubeconfig == nil; f.NoKubeconfig {
		f.Nodes = nodes.Nodes{Problem: "Secret " + secret.Name + " with the kubeconfig of the cluster does not exist", Pending: true}
	}
	return nil
}

func (r *Reconciler) nodesOf(f *Facts) nodes.Nodes {
	return r.Nodes.NodesOf(client.ObjectKeyFromObject(f.Cluster), f.Apply.Live.Spec.Variables.Text(naming.NodeGroupVariable))
}

// observeOwners reads the MachinePool, the Cluster and its control plane. What is not in the cache is read from the API server, because the caches of
// the kinds are not synchronized.
func (r *Reconciler) observeOwners(ctx context.Context, pool *infrav1.CAPTMachinePool, f *Facts) (err error) {
	if f.MachinePool, err = engine.MachinePoolOf(ctx, r.Client, pool); err != nil {
		return err
	}
	if f.MachinePool == nil {
		if f.MachinePool, err = engine.MachinePoolOf(ctx, r.Uncached, pool); err != nil {
			return err
		}
	}
	if f.MachinePool == nil {
		if err := r.observeReferring(ctx, pool, f); err != nil {
			return err
		}
	}
	of := pool.ObjectMeta
	if f.MachinePool != nil { // Cluster API sets the label of the pool, and users can change it.
		of.Labels = map[string]string{clusterv1.ClusterNameLabel: f.MachinePool.Spec.ClusterName}
	}
	if f.Cluster, err = engine.LabeledCluster(ctx, r.Client, r.Uncached, &of); f.Cluster == nil {
		return err
	}
	f.ControlPlane = &desired.ControlPlane{Cluster: f.Cluster}
	c, err := r.EKSClaim(ctx, f.Cluster)
	if c == nil {
		return err
	}
	if err := r.CompleteObjects(ctx, c, f.Cluster); err != nil {
		return err
	}
	f.ControlPlane = desired.NewControlPlane(c.ControlPlane, f.Cluster, c.CAPTCluster)
	f.ControlPlane.Apply = c.Apply
	return nil
}

// eksName returns the name of the EKS cluster; empty while it is unknown.
func (f *Facts) eksName() string {
	c := f.ControlPlane
	switch {
	case c == nil:
		return ""
	case c.Apply == nil:
		return claim.EKSClusterName(c.ControlPlane, c.Cluster.Name)
	}
	return cmp.Or(c.EKSCluster().EKSName, claim.EKSClusterName(c.ControlPlane, c.Cluster.Name))
}

func (f *Facts) desired(pool *infrav1.CAPTMachinePool) *desired.MachinePool {
	return &desired.MachinePool{
		Pool: pool, MachinePool: f.MachinePool, ControlPlane: f.ControlPlane, Existing: f.Apply.Existing(), Template: &f.Template, NodeGroups: f.NodeGroups,
	}
}
