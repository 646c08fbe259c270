// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// What the manager reports counts, because it sees all users, until it has not observed the revision or a resume of it.
func TestIsStopped(t *testing.T) {
	stopped, waiting := infrav1.RolloutStoppedReason, infrav1.RolloutWaitingReason
	for name, row := range map[string]struct {
		reported, reason string
		stage            infrav1.RolloutStage
		resume           string
		want             bool
	}{
		"stopped":                      {target, stopped, infrav1.RolloutRemaining, "", true},
		"stopped, and resumed since":   {target, stopped, infrav1.RolloutRemaining, target, false},
		"of another revision":          {before, stopped, infrav1.RolloutRemaining, "", false},
		"no condition":                 {target, "", infrav1.RolloutRemaining, "", false},
		"waits for canaries":           {target, waiting, infrav1.RolloutCanary, "", true},
		"waits for previews":           {target, waiting, infrav1.RolloutPreviewing, "", true},
		"waits for an approval":        {target, waiting, infrav1.RolloutWaitingForApproval, "", false},
		"goes on":                      {target, infrav1.RollingOutReason, infrav1.RolloutCanary, "", false},
		"resumed for another revision": {target, stopped, infrav1.RolloutRemaining, before, true},
		"nothing was observed":         {"", stopped, infrav1.RolloutRemaining, "", false},
	} {
		template := &Template{WorkspaceTemplate: builder.WorkspaceTemplate("vpc"), History: history(target)}
		template.Status.Rollout.Revision, template.Status.Rollout.Stage = row.reported, row.stage
		template.Annotations = map[string]string{naming.ResumeAnnotation: row.resume}
		if row.reason != "" {
			template.Status.Conditions = []metav1.Condition{{Type: infrav1.RollingOutCondition, Reason: row.reason}}
		}
		assert.Equal(t, row.want, template.IsStopped(Decision{}), name)
		assert.True(t, template.IsStopped(Decision{Resumable: true}), name)
	}
}
