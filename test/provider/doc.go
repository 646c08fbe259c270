// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider is a controller for Workspaces that behaves like Crossplane's provider-terraform v1.1, for tests
// and for trying CAPT out without a cluster that has Crossplane. It serves both scopes, tf.upbound.io and
// tf.m.upbound.io, with one reconciler.
//
// What a Workspace shows at each moment of its life, and in which order, is the contract: conditions, annotations,
// the finalizer, the connection Secret. The real provider can take its place in every test. The rules come from
// crossplane-runtime v2 (the managed reconciler) and provider-terraform v1.1 (what it observes and applies).
package provider

// What the provider needs to be allowed to do:
//
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=workspaces,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=workspaces/status;workspaces/finalizers,verbs=get;update;patch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=providerconfigs;clusterproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=providerconfigusages,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
