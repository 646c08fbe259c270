// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspace is the port to Terraform: apply, observe, release. What to apply comes from package render, and what
// the provider's errors mean from package failure. Nothing outside of the three and api/terraform knows Crossplane.
// Observing is pure, as are both other packages.
//
// What a Workspace of provider-terraform v0.18 to v1.1 shows, and what it means, is in docs/provider-terraform.md.
package workspace
