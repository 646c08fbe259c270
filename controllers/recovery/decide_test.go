// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/test/provider/failures"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run decides until nothing more happens, as reconciles at the requested times do, and returns the actions with their times.
func run(t *testing.T, in Input, until time.Duration) (actions []infrav1.RecoveryActionType, at []time.Duration, last Decision) {
	t.Helper()
	in.Seed = "uid"
	for in.Now = start; in.Now.Before(start.Add(until)); {
		last = Decide(in)
		repeated := in
		repeated.Now = in.Now.Add(time.Millisecond)
		require.Equal(t, last.Next.NextAttemptTime, Decide(repeated).Next.NextAttemptTime, "a repeated decision is the same")
		if last.Kind == Run {
			actions, at = append(actions, last.Action.Type), append(at, in.Now.Sub(start))
		}
		in.Status, in.Retry = last.Next, false
		if last.At.IsZero() {
			return actions, at, last
		}
		in.Now = last.At
	}
	return actions, at, last
}

func TestClasses(t *testing.T) {
	reapplies := []infrav1.RecoveryActionType{
		infrav1.RecoveryReapply, infrav1.RecoveryReapply, infrav1.RecoveryReapply, infrav1.RecoveryReapply, infrav1.RecoveryReapply,
	}
	for class, row := range map[failure.Class]struct {
		actions []infrav1.RecoveryActionType
		first   time.Duration
		kind    Kind
	}{
		failure.ClassThrottle:    {reapplies, providerRetries, Exhausted},
		failure.ClassLock:        {reapplies, providerRetries, Exhausted},
		failure.ClassTimeout:     {reapplies, providerRetries, Exhausted},
		failure.ClassNetwork:     {reapplies, providerRetries, Exhausted},
		failure.ClassProviderPod: {reapplies, providerRetries, Exhausted},
		failure.ClassUnknown:     {reapplies, providerRetries, Exhausted},
		failure.ClassInterrupted: {reapplies, 20 * time.Second, Exhausted},
		failure.ClassAuth:        {nil, 0, Blocked},
		failure.ClassQuota:       {nil, 0, Blocked},
		failure.ClassConfig:      {nil, 0, Blocked},
	} {
		t.Run(string(class), func(t *testing.T) {
			actions, at, last := run(t, Input{Failure: Failure{Class: class}}, 24*time.Hour)
			assert.Equal(t, row.actions, actions)
			assert.Equal(t, row.kind, last.Kind)
			assert.NotEmpty(t, last.Message)
			if len(at) > 0 {
				assert.GreaterOrEqual(t, at[0], row.first)
			}
		})
	}
	assert.Len(t, failures.Classes(), 10)
}

func TestAnInterruptedCreate(t *testing.T) {
	interrupted := Failure{Class: failure.ClassInterrupted, CreateInterrupted: true}
	actions, _, _ := run(t, Input{Failure: interrupted}, time.Minute)
	assert.Equal(t, []infrav1.RecoveryActionType{infrav1.RecoveryClearInterruptedCreate}, actions)
	interrupted.CreateNotRecoverable = "the state is not remote"
	d := Decide(Input{Failure: interrupted, Now: start, Retry: true})
	assert.Equal(t, Blocked, d.Kind)
	assert.Contains(t, d.Message, "ClearInterruptedCreate is refused: the state is not remote")
}

// The provider can be killed in a run that an action has started. Until the create is continued, it waits: the action cannot end any more.
func TestACreateThatIsInterruptedDuringReapplyContinues(t *testing.T) {
	status := infrav1.RecoveryStatus{FailureClass: "Throttle", Attempts: ptr.To[int32](1), LastAction: infrav1.RecoveryReapply, LastActionTime: &metav1.Time{Time: start.Add(-time.Minute)}}
	d := Decide(Input{Failure: Failure{Class: failure.ClassInterrupted, CreateInterrupted: true}, Status: status, Now: start})
	assert.Equal(t, OutcomeTimedOut, d.Ended)
	assert.Equal(t, Wait, d.Kind)
	assert.Equal(t, infrav1.RecoveryClearInterruptedCreate, d.Action.Type)
	assert.Less(t, d.At.Sub(start), 90*time.Second)
}

