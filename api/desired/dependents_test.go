// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func TestADependentThatNothingDeletesIsNamedWithTheCommand(t *testing.T) {
	eks, addOn := infrav1.WorkspaceTemplateApply{}, infrav1.WorkspaceTemplateApply{}
	eks.Namespace, eks.Name, eks.UID, eks.Spec.WorkspaceName = "team-a", "eks", "1", "demo-eks"
	addOn.Namespace, addOn.Name, addOn.UID = "team-a", "addon", "2"
	addOn.Spec.WaitForWorkspaces = []infrav1.WorkspaceDependency{{Name: "demo-eks"}}
	addOn.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "addon"}
	message := func() string { return WaitingForDependents(&eks, []infrav1.WorkspaceTemplateApply{addOn}).Message }
	assert.Contains(t, message(), ". Nothing deletes addon: delete it with kubectl delete workspacetemplateapply -n team-a addon")

	addOn.OwnerReferences = []metav1.OwnerReference{{Kind: "CAPTControlPlane", Name: "demo", Controller: ptr.To(true)}}
	assert.NotContains(t, message(), "Nothing deletes", "its owner does, if it is deleted")
	addOn.OwnerReferences = nil
	addOn.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	assert.NotContains(t, message(), "Nothing deletes")
}

// Its manager may have been killed before it recorded the Workspace in status.
func TestADependentWithAFinalizerMayHaveAWorkspace(t *testing.T) {
	vpc, eks := infrav1.WorkspaceTemplateApply{}, infrav1.WorkspaceTemplateApply{}
	vpc.Namespace, vpc.Name, vpc.UID, vpc.Spec.WorkspaceName = "team-a", "vpc", "1", "demo-vpc"
	eks.Namespace, eks.Name, eks.UID = "team-a", "eks", "2"
	eks.Spec.WaitForWorkspaces = []infrav1.WorkspaceDependency{{Name: "demo-vpc"}}
	assert.Nil(t, WaitingForDependents(&vpc, []infrav1.WorkspaceTemplateApply{eks}))
	eks.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
	assert.Equal(t, infrav1.WaitingForDependentsReason, WaitingForDependents(&vpc, []infrav1.WorkspaceTemplateApply{eks}).Reason)
}
