// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission serves CAPT's defaulting and validating webhooks. They are thin adapters: rules are in
// api/validation, names in api/naming.
package admission