func TestStrategies(t *testing.T) {
	fails := Failure{Class: failure.ClassNetwork}
	strategy := &infrav1.RecoveryStrategy{
		MaxRetries: ptr.To[int32](3), Backoff: infrav1.Backoff{InitialSeconds: 10, Factor: 10, MaxSeconds: 50},
		Actions: []infrav1.RecoveryAction{{Type: infrav1.RecoveryRequeue, TimeoutSeconds: 1}, {Type: infrav1.RecoveryReapply, TimeoutSeconds: 1}},
	}
	actions, at, last := run(t, Input{Strategy: strategy, Failure: fails}, time.Hour)
	assert.Equal(t, []infrav1.RecoveryActionType{infrav1.RecoveryRequeue, infrav1.RecoveryReapply, infrav1.RecoveryRequeue}, actions)
	assert.InDelta(t, 10, at[0].Seconds(), 2)
	assert.InDelta(t, 50, (at[1] - at[0]).Seconds(), 8, "by the default factor it would be 20")
	assert.InDelta(t, 50, (at[2] - at[1]).Seconds(), 8)
	assert.Equal(t, Exhausted, last.Kind)

	again := Input{Strategy: strategy, Failure: fails, Status: last.Next, Now: start.Add(time.Hour), Retry: true}
	assert.Equal(t, Wait, Decide(again).Kind, "a retry starts again")

	strategy.MaxRetries = ptr.To[int32](0)
	last.Next.Retry, last.Next.RetryTime = "1", ptr.To(metav1.NewTime(start))
	off := Decide(Input{Strategy: strategy, Failure: fails, Status: last.Next, Now: start.Add(time.Hour)})
	assert.Equal(t, Nothing, off.Kind)
	assert.Equal(t, infrav1.RecoveryStatus{Retry: "1", RetryTime: ptr.To(metav1.NewTime(start))}, off.Next, "only the retry that the user requested")
}

func TestRecreateFargateProfileCanBeLimitedToOneProfile(t *testing.T) {
	for profile, want := range map[string]Kind{"default": Run, "other": Blocked} {
		strategy := &infrav1.RecoveryStrategy{Actions: []infrav1.RecoveryAction{{
			Type: infrav1.RecoveryRecreateFargateProfile, Parameters: map[string]string{infrav1.ProfileParameter: "default"},
		}}}
		due := infrav1.RecoveryStatus{FailureClass: "Network", NextAttemptTime: ptr.To(metav1.NewTime(start)), Attempts: ptr.To[int32](1)}
		d := Decide(Input{Strategy: strategy, Status: due, Failure: Failure{Class: failure.ClassNetwork, Profile: profile}, Now: start})
		assert.Equal(t, want, d.Kind, profile)
		assert.Equal(t, profile, d.Profile)
		assert.Equal(t, want == Run, strings.Contains(d.Message, "recovery attempt 2 of 5 (RecreateFargateProfile of Fargate profile default) runs until 2026-01-01T00:30:00Z"), d.Message)
	}
}

