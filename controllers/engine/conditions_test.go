// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/test/builder"
)

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
