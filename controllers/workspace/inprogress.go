// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// InProgress reports whether Terraform is creating, changing or destroying the resources of a Workspace, or is about to. last is the change
// that status records; class is the class of the current error.
//
// A transient error does not end the operation: the provider retries, and AWS may continue. Any other error ends the operation although the
// provider retries, and so does any error before apply or destroy: otherwise a module that cannot be downloaded would block the queued
// Workspaces forever. A repair of drift is not detected.
func InProgress(live *Live, last *infrav1.WorkspaceUpdate, class failure.Class) bool {
	ready, synced := live.condition(conditionReady), live.condition(conditionSynced)
	switch {
	case synced != nil && synced.Reason == reasonPaused:
		return false
	case live.failed() && isCurrent(live, synced) && (!live.Deleting() || !isApplyError(synced)):
		return class.IsTransient() && !isPlanError(synced)
	}
	done := isTrue(ready) && isTrue(synced) || live.unreported()
	return live.Deleting() || !done || !live.statusIsCurrent(last)
}

// isPlanError reports whether a condition is an error before terraform apply or destroy.
func isPlanError(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "connect failed") || strings.HasPrefix(synced.Message, "observe failed")
}
