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

package captcluster

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Action is what to do about a CAPTCluster.
type Action string

const (
	// Observe: nothing to write, status says what is waited for.
	Observe Action = "Observe"
	// Hold: put the finalizer on, so that the CAPTCluster outlives the control plane that stands in its VPC.
	Hold Action = "Hold"
	// Provision: write the WorkspaceTemplateApply of the VPC.
	Provision Action = "Provision"
	// Destroy: delete the WorkspaceTemplateApplies that come next.
	Destroy Action = "Destroy"
	// Release: the CAPTCluster may go.
	Release Action = "Release"
)

// decide is pure.
func decide(captCluster *infrav1.CAPTCluster, f *Facts) Action {
	switch {
	case f.Paused != "":
		return Observe
	case !captCluster.DeletionTimestamp.IsZero():
		return decideDeletion(f)
	case f.Cluster == nil, f.Apply.Undecided(), f.Apply.Claimed != "":
		return Observe
	case captCluster.Spec.VPC.Template == nil:
		return Hold
	}
	return Provision
}

func decideDeletion(f *Facts) Action {
	switch {
	case len(f.ControlPlanes) > 0, len(f.Apply.Owned) > 0:
		return Observe
	case len(f.Apply.Undeleted()) > 0:
		return Destroy
	case len(f.Apply.Next()) == 0:
		return Release
	}
	return Observe
}
