// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Objects are those of the graph of a control plane. An object that does not exist is absent.
type Objects struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	Cluster      *clusterv1.Cluster
	// CAPTCluster is the infrastructure of the Cluster.
	CAPTCluster *infrav1.CAPTCluster
	// Pools are the CAPTMachinePools of the namespace; those of other Clusters are ignored.
	Pools []*infrav1.CAPTMachinePool
	// Applies are the WorkspaceTemplateApplies on which the control plane depends, and those that depend on it.
	Applies []*infrav1.WorkspaceTemplateApply
	// Templates have nil for those that do not exist or do not allow the namespace. The state of others is unknown.
	Templates map[types.NamespacedName]*infrav1.WorkspaceTemplate
	// Secrets are the names of Secrets that exist in the namespace.
	Secrets sets.Set[string]
}

// Put adds a WorkspaceTemplateApply, or replaces an older version of it.
func (o *Objects) Put(apply *infrav1.WorkspaceTemplateApply) {
	i := slices.IndexFunc(o.Applies, func(a *infrav1.WorkspaceTemplateApply) bool { return keyOf(a) == keyOf(apply) })
	if i < 0 {
		o.Applies = append(o.Applies, apply)
		return
	}
	o.Applies[i] = apply
}

func keyOf(apply *infrav1.WorkspaceTemplateApply) Key {
	return Key{applyKind, apply.Namespace, apply.Name}
}

// Owned returns the names of the WorkspaceTemplateApplies of the control plane, of its VPC and of its Fargate profiles, which may not exist
// yet. The name for the VPC is empty if it has none.
func (o *Objects) Owned() (controlPlane, vpc string, profiles []string) {
	spec := &o.ControlPlane.Spec
	controlPlane = cmp.Or(spec.WorkspaceTemplateApplyRef.Name, naming.ControlPlaneWorkspaceTemplateApply(o.ControlPlane.Name))
	if o.CAPTCluster != nil && o.CAPTCluster.Spec.VPC.Template.IsDefined() {
		vpc = cmp.Or(o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name, naming.VPCWorkspaceTemplateApply(o.CAPTCluster.Name))
	}
	for i := range spec.FargateProfiles {
		profile := &spec.FargateProfiles[i]
		profiles = append(profiles, cmp.Or(profile.WorkspaceTemplateApplyRef.Name, naming.FargateWorkspaceTemplateApply(o.Cluster.Name, profile.Name)))
	}
	return controlPlane, vpc, profiles
}

// WorkspaceNames returns the name of the Workspace of a WorkspaceTemplateApply. If it has none yet, the names that it may get.
func WorkspaceNames(apply *infrav1.WorkspaceTemplateApply) (names []string) {
	if apply.Spec.WorkspaceName != "" {
		return []string{apply.Spec.WorkspaceName}
	}
	for _, scope := range terraform.Scopes() {
		names = append(names, naming.Workspace(scope, naming.KeyOf(apply)))
	}
	return names
}

// builder builds the graph.
type builder struct {
	*Objects
	*Graph
	namespace            string
	self, infrastructure Key
	// controlPlane, vpc and profiles are the keys of Owned, secret is the connection Secret of the control plane.
	controlPlane, vpc, secret Key
	profiles                  []Key
	// applies are those of Objects, and those of Owned that do not exist.
	applies []*infrav1.WorkspaceTemplateApply
	// order is the position of what CAPT creates: VPC, control plane, Fargate profiles.
	order map[Key]int
}

// Graph builds the graph. An owner depends on the WorkspaceTemplateApply that it refers to; everything else that it controls depends on it.
func (o *Objects) Graph() *Graph {
	b := &builder{Objects: o, Graph: New(), namespace: o.ControlPlane.Namespace, order: map[Key]int{}}
	b.self = Key{controlPlaneKind, b.namespace, o.ControlPlane.Name}
	b.addOwned()
	b.addOrder()
	b.addCluster()
	b.addControlPlane()
	b.addPools()
	for _, apply := range b.applies {
		b.addOwner(apply)
		b.addWaits(apply)
	}
	b.addTemplates()
	b.addSecrets()
	for id, node := range b.nodes {
		if !b.exists[int64(id)] && hidden(node.Key, b.namespace) {
			b.AddNode(Node{Key: node.Key})
		}
	}
	return b.Graph
}

