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

// Package terraform is the slice of provider-terraform's Workspace that CAPT reads and writes, in both of its
// scopes: tf.upbound.io (cluster-wide) and tf.m.upbound.io (namespaced). Field names, enums and semantics are
// those of provider-terraform v0.18 to v1.1.
//
// +kubebuilder:object:generate=true
package terraform
