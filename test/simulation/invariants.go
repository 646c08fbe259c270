// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor"
)

const externalName = "crossplane.io/external-name"

type invariants struct {
	// contents counts the edits of templates.
	contents int
	// edited are the first and the last resource version at which a template got a content.
	edited map[string][2]int64
	// restricted are contents of templates that need an approval.
	restricted, approved map[string]bool
	// paused are the Clusters that are paused: true when all have seen it.
	paused map[types.NamespacedName]bool
	byUser map[types.UID]bool
	// tampered are the Clusters of which a user has deleted a Workspace, and withoutVPC those whose VPC was destroyed because a user deleted its
	// WorkspaceTemplateApply.
	tampered, withoutVPC map[string]bool
	// foreign are the Workspaces that CAPT did not create.
	foreign   map[types.UID]bool
	intruders []client.Object
	// appliedBy is the Workspace that applied a state, roles what it has.
	appliedBy map[string]types.UID
	roles     map[string]role
}

// role is what a state has for a Cluster.
type role struct{ cluster, part string }

func newInvariants() invariants {
	return invariants{
		edited: map[string][2]int64{}, restricted: map[string]bool{}, approved: map[string]bool{}, paused: map[types.NamespacedName]bool{},
		byUser: map[types.UID]bool{}, tampered: map[string]bool{}, withoutVPC: map[string]bool{}, foreign: map[types.UID]bool{}, appliedBy: map[string]types.UID{}, roles: map[string]role{},
	}
}

func (w *World) failf(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
		w.tracef("VIOLATION: %s", w.violation)
	}
}

// observe checks each write.
func (w *World) observe(user string, old, object client.Object, deleted bool) {
	switch object := object.(type) {
	case *controlplanev1.CAPTControlPlane:
		w.checkControlPlane(old, object)
	case *infrav1.CAPTCluster:
		w.checkCAPTCluster(old, object)
	case *infrav1.WorkspaceTemplateApply:
		if deleted {
			w.checkReleased(object)
		} else {
			w.checkApply(user, old, object)
		}
	case *clusterv1.Cluster:
		w.recordPause(object)
	case *infrav1.WorkspaceTemplate:
		w.recordContent(old, object)
	case *unstructured.Unstructured:
		if object.GetKind() == "Workspace" {
			w.checkWorkspace(user, old, object, deleted)
		}
	}
}

func (w *World) checkApply(user string, old client.Object, object *infrav1.WorkspaceTemplateApply) {
	if old == nil || old.GetGeneration() != object.Generation {
		w.checkPaused(user, object, object)
	}
	if before, ok := old.(*infrav1.WorkspaceTemplateApply); ok && strings.HasSuffix(user, "capt") {
		w.checkNotReverted(object, before.Spec.Variables.Text(naming.VersionVariable), object.Spec.Variables.Text(naming.VersionVariable))
	}
}

func (w *World) checkCAPTCluster(old client.Object, object *infrav1.CAPTCluster) {
	before, ok := old.(*infrav1.CAPTCluster)
	if ok && before.UID == object.UID && ptr.Deref(before.Status.Initialization.Provisioned, false) && !ptr.Deref(object.Status.Initialization.Provisioned, false) {
		w.failf("initialization: CAPTCluster %s is not provisioned any more", client.ObjectKeyFromObject(object))
	}
}

func (w *World) recordPause(cluster *clusterv1.Cluster) {
	if key := client.ObjectKeyFromObject(cluster); !ptr.Deref(cluster.Spec.Paused, false) {
		delete(w.paused, key)
	} else if !w.paused[key] {
		w.paused[key] = false
	}
}

