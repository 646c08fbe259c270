// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/builder"
)

var (
	secrets  = schema.GroupResource{Resource: "secrets"}
	conflict = apierrors.NewConflict(secrets, "demo", errors.New("changed"))
)

func TestOutcomesThatEndWithoutAnError(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want ctrl.Result
	}{
		"done":                    {nil, ctrl.Result{}},
		"wait":                    {Wait("the Workspace kind", 10*time.Second), ctrl.Result{RequeueAfter: 10 * time.Second}},
		"wait, wrapped":           {fmt.Errorf("act: %w", Wait("a token", time.Minute)), ctrl.Result{RequeueAfter: time.Minute}},
		"the object changed":      {stale(conflict), ctrl.Result{}},
		"the same, wrapped":       {fmt.Errorf("writing: %w", stale(conflict)), ctrl.Result{}},
		"the same, while waiting": {errors.Join(stale(conflict), Wait("a token", time.Minute)), ctrl.Result{RequeueAfter: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := result(context.Background(), row.err)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

// No watch reports when what these conflicts are about is over.
func TestSafety21OnlyAConflictOnTheReconciledObjectIsNotRetried(t *testing.T) {
	quota := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "compute", errors.New("the object has been modified"))
	for name, err := range map[string]error{
		"on a Secret":                        fmt.Errorf("writing Secret demo: %w", conflict),
		"on a UID":                           apierrors.NewConflict(schema.GroupResource{Resource: "workspaces"}, "demo", errors.New("precondition failed: UID in precondition: a, UID in object meta: b")),
		"on a ResourceQuota":                 quota,
		"on a ResourceQuota, of this object": stale(quota),
		"beside what waits":                  errors.Join(Wait("a token", time.Hour), conflict),
		"beside one on the object":           errors.Join(stale(conflict), conflict),
		"any other error":                    errors.New("no route to host"),
		"what does not exist":                apierrors.NewNotFound(secrets, "demo"),
	} {
		t.Run(name, func(t *testing.T) {
			assert.True(t, isTransient(err))
			got, failed := result(context.Background(), err)
			assert.Equal(t, ctrl.Result{}, got)
			require.ErrorIs(t, failed, err)
		})
	}
}

func TestSetKeepsTheTransitionTimeWhileTheStatusIsEqual(t *testing.T) {
	long := metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))
	captCluster := builder.CAPTCluster("demo", builder.WithGeneration(7))
	captCluster.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Provisioning", LastTransitionTime: long, ObservedGeneration: 6,
	}}

	Set(captCluster, False("Ready", "ApplyFailed", "VpcLimitExceeded"))
	ready := conditions.Get(captCluster, "Ready")
	require.NotNil(t, ready)
	assert.Equal(t, long, ready.LastTransitionTime)
	assert.Equal(t, "ApplyFailed", ready.Reason)
	assert.Equal(t, int64(7), ready.ObservedGeneration)

	Set(captCluster, True("Ready", "Ready", ""))
	assert.True(t, conditions.Get(captCluster, "Ready").LastTransitionTime.After(long.Time))
}

func TestPaused(t *testing.T) {
	paused := builder.Cluster("demo")
	paused.Spec.Paused = ptr.To(true)
	running := builder.Cluster("demo")
	running.Spec.Paused = ptr.To(false)

	const byCluster, byAnnotation = "Cluster spec.paused is set to true", "the object has the cluster.x-k8s.io/paused annotation"
	for name, row := range map[string]struct {
		cluster *clusterv1.Cluster
		options []builder.Option
		want    string
	}{
		"without a Cluster":     {nil, nil, ""},
		"a running Cluster":     {running, nil, ""},
		"a paused Cluster":      {paused, nil, byCluster},
		"a paused object":       {running, []builder.Option{builder.Paused()}, byAnnotation},
		"a paused object alone": {nil, []builder.Option{builder.Paused()}, byAnnotation},
		"one that is moved away": {nil, []builder.Option{builder.WithAnnotation(clusterctlv1.DeleteForMoveAnnotation, "")},
			"clusterctl move is moving the object to another management cluster"},
		"both": {paused, []builder.Option{builder.Paused()}, byCluster + ", " + byAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			why := Paused(row.cluster, builder.CAPTCluster("demo", row.options...))
			assert.Equal(t, row.want, why)
			condition := PausedCondition(why)
			assert.Equal(t, row.want != "", condition.Status == metav1.ConditionTrue)
			assert.Equal(t, row.want, condition.Message)
			assert.NotEmpty(t, condition.Reason)
		})
	}
}

// Clusters and their objects reach the cache independently of each other.
func TestSafety18AClusterThatIsNotInTheCacheYetIsThere(t *testing.T) {
	var empty, full client.Client = builder.Clients().Build(), builder.Clients(builder.Cluster("demo")).Build()
	object := builder.CAPTCluster("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithLabel(clusterv1.ClusterNameLabel, "demo")).ObjectMeta
	for name, look := range map[string]func(context.Context, client.Client, client.Reader, metav1.ObjectMeta) (*clusterv1.Cluster, error){
		"owner": OwnerCluster, "label": LabeledCluster,
	} {
		t.Run(name, func(t *testing.T) {
			for _, cached := range []client.Client{full, empty} {
				cluster, err := look(t.Context(), cached, full, object)
				require.NoError(t, err)
				assert.Equal(t, "demo", cluster.Name)
			}
			_, err := look(t.Context(), empty, empty, object)
			assert.True(t, Absent(err), "it is gone: %v", err)
		})
	}
	cluster, err := OwnerCluster(t.Context(), empty, full, metav1.ObjectMeta{Namespace: builder.Namespace})
	require.NoError(t, err)
	assert.Nil(t, cluster, "without an owner")
	_, err = LabeledCluster(t.Context(), empty, full, metav1.ObjectMeta{Namespace: builder.Namespace})
	assert.True(t, errors.Is(err, util.ErrNoCluster))
}
