// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/legacy"
)

// stages returns the objects of fleets in each state: Clusters of this version under each rollout policy, from their creation on, and Clusters that
// CAPT v0.3 left.
func stages(t *testing.T) (stages [][]client.Object) {
	t.Helper()
	for _, policy := range []infrav1.WorkspaceTemplateRollout{
		{}, {Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalNone, MaxConcurrent: 1},
		{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges},
	} {
		created := stagesUnder(t, policy)
		stages = append(stages, created...)
		for range len(created) / 2 { // At rest is the usual state.
			stages = append(stages, created[len(created)-1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(legacy.Named())) {
		stages = append(stages, legacyStage(t, name))
	}
	return stages
}

// legacyStage returns the objects of a fleet as CAPT v0.3 left it.
func legacyStage(t *testing.T, name string) (objects []client.Object) {
	t.Helper()
	fixture := legacy.Named()[name]
	fixture.Quick = true
	snapshot, err := fixture.InMemory(t.Context(), legacy.NamesOf(name), builder.Created)
	require.NoError(t, err)
	for _, list := range [][]client.Object{
		pointers(snapshot.Clusters), pointers(snapshot.CAPTClusters), pointers(snapshot.ControlPlanes), pointers(snapshot.Templates), pointers(snapshot.Applies),
		pointers(snapshot.Workspaces), pointers(snapshot.Namespaces),
	} {
		objects = append(objects, list...)
	}
	return append(objects, definitions()...)
}

func pointers[T any, P interface {
	*T
	client.Object
}](list []T) (objects []client.Object) {
	for i := range list {
		objects = append(objects, P(&list[i]))
	}
	return objects
}

func definitions() (objects []client.Object) {
	for _, scope := range terraform.Scopes() {
		objects = append(objects, builder.WorkspaceDefinition(scope))
	}
	return objects
}

// elsewhere is a namespace with a Cluster whose objects have the names of those of another one.
const elsewhere = "elsewhere"

// stagesUnder returns the objects of three Clusters in each state of their creation, and while an edit of a template is rolled out. Cluster a has a VPC from a
// template, a Fargate profile and a machine pool, Cluster b an existing VPC; addon waits for the control plane of a. Another Cluster a is elsewhere.
func stagesUnder(t *testing.T, policy infrav1.WorkspaceTemplateRollout) (stages [][]client.Object) {
	t.Helper()
	in := func(namespace string) builder.Option {
		return func(object client.Object) {
			if object.SetNamespace(namespace); namespace != builder.Namespace {
				object.SetUID(object.GetUID() + "/" + types.UID(namespace))
			}
		}
	}
	owned := func(cluster *clusterv1.Cluster) builder.Option {
		return func(object client.Object) {
			in(cluster.Namespace)(object)
			object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster.Name})
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}})
		}
	}
	template := func(name string, consumed ...string) client.Object {
		return builder.WorkspaceTemplate(name, builder.WithNamespace("platform"), builder.Consuming(consumed...),
			builder.With(func(template *infrav1.WorkspaceTemplate) {
				template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"*"}}
				template.Spec.Rollout = policy
			}))
	}
	ref := func(name string) infrav1.WorkspaceTemplateReference {
		return infrav1.WorkspaceTemplateReference{Name: name, Namespace: "platform"}
	}
	vpc := builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref = ref("vpc") })
	eks := builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef = ref("eks") })
	profile := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{profileOf("default")}
	})
	addon := builder.WorkspaceTemplateApply("addon", builder.WaitingForWorkspace("a-eks-controlplane", ""), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef = ref("vpc")
	}))
	a, b, other := builder.Cluster("a"), builder.Cluster("b"), builder.Cluster("a", in(elsewhere))
	m := newManager(t, append(definitions(),
		a, b, other, template("vpc", "region", "vpc_name"), template("eks", "kubernetes_version", "region"), template("eks2", "kubernetes_version", "region"),
		template("fargate", "profile_name", "selectors"), template("nodegroup", "desired_size", "min_size", "max_size", "kubernetes_version"), addon,
		machinePoolOf(a), poolOf(a, ref("nodegroup")), machinePoolOf(b), poolOf(b, ref("nodegroup")),
		builder.CAPTCluster("a", owned(a), vpc), builder.CAPTControlPlane("a", owned(a), eks, profile),
		builder.CAPTCluster("b", owned(b), builder.WithExistingVPC("vpc-2")), builder.CAPTControlPlane("b", owned(b), eks),
		builder.CAPTCluster("a", owned(other), vpc), builder.CAPTControlPlane("a", owned(other), eks, builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "other" })),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: builder.Namespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}},
	))
	run := func(rounds int) {
		for range rounds {
			stages = append(stages, m.objects(t))
			m.step(t)
			stages = append(stages, m.objects(t))
			m.provide(t)
		}
	}
	if run(8); !policy.IsStaged() {
		return stages
	}
	m.change(t, func(object client.Object) {
		switch object := object.(type) {
		case *infrav1.WorkspaceTemplate:
			object.Spec.Template.Spec.ForProvider.Module += "# a rollout\n"
		case *controlplanev1.CAPTControlPlane:
			if object.Name == "b" {
				object.Spec.Version = "v1.32.0"
			}
		}
	})
	run(4)
	return append(stages, m.objects(t))
}

