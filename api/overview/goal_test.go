// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
)

func TestGoalsThatAreNotKnown(t *testing.T) {
	for _, text := range []string{"", "Ready", "ready=true", "version", "version=", "version=latest", "condition=Ready", "delete"} {
		_, err := ParseGoal(text)
		assert.Error(t, err, text)
	}
}

func TestAGoalIsReached(t *testing.T) {
	for text, rows := range map[string]map[string]bool{
		"ready":           {"": true, "cause": false, "degraded": false, "edited": false, "upgrade": true},
		"version=1.34":    {"": true, "edited": false, "upgrade": false, "notReady": false},
		"version=v1.35.2": {"": false, "upgrade": true},
		"deleted":         {"": false},
	} {
		for change, want := range rows {
			o := &Objects{Cluster: &clusterv1.Cluster{}, ControlPlane: &controlplanev1.CAPTControlPlane{}, CAPTCluster: &infrav1.CAPTCluster{}}
			o.Cluster.Generation, o.ControlPlane.Generation, o.ControlPlane.Status.ObservedGeneration = 2, 2, 2
			o.Cluster.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "True", ObservedGeneration: 2}}
			o.ControlPlane.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}}
			c := &Cluster{State: infrav1.StateReady, Version: "v1.34.1"}
			switch change {
			case "cause":
				c.Cause = &Cause{}
			case "degraded":
				c.State = infrav1.StateDegraded
			case "edited":
				o.Cluster.Generation, o.ControlPlane.Generation = 3, 3
			case "upgrade":
				c.Version = "1.35"
			case "notReady":
				o.ControlPlane.Status.Conditions[0].Status = "False"
			}
			goal, err := ParseGoal(text)
			require.NoError(t, err)
			assert.Equal(t, want, goal.IsReached(o, c), "%s %s", text, change)
		}
	}
}

func TestAClusterNeedsAUserOnlyForWhatWasObserved(t *testing.T) {
	o := &Objects{Cluster: &clusterv1.Cluster{}, ControlPlane: &controlplanev1.CAPTControlPlane{}}
	c := &Cluster{State: infrav1.StateFailed, Cause: &Cause{Actor: reasons.User}}
	assert.True(t, c.NeedsUser(o))
	o.ControlPlane.Generation = 2
	assert.False(t, c.NeedsUser(o), "the correction was not observed yet")
	assert.False(t, (&Cluster{State: infrav1.StateFailed, Cause: &Cause{Actor: reasons.Waiting}}).NeedsUser(&Objects{}))
	assert.False(t, (&Cluster{State: infrav1.StateDegraded, Cause: &Cause{Actor: reasons.User}}).NeedsUser(&Objects{}))
}
