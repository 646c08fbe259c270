// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

const (
	vpcApply     = "demo-vpc"
	controlApply = "demo-eks-controlplane-apply"
	profileApply = "demo-default-fargate-apply"
)

// objects are those of a Ready control plane with a Fargate profile.
func objects(applies ...*infrav1.WorkspaceTemplateApply) *graph.Objects {
	controlPlane := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "default", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	}))
	captCluster, cluster := builder.CAPTCluster("demo"), builder.Cluster("demo")
	ready := []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}}
	controlPlane.Status.Conditions, captCluster.Status.Conditions = ready, ready
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	o := &graph.Objects{
		ControlPlane: controlPlane, Cluster: cluster, CAPTCluster: captCluster,
		Templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{},
		Secrets:   sets.New("demo-eks-connection", "demo-vpc-connection", "demo-kubeconfig", "demo-user-kubeconfig"),
	}
	for _, name := range []string{"vpc", "eks", "fargate"} {
		template := builder.WorkspaceTemplate(name)
		template.Status.Conditions = []metav1.Condition{{Type: infrav1.ValidCondition, Status: metav1.ConditionTrue}}
		o.Templates[types.NamespacedName{Namespace: builder.Namespace, Name: name}] = template
	}
	for _, apply := range append([]*infrav1.WorkspaceTemplateApply{
		vpc(), control(), waiting(profileApply, "demo-default-fargate", "demo-eks-controlplane", builder.OwnedBy(controlPlane), template("fargate"),
			builder.WaitingForSecret("demo-vpc-connection"), builder.WaitingForSecret("demo-eks-connection")),
	}, applies...) {
		o.Put(apply)
	}
	return o
}

func template(name string) builder.Option {
	return builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = name })
}

func vpc(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	options = append([]builder.Option{
		builder.UpToDate(nil), builder.WithWorkspaceName("demo-vpc"), builder.OwnedBy(builder.CAPTCluster("demo")), template("vpc"),
		builder.WithConnectionSecret("demo-vpc-connection", builder.Namespace),
	}, options...)
	return builder.WorkspaceTemplateApply(vpcApply, options...)
}

func control(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	options = append([]builder.Option{
		builder.UpToDate(nil), builder.OwnedBy(builder.CAPTControlPlane("demo")), template("eks"),
		builder.WithConnectionSecret("demo-eks-connection", builder.Namespace),
	}, options...)
	return waiting(controlApply, "demo-eks-controlplane", "demo-vpc", options...)
}

// waiting is a WorkspaceTemplateApply that waits for a Workspace.
func waiting(name, workspace, other string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	options = append([]builder.Option{
		builder.UpToDate(nil), builder.WithWorkspaceName(workspace), template("vpc"), builder.WaitingForWorkspace(other, ""),
	}, options...)
	return builder.WorkspaceTemplateApply(name, options...)
}

// edges of a graph, from kind and name to kind and name.
func edges(t *testing.T, o *graph.Objects, from string) (to []string) {
	t.Helper()
	kind, name, _ := strings.Cut(from, " ")
	g := o.Graph()
	for _, node := range g.Upstream(graph.Key{Kind: kind, Namespace: builder.Namespace, Name: name}) {
		to = append(to, node.Kind+" "+node.Name)
	}
	return to
}

// dependencies are those of status, one a line.
func dependencies(o *graph.Objects) (lines []string) {
	for _, d := range o.Dependencies() {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", d.Direction, d.Kind, d.Name, d.Ready, d.Reason)))
	}
	return lines
}

