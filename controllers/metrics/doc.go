// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has all metrics that CAPT adds to those of controller-runtime: every name is here, and is
// registered once. Labels identify the object, and have no content of it.
package metrics
