// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/recovery"
	"github.com/capt-provider/capt/test/builder"
)

// failed is a WorkspaceTemplateApply whose Terraform fails.
func failed(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply("demo-vpc", append([]builder.Option{
		builder.NotUpToDate(infrav1.ApplyFailedReason, "why"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			s := &apply.Status
			s.WorkspaceRef, s.LastFailureClass, s.FailureInputs, s.LastFailedRevision = &infrav1.WorkspaceReference{UID: "w"}, "Network", "i", "r"
		}),
	}, options...)...)
}

func applyWith(change func(*infrav1.WorkspaceTemplateApply)) builder.Option {
	return builder.With(change)
}

func TestWhatAFailureIs(t *testing.T) {
	network := recovery.Failure{Class: failure.ClassNetwork, Workspace: "w", Inputs: "r/3/i"}
	with := func(change func(*recovery.Failure)) recovery.Failure {
		f := network
		change(&f)
		return f
	}
	interrupted := builder.NotUpToDate(infrav1.CreateInterruptedReason, "")
	for name, row := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		want  recovery.Failure
	}{
		"an apply":            {failed(), network},
		"a plan":              {failed(builder.NotUpToDate(infrav1.PlanFailedReason, "")), network},
		"a ProviderConfig":    {failed(builder.NotUpToDate(infrav1.ProviderConfigFailedReason, "")), network},
		"of no class":         {failed(applyWith(func(a *infrav1.WorkspaceTemplateApply) { a.Status.LastFailureClass = "" })), with(func(f *recovery.Failure) { f.Class = failure.ClassUnknown })},
		"of unknown inputs":   {failed(applyWith(func(a *infrav1.WorkspaceTemplateApply) { a.Status.FailureInputs = "" })), with(func(f *recovery.Failure) { f.Inputs = "" })},
		"of what is retained": {failed(builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)), with(func(f *recovery.Failure) { f.Retained = true })},
		"an interrupted create": {failed(interrupted), with(func(f *recovery.Failure) {
			f.CreateInterrupted, f.CreateNotRecoverable = true, "CAPT has not checked the Terraform state yet"
		})},
		"one that may continue": {failed(interrupted, applyWith(func(a *infrav1.WorkspaceTemplateApply) {
			engine.Set(a, engine.True(infrav1.CreateRecoverableCondition, "Checked", ""))
		})), with(func(f *recovery.Failure) { f.CreateInterrupted = true })},
		"none":                        {failed(builder.NotUpToDate(infrav1.ProvisioningReason, "")), recovery.Failure{}},
		"none without an object":      {nil, recovery.Failure{}},
		"none of what is deleted":     {failed(builder.Deleting()), recovery.Failure{}},
		"none before a change is run": {failed(applyWith(func(a *infrav1.WorkspaceTemplateApply) { a.Status.ObservedGeneration-- })), recovery.Failure{}},
		"none without a Workspace":    {failed(applyWith(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef = nil })), recovery.Failure{}},
	} {
		assert.Equal(t, row.want, FailureOf(row.apply, 3), name)
	}
}

// Terraform may report no error although it takes too long.
func TestATimeoutIsAFailure(t *testing.T) {
	running := failed(builder.NotUpToDate(infrav1.ProvisioningReason, ""))
	passed, not := &Timeout{Limit: time.Minute, Running: time.Minute}, &Timeout{Limit: time.Minute}
	for name, row := range map[string]struct {
		apply   *infrav1.WorkspaceTemplateApply
		differs bool
		timeout *Timeout
		want    recovery.Failure
	}{
		"it takes too long":           {running, false, passed, recovery.Failure{Class: failure.ClassTimeout, Workspace: "w", Inputs: "r/3/i"}},
		"not yet":                     {running, false, not, recovery.Failure{}},
		"without a timeout":           {running, false, nil, recovery.Failure{}},
		"an error, too":               {failed(), false, passed, recovery.Failure{Class: failure.ClassNetwork, Workspace: "w", Inputs: "r/3/i"}},
		"a change is about to be run": {failed(), true, passed, recovery.Failure{}},
		"nothing exists":              {nil, false, passed, recovery.Failure{}},
		"without a Workspace":         {builder.WorkspaceTemplateApply("demo-vpc"), false, passed, recovery.Failure{}},
	} {
		p := &Plan{Facts: &Facts{Live: row.apply}, Owner: demoOwner(builder.WithGeneration(3)), Differs: row.differs}
		assert.Equal(t, row.want, p.Failing(row.timeout), name)
	}
}