func (w *World) checkControlPlane(old client.Object, object *controlplanev1.CAPTControlPlane) {
	key := client.ObjectKeyFromObject(object)
	if conditions.IsTrue(object, controlplanev1.ReadyCondition) && object.Spec.ControlPlaneEndpoint.IsZero() {
		w.failf("endpoint: CAPTControlPlane %s is Ready without an endpoint", key)
	}
	before, ok := old.(*controlplanev1.CAPTControlPlane)
	if ok && before.UID == object.UID && ptr.Deref(before.Status.Initialization.ControlPlaneInitialized, false) && !ptr.Deref(object.Status.Initialization.ControlPlaneInitialized, false) {
		w.failf("initialization: CAPTControlPlane %s is not initialized any more", key)
	}
}

// checkReleased fails if a WorkspaceTemplateApply is gone before the Workspace that must be destroyed with it.
func (w *World) checkReleased(apply *infrav1.WorkspaceTemplateApply) {
	if apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain {
		return
	}
	for _, workspace := range w.workspacesOf(client.ObjectKeyFromObject(apply)) {
		if workspace.GetDeletionTimestamp().IsZero() && apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID == workspace.GetUID() {
			w.failf("orphan: WorkspaceTemplateApply %s is gone before its Workspace %s", client.ObjectKeyFromObject(apply), workspace.GetName())
		}
	}
}

func (w *World) workspacesOf(apply types.NamespacedName) (found []*unstructured.Unstructured) {
	for _, scope := range terraform.Scopes() {
		r := w.store.of(scope.GroupVersionKind())
		for _, key := range r.keys {
			workspace := r.objects[key].(*unstructured.Unstructured)
			if workspace.GetAnnotations()[naming.ClaimAnnotation] == naming.Claim(apply) && !naming.IsPreview(workspace) && !w.intrudes(workspace) {
				found = append(found, workspace)
			}
		}
	}
	return found
}

// intrudes reports whether a tenant created a Workspace.
func (w *World) intrudes(object client.Object) bool {
	return w.foreign[object.GetUID()]
}

func (w *World) checkWorkspace(user string, old client.Object, workspace *unstructured.Unstructured, deleted bool) {
	if old == nil && !strings.HasSuffix(user, "capt") {
		w.foreign[workspace.GetUID()] = true
	}
	if naming.IsPreview(workspace) {
		w.checkPreview(workspace)
		return
	}
	w.checkIdentity(old, workspace)
	if deleted || w.intrudes(workspace) {
		return
	}
	if claim, name, ok := strings.Cut(workspace.GetAnnotations()[naming.ClaimAnnotation], "/"); ok && len(w.workspacesOf(types.NamespacedName{Namespace: claim, Name: name})) > 1 {
		w.failf("duplicate: %s/%s has more than one Workspace", claim, name)
	}
	if strings.HasSuffix(user, "capt") {
		w.checkContent(old, workspace)
		w.checkNotReverted(workspace, versionOf(old), versionOf(workspace))
		if apply := w.applyOf(workspace); apply != nil && (old == nil || old.GetGeneration() != workspace.GetGeneration()) {
			w.checkPaused(user, apply, workspace)
		}
	}
}

// checkPreview fails if a preview could change resources.
func (w *World) checkPreview(workspace *unstructured.Unstructured) {
	policies, _, _ := unstructured.NestedStringSlice(workspace.Object, "spec", "managementPolicies")
	if len(policies) != 1 || policies[0] != "Observe" {
		w.failf("preview: %s could apply", client.ObjectKeyFromObject(workspace))
	}
}

// checkIdentity fails if a Workspace gets another Terraform state, or belongs to another WorkspaceTemplateApply.
func (w *World) checkIdentity(old client.Object, workspace *unstructured.Unstructured) {
	if old == nil || old.GetUID() != workspace.GetUID() {
		return
	}
	key, was, is := client.ObjectKeyFromObject(workspace), old.GetAnnotations(), workspace.GetAnnotations()
	if before, after := was[externalName], is[externalName]; before != "" && before != after {
		w.failf("identity: the state of Workspace %s changes from %s to %s", key, before, after)
	}
	if before, after := was[naming.ClaimAnnotation], is[naming.ClaimAnnotation]; before != after {
		w.failf("identity: Workspace %s of %s is claimed by %s", key, before, after)
	}
}

