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

// Package sandbox runs a real management cluster's control plane on one machine, without containers: etcd,
// kube-apiserver, kube-controller-manager, Cluster API core, CAPT and a provider for Terraform workspaces. Everything
// listens on loopback only, keeps its files in one folder, and is gone when the sandbox is stopped or its owner dies.
//
// Tests start one with Start; people start one with the sandbox command (make quickstart).
package sandbox