// recoverable is what a manager that recovers observed of an owner whose Terraform fails.
func recoverable(options ...builder.Option) (*Observed, *Plan) {
	o := &Observed{Recovers: true, Cluster: builder.Cluster("demo"), Now: builder.Created.Add(time.Hour), Apply: Facts{Live: failed()}}
	return o, &Plan{Facts: &o.Apply, Owner: demoOwner(options...)}
}

func TestWhenNothingIsRecovered(t *testing.T) {
	for name, change := range map[string]func(*Observed, *Plan){
		"the manager does not":       func(o *Observed, _ *Plan) { o.Recovers = false },
		"the owner is paused":        func(o *Observed, _ *Plan) { o.Paused = "annotation" },
		"it is being deleted":        func(_ *Observed, p *Plan) { builder.Deleting()(p.Owner.Object) },
		"it has no Cluster":          func(o *Observed, _ *Plan) { o.Cluster = nil },
		"something blocks it":        func(_ *Observed, p *Plan) { p.Blocked = &engine.Condition{} },
		"its reference is another's": func(o *Observed, _ *Plan) { o.Apply.Conflict = "it is b's" },
		"a user must decide":         func(o *Observed, _ *Plan) { o.Apply.Candidates = []claim.Candidate{{Name: "by-hand"}} },
		"the gate keeps what it reports": func(o *Observed, _ *Plan) {
			o.GateDecision.Keeps = func(engine.Object, engine.Situation) bool { return true }
		},
	} {
		o, p := recoverable()
		status := &p.Owner.GetLifecycle().Recovery
		status.Attempts = ptr.To[int32](2)
		failing := func() recovery.Failure { return p.Failing(nil) }
		assert.Equal(t, recovery.Wait, o.Recover(p, failing, false, nil).Kind)
		change(o, p)
		assert.Equal(t, recovery.Decision{Next: *status}, o.Recover(p, failing, false, nil), name)
	}
}

func TestWhatARecoveryDependsOn(t *testing.T) {
	none := func() recovery.Failure { return recovery.Failure{} }
	for name, row := range map[string]struct {
		ready  bool
		status metav1.ConditionStatus
		ended  bool
	}{
		"Ready for an hour":     {true, metav1.ConditionTrue, true},
		"not Ready for an hour": {true, metav1.ConditionFalse, false},
		"something else is not": {false, metav1.ConditionTrue, false},
		"not reported yet":      {true, "", false},
	} {
		o, p := recoverable()
		p.Owner.GetLifecycle().Recovery.Attempts = ptr.To[int32](2)
		if row.status != "" {
			p.Owner.SetConditions([]metav1.Condition{{Type: "Other", Status: row.status}, {Type: infrav1.ReadyCondition, Status: row.status, LastTransitionTime: metav1.NewTime(o.Now.Add(-time.Hour))}})
		}
		assert.Equal(t, row.ended, o.Recover(p, none, row.ready, nil).Next.Attempts == nil, name)
	}

	waits := map[time.Time]bool{}
	for _, uid := range []string{"a", "b", "c", "d"} {
		o, p := recoverable()
		p.Owner.SetUID(builder.UID("CAPTCluster", uid))
		p.Owner.GetLifecycle().Recovery.Attempts = ptr.To[int32](4)
		waits[o.Recover(p, func() recovery.Failure { return p.Failing(nil) }, false, nil).At] = true
	}
	assert.Greater(t, len(waits), 1, "objects do not retry at the same time")

	auth := func() recovery.Failure { return recovery.Failure{Class: failure.ClassAuth} }
	o, p := recoverable()
	assert.Equal(t, recovery.Blocked, o.Recover(p, auth, false, nil).Kind)
	o, p = recoverable(builder.WithAnnotation(naming.RetryAnnotation, "1"))
	assert.Equal(t, recovery.Wait, o.Recover(p, auth, false, nil).Kind, "the user requests a retry")

	o, p = recoverable()
	p.Owner.Strategy = &infrav1.RecoveryStrategy{Actions: []infrav1.RecoveryAction{{Type: infrav1.RecoveryRecreateWorkspace, Parameters: map[string]string{infrav1.AllowDestroyParameter: "true"}}}}
	history := &recovery.History{ControlPlane: &controlplanev1.CAPTControlPlane{}, Cluster: &clusterv1.Cluster{}, Apply: o.Apply.Live, Secret: "demo-kubeconfig"}
	assert.Contains(t, o.Recover(p, func() recovery.Failure { return p.Failing(nil) }, false, history).Message, "Secret demo-kubeconfig exists")
}

