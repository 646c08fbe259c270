// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds the admission policies of an installation.
package policy

import "embed"

// Files are the manifests.
//
//go:embed *_policy.yaml
var Files embed.FS
