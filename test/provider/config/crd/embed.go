// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the CRDs that provider-terraform v1.1 installs, with descriptions of this project.
package crd

import "embed"

// FS holds one YAML file a CRD, at its root, named group_plural.yaml.
//
//go:embed *.yaml
var FS embed.FS
