// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspace reads and writes Workspaces of provider-terraform: apply, observe, delete. Package render renders their spec, and
// package failure explains errors of the provider. Only these, api/terraform and the tests know Crossplane. Observing is pure.
//
// docs/provider-terraform.md lists the states of a Workspace of provider-terraform v0.18 to v1.1.
package workspace
