// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// Rule is a reason that blocks a reconcile. F is the type of the facts that it checks.
type Rule[F any] struct {
	// Reason of the condition that reports the rule.
	Reason string
	// Message says what is wrong, why, and what to do; empty when the rule does not apply.
	Message func(facts F) string
}

// FirstBlocking returns a condition of status False for the first rule that applies, nil when none does.
func FirstBlocking[F any](conditionType string, facts F, rules []Rule[F]) *Condition {
	for _, rule := range rules {
		if message := rule.Message(facts); message != "" {
			condition := False(conditionType, rule.Reason, message)
			return &condition
		}
	}
	return nil
}