func TestTheDependenciesOfAReadyControlPlane(t *testing.T) {
	assert.Equal(t, []string{
		"Upstream CAPTCluster demo True",
		"Upstream Secret demo-eks-connection True",
		"Upstream Workspace demo-eks-controlplane True",
		"Upstream Workspace demo-vpc True",
		"Upstream WorkspaceTemplate eks True",
		"Upstream WorkspaceTemplate vpc True",
		"Upstream WorkspaceTemplateApply demo-eks-controlplane-apply True",
		"Upstream WorkspaceTemplateApply demo-vpc True",
		"Downstream Cluster demo True",
		"Downstream Secret demo-kubeconfig True",
		"Downstream Secret demo-user-kubeconfig True",
		"Downstream WorkspaceTemplateApply demo-default-fargate-apply True",
	}, dependencies(objects()))
}

func TestTheDependenciesOfANewControlPlane(t *testing.T) {
	o := objects()
	o.Applies, o.Templates, o.Secrets, o.CAPTCluster.Status.Conditions = nil, nil, nil, nil
	o.Cluster.Status = clusterv1.ClusterStatus{}
	assert.Equal(t, []string{
		"Upstream CAPTCluster demo Unknown",
		"Upstream Secret demo-eks-connection False NotFound",
		"Upstream WorkspaceTemplate eks Unknown",
		"Upstream WorkspaceTemplate vpc Unknown",
		"Upstream WorkspaceTemplateApply demo-eks-controlplane-apply False NotFound",
		"Upstream WorkspaceTemplateApply demo-vpc False NotFound",
		"Downstream Cluster demo False Provisioning",
		"Downstream Secret demo-kubeconfig False NotFound",
		"Downstream Secret demo-user-kubeconfig False NotFound",
		"Downstream WorkspaceTemplateApply demo-default-fargate-apply False NotFound",
	}, dependencies(o))
}

// Each kind of edge, as everything that can be reached by it.
func TestEdges(t *testing.T) {
	for name, row := range map[string]struct {
		change func(o *graph.Objects)
		from   string
		has    []string
	}{
		"Cluster to infrastructure and control plane": {nil, "Cluster demo", []string{"CAPTCluster demo", "CAPTControlPlane demo"}},
		"control plane to VPC":                        {nil, "CAPTControlPlane demo", []string{"CAPTCluster demo"}},
		"control plane to its apply":                  {nil, "CAPTControlPlane demo", []string{"WorkspaceTemplateApply " + controlApply}},
		"control plane to its template":               {nil, "CAPTControlPlane demo", []string{"WorkspaceTemplate eks"}},
		"control plane to the connection Secret":      {nil, "CAPTControlPlane demo", []string{"Secret demo-eks-connection"}},
		"connection Secret to its writer":             {nil, "Secret demo-vpc-connection", []string{"WorkspaceTemplateApply demo-vpc"}},
		"the apply of the control plane to the VPC":   {func(o *graph.Objects) { o.Applies = nil }, "WorkspaceTemplateApply " + controlApply, []string{"CAPTCluster demo"}},
		"VPC to its apply":                            {nil, "CAPTCluster demo", []string{"WorkspaceTemplateApply demo-vpc", "WorkspaceTemplate vpc"}},
		"apply to Workspace":                          {nil, "WorkspaceTemplateApply demo-vpc", []string{"Workspace demo-vpc"}},
		"apply to template":                           {nil, "WorkspaceTemplateApply demo-vpc", []string{"WorkspaceTemplate vpc"}},
		"waitForWorkspaces":                           {nil, "WorkspaceTemplateApply " + controlApply, []string{"WorkspaceTemplateApply demo-vpc"}},
		"waitForSecrets":                              {nil, "WorkspaceTemplateApply " + profileApply, []string{"Secret demo-vpc-connection", "Secret demo-eks-connection"}},
		"Fargate profile to control plane":            {nil, "WorkspaceTemplateApply " + profileApply, []string{"CAPTControlPlane demo", "WorkspaceTemplate fargate"}},
		"owner reference": {func(o *graph.Objects) {
			o.Put(builder.WorkspaceTemplateApply("obsolete", builder.OwnedBy(o.ControlPlane)))
		}, "WorkspaceTemplateApply obsolete", []string{"CAPTControlPlane demo"}},
		"owner reference to the VPC": {func(o *graph.Objects) {
			o.Put(builder.WorkspaceTemplateApply("helper", builder.OwnedBy(o.CAPTCluster)))
		}, "WorkspaceTemplateApply helper", []string{"CAPTCluster demo"}},
		"kubeconfig to control plane":  {nil, "Secret demo-kubeconfig", []string{"CAPTControlPlane demo"}},
		"a Workspace without an apply": {func(o *graph.Objects) { o.Put(waiting("addon", "addon", "by-hand")) }, "WorkspaceTemplateApply addon", []string{"Workspace by-hand"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects()
			if row.change != nil {
				row.change(o)
			}
			assert.Subset(t, edges(t, o, row.from), row.has)
		})
	}
}

