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

package validation

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// reservation is the right of an owner to a WorkspaceTemplateApply of a name.
type reservation struct {
	owner Owner
	kind  string
	// ref is the WorkspaceTemplateApply that the owner's spec names. By default it is that of the scheme.
	ref *infrav1.WorkspaceTemplateApplyReference
	// recorded is the WorkspaceTemplateApply that the owner had.
	recorded *infrav1.WorkspaceTemplateApplySummary
	// template that the owner refers to.
	template infrav1.WorkspaceTemplateReference
	// vpc is the name that the owner gives to a VPC; empty when it gives none.
	vpc string
}

// WorkspaceTemplateApplyCreation checks that a new WorkspaceTemplateApply does not have the name that an owner gives to its
// own, unless it is the owner's: the owner would either wait for the name for ever, or take what has the identity of
// another cluster.
func WorkspaceTemplateApplyCreation(ctx context.Context, world World, apply *infrav1.WorkspaceTemplateApply) (Findings, error) {
	var findings Findings
	reserved, err := reservationOf(ctx, world, keyOf(apply))
	if err != nil || reserved == nil || metav1.IsControlledBy(apply, reserved.owner) {
		return findings, err
	}
	if reserved.ref != nil && reserved.ref.Name != apply.Name {
		return findings, nil // It has another one, for good.
	}
	cluster, err := clusterName(ctx, world, reserved.owner)
	if err != nil {
		return findings, err
	}
	if differs := reserved.difference(apply, cluster); differs != "" {
		findings.Refuse(forbidden(field.NewPath("metadata", "name"),
			"%s %s gives this name to its own WorkspaceTemplateApply, and this one %s; choose another name, or give it the template and the variables of the %s",
			reserved.kind, reserved.owner.GetName(), differs, reserved.kind))
	}
	return findings, nil
}

// difference says why a WorkspaceTemplateApply can not be the owner's; empty when it can. What either side does not know yet
// is no difference here; the owner's controller looks again before it takes anything.
func (r *reservation) difference(apply *infrav1.WorkspaceTemplateApply, cluster string) string {
	given := apply.Spec.Variables
	another := func(variable, want string) bool {
		return want != "" && given[variable] != "" && given[variable] != want
	}
	switch {
	case another(naming.ClusterVariable, cluster):
		return "has another " + naming.ClusterVariable
	case another(naming.VPCVariable, r.vpc):
		return "has another " + naming.VPCVariable
	case r.recorded != nil && r.recorded.Name == apply.Name:
		return "" // Put back from a copy, which may be from before the owner got another template.
	case apply.TemplateKey() != templateKey(r.template, apply.Namespace):
		return "refers to another WorkspaceTemplate"
	}
	return ""
}

// reservationOf finds the owner whose WorkspaceTemplateApply gets a name by the naming scheme; nil when there is none.
func reservationOf(ctx context.Context, world World, key types.NamespacedName) (*reservation, error) {
	if name, ok := naming.CAPTClusterOf(key.Name); ok {
		captCluster, err := world.CAPTCluster(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || captCluster == nil || captCluster.Spec.VPC.Template == nil {
			return nil, err // With an existing VPC, it never makes one.
		}
		vpc := captCluster.Spec.VPC.Template.Name
		if vpc == "" {
			vpc = naming.VPC(name)
		}
		return &reservation{
			owner: captCluster, kind: "CAPTCluster", ref: captCluster.Spec.WorkspaceTemplateApplyRef,
			recorded: captCluster.Status.WorkspaceTemplateApply, template: captCluster.Spec.VPC.Template.Ref, vpc: vpc,
		}, nil
	}
	if name, ok := naming.CAPTControlPlaneOf(key.Name); ok {
		controlPlane, err := world.CAPTControlPlane(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || controlPlane == nil {
			return nil, err
		}
		r := &reservation{
			owner: controlPlane, kind: "CAPTControlPlane", ref: controlPlane.Spec.WorkspaceTemplateApplyRef, template: controlPlane.Spec.WorkspaceTemplateRef,
		}
		if recorded := controlPlane.Status.WorkspaceTemplateApply; recorded != nil {
			r.recorded = &recorded.WorkspaceTemplateApplySummary
		}
		return r, nil
	}
	return nil, nil
}

// clusterName is the name of the Cluster that an owner belongs to; empty when it is not known yet.
func clusterName(ctx context.Context, world World, owner Owner) (string, error) {
	if name := owner.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name, nil
	}
	cluster, err := world.ClusterOf(ctx, owner)
	if err != nil || cluster == nil {
		return "", err
	}
	return cluster.Name, nil
}
