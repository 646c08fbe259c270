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

package adoption

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Unadopted returns the name of the Workspace that the older CAPT made for a WorkspaceTemplateApply which nobody has adopted
// yet; empty when it is not such a one. Under the naming scheme its Workspace would get another name, and with it another
// state: a second VPC or EKS cluster. So it is neither written nor released.
//
// The older CAPT never wrote spec.workspaceName, put a finalizer of its own on before it made anything, and recorded no UID.
func Unadopted(apply *infrav1.WorkspaceTemplateApply) string {
	legacy := slices.Contains(apply.Finalizers, infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	applied := ptr.Deref(apply.Status.Applied, false) && apply.Status.WorkspaceRef == nil
	switch {
	case apply.Spec.WorkspaceName != "", !legacy && !applied:
		return ""
	case apply.Status.WorkspaceName != "":
		return apply.Status.WorkspaceName
	}
	return naming.LegacyWorkspace(apply.Name)
}

// LegacyStatus reports whether CAPT v0.3 left the status of an owner. Every status of this version has an observedGeneration, and
// each of its conditions has one.
func LegacyStatus(observedGeneration int64, conditions []metav1.Condition) bool {
	return observedGeneration == 0 && slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.ObservedGeneration == 0 })
}

// Ownerless tells whether a WorkspaceTemplateApply is one of the older CAPT's that nobody has adopted and no controller owns.
func Ownerless(apply *infrav1.WorkspaceTemplateApply) bool {
	return Unadopted(apply) != "" && metav1.GetControllerOf(apply) == nil
}
