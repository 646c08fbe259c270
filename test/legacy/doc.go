// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package legacy makes clusters as CAPT v0.3 left them: objects in v1beta1 under its definitions, on a real API server, with
// status, owner references and managed fields, and the cluster-wide Workspaces that it rendered. What can be wrong with such
// a fleet has a name each (see Named). A World is an API server that has them, and that can be upgraded to today's CAPT.
//
// No controller works on the objects: CAPT v0.3 does not run, and unless a test runs one, no provider. What these would have written is
// written for them.
package legacy