func TestStartOfARecoveryAction(t *testing.T) {
	boom := errors.New("boom")
	for name, row := range map[string]struct {
		decision recovery.Decision
		refused  string
		err      error
		problem  string
		started  bool
	}{
		"it starts":     {recovery.Decision{Kind: recovery.Run}, "", nil, "", true},
		"it is refused": {recovery.Decision{Kind: recovery.Run}, "no", nil, "no", false},
		"it fails":      {recovery.Decision{Kind: recovery.Run}, "", boom, "the recovery action could not be started: boom. CAPT retries", false},
		"it waits":      {recovery.Decision{Kind: recovery.Wait}, "no", boom, "", false},
	} {
		o, p := recoverable()
		p.Recovery = row.decision
		r := &Reconciler{Recovery: metrics.NewRecovery(prometheus.NewRegistry())}
		err := r.ReconcileRecovery(o, p, func() (string, error) { return row.refused, row.err })
		assert.Equal(t, row.problem, o.RecoveryProblem, name)
		assert.Equal(t, row.started, o.Recovered, name)
		assert.Equal(t, row.decision.Kind == recovery.Run && row.err != nil, err != nil, name)
	}
	o, p := recoverable()
	require.NoError(t, (&Reconciler{Recovery: metrics.NewRecovery(prometheus.NewRegistry())}).ReconcileRecovery(o, p, nil))
	assert.Zero(t, o.requeueAfter, "nothing is awaited")
	for after, want := range map[time.Duration]time.Duration{-time.Minute: time.Second, time.Minute: time.Minute} {
		o, p := recoverable()
		p.Recovery = recovery.Decision{Kind: recovery.Wait, At: o.Now.Add(after)}
		require.NoError(t, (&Reconciler{Recovery: metrics.NewRecovery(prometheus.NewRegistry())}).ReconcileRecovery(o, p, nil))
		assert.Equal(t, want, o.requeueAfter)
	}
	o, p = recoverable()
	p.Recovery.Kind = recovery.Run
	require.NoError(t, (&Reconciler{}).ReconcileRecovery(o, p, func() (string, error) { return "", boom }), "a manager that does not recover")
}

func TestMetricsOfARecovery(t *testing.T) {
	began := ptr.To(metav1.NewTime(builder.Created))
	for name, row := range map[string]struct {
		decision            recovery.Decision
		last                *metav1.Time
		attempts, exhausted int
	}{
		"an action ended":             {recovery.Decision{Ended: recovery.OutcomeSucceeded}, began, 1, 0},
		"none did":                    {recovery.Decision{}, began, 0, 0},
		"it is not known when it ran": {recovery.Decision{Ended: recovery.OutcomeSucceeded}, nil, 0, 0},
		"all have failed":             {recovery.Decision{Kind: recovery.Exhausted}, began, 0, 1},
		"one waits":                   {recovery.Decision{Kind: recovery.Wait}, began, 0, 0},
	} {
		registry := prometheus.NewRegistry()
		o, p := recoverable()
		p.Recovery, p.Owner.GetLifecycle().Recovery.LastActionTime = row.decision, row.last
		r := &Reconciler{Recovery: metrics.NewRecovery(registry)}
		require.NoError(t, r.ReconcileRecovery(o, p, nil))
		for metric, want := range map[string]int{"capt_recovery_attempts_total": row.attempts, "capt_recovery_exhausted": row.exhausted} {
			got, err := testutil.GatherAndCount(registry, metric)
			require.NoError(t, err)
			assert.Equal(t, want, got, "%s: %s", name, metric)
		}
		r.Recovery.Forget("CAPTCluster", client.ObjectKeyFromObject(p.Owner))
		got, err := testutil.GatherAndCount(registry, "capt_recovery_exhausted")
		require.NoError(t, err)
		assert.Zero(t, got, "of an object that is gone")
	}
}

