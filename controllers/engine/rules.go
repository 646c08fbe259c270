// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/capt-provider/capt/api/desired"

// Blocking returns the condition of status False that reports why something is blocked; nil if nothing does.
func Blocking(conditionType string, blocked *desired.Blocked) *Condition {
	if blocked == nil {
		return nil
	}
	condition := False(conditionType, blocked.Reason, blocked.Message)
	return &condition
}