// Each action has the failures that it can help with, and says why it does not.
func TestWhichActionsApply(t *testing.T) {
	profile := infrav1.RecoveryAction{Type: infrav1.RecoveryRecreateFargateProfile}
	workspace := infrav1.RecoveryAction{Type: infrav1.RecoveryRecreateWorkspace}
	const none = "spec.recovery.actions has no action for this error. Correct its cause, or add an action"
	for name, row := range map[string]struct {
		action  infrav1.RecoveryAction
		failure Failure
		refused string
	}{
		"a profile":              {profile, Failure{Profile: "a"}, ""},
		"no profile":             {profile, Failure{}, none},
		"a profile that is kept": {profile, Failure{Profile: "a", Retained: true}, "RecreateFargateProfile is refused: spec.deletionPolicy of the WorkspaceTemplateApply of Fargate profile a is Retain"},
		"not for a profile":      {workspace, Failure{Profile: "a"}, none},
		"without a confirmation": {workspace, Failure{}, `RecreateWorkspace is refused: it would destroy the control plane, and its parameter allowDestroy is not "true"`},
		"unknown":                {infrav1.RecoveryAction{Type: "Other"}, Failure{}, none},
		"no interrupted create":  {infrav1.RecoveryAction{Type: infrav1.RecoveryClearInterruptedCreate}, Failure{}, none},
		"an error for the user":  {profile, Failure{Class: failure.ClassAuth, Profile: "a"}, "Correct the credentials of the ProviderConfig, or their permissions"},
	} {
		usable, refused := actionsFor(Input{Failure: row.failure, Strategy: &infrav1.RecoveryStrategy{Actions: []infrav1.RecoveryAction{row.action}}})
		assert.Equal(t, row.refused == "", len(usable) == 1, name)
		if row.refused != "" {
			assert.Contains(t, refused, row.refused, name)
		}
	}
}

func TestHowLongActionsMayTake(t *testing.T) {
	for action, want := range map[infrav1.RecoveryActionType]time.Duration{
		infrav1.RecoveryRequeue: time.Minute, infrav1.RecoveryReapply: 5 * time.Minute, infrav1.RecoveryClearInterruptedCreate: 30 * time.Minute,
		infrav1.RecoveryRecreateFargateProfile: 30 * time.Minute, infrav1.RecoveryRecreateWorkspace: 30 * time.Minute,
	} {
		assert.Equal(t, want, timeoutOf(infrav1.RecoveryAction{Type: action}), action)
	}
}

// A retry that the user requests, and one after a correction, do not wait.
func TestARestartDoesNotWait(t *testing.T) {
	recorded := infrav1.RecoveryStatus{Attempts: ptr.To[int32](3), Inputs: "r1/1", FailureClass: "Network", LastOutcome: OutcomeTimedOut, LastAction: infrav1.RecoveryReapply}
	for name, in := range map[string]Input{
		"a retry":      {Failure: Failure{Class: failure.ClassNetwork, Inputs: "r1/1"}, Retry: true},
		"a correction": {Failure: Failure{Class: failure.ClassNetwork, Inputs: "r1/2"}},
	} {
		in.Status, in.Now = recorded, start
		d := Decide(in)
		assert.Equal(t, start, d.Next.NextAttemptTime.Time, name)
		assert.Equal(t, start.Add(time.Second), d.At, "the record is written first")
		assert.Equal(t, "recovery attempt 1 of 5 (Reapply) starts at 2026-01-01T00:00:00Z", d.Message)
	}
	in := Input{Failure: Failure{Class: failure.ClassAuth}, Now: start, Retry: true}
	assert.Equal(t, start.Add(time.Second), Decide(in).At, "of an error for which there is no action")
}

// What the failed run used may not be known: from an earlier version, or because the Workspace is gone.
func TestInputsThatAreNotKnownAreNoChange(t *testing.T) {
	for _, inputs := range [][2]string{{"", "r1/1"}, {"r1/1", ""}} {
		d := Decide(Input{Failure: Failure{Class: failure.ClassLock, Inputs: inputs[1]}, Now: start, Status: infrav1.RecoveryStatus{Attempts: ptr.To[int32](3), Inputs: inputs[0], FailureClass: "Lock"}})
		assert.EqualValues(t, 4, d.Attempt)
		assert.Equal(t, "r1/1", d.Next.Inputs)
	}
}