// machinePoolOf is the MachinePool of a Cluster.
func machinePoolOf(cluster *clusterv1.Cluster) *clusterv1.MachinePool {
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: cluster.Name + "-workers", UID: builder.UID("MachinePool", cluster.Name), Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
		CreationTimestamp: metav1.NewTime(builder.Created), Generation: 1,
	}}
	pool.Spec = clusterv1.MachinePoolSpec{ClusterName: cluster.Name, Replicas: ptr.To[int32](3)}
	pool.Spec.Template.Spec.ClusterName = cluster.Name
	pool.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool", Name: pool.Name}
	return pool
}

// poolOf is the CAPTMachinePool of machinePoolOf.
func poolOf(cluster *clusterv1.Cluster, template infrav1.WorkspaceTemplateReference) *infrav1.CAPTMachinePool {
	owner := machinePoolOf(cluster)
	pool := &infrav1.CAPTMachinePool{ObjectMeta: *owner.ObjectMeta.DeepCopy()}
	pool.UID = builder.UID("CAPTMachinePool", cluster.Name)
	pool.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachinePool", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
	pool.Spec.WorkspaceTemplateRef, pool.Spec.Scaling.MaxSize = template, ptr.To[int32](5)
	return pool
}

func profileOf(name string) controlplanev1.FargateProfile {
	return controlplanev1.FargateProfile{
		Name: name, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "platform"},
		Selectors: []controlplanev1.FargateSelector{{Namespace: name}},
	}
}

// fleet is a state of the management cluster.
type fleet struct {
	*rand.Rand
	objects []client.Object
	changes []string
}

// generate changes the objects of a stage at random.
func generate(random *rand.Rand, stages [][]client.Object) *fleet {
	f := &fleet{Rand: random}
	stage := random.IntN(len(stages))
	for _, object := range stages[stage] {
		f.objects = append(f.objects, object.DeepCopyObject().(client.Object))
	}
	f.changes = append(f.changes, fmt.Sprintf("stage %d", stage))
	all := mutations()
	for range random.IntN(4) {
		mutation := all[random.IntN(len(all))]
		if changed := mutation(f); changed != "" {
			f.changes = append(f.changes, changed)
		}
	}
	return f
}

// edit changes a random object of a type.
func edit[O client.Object](what string, change func(f *fleet, object O)) func(*fleet) string {
	return func(f *fleet) string {
		object, ok := pick[O](f)
		if !ok {
			return ""
		}
		change(f, object)
		object.SetGeneration(object.GetGeneration() + 1)
		return fmt.Sprintf("%s of %s", what, key(object))
	}
}

