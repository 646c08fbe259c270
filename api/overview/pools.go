// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
)

const machinePoolKind = "MachinePool"

// Pool is a machine pool of a Cluster. An object that does not exist is nil.
type Pool struct {
	MachinePool     *clusterv1.MachinePool
	CAPTMachinePool *infrav1.CAPTMachinePool
}

// PoolsOf pairs MachinePools of a Cluster, except those of other providers, with their CAPTMachinePools. labeled are those that have the label of the
// Cluster; Cluster API sets it later, so get returns others.
func PoolsOf(machinePools []*clusterv1.MachinePool, labeled []*infrav1.CAPTMachinePool, get func(name string) (*infrav1.CAPTMachinePool, error)) (pools []Pool, err error) {
	paired := map[string]bool{}
	for _, machinePool := range machinePools {
		name := claim.PoolOf(machinePool)
		if name == "" {
			continue
		}
		pool := Pool{MachinePool: machinePool}
		if i := slices.IndexFunc(labeled, func(p *infrav1.CAPTMachinePool) bool { return p.Name == name }); i >= 0 {
			pool.CAPTMachinePool = labeled[i]
		} else if pool.CAPTMachinePool, err = get(name); err != nil {
			return nil, err
		}
		paired[name] = true
		pools = append(pools, pool)
	}
	for _, pool := range labeled { // Without a MachinePool, or after its deletion.
		if !paired[pool.Name] {
			pools = append(pools, Pool{CAPTMachinePool: pool})
		}
	}
	slices.SortStableFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Name(), b.Name()) })
	return pools, nil
}

// Name is that of the MachinePool or, without one, of the CAPTMachinePool.
func (p *Pool) Name() string {
	if p.MachinePool != nil {
		return p.MachinePool.Name
	}
	return p.CAPTMachinePool.Name
}

// Nodes are the numbers of nodes of machine pools.
type Nodes struct {
	Ready  *int32 `json:"ready,omitempty"` // Ready is absent if the nodes of a pool are not known.
	Wanted int32  `json:"wanted"`          // Wanted is how many there are meant to be.
}

// String is ready/wanted.
func (n *Nodes) String() string {
	switch {
	case n == nil:
		return ""
	case n.Ready == nil:
		return fmt.Sprintf("?/%d", n.Wanted)
	}
	return fmt.Sprintf("%d/%d", *n.Ready, n.Wanted)
}

// nodes counts the nodes of a pool. Before its node group exists, none is ready.
func (p *Pool) nodes() (n Nodes) {
	if p.MachinePool != nil {
		n.Wanted = ptr.Deref(p.MachinePool.Spec.Replicas, 0)
	}
	if p.CAPTMachinePool == nil {
		n.Ready = new(int32)
		return n
	}
	status := &p.CAPTMachinePool.Status
	n.Wanted = ptr.Deref(status.WantedReplicas, n.Wanted)
	if n.Ready = status.ReadyReplicas; n.Ready == nil && !ptr.Deref(status.Initialization.Provisioned, false) {
		n.Ready = new(int32)
	}
	return n
}

// nodes counts the nodes of all pools; nil without pools.
func (o *Objects) nodes() *Nodes {
	if len(o.Pools) == 0 {
		return nil
	}
	sum := &Nodes{Ready: new(int32)}
	for i := range o.Pools {
		n := o.Pools[i].nodes()
		sum.Wanted += n.Wanted
		if n.Ready == nil || sum.Ready == nil {
			sum.Ready = nil
			continue
		}
		*sum.Ready += *n.Ready
	}
	return sum
}

func (o *Objects) pools() (found []graph.Object) {
	for i := range o.Pools {
		if pool := o.Pools[i].CAPTMachinePool; pool != nil {
			found = append(found, pool)
		}
	}
	return found
}

// lostPool is the cause of a MachinePool that refers to a CAPTMachinePool that does not exist, or that Cluster API does not delete.
func (o *Objects) lostPool(now metav1.Time) *Cause {
	for i := range o.Pools {
		pool := &o.Pools[i]
		if object := pool.MachinePool; object != nil && !o.deleting() && object.DeletionTimestamp != nil && now.Sub(object.DeletionTimestamp.Time) >= reasons.Grace &&
			(pool.CAPTMachinePool == nil || pool.CAPTMachinePool.DeletionTimestamp.IsZero()) {
			return o.waitingForFinalizers(machinePoolKind, object)
		}
		if pool.CAPTMachinePool == nil && pool.MachinePool.DeletionTimestamp.IsZero() && !o.deleting() {
			return &Cause{
				Kind: machinePoolKind, Name: pool.MachinePool.Name, Reason: graph.NotFoundReason, Since: pool.MachinePool.CreationTimestamp,
				Message: fmt.Sprintf("spec.template.spec.infrastructureRef refers to CAPTMachinePool %s, which does not exist. Create it, or correct the reference", claim.PoolOf(pool.MachinePool)),
			}
		}
	}
	return nil
}

