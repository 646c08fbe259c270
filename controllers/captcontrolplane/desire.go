// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/owner"
)

// desire computes the WorkspaceTemplateApply of the control plane.
func (f *Facts) desire(c client.Client, controlPlane *controlplanev1.CAPTControlPlane, name string) error {
	intent, err := f.intent(controlPlane)
	if err != nil {
		return err
	}
	return f.Apply.Desire(c, owner.Want{
		Owner: controlPlane, ClusterName: f.Cluster.Name, Name: name, Template: controlPlane.Spec.WorkspaceTemplateRef,
		Intent:            intent,
		WaitForWorkspaces: f.vpcWorkspace(),
		WaitForSecrets:    f.vpcSecret(),
	})
}

func (f *Facts) intent(controlPlane *controlplanev1.CAPTControlPlane) (adoption.Intent, error) {
	return adoption.ControlPlaneIntent(controlPlane, adoption.Surroundings{
		Cluster: f.Cluster.Name, EKSVersion: f.Version.EKS, Region: f.region(controlPlane), VPCID: f.vpcID(),
	})
}

// vpcWorkspace is what the control plane's Workspace waits for. It is known by the time the control plane is made, since
// that waits for the VPC.
func (f *Facts) vpcWorkspace() []infrav1.WorkspaceDependency {
	if f.Infrastructure == nil {
		return nil
	}
	summary := f.Infrastructure.Status.WorkspaceTemplateApply
	if summary == nil || summary.WorkspaceName == "" {
		return nil
	}
	return []infrav1.WorkspaceDependency{{Name: summary.WorkspaceName, Namespace: f.Infrastructure.Namespace}}
}

// vpcSecret is the Secret from which the template learns of the subnets of an existing VPC. It may come later than the
// CAPTCluster, and Terraform would fail without it.
func (f *Facts) vpcSecret() []infrav1.SecretDependency {
	if f.Infrastructure == nil || !f.Infrastructure.Spec.VPC.ConnectionSecretRef.IsDefined() {
		return nil
	}
	return []infrav1.SecretDependency{{
		Name: f.Infrastructure.Spec.VPC.ConnectionSecretRef.Name, Namespace: f.Infrastructure.Namespace, Keys: []string{terraform.OutputVPCConfig},
	}}
}