func TestWhatWaitsForTheControlPlaneIsDownstream(t *testing.T) {
	addon := waiting("addon", "addon", "demo-eks-controlplane", builder.NotUpToDate(infrav1.ApplyFailedReason, ""))
	more := waiting("more", "more", "addon", builder.NotUpToDate(infrav1.WorkspaceNotFoundReason, ""))
	got := dependencies(objects(addon, more))
	assert.Contains(t, got, "Downstream WorkspaceTemplateApply addon False ApplyFailed")
	assert.Contains(t, got, "Downstream WorkspaceTemplateApply more False Provisioning", "one reason for all steps")
	assert.Len(t, got, 14, "the Workspaces of others do not count")
}

func TestStatesOfDependencies(t *testing.T) {
	missing := func(kind, name string) builder.Option {
		return builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.MissingDependencies = []infrav1.MissingDependency{{Kind: kind, Name: name}}
		})
	}
	for name, row := range map[string]struct {
		change func(o *graph.Objects)
		want   string
	}{
		"a Secret that exists":         {func(o *graph.Objects) { o.Put(vpc(builder.WaitingForSecret("account"))); o.Secrets.Insert("account") }, "Secret account True"},
		"a Secret that does not exist": {func(o *graph.Objects) { o.Put(vpc(builder.WaitingForSecret("account"))) }, "Secret account False NotFound"},
		"a Secret without a key": {func(o *graph.Objects) {
			o.Put(vpc(builder.WaitingForSecret("account"), missing("Secret", "account")))
			o.Secrets.Insert("account")
		}, "Secret account False NotReady"},
		"a Workspace without an apply": {func(o *graph.Objects) { o.Put(vpc(builder.WaitingForWorkspace("by-hand", ""))) }, "Workspace by-hand True"},
		"one that is missing": {func(o *graph.Objects) {
			o.Put(vpc(builder.WaitingForWorkspace("by-hand", ""), missing("Workspace", "by-hand")))
		}, "Workspace by-hand False NotReady"},
		"a missing template": {func(o *graph.Objects) {
			o.Templates[types.NamespacedName{Namespace: builder.Namespace, Name: "eks"}] = nil
		}, "WorkspaceTemplate eks False TemplateNotFound"},
		"an object that is deleted": {func(o *graph.Objects) {
			builder.Deleting()(o.CAPTCluster)
		}, "CAPTCluster demo False Deleting"},
		"infrastructure of another kind": {func(o *graph.Objects) {
			o.CAPTCluster, o.Cluster.Spec.InfrastructureRef.Kind = nil, "OtherCluster"
			builder.WithInfrastructureProvisioned()(o.Cluster)
		}, "OtherCluster demo True"},
		"one that is not provisioned": {func(o *graph.Objects) { o.CAPTCluster, o.Cluster.Spec.InfrastructureRef.Kind = nil, "OtherCluster" }, "OtherCluster demo False"},
		"a Workspace of the cluster scope": {func(o *graph.Objects) {
			apply := vpc()
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "demo-vpc"}
			o.Put(apply)
		}, "Workspace demo-vpc True"},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects()
			row.change(o)
			assert.Contains(t, dependencies(o), "Upstream "+row.want)
		})
	}
}

