// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

// Rules for the variables of all kinds, which have their own tests.
var (
	ValidateVariableNames        = validateVariableNames
	ValidateAppliedVariableNames = validateAppliedVariableNames
	ValidateVariableValues       = validateVariableValues
	CheckPlaceholders            = checkPlaceholders
)
