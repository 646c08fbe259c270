// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package index registers the cache indexes for WorkspaceTemplateApplies and PlanRequests.
package index

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/plans"
	"github.com/capt-provider/capt/api/terraform"
)

// Names of the indexes.
const (
	// WorkspaceName has the names of spec.workspaceName.
	WorkspaceName = "spec.workspaceName"
	// DerivedName has the names that the Workspace of an object without spec.workspaceName gets: by the naming scheme, in either scope.
	DerivedName = "metadata.name.workspace"
	// Controller has the UID of the controlling owner.
	Controller = "metadata.controller"
	// WaitForSecret has namespace/name of each Secret in spec.waitForSecrets.
	WaitForSecret = "spec.waitForSecrets.name"
	// WaitForWorkspace has name and namespace/name of each Workspace in spec.waitForWorkspaces. A cluster-wide Workspace is found by its
	// name.
	WaitForWorkspace = "spec.waitForWorkspaces.name"
	// ConnectionSecret has namespace/name of the Secret to which provider-terraform writes the outputs.
	ConnectionSecret = "spec.writeConnectionSecretToRef.name"
)

// Register adds the indexes to the cache.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	for field, extract := range map[string]func(*infrav1.WorkspaceTemplateApply) []string{
		DerivedName: func(a *infrav1.WorkspaceTemplateApply) (names []string) {
			if a.Spec.WorkspaceName != "" {
				return nil
			}
			for _, scope := range terraform.Scopes() {
				names = append(names, naming.Workspace(scope, client.ObjectKeyFromObject(a)))
			}
			return names
		},
		Controller: func(a *infrav1.WorkspaceTemplateApply) []string {
			if controller := metav1.GetControllerOf(a); controller != nil {
				return []string{string(controller.UID)}
			}
			return nil
		},
		WorkspaceName: func(a *infrav1.WorkspaceTemplateApply) []string { return []string{a.Spec.WorkspaceName} },
		WaitForSecret: func(a *infrav1.WorkspaceTemplateApply) (keys []string) {
			for _, secret := range a.Spec.WaitForSecrets {
				keys = append(keys, a.Namespace+"/"+secret.Name)
			}
			return keys
		},
		WaitForWorkspace: func(a *infrav1.WorkspaceTemplateApply) (names []string) {
			for _, dependency := range a.Spec.WaitForWorkspaces {
				names = append(names, dependency.Name, a.DependencyKey(dependency).String())
			}
			return names
		},
		ConnectionSecret: func(a *infrav1.WorkspaceTemplateApply) []string {
			if ref := a.Spec.WriteConnectionSecretToRef; ref != nil {
				return []string{a.Namespace + "/" + ref.Name} // It is always in the namespace of the object.
			}
			return nil
		},
	} {
		err := indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, field, func(object client.Object) []string {
			return extract(object.(*infrav1.WorkspaceTemplateApply))
		})
		if err != nil {
			return err
		}
	}
	return indexer.IndexField(ctx, &infrav1.PlanRequest{}, plans.Index, func(object client.Object) []string {
		return plans.KeysOf(object.(*infrav1.PlanRequest))
	})
}