// addOwned adds all WorkspaceTemplateApplies.
func (b *builder) addOwned() {
	controlPlane, vpc, profiles := b.Owned()
	own := func(name string) Key { return Key{applyKind, b.namespace, name} }
	b.controlPlane, b.vpc = own(controlPlane), own(vpc)
	for _, name := range profiles {
		b.profiles = append(b.profiles, own(name))
	}
	b.applies = slices.Clone(b.Applies)
	for _, key := range slices.Concat([]Key{b.vpc, b.controlPlane}, b.profiles) {
		exists := slices.ContainsFunc(b.Applies, func(a *infrav1.WorkspaceTemplateApply) bool { return keyOf(a) == key })
		if !exists && key.Name != "" {
			b.applies = append(b.applies, &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		}
	}
	for _, apply := range b.Applies {
		node := NodeOf(apply)
		if apply.Namespace != b.namespace {
			node = Node{Key: node.Key} // Its state is not disclosed.
		}
		b.AddNode(node)
	}
}

// addOrder adds the order in which CAPT creates WorkspaceTemplateApplies and their connection Secrets.
func (b *builder) addOrder() {
	secret := func(name string) Key { return Key{SecretKind, b.namespace, name} }
	b.secret = secret(naming.ControlPlaneConnectionSecret(b.ControlPlane.Name))
	b.order[b.vpc], b.order[b.controlPlane] = 1, 2
	for _, profile := range b.profiles {
		b.order[profile] = 3
	}
	for _, apply := range b.Applies {
		ref := apply.Spec.WriteConnectionSecretToRef
		if ref == nil || apply.Namespace != b.namespace {
			continue
		}
		if keyOf(apply) == b.controlPlane {
			b.secret = secret(ref.Name)
		}
		if order := b.order[keyOf(apply)]; order > 0 {
			b.order[secret(ref.Name)] = order
		}
	}
	if b.CAPTCluster != nil && b.CAPTCluster.Spec.VPC.ConnectionSecretRef.IsDefined() {
		b.order[secret(b.CAPTCluster.Spec.VPC.ConnectionSecretRef.Name)] = 1
	}
}

func (b *builder) addCluster() {
	cluster := NodeOf(b.Cluster)
	b.AddNode(cluster)
	b.depends(cluster.Key, b.self)
	ref := b.Cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return
	}
	b.infrastructure = Key{ref.Kind, b.namespace, ref.Name}
	b.depends(cluster.Key, b.infrastructure)
	b.depends(b.self, b.infrastructure)
	b.depends(b.controlPlane, b.infrastructure)
	switch {
	case b.CAPTCluster != nil:
		b.AddNode(NodeOf(b.CAPTCluster))
	case ref.Kind != captClusterKind:
		ready := metav1.ConditionFalse
		if ptr.Deref(b.Cluster.Status.Initialization.InfrastructureProvisioned, false) {
			ready = metav1.ConditionTrue
		}
		b.AddNode(Node{Key: b.infrastructure, Ready: ready})
	}
	if b.vpc.Name != "" {
		b.depends(b.infrastructure, b.vpc)
		b.uses(b.infrastructure, b.CAPTCluster.Spec.VPC.Template.Ref)
	}
}

// addControlPlane adds the control plane, with its connection Secret, its kubeconfigs and its Fargate profiles.
func (b *builder) addControlPlane() {
	b.AddNode(NodeOf(b.ControlPlane))
	b.depends(b.self, b.controlPlane)
	b.uses(b.self, b.ControlPlane.Spec.WorkspaceTemplateRef)
	b.depends(b.self, b.secret)
	b.depends(b.secret, b.controlPlane)
	for _, kubeconfig := range []string{naming.KubeconfigSecret(b.Cluster.Name), naming.UserKubeconfigSecret(b.Cluster.Name)} {
		b.depends(Key{SecretKind, b.namespace, kubeconfig}, b.self)
	}
	for i, profile := range b.profiles {
		b.depends(profile, b.self)
		b.uses(profile, b.ControlPlane.Spec.FargateProfiles[i].WorkspaceTemplateRef)
	}
}

func (b *builder) addPools() {
	for _, pool := range b.Pools {
		if pool.Namespace != b.namespace || pool.Labels[clusterv1.ClusterNameLabel] != b.Cluster.Name {
			continue
		}
		node, apply := NodeOf(pool), Key{applyKind, b.namespace, cmp.Or(pool.Spec.WorkspaceTemplateApplyRef.Name, naming.MachinePoolWorkspaceTemplateApply(pool.Name))}
		b.AddNode(node)
		b.depends(node.Key, b.self)
		b.depends(node.Key, apply)
		b.depends(apply, b.self)
		b.uses(node.Key, pool.Spec.WorkspaceTemplateRef)
		b.order[apply] = 3
	}
}