// The retries of the provider have the first two minutes, unless spec says otherwise. Later attempts have their own waits.
func TestHowLongAttemptsWait(t *testing.T) {
	waits := func(done int32, strategy *infrav1.RecoveryStrategy) float64 {
		d := Decide(Input{Failure: Failure{Class: failure.ClassLock}, Now: start, Strategy: strategy, Status: infrav1.RecoveryStatus{Attempts: &done, FailureClass: "Lock", LastAction: infrav1.RecoveryReapply, LastOutcome: OutcomeSucceeded}})
		assert.NotContains(t, d.Message, "did not help")
		return d.At.Sub(start).Seconds()
	}
	assert.Equal(t, providerRetries.Seconds(), waits(0, nil))
	assert.Equal(t, providerRetries.Seconds(), waits(0, &infrav1.RecoveryStrategy{}))
	assert.InDelta(t, 20, waits(0, &infrav1.RecoveryStrategy{Backoff: infrav1.Backoff{InitialSeconds: 20}}), 2)
	assert.InDelta(t, 60, waits(1, nil), 6)
}

// The longest wait is that of the last attempts, and that which the provider has for its retries.
func TestAPlannedAttemptIsKept(t *testing.T) {
	for _, strategy := range []*infrav1.RecoveryStrategy{nil, {Backoff: infrav1.Backoff{MaxSeconds: 1}}} {
		at := ptr.To(metav1.NewTime(start.Add(maxWait(strategy, "uid"))))
		in := Input{Failure: Failure{Class: failure.ClassLock}, Now: start, Seed: "uid", Strategy: strategy, Status: infrav1.RecoveryStatus{FailureClass: "Lock", NextAttemptTime: at}}
		assert.Equal(t, at, Decide(in).Next.NextAttemptTime)
	}
	assert.Equal(t, providerRetries*5/4, maxWait(&infrav1.RecoveryStrategy{Backoff: infrav1.Backoff{MaxSeconds: 1}}, "uid"))
	assert.InDelta(t, 37.5, maxWait(nil, "uid").Minutes(), 3.8)
}

// A create that was interrupted stays so until the provider continues it.
func TestAnActionThatContinuesACreateRuns(t *testing.T) {
	for action, want := range map[infrav1.RecoveryActionType]Kind{infrav1.RecoveryClearInterruptedCreate: Running, infrav1.RecoveryRequeue: Wait, infrav1.RecoveryReapply: Wait} {
		in := Input{Failure: Failure{Class: failure.ClassInterrupted, CreateInterrupted: true}, Now: start.Add(30 * time.Second), Status: infrav1.RecoveryStatus{
			Attempts: ptr.To[int32](1), FailureClass: "Interrupted", LastAction: action, LastActionTime: ptr.To(metav1.NewTime(start)),
		}}
		assert.Equal(t, want, Decide(in).Kind, action)
		in.Status.LastActionTime = nil
		assert.Equal(t, Wait, Decide(in).Kind, "since when it runs is not known")
	}
}

// A health check has no class, so spec.recovery.actions is not for it.
func TestTheActionForAHealthCheck(t *testing.T) {
	in := Input{Failure: Failure{Check: "Workspace", Since: start}, Now: start, Strategy: &infrav1.RecoveryStrategy{Actions: []infrav1.RecoveryAction{{Type: infrav1.RecoveryRequeue}}}}
	d := Decide(in)
	assert.Equal(t, Wait, d.Kind)
	assert.Equal(t, infrav1.RecoveryReapply, d.Action.Type)
}

// The metric of an action's outcome has the class of the error, which Terraform no longer reports while it runs again.
func TestTheClassIsRecordedUntilTheActionEnds(t *testing.T) {
	in := Input{Now: start.Add(time.Minute), Status: infrav1.RecoveryStatus{
		Attempts: ptr.To[int32](1), FailureClass: "Network", LastAction: infrav1.RecoveryReapply, LastActionTime: ptr.To(metav1.NewTime(start)),
	}}
	d := Decide(in)
	assert.Equal(t, Running, d.Kind)
	assert.Equal(t, "Network", d.Next.FailureClass)
	in.Ready = true
	assert.Empty(t, Decide(in).Next.FailureClass)
}

