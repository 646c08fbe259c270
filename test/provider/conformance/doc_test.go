// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the provider against what provider-terraform shows: every situation of a Workspace is a
// test of that name, by script for both scopes, v1 and v0, and with OpenTofu where the executor matters.
//
// With OpenTofu it knows nothing but the API, so the real provider can be put in the place of ours:
// SANDBOX_PROVIDER=none leaves ours out of the sandbox, and out of the tests what has to kill it or to script it.
package conformance
