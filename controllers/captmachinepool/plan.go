// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"cmp"
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

// plan decides what to do. It is pure.
func plan(pool *infrav1.CAPTMachinePool, f *Facts) (*owner.Plan, error) {
	in := owner.PlanInput{Owner: ownerOf(pool)}
	if f.MachinePool != nil {
		in.Owner.Sources = append(in.Owner.Sources, owner.Source{Object: f.MachinePool, Kind: clusterv1.GroupVersion.WithKind("MachinePool")})
	}
	if c := f.ControlPlane; c != nil && c.ControlPlane != nil { // It has the version of a MachinePool without one.
		in.Owner.Sources = append(in.Owner.Sources, owner.Source{Object: c.ControlPlane, Kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane")})
	}
	p, err := f.Observed.Plan(in, f.desired(pool), infrav1.NodeGroupReadyCondition)
	p.Recovery = f.Recover(&p, func() recovery.Failure { return p.Failing(f.timeout(pool)) }, p.Ready(), nil)
	return &p, err
}

func ownerOf(pool *infrav1.CAPTMachinePool) owner.Owner {
	return owner.Owner{
		Object: pool, Kind: infrav1.GroupVersion.WithKind("CAPTMachinePool"), Ref: &pool.Spec.WorkspaceTemplateApplyRef,
		Finalizer: infrav1.CAPTMachinePoolFinalizer, FieldManager: naming.CAPTMachinePoolFieldManager, Creates: "the node group", Strategy: pool.Spec.Recovery,
		Timeouts: pool.Spec.Timeouts.WaitTimeouts,
	}
}

// reconcileNodeGroup holds, provisions, destroys or releases the WorkspaceTemplateApply of the node group.
func (r *Reconciler) reconcileNodeGroup(ctx context.Context, _ *infrav1.CAPTMachinePool, _ *Facts, p *owner.Plan) error {
	return p.Act(ctx, r.Client, r.Uncached, nil)
}

func (r *Reconciler) reconcileRecovery(ctx context.Context, _ *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) error {
	return r.ReconcileRecovery(&f.Observed, p, func() (string, error) { return "", r.RunAgain(ctx, &p.Recovery, p.Live) })
}

// reconcileNodes starts or ends the watch of the nodes, and adds what it knows to the facts.
func (r *Reconciler) reconcileNodes(_ context.Context, pool *infrav1.CAPTMachinePool, f *Facts, _ *owner.Plan) error {
	key := client.ObjectKeyFromObject(pool)
	switch {
	case !f.WatchNodes, !f.mayHaveNodes(pool), f.Apply.Live == nil, f.NoKubeconfig:
		r.releaseNodes(key)
	case f.Kubeconfig != nil:
		r.Nodes.Track(client.ObjectKeyFromObject(f.Cluster), key, f.Kubeconfig.ResourceVersion, f.Kubeconfig.Data["value"])
		f.Nodes = r.nodesOf(f)
	}
	return nil
}

func (r *Reconciler) releaseNodes(key client.ObjectKey) {
	if r.Nodes != nil {
		r.Nodes.Release(key)
	}
}

// nodesKnown reports whether the nodes were read in this reconcile.
func (f *Facts) nodesKnown() bool { return f.WatchNodes && f.Nodes.Problem == "" }

// publishNodes writes the provider IDs. They stay as they are while the nodes are not known: Cluster API deletes the Nodes that are not among them.
func (r *Reconciler) publishNodes(ctx context.Context, pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) error {
	if !f.publishes(pool, p) {
		return nil
	}
	return engine.Patch(ctx, r.Client, pool, func() {
		if arn := p.Live.Status.Outputs[terraform.OutputNodeGroupARN]; !terraform.HasNoValue(arn) {
			pool.Spec.ProviderID = arn
		}
		if f.nodesKnown() {
			pool.Spec.ProviderIDList = nil
			for _, node := range f.Nodes.List {
				if node.ProviderID != "" && len(pool.Spec.ProviderIDList) < maxProviderIDs {
					pool.Spec.ProviderIDList = append(pool.Spec.ProviderIDList, node.ProviderID)
				}
			}
		}
	})
}

// maxProviderIDs is the limit of spec.providerIDList, and maxInstances that of status.instances.
const (
	maxProviderIDs = 10_000
	maxInstances   = 1000
)

// reportReplicas writes the number of nodes to the MachinePool if another client manages it, as the contract of Cluster API requires.
func (r *Reconciler) reportReplicas(ctx context.Context, pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) error {
	size := f.size(p)
	outdated := !f.nodesKnown() && len(pool.Status.Instances) > 0 // The output is from the last run of Terraform.
	if f.MachinePool == nil || desired.ManagesReplicas(f.MachinePool) || !f.publishes(pool, p) || size == nil || outdated {
		return nil
	}
	machinePool := f.MachinePool.DeepCopy()
	return engine.Patch(ctx, r.Client, machinePool, func() { machinePool.Spec.Replicas = size })
}

// publishes reports whether Cluster API gets what is known of the nodes: the node group exists, also while something blocks a change of it.
func (f *Facts) publishes(pool *infrav1.CAPTMachinePool, p *owner.Plan) bool {
	return f.Paused == "" && pool.DeletionTimestamp.IsZero() && p.Live != nil && (p.Ready() || ptr.Deref(pool.Status.Initialization.Provisioned, false))
}

// size is the number of nodes; without knowledge of these, the output of Terraform; nil without either.
func (f *Facts) size(p *owner.Plan) *int32 {
	if f.nodesKnown() {
		return ptr.To(int32(min(len(f.Nodes.List), maxProviderIDs))) //nolint:gosec // It is limited.
	}
	if p.Live == nil {
		return nil
	}
	number, err := strconv.ParseUint(p.Live.Status.Outputs[terraform.OutputNodeGroupSize], 10, 31)
	if err != nil {
		return nil
	}
	return ptr.To(int32(number))
}

const (
	defaultNodeGroupSeconds  = 1800
	defaultNodesReadySeconds = 900
)

func nodesReadyTimeout(pool *infrav1.CAPTMachinePool) time.Duration {
	return time.Duration(cmp.Or(pool.Spec.Timeouts.NodesReadySeconds, defaultNodesReadySeconds)) * time.Second
}

// notReadyFor returns for how long too few nodes have been ready according to status; zero while enough are.
func (f *Facts) notReadyFor(pool *infrav1.CAPTMachinePool) time.Duration {
	ready := conditions.Get(pool, infrav1.NodesReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return 0
	}
	return f.Now.Sub(ready.LastTransitionTime.Time)
}

// await repeats the reconcile while a template blocks that is not watched, and when something takes too long.
func (r *Reconciler) await(ctx context.Context, pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) error {
	switch {
	case f.Paused != "":
		return nil
	case !pool.DeletionTimestamp.IsZero():
		return f.Await(ctx, p)
	}
	nodeGroup := nodeGroupReady(pool, f, p)
	r.AwaitTimeout(p, &f.Observed, f.timeoutOf(pool, p, &nodeGroup), &nodeGroup, wasProvisioned(pool))
	if nodesReady(f, p).Status == metav1.ConditionFalse {
		f.RequeueWithin(nodesReadyTimeout(pool) - f.notReadyFor(pool) + time.Second) // Times in status have whole seconds.
	}
	return f.Await(ctx, p)
}