// mark changes metadata or status of a random object of a type, so that its generation stays.
func mark[O client.Object](what string, change func(f *fleet, object O)) func(*fleet) string {
	return func(f *fleet) string {
		object, ok := pick[O](f)
		if !ok {
			return ""
		}
		change(f, object)
		return fmt.Sprintf("%s of %s", what, key(object))
	}
}

func pick[O client.Object](f *fleet) (found O, ok bool) {
	var all []O
	for _, object := range f.objects {
		if typed, is := object.(O); is {
			all = append(all, typed)
		}
	}
	if len(all) == 0 {
		return found, false
	}
	return all[f.IntN(len(all))], true
}

func remove[O client.Object](f *fleet) string {
	object, ok := pick[O](f)
	if !ok {
		return ""
	}
	f.objects = slices.DeleteFunc(f.objects, func(other client.Object) bool { return other == client.Object(object) })
	return fmt.Sprintf("remove %T %s", object, key(object))
}

func deleting(_ *fleet, object client.Object) {
	object.SetDeletionTimestamp(ptr.To(metav1.NewTime(builder.Created)))
	if len(object.GetFinalizers()) == 0 {
		object.SetFinalizers([]string{"example.com/held"})
	}
}

func annotate(name, value string) func(*fleet, client.Object) {
	return func(_ *fleet, object client.Object) {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = value
		object.SetAnnotations(annotations)
	}
}

type (
	captCluster  = *infrav1.CAPTCluster
	controlPlane = *controlplanev1.CAPTControlPlane
	pool         = *infrav1.CAPTMachinePool
	machinePool  = *clusterv1.MachinePool
	apply        = *infrav1.WorkspaceTemplateApply
	template     = *infrav1.WorkspaceTemplate
)

func mutations() []func(*fleet) string {
	return slices.Concat(ofTemplates(), ofOwners(), ofPools(), ofClusters(), ofApplies(), ofWorkspaces())
}

func ofPools() []func(*fleet) string {
	return []func(*fleet) string{
		edit("replicas", func(f *fleet, o machinePool) { o.Spec.Replicas = ptr.To(int32(f.IntN(8))) }),
		edit("replicas", func(_ *fleet, o machinePool) { o.Spec.Replicas = nil }),
		edit("version", func(f *fleet, o machinePool) {
			o.Spec.Template.Spec.Version = []string{"v1.31.0", "v1.32.0", "v1.30.0", "v1.20.0", "latest"}[f.IntN(5)]
		}),
		edit("infrastructure", func(_ *fleet, o machinePool) { o.Spec.Template.Spec.InfrastructureRef.Name = "missing" }),
		mark("manager of the replicas", func(f *fleet, o machinePool) { annotate(clusterv1.ReplicasManagedByAnnotation, "autoscaler")(f, o) }),
		mark("maximum", func(f *fleet, o machinePool) {
			annotate(clusterv1.AutoscalerMaxSizeAnnotation, []string{"2", "9", "many"}[f.IntN(3)])(f, o)
		}),
		mark("deletion", func(f *fleet, o machinePool) { deleting(f, o) }),
		remove[machinePool],
		edit("limits", func(f *fleet, o pool) {
			o.Spec.Scaling = infrav1.MachinePoolScaling{MinSize: ptr.To(int32(f.IntN(6))), MaxSize: ptr.To(int32(1 + f.IntN(5)))}
		}),
		edit("limits", func(_ *fleet, o pool) { o.Spec.Scaling = infrav1.MachinePoolScaling{} }),
		edit("variables", func(_ *fleet, o pool) { o.Spec.Variables = infrav1.TextVariables(map[string]string{"size": "2"}) }),
		edit("name", func(_ *fleet, o pool) { o.Spec.NodeGroupName = "mine" }),
		edit("template", func(f *fleet, o pool) { o.Spec.WorkspaceTemplateRef.Name = []string{"eks2", "missing"}[f.IntN(2)] }),
		edit("reference", func(f *fleet, o pool) {
			o.Spec.WorkspaceTemplateApplyRef.Name = []string{"", "addon", "a-eks-controlplane-apply", "new"}[f.IntN(4)]
		}),
		edit("protection", func(_ *fleet, o pool) { o.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled }),
		mark("pause", func(f *fleet, o pool) { annotate(clusterv1.PausedAnnotation, "")(f, o) }),
		mark("deletion", func(f *fleet, o pool) { deleting(f, o) }),
		mark("no label", func(_ *fleet, o pool) { o.Labels = nil }),
		mark("owner", func(_ *fleet, o pool) { o.OwnerReferences = nil }),
		func(f *fleet) string { // As Cluster API deletes a MachinePool.
			o, ok := pick[machinePool](f)
			if !ok {
				return ""
			}
			deleting(f, o)
			for _, object := range f.objects {
				if own, is := object.(pool); is && key(own) == key(o) {
					deleting(f, own)
				}
			}
			return "deletion of everything of MachinePool " + o.Name
		},
		remove[pool],
	}
}

