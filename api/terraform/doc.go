// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package terraform has the part of provider-terraform's Workspace API that CAPT reads and writes, in both scopes: tf.upbound.io
// (cluster-scoped) and tf.m.upbound.io (namespaced). Field names, enums and semantics are those of provider-terraform v0.18 to v1.1.
//
// +kubebuilder:object:generate=true
package terraform
