// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

// Rule is a reason why something is not written. F is the type of the facts that it checks.
type Rule[F any] struct {
	// Reason of the condition that reports the rule.
	Reason string
	// Message says what is wrong, why, and what to do; empty when the rule does not apply.
	Message func(facts F) string
}

// Blocked is why something is not written: reason and message of the condition that reports it.
type Blocked struct{ Reason, Message string }

// First returns the first rule that applies; nil when none does.
func First[F any](facts F, rules []Rule[F]) *Blocked {
	for _, rule := range rules {
		if message := rule.Message(facts); message != "" {
			return &Blocked{rule.Reason, message}
		}
	}
	return nil
}