// recordContent records the content of a template, and whether it reaches the users of the template only after an approval: it was edited while its policy
// required that.
func (w *World) recordContent(old client.Object, template *infrav1.WorkspaceTemplate) {
	before, ok := old.(*infrav1.WorkspaceTemplate)
	module := template.Spec.Template.Spec.ForProvider.Module
	if ok && before.Spec.Template.Spec.ForProvider.Module == module {
		return
	}
	content := template.Namespace + module
	w.edited[content] = [2]int64{cmp.Or(w.edited[content][0], w.store.version), w.store.version}
	if ok && before.Spec.Rollout.RequiresApproval() && template.Spec.Rollout.RequiresApproval() {
		w.restricted[content] = true
	}
}

// checkPaused fails if something is written for a Cluster that was paused when nothing happened any more: no cache lags, and no request waits.
func (w *World) checkPaused(user string, apply *infrav1.WorkspaceTemplateApply, object client.Object) {
	key := types.NamespacedName{Namespace: apply.Namespace, Name: apply.Labels[clusterv1.ClusterNameLabel]}
	if w.paused[key] && strings.HasSuffix(user, "capt") && metav1.GetControllerOf(apply) != nil {
		w.failf("paused: %T %s is written, although its Cluster is paused", object, client.ObjectKeyFromObject(object))
	}
}

func moduleOfWorkspace(object client.Object) string {
	workspace, ok := object.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	module, _, _ := unstructured.NestedString(workspace.Object, "spec", "forProvider", "module")
	return module
}

// checkNotReverted fails if an update undoes an upgrade: users of the simulation never downgrade.
func (w *World) checkNotReverted(object client.Object, was, is string) {
	if is < was {
		w.failf("reverted: %s %s goes from version %s back to %s", object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object), was, is)
	}
}

func versionOf(object client.Object) string {
	workspace, ok := object.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	version, _, _ := unstructured.NestedString(workspace.Object, "spec", "forProvider", "varmap", naming.VersionVariable)
	return version
}

// checkContent fails if an update of a Workspace has a content that its template requires an approval for, or that a user has replaced by that which the
// Workspace had.
func (w *World) checkContent(old client.Object, workspace *unstructured.Unstructured) {
	before, after := moduleOfWorkspace(old), moduleOfWorkspace(workspace)
	if before == "" || before == after {
		return
	}
	namespace, content := workspace.GetNamespace(), workspace.GetNamespace()+after
	if w.restricted[content] && !w.approved[content] {
		w.failf("approval: Workspace %s gets a content that no user has approved", client.ObjectKeyFromObject(workspace))
	}
	if w.edited[content][1] < w.edited[namespace+before][0] {
		w.failf("reverted: Workspace %s gets a content that a user has replaced by that which it had", client.ObjectKeyFromObject(workspace))
	}
}

// applied checks an apply of Terraform.
func (w *World) applied(r *run, o executor.RunOptions) {
	w.tracef("terraform applies %s with %v", r.state, variablesOf(o))
	workspace := w.workspaceOf(r)
	if workspace == nil || w.intrudes(workspace) {
		return
	}
	if naming.IsPreview(workspace) {
		w.failf("preview: %s applies", r.module.Key)
	}
	if by, ok := w.appliedBy[r.state]; ok && by != r.module.UID && w.exists(by) {
		w.failf("state: %s is applied by two Workspaces", r.state)
	}
	w.appliedBy[r.state] = r.module.UID
	w.roles[r.state] = w.roleOf(workspace, r.text())
	if is := w.roles[r.state]; is.part == "eks" && w.needsVPC(is.cluster) && !w.has(is.cluster, "vpc") && !w.tampered[is.cluster] && !w.withoutVPC[is.cluster] {
		w.failf("order: the control plane of %s is created before its VPC", is.cluster)
	}
}

