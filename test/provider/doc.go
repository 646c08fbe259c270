// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider is a controller for Workspaces that behaves like Crossplane's provider-terraform v1.1, for tests
// and for trying CAPT out without a cluster that has Crossplane. It serves both scopes, tf.upbound.io and tf.m.upbound.io.
//
// What a Workspace shows at each moment of its life, and in which order, is the contract: conditions, annotations,
// the finalizer, the connection Secret. The real provider can take its place in every test. Most of it comes from
// crossplane-runtime's managed reconciler itself; this package adds what provider-terraform observes and applies.
package provider
