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