func (w *World) exists(uid types.UID) bool {
	for _, scope := range terraform.Scopes() {
		for _, object := range w.store.of(scope.GroupVersionKind()).objects {
			if object.GetUID() == uid {
				return true
			}
		}
	}
	return false
}

func (w *World) workspaceOf(r *run) *unstructured.Unstructured {
	for _, scope := range terraform.Scopes() {
		if found, ok := w.store.of(scope.GroupVersionKind()).objects[r.module.Key].(*unstructured.Unstructured); ok && found.GetUID() == r.module.UID {
			return found
		}
	}
	return nil
}

func (w *World) applyOf(workspace *unstructured.Unstructured) *infrav1.WorkspaceTemplateApply {
	namespace, name, _ := strings.Cut(workspace.GetAnnotations()[naming.ClaimAnnotation], "/")
	return peek[*infrav1.WorkspaceTemplateApply](w, applyKind, namespace, name)
}

func (w *World) roleOf(workspace *unstructured.Unstructured, module string) (is role) {
	for part, text := range map[string]string{"vpc": `output "vpc_id"`, "eks": `output "cluster_endpoint"`, "fargate": `output "fargate_profile_arn"`, "nodegroup": `output "node_group_arn"`} {
		if strings.Contains(module, text) {
			is.part = part
		}
	}
	if apply := w.applyOf(workspace); apply != nil {
		is.cluster = apply.Namespace + "/" + apply.Labels[clusterv1.ClusterNameLabel]
	}
	return is
}

func (w *World) needsVPC(cluster string) bool {
	namespace, name, _ := strings.Cut(cluster, "/")
	captCluster := peek[*infrav1.CAPTCluster](w, captClusterKind, namespace, name)
	return captCluster != nil && captCluster.Spec.VPC.Template.IsDefined()
}

func (w *World) has(cluster, part string) bool {
	for state, is := range w.roles {
		if is == (role{cluster, part}) && w.cloud.states[state] != nil && len(w.cloud.states[state].resources) > 0 {
			return true
		}
	}
	return false
}

// destroyed checks a destroy of Terraform, before the resources are gone.
func (w *World) destroyed(r *run) {
	workspace, is := w.workspaceOf(r), w.roles[r.state]
	if workspace != nil && (w.intrudes(workspace) || w.byUser[workspace.GetUID()]) {
		w.tampered[is.cluster] = true // A policy refuses users to delete a Workspace. If it is not installed, no order is promised.
		return
	}
	w.checkDestroyOrder(is)
	if workspace == nil {
		return
	}
	if is.part == "" { // No apply has succeeded.
		is = w.roleOf(workspace, r.text())
	}
	if by := w.appliedBy[r.state]; by != "" && by != r.module.UID && w.exists(by) {
		w.failf("tenant: the state %s is destroyed by a Workspace that did not create it", r.state)
	}
	w.checkDestroyWanted(r, workspace, is)
}

// checkDestroyOrder fails if a part of a cluster is destroyed before the parts that need it.
func (w *World) checkDestroyOrder(is role) {
	if w.tampered[is.cluster] {
		return
	}
	for part, users := range map[string][]string{"vpc": {"eks", "fargate", "nodegroup"}, "eks": {"fargate", "nodegroup"}} {
		for _, user := range users {
			if is.part == part && w.has(is.cluster, user) {
				w.failf("order: the %s of %s is destroyed before its %s", part, is.cluster, user)
			}
		}
	}
}

