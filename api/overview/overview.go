// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package overview summarizes what the objects of a Cluster report: its state, how far it is, and the one cause why it is not Ready. It is pure.
package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Objects are a Cluster and those of its objects that exist.
type Objects struct {
	Cluster      *clusterv1.Cluster
	CAPTCluster  *infrav1.CAPTCluster
	ControlPlane *controlplanev1.CAPTControlPlane
	// Pools are its machine pools, sorted by name.
	Pools []Pool
	// Applies are the WorkspaceTemplateApplies of the Cluster, in the order in which they are applied: the VPC, the control plane, the Fargate
	// profiles, those of machine pools, add-ons.
	Applies []*infrav1.WorkspaceTemplateApply
	// Failure of the Workspace of the cause; nil if it has none, or was not read.
	Failure *Failure
	// Provider is known if the cause is that it does not report on a Workspace.
	Provider *Provider
}

// Cluster is what the objects of a Cluster report together.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State of the control plane, WaitingForApproval while it is Configuring for a change that waits for a user, or Deleting. A control plane that is Ready is Degraded here if another object of the Cluster has a problem, for
	// example the VPC. It is empty while there is no CAPTControlPlane, or CAPT has not reconciled it.
	State infrav1.State `json:"state,omitempty"`
	// Version of Kubernetes that was last applied, and DesiredVersion that of spec if it differs.
	Version        string `json:"version,omitempty"`
	DesiredVersion string `json:"desiredVersion,omitempty"`
	Endpoint       string `json:"endpoint,omitempty"` // Endpoint is host:port of the API server.
	Region         string `json:"region,omitempty"`
	VPC            string `json:"vpc,omitempty"`      // VPC is the ID of the VPC.
	Revision       string `json:"revision,omitempty"` // Revision is that of the template of the control plane, its first twelve digits, which Terraform applied last.
	// Health is the worst result of the health checks. It is not Healthy while State is Degraded.
	Health controlplanev1.HealthState `json:"health,omitempty"`
	// Nodes are those of all machine pools; absent without machine pools.
	Nodes *Nodes `json:"nodes,omitempty"`
	// Progress of the current operation; absent when none is in progress.
	Progress *Progress `json:"progress,omitempty"`
	// LastApplied is when Terraform last applied a change of any of the Workspaces.
	LastApplied *metav1.Time `json:"lastApplied,omitempty"`
	Created     metav1.Time  `json:"created"`          // Created is when the Cluster was created.
	Paused      bool         `json:"paused,omitempty"` // Paused is true if the Cluster or one of its objects is paused.
	// Cause is why the Cluster is not Ready, or not yet deleted; absent if all of its objects are Ready.
	Cause *Cause `json:"cause,omitempty"`
	// Deletion is what is destroyed, while State is Deleting.
	Deletion *Deletion `json:"deletion,omitempty"`
	// NeedsAction is true if the state is Failed, or if the cause does not end without a user.
	NeedsAction bool `json:"needsAction,omitempty"`
}

// States of a Cluster that its control plane does not have.
const (
	StateDeleting           infrav1.State = "Deleting"
	StateWaitingForApproval infrav1.State = "WaitingForApproval" // Terraform does nothing before a user approves a change.
)

// Cause is a condition of the first object that does not merely wait for another one of the Cluster.
type Cause struct {
	Kind      string `json:"kind"` // Kind and Name of the object.
	Name      string `json:"name"`
	Condition string `json:"condition,omitempty"` // Condition is the type of the condition; absent if the object does not exist or has none.
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
	// LookAt is what to look at first about an error of Terraform; absent if that was not read.
	LookAt failure.Object `json:"lookAt,omitempty"`
	// Actor is who must act: User, Waiting if something is expected to happen, or the error to end by itself, or CAPT.
	Actor reasons.Actor `json:"actor"`
	Since metav1.Time   `json:"since"` // Since is the last transition of the condition.
	// stalled is true if nothing of the Cluster ends a wait.
	stalled bool
}

// IsWaiting reports whether work is in progress, or the object waits for another one: no more is to be done than to wait.
func (c *Cause) IsWaiting() bool { return !c.stalled && isWaiting(c.Condition, c.Reason) }

// markStalled marks a cause, which may be nil, that stalls.
func (o *Objects) markStalled(cause *Cause, state infrav1.State, now metav1.Time) {
	if cause != nil {
		cause.stalled = state == infrav1.StateReady && o.stalls(cause, now)
	}
}

// stalls reports whether a WorkspaceTemplateApply of a control plane that serves has been waiting for long for what nothing of the Cluster provides: all of
// its objects are ready, or wait as well. So does a CAPTCluster that is deleted without its Cluster: nothing deletes the control plane that it waits for.
func (o *Objects) stalls(cause *Cause, now metav1.Time) bool {
	if o.CAPTCluster != nil && !o.CAPTCluster.DeletionTimestamp.IsZero() && o.Cluster.DeletionTimestamp.IsZero() && cause.Kind == "CAPTCluster" {
		return !ptr.Deref(o.Cluster.Spec.Paused, false) // clusterctl move deletes the objects of a paused Cluster.
	}
	if cause.Kind == machinePoolKind && cause.Condition == clusterv1.ClusterDeletingCondition {
		return true
	}
	if cause.Reason != infrav1.WaitingForDependenciesReason || now.Sub(cause.Since.Time) < reasons.Grace {
		return false
	}
	return !slices.ContainsFunc(o.all(), func(object graph.Object) bool {
		ready := meta.FindStatusCondition(object.GetConditions(), infrav1.ReadyCondition)
		return ready == nil || ready.Status != metav1.ConditionTrue && ready.Reason != infrav1.WaitingForDependenciesReason
	})
}

// Of summarizes the objects of a Cluster, as of a time.
func Of(o *Objects, now metav1.Time) Cluster {
	c := Cluster{
		Namespace: o.Cluster.Namespace, Name: o.Cluster.Name, Created: o.Cluster.CreationTimestamp,
		Paused: ptr.Deref(o.Cluster.Spec.Paused, false) || len(o.PausedByAnnotation()) > 0,
	}
	c.addControlPlane(o, now)
	c.Nodes, c.LastApplied = o.nodes(), o.lastApplied()
	c.addPlace(o)
	c.Cause = o.cause(now)
	c.Cause.namesTheCluster()
	o.markStalled(c.Cause, c.State, now)
	o.addActor(c.Cause)
	c.addProblem(o)
	if c.State == infrav1.StateConfiguring && c.Cause != nil && c.Cause.Reason == infrav1.WaitingForApprovalReason {
		c.State, c.Progress = StateWaitingForApproval, nil
	}
	if o.deleting() {
		c.State, c.Progress, c.Cause = StateDeleting, nil, cmp.Or(o.deletionCause(now), c.Cause)
		o.addActor(c.Cause)
		c.Deletion = o.deletion()
	}
	c.NeedsAction = c.State == infrav1.StateFailed || c.Cause != nil && c.Cause.Actor == reasons.User
	return c
}