func TestWhatFollowsTheMessageOfReady(t *testing.T) {
	for kind, want := range map[Kind]string{Nothing: "", Wait: " (m)", Run: " (m)", Running: " (m)", Exhausted: " (m)", Blocked: ""} {
		assert.Equal(t, want, (&Decision{Kind: kind, Message: "m"}).Summary(), kind)
	}
}

// The provider has not retried the new error yet.
func TestAnErrorOfAnotherClassWaitsAgain(t *testing.T) {
	due := infrav1.RecoveryStatus{FailureClass: "Lock", NextAttemptTime: ptr.To(metav1.NewTime(start)), Attempts: ptr.To[int32](1)}
	in := Input{Status: due, Failure: Failure{Class: failure.ClassLock}, Now: start}
	assert.Equal(t, Run, Decide(in).Kind)
	in.Failure.Class = failure.ClassNetwork
	d := Decide(in)
	assert.Equal(t, Wait, d.Kind)
	assert.Equal(t, "Network", d.Next.FailureClass)
	assert.EqualValues(t, 2, d.Attempt, "the attempts count on")
	in.Failure = Failure{}
	assert.Zero(t, Decide(in).Next.NextAttemptTime, "the provider succeeded")
	assert.Empty(t, Decide(in).Next.FailureClass)
}

func TestChangedInputsStartAgain(t *testing.T) {
	in := Input{Failure: Failure{Class: failure.ClassAuth, Inputs: "r1/1"}, Now: start, Seed: "uid"}
	d := Decide(in)
	assert.Equal(t, Blocked, d.Kind)
	in.Status, in.Failure.Inputs = d.Next, "r1/2"
	d = Decide(in)
	assert.Equal(t, Wait, d.Kind, "the Secret was corrected: the provider runs once")
	in.Status, in.Now = d.Next, d.At
	d = Decide(in)
	assert.Equal(t, Run, d.Kind)
	assert.Equal(t, infrav1.RecoveryReapply, d.Action.Type)
	in.Status, in.Now = d.Next, d.At
	assert.Equal(t, Blocked, Decide(in).Kind, "and not again")
}

// The provider has just run with the change, and failed.
func TestAChangeOfTheWorkspaceThatFailsWaits(t *testing.T) {
	failed := Failure{Class: failure.ClassThrottle, Inputs: "r2/1"}
	in := Input{Failure: failed, Now: start, Seed: "uid", Status: infrav1.RecoveryStatus{Attempts: ptr.To[int32](4), Inputs: "r1/1", FailureClass: "Throttle"}}
	d := Decide(in)
	assert.Equal(t, Wait, d.Kind)
	assert.EqualValues(t, 1, d.Attempt, "the attempts start again")
	assert.GreaterOrEqual(t, d.Next.NextAttemptTime.Sub(start), providerRetries-time.Second)
}

func TestOutcomesAndReset(t *testing.T) {
	acted := infrav1.RecoveryStatus{
		Attempts: ptr.To[int32](2), LastAction: infrav1.RecoveryReapply, LastActionTime: ptr.To(metav1.NewTime(start)), FailureClass: "Network", Inputs: "1",
	}
	in := Input{Status: acted, Now: start.Add(time.Minute), Failure: Failure{Class: failure.ClassNetwork, Inputs: "1"}}
	assert.Equal(t, Running, Decide(in).Kind)
	in.Failure = Failure{}
	assert.Equal(t, Running, Decide(in).Kind, "Terraform runs")
	in.Ready = true
	d := Decide(in)
	assert.Equal(t, Nothing, d.Kind)
	assert.Equal(t, OutcomeSucceeded, d.Ended)
	assert.Equal(t, int32(2), *d.Next.Attempts)

	in.Status, in.ReadySince, in.Now = d.Next, start.Add(time.Minute), start.Add(time.Hour)
	assert.Equal(t, start.Add(61*time.Minute), Decide(in).At)
	in.Now = start.Add(2 * time.Hour)
	d = Decide(in)
	assert.Nil(t, d.Next.Attempts)
	in.Status = d.Next
	rest := Decide(in)
	assert.Equal(t, in.Status, rest.Next, "no writes at rest")
	assert.Zero(t, rest.At)
}

