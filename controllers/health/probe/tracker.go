// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
)

// threshold is the number of failures in a row that flip a check. One success flips it back.
const threshold = 3

// tracker has the results of one check.
type tracker struct {
	// status is what is reported.
	status controlplanev1.HealthState
	// reported is the result that this process reported; zero as long as the one in status still applies.
	reported health.Result
	// last is the last result; failures and same are the number of results in a row that did not pass, and that are equal to it.
	last           health.Result
	failures, same int
}

// observe adds a result, and reports whether the reported result changed. The first result is reported at once, unless it is a failure.
func (t *tracker) observe(result health.Result) bool {
	if result.Status == "" {
		return false
	}
	if result.Status == controlplanev1.HealthHealthy {
		t.failures, t.same = 0, 0
		return t.status != controlplanev1.HealthHealthy && t.report(result)
	}
	if t.failures++; t.last != result {
		t.last, t.same = result, 0
	}
	t.same++
	switch {
	case t.status == "" && result.Status == controlplanev1.HealthUnknown:
		return t.report(result)
	case t.failures < threshold:
		return false
	case t.status != result.Status:
		return t.report(result)
	}
	// Only the message differs. Reporting each one would cause writes while they alternate.
	return t.same >= threshold && t.reported.Status != "" && t.reported != result && t.report(result)
}

func (t *tracker) report(result health.Result) bool {
	t.status, t.reported = result.Status, result
	return true
}

// failing reports whether the check has failed, but not often enough.
func (t *tracker) failing() bool { return t.failures > 0 && t.failures < threshold }