// checkDestroyWanted fails if a destroy was not asked for: the WorkspaceTemplateApply is not being deleted, or its owner wants it.
func (w *World) checkDestroyWanted(r *run, workspace *unstructured.Unstructured, is role) {
	apply := w.applyOf(workspace)
	if apply == nil {
		return
	}
	if is.part == "vpc" && w.byUser[apply.UID] {
		w.withoutVPC[is.cluster] = true // A control plane that is being created meanwhile may still find it: Terraform fails.
	}
	if apply.DeletionTimestamp.IsZero() {
		w.failf("destroyed: %s, although WorkspaceTemplateApply %s is not being deleted", r.state, client.ObjectKeyFromObject(apply))
	}
	if w.wanted(apply, is) {
		w.failf("destroyed: %s, although the owner of WorkspaceTemplateApply %s wants it", r.state, client.ObjectKeyFromObject(apply))
	}
}

// wanted reports whether the owner of an object that is being deleted has it in its spec, and no user has deleted either.
func (w *World) wanted(apply *infrav1.WorkspaceTemplateApply, is role) bool {
	owner := metav1.GetControllerOf(apply)
	namespace := w.store.of(namespaceKind).objects[types.NamespacedName{Name: apply.Namespace}]
	if owner == nil || w.byUser[apply.UID] || namespace == nil || namespace.GetDeletionTimestamp() != nil || is.part == "fargate" {
		return false
	}
	for _, r := range w.store.order {
		if object := r.objects[types.NamespacedName{Namespace: apply.Namespace, Name: owner.Name}]; object != nil && object.GetUID() == owner.UID {
			return object.GetDeletionTimestamp().IsZero()
		}
	}
	return false
}

// checkAwake fails if nothing happens any more although an object does not show what it depends on has reported: no event has caused a reconcile.
// Only a timer would.
func (w *World) checkAwake() {
	if w.manager == nil || w.manager.dead || len(w.parked) > 0 {
		return
	}
	for key := range w.paused {
		w.paused[key] = true
	}
	for _, key := range w.store.of(applyKind).keys {
		apply := peek[*infrav1.WorkspaceTemplateApply](w, applyKind, key.Namespace, key.Name)
		if apply.DeletionTimestamp.IsZero() && !w.retries("workspacetemplateapply", key) {
			w.checkApplyAwake(apply)
		}
	}
}

// checkApplyAwake fails if a WorkspaceTemplateApply does not show that its Workspace is Ready, or its owner does not show that it is Ready itself.
func (w *World) checkApplyAwake(apply *infrav1.WorkspaceTemplateApply) {
	ready := conditions.Get(apply, infrav1.ReadyCondition)
	if ready == nil {
		return
	}
	if workspace := w.recorded(apply); workspace != nil && w.isWritten(apply, workspace) && inProgress(ready.Reason) && isUpToDate(workspace) {
		w.failf("awake: WorkspaceTemplateApply %s still reports %s although its Workspace is Ready", client.ObjectKeyFromObject(apply), ready.Reason)
	}
	if ready.Status == metav1.ConditionTrue && apply.Status.ObservedGeneration == apply.Generation {
		w.checkCAPTClusterAwake(apply)
	}
}

// checkCAPTClusterAwake fails if the CAPTCluster that owns a Ready WorkspaceTemplateApply still waits for it.
func (w *World) checkCAPTClusterAwake(apply *infrav1.WorkspaceTemplateApply) {
	captCluster := peek[*infrav1.CAPTCluster](w, captClusterKind, apply.Namespace, ownerOf(apply, "CAPTCluster"))
	if captCluster == nil || !captCluster.DeletionTimestamp.IsZero() || w.retries("captcluster", client.ObjectKeyFromObject(captCluster)) {
		return
	}
	if inProgress(conditions.GetReason(captCluster, infrav1.VPCReadyCondition)) {
		w.failf("awake: CAPTCluster %s still waits for the WorkspaceTemplateApply of its VPC, which is Ready", client.ObjectKeyFromObject(apply))
	}
}

func ownerOf(object client.Object, kind string) string {
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == kind {
		return owner.Name
	}
	return ""
}

func inProgress(reason string) bool {
	return reason == infrav1.ProvisioningReason || reason == infrav1.NotReportedReason || reason == infrav1.WorkspaceNotReconciledReason
}