// A request that was made already is not repeated: each change of the Workspace causes a run.
func TestRunAgainRequestsEachAttemptOnce(t *testing.T) {
	target := failed()
	api := builder.NewAPI(builder.Clients(target))
	var sent []byte
	recording := interceptor.NewClient(api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			sent, _ = patch.Data(object)
			return c.Patch(ctx, object, patch, options...)
		},
	})
	r := &Reconciler{Engine: engine.Engine{Client: recording}}
	reapply := &recovery.Decision{Action: infrav1.RecoveryAction{Type: infrav1.RecoveryReapply}, Request: "Reapply/w/1"}
	require.NoError(t, r.RunAgain(ctx, reapply, target))
	assert.JSONEq(t, `{"metadata":{"uid":"`+string(target.UID)+`","annotations":{"`+naming.RecoveryAnnotation+`":"Reapply/w/1"}}}`, string(sent))

	builder.WithAnnotation(naming.RecoveryAnnotation, "Reapply/w/1")(target)
	require.NoError(t, r.RunAgain(ctx, reapply, target))
	require.NoError(t, r.RunAgain(ctx, &recovery.Decision{Action: infrav1.RecoveryAction{Type: infrav1.RecoveryRequeue}, Request: "Requeue/w/2"}, target))
	assert.Len(t, api.Writes, 1)

	api.FailOn("patch", assert.AnError)
	reapply.Request = "Reapply/w/3"
	err := r.RunAgain(ctx, reapply, target)
	require.ErrorIs(t, err, assert.AnError)
	assert.ErrorContains(t, err, "requesting a recovery action of WorkspaceTemplateApply demo-vpc: ")
}

func TestReportOfARecovery(t *testing.T) {
	for name, row := range map[string]struct {
		decision  recovery.Decision
		recovered bool
		before    bool
		want      string
		recorded  bool
	}{
		"it runs":             {recovery.Decision{Kind: recovery.Running, Message: "m"}, false, false, "True Recovering m", true},
		"it has started":      {recovery.Decision{Kind: recovery.Run, Message: "m"}, true, false, "True Recovering m", true},
		"it could not":        {recovery.Decision{Kind: recovery.Run, Message: "m"}, false, false, "False RecoveryBlocked problem", false},
		"it waits":            {recovery.Decision{Kind: recovery.Wait, Message: "m"}, false, false, "False WaitingForRetry m", true},
		"all failed":          {recovery.Decision{Kind: recovery.Exhausted, Message: "m"}, false, false, "False RecoveryExhausted m", true},
		"no action can help":  {recovery.Decision{Kind: recovery.Blocked, Message: "m"}, false, false, "False RecoveryBlocked m", true},
		"it helped":           {recovery.Decision{Next: infrav1.RecoveryStatus{LastAction: "Reapply", LastOutcome: recovery.OutcomeSucceeded}}, false, true, "False Recovered Reapply succeeded", true},
		"it was not needed":   {recovery.Decision{}, false, true, "False NotRecovering ", true},
		"nothing ever failed": {recovery.Decision{}, false, false, "", true},
	} {
		o, p := recoverable()
		if row.before {
			engine.Set(p.Owner.Object, engine.True(infrav1.RecoveringCondition, infrav1.RecoveringReason, "before"))
		}
		row.decision.Next.Attempts = ptr.To[int32](2)
		o.Recovered, o.RecoveryProblem, p.Recovery = row.recovered, "problem", row.decision
		o.ReportRecovery(p)
		got := ""
		for _, c := range p.Owner.GetConditions() {
			assert.Equal(t, infrav1.RecoveringCondition, c.Type)
			got = string(c.Status) + " " + c.Reason + " " + c.Message
		}
		assert.Equal(t, row.want, got, name)
		assert.Equal(t, row.recorded, p.Owner.GetLifecycle().Recovery.Attempts != nil, name)
		assert.Nil(t, p.Owner.GetLifecycle().Recovery.RetryTime)
	}

	o, p := recoverable(builder.WithAnnotation(naming.RetryAnnotation, "1"))
	assert.Equal(t, "1", NewRetry(p.Owner))
	o.ReportRecovery(p)
	assert.Equal(t, ptr.To(metav1.NewTime(o.Now)), p.Owner.GetLifecycle().Recovery.RetryTime)
	assert.Empty(t, NewRetry(p.Owner), "it is recorded")
}
