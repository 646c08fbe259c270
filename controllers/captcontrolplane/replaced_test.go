// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/stretchr/testify/assert"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/owner"
)

func TestAControlPlaneInAVPCThatWasReplacedIsDegraded(t *testing.T) {
	o := onceReady(t)
	o.Infrastructure.Status.VPC.ReplacedBy = "vpc-2"
	s := o.status()
	assert.Equal(t, infrav1.StateDegraded, s.State)
	assert.Equal(t, controlplanev1.HealthUnhealthy, s.Health.Overall)
	assert.Contains(t, health.Find(s.Health, health.Dependencies).Message, "condition VPCReplaced is True")
	summary := o.summary()
	assert.Equal(t, "True VPCReplaced", summary[infrav1.VPCReplacedCondition])
	assert.Equal(t, "False VPCReplaced", summary[controlplanev1.ReadyCondition])
	assert.Equal(t, "True VPCReplaced", summary[infrav1.DegradedCondition])
	assert.Equal(t, "True Available", summary[controlplanev1.AvailableCondition])
	assert.Equal(t, "vpc-1", o.plan().Apply.Desired.Object["spec"].(map[string]any)["variables"].(map[string]any)[naming.VPCIDVariable])

	o.apply(working)
	assert.Equal(t, infrav1.StateConfiguring, o.status().State, "an update is not blocked")
	assert.Equal(t, "True VPCReplaced", o.summary()[infrav1.VPCReplacedCondition])

	o.Infrastructure.Status.VPC.ReplacedBy = ""
	o.Apply.Live = onceReady(t).Apply.Live
	assert.Equal(t, infrav1.StateReady, o.status().State)
	assert.Equal(t, "False VPCNotReplaced", o.summary()[infrav1.VPCReplacedCondition])
}

// Else a control plane that is created at the same time would get the VPC that no longer exists.
func TestANewControlPlaneWaitsUntilTheOtherVPCIsRecorded(t *testing.T) {
	o := newObservation(t)
	o.Apply.Live, o.Infrastructure.Status.VPC.ReplacedBy = nil, "vpc-2"
	assert.NotEqual(t, owner.Provision, o.step())
	summary := o.summary()
	assert.Equal(t, "False WaitingForInfrastructure", summary[controlplanev1.DependenciesReadyCondition])
	assert.NotContains(t, summary, infrav1.VPCReplacedCondition)

	o.Infrastructure.Status.VPC = infrav1.VPCStatus{ID: "vpc-2"}
	assert.Equal(t, owner.Provision, o.step())
}
