// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
)

func status(pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) {
	s := &pool.Status
	before := s.DeepCopy()
	s.ObservedGeneration = pool.Generation
	engine.SetNegativePolarity(pool, engine.PausedCondition(f.Paused))
	if !pool.DeletionTimestamp.IsZero() {
		deleting := f.Apply.DeletingCondition(infrav1.DeletingCondition, f.Paused)
		engine.Set(pool, deleting, engine.False(infrav1.ReadyCondition, infrav1.DeletingReason, deleting.Message))
		engine.SetNegativePolarity(pool, f.DeletionTimedOut(p, deleting))
		return
	}
	if summary := p.Summary(); summary != nil {
		s.WorkspaceTemplateApply = summary
	}
	nodeGroup := nodeGroupReady(pool, f, p)
	if nodeGroup.Status == metav1.ConditionTrue {
		s.Initialization.Provisioned, s.Ready = ptr.To(true), ptr.To(true)
		s.Version = f.runningVersion(p, f.desired(pool))
	}
	outOfBounds := engine.False(infrav1.ReplicasOutOfBoundsCondition, infrav1.ReplicasWithinBoundsReason, "")
	if size := f.sizes(pool); size.OutOfBounds != "" {
		outOfBounds = engine.True(infrav1.ReplicasOutOfBoundsCondition, infrav1.ReplicasOutOfBoundsReason, size.OutOfBounds)
	}
	f.ReportRecovery(p)
	nodes := reportNodes(pool, f, p)
	unmet := unmet(pool, nodeGroup, outOfBounds, nodes, f)
	engine.Set(pool, nodeGroup, f.Ready(p, unmet))
	engine.SetNegativePolarity(pool, f.Apply.Decision(), outOfBounds)
	if f.Paused == "" {
		engine.SetNegativePolarity(pool, kubeletVersionsDiffer(f, nodeGroup.Status == metav1.ConditionTrue))
	}
	owner.ReportTemplates(pool, f.templates(pool)...)
	reportLife(pool, f, p, unmet)
	if !engine.Equal(before, s) {
		s.Progress = progress.AsOf(s.Progress, f.Now)
	}
}

// reportLife writes state and progress.
func reportLife(pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan, unmet engine.Condition) {
	life := f.Life(p, unmet, wasProvisioned(pool))
	life.Working = life.Working && (life.Initialized || f.waitTimeout(p, &unmet) == nil) // Nothing begins before what it waits for exists.
	if life.Cause = f.controlPlaneFailed(unmet); life.Cause.Reason != "" {
		life.Failed, life.Working = true, false
	}
	nodes := unmet.Type == infrav1.NodesReadyCondition
	life.Down = nodes && f.notReadyFor(pool) >= nodesReadyTimeout(pool)
	life.Working = life.Working || nodes && !life.Down
	if f.Paused != "" && conditions.Has(pool, infrav1.NodesReadyCondition) {
		return // The nodes are not read.
	}
	f.ReportLife(p, life, stepOf(p, life.Applied, nodes))
}

// stepOf is the first step of the creation or change of the node group that is not complete. nodes is true if only nodes are not ready.
func stepOf(p *owner.Plan, applied, nodes bool) progress.Step {
	switch {
	case applied && nodes:
		return progress.Nodes
	case applied:
		return progress.Done
	case p.Blocked != nil && p.Blocked.Reason == infrav1.WaitingForControlPlaneReason:
		return progress.Infrastructure
	case p.Blocked != nil:
		return progress.Validation
	}
	return progress.Workspace
}

func wasProvisioned(pool *infrav1.CAPTMachinePool) bool {
	return ptr.Deref(pool.Status.Initialization.Provisioned, false)
}

// nodesDelay collects changes of single nodes, because a scaled or updated pool changes one after the other.
const nodesDelay = 5 * time.Second