func TestNamesOfOtherNamespacesAreHidden(t *testing.T) {
	there := builder.WithNamespace("other")
	shared := types.NamespacedName{Namespace: "platform", Name: "eks-golden"}
	o := objects(
		vpc(builder.WaitingForWorkspace("secret-network", "other"), builder.WaitingForWorkspace("secret-account", "other")),
		waiting("secret-network-apply", "secret-network", "secret-base", there, builder.WaitingForSecret("secret-key")),
		waiting("secret-addon", "secret-addon", "demo-eks-controlplane", there, builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Spec.WaitForWorkspaces[0].Namespace = builder.Namespace
		})))
	o.ControlPlane.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: shared.Name, Namespace: shared.Namespace}
	o.Templates[shared] = nil
	got := o.Dependencies()
	assert.NotContains(t, fmt.Sprint(got), "secret-")
	assert.NotContains(t, fmt.Sprint(got), "golden")
	assert.Subset(t, dependencies(o), []string{
		"Upstream Workspace (another namespace) True",
		"Upstream WorkspaceTemplate (another namespace) False TemplateNotFound",
		"Downstream WorkspaceTemplateApply (another namespace)",
	})
	assert.NotContains(t, fmt.Sprint(dependencies(o)), "Upstream Secret (another namespace)", "what they depend on is not disclosed")
	for _, dependency := range got {
		assert.Equal(t, dependency.Name == graph.Elsewhere, dependency.Namespace == "", dependency)
	}
}

func TestDependenciesAreBounded(t *testing.T) {
	o := objects()
	for i := range 300 {
		o.Put(waiting(fmt.Sprintf("addon-%03d", i), fmt.Sprintf("addon-%03d", i), "demo-eks-controlplane"))
	}
	got := dependencies(o)
	require.Len(t, got, graph.MaxDependencies)
	assert.Equal(t, dependencies(objects())[:8], got[:8], "what the control plane depends on comes first")
}

func TestCycles(t *testing.T) {
	const never = ". They are never created or updated. Remove "
	for name, row := range map[string]struct {
		objects *graph.Objects
		want    string
		blocks  bool
	}{
		"none": {objects(), "", false},
		"the VPC waits for the control plane": {
			objects(vpc(builder.WaitingForWorkspace("demo-eks-controlplane", ""))),
			"objects wait for each other: WorkspaceTemplateApply demo-vpc → WorkspaceTemplateApply demo-eks-controlplane-apply → WorkspaceTemplateApply demo-vpc" + never +
				"spec.waitForWorkspaces[0] of WorkspaceTemplateApply demo-vpc", true,
		},
		"the VPC waits for the connection Secret": {
			objects(vpc(builder.WaitingForSecret("demo-eks-connection"))),
			"objects wait for each other: WorkspaceTemplateApply demo-vpc → Secret demo-eks-connection → WorkspaceTemplateApply demo-eks-controlplane-apply → WorkspaceTemplateApply demo-vpc" + never +
				"spec.waitForSecrets[0] of WorkspaceTemplateApply demo-vpc", true,
		},
		"the control plane waits for a Fargate profile": {
			objects(control(builder.WaitingForWorkspace("demo-default-fargate", ""))),
			"objects wait for each other: WorkspaceTemplateApply demo-eks-controlplane-apply → WorkspaceTemplateApply demo-default-fargate-apply → WorkspaceTemplateApply demo-eks-controlplane-apply" + never +
				"spec.waitForWorkspaces[1] of WorkspaceTemplateApply demo-eks-controlplane-apply", true,
		},
		"the control plane waits for itself": {
			objects(control(builder.WaitingForWorkspace("demo-eks-controlplane", ""))),
			"objects wait for each other: WorkspaceTemplateApply demo-eks-controlplane-apply → WorkspaceTemplateApply demo-eks-controlplane-apply" + never +
				"spec.waitForWorkspaces[1] of WorkspaceTemplateApply demo-eks-controlplane-apply", true,
		},
		"what depends on the control plane": {
			objects(waiting("a", "a", "demo-eks-controlplane", builder.WaitingForWorkspace("b", "")), waiting("b", "b", "a")),
			"objects wait for each other: WorkspaceTemplateApply a → WorkspaceTemplateApply b → WorkspaceTemplateApply a" + never +
				"spec.waitForWorkspaces[1] of WorkspaceTemplateApply a", false,
		},
		"through another namespace": {
			objects(vpc(builder.WaitingForWorkspace("x", "other")),
				waiting("x", "x", "y", builder.WithNamespace("other")),
				waiting("y", "y", "unused", builder.WithNamespace("other"), builder.WaitingForWorkspace("demo-vpc", builder.Namespace))),
			"objects wait for each other: WorkspaceTemplateApply demo-vpc → (another namespace) → WorkspaceTemplateApply demo-vpc" + never +
				"spec.waitForWorkspaces[0] of WorkspaceTemplateApply demo-vpc", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			message, blocks := row.objects.Cycle()
			assert.Equal(t, row.want, message)
			assert.Equal(t, row.blocks, blocks)
		})
	}
}

