/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package workspace

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// Working tells whether Terraform creates, changes or destroys what a Workspace as it is now stands for, or is about to. last is
// the last change of the Workspace as status has it, and class that of the error it shows.
//
// After an error that is expected to pass, Terraform is still at work: the provider tries again, and what AWS had begun may go
// on. Any other error ends the work until somebody does something, although the provider tries again: most of the time it
// fails before anything has begun. What the provider repairs by itself, since somebody changed it in AWS, does not show.
func Working(live *Live, last *infrav1.WorkspaceUpdate, class failure.Class) bool {
	ready, synced := live.condition(conditionReady), live.condition(conditionSynced)
	switch {
	case synced != nil && synced.Reason == reasonPaused:
		return false
	case live.failed() && current(live, synced) && (!live.Deleting() || !ofApply(synced)):
		return class.Passes()
	}
	return live.Deleting() || !isTrue(ready) || !isTrue(synced) || !live.reported(last)
}