// details restores what may be written later: the list of nodes, and that Terraform has started.
func details(before, after *infrav1.CAPTMachinePool, _ *Facts) time.Duration {
	after.Status.Instances = before.Status.Instances
	owner.KeepStart(before.Status.WorkspaceTemplateApply, after.Status.WorkspaceTemplateApply)
	owner.KeepEstimate(before, after)
	return nodesDelay
}

// sizes returns the sizes of the node group; the zero value while the MachinePool is not known, or if they contradict each other.
func (f *Facts) sizes(pool *infrav1.CAPTMachinePool) desired.Size {
	if f.MachinePool == nil {
		return desired.Size{}
	}
	size, err := f.desired(pool).Size()
	if err != nil {
		return desired.Size{} // Condition NodeGroupReady reports it.
	}
	return size
}

// templates returns the facts about the template, with the fields of spec that annotations override.
func (f *Facts) templates(pool *infrav1.CAPTMachinePool) []*desired.TemplateFacts {
	facts := f.Template
	facts.Others = append(slices.Clone(facts.Others), f.sizes(pool).Overridden...)
	return []*desired.TemplateFacts{&facts}
}

func nodeGroupReady(pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) engine.Condition {
	condition := p.Report(infrav1.NodeGroupReadyCondition, infrav1.NodeGroupReadyReason, f.Paused)
	return f.timeoutOf(pool, p, &condition).Condition(condition)
}

// timeoutOf is the timeout of the condition NodeGroupReady; nil if it has none.
func (f *Facts) timeoutOf(pool *infrav1.CAPTMachinePool, p *owner.Plan, condition *engine.Condition) *owner.Timeout {
	if timeout := f.waitTimeout(p, condition); timeout != nil || p.Blocked != nil || f.Paused != "" {
		return timeout
	}
	return f.timeout(pool)
}

// waitTimeout is the timeout of a wait for an object that does not exist; nil if the condition is not such a wait.
func (f *Facts) waitTimeout(p *owner.Plan, condition *engine.Condition) *owner.Timeout {
	return f.WaitTimeout(p, condition, condition.Reason == infrav1.WaitingForControlPlaneReason && f.ControlPlane != nil && f.ControlPlane.ControlPlane != nil)
}