// The VPC must not wait for the control plane, and the control plane must wait for the VPC, wherever the cycle is found first.
func TestTheDependencyThatCAPTNeedsIsNotTheOneToRemove(t *testing.T) {
	o := objects(vpc(builder.WaitingForWorkspace("demo-eks-controlplane", "")))
	slices.Reverse(o.Applies)
	message, _ := o.Cycle()
	assert.Contains(t, message, "WorkspaceTemplateApply demo-eks-controlplane-apply → WorkspaceTemplateApply demo-vpc → WorkspaceTemplateApply demo-eks-controlplane-apply")
	assert.Contains(t, message, "Remove spec.waitForWorkspaces[0] of WorkspaceTemplateApply demo-vpc")
}

// The namespace of the control plane must not be able to find out what exists in another one.
func TestAWorkspaceOfAnotherNamespaceLooksTheSameNotReadyOrMissing(t *testing.T) {
	waits := func(more ...*infrav1.WorkspaceTemplateApply) *graph.Objects {
		return objects(append(more, vpc(builder.WaitingForWorkspace("x", "other"), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.MissingDependencies = []infrav1.MissingDependency{{Kind: "Workspace", Name: "x"}}
		})))...)
	}
	there := builder.WithNamespace("other")
	exists := waits(waiting("x", "x", "y", there, builder.WaitingForSecret("s")), waiting("y", "y", "x", there), builder.WorkspaceTemplateApply("more", there))
	assert.Equal(t, dependencies(waits()), dependencies(exists))
	message, _ := exists.Cycle()
	assert.Empty(t, message)
}

// Nothing that waits for the control plane exists before it, but the VPC may wait for it already.
func TestACycleIsFoundBeforeTheControlPlaneExists(t *testing.T) {
	for _, workspace := range graph.WorkspaceNames(builder.WorkspaceTemplateApply(controlApply)) {
		o := objects()
		o.Applies = nil
		o.Put(vpc(builder.WaitingForWorkspace(workspace, "")))
		message, blocks := o.Cycle()
		assert.True(t, blocks, workspace)
		assert.Contains(t, message, "WorkspaceTemplateApply demo-vpc → WorkspaceTemplateApply demo-eks-controlplane-apply → CAPTCluster demo → WorkspaceTemplateApply demo-vpc")
	}
}

func TestSameState(t *testing.T) {
	missing := vpc(builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.Status.MissingDependencies = []infrav1.MissingDependency{{Kind: "Secret", Name: "s", Message: "one"}}
	}))
	reworded := missing.DeepCopy()
	reworded.Status.MissingDependencies[0].Message = "two"
	assert.True(t, graph.SameState(vpc(), vpc()))
	assert.True(t, graph.SameState(missing, reworded))
	assert.True(t, graph.SameState(vpc(builder.NotUpToDate(infrav1.ProvisioningReason, "")), vpc(builder.NotUpToDate(infrav1.QueuedReason, ""))))
	assert.False(t, graph.SameState(vpc(), missing))
	assert.False(t, graph.SameState(vpc(), vpc(builder.NotUpToDate(infrav1.ProvisioningReason, ""))))
}

