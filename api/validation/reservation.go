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

// WorkspaceTemplateApplyCreation checks that a new WorkspaceTemplateApply does not have the name that an owner gives to its
// own, unless it can be the owner's: the owner would not take it, and wait for the name for ever. One that is put back from
// a backup is never refused: the owner would make another one, which is a second EKS cluster or VPC, whereas it stops at
// one that it does not know.
//
// Defaulting gives a new one its spec.workspaceName, and must ask here before it does.
func WorkspaceTemplateApplyCreation(ctx context.Context, world World, apply *infrav1.WorkspaceTemplateApply) (Findings, error) {
	var findings Findings
	if restored(apply) {
		return findings, nil
	}
	owner, err := reservedFor(ctx, world, keyOf(apply))
	if err != nil || owner == nil || metav1.IsControlledBy(apply, owner) {
		return findings, err
	}
	cluster, err := clusterName(ctx, world, owner)
	if err != nil {
		return findings, err
	}
	want := expectationOf(owner, cluster)
	differs := want.Difference(apply)
	if want.Recorded == apply.Name {
		differs = want.IdentityDifference(apply) // Put back from a copy, which may be from before the owner got another template.
	}
	if differs != "" {
		kind := kindOf(owner)
		findings.Refuse(forbidden(field.NewPath("metadata", "name"),
			"%s %s gives this name to its own WorkspaceTemplateApply, and this one %s; choose another name, or give it the template and the variables of the %s",
			kind, owner.GetName(), differs, kind))
	}
	return findings, nil
}

// restored tells whether a WorkspaceTemplateApply has been in use before: it has what CAPT writes into it.
func restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" || len(apply.Finalizers) > 0 || recordedWorkspace(apply) != ""
}

// reservedFor finds the owner whose WorkspaceTemplateApply gets a name by the naming scheme; nil when there is none, or when
// it has another one, for good.
func reservedFor(ctx context.Context, world World, key types.NamespacedName) (Owner, error) {
	another := func(ref *infrav1.WorkspaceTemplateApplyReference) bool { return ref != nil && ref.Name != key.Name }
	if name, ok := naming.CAPTClusterOf(key.Name); ok {
		captCluster, err := world.CAPTCluster(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || captCluster == nil || another(captCluster.Spec.WorkspaceTemplateApplyRef) || captCluster.Spec.VPC.Template == nil {
			return nil, err // With an existing VPC, it never makes one.
		}
		return captCluster, nil
	}
	if name, ok := naming.CAPTControlPlaneOf(key.Name); ok {
		controlPlane, err := world.CAPTControlPlane(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || controlPlane == nil || another(controlPlane.Spec.WorkspaceTemplateApplyRef) {
			return nil, err
		}
		return controlPlane, nil
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