// An action that timed out has ended, and its outcome is reported, whether an error or a health check follows.
func TestAnActionThatTimedOutIsReported(t *testing.T) {
	for _, fails := range []Failure{{Class: failure.ClassNetwork}, {Check: "Workspace", Since: start.Add(time.Hour)}} {
		d := Decide(Input{Failure: fails, Now: start.Add(2 * time.Hour), Seed: "uid", Status: infrav1.RecoveryStatus{
			Attempts: ptr.To[int32](1), LastAction: infrav1.RecoveryReapply, LastActionTime: ptr.To(metav1.NewTime(start)), FailureClass: string(fails.Class),
		}})
		assert.Equal(t, Wait, d.Kind)
		assert.Equal(t, OutcomeTimedOut, d.Ended)
		assert.Equal(t, OutcomeTimedOut, d.Next.LastOutcome)
		assert.Contains(t, d.Message, "; Reapply did not help")
	}
}

// Equal control planes do not retry at the same time, and the wait of one attempt does not change.
func TestWaitsAreVariedByATenth(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 100 {
		uid := string(uuid.NewUUID())
		wait := backoff(nil, uid, 2)
		assert.InDelta(t, 120, wait.Seconds(), 12)
		assert.Equal(t, wait, backoff(nil, uid, 2))
		waits[wait.Truncate(time.Second)] = true
	}
	assert.Greater(t, len(waits), 15)
	assert.NotEqual(t, 2*backoff(nil, "uid", 0), backoff(nil, "uid", 1), "each attempt has its own variation")
}

func TestATimeOfAWrongClockIsReplaced(t *testing.T) {
	in := Input{Failure: Failure{Class: failure.ClassLock}, Now: start, Seed: "uid"}
	in.Status = infrav1.RecoveryStatus{FailureClass: "Lock", NextAttemptTime: ptr.To(metav1.NewTime(start.AddDate(1, 0, 0)))}
	assert.WithinDuration(t, start, Decide(in).Next.NextAttemptTime.Time, time.Hour)
}

// Whatever spec, status, annotations and time are: with any evidence that the control plane was initialized, RecreateWorkspace never runs.
func TestRecreateWorkspaceIsImpossibleOnceInitialized(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(n int) int { return random.IntN(n) }
	ran := 0
	classes := failures.Classes()
	for range 20000 {
		h, initialized := randomHistory(random)
		strategy := &infrav1.RecoveryStrategy{MaxRetries: ptr.To(int32(pick(4)))}
		for range 1 + pick(3) {
			strategy.Actions = append(strategy.Actions, infrav1.RecoveryAction{
				Type: []infrav1.RecoveryActionType{infrav1.RecoveryReapply, infrav1.RecoveryRecreateWorkspace}[pick(2)],
				Parameters: []map[string]string{nil, {infrav1.AllowDestroyParameter: "false"},
					{infrav1.AllowDestroyParameter: "true"}, {infrav1.AllowDestroyParameter: "TRUE"}}[pick(4)],
			})
		}
		in := Input{
			Strategy: strategy, Failure: Failure{Class: failure.Class(classes[pick(9)]), Inputs: []string{"", "1", "2"}[pick(3)], CreateInterrupted: pick(4) == 0},
			Retry: pick(5) == 0, History: h, Now: start.Add(time.Duration(pick(7200)) * time.Second), Seed: "uid",
		}
		if pick(3) > 0 { // Otherwise, status was lost.
			in.Status = infrav1.RecoveryStatus{
				Attempts: ptr.To(int32(pick(4))), Inputs: "1", FailureClass: string(in.Failure.Class), NextAttemptTime: ptr.To(metav1.NewTime(start.Add(time.Hour))),
			}
		}
		for range 4 {
			d := Decide(in)
			if d.Kind == Run && d.Action.Type == infrav1.RecoveryRecreateWorkspace {
				ran++
				require.False(t, initialized, "%+v", h)
				require.Equal(t, "true", d.Action.Parameters[infrav1.AllowDestroyParameter])
			}
			in.Status, in.Now, in.Retry = d.Next, in.Now.Add(time.Duration(pick(7200))*time.Second), false
		}
	}
	assert.Positive(t, ran, "it runs for a control plane that was never initialized")
}

