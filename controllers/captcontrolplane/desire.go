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

package captcontrolplane

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/owner"
)

// desire computes the WorkspaceTemplateApply of the control plane.
func (f *Facts) desire(c client.Client, controlPlane *controlplanev1.CAPTControlPlane, name string) error {
	variables, err := f.variables(controlPlane)
	if err != nil {
		return err
	}
	return f.Apply.Desire(c, owner.Want{
		Owner: controlPlane, ClusterName: f.Cluster.Name, Name: name, Template: controlPlane.Spec.WorkspaceTemplateRef,
		Variables:         variables,
		ConnectionSecret:  naming.ControlPlaneConnectionSecret(controlPlane.Name),
		WaitForWorkspaces: f.vpcWorkspace(),
		WaitForSecrets:    f.vpcSecret(),
	})
}

// variables for the control plane template, under the names the older CAPT gave them. Those CAPT sets take precedence over
// the user's. Maps and lists are JSON.
func (f *Facts) variables(controlPlane *controlplanev1.CAPTControlPlane) (map[string]string, error) {
	spec := &controlPlane.Spec
	out := make(map[string]string, len(spec.Variables)+len(spec.AdditionalTags)+10)
	for name, value := range spec.Variables {
		out[name] = value
	}
	out[naming.ClusterVariable] = f.Cluster.Name
	out[naming.VersionVariable] = f.Version.EKS
	out[naming.RegionVariable] = f.region(controlPlane)

	access := ptr.Deref(spec.EndpointAccess, controlplanev1.EndpointAccess{})
	out["endpoint_public_access"] = strconv.FormatBool(ptr.Deref(access.Public, true))
	out["endpoint_private_access"] = strconv.FormatBool(ptr.Deref(access.Private, false))
	for tag, value := range spec.AdditionalTags {
		out["tags_"+tag] = string(value)
	}
	for name, value := range map[string]any{
		"endpoint_public_access_cidrs": orEmptyList(access.PublicCIDRs),
		"addons":                       orEmptyList(spec.Addons),
		"tags":                         orEmptyMap(spec.AdditionalTags),
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding variable %s: %w", name, err)
		}
		out[name] = string(text)
	}
	if id := f.vpcID(); id != "" {
		out[naming.VPCIDVariable] = id
	}
	return out, nil
}

func orEmptyList[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orEmptyMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
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
	if f.Infrastructure == nil || f.Infrastructure.Spec.VPC.ConnectionSecretRef == nil {
		return nil
	}
	return []infrav1.SecretDependency{{
		Name: f.Infrastructure.Spec.VPC.ConnectionSecretRef.Name, Namespace: f.Infrastructure.Namespace, Keys: []string{terraform.OutputVPCConfig},
	}}
}
