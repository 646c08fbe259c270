// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash kills CAPT's manager (SIGKILL) at each of its writes, one after the other, and demands that nothing comes
// of it: the end is the same as without, there never was more than one Workspace, and nothing is left of it in the cloud.
//
// A proxy between the manager and the API server counts writes. At the chosen one it lets the API server carry the write
// out, kills the manager before the answer reaches it, and the manager is started again. This is repeated with the next
// write until there is none.
//
// The environment variable CAPT_CRASH=all adds cases that take long and show little more: kills before the API server receives
// the write, in every scenario.
package crash_test
