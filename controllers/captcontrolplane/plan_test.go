// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

func foreignInfrastructure(f *Facts) {
	f.Cluster.Spec.InfrastructureRef.Kind, f.Infrastructure = "OtherCluster", nil
}

func TestRules(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		want  string // Empty when nothing does.
	}{
		"nothing":                           {newScene(t), ""},
		"one region, said twice":            {newScene(t, builder.WithRegion(builder.Region)), ""},
		"built in another region":           {newScene(t).apply(builder.UpToDate(outputs()), builder.WithVariables(map[string]string{"region": "us-east-1"})), "RegionConflict"},
		"another provider's infrastructure": {newScene(t, builder.WithRegion("us-east-1")).with(foreignInfrastructure), ""},
		"another provider's, and no region": {newScene(t).with(foreignInfrastructure), "RegionConflict"},
	} {
		t.Run(name, func(t *testing.T) {
			condition := row.scene.plan().Blocked
			if row.want == "" {
				assert.Nil(t, condition)
				return
			}
			require.NotNil(t, condition)
			assert.Equal(t, row.want, condition.Reason)
			assert.NotEmpty(t, condition.Message)
		})
	}
}

func TestWaitingForInfrastructureNamesTheCause(t *testing.T) {
	for name, row := range map[string]struct {
		ready engine.Condition
		want  string
	}{
		"it fails":                             {engine.False(infrav1.ReadyCondition, "ApplyFailed", "Terraform failed"), "waiting for CAPTCluster demo: Terraform failed"},
		"Cluster API has not yet marked it":    {engine.True(infrav1.ReadyCondition, "Ready", ""), "CAPTCluster demo is Ready; waiting until Cluster API reports"},
		"it is Ready, with a message (paused)": {engine.True(infrav1.ReadyCondition, "Ready", "paused"), "CAPTCluster demo is Ready; waiting until Cluster API reports"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).with(func(f *Facts) {
				f.Cluster.Status.Initialization.InfrastructureProvisioned = nil
				engine.Set(f.Infrastructure, row.ready)
			})
			assert.Contains(t, s.plan().Blocked.Message, row.want)
		})
	}
}