// addProblem adds what a cause that does not only wait means for progress, state and health.
func (c *Cluster) addProblem(o *Objects) {
	if c.Cause == nil || c.Cause.IsWaiting() {
		return
	}
	if c.Progress != nil && !o.isAdded(c.Cause) {
		c.Progress = c.Progress.stalled(o.ControlPlane.Status.Progress)
	}
	if c.State == infrav1.StateReady && c.Cause.isProblem() {
		c.State = infrav1.StateDegraded
		if c.Health == controlplanev1.HealthHealthy {
			c.Health = controlplanev1.HealthUnhealthy
		}
	}
}

// addActor adds who must act, and what is known of the error of Terraform.
func (o *Objects) addActor(cause *Cause) {
	if cause == nil {
		return
	}
	row, apply := reasons.Of(cause.Reason), o.Failing(cause)
	switch cause.Actor = row.Actor; {
	case cause.stalled, deleteCommandIn(cause) != "":
		cause.Actor = reasons.User
	case nodesStart(cause.Condition, cause.Reason):
		cause.Actor = reasons.Waiting
	}
	if apply == nil {
		return
	}
	class := failure.Class(apply.Status.LastFailureClass)
	if o.Failure != nil {
		class, cause.LookAt = o.Failure.Class, o.Failure.Object
	}
	if class.IsTransient() && (o.Failure != nil || row.Effect == reasons.FailsByClass) {
		cause.Actor = reasons.Waiting
	}
}

// addPlace adds where the Cluster is, and from which content.
func (c *Cluster) addPlace(o *Objects) {
	if o.CAPTCluster != nil {
		c.Region, c.VPC = o.CAPTCluster.Spec.Region, o.CAPTCluster.Status.VPC.ID
	}
	if o.ControlPlane == nil {
		return
	}
	c.Region = cmp.Or(o.ControlPlane.Spec.Region, c.Region)
	for _, apply := range o.Applies {
		if o.RoleOf(apply) == RoleControlPlane {
			c.Revision = terraform.ShortRevision(apply.Status.TemplateRevision)
		}
	}
}

// lastApplied returns when Terraform last applied anything; nil if it has not.
func (o *Objects) lastApplied() (last *metav1.Time) {
	for _, apply := range o.Applies {
		if applied := apply.Status.LastAppliedTime; applied != nil && (last == nil || last.Before(applied)) {
			last = applied
		}
	}
	return last
}

// addControlPlane adds what the control plane reports. Without one, a VPC that waits for it may be Failed.
func (c *Cluster) addControlPlane(o *Objects, now metav1.Time) {
	controlPlane := o.ControlPlane
	if controlPlane == nil {
		if o.CAPTCluster != nil && o.CAPTCluster.Status.State == infrav1.StateFailed {
			c.State = infrav1.StateFailed
		}
		return
	}
	status := &controlPlane.Status
	c.State, c.Version, c.Endpoint = status.State, status.Version, status.Endpoint
	if !isSameVersion(controlPlane.Spec.Version, status.Version) {
		c.DesiredVersion = controlPlane.Spec.Version
	}
	if status.Health != nil {
		c.Health = status.Health.Overall
	}
	c.Progress = progressOf(status.Progress, now)
}

// isSameVersion reports whether two versions are equal, also in different spellings, such as v1.31.0 and 1.31.
func isSameVersion(a, b string) bool {
	one, err := version.ParseGeneric(a)
	if err != nil {
		return a == b
	}
	same, err := one.Compare(b)
	return err == nil && same == 0
}

// all returns the objects of CAPT in the order in which they wait for each other: first those that wait for none of the others.
func (o *Objects) all() []graph.Object {
	vpc, own, added := o.applies()
	if o.CAPTCluster != nil {
		vpc = append(vpc, o.CAPTCluster)
	}
	if o.ControlPlane != nil {
		own = append(own, o.ControlPlane)
	}
	return slices.Concat(vpc, own, added, o.pools())
}

// PausedByAnnotation returns the kind and the name of each object that has the annotation cluster.x-k8s.io/paused itself.
func (o *Objects) PausedByAnnotation() (paused []string) {
	for _, object := range o.all() {
		if annotations.HasPaused(object) {
			paused = append(paused, graph.NodeOf(object).Kind+" "+object.GetName())
		}
	}
	return paused
}

// OwnApplies are the names of the WorkspaceTemplateApplies of the VPC, of the control plane and of its Fargate profiles.
func (o *Objects) OwnApplies() (names []string) {
	if o.CAPTCluster != nil {
		names = append(names, o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name)
	}
	if o.ControlPlane != nil {
		names = append(names, o.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name)
		for _, profile := range o.ControlPlane.Status.FargateProfiles {
			names = append(names, profile.WorkspaceTemplateApplyName)
		}
	}
	return names
}

// applies returns the WorkspaceTemplateApply of the VPC, the others of OwnApplies, and those that were added to the Cluster: machine pools, add-ons.
func (o *Objects) applies() (vpc, own, added []graph.Object) {
	names := o.OwnApplies()
	for _, apply := range o.Applies {
		switch {
		case o.CAPTCluster != nil && o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name == apply.Name:
			vpc = append(vpc, apply)
		case slices.Contains(names, apply.Name):
			own = append(own, apply)
		default:
			added = append(added, apply)
		}
	}
	return vpc, own, added
}

// isAdded reports whether the cause is a machine pool or an add-on, for which the control plane does not wait.
func (o *Objects) isAdded(cause *Cause) bool {
	return strings.HasSuffix(cause.Kind, machinePoolKind) || o.Failing(cause) != nil && !slices.Contains(o.OwnApplies(), cause.Name)
}

// cause is the condition of the object that awaits adoption, of the first one with a problem or, if all only wait, of the first one that is not
// Ready.
func (o *Objects) cause(now metav1.Time) *Cause {
	first := func(is func(graph.Object, *metav1.Condition) bool, conditionTypes ...string) *Cause {
		for _, object := range o.all() {
			for _, conditionType := range conditionTypes {
				if condition := meta.FindStatusCondition(object.GetConditions(), conditionType); condition != nil && is(object, condition) {
					return causeOf(object, condition)
				}
			}
		}
		return nil
	}
	isTrue := func(_ graph.Object, condition *metav1.Condition) bool {
		return condition.Status == metav1.ConditionTrue
	}
	notReady := func(_ graph.Object, condition *metav1.Condition) bool {
		return condition.Status != metav1.ConditionTrue
	}
	return cmp.Or(
		first(isTrue, infrav1.AdoptionRequiredCondition),
		o.wrongReference(),
		first(isProblem, infrav1.DegradedCondition, infrav1.DeletingCondition, infrav1.ReadyCondition),
		first(isTrue, controlplanev1.DependencyCycleCondition),
		o.lostPool(now),
		o.topology(),
		first(notReady, infrav1.ReadyCondition),
		o.missing(),
		o.unreconciled(now),
	)
}

