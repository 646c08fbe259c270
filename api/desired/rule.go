// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

// Blocked is why something is not written: reason of the condition that reports it, and message, which says what is wrong, why, and what to do.
type Blocked struct{ Reason, Message string }

// Rule returns why something is not written; nil when the rule does not apply.
type Rule func() *Blocked

// Chain are rules in the order in which they are reported.
type Chain []Rule

// First returns why something is not written according to the first rule that applies; nil when none does.
func (c Chain) First() *Blocked {
	for _, rule := range c {
		if blocked := rule(); blocked != nil {
			return blocked
		}
	}
	return nil
}

// blockedBy returns an error as why something is not written; nil without an error.
func blockedBy(reason, prefix string, err error) *Blocked {
	if err == nil {
		return nil
	}
	return &Blocked{reason, prefix + err.Error()}
}