func (b *builder) addOwner(apply *infrav1.WorkspaceTemplateApply) {
	key := keyOf(apply)
	if apply.Namespace != b.namespace || apply.Spec.TemplateRef.Name == "" {
		return
	}
	b.uses(key, apply.Spec.TemplateRef)
	if workspace, named := WorkspaceOf(apply); named {
		node := NodeOf(apply)
		node.Key = workspace
		b.AddNode(node)
		b.depends(key, workspace)
	}
	switch controller := metav1.GetControllerOf(apply); {
	case controller == nil:
	case controller.Kind == controlPlaneKind && controller.Name == b.self.Name && key != b.controlPlane:
		b.depends(key, b.self)
	case controller.Kind == captClusterKind && controller.Name == b.infrastructure.Name && key != b.vpc:
		b.depends(key, b.infrastructure)
	}
}

func (b *builder) addWaits(apply *infrav1.WorkspaceTemplateApply) {
	for i, dependency := range apply.Spec.WaitForWorkspaces {
		workspace, path := apply.DependencyKey(dependency), field.NewPath("spec", "waitForWorkspaces").Index(i)
		providers, key := b.providers(workspace), Key{workspaceKind, workspace.Namespace, workspace.Name}
		visible := apply.Namespace == b.namespace
		if len(providers) > 0 && (!visible || !hidden(key, b.namespace)) {
			for _, provider := range providers {
				b.waits(apply, provider, path)
			}
			continue
		}
		b.waits(apply, key, path)
		if visible {
			b.AddNode(awaited(apply, key, workspaceKind, dependency.Name))
		}
		for _, provider := range providers { // In another namespace, it must look the same whether it exists or not.
			b.depends(key, provider)
		}
	}
	for i, dependency := range apply.Spec.WaitForSecrets {
		secret := Key{SecretKind, cmp.Or(dependency.Namespace, apply.Namespace), dependency.Name}
		b.waits(apply, secret, field.NewPath("spec", "waitForSecrets").Index(i))
		if apply.Namespace == b.namespace && waitsFor(apply, SecretKind, dependency.Name) {
			b.AddNode(awaited(apply, secret, SecretKind, dependency.Name))
		}
	}
}

// awaited is the state of an object according to the WorkspaceTemplateApply that waits for it.
func awaited(apply *infrav1.WorkspaceTemplateApply, key Key, kind, name string) Node {
	if waitsFor(apply, kind, name) {
		return Node{key, metav1.ConditionFalse, NotReadyReason}
	}
	return Node{Key: key, Ready: metav1.ConditionTrue}
}

// providers returns the WorkspaceTemplateApplies that have a Workspace, or will have it.
func (b *builder) providers(workspace types.NamespacedName) (keys []Key) {
	for _, apply := range b.applies {
		if apply.Namespace == workspace.Namespace && slices.Contains(WorkspaceNames(apply), workspace.Name) {
			keys = append(keys, keyOf(apply))
		}
	}
	return keys
}

func (b *builder) addTemplates() {
	for _, node := range b.Nodes() {
		if node.Kind != TemplateKind {
			continue
		}
		switch template, known := b.Templates[types.NamespacedName{Namespace: node.Namespace, Name: node.Name}]; {
		case template != nil:
			node = NodeOf(template)
		case known:
			node.Reason = infrav1.TemplateNotFoundReason
		default:
			node.Ready, node.Reason = metav1.ConditionUnknown, ""
		}
		b.AddNode(node)
	}
}

// addSecrets adds which Secrets exist, and which WorkspaceTemplateApplies write them.
func (b *builder) addSecrets() {
	writers := map[Key]Key{}
	for _, apply := range b.Applies {
		if ref := apply.Spec.WriteConnectionSecretToRef; ref != nil {
			writers[Key{SecretKind, apply.Namespace, ref.Name}] = keyOf(apply)
		}
	}
	for _, node := range b.Nodes() {
		if node.Kind != SecretKind || node.Namespace != b.namespace {
			continue
		}
		switch {
		case !b.Secrets.Has(node.Name):
			node.Reason = NotFoundReason
		case node.Reason != NotReadyReason:
			node.Ready, node.Reason = metav1.ConditionTrue, ""
		}
		b.AddNode(node)
		if writer, known := writers[node.Key]; known {
			b.depends(node.Key, writer)
		}
	}
}

// depends adds a dependency that CAPT needs.
func (b *builder) depends(from, to Key) { b.AddEdge(Edge{From: from, To: to}) }

