// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// Working tells whether Terraform creates, changes or destroys what a Workspace as it is now stands for, or is about to. last is
// the last change of the Workspace as status has it, and class that of the error it shows.
//
// After an error that is expected to pass, Terraform is still at work: the provider tries again, and what AWS had begun may go
// on. Any other error ends the work until somebody does something, although the provider tries again: most of the time it
// fails before anything has begun. So does one that comes before Terraform applies or destroys, whatever its class: a module that
// is nowhere would keep the others waiting for ever. What the provider repairs by itself, since somebody changed it in AWS, does not show.
func Working(live *Live, last *infrav1.WorkspaceUpdate, class failure.Class) bool {
	ready, synced := live.condition(conditionReady), live.condition(conditionSynced)
	switch {
	case synced != nil && synced.Reason == reasonPaused:
		return false
	case live.failed() && current(live, synced) && (!live.Deleting() || !ofApply(synced)):
		return class.Passes() && !ofPlan(synced)
	}
	return live.Deleting() || !isTrue(ready) || !isTrue(synced) || !live.reported(last)
}

// ofPlan tells whether a condition is an error that came before Terraform could begin with anything.
func ofPlan(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "connect failed") || strings.HasPrefix(synced.Message, "observe failed")
}