// controlPlaneFailed is why the control plane is Failed that the pool waits for; the zero value if it is not.
func (f *Facts) controlPlaneFailed(unmet engine.Condition) engine.Condition {
	if unmet.Reason != infrav1.WaitingForControlPlaneReason || f.ControlPlane == nil || f.ControlPlane.ControlPlane == nil {
		return engine.Condition{}
	}
	return owner.Owner{Object: f.ControlPlane.ControlPlane, Kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane")}.Failure()
}

// timeout of Terraform; nil while it does not run.
func (f *Facts) timeout(pool *infrav1.CAPTMachinePool) *owner.Timeout {
	return owner.NewTimeout("spec.timeouts.nodeGroupSeconds", infrav1.NodeGroupTimeoutReason, pool.Spec.Timeouts.NodeGroupSeconds, defaultNodeGroupSeconds, f.Running.Terraform).Of(&f.Apply)
}

// runningVersion is the version of the node group according to Terraform or, without that output, the requested one.
func (f *Facts) runningVersion(p *owner.Plan, d *desired.MachinePool) string {
	requested, _ := d.Version() // It is applied.
	for _, text := range []string{p.Live.Status.Outputs[terraform.OutputNodeGroupVersion], p.Live.Spec.Variables.Text(naming.VersionVariable)} {
		if reported, err := validation.ParseKubernetesVersion(text); err == nil && reported.EKS != requested.EKS {
			return reported.Semantic
		}
	}
	return requested.Semantic
}

// wanted is the number of nodes that the pool is meant to have: as Terraform received it or, if another client manages it, the number of nodes, but at
// least the minimum; nil while it is not known.
func (f *Facts) wanted(p *owner.Plan) *int32 {
	if p.Live == nil {
		return nil
	}
	number := func(variable string) (int32, bool) {
		var size int32
		_, err := fmt.Sscan(p.Live.Spec.Variables.Text(variable), &size)
		return size, err == nil
	}
	if size, ok := number(naming.DesiredSizeVariable); ok {
		return &size
	}
	lower, ok := number(naming.MinSizeVariable)
	if size := f.size(p); size != nil {
		return ptr.To(max(lower, *size))
	}
	if !ok {
		return nil
	}
	return &lower
}

// reportNodes writes the nodes into status, and returns the condition NodesReady. The list stays as it is while they are not known.
func reportNodes(pool *infrav1.CAPTMachinePool, f *Facts, p *owner.Plan) (ready engine.Condition) {
	s := &pool.Status
	if f.Paused != "" || f.Nodes.Listing && conditions.Has(pool, infrav1.NodesReadyCondition) {
		was := conditions.Get(pool, infrav1.NodesReadyCondition)
		if was == nil {
			return engine.Condition{}
		}
		return engine.Condition{Type: was.Type, Status: was.Status, Reason: was.Reason, Message: was.Message}
	}
	if s.WantedReplicas = f.wanted(p); f.size(p) != nil {
		s.Replicas = f.size(p) // Otherwise it stays the number that was last observed.
	}
	known, ready := nodesKnown(f, p), nodesReady(f, p)
	if known.Type != "" {
		engine.Set(pool, known, ready)
	}
	if !f.nodesKnown() {
		s.ReadyReplicas = nil
		return ready
	}
	s.ReadyReplicas = ptr.To(f.readyNodes())
	s.Instances = nil
	for i := range min(len(f.Nodes.List), maxInstances) {
		node := &f.Nodes.List[i]
		s.Instances = append(s.Instances, infrav1.MachinePoolInstance{Name: node.Name, ProviderID: node.ProviderID, Version: node.Version, Ready: ptr.To(node.Ready)})
	}
	return ready
}

func (f *Facts) readyNodes() (ready int32) {
	for i := range f.Nodes.List {
		if f.Nodes.List[i].Ready {
			ready++
		}
	}
	return ready
}

// nodesKnown returns the condition NodesKnown; the zero value before the node group has a WorkspaceTemplateApply.
func nodesKnown(f *Facts, p *owner.Plan) engine.Condition {
	switch {
	case p.Live == nil:
		return engine.Condition{}
	case f.probesDisabled():
		return engine.False(infrav1.NodesKnownCondition, infrav1.HealthProbesDisabledReason, fmt.Sprintf(
			"spec.endpointProbe of CAPTControlPlane %s is Disabled, so CAPT does not connect to the cluster. Set it to BestEffort to report the nodes. %s", f.ControlPlane.ControlPlane.Name, howToKnow))
	case !f.WatchNodes:
		return engine.False(infrav1.NodesKnownCondition, infrav1.HealthProbesDisabledReason, "the manager runs with --feature-gates=HealthProbes=false, so it does not connect to clusters. "+howToKnow)
	case f.Nodes.Pending:
		return engine.False(infrav1.NodesKnownCondition, infrav1.WaitingForNodesReason, f.Nodes.Problem)
	case f.Nodes.Problem != "":
		return engine.False(infrav1.NodesKnownCondition, infrav1.NodesUnreachableReason, f.Nodes.Problem+". "+howToKnow)
	}
	return engine.True(infrav1.NodesKnownCondition, infrav1.NodesKnownReason, "")
}

const howToKnow = "Until the manager can read the Nodes with the kubeconfig Secret, the size comes from the output node_group_size, and spec.providerIDList is not updated (docs/workers.md#nodes)"

// nodesReady returns the condition NodesReady; Unknown while the nodes are not known.
func nodesReady(f *Facts, p *owner.Plan) engine.Condition {
	wanted := f.wanted(p)
	if !f.nodesKnown() || wanted == nil {
		return engine.Unknown(infrav1.NodesReadyCondition, infrav1.NodesUnreachableReason, "the nodes are not known; see condition NodesKnown")
	}
	ready := f.readyNodes()
	if ready >= *wanted {
		return engine.True(infrav1.NodesReadyCondition, infrav1.NodesReadyReason, "")
	}
	var names []string
	for i := range f.Nodes.List {
		if !f.Nodes.List[i].Ready {
			names = append(names, f.Nodes.List[i].Name)
		}
	}
	message := fmt.Sprintf("%d of %d nodes are ready", ready, *wanted)
	if missing := int(*wanted) - len(f.Nodes.List); missing > 0 {
		message += fmt.Sprintf("; %d have not joined the cluster", missing)
	}
	if len(names) > 0 {
		message += "; not ready: " + naming.List(names, 3)
	}
	return engine.False(infrav1.NodesReadyCondition, infrav1.NodesNotReadyReason, message)
}

// unmet is what is not as spec wants it; the zero value if all is. Nodes that are not known do not affect it: the network may not reach the cluster.
func unmet(pool *infrav1.CAPTMachinePool, nodeGroup, outOfBounds, nodes engine.Condition, f *Facts) engine.Condition {
	switch {
	case nodeGroup.Status != metav1.ConditionTrue:
		return nodeGroup
	case outOfBounds.Status == metav1.ConditionTrue:
		return outOfBounds
	case f.notReadyFor(pool) >= nodesReadyTimeout(pool):
		nodes.Message += fmt.Sprintf(", for more than %s (spec.timeouts.nodesReadySeconds). Run kubectl describe node with the kubeconfig of the cluster, or check the instances of the node group in AWS",
			duration.HumanDuration(nodesReadyTimeout(pool)))
		return nodes
	case nodes.Status == metav1.ConditionFalse:
		return nodes
	case nodes.Status == metav1.ConditionUnknown && f.Nodes.Listing:
		nodes.Reason, nodes.Message = infrav1.WaitingForNodesReason, f.Nodes.Problem
		return nodes
	}
	return engine.Condition{}
}

// kubeletVersionsDiffer returns the condition KubeletVersionsDiffer of a pool in a managed topology: Cluster API compares the versions of MachinePool and
// kubelets character by character, and those of EKS have a suffix (https://github.com/kubernetes-sigs/cluster-api/issues/14086). It is False while EKS may
// be replacing nodes.
func kubeletVersionsDiffer(f *Facts, upToDate bool) engine.Condition {
	none := engine.False(infrav1.KubeletVersionsDifferCondition, infrav1.KubeletVersionsMatchReason, "")
	if !upToDate || !f.nodesKnown() {
		return none
	}
	version := f.MachinePool.Spec.Template.Spec.Version
	if _, managed := f.MachinePool.Labels[clusterv1.ClusterTopologyOwnedLabel]; !managed {
		return none
	}
	var others []string
	for i := range f.Nodes.List {
		kubelet := f.Nodes.List[i].Version
		if minor(kubelet) != minor(version) {
			return none // A node that is about to be deleted, or without a version.
		}
		if kubelet != version && !slices.Contains(others, kubelet) {
			others = append(others, kubelet)
		}
	}
	if slices.Sort(others); len(others) == 0 {
		return none
	}
	return engine.True(infrav1.KubeletVersionsDifferCondition, infrav1.KubeletVersionsDifferReason, fmt.Sprintf(
		"Cluster API waits until the kubelets report %s, the version of MachinePool %s, and rejects other versions of the topology before. They report %s, which no upgrade changes. "+
			"Replace the version with that of the kubelets (docs/clusterclass.md#replace-the-version)", version, f.MachinePool.Name, strings.Join(others, " and ")))
}

// minor returns the version in the form of EKS; empty for what is not a version.
func minor(text string) string {
	version, _ := validation.ParseKubernetesVersion(text) // Empty with an error.
	return version.EKS
}