// recorded is the Workspace that a WorkspaceTemplateApply has written last.
func (w *World) recorded(apply *infrav1.WorkspaceTemplateApply) *unstructured.Unstructured {
	for _, workspace := range w.workspacesOf(client.ObjectKeyFromObject(apply)) {
		if apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID == workspace.GetUID() && workspace.GetDeletionTimestamp() == nil {
			return workspace
		}
	}
	return nil
}

// isWritten reports whether a Workspace has what its WorkspaceTemplateApply and the template have now. Updates are limited: they may wait.
func (w *World) isWritten(apply *infrav1.WorkspaceTemplateApply, workspace *unstructured.Unstructured) bool {
	t := peek[*infrav1.WorkspaceTemplate](w, templateKind, apply.TemplateKey().Namespace, apply.TemplateKey().Name)
	return apply.Status.ObservedGeneration == apply.Generation && apply.Status.WrittenGeneration == apply.Generation && t != nil && moduleOfWorkspace(workspace) == t.Spec.Template.Spec.ForProvider.Module
}

func isUpToDate(workspace *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(workspace.Object, "status", "conditions")
	ready, synced := false, false
	for _, item := range list {
		switch condition := item.(map[string]any); condition["type"] {
		case "Ready":
			ready = condition["status"] == "True"
		case "Synced":
			synced = condition["status"] == "True" && condition["observedGeneration"] == workspace.GetGeneration()
		}
	}
	checksum, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "checksum")
	return ready && synced && checksum != ""
}

// retries reports whether the last reconcile of an object has failed, or waits for the rate limit, so that a timer causes the next one.
func (w *World) retries(controller string, key types.NamespacedName) bool {
	request := reconcile.Request{NamespacedName: key}
	for _, q := range w.manager.queues {
		if q.name == controller {
			due, delayed := q.delayed[request]
			return q.NumRequeues(request) > 0 || delayed && time.Until(due) < time.Minute
		}
	}
	return false
}

// goal returns what is missing to the end state; empty if it is reached.
func (w *World) goal() string {
	for _, key := range w.store.of(namespaceKind).keys {
		if w.store.of(namespaceKind).objects[key].GetDeletionTimestamp() != nil {
			return fmt.Sprintf("namespace %s is not gone", key.Name)
		}
	}
	for _, key := range w.store.of(clusterKind).keys {
		cluster := peek[*clusterv1.Cluster](w, clusterKind, key.Namespace, key.Name)
		if missing := w.missing(cluster); missing != "" {
			return fmt.Sprintf("Cluster %s: %s", key, missing)
		}
	}
	return w.leaked()
}

func (w *World) missing(cluster *clusterv1.Cluster) string {
	if !cluster.DeletionTimestamp.IsZero() {
		return "is not gone"
	}
	infra := peek[*infrav1.CAPTCluster](w, captClusterKind, cluster.Namespace, cluster.Spec.InfrastructureRef.Name)
	plane := peek[*controlplanev1.CAPTControlPlane](w, captPlaneKind, cluster.Namespace, cluster.Spec.ControlPlaneRef.Name)
	if w.templateGone(cluster.Namespace) || infra == nil || plane == nil || !infra.DeletionTimestamp.IsZero() || !plane.DeletionTimestamp.IsZero() {
		return ""
	}
	if w.waitsForDependents(cluster.Namespace) {
		return ""
	}
	switch {
	case ptr.Deref(cluster.Spec.Paused, false): // What is pending is not written.
		return "is paused"
	case !conditions.IsTrue(infra, infrav1.ReadyCondition):
		return "CAPTCluster is not Ready: " + conditions.GetMessage(infra, infrav1.ReadyCondition)
	case !conditions.IsTrue(plane, controlplanev1.ReadyCondition):
		return "CAPTControlPlane is not Ready: " + conditions.GetMessage(plane, controlplanev1.ReadyCondition)
	case !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false):
		return "is not initialized"
	}
	return w.outdated(cluster)
}

