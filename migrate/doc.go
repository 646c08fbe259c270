// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate has what all parts of a migration from CAPT v0.3 share: the Snapshot of a fleet, decisions, findings, and how a
// command ends. Package plan describes what is written, planner decides that from a snapshot, and apply writes it.
package migrate
