// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rbac holds the roles of those who run captctl migrate.
package rbac

import _ "embed"

// Captctl holds ClusterRoles, as documents of YAML.
//
//go:embed captctl.yaml
var Captctl []byte