func ofTemplates() []func(*fleet) string {
	return []func(*fleet) string{
		remove[template],
		mark("deletion", func(f *fleet, o template) { deleting(f, o) }),
		edit("allowed namespaces", func(_ *fleet, o template) { o.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{} }),
		edit("module", func(_ *fleet, o template) { o.Spec.Template.Spec.ForProvider.Module += "# edited\n" }),
		edit("module", func(_ *fleet, o template) { o.Spec.Template.Spec.ForProvider.Module += "# edited\n" }),
		edit("unknown variable", func(_ *fleet, o template) {
			o.Spec.Template.Spec.ForProvider.Vars = append(o.Spec.Template.Spec.ForProvider.Vars, terraform.Var{Key: "x", Value: "${unknown}"})
		}),
		edit("scope", func(_ *fleet, o template) { o.Spec.WorkspaceScope = terraform.ScopeCluster }),
		edit("ProviderConfig", func(_ *fleet, o template) { o.Spec.Template.Spec.ProviderConfigRef.Name = "other" }),
		mark("approval", func(_ *fleet, o template) {
			o.Annotations = map[string]string{naming.ApproveAnnotation: rollout.HashOf(o)}
		}),
		edit("policy", func(_ *fleet, o template) {
			o.Spec.Rollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways}
		}),
	}
}