// waitsForDependents reports whether a user has deleted a WorkspaceTemplateApply of a namespace, which waits for its dependents.
func (w *World) waitsForDependents(namespace string) bool {
	for key, object := range w.store.of(applyKind).objects {
		if key.Namespace == namespace && object.GetDeletionTimestamp() != nil && w.byUser[object.GetUID()] {
			return true
		}
	}
	return false
}

// deletes reports whether a WorkspaceTemplateApply is being deleted: its owner may create it again.
func (w *World) deletes() bool {
	for _, object := range w.store.of(applyKind).objects {
		if object.GetDeletionTimestamp() != nil {
			return true
		}
	}
	return false
}

// waits reports whether something waits for a user, such as an object without a Cluster: it reports for how long.
func (w *World) waits() bool {
	for _, gvk := range []schema.GroupVersionKind{captClusterKind, captPlaneKind, poolKind} {
		for _, object := range w.store.of(gvk).objects {
			if !conditions.IsTrue(object.(conditions.Getter), infrav1.ReadyCondition) {
				return true
			}
		}
	}
	return w.deletes()
}

// outdated returns which part of a cluster does not have what the template has now.
func (w *World) outdated(cluster *clusterv1.Cluster) string {
	for _, key := range w.store.of(applyKind).keys {
		apply := peek[*infrav1.WorkspaceTemplateApply](w, applyKind, key.Namespace, key.Name)
		if key.Namespace != cluster.Namespace || apply.Labels[clusterv1.ClusterNameLabel] != cluster.Name {
			continue
		}
		t := peek[*infrav1.WorkspaceTemplate](w, templateKind, apply.TemplateKey().Namespace, apply.TemplateKey().Name)
		for _, workspace := range w.workspacesOf(key) {
			if t != nil && moduleOfWorkspace(workspace) != t.Spec.Template.Spec.ForProvider.Module {
				return fmt.Sprintf("Workspace %s does not have the content of template %s", workspace.GetName(), t.Name)
			}
		}
	}
	return w.withoutProfile(cluster)
}

// withoutProfile returns a Fargate profile that is not in the spec of its control plane any more.
func (w *World) withoutProfile(cluster *clusterv1.Cluster) string {
	plane := peek[*controlplanev1.CAPTControlPlane](w, captPlaneKind, cluster.Namespace, cluster.Spec.ControlPlaneRef.Name)
	if is := cluster.Namespace + "/" + cluster.Name; len(plane.Spec.FargateProfiles) == 0 && w.has(is, "fargate") {
		return "its Fargate profile is not gone"
	}
	secret := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if w.store.of(corev1.SchemeGroupVersion.WithKind("Secret")).objects[secret] == nil {
		return "has no kubeconfig"
	}
	return ""
}

func (w *World) templateGone(namespace string) bool {
	for name := range modules {
		if t := peek[*infrav1.WorkspaceTemplate](w, templateKind, namespace, name); t == nil || !t.DeletionTimestamp.IsZero() {
			return true
		}
	}
	return false
}

// leaked returns resources in the cloud without a Workspace, and Workspaces without an object that they belong to.
func (w *World) leaked() string {
	for _, object := range w.store.of(workspaceKind).objects {
		if workspace := object.(*unstructured.Unstructured); !w.intrudes(workspace) && !naming.IsPreview(workspace) && w.applyOf(workspace) == nil {
			return fmt.Sprintf("Workspace %s has no WorkspaceTemplateApply", client.ObjectKeyFromObject(workspace))
		}
	}
	for _, name := range sortedKeys(w.cloud.states) {
		if uid := w.appliedBy[name]; len(w.cloud.states[name].resources) > 0 && uid != "" && !w.exists(uid) {
			return fmt.Sprintf("the resources of state %s have no Workspace", name)
		}
	}
	return ""
}
