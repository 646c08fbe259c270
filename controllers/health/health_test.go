// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func allHealthy() *health.Facts {
	ok := health.Healthy()
	return &health.Facts{Probed: health.Probed{APIServer: ok, Version: ok, Credentials: ok}, Workspace: ok, Dependencies: ok, Fargate: ok}
}

func TestFactsToStatus(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(f *health.Facts)
		overall controlplanev1.HealthState
		checks  map[string]controlplanev1.HealthState
	}{
		"everything passes":                 {func(*health.Facts) {}, "Healthy", map[string]controlplanev1.HealthState{"APIServer": "Healthy", "Fargate": "Healthy"}},
		"the API server does not answer":    {func(f *health.Facts) { f.APIServer = health.Unhealthy("refused") }, "Unhealthy", map[string]controlplanev1.HealthState{"APIServer": "Unhealthy", "Version": "Healthy"}},
		"it cannot be reached":              {func(f *health.Facts) { f.APIServer = health.Unknown("refused") }, "Unknown", map[string]controlplanev1.HealthState{"APIServer": "Unknown"}},
		"a failure is worse than unknown":   {func(f *health.Facts) { f.APIServer, f.Fargate = health.Unknown("x"), health.Unhealthy("y") }, "Unhealthy", nil},
		"another version":                   {func(f *health.Facts) { f.Version = health.Unhealthy("1.32") }, "Unhealthy", map[string]controlplanev1.HealthState{"Version": "Unhealthy"}},
		"credentials expired":               {func(f *health.Facts) { f.Credentials = health.Unhealthy("expired") }, "Unhealthy", map[string]controlplanev1.HealthState{"Credentials": "Unhealthy"}},
		"Terraform fails":                   {func(f *health.Facts) { f.Workspace = health.Unhealthy("ApplyFailed") }, "Unhealthy", map[string]controlplanev1.HealthState{"Workspace": "Unhealthy"}},
		"a dependency is missing":           {func(f *health.Facts) { f.Dependencies = health.Unhealthy("no VPC") }, "Unhealthy", map[string]controlplanev1.HealthState{"Dependencies": "Unhealthy"}},
		"not probed yet":                    {func(f *health.Facts) { f.Probed = health.Probed{} }, "Unknown", map[string]controlplanev1.HealthState{"APIServer": "Unknown", "Version": "Unknown", "Credentials": "Unknown"}},
		"probes are disabled":               {func(f *health.Facts) { f.Disabled = true; f.Probed = health.Probed{} }, "Healthy", map[string]controlplanev1.HealthState{"APIServer": "", "Version": "", "Credentials": "", "Workspace": "Healthy"}},
		"it answers, without credentials":   {func(f *health.Facts) { f.Version, f.Credentials = health.Unknown("x"), health.Unknown("x") }, "Healthy", map[string]controlplanev1.HealthState{"Version": "Unknown"}},
		"the kubeconfig cannot be used yet": {func(f *health.Facts) { f.Probed = health.NotProbed("no kubeconfig") }, "Unknown", map[string]controlplanev1.HealthState{"Credentials": "Unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := allHealthy()
			row.change(facts)
			got := health.Evaluate(facts, nil, now)
			assert.Equal(t, row.overall, got.Overall)
			for check, want := range row.checks {
				assert.Equal(t, want, health.Status(got, check), check)
			}
		})
	}
}

func TestAFailureHasAMessageWithTheHint(t *testing.T) {
	facts := allHealthy()
	facts.Version = health.Unhealthy("the API server runs Kubernetes 1.32, but spec.version is 1.31")
	got := health.Find(health.Evaluate(facts, nil, now), health.Version)
	assert.Equal(t, "the API server runs Kubernetes 1.32, but spec.version is 1.31. Set spec.version to the version that runs, or find out what changed it", got.Message)
}

// A restarted manager has no results yet.
func TestWithoutNewsNothingChanges(t *testing.T) {
	facts := allHealthy()
	facts.APIServer = health.Unhealthy("the API server refuses connections")
	first := health.Evaluate(facts, nil, now)
	assert.Equal(t, first, health.Evaluate(facts, first, now.Add(time.Hour)))
	facts.Probed = health.Probed{}
	assert.Equal(t, first, health.Evaluate(facts, first, now.Add(time.Hour)))
}

func TestAnOldReasonWhyAResultIsNotKnownIsNotKept(t *testing.T) {
	facts := allHealthy()
	facts.Probed = health.NotProbed("waiting for the kubeconfig")
	first := health.Evaluate(facts, nil, now)
	facts.Probed = health.Probed{APIServer: health.Unknown("the API server refuses connections")}
	second := health.Evaluate(facts, first, now)
	assert.Equal(t, "not known before check APIServer passes", health.Find(second, health.Version).Message)
	facts.Probed = health.Probed{}
	assert.Equal(t, second, health.Evaluate(facts, second, now), "a restarted manager writes nothing")
}

func TestTheTransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	facts, later := allHealthy(), now.Add(time.Hour)
	facts.APIServer = health.Unhealthy("one")
	first := health.Evaluate(facts, nil, now)
	facts.APIServer.Message = "two"
	second := health.Evaluate(facts, first, later)
	assert.Contains(t, health.Find(second, health.APIServer).Message, "two")
	assert.Equal(t, now, health.Find(second, health.APIServer).LastTransitionTime.Time)
	facts.APIServer = health.Healthy()
	assert.Equal(t, later, health.Find(health.Evaluate(facts, second, later), health.APIServer).LastTransitionTime.Time)
}

// The manual has the same table.
func TestChecksAreDocumented(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	require.NoError(t, err)
	for _, check := range health.Checks() {
		assert.NotEmpty(t, check.Hint)
		assert.Contains(t, string(manual), "\n| `"+check.Name+"` |")
	}
}

// Without any answer, the reason why a result is not known is the last one.
func TestWithoutAProbeTheReasonIsKept(t *testing.T) {
	facts := allHealthy()
	facts.Version = health.Unknown("no credentials")
	last := health.Evaluate(facts, nil, now)
	facts.Probed = health.Probed{}
	assert.Equal(t, "no credentials", health.Find(health.Evaluate(facts, last, now), health.Version).Message)
}

func TestNoneFails(t *testing.T) {
	assert.True(t, health.NoneFails(nil))
	for state, want := range map[controlplanev1.HealthState]bool{controlplanev1.HealthHealthy: true, controlplanev1.HealthUnknown: true, controlplanev1.HealthUnhealthy: false} {
		assert.Equal(t, want, health.NoneFails(&controlplanev1.Health{Overall: state}), state)
	}
}
