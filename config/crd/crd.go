// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the definitions of CAPT's kinds as they are generated from the Go types: for those who need the
// schemas without a cluster.
package crd

import "embed"

// Definitions holds a file bases/<group>_<plural>.yaml for each kind, with a CustomResourceDefinition of all versions.
// They are not complete: labels, conversion and the authority of its webhook are added by the kustomization beside them.
//
//go:embed bases/*.yaml
var Definitions embed.FS
