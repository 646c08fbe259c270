// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

var unowned = builder.With(func(pool *infrav1.CAPTMachinePool) { pool.OwnerReferences = nil })

func TestWhatCannotBeReadIsNotAbsent(t *testing.T) {
	held := builder.WithFinalizers(infrav1.CAPTMachinePoolFinalizer)
	kubeconfig := func() client.Object {
		return builder.SecretWith("demo-kubeconfig", map[string]string{"value": "spoiled"})
	}
	late := apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machinepools").GroupResource(), "workers")
	for name, newEnvironment := range map[string]func() *environment{
		"a new node group":               func() *environment { return newEnvironment(t, three(), poolOf(held), kubeconfig()) },
		"a MachinePool without its pool": func() *environment { return newEnvironment(t, three(), poolOf(held, unowned)) },
		"a MachinePool that is not in the cache": func() *environment {
			env := newEnvironment(t, three(), poolOf(held))
			env.Client = builder.FailingGet[*clusterv1.MachinePool](env.API, late)
			return env
		},
		"a deletion": func() *environment {
			pool := poolOf(held, builder.WithApplyRef("workers-nodegroup-apply"), builder.Deleting())
			return newEnvironment(t, pool, builder.WorkspaceTemplateApply("workers-nodegroup-apply", builder.OwnedBy(pool)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			builder.FailEachRead(t, env.API, func() error {
				_, err := env.Reconcile(t.Context(), request)
				return err
			})
		})
	}
}

// The cache may not have what was created a moment ago. While nothing may be created, the API server is not asked.
func TestANodeGroupThatOnlyTheAPIServerHasIsNotCreatedAgain(t *testing.T) {
	byHand := builder.WorkspaceTemplateApply("workers-nodegroup-apply", builder.WithVariables(map[string]string{"cluster_name": "demo", "nodegroup_name": "workers"}),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "nodegroup" }))
	env := newEnvironment(t, three(), poolOf())
	env.Uncached = builder.Clients(byHand).Build()
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])

	for name, env := range map[string]*environment{
		"without an owner":         newEnvironment(t, three(), poolOf(unowned)),
		"paused":                   newEnvironment(t, three(), poolOf(builder.Paused())),
		"before its control plane": newEnvironmentOf(t, three(), poolOf(), builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.CAPTControlPlane("demo"), builder.SecretWith("demo-kubeconfig", nil)),
		"that of another pool": newEnvironment(t, three(), poolOf(builder.WithApplyRef(byHand.Name)), builder.SecretWith("demo-kubeconfig", nil),
			builder.WorkspaceTemplateApply(byHand.Name, builder.OwnedBy(builder.CAPTMachinePool("another")))),
		"a node group that is there": newEnvironment(t, three(), poolOf(builder.WithApplyRef(byHand.Name)), builder.WorkspaceTemplateApply(byHand.Name, builder.OwnedBy(poolOf()))),
	} {
		env.Uncached = builder.Unasked(t, env.API)
		env.reconcile()
		assert.Contains(t, env.summary(), "Ready", name)
	}
}

// Other node groups matter for a name only, which is given once.
func TestOtherNodeGroupsAreNotReadForOneThatExists(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	env.reconcile()
	env.Client = builder.FailingList[*clusterv1.MachinePoolList](env.API)
	env.reconcile()
}

// The label of the pool can be changed by users, and the kubeconfig is read once.
func TestThePoolOfAnotherLabelBelongsToTheClusterOfItsMachinePool(t *testing.T) {
	env := newEnvironment(t, three(), poolOf(builder.WithLabel(clusterv1.ClusterNameLabel, "x")))
	assert.Contains(t, env.reconcile(), "apply workers-nodegroup-apply")
	assert.Equal(t, "demo", env.apply().Labels[clusterv1.ClusterNameLabel])

	env = created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	env.settles("NodesReady", "True NodesReady")
	env.Uncached = builder.Unasked(t, env.API)
	env.reconcile()
}