// MachinePool is the state of a machine pool of a Cluster.
type MachinePool struct {
	Name    string        `json:"name"`  // Name of the MachinePool or, without one, of the CAPTMachinePool.
	State   infrav1.State `json:"state"` // State of the CAPTMachinePool, as the metrics have it.
	Nodes   Nodes         `json:"nodes"`
	Version string        `json:"version,omitempty"` // Version of Kubernetes that was last applied.
	Message string        `json:"message,omitempty"` // Message of the condition Ready, or of Deleting while it is being deleted.
	Since   *metav1.Time  `json:"since,omitempty"`   // Since is the last transition of this condition.
}

// MachinePools returns the states of the machine pools, sorted by name.
func (o *Objects) MachinePools() (list []MachinePool) {
	for i := range o.Pools {
		pool := &o.Pools[i]
		found := MachinePool{Name: pool.Name(), State: infrav1.StatePending, Nodes: pool.nodes()}
		if own := pool.CAPTMachinePool; own != nil {
			found.State, found.Version = StateOf(own), own.Status.Version
			for _, conditionType := range []string{infrav1.ReadyCondition, infrav1.DeletingCondition} {
				if condition := meta.FindStatusCondition(own.Status.Conditions, conditionType); condition != nil {
					found.Message, found.Since = condition.Message, &condition.LastTransitionTime
				}
			}
		}
		list = append(list, found)
	}
	return list
}

// pool returns the CAPTMachinePool that is the cause; nil if that is another object.
func (o *Objects) pool(cause *Cause) *infrav1.CAPTMachinePool {
	for _, pool := range o.Pools {
		if own := pool.CAPTMachinePool; own != nil && own.Name == cause.Name && cause.Kind == graph.NodeOf(own).Kind {
			return own
		}
	}
	return nil
}

// poolOf returns the CAPTMachinePool of a WorkspaceTemplateApply, which may be nil; nil if it belongs to another object.
func (o *Objects) poolOf(apply *infrav1.WorkspaceTemplateApply) *infrav1.CAPTMachinePool {
	for _, pool := range o.Pools {
		if own := pool.CAPTMachinePool; own != nil && apply != nil && (own.Spec.WorkspaceTemplateApplyRef.Name == apply.Name || metav1.IsControlledBy(apply, own)) {
			return own
		}
	}
	return nil
}

// nextStepForPool is what to do if a CAPTMachinePool is the cause; nil if its message says it.
func nextStepForPool(o *Objects, c *Cluster) *Next {
	pool := o.pool(c.Cause)
	if pool == nil {
		return nil
	}
	edit := fmt.Sprintf("kubectl edit captmachinepool -n %s %s", c.Namespace, c.Cause.Name)
	switch c.Cause.Reason {
	case infrav1.NodesNotReadyReason:
		group := cmp.Or(pool.Spec.NodeGroupName, claim.OwnerMachinePool(pool), pool.Name)
		return &Next{Step: "See why nodes are not ready. For nodes that have not joined the cluster, look at the health of the node group in AWS; the last command creates one again that was deleted there.", Commands: []string{fmt.Sprintf(
			"clusterctl get kubeconfig %s -n %s > %[1]s.kubeconfig && kubectl --kubeconfig %[1]s.kubeconfig describe nodes -l eks.amazonaws.com/nodegroup=%[3]s", c.Name, c.Namespace, group), fmt.Sprintf("captctl run %s/%s", c.Namespace, c.Name)}}
	case infrav1.ReplicasOutOfBoundsReason:
		return &Next{Step: "Scale the MachinePool, or change the limits of its size.", Commands: []string{edit}}
	case infrav1.InvalidScalingReason:
		return &Next{Step: "Correct the limits of the size.", Commands: []string{edit}}
	case infrav1.InvalidVersionReason:
		return &Next{Step: "Correct the version, or upgrade the control plane first.", Commands: []string{fmt.Sprintf("kubectl edit machinepool -n %s %s", c.Namespace, cmp.Or(claim.OwnerMachinePool(pool), pool.Name))}}
	}
	return nil
}