// Each failure of a health check is one attempt, whatever becomes of it, and all of them count with those for errors.
func TestAFailingHealthCheckIsOneAttempt(t *testing.T) {
	in := Input{Failure: Failure{Check: "Dependencies", Since: start, Workspace: "w"}, Ready: true}
	actions, at, last := run(t, in, 24*time.Hour)
	assert.Equal(t, []infrav1.RecoveryActionType{infrav1.RecoveryReapply}, actions)
	assert.GreaterOrEqual(t, at[0], providerRetries)
	assert.Equal(t, Nothing, last.Kind)
	assert.Equal(t, OutcomeTimedOut, last.Next.LastOutcome, "the check still fails")

	in.Status, in.Now = last.Next, start.Add(24*time.Hour)
	in.Failure.Since = in.Now
	d := Decide(in)
	assert.Equal(t, Wait, d.Kind, "it fails again")
	assert.Contains(t, d.Message, "recovery attempt 2 of 5 (Reapply because health check Dependencies fails) starts at ")
	in.Status, in.Now = d.Next, d.At
	d = Decide(in)
	require.Equal(t, Run, d.Kind)
	in.Status, in.Now = d.Next, in.Now.Add(time.Second)
	assert.Equal(t, Running, Decide(in).Kind)
	in.Failure.Check = ""
	assert.Equal(t, OutcomeSucceeded, Decide(in).Ended)

	in.Failure.Check, in.Failure.Since, in.Status.Attempts = "Dependencies", in.Now.Add(time.Hour), ptr.To[int32](5)
	in.Now = in.Failure.Since
	assert.Equal(t, Nothing, Decide(in).Kind, "a check that fails again and again must not run Terraform without end")
	in.Failure.Class = failure.ClassConfig
	assert.Equal(t, Blocked, Decide(in).Kind, "an error is recovered by its class alone")
}

// A control plane that was Ready for long stays Ready while what it depends on fails again and again: its attempts are not reset each time.
func TestAHealthCheckThatFlapsDoesNotRunTerraformWithoutEnd(t *testing.T) {
	in, ran := Input{Ready: true, ReadySince: start.Add(-24 * time.Hour), Seed: "uid"}, 0
	for in.Now = start; in.Now.Before(start.Add(time.Hour)); in.Now = in.Now.Add(30 * time.Second) {
		if in.Failure = (Failure{}); in.Now.Minute()%5 > 0 {
			in.Failure = Failure{Check: "Dependencies", Since: in.Now.Truncate(5 * time.Minute).Add(time.Minute), Workspace: "w"}
		}
		d := Decide(in)
		if in.Status = d.Next; d.Kind == Run {
			ran++
		}
	}
	assert.LessOrEqual(t, ran, defaultMaxRetries)
	in.Failure, in.Now = Failure{}, in.Status.LastActionTime.Add(readyPeriod)
	assert.Nil(t, Decide(in).Next.Attempts)
}