func ofOwners() []func(*fleet) string {
	version := func(f *fleet, o controlPlane) {
		o.Spec.Version = []string{"v1.31.0", "v1.32.0", "v1.33.0", "v1.30.0", "v1.29.0", "latest", "1.32"}[f.IntN(7)]
	}
	return []func(*fleet) string{
		edit("version", version), edit("version", version),
		edit("region", func(f *fleet, o controlPlane) { o.Spec.Region = []string{builder.Region, "us-east-1"}[f.IntN(2)] }),
		edit("variables", func(_ *fleet, o controlPlane) {
			o.Spec.Variables = infrav1.TextVariables(map[string]string{"size": "2"})
		}),
		edit("tags", func(_ *fleet, o controlPlane) {
			o.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a"}
		}),
		edit("access", func(_ *fleet, o controlPlane) {
			o.Spec.EndpointAccess = &controlplanev1.EndpointAccess{PublicCIDRs: []controlplanev1.CIDR{"10.0.0.0/8"}}
		}),
		edit("template", func(f *fleet, o controlPlane) {
			o.Spec.WorkspaceTemplateRef.Name = []string{"eks2", "missing"}[f.IntN(2)]
		}),
		edit("reference", func(f *fleet, o controlPlane) {
			o.Spec.WorkspaceTemplateApplyRef.Name = []string{"", "addon", "a-vpc", "a-eks-controlplane-apply", "new"}[f.IntN(5)]
		}),
		edit("profile added", func(_ *fleet, o controlPlane) {
			o.Spec.FargateProfiles = append(o.Spec.FargateProfiles, profileOf("more"))
		}),
		edit("profiles removed", func(_ *fleet, o controlPlane) { o.Spec.FargateProfiles = nil }),
		edit("profile changed", func(_ *fleet, o controlPlane) {
			for i := range o.Spec.FargateProfiles {
				o.Spec.FargateProfiles[i].Selectors[0].Namespace = "other"
			}
		}),
		edit("variables", func(_ *fleet, o captCluster) {
			o.Spec.VPC.Template.Variables = infrav1.TextVariables(map[string]string{"size": "2"})
		}),
		edit("name", func(_ *fleet, o captCluster) { o.Spec.VPC.Template.Name = "mine" }),
		edit("policy", func(_ *fleet, o captCluster) { o.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain }),
		edit("template", func(f *fleet, o captCluster) {
			if o.Spec.VPC.Template.IsDefined() {
				o.Spec.VPC.Template.Ref.Name = []string{"eks2", "missing"}[f.IntN(2)]
			}
		}),
		edit("reference", func(f *fleet, o captCluster) {
			o.Spec.WorkspaceTemplateApplyRef.Name = []string{"", "addon", "b-eks-controlplane-apply", "new"}[f.IntN(4)]
		}),
		mark("replaced VPC", func(_ *fleet, o captCluster) { o.Status.VPC.ReplacedBy = "vpc-3" }),
		mark("lost VPC", func(_ *fleet, o captCluster) { o.Status.VPC = infrav1.VPCStatus{} }),
		mark("pause", func(f *fleet, o captCluster) { annotate(clusterv1.PausedAnnotation, "")(f, o) }),
		mark("pause", func(f *fleet, o controlPlane) { annotate(clusterv1.PausedAnnotation, "")(f, o) }),
		mark("deletion", func(f *fleet, o captCluster) { deleting(f, o) }),
		mark("deletion", func(f *fleet, o controlPlane) { deleting(f, o) }),
		edit("protection", func(_ *fleet, o captCluster) { o.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled }),
		edit("protection", func(_ *fleet, o controlPlane) { o.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled }),
		mark("owner", func(_ *fleet, o controlPlane) { o.OwnerReferences = nil }),
		remove[captCluster], remove[controlPlane],
	}
}

func ofClusters() []func(*fleet) string {
	type cluster = *clusterv1.Cluster
	deletion := func(f *fleet) string { // As Cluster API deletes a Cluster.
		o, _ := pick[cluster](f)
		if o == nil {
			return ""
		}
		deleting(f, o)
		for _, object := range f.objects {
			switch object.(type) {
			case captCluster, controlPlane:
				if object.GetName() == o.Name && object.GetNamespace() == o.Namespace {
					deleting(f, object)
				}
			}
		}
		return "deletion of everything of " + o.Name
	}
	return []func(*fleet) string{
		edit("pause", func(_ *fleet, o cluster) { o.Spec.Paused = ptr.To(true) }),
		edit("pause", func(f *fleet, o cluster) { annotate(clusterv1.PausedAnnotation, "")(f, o) }),
		mark("infrastructure", func(_ *fleet, o cluster) { o.Status.Initialization.InfrastructureProvisioned = nil }),
		edit("infrastructureRef", func(_ *fleet, o cluster) { o.Spec.InfrastructureRef.Name = "missing" }),
		edit("infrastructureRef", func(_ *fleet, o cluster) { o.Spec.InfrastructureRef.Kind = "OtherCluster" }),
		mark("deletion", func(f *fleet, o cluster) { deleting(f, o) }),
		remove[cluster], deletion, deletion,
	}
}

