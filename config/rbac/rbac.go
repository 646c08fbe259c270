// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rbac holds the role of the manager, and those of users of captctl migrate.
package rbac

import _ "embed"

// Captctl holds ClusterRoles, as documents of YAML.
//
//go:embed captctl.yaml
var Captctl []byte

// Manager holds the ClusterRole of the manager.
//
//go:embed role.yaml
var Manager []byte