// isProblem reports whether a condition means that an object does not merely wait.
func isProblem(object graph.Object, condition *metav1.Condition) bool {
	switch condition.Type {
	case infrav1.DegradedCondition: // A control plane has a state as well, and Ready says why.
		_, isPool := object.(*infrav1.CAPTMachinePool)
		return isPool && condition.Status == metav1.ConditionTrue
	case infrav1.DeletingCondition:
		return condition.Reason == infrav1.DestroyFailedReason && condition.Status == metav1.ConditionTrue
	}
	return condition.Status != metav1.ConditionTrue && !isWaiting(condition.Type, condition.Reason)
}

// isProblem reports whether the cause makes a Cluster Degraded whose control plane is Ready.
func (c *Cause) isProblem() bool {
	return slices.Contains([]string{
		infrav1.ReadyCondition, infrav1.DegradedCondition, infrav1.DeletingCondition, controlplanev1.DependencyCycleCondition, clusterv1.ClusterTopologyReconciledCondition,
	}, c.Condition) || c.Kind == machinePoolKind
}

// isWaiting reports whether a reason of Ready means that work is in progress, or that the object waits for another one.
func isWaiting(condition, reason string) bool {
	return reasons.IsWaiting(reason) || nodesStart(condition, reason)
}

// nodesStart reports whether nodes may still be starting: after a timeout, the pool is Degraded.
func nodesStart(condition, reason string) bool {
	return reason == infrav1.NodesNotReadyReason && condition == infrav1.ReadyCondition
}

// missing is the cause of a Cluster whose objects do not exist. In a deletion, they are deleted one after the other.
func (o *Objects) missing() *Cause {
	if o.deleting() {
		return nil
	}
	since := o.Cluster.CreationTimestamp
	if ref := o.Cluster.Spec.ControlPlaneRef; o.ControlPlane == nil && ref.Kind == "CAPTControlPlane" {
		return &Cause{Kind: ref.Kind, Name: ref.Name, Reason: graph.NotFoundReason, Message: "spec.controlPlaneRef of the Cluster refers to an object that does not exist", Since: since}
	}
	if ref := o.Cluster.Spec.InfrastructureRef; o.CAPTCluster == nil && ref.Kind == "CAPTCluster" {
		return &Cause{Kind: ref.Kind, Name: ref.Name, Reason: graph.NotFoundReason, Message: "spec.infrastructureRef of the Cluster refers to an object that does not exist", Since: since}
	}
	return nil
}

// unreconciled is the cause of an object that CAPT has not reconciled since it was created, changed or deleted; nil if there is none.
func (o *Objects) unreconciled(now metav1.Time) *Cause {
	for _, object := range o.all() {
		changed := metav1.NewTime(terraform.LatestWrite(object, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "" }))
		if deleted := object.GetDeletionTimestamp(); deleted != nil {
			changed = *deleted
		}
		ready, external, late := meta.FindStatusCondition(object.GetConditions(), infrav1.ReadyCondition), annotations.IsExternallyManaged(object), now.Sub(changed.Time) >= reasons.Grace
		cause := &Cause{Kind: graph.NodeOf(object).Kind, Name: object.GetName(), Reason: NotReconciledReason, Since: changed}
		left := slices.ContainsFunc(object.GetConditions(), func(c metav1.Condition) bool { return c.Reason == infrav1.NotManagedReason }) // Nothing is done about it.
		switch seen := ptr.Deref(ready, metav1.Condition{}).ObservedGeneration; {
		case ready == nil && !o.deleting() && !left:
			cause.Message, cause.Since = "CAPT has not reconciled it yet. Check that the manager of CAPT runs and watches this namespace", object.GetCreationTimestamp()
		case seen > 0 && seen < object.GetGeneration() && (external || late): // Earlier versions do not record it.
			cause.Message = "CAPT has not reconciled it since it was changed, and its status is of before. Check that the manager of CAPT runs, watches this namespace, and may write the status"
		default:
			continue
		}
		if external {
			cause.Message = fmt.Sprintf("CAPT reconciles neither the object nor its deletion, because it has the annotation %s: another controller is meant to manage it", clusterv1.ManagedByAnnotation)
		}
		return cause
	}
	return nil
}

// topology is the cause of a Cluster whose topology Cluster API cannot reconcile; nil if it can, or waits.
func (o *Objects) topology() *Cause {
	failing := []string{clusterv1.ClusterTopologyReconciledFailedReason, clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason}
	condition := meta.FindStatusCondition(o.Cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
	if condition == nil || condition.Status == metav1.ConditionTrue || !slices.Contains(failing, condition.Reason) || o.deleting() {
		return nil
	}
	return causeOf(o.Cluster, condition)
}

// NotReconciledReason is the reason of an object without the condition Ready.
const NotReconciledReason = "NotReconciled"

func (o *Objects) deleting() bool {
	return o.Cluster.DeletionTimestamp != nil || o.ControlPlane != nil && o.ControlPlane.DeletionTimestamp != nil
}

// deletionOrder returns the objects in the order in which they are deleted: machine pools and add-ons, Fargate profiles, the control plane, the VPC.
func (o *Objects) deletionOrder() []graph.Object {
	order, own, added := o.applies()
	if o.ControlPlane != nil {
		order = append(order, o.ControlPlane)
	}
	order = slices.Concat(order, own, o.pools(), added)
	if o.CAPTCluster != nil {
		order = append([]graph.Object{o.CAPTCluster}, order...)
	}
	slices.Reverse(order)
	return order
}

// deletionCause is the condition Deleting of the first object that needs a user or else, because the others wait for it, of one that Terraform destroys,
// or else of the one that is deleted first.
func (o *Objects) deletionCause(now metav1.Time) *Cause {
	of := map[bool]*Cause{}
	var first *Cause
	for _, object := range o.deletionOrder() {
		condition := meta.FindStatusCondition(object.GetConditions(), infrav1.DeletingCondition)
		if condition == nil || condition.Status != metav1.ConditionTrue {
			continue
		}
		cause := causeOf(object, condition)
		first = cmp.Or(first, cause)
		needsUser := reasons.Of(cause.Reason).Actor == reasons.User || cause.Reason == infrav1.WaitingForFinalizersReason
		if needsUser || destroys(condition) {
			of[needsUser] = cmp.Or(of[needsUser], cause)
		}
	}
	if found := cmp.Or(of[true], of[false], o.unreconciled(now), first); found != nil {
		return found
	}
	for i := range o.Pools {
		if pool := o.Pools[i].MachinePool; pool != nil && !pool.DeletionTimestamp.IsZero() {
			return o.waitingForFinalizers(machinePoolKind, pool)
		}
	}
	return o.waitingForFinalizers("Cluster", o.Cluster)
}

// Deletion is how far the deletion of a Cluster is. Both are WorkspaceTemplateApplies, in the order in which they are destroyed.
type Deletion struct {
	Destroying []string `json:"destroying,omitempty"` // Destroying are those whose Workspaces Terraform destroys.
	Waiting    []string `json:"waiting,omitempty"`    // Waiting are those that are destroyed afterwards.
}

// deletion returns how far the deletion is. What is retained, or only has the label of the Cluster, is not destroyed.
func (o *Objects) deletion() *Deletion {
	d, own := &Deletion{}, o.OwnApplies()
	for _, object := range o.deletionOrder() {
		apply, is := object.(*infrav1.WorkspaceTemplateApply)
		if !is || apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain || apply.DeletionTimestamp.IsZero() && !slices.Contains(own, apply.Name) && o.poolOf(apply) == nil {
			continue
		}
		switch condition := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition); {
		case condition != nil && (destroys(condition) || condition.Reason == infrav1.DestroyFailedReason):
			d.Destroying = append(d.Destroying, apply.Name)
		default:
			d.Waiting = append(d.Waiting, apply.Name)
		}
	}
	return d
}

