// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package managed holds the parts of provider-terraform's API that its cluster-scoped and its namespaced group
// share: conditions, policies, references and the scope-free halves of Workspace and ProviderConfig.
// The shapes are those of the CRDs that provider-terraform v1.1 installs.
//
// +kubebuilder:object:generate=true
package managed
