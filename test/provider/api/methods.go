// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
)

var (
	_ interface {
		resource.Managed
		resource.ConnectionSecretWriterTo
		resource.ProviderConfigReferencer
		resource.Orphanable
	} = &ClusterWorkspace{}
	_ resource.ModernManaged = &NamespacedWorkspace{}
)

// Parameters of the module.
func (w *ClusterWorkspace) Parameters() *Parameters { return &w.Spec.ForProvider }

// Observation is what the last look found.
func (w *ClusterWorkspace) Observation() *Observation { return &w.Status.AtProvider }

// GetCondition returns the condition of that type, with status Unknown if there is none.
func (w *ClusterWorkspace) GetCondition(t xpv1.ConditionType) xpv1.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions adds conditions, or replaces those of their types.
func (w *ClusterWorkspace) SetConditions(c ...xpv1.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies returns what the provider may do.
func (w *ClusterWorkspace) GetManagementPolicies() xpv1.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies sets what the provider may do.
func (w *ClusterWorkspace) SetManagementPolicies(p xpv1.ManagementPolicies) {
	w.Spec.ManagementPolicies = p
}

// GetProviderConfigReference returns the ProviderConfig.
func (w *ClusterWorkspace) GetProviderConfigReference() *xpv1.Reference {
	return w.Spec.ProviderConfigReference
}

// SetProviderConfigReference sets the ProviderConfig.
func (w *ClusterWorkspace) SetProviderConfigReference(r *xpv1.Reference) {
	w.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference returns the Secret that gets all outputs.
func (w *ClusterWorkspace) GetWriteConnectionSecretToReference() *xpv1.SecretReference {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference sets the Secret that gets all outputs.
func (w *ClusterWorkspace) SetWriteConnectionSecretToReference(r *xpv1.SecretReference) {
	w.Spec.WriteConnectionSecretToReference = r
}

// GetDeletionPolicy returns what becomes of the resources when the Workspace is deleted.
func (w *ClusterWorkspace) GetDeletionPolicy() xpv1.DeletionPolicy { return w.Spec.DeletionPolicy }

// SetDeletionPolicy sets what becomes of the resources when the Workspace is deleted.
func (w *ClusterWorkspace) SetDeletionPolicy(p xpv1.DeletionPolicy) { w.Spec.DeletionPolicy = p }

// Parameters of the module.
func (w *NamespacedWorkspace) Parameters() *Parameters { return &w.Spec.ForProvider }

// Observation is what the last look found.
func (w *NamespacedWorkspace) Observation() *Observation { return &w.Status.AtProvider }

// GetCondition returns the condition of that type, with status Unknown if there is none.
func (w *NamespacedWorkspace) GetCondition(t xpv1.ConditionType) xpv1.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions adds conditions, or replaces those of their types.
func (w *NamespacedWorkspace) SetConditions(c ...xpv1.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies returns what the provider may do.
func (w *NamespacedWorkspace) GetManagementPolicies() xpv1.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies sets what the provider may do.
func (w *NamespacedWorkspace) SetManagementPolicies(p xpv1.ManagementPolicies) {
	w.Spec.ManagementPolicies = p
}

// GetProviderConfigReference returns the ProviderConfig.
func (w *NamespacedWorkspace) GetProviderConfigReference() *xpv1.ProviderConfigReference {
	return w.Spec.ProviderConfigReference
}

// SetProviderConfigReference sets the ProviderConfig.
func (w *NamespacedWorkspace) SetProviderConfigReference(r *xpv1.ProviderConfigReference) {
	w.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference returns the Secret that gets all outputs.
func (w *NamespacedWorkspace) GetWriteConnectionSecretToReference() *xpv1.LocalSecretReference {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference sets the Secret that gets all outputs.
func (w *NamespacedWorkspace) SetWriteConnectionSecretToReference(r *xpv1.LocalSecretReference) {
	w.Spec.WriteConnectionSecretToReference = r
}