// Cluster API sets no owner while the Cluster is paused.
func TestAPoolWithoutAnOwnerIsPausedWithItsCluster(t *testing.T) {
	paused := builder.With(func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	of := builder.With(func(m *clusterv1.MachinePool) { m.Spec.ClusterName = "other" })
	for name, row := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"its Cluster":                       {[]client.Object{three(), builder.Cluster("demo", paused)}, "False Paused"},
		"a Cluster that does not exist":     {[]client.Object{three()}, "False WaitingForOwner"},
		"the Cluster of another pool":       {[]client.Object{builder.MachinePool("a", of), three(), builder.Cluster("demo"), builder.Cluster("other", paused)}, "False WaitingForOwner"},
		"its Cluster, beside another one's": {[]client.Object{builder.MachinePool("a", of), three(), builder.Cluster("demo", paused), builder.Cluster("other")}, "False Paused"},
		"a MachinePool whose Cluster does not exist, too": {[]client.Object{
			builder.MachinePool("a", builder.With(func(m *clusterv1.MachinePool) {
				m.Spec.ClusterName, m.Spec.Template.Spec.InfrastructureRef.Name = "gone", "workers"
			})), three(), builder.Cluster("demo", paused),
		}, "False Paused"},
		"another namespace": {[]client.Object{three(builder.WithNamespace("x")), builder.Cluster("demo", paused, builder.WithNamespace("x"))}, "False WaitingForOwner"},
	} {
		env := newEnvironmentOf(t, append(row.objects, builder.CAPTMachinePool("workers"))...)
		env.reconcile()
		assert.Equal(t, row.want, env.summary()["NodeGroupReady"], name)
	}
}

func TestIndexesOfPools(t *testing.T) {
	env := newEnvironment(t, poolOf(), builder.CAPTMachinePool("another", builder.With(func(pool *infrav1.CAPTMachinePool) {
		pool.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "golden", Namespace: "shared"}
		pool.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
	})))
	for index, key := range map[string]string{owner.TemplateIndex: "shared/golden", owner.WaitIndex: "cluster/" + builder.Namespace + "/other"} {
		var list infrav1.CAPTMachinePoolList
		require.NoError(t, env.List(t.Context(), &list, client.MatchingFields{index: key}))
		require.Len(t, list.Items, 1, index)
		assert.Equal(t, "another", list.Items[0].Name)
	}
	require.ErrorIs(t, RegisterIndexes(t.Context(), failing{}), errIndex)
}

var errIndex = errors.New("the cache has started")

// failing implements client.FieldIndexer.
type failing struct{}

func (failing) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errIndex
}

// Each transition that a user must see is an event.
func TestWhichConditionsOfAPoolAreEvents(t *testing.T) {
	of := func(conditions ...metav1.Condition) builder.Option {
		return builder.With(func(pool *infrav1.CAPTMachinePool) {
			pool.Status.Conditions = append(conditions, metav1.Condition{Type: infrav1.DeletingCondition, Status: "False", Reason: "Before"}, metav1.Condition{Type: infrav1.DeletionTimedOutCondition, Status: "False", Reason: "Before"})
			for i := range pool.Status.Conditions {
				pool.Status.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
			}
		})
	}
	before := func(conditionType string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: "True", Reason: "Before", Message: "m"}
	}
	sent := func(env *environment) (sent []string) {
		env.reconcile()
		for recorded := env.Recorder.(*events.FakeRecorder).Events; len(recorded) > 0; {
			words := strings.Fields(<-recorded)
			sent = append(sent, words[0]+" "+words[1])
		}
		return sent
	}
	apply := builder.WorkspaceTemplateApply("workers-nodegroup-apply", builder.OwnedBy(poolOf()), builder.WithVariables(map[string]string{"cluster_name": "demo", "nodegroup_name": "workers"}),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "nodegroup" }))
	env := newEnvironment(t, three(), builder.WorkspaceTemplate("nodegroup"), apply, poolOf(builder.WithFinalizers(infrav1.CAPTMachinePoolFinalizer), builder.WithApplyRef(apply.Name), of(
		before(infrav1.ReadyCondition), before(infrav1.DegradedCondition), before(infrav1.RecoveringCondition), before(infrav1.NodesKnownCondition),
		before(infrav1.ReplicasOutOfBoundsCondition), before(infrav1.KubeletVersionsDifferCondition), before(infrav1.AdoptionRequiredCondition))))
	assert.Equal(t, []string{
		"Normal Provisioning", "Normal NotDegraded", "Normal NotRecovering", "Normal WaitingForNodes", "Normal ReplicasWithinBounds", "Normal KubeletVersionsMatch",
		"Normal AdoptionNotRequired", "Normal FieldsWithoutEffect",
	}, sent(env))

	env.remove(three())
	env.remove(env.get())
	env.clock.Pass(time.Hour)
	assert.Equal(t, []string{"Normal Deleting", "Normal WaitingForWorkspaceTemplateApplyDeletion", "Normal DeletionInTime"}, sent(env))
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled })
	assert.Contains(t, sent(env), "Warning DeletionProtected")
}