func ofApplies() []func(*fleet) string {
	set := func(o apply, name, value string) {
		if o.Spec.Variables == nil {
			o.Spec.Variables = infrav1.Variables{}
		}
		o.Spec.Variables[name] = infrav1.TextValue(value)
	}
	ready := func(_ *fleet, o apply, status metav1.ConditionStatus, reason, message string) {
		o.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(builder.Created)}}
	}
	return []func(*fleet) string{
		remove[apply],
		mark("deletion", func(f *fleet, o apply) { deleting(f, o) }),
		mark("deletion", func(f *fleet, o apply) { deleting(f, o) }),
		mark("pause", func(f *fleet, o apply) { annotate(clusterv1.PausedAnnotation, "")(f, o) }),
		mark("failure", func(f *fleet, o apply) { ready(f, o, metav1.ConditionFalse, infrav1.ApplyFailedReason, "no zones") }),
		mark("other controller", func(_ *fleet, o apply) {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "b", UID: builder.UID("CAPTCluster", "b"), Controller: ptr.To(true)}}
		}),
		mark("no owner", func(_ *fleet, o apply) { o.OwnerReferences = nil }),
		edit("variables", func(_ *fleet, o apply) { set(o, "more", "1") }),
		edit("cluster_name", func(_ *fleet, o apply) { set(o, "cluster_name", "other") }),
		edit("policy", func(_ *fleet, o apply) { o.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain }),
		edit("wait for a Workspace", func(f *fleet, o apply) {
			o.Spec.WaitForWorkspaces = append(o.Spec.WaitForWorkspaces, infrav1.WorkspaceDependency{
				Name: []string{"a-vpc", "addon", "a-eks-controlplane", "missing"}[f.IntN(4)], Namespace: []string{"", "", elsewhere}[f.IntN(3)],
			})
		}),
		edit("Workspace", func(f *fleet, o apply) {
			if o.Spec.WorkspaceName == "" { // It is immutable.
				o.Spec.WorkspaceName = []string{"a-vpc", "addon", "unknown"}[f.IntN(3)]
			}
		}),
		mark("younger", func(_ *fleet, o apply) { o.CreationTimestamp = metav1.NewTime(now) }),
		mark("lost status", func(_ *fleet, o apply) { o.Status = infrav1.WorkspaceTemplateApplyStatus{} }),
		mark("approval", func(f *fleet, o apply) { annotate(naming.ApproveAnnotation, o.Status.Change.Revision)(f, o) }),
		mark("preview", func(f *fleet, o apply) {
			result := []infrav1.PreviewResult{infrav1.PreviewEmpty, infrav1.PreviewChanges, infrav1.PreviewFailed}[f.IntN(3)]
			if o.Status.Change.Revision != "" {
				o.Status.Change.Preview.Result = result
			}
		}),
		mark("lost revision", func(_ *fleet, o apply) { o.Spec.TemplateRevision = "" }),
		mark("restored", func(_ *fleet, o apply) {
			if o.DeletionTimestamp.IsZero() {
				o.Finalizers, o.Status = nil, infrav1.WorkspaceTemplateApplyStatus{}
			}
		}),
		mark("allowed ProviderConfig", func(f *fleet, o apply) {
			annotate("capt.cluster.x-k8s.io/allow-provider-config", "other")(f, o)
		}),
	}
}

func ofWorkspaces() []func(*fleet) string {
	type workspace = *unstructured.Unstructured
	return []func(*fleet) string{
		remove[workspace],
		mark("deletion", func(f *fleet, o workspace) { deleting(f, o) }),
		mark("recreation", func(_ *fleet, o workspace) { o.SetUID("another"); o.SetAnnotations(nil) }),
		edit("drift", func(_ *fleet, o workspace) {
			_ = unstructured.SetNestedField(o.Object, "# drifted", "spec", "forProvider", "module")
		}),
		remove[*corev1.Secret], remove[*appsv1.ControllerRevision],
	}
}

func (f *fleet) String() string { return strings.Join(f.changes, "; ") }
