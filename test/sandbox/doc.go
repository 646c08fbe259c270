// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a real management cluster's control plane on one machine, without containers: etcd,
// kube-apiserver, kube-controller-manager, Cluster API core, CAPT and a provider for Terraform workspaces. Everything
// listens on loopback only, keeps its files in one folder, and is gone when the sandbox is stopped or its owner dies.
//
// Tests start one with Start; people start one with the sandbox command (make quickstart).
package sandbox