// A machine pool depends on the control plane, and on a WorkspaceTemplateApply that waits for it. Pools of other Clusters are not in the graph.
func TestTheDependenciesOfAControlPlaneWithAMachinePool(t *testing.T) {
	pool := &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "workers", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	pool.Spec.WorkspaceTemplateRef.Name = "nodegroup"
	pool.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.NodesNotReadyReason}}
	other := pool.DeepCopy()
	other.Name, other.Labels = "other", map[string]string{clusterv1.ClusterNameLabel: "other"}
	o := objects(waiting("workers-nodegroup-apply", "workers-nodegroup", "demo-eks-controlplane", template("nodegroup")))
	before := dependencies(objects())
	o.Pools = []*infrav1.CAPTMachinePool{pool, other}
	after := dependencies(o)
	assert.Subset(t, after, before)
	assert.Equal(t, []string{
		"Downstream CAPTMachinePool workers False NodesNotReady", "Downstream WorkspaceTemplateApply workers-nodegroup-apply True",
	}, slices.DeleteFunc(after, func(line string) bool { return slices.Contains(before, line) }))
	assert.Subset(t, edges(t, o, "CAPTMachinePool workers"), []string{"CAPTControlPlane demo", "WorkspaceTemplate nodegroup", "WorkspaceTemplateApply workers-nodegroup-apply"})

	o = objects() // Its node group is to be created.
	o.Pools = []*infrav1.CAPTMachinePool{pool}
	assert.Contains(t, dependencies(o), "Downstream WorkspaceTemplateApply workers-nodegroup-apply False NotFound")
	message, _ := o.Cycle()
	assert.Empty(t, message)
}

// What the control plane controls reports itself, and a template does not affect what was rendered from it.
func TestWhatIsBroken(t *testing.T) {
	fails := func(o *graph.Objects, reason string) {
		o.CAPTCluster.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason}}
	}
	for name, row := range map[string]struct {
		change func(*graph.Objects)
		want   string
	}{
		"nothing": {func(*graph.Objects) {}, ""},
		"the VPC": {func(o *graph.Objects) {
			fails(o, infrav1.ApplyFailedReason)
			o.Put(vpc(builder.NotUpToDate(infrav1.ApplyFailedReason, "")))
		}, "CAPTCluster demo (ApplyFailed), WorkspaceTemplateApply demo-vpc (ApplyFailed)"},
		"the VPC is updated":    {func(o *graph.Objects) { fails(o, infrav1.ProvisioningReason) }, ""},
		"the connection Secret": {func(o *graph.Objects) { o.Secrets.Delete("demo-eks-connection") }, "Secret demo-eks-connection (NotFound)"},
		"its own apply":         {func(o *graph.Objects) { o.Put(control(builder.NotUpToDate(infrav1.ApplyFailedReason, ""))) }, ""},
		"its template": {func(o *graph.Objects) {
			o.Templates[types.NamespacedName{Namespace: builder.Namespace, Name: "eks"}] = nil
		}, ""},
		"what depends on it": {func(o *graph.Objects) { o.Secrets.Delete("demo-kubeconfig") }, ""},
		"a Workspace of no apply": {func(o *graph.Objects) {
			o.Put(control(builder.WaitingForWorkspace("peering", ""), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
				a.Status.MissingDependencies = []infrav1.MissingDependency{{Kind: "Workspace", Name: "peering"}}
			})))
		}, "Workspace peering (NotReady)"},
	} {
		o := objects()
		row.change(o)
		assert.Equal(t, row.want, o.Broken(), name)
	}
}