// An action runs until its own timeout, and not after its outcome is known.
func TestWhenAnActionRuns(t *testing.T) {
	acted := infrav1.RecoveryStatus{Attempts: ptr.To[int32](1), LastAction: infrav1.RecoveryReapply, LastActionTime: ptr.To(metav1.NewTime(start)), FailureClass: "Network"}
	in := Input{Status: acted, Failure: Failure{Class: failure.ClassNetwork}, Strategy: &infrav1.RecoveryStrategy{Actions: []infrav1.RecoveryAction{
		{Type: infrav1.RecoveryRequeue, TimeoutSeconds: 10}, {Type: infrav1.RecoveryReapply, TimeoutSeconds: 60},
	}}}
	in.Now = start.Add(59 * time.Second)
	d := Decide(in)
	assert.Equal(t, Running, d.Kind)
	assert.Equal(t, start.Add(time.Minute), d.At)
	assert.Equal(t, "recovery attempt 1 of 5 (Reapply) runs until 2026-01-01T00:01:00Z at the latest", d.Message)
	in.Now = start.Add(time.Minute)
	assert.Equal(t, Wait, Decide(in).Kind)

	in.Now, in.Retry = start.Add(30*time.Second), true
	d = Decide(in)
	assert.Equal(t, Wait, d.Kind)
	assert.Equal(t, "Restarted", d.Ended)
	assert.Equal(t, "Restarted", d.Next.LastOutcome)
	in.Retry, in.Status.LastOutcome = false, OutcomeSucceeded
	assert.Equal(t, Wait, Decide(in).Kind, "it has succeeded, and another failure followed")
}

// What is recorded about attempts ends with an hour of Ready, whichever part of it there is.
func TestTheRecordEndsWhenReady(t *testing.T) {
	for _, s := range []infrav1.RecoveryStatus{{Attempts: ptr.To[int32](1)}, {Inputs: "1"}, {Attempts: ptr.To[int32](1), Inputs: "1"}} {
		in := Input{Status: s, Ready: true, ReadySince: start, Now: start.Add(readyPeriod - time.Second)}
		early := Decide(in)
		assert.Equal(t, s.Attempts, early.Next.Attempts)
		assert.Equal(t, s.Attempts != nil, !early.At.IsZero())
		in.Now = start.Add(readyPeriod)
		assert.Zero(t, Decide(in).Next)
		in.Ready = false
		assert.Equal(t, s, Decide(in).Next)
		in.Ready, in.ReadySince = true, time.Time{}
		assert.Equal(t, s, Decide(in).Next, "since when is not known")
	}
}

// The time of the next attempt is in status while one is planned, and only then.
func TestTheNextAttemptIsInStatusWhileOneIsPlanned(t *testing.T) {
	planned := ptr.To(metav1.NewTime(start.Add(time.Minute)))
	in := Input{Failure: Failure{Class: failure.ClassNetwork, Workspace: "w"}, Now: start, Seed: "uid", Status: infrav1.RecoveryStatus{FailureClass: "Network", NextAttemptTime: planned}}
	d := Decide(in)
	assert.Equal(t, Wait, d.Kind)
	assert.Equal(t, planned.Time, d.At)
	assert.Equal(t, planned, d.Next.NextAttemptTime)
	assert.Equal(t, " (recovery attempt 1 of 5 (Reapply) starts at 2026-01-01T00:01:00Z)", d.Summary())

	in.Now = planned.Time
	d = Decide(in)
	assert.Equal(t, Run, d.Kind)
	assert.Equal(t, fmt.Sprintf("Reapply/w/%d", planned.Unix()), d.Request)
	assert.Equal(t, in.Now.Add(5*time.Minute), d.At)
	assert.Nil(t, d.Next.NextAttemptTime)
	assert.Equal(t, in.Now, d.Next.LastActionTime.Time)

	in.Status.Attempts = ptr.To[int32](5)
	d = Decide(in)
	assert.Equal(t, Exhausted, d.Kind)
	assert.Nil(t, d.Next.NextAttemptTime)
	in.Failure.CreateInterrupted, in.Status.Attempts = true, nil
	d = Decide(in)
	assert.Equal(t, Blocked, d.Kind)
	assert.Nil(t, d.Next.NextAttemptTime)
	assert.Empty(t, d.Summary())
}
