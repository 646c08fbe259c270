// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestWhatCannotBeReadIsNotAbsent(t *testing.T) {
	demo := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}}
	labeled := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	leaving := func(controlPlane ...client.Object) *environment {
		captCluster := builder.CAPTCluster("demo", owned, labeled, held, builder.WithApplyRef("demo-vpc"), builder.Deleting())
		return newEnvironment(t, append(controlPlane, builder.DeletedCluster("demo"), captCluster, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster)))...)
	}
	for name, newEnvironment := range map[string]func() *environment{
		"a new VPC": func() *environment {
			return newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned, held),
				builder.CAPTControlPlane("demo"), builder.CAPTControlPlane("a", builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "demo" }), builder.WithLabel(clusterv1.ClusterNameLabel, "a")))
		},
		"another VPC": func() *environment {
			return replacedEnvironment(t, "vpc-2", func(*clusterv1.Cluster, *infrav1.CAPTCluster) {},
				builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks")), builder.WorkspaceTemplateApply("demo-eks"))
		},
		"a deletion":                       func() *environment { return leaving() },
		"a deletion after a control plane": func() *environment { return leaving(builder.CAPTControlPlane("demo")) },
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			builder.FailEachRead(t, env.API, func() error {
				_, err := env.Reconcile(t.Context(), demo)
				return err
			})
		})
	}
}

// The cache may not have what was created a moment ago. While nothing may be created, the API server is not asked.
func TestAVPCThatOnlyTheAPIServerHasIsNotCreatedAgain(t *testing.T) {
	byHand := builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"))
	for name, row := range map[string]struct {
		options []builder.Option
		cluster []builder.Option
		want    string
	}{
		"a new VPC":             {nil, nil, "False AdoptionRequired"},
		"while it is paused":    {nil, []builder.Option{builder.With(func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })}, "False Paused"},
		"while it has no owner": {[]builder.Option{builder.With(func(c *infrav1.CAPTCluster) { c.OwnerReferences = nil })}, nil, "False WaitingForOwner"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.Cluster("demo", row.cluster...), builder.CAPTCluster("demo", append([]builder.Option{owned}, row.options...)...))
			env.Uncached = builder.Clients(builder.Cluster("demo"), builder.CAPTCluster("demo", owned), byHand.DeepCopy()).Build()
			if row.want != "False AdoptionRequired" {
				env.Uncached = builder.Unasked(t, env.API)
			}
			assert.Equal(t, []string{"status"}, env.reconcile())
			assert.Equal(t, row.want, env.conditionSummary()["VPCReady"])
		})
	}
}

// Subnets that are shared have tags with the name of the EKS cluster.
func TestTheVPCGetsTheNameOfTheEKSCluster(t *testing.T) {
	named := builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "legacy" })
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTControlPlane("demo", named), builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc")),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": "legacy"})))
	assert.Contains(t, env.reconcile(), "apply demo-vpc", "a VPC of the EKS cluster is its own")
	assert.Equal(t, "legacy", env.apply("demo-vpc").Spec.Variables.Text("cluster_name"))
}

// A restore creates objects in any order. Whether the WorkspaceTemplateApply is that of the EKS cluster is not known before the control plane exists.
func TestAVPCThatExistsWaitsForTheControlPlaneWithTheNameOfTheEKSCluster(t *testing.T) {
	named := builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "legacy" })
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTControlPlane("demo"), builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc")),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": "legacy"})))
	env.remove(builder.CAPTControlPlane("demo"))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False WaitingForControlPlane", env.conditionSummary()["Ready"])
	assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State)
	require.NoError(t, env.Create(t.Context(), builder.CAPTControlPlane("demo", named)))
	assert.Contains(t, env.reconcile(), "apply demo-vpc")
}

// Status cannot show who needs the name: the cache may not have it yet when the control plane is created.
func TestAControlPlaneWakesTheOwnersThatNeedItsName(t *testing.T) {
	other := builder.OwnedBy(builder.Cluster("other"))
	conflict := builder.With(func(c *infrav1.CAPTCluster) {
		c.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.EKSClusterNameConflictReason}}
	})
	env := newEnvironment(t, builder.Cluster("demo"), builder.Cluster("other"), builder.CAPTCluster("demo", owned), builder.CAPTCluster("other", other), builder.CAPTCluster("alone"),
		builder.CAPTCluster("demo", builder.WithNamespace("elsewhere"), owned), builder.CAPTCluster("waits", builder.WithNamespace("elsewhere"), conflict))
	woken := func(controlPlane *controlplanev1.CAPTControlPlane) (names []string) {
		for _, request := range env.requests().UsingControlPlane(t.Context(), controlPlane) {
			names = append(names, request.String())
		}
		return names
	}
	waits, demo := "elsewhere/waits", builder.Namespace+"/demo"
	assert.ElementsMatch(t, []string{waits, demo}, woken(builder.CAPTControlPlane("demo")), "Cluster API has not set its owner yet")
	assert.ElementsMatch(t, []string{waits}, woken(builder.CAPTControlPlane("strange")))
	env.remove(builder.Cluster("demo"))
	assert.ElementsMatch(t, []string{waits, demo}, woken(builder.CAPTControlPlane("demo", builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))), "the deletion of the CAPTCluster waits for it")
}

// Two control planes cannot share an EKS cluster, so the second one needs no VPC. One that exists stays, and other control planes are not read for it.
func TestTheVPCOfAnEKSClusterThatAnotherControlPlaneHas(t *testing.T) {
	older := builder.CAPTControlPlane("a", builder.WithLabel(clusterv1.ClusterNameLabel, "a"), builder.WithRegion(builder.Region), builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "demo" }))
	env := newEnvironment(t, builder.WorkspaceTemplate("eks"), older, builder.Cluster("demo"), builder.CAPTControlPlane("demo"), builder.CAPTCluster("demo", owned))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False EKSClusterNameConflict", env.conditionSummary()["VPCReady"])

	env.remove(older)
	assert.Contains(t, env.reconcile(), "apply demo-vpc")
	env.Uncached = builder.Unasked(t, env.API)
	env.Client = builder.FailingList[*controlplanev1.CAPTControlPlaneList](env.API)
	env.reconcile()
}

func TestForAnExistingVPCNoWorkspaceTemplateApplyIsLookedFor(t *testing.T) {
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned, builder.WithExistingVPC("vpc-1")))
	env.Uncached = builder.Unasked(t, env.API)
	env.reconcile()
	assert.Equal(t, "True Ready", env.conditionSummary()["Ready"])
	assert.Equal(t, "vpc-1", env.get().Status.VPC.ID)
}

func TestAControlPlaneThatDoesNotExistWasNotCreated(t *testing.T) {
	created, err := newEnvironment(t).isCreated(t.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: "demo"})
	require.NoError(t, err)
	assert.False(t, created)
}
