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

package owner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/controllers/engine"
)

// Inherited tells whether an owner that was adopted keeps the status that the older CAPT left: nobody can tell better yet.
//
// When the manager starts after an adoption, each owner comes before the controller of WorkspaceTemplateApplies has looked at
// what belongs to it. To conclude from that that Terraform is at work would be wrong: an adoption makes no run. A control
// plane that was Ready would be Degraded for a moment, and an operator with 200 clusters would have 200 alarms. The older
// status says by its generation, which is none, that it is not of this manager. Once the WorkspaceTemplateApply was looked at as
// it is now, whatever is found is told; and what the API server or another owner refuses is told at once.
//
// observed is status.observedGeneration of the owner. Every status that this CAPT has written has one.
func (f *Facts) Inherited(observed int64, told []metav1.Condition, paused, manager string) bool {
	if observed != 0 || len(told) == 0 || f.Apply == nil || !f.Apply.DeletionTimestamp.IsZero() || f.Refused != nil {
		return false
	}
	unseen := f.Apply.Status.ObservedGeneration != f.Apply.Generation
	return unseen || paused != "" && f.Differs(manager) // What is paused does not write what it wants, and nobody works at that.
}

// KeepInherited leaves the status as the older CAPT left it, but tells that the object is paused, as it could not.
func KeepInherited(object engine.Object, paused string) {
	if paused != "" || conditions.Has(object, clusterv1.PausedCondition) {
		engine.Set(object, engine.PausedCondition(paused))
	}
}