func (b *builder) uses(from Key, template infrav1.WorkspaceTemplateReference) {
	key := template.Key(b.namespace)
	b.depends(from, Key{TemplateKind, key.Namespace, key.Name})
}

// waits adds a dependency of a list. The user may have added it, unless CAPT creates the two in this order.
func (b *builder) waits(apply *infrav1.WorkspaceTemplateApply, to Key, path *field.Path) {
	from := keyOf(apply)
	if order := b.order[to]; order > 0 && order < b.order[from] {
		path = nil
	}
	b.AddEdge(Edge{from, to, path})
}

// Kinds of nodes.
const (
	clusterKind      = "Cluster"
	captClusterKind  = "CAPTCluster"
	controlPlaneKind = "CAPTControlPlane"
	machinePoolKind  = "CAPTMachinePool"
	applyKind        = "WorkspaceTemplateApply"
	workspaceKind    = "Workspace"
	// TemplateKind and SecretKind are the kinds whose objects a reader looks for, once edges name them.
	TemplateKind = "WorkspaceTemplate"
	SecretKind   = "Secret"
)

// Reasons of nodes that have no condition.
const (
	// NotFoundReason is the reason of an object that does not exist.
	NotFoundReason = "NotFound"
	// NotReadyReason is the reason of a Secret or a Workspace that does not have what another object waits for.
	NotReadyReason = "NotReady"
)

// Object has conditions.
type Object interface {
	metav1.Object
	GetConditions() []metav1.Condition
}

// NodeOf returns an object as a node. A Cluster is ready once it is initialized: its condition Available changes with its workers, and each
// change would be a status write.
func NodeOf(object Object) Node {
	kind, condition := "", infrav1.ReadyCondition
	initialized := false
	switch object := object.(type) {
	case *clusterv1.Cluster:
		kind, condition = clusterKind, ""
		initialized = ptr.Deref(object.Status.Initialization.ControlPlaneInitialized, false)
	case *infrav1.CAPTCluster:
		kind = captClusterKind
	case *controlplanev1.CAPTControlPlane:
		kind = controlPlaneKind
	case *infrav1.CAPTMachinePool:
		kind = machinePoolKind
	case *infrav1.WorkspaceTemplateApply:
		kind = applyKind
	case *infrav1.WorkspaceTemplate:
		kind, condition = TemplateKind, infrav1.ValidCondition
	}
	node := Node{Key: Key{kind, object.GetNamespace(), object.GetName()}}
	switch found := meta.FindStatusCondition(object.GetConditions(), condition); {
	case !object.GetDeletionTimestamp().IsZero():
		node.Ready, node.Reason = metav1.ConditionFalse, infrav1.DeletingReason
	case initialized:
		node.Ready = metav1.ConditionTrue
	case kind == clusterKind:
		node.Ready, node.Reason = metav1.ConditionFalse, infrav1.ProvisioningReason
	case found == nil:
		node.Ready = metav1.ConditionUnknown
	case found.Status == metav1.ConditionTrue:
		node.Ready = metav1.ConditionTrue
	default:
		node.Ready, node.Reason = found.Status, reason(found.Reason)
	}
	return node
}

// reason returns one reason for all steps on the way to Ready: each would be a status write of every object that depends on this one.
func reason(of string) string {
	switch of {
	case infrav1.WorkspaceNotFoundReason, infrav1.QueuedReason, infrav1.WaitingForOwnerReason, infrav1.WaitingForControlPlaneReason, infrav1.NotReportedReason:
		return infrav1.ProvisioningReason
	}
	return of
}

// waitsFor reports whether a WorkspaceTemplateApply reports a Secret or Workspace as missing or not ready.
func waitsFor(apply *infrav1.WorkspaceTemplateApply, kind, name string) bool {
	return slices.ContainsFunc(apply.Status.MissingDependencies, func(m infrav1.MissingDependency) bool { return m.Kind == kind && m.Name == name })
}

// SameState reports whether two versions of an object have the same state in the graph of a control plane. Their dependencies may differ.
func SameState(before, after Object) bool {
	if NodeOf(before) != NodeOf(after) {
		return false
	}
	was, isApply := before.(*infrav1.WorkspaceTemplateApply)
	is, alsoApply := after.(*infrav1.WorkspaceTemplateApply)
	return !isApply || !alsoApply || slices.EqualFunc(was.Status.MissingDependencies, is.Status.MissingDependencies,
		func(a, b infrav1.MissingDependency) bool { return a.Kind == b.Kind && a.Name == b.Name })
}