// destroys reports whether Terraform destroys a Workspace, according to the condition Deleting.
func destroys(deleting *metav1.Condition) bool {
	return deleting.Reason == infrav1.WaitingForWorkspaceDeletionReason || deleting.Reason == infrav1.NotReportedReason
}

func causeOf(object graph.Object, condition *metav1.Condition) *Cause {
	return &Cause{
		Kind: graph.NodeOf(object).Kind, Name: object.GetName(), Condition: condition.Type, Reason: condition.Reason, Message: condition.Message,
		Since: condition.LastTransitionTime,
	}
}

// UIDs are those of the Cluster and of its objects.
func (o *Objects) UIDs() (uids []types.UID) {
	for _, object := range o.eventful() {
		uids = append(uids, object.GetUID())
	}
	return uids
}

// Names are those of the Cluster and of its objects. Several objects can have the same one.
func (o *Objects) Names() (names []string) {
	for _, object := range o.eventful() {
		names = append(names, object.GetName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (o *Objects) eventful() []metav1.Object {
	all := []metav1.Object{o.Cluster}
	for _, object := range o.all() {
		all = append(all, object)
	}
	for _, pool := range o.Pools {
		if pool.MachinePool != nil {
			all = append(all, pool.MachinePool)
		}
	}
	return all
}

// Object is the state of an object of a Cluster.
type Object struct {
	Kind    string                 `json:"kind"`
	Name    string                 `json:"name"`
	Ready   metav1.ConditionStatus `json:"ready,omitempty"` // Ready is the status of the condition Ready; empty until there is one.
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"` // Message of the condition Ready, or of Deleting while the object is being deleted.
	Created metav1.Time            `json:"created"`
}

// List returns the state of the objects, first those that wait for none of the others.
func (o *Objects) List() (list []Object) {
	for _, object := range o.all() {
		found := Object{Kind: graph.NodeOf(object).Kind, Name: object.GetName(), Created: object.GetCreationTimestamp()}
		if ready := meta.FindStatusCondition(object.GetConditions(), infrav1.ReadyCondition); ready != nil {
			found.Ready, found.Reason, found.Message = ready.Status, ready.Reason, ready.Message
		}
		if deleting := meta.FindStatusCondition(object.GetConditions(), infrav1.DeletingCondition); deleting != nil && deleting.Status == metav1.ConditionTrue {
			found.Reason, found.Message = deleting.Reason, deleting.Message
		}
		list = append(list, found)
	}
	return list
}

// Condition of an object of a Cluster.
type Condition struct {
	Kind             string `json:"kind"` // Kind and Name of the object.
	Name             string `json:"name"`
	metav1.Condition `json:",inline"`
}

// Conditions returns those that a Ready Cluster at rest does not have, first those of objects that wait for none of the others. Of the Cluster
// itself, only those that say more than the conditions of CAPT's objects.
func (o *Objects) Conditions() (list []Condition) {
	for _, object := range append(o.all(), o.Cluster) {
		for _, condition := range object.GetConditions() {
			if _, is := object.(*clusterv1.Cluster); is && condition.Type != clusterv1.ClusterRemoteConnectionProbeCondition && condition.Type != clusterv1.ClusterTopologyReconciledCondition {
				continue
			}
			if (condition.Status == metav1.ConditionTrue) == isNegative(condition.Type) || explainsFailure(condition.Reason) || warns(&condition) {
				list = append(list, Condition{graph.NodeOf(object).Kind, object.GetName(), condition})
			}
		}
	}
	return list
}

// Warnings returns the conditions that need attention although the objects are Ready: fields without effect, a kubeconfig that Cluster API cannot use, and
// an endpoint that the Cluster does not have. Nodes that are not known, or whose versions Cluster API does not accept, do not affect Ready, either,
// and neither does a plan that is never empty.
func (o *Objects) Warnings() (list []*Cause) {
	for _, object := range o.all() {
		for _, condition := range object.GetConditions() {
			if warns(&condition) || condition.Status == metav1.ConditionFalse && (condition.Type == infrav1.FieldsConsumedCondition || condition.Type == infrav1.NodesKnownCondition) {
				list = append(list, causeOf(object, &condition))
			}
		}
	}
	return list
}

// warns reports whether a condition with a warning is True.
func warns(condition *metav1.Condition) bool {
	return condition.Status == metav1.ConditionTrue && condition.Message != "" &&
		slices.Contains([]string{controlplanev1.KubeconfigReadyCondition, controlplanev1.EndpointAvailableCondition, infrav1.KubeletVersionsDifferCondition, infrav1.PlanNeverEmptyCondition}, condition.Type)
}

// isNegative reports whether the normal status of a condition is False.
func isNegative(condition string) bool {
	return slices.Contains([]string{
		clusterv1.PausedCondition, infrav1.AdoptionRequiredCondition, infrav1.DeletingCondition, infrav1.CreateRecoverableCondition,
		infrav1.DeletionTimedOutCondition, infrav1.WorkspaceConflictCondition, infrav1.VPCReplacedCondition, infrav1.ReplicasOutOfBoundsCondition, infrav1.KubeletVersionsDifferCondition, infrav1.PlanNeverEmptyCondition, controlplanev1.CreatingCondition, infrav1.FailedCondition, infrav1.DegradedCondition,
		infrav1.RecoveringCondition, controlplanev1.DependencyCycleCondition, controlplanev1.FargateProfileCreatingCondition,
		controlplanev1.FargateProfileFailedCondition,
	}, condition)
}

// explainsFailure reports whether a condition with its normal status explains why a failure is not repaired: recovery waits, or cannot help.
func explainsFailure(reason string) bool {
	switch reason {
	case infrav1.RecoveryBlockedReason, infrav1.RecoveryExhaustedReason, infrav1.WaitingForRetryReason, infrav1.CreateNotRecoverableReason:
		return true
	}
	return false
}

// Progress of an operation, as of now; status has it as of the last full minute.
type Progress struct {
	Operation infrav1.Operation `json:"operation"`
	// PercentComplete is from 0 to 99: a complete operation is not in progress.
	PercentComplete int32 `json:"percentComplete"`
	// Started is when the operation started, and EstimatedCompletion when it is expected to complete; absent when unknown.
	Started             *metav1.Time `json:"started,omitempty"`
	EstimatedCompletion *metav1.Time `json:"estimatedCompletion,omitempty"`
	Overdue             bool         `json:"overdue,omitempty"` // Overdue is true after EstimatedCompletion.
}

// progressOf returns the progress of the operation in progress; nil when none is.
func progressOf(p *infrav1.Progress, now metav1.Time) *Progress {
	if p == nil || p.CurrentOperation == "" {
		return nil
	}
	progress := &Progress{Operation: p.CurrentOperation, PercentComplete: ptr.Deref(p.PercentComplete, 0), EstimatedCompletion: p.EstimatedCompletionTime}
	if len(p.History) > 0 {
		progress.Started = p.History[len(p.History)-1].StartTime
	}
	progress.PercentComplete = p.PercentAt(now.Time)
	progress.Overdue = p.EstimatedCompletionTime != nil && p.EstimatedCompletionTime.Before(&now)
	return progress
}

// stalled is the progress of an operation that does not continue without the user: time does not change it.
func (p *Progress) stalled(reported *infrav1.Progress) *Progress {
	return &Progress{Operation: p.Operation, Started: p.Started, PercentComplete: ptr.Deref(reported.PercentComplete, 0)}
}

// Remaining is the time until the operation is expected to complete; zero when that is unknown or has passed.
func (p *Progress) Remaining(now time.Time) time.Duration {
	if p.EstimatedCompletion == nil {
		return 0
	}
	return max(0, p.EstimatedCompletion.Sub(now))
}

// StateOf returns the state of an object of CAPT: Deleting, status.state, or the state that the summary of a kind without that field corresponds to. It is
// never empty.
func StateOf(object graph.Object) infrav1.State {
	node, state := graph.NodeOf(object), infrav1.State("")
	if owner, ok := object.(interface{ GetLifecycle() *infrav1.Lifecycle }); ok {
		state = owner.GetLifecycle().State
	}
	switch {
	case !object.GetDeletionTimestamp().IsZero():
		return StateDeleting
	case state != "":
		return state
	case node.Ready == metav1.ConditionTrue:
		return infrav1.StateReady
	case node.Reason == "":
		return infrav1.StatePending
	case reasons.IsProblem(node.Reason):
		return infrav1.StateFailed
	}
	return infrav1.StateProvisioning
}

// Next is a step to do next.
type Next struct {
	// Step says what to do, and Commands how: exact shell commands, in order.
	Step     string   `json:"step"`
	Commands []string `json:"commands,omitempty"`
}

// approveChange is the next step for a change that waits for an approval.
func (o *Objects) approveChange(c *Cluster) *Next {
	next := &Next{Step: "See why the change waits, and approve it, or revert it.", Commands: []string{fmt.Sprintf("captctl template approve-change %s/%s", c.Namespace, c.Cause.Name)}}
	if strings.Contains(c.Cause.Message, naming.ApproveDestroyAnnotation) { // With approval OnChanges, a plan that is not known needs none of that.
		next.Step = "Its plan replaces or deletes resources, or may do so. See which, and approve that as well, or revert the change."
		next.Commands[0] += " --allow-destroy"
	}
	return next
}

// NextStep returns what to do about the cause; nil if its message alone says it.
func NextStep(o *Objects, c *Cluster, now time.Time) *Next {
	name := c.Namespace + "/" + c.Name
	if next := stepForPause(o, c, name); next != nil || c.Cause == nil {
		return next
	}
	switch {
	case c.Cause.Reason == infrav1.WaitingForApprovalReason:
		return o.approveChange(c)
	case terraform.EditCommandIn(c.Cause.Message) != "":
		return &Next{Step: "Find out what the controllers of the finalizers wait for. Remove the finalizer of one that does not run any more.", Commands: []string{terraform.EditCommandIn(c.Cause.Message)}}
	case o.NeedsProvider(c.Cause, now):
		return o.Provider.nextStep(c, now)
	case c.Cause.Reason == infrav1.NodesNotReadyReason && now.Sub(c.Cause.Since.Time) >= reasons.Grace: // Before, they may start.
		return nextStepForPool(o, c)
	case o.stepForDependents(c) != nil:
		return o.stepForDependents(c)
	case stepForClusterAPI(c, now) != nil:
		return stepForClusterAPI(c, now)
	case c.Cause.IsWaiting():
		return nil
	case c.Cause.Condition == infrav1.AdoptionRequiredCondition:
		return &Next{Step: "CAPT v0.3 created it, and it has not been adopted. See what its adoption needs.", Commands: []string{"captctl migrate check --cluster " + name}}
	}
	return cmp.Or(stepForCertificate(c.Cause), o.stepForError(c, name, now), nextStepFor(o, c, name), o.stepForWait(c), advice(o, c.Cause), retryStep(c, name))
}

// stepForPause is how to resume; nil if nothing is paused.
func stepForPause(o *Objects, c *Cluster, name string) *Next {
	switch {
	case ptr.Deref(o.Cluster.Spec.Paused, false):
		return &Next{Step: "It is paused. Resume it when the reason for the pause has ended.", Commands: []string{"captctl resume " + name}}
	case c.Paused:
		return &Next{Step: "Some of its objects are paused by the annotation cluster.x-k8s.io/paused. If its value is " + naming.MigrationPause +
			", a run of captctl migrate was interrupted: see captctl migrate status. Otherwise remove the annotation when the reason for the pause has ended.", Commands: unpause(o)}
	}
	return nil
}

// deleteCommandIn returns the command that deletes the dependents without an owner for which a deletion waits; empty if none does.
func deleteCommandIn(cause *Cause) (command string) {
	if cause.Reason == infrav1.WaitingForDependentsReason {
		_, command, _ = strings.Cut(cause.Message, ": delete it with ")
	}
	return command
}

// stepForDependents is what to do about an object that is destroyed after others; nil if they are being deleted.
func (o *Objects) stepForDependents(c *Cluster) *Next {
	switch command := deleteCommandIn(c.Cause); {
	case o.awaitsDependents(c.Cause):
		return &Next{Step: "Its deletion was accepted, and cannot be reverted. To keep its cloud resources, retain them: CAPT then creates the object again, and shows the command with which it takes the Workspace over. To destroy them, delete the Cluster.",
			Commands: []string{fmt.Sprintf(`kubectl patch workspacetemplateapply -n %s %s --type=merge -p '{"spec":{"deletionPolicy":"Retain"}}'`, c.Namespace, c.Cause.Name)}}
	case command != "":
		return &Next{Step: "Delete what has no owner. The deletion then continues.", Commands: []string{command}}
	}
	return nil
}

// awaitsDependents reports whether the cause is that only this object of a Cluster is being deleted, which others need.
func (o *Objects) awaitsDependents(cause *Cause) bool {
	return o.Cluster.DeletionTimestamp.IsZero() && o.deletionReason(cause) == infrav1.WaitingForDependentsReason
}

// deletionReason is the reason of the condition Deleting of the WorkspaceTemplateApply that is the cause; empty if it is another object.
func (o *Objects) deletionReason(cause *Cause) string {
	if apply := o.Failing(cause); apply != nil {
		if deleting := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition); deleting != nil {
			return deleting.Reason
		}
	}
	return ""
}

// stepForCertificate is what to do if the API server does not trust a webhook; nil if that is not the cause.
func stepForCertificate(c *Cause) *Next {
	if !strings.Contains(c.Message, "failed calling webhook") || !strings.Contains(c.Message, "x509:") {
		return nil
	}
	return &Next{Step: "The API server does not trust the webhook that the message names. Renew its certificate, with that of its authority (caBundle): cert-manager does both for the webhooks of CAPT.",
		Commands: []string{"kubectl get certificates -A", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"}}
}

// stepForError is what to do about the error of Terraform; nil if that is not known.
func (o *Objects) stepForError(c *Cluster, name string, now time.Time) *Next {
	if o.Failure == nil || c.Cause.LookAt == "" {
		return nil
	}
	if c.Cause.Reason == infrav1.ProviderConfigFailedReason && o.Failure.Class == failure.ClassConfig {
		return nil // nextStepFor has the commands.
	}
	next := o.Failure.addBackend(o.Failure.nextStep("captctl logs "+name, editTemplate(o, c.Cause), c.State == infrav1.StateFailed, now))
	if o.Failure.Object == failure.ObjectLeftover && next != nil {
		next.Step, next.Commands = next.Step+" The last command does not wait for that.", append(next.Commands, "captctl run "+name)
	}
	return next
}

// advice is what to do about a reason in general.
func advice(o *Objects, c *Cause) *Next {
	text := reasons.Advice(c.Reason)
	if text == "" {
		return nil
	}
	return &Next{Step: strings.ToUpper(text[:1]) + text[1:] + ".", Commands: editSpec(o, c)}
}

// retryStep is what to do about any failure; nil without one.
func retryStep(c *Cluster, name string) *Next {
	if c.State != infrav1.StateFailed {
		return nil
	}
	return &Next{Commands: []string{"captctl retry " + name}, Step: "Fix the cause. CAPT continues when the spec, the template, the ProviderConfig or a Secret " +
		"changes. If the cause was elsewhere, request a retry."}
}

// nextStepFor is what to do about the reason of the cause; nil if that depends on its message.
func nextStepFor(o *Objects, c *Cluster, name string) *Next {
	edit := editTemplate(o, c.Cause)
	if next := cmp.Or(nextStepForPool(o, c), nextStepForTerraform(o, c, name, edit)); next != nil {
		return next
	}
	switch c.Cause.Reason {
	case infrav1.TemplateNotFoundReason:
		return &Next{Step: "Create the WorkspaceTemplate, or correct the reference to it. A template of another namespace must allow this one in spec.allowedNamespaces.",
			Commands: []string{"kubectl get workspacetemplates -A"}}
	case infrav1.WorkspaceRejectedReason:
		return &Next{Step: "Correct the WorkspaceTemplate or the variables of the Cluster, or what rejects or changes the Workspace. After a correction elsewhere, make CAPT try again.",
			Commands: append(slices.Clip(edit), "captctl reconcile "+name)}
	case infrav1.TemplateInvalidReason, infrav1.VariableMissingReason, infrav1.VariableInvalidReason, infrav1.NothingCreatedReason:
		if strings.Contains(c.Cause.Message, "spec.infrastructureRef") {
			edit = append(slices.Clip(edit), fmt.Sprintf("kubectl edit cluster -n %s %s", c.Namespace, c.Name))
		}
		return &Next{Step: "Correct the WorkspaceTemplate or the variables of the Cluster.", Commands: edit}
	case infrav1.WorkspaceNotWrittenReason, infrav1.WriteRefusedReason, infrav1.ApplyRefusedReason:
		return &Next{Step: "Change what the message names: a policy, webhook, quota or role. CAPT retries within minutes, or now with this command.", Commands: []string{"captctl reconcile " + name}}
	case controlplanev1.SecretTimeoutReason:
		return &Next{Step: "Create what the message names. What Terraform creates needs an output in the module, or a run that ends. CAPT continues by itself.", Commands: edit}
	case infrav1.WorkspacePausedReason:
		return resumeWorkspace(o.Failing(c.Cause), c.Cause.Message)
	case controlplanev1.FargateProfileFailedReason, controlplanev1.FargateProfileDependencyReason:
		edit = o.editProfile(c.Cause, edit)
		return &Next{Step: "Correct what the message names: the profile, its template, or what it needs (docs/fargate-reference.md, When something is wrong)." + endsRun(o),
			Commands: slices.Concat([]string{"captctl logs " + name}, edit, endRuns(o))}
	case controlplanev1.APIServerNotAnsweringReason, controlplanev1.HealthCheckFailedReason:
		return stepForHealth(c, edit)
	case WrongReferenceReason, graph.NotFoundReason:
		return o.correctReferences(c.Cause)
	}
	return nil
}

// stepForHealth is what to do about an API server that does not answer, or answers otherwise than the control plane has it. edit are the commands that edit
// its template and the control plane.
func stepForHealth(c *Cluster, edit []string) *Next {
	switch message := c.Cause.Message; {
	case strings.Contains(message, "of the module"):
		return &Next{Step: "Correct the outputs that the message names, in the module of the WorkspaceTemplate.", Commands: edit}
	case strings.Contains(message, "spec.version"):
		return &Next{Step: "Do what the message says. EKS upgrades a cluster by itself when the support of its version ends.", Commands: edit[max(0, len(edit)-1):]}
	}
	return &Next{Step: "Check whether the API server answers you. If it does, the network or the kubeconfig of CAPT is the cause.", Commands: []string{
		fmt.Sprintf("clusterctl get kubeconfig %s -n %s > %[1]s.kubeconfig", c.Name, c.Namespace),
		fmt.Sprintf("kubectl --kubeconfig %s.kubeconfig get --raw '/readyz?verbose'", c.Name),
	}}
}

// stepForWait is what to do about an add-on, a topology or a manager that does not continue.
func (o *Objects) stepForWait(c *Cluster) *Next {
	switch c.Cause.Reason {
	case infrav1.WaitingForDependenciesReason:
		return &Next{Step: "Create what the message names, or remove it from what the WorkspaceTemplateApply waits for.", Commands: []string{
			fmt.Sprintf("kubectl edit workspacetemplateapply -n %s %s", c.Namespace, c.Cause.Name)}}
	case clusterv1.ClusterTopologyReconciledFailedReason, clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason:
		return o.correctTopology()
	case NotReconciledReason:
		if strings.Contains(c.Cause.Message, clusterv1.ManagedByAnnotation) {
			return &Next{Step: "Remove the annotation, unless another controller manages the object.", Commands: []string{
				fmt.Sprintf("kubectl annotate -n %s %s %s %s-", c.Namespace, strings.ToLower(c.Cause.Kind), c.Cause.Name, clusterv1.ManagedByAnnotation)}}
		}
		return &Next{Step: "See whether the manager of CAPT runs, and in its log what rejects its reads and writes: a policy, a webhook or a role.", Commands: []string{
			"captctl check", "kubectl -n capt-system get pods", "kubectl -n capt-system logs deployment/capt-manager | grep Reconciler.error | tail"}}
	}
	return nil
}

// resumeWorkspace is what to do about a Workspace that provider-terraform does not apply.
func resumeWorkspace(apply *infrav1.WorkspaceTemplateApply, message string) *Next {
	if strings.Contains(message, "another client has set spec.managementPolicies") {
		return &Next{Step: "Remove spec.managementPolicies of the Workspace when its reason has ended.", Commands: kubectl(apply, "patch", `--type=json -p '[{"op":"remove","path":"/spec/managementPolicies"}]'`)}
	}
	return &Next{Step: "Resume the Workspace when the reason for its pause has ended.", Commands: annotate(apply, terraform.PausedAnnotation+"-")}
}

// correctTopology is what to do about a topology that Cluster API cannot reconcile.
func (o *Objects) correctTopology() *Next {
	topology := &o.Cluster.Spec.Topology
	if rest := topology.ControlPlane; rest.Replicas != nil {
		field := "controlPlane"
		if rest.Replicas = nil; !equality.Semantic.DeepEqual(rest, clusterv1.ControlPlaneTopology{}) {
			field += "/replicas" // An empty object is not valid.
		}
		return &Next{Step: "Remove spec.topology.controlPlane.replicas of the Cluster: EKS runs the control plane, so a CAPTControlPlane has no replicas, and Cluster API cannot set them.", Commands: []string{
			fmt.Sprintf(`kubectl patch cluster -n %s %s --type json -p '[{"op":"remove","path":"/spec/topology/%s"}]'`, o.Cluster.Namespace, o.Cluster.Name, field),
		}}
	}
	return &Next{Step: "Correct what the message of Cluster API names: spec.topology of the Cluster, its ClusterClass, or a template of that.", Commands: []string{
		fmt.Sprintf("kubectl edit cluster -n %s %s", o.Cluster.Namespace, o.Cluster.Name),
		fmt.Sprintf("kubectl get clusterclass -n %s %s -o yaml", cmp.Or(topology.ClassRef.Namespace, o.Cluster.Namespace), topology.ClassRef.Name),
	}}
}

// nextStepForTerraform is what to do about an error of Terraform, or about an output.
func nextStepForTerraform(o *Objects, c *Cluster, name string, edit []string) *Next {
	switch c.Cause.Reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason:
		return stepForClass(o, c, name, edit)
	case infrav1.CreateInterruptedReason:
		return continueCreate(o, c.Cause)
	case infrav1.DestroyFailedReason:
		return &Next{Step: "Delete what still uses the resources, or correct what Terraform reports: an edit reaches the Workspace during its deletion, too. provider-terraform retries; the last command does not wait for that.",
			Commands: append(append([]string{"captctl logs " + name}, edit...), "captctl run "+name)}
	case infrav1.StateNotSavedReason:
		return &Next{Step: "Import or delete what is not in the Terraform state, and correct the backend, as the message says. Then resume the Workspace.", Commands: append([]string{"captctl logs " + name},
			annotate(o.Failing(c.Cause), terraform.PausedAnnotation+"- "+naming.StateNotSavedAnnotation+"-")...)}
	case infrav1.ProviderConfigFailedReason:
		return &Next{Step: "Create or correct the ProviderConfig, or the Secret with its credentials. If the WorkspaceTemplate names the wrong one, correct " +
			"spec.template.spec.providerConfigRef: captctl describe then shows the command that permits the other one.", Commands: edit}
	case infrav1.VPCIDMissingReason, controlplanev1.EndpointMissingReason, controlplanev1.EndpointInvalidReason, controlplanev1.KubeconfigInvalidReason:
		return &Next{Step: "Correct the output that the message names in the module of the WorkspaceTemplate.", Commands: edit}
	case controlplanev1.KubeconfigMissingReason:
		return &Next{Step: "Correct the output that the message names in the module of the WorkspaceTemplate, or what a token needs. The last command writes a connection Secret again that another client has edited.", Commands: append(slices.Clip(edit), "captctl run "+name)}
	case controlplanev1.EndpointChangedReason:
		return &Next{Step: "Find out what replaced the cluster. If it was replaced on purpose, use the new endpoint.", Commands: useEndpoint(o)}
	case infrav1.VPCReadyTimeoutReason, controlplanev1.ControlPlaneTimeoutReason, infrav1.NodeGroupTimeoutReason:
		return &Next{Step: "See what Terraform reports, and whether provider-terraform runs. If it only takes longer, raise the timeout that the message names." + endsRun(o),
			Commands: slices.Concat([]string{"captctl logs " + name, "kubectl -n crossplane-system get pods"}, edit[min(1, len(edit)):], endRuns(o))}
	}
	return nil
}

// stepForClass is what to do about an error of which no more than its class is known.
func stepForClass(o *Objects, c *Cluster, name string, edit []string) *Next {
	apply := o.Failing(c.Cause)
	// Other classes of errors seldom have their cause in the module or its variables.
	if apply != nil && !slices.Contains([]failure.Class{"", failure.ClassConfig, failure.ClassUnknown}, failure.Class(apply.Status.LastFailureClass)) {
		step := "Remove the cause that the message names. provider-terraform retries."
		if c.State != infrav1.StateFailed && failure.Class(apply.Status.LastFailureClass).IsTransient() {
			step = "No action is needed yet: provider-terraform retries. If the error persists, remove the cause that the message names."
		}
		return &Next{Step: step, Commands: append([]string{"captctl logs " + name}, edit...)}
	}
	return &Next{Step: "Correct what Terraform reports: the module of the WorkspaceTemplate, a variable of the Cluster, or something in AWS. " +
		"An edit starts Terraform immediately; without one, provider-terraform retries.", Commands: append([]string{"captctl logs " + name}, edit...)}
}

// endsRun is the sentence about the last command, if a run of Terraform goes on.
func endsRun(o *Objects) string {
	if len(endRuns(o)) == 0 {
		return ""
	}
	return " The last command ends a run that does not end by itself: Terraform stops, and saves its state."
}

// useEndpoint are the commands that make a CAPTControlPlane and its Cluster use the endpoint that Terraform reports.
func useEndpoint(o *Objects) (commands []string) {
	if o.ControlPlane == nil || o.ControlPlane.Status.WorkspaceTemplateApply == nil {
		return nil
	}
	host, port, err := terraform.ParseEndpoint(o.ControlPlane.Status.WorkspaceTemplateApply.Outputs[terraform.OutputClusterEndpoint])
	if err != nil {
		return nil
	}
	for _, object := range []string{"captcontrolplane " + o.ControlPlane.Name, "cluster " + o.Cluster.Name} {
		commands = append(commands, fmt.Sprintf(`kubectl patch -n %s %s --type merge -p '{"spec":{"controlPlaneEndpoint":{"host":%q,"port":%d}}}'`, o.Cluster.Namespace, object, host, port))
	}
	return commands
}

// Failing returns the WorkspaceTemplateApply that is the cause; nil if that is another object.
func (o *Objects) Failing(cause *Cause) *infrav1.WorkspaceTemplateApply {
	for _, apply := range o.Applies {
		if cause.Kind == "WorkspaceTemplateApply" && cause.Name == apply.Name {
			return apply
		}
	}
	return nil
}

// editSpec are the commands that edit the field that the message of the cause names; none for other reasons.
func editSpec(o *Objects, cause *Cause) []string {
	object := strings.ToLower(cause.Kind) + " -n " + o.Cluster.Namespace + " " + cause.Name
	switch cause.Reason {
	case controlplanev1.DependencyCycleReason: // The message names the field last.
		_, name, found := strings.Cut(cause.Message, " of WorkspaceTemplateApply ")
		if !found {
			return nil
		}
		object = "workspacetemplateapply -n " + o.Cluster.Namespace + " " + name
	case infrav1.InvalidEKSClusterNameReason, infrav1.EKSClusterNameConflictReason:
		if o.ControlPlane == nil {
			return nil
		}
		object = "captcontrolplane -n " + o.Cluster.Namespace + " " + o.ControlPlane.Name
	case infrav1.FieldNotConsumedReason:
		return editTemplate(o, cause)
	case controlplanev1.RegionConflictReason, infrav1.InvalidVersionReason:
	case infrav1.TemplateDeletingReason:
		commands := editTemplate(o, cause)
		return commands[min(1, len(commands)):]
	default:
		return nil
	}
	return []string{"kubectl edit " + object}
}

// editTemplate are the commands that edit the template of the object that is the cause, and the object that has its variables.
func editTemplate(o *Objects, cause *Cause) (commands []string) {
	edit := func(kind string, key types.NamespacedName) {
		if key.Name != "" {
			commands = append(commands, fmt.Sprintf("kubectl edit %s -n %s %s", kind, key.Namespace, key.Name))
		}
	}
	apply := o.Failing(cause)
	kind, owner, template := o.ownerOf(cause, apply)
	if apply != nil {
		template = types.NamespacedName{}
		if apply.Spec.TemplateRef.Name != "" {
			template = apply.TemplateKey()
		}
	}
	if vpc := o.CAPTCluster; vpc != nil && owner != vpc && strings.Contains(cause.Message, terraform.OutputVPCConfig) { // An output of the VPC.
		edit("workspacetemplate", vpc.Spec.VPC.Template.Ref.Key(vpc.Namespace))
	}
	if edit("workspacetemplate", template); owner != nil {
		edit(kind, naming.KeyOf(owner))
	}
	return commands
}

// editProfile are the commands that edit the template that a message about Fargate profiles is about, and the object that refers to it; edit if that is not known.
func (o *Objects) editProfile(cause *Cause, edit []string) []string {
	if strings.Contains(cause.Message, "the template of the VPC") {
		return editTemplate(o, &Cause{Kind: "CAPTCluster"})
	}
	if o.ControlPlane == nil || len(edit) == 0 {
		return edit
	}
	for i := range o.ControlPlane.Spec.FargateProfiles {
		profile := &o.ControlPlane.Spec.FargateProfiles[i]
		if !strings.Contains(cause.Message, "the template of the control plane") && strings.Contains(cause.Message, " "+profile.Name+" (") {
			key := profile.WorkspaceTemplateRef.Key(o.ControlPlane.Namespace)
			return append([]string{fmt.Sprintf("kubectl edit workspacetemplate -n %s %s", key.Namespace, key.Name)}, edit[len(edit)-1:]...)
		}
	}
	return edit
}

// ownerOf returns the object that has the variables of the cause, which may be a WorkspaceTemplateApply, with its template; nil if it does not exist.
func (o *Objects) ownerOf(cause *Cause, apply *infrav1.WorkspaceTemplateApply) (kind string, owner metav1.Object, template types.NamespacedName) {
	if c := o.CAPTCluster; c != nil && (cause.Kind == "CAPTCluster" || apply != nil && c.Spec.WorkspaceTemplateApplyRef.Name == apply.Name) {
		return "captcluster", c, c.Spec.VPC.Template.Ref.Key(c.Namespace)
	}
	if pool := cmp.Or(o.pool(cause), o.poolOf(apply)); pool != nil {
		return "captmachinepool", pool, pool.Spec.WorkspaceTemplateRef.Key(pool.Namespace)
	}
	if apply != nil && metav1.GetControllerOf(apply) == nil && o.isAdded(cause) {
		return "workspacetemplateapply", apply, template
	}
	if c := o.ControlPlane; c != nil {
		if cause.Kind == "CAPTControlPlane" {
			template = c.Spec.WorkspaceTemplateRef.Key(c.Namespace)
		}
		return "captcontrolplane", c, template
	}
	return "", nil, template
}

// unpause are the commands that remove the annotation cluster.x-k8s.io/paused.
func unpause(o *Objects) (commands []string) {
	for _, object := range o.PausedByAnnotation() {
		commands = append(commands, fmt.Sprintf("kubectl annotate -n %s %s %s-", o.Cluster.Namespace, strings.ToLower(object), clusterv1.PausedAnnotation))
	}
	return commands
}

// Role is what a WorkspaceTemplateApply is for in its Cluster.
type Role string

// Roles.
const (
	RoleVPC          Role = "vpc"
	RoleControlPlane Role = "controlplane"
	RoleFargate      Role = "fargate"
	RoleMachinePool  Role = "machinepool"
	RoleAddOn        Role = "addon" // RoleAddOn is for all others with the label of the Cluster.
)

// Roles lists all of them, in the order in which Terraform applies them.
func Roles() []Role {
	return []Role{RoleVPC, RoleControlPlane, RoleFargate, RoleMachinePool, RoleAddOn}
}

// RoleOf returns the role of a WorkspaceTemplateApply of the Cluster.
func (o *Objects) RoleOf(apply *infrav1.WorkspaceTemplateApply) Role {
	switch {
	case o.CAPTCluster != nil && o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name == apply.Name:
		return RoleVPC
	case o.ControlPlane != nil && o.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name == apply.Name:
		return RoleControlPlane
	case slices.Contains(o.OwnApplies(), apply.Name):
		return RoleFargate
	case o.poolOf(apply) != nil:
		return RoleMachinePool
	}
	return RoleAddOn
}
