// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/recovery"
	"github.com/capt-provider/capt/test/builder"
)

func unmet(reason string) engine.Condition {
	return engine.False(infrav1.ReadyCondition, reason, "why")
}

func condition(conditionType string, status metav1.ConditionStatus, reason string, since time.Time) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: "why", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(since)}
}

// Rows are in the order of the table in docs/status.md: what a later row depends on is set in earlier ones, too.
func TestTheStateOfAnObject(t *testing.T) {
	fails := unmet(infrav1.ApplyFailedReason)
	for name, row := range map[string]struct {
		life Life
		want infrav1.State
	}{
		"all is as spec wants it":               {Life{Pending: true, Failed: true, Recovering: true}, infrav1.StateReady},
		"a recovery action runs":                {Life{Unmet: fails, Recovering: true, Initialized: true, Pending: true, Failed: true}, infrav1.StateRecovering},
		"it waits for its Cluster":              {Life{Unmet: fails, Pending: true, Failed: true, Blocked: true}, infrav1.StatePending},
		"it waits for its Cluster for too long": {Life{Unmet: unmet(infrav1.WaitTimeoutReason), Pending: true, Failed: true}, infrav1.StateFailed},
		"a user must act":                       {Life{Unmet: fails, Failed: true, Blocked: true}, infrav1.StateFailed},
		"something is missing":                  {Life{Unmet: fails, Blocked: true}, infrav1.StateValidating},
		"Terraform creates it":                  {Life{Unmet: fails, Absent: true}, infrav1.StateProvisioning},
		"Terraform has created it":              {Life{Unmet: fails, Applied: true}, infrav1.StateConfiguring},
		"it serves, and Terraform fails":        {Life{Unmet: fails, Initialized: true, Failed: true, Blocked: true, Pending: true}, infrav1.StateDegraded},
		"it serves, and Terraform updates it":   {Life{Unmet: fails, Initialized: true, Working: true}, infrav1.StateConfiguring},
		"it serves, and its parts are updated":  {Life{Unmet: fails, Initialized: true, Working: true, Applied: true, Absent: true}, infrav1.StateConfiguring},
		"it does not serve during an update":    {Life{Unmet: fails, Initialized: true, Working: true, Down: true}, infrav1.StateDegraded},
		"Terraform creates it again":            {Life{Unmet: fails, Initialized: true, Working: true, Absent: true}, infrav1.StateProvisioning},
	} {
		assert.Equal(t, row.want, row.life.State(""), name)
	}
	for _, from := range []infrav1.State{infrav1.StateReady, infrav1.StateDegraded} {
		for _, to := range []infrav1.State{infrav1.StatePending, infrav1.StateValidating, infrav1.StateFailed} {
			assert.Equal(t, from, NextState(from, to))
			assert.Equal(t, to, NextState(infrav1.StateConfiguring, to))
		}
		assert.Equal(t, infrav1.StateProvisioning, NextState(from, infrav1.StateProvisioning))
	}
}

func TestFailedAndDegradedHaveTheCause(t *testing.T) {
	other := engine.Condition{Reason: "Other", Message: "another object has failed"}
	for name, row := range map[string]struct {
		life             Life
		state            infrav1.State
		failed, degraded string
	}{
		"it is Failed":                     {Life{Unmet: unmet("Own")}, infrav1.StateFailed, "True Own", "False NotDegraded"},
		"it is Failed with another object": {Life{Unmet: unmet("Own"), Cause: other}, infrav1.StateFailed, "True Other", "False NotDegraded"},
		"it serves":                        {Life{Unmet: unmet("Own"), Cause: other, Initialized: true}, infrav1.StateDegraded, "False NotFailed", "True Own"},
		"it serves, and is recovered":      {Life{Unmet: unmet("Own"), Initialized: true}, infrav1.StateRecovering, "False NotFailed", "True Own"},
		"its creation is recovered":        {Life{Unmet: unmet("Own")}, infrav1.StateRecovering, "False NotFailed", "False NotDegraded"},
		"Terraform creates it":             {Life{Unmet: unmet("Own"), Initialized: true}, infrav1.StateProvisioning, "False NotFailed", "False NotDegraded"},
	} {
		failed, degraded := row.life.Conditions(row.state, builder.Created)
		assert.Equal(t, row.failed, string(failed.Status)+" "+failed.Reason, name)
		assert.Equal(t, row.degraded, string(degraded.Status)+" "+degraded.Reason, name)
		assert.Equal(t, builder.Created, failed.Since)
	}
	owner := demoOwner()
	assert.Zero(t, owner.Failure())
	for status, want := range map[metav1.ConditionStatus]string{metav1.ConditionFalse: "", metav1.ConditionTrue: "CAPTCluster demo has failed: why"} {
		owner.SetConditions([]metav1.Condition{condition(infrav1.FailedCondition, status, "Own", builder.Created)})
		assert.Equal(t, want, owner.Failure().Message)
	}
}

// What the state of an object is derived from that has nothing but its WorkspaceTemplateApply.
func TestTheLifeOfAnObject(t *testing.T) {
	now := reasons.Grace
	for name, row := range map[string]struct {
		change func(o *Observed, p *Plan)
		reason string
		want   Life
	}{
		"Terraform runs":              {func(*Observed, *Plan) {}, infrav1.ProvisioningReason, Life{Working: true, Absent: true}},
		"it is done":                  {func(o *Observed, _ *Plan) { builder.UpToDate(nil)(o.Apply.Live) }, "", Life{Applied: true}},
		"it has no Cluster":           {func(o *Observed, _ *Plan) { o.Cluster = nil }, infrav1.ProvisioningReason, Life{Pending: true, Working: true, Absent: true}},
		"its Cluster is not ready":    {func(*Observed, *Plan) {}, infrav1.WaitingForOwnerReason, Life{Pending: true, Working: true, Absent: true}},
		"it is paused":                {func(o *Observed, _ *Plan) { o.Paused, o.Apply.Live = "annotation", nil }, "x", Life{Pending: true, Working: true}},
		"it is paused after creation": {func(o *Observed, _ *Plan) { o.Paused = "annotation" }, "x", Life{Working: true, Absent: true}},
		"it is paused, and exists": {func(o *Observed, _ *Plan) {
			o.Paused, o.Apply.Live, o.Apply.ProvisionedField = "annotation", nil, "status"
		}, "x",
			Life{Pending: true, Working: true}},
		"it exists":       {func(o *Observed, _ *Plan) { o.Apply.Live, o.Apply.ProvisionedField = nil, "status" }, "x", Life{Initialized: true, Working: true}},
		"it is recovered": {func(o *Observed, _ *Plan) { o.Recovered = true }, infrav1.ProvisioningReason, Life{Working: true, Absent: true, Recovering: true}},
		"recovery runs":   {func(_ *Observed, p *Plan) { p.Recovery.Kind = recovery.Running }, infrav1.ProvisioningReason, Life{Working: true, Absent: true, Recovering: true}},
		"it waits":        {func(_ *Observed, p *Plan) { p.Blocked = ptr.To(unmet(infrav1.WaitingForControlPlaneReason)) }, infrav1.WaitingForControlPlaneReason, Life{Blocked: true, Working: true, Absent: true}},
		"it is wrong":     {func(_ *Observed, p *Plan) { p.Blocked = ptr.To(unmet(infrav1.InvalidVersionReason)) }, infrav1.InvalidVersionReason, Life{Blocked: true, Absent: true}},
		"it is wrong for long": {func(o *Observed, p *Plan) {
			p.Blocked, o.Running = ptr.To(unmet(infrav1.InvalidVersionReason)), Running{Reason: infrav1.InvalidVersionReason, Persists: now}
		}, infrav1.InvalidVersionReason, Life{Blocked: true, Absent: true, Failed: true}},
		"Terraform fails":                     {func(o *Observed, _ *Plan) { builder.NotUpToDate(infrav1.ApplyFailedReason, "")(o.Apply.Live) }, infrav1.ApplyFailedReason, Life{Absent: true}},
		"recovery has ended":                  {func(_ *Observed, p *Plan) { p.Recovery.Kind = recovery.Exhausted }, infrav1.ApplyFailedReason, Life{Absent: true, Failed: true}},
		"recovery has ended, and all is well": {func(o *Observed, p *Plan) { builder.UpToDate(nil)(o.Apply.Live); p.Recovery.Kind = recovery.Exhausted }, "", Life{Applied: true}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Observed{Cluster: builder.Cluster("demo"), Apply: Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.ProvisioningReason, ""))}}
			p := &Plan{Facts: &o.Apply, Owner: demoOwner()}
			row.change(o, p)
			condition := engine.Condition{}
			if row.reason != "" {
				condition = unmet(row.reason)
			}
			row.want.Unmet = condition
			assert.Equal(t, &row.want, o.Life(p, condition, false))
			assert.True(t, o.Life(p, condition, true).Initialized)
		})
	}
}

func TestWhichOperationAnObjectNeeds(t *testing.T) {
	for name, row := range map[string]struct {
		life  Life
		state infrav1.State
		lost  bool
		want  infrav1.Operation
	}{
		"it is created":         {Life{}, infrav1.StateProvisioning, false, infrav1.OperationCreation},
		"its creation waits":    {Life{Blocked: true}, infrav1.StateValidating, false, infrav1.OperationCreation},
		"it waits":              {Life{}, infrav1.StatePending, false, ""},
		"its status was lost":   {Life{}, infrav1.StateProvisioning, true, ""},
		"it is updated":         {Life{Initialized: true}, infrav1.StateConfiguring, true, infrav1.OperationUpdate},
		"it is created again":   {Life{Initialized: true}, infrav1.StateProvisioning, false, infrav1.OperationRecreation},
		"nothing is to be done": {Life{Initialized: true, Applied: true}, infrav1.StateDegraded, false, ""},
		"something is wrong":    {Life{Initialized: true, Blocked: true}, infrav1.StateDegraded, false, ""},
	} {
		assert.Equal(t, row.want, row.life.operation(row.state, row.lost), name)
	}
}

func TestUntilANewObjectIsFailed(t *testing.T) {
	failing := func(class string, since time.Duration) func(o *Observed) {
		return func(o *Observed) {
			o.Apply.Live, o.Running.Failing = builder.WorkspaceTemplateApply("demo-vpc"), &since
			o.Apply.Live.Status.LastFailureClass = class
		}
	}
	for name, row := range map[string]struct {
		reason      string
		change      func(o *Observed)
		initialized bool
		left        time.Duration
		fails       bool
	}{
		"at once":                           {infrav1.WorkspaceConflictReason, func(*Observed) {}, false, 0, true},
		"at once, also when paused":         {infrav1.WorkspaceConflictReason, func(o *Observed) { o.Paused = "annotation" }, false, 0, true},
		"after two minutes":                 {infrav1.InvalidVersionReason, func(*Observed) {}, false, 2 * time.Minute, true},
		"in a minute":                       {infrav1.InvalidVersionReason, func(o *Observed) { o.Running = Running{Reason: infrav1.InvalidVersionReason, Persists: time.Minute} }, false, time.Minute, true},
		"another reason before":             {infrav1.InvalidVersionReason, func(o *Observed) { o.Running = Running{Reason: "x", Persists: time.Minute} }, false, 2 * time.Minute, true},
		"never: paused":                     {infrav1.InvalidVersionReason, func(o *Observed) { o.Paused = "annotation" }, false, 0, false},
		"never: it serves":                  {infrav1.InvalidVersionReason, func(*Observed) {}, true, 0, false},
		"never: it exists":                  {infrav1.AdoptionRequiredReason, func(o *Observed) { o.Apply.ProvisionedField = "status" }, false, 0, false},
		"never: it waits":                   {infrav1.WaitingForOwnerReason, func(*Observed) {}, false, 0, false},
		"an error of class Config":          {infrav1.ApplyFailedReason, failing("Config", 30*time.Second), false, 90 * time.Second, true},
		"an error of class Quota":           {infrav1.ApplyFailedReason, failing("Quota", time.Second), false, -time.Second, true},
		"an error of another class":         {infrav1.ApplyFailedReason, failing("Network", time.Hour), false, -time.Hour, false},
		"a problem while Terraform fails":   {infrav1.NotProvenReason, failing("Quota", time.Hour), false, 0, false},
		"an error that is not measured yet": {infrav1.ApplyFailedReason, func(o *Observed) { failing("Quota", 0)(o); o.Running.Failing = nil }, false, 0, false},
		"an error without object":           {infrav1.ApplyFailedReason, func(o *Observed) { failing("Quota", 0)(o); o.Apply.Live = nil }, false, 0, false},
	} {
		o := &Observed{}
		row.change(o)
		left, fails := o.UntilFailed(ptr.To(unmet(row.reason)), row.initialized)
		assert.Equal(t, row.fails, fails, name)
		assert.Equal(t, row.left, left, name)
	}
	o := &Observed{}
	_, fails := o.UntilFailed(nil, false)
	assert.False(t, fails)
	assert.True(t, o.Fails(&Plan{}, ptr.To(unmet(infrav1.WorkspaceConflictReason)), false), "nothing is left")
	assert.False(t, o.Fails(&Plan{}, ptr.To(unmet(infrav1.InvalidVersionReason)), false))
	assert.False(t, o.Fails(&Plan{}, ptr.To(unmet(infrav1.WaitingForOwnerReason)), false))
	assert.True(t, o.Fails(&Plan{Recovery: recovery.Decision{Kind: recovery.Exhausted}}, nil, true))
}

// A timeout has passed as soon as its limit is reached.
func TestTimeouts(t *testing.T) {
	waiting := unmet(infrav1.WaitingForOwnerReason)
	var none *Timeout
	assert.Nil(t, NewTimeout("spec.x", "Late", 0, 60, nil))
	assert.False(t, none.Passed())
	assert.Equal(t, waiting, none.Condition(waiting))
	for seconds, limit := range map[int32]time.Duration{0: time.Minute, 30: 30 * time.Second} {
		late := NewTimeout("spec.x", "Late", seconds, 60, ptr.To(limit))
		assert.True(t, late.Passed())
		assert.Equal(t, "Late", late.Condition(waiting).Reason)
		assert.Contains(t, late.Condition(waiting).Message, "why. CAPT keeps waiting. Fix the cause, raise the timeout")
		ready := engine.True(infrav1.ReadyCondition, "Ready", "")
		assert.Equal(t, ready, late.Condition(ready))
		assert.False(t, NewTimeout("spec.x", "Late", seconds, 60, ptr.To(limit-1)).Passed())
	}
	p := &Plan{Owner: demoOwner()}
	o := &Observed{Running: Running{Reason: infrav1.WaitingForOwnerReason, Persists: time.Minute}}
	assert.Equal(t, &Timeout{Field: "spec.timeouts.waitSeconds", Reason: infrav1.WaitTimeoutReason, Limit: 15 * time.Minute, Running: time.Minute}, o.WaitTimeout(p, &waiting, false))
	o.Running.Reason = infrav1.WaitTimeoutReason
	assert.Equal(t, time.Minute, o.WaitTimeout(p, &waiting, false).Running, "after a restart, only the reason of the timeout is known")
	o.Running.Reason = "another"
	assert.Zero(t, o.WaitTimeout(p, &waiting, false).Running)
	assert.Nil(t, o.WaitTimeout(p, &waiting, true), "what it waits for has timeouts")
	assert.Nil(t, o.WaitTimeout(p, nil, false))
	assert.Nil(t, o.WaitTimeout(p, ptr.To(unmet(infrav1.ApplyFailedReason)), false))
	assert.Zero(t, (&Observed{Running: Running{Reason: infrav1.WaitTimeoutReason, Persists: time.Minute}}).persists(infrav1.InvalidVersionReason))
	o.Paused = "annotation"
	assert.Nil(t, o.WaitTimeout(p, &waiting, false))
}

// A run that has taken too long, and has reported no error, is reported with what Terraform does.
func TestTheTimeoutOfARunNamesWhatTerraformDoes(t *testing.T) {
	started := ptr.To(metav1.NewTime(builder.Created))
	for name, row := range map[string]struct {
		reason  string
		started *metav1.Time
		want    bool
	}{
		"it runs":          {infrav1.ProvisioningReason, started, true},
		"it fails":         {infrav1.ApplyFailedReason, started, false},
		"it has not begun": {infrav1.ProvisioningReason, nil, false},
	} {
		f := &Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(row.reason, "creating aws_vpc.this"))}
		f.Live.Status.StartedTime = row.started
		message := (&Timeout{}).Of(f).Condition(unmet(row.reason)).Message
		assert.Equal(t, row.want, strings.Contains(message, "creating aws_vpc.this (since "), name)
		assert.Equal(t, row.want, strings.Contains(message, "end the run"), name)
	}
	assert.Nil(t, (*Timeout)(nil).Of(&Facts{}))
	assert.Empty(t, (&Timeout{}).Of(&Facts{}).doing)
}

func TestTheTimeoutOfADeletion(t *testing.T) {
	p := &Plan{Owner: demoOwner()}
	deleting := engine.True(infrav1.DeletingCondition, "Deleting", "Workspaces")
	for running, want := range map[time.Duration]string{time.Hour - 1: "", time.Hour: "the deletion takes longer than 60m (spec.timeouts.deletionSeconds), and continues: Workspaces"} {
		o := &Observed{Running: Running{Deletion: ptr.To(running)}}
		assert.Equal(t, want, o.DeletionTimedOut(p, deleting).Message)
		o.Paused = "annotation"
		assert.Empty(t, o.DeletionTimedOut(p, deleting).Message)
	}
	assert.Equal(t, metav1.ConditionFalse, (&Observed{}).DeletionTimedOut(p, deleting).Status, "it is not deleted")
}

func TestTheEarliestReconcileIsRequested(t *testing.T) {
	o := &Observed{}
	for after, want := range []time.Duration{5, 9, 3, 0, -1} {
		o.RequeueWithin(want)
		assert.Equal(t, []time.Duration{5, 5, 3, 3, 3}[after], o.requeueAfter)
	}
	o = &Observed{}
	o.AwaitEnd(nil)
	o.AwaitEnd(&Timeout{Limit: time.Minute, Running: time.Second})
	assert.Equal(t, 59*time.Second, o.requeueAfter)
	paused := &Observed{Paused: "annotation"}
	paused.AwaitEnd(&Timeout{Limit: time.Minute})
	assert.Zero(t, paused.requeueAfter)

	p := &Plan{Owner: demoOwner()}
	require.NoError(t, (&Observed{}).Await(t.Context(), p))
	p.AwaitTemplate = true
	assert.Equal(t, engine.Wait("a timeout, a token or a template", TemplateInterval), (&Observed{}).Await(t.Context(), p))
	p.AwaitTemplate = false
	o = &Observed{Running: Running{Deletion: ptr.To(59 * time.Minute)}}
	assert.Equal(t, engine.Wait("a timeout, a token or a template", time.Minute), o.Await(t.Context(), p))
}

// clocks has what an owner measures, and a clock.
type clocks struct {
	*Reconciler
	*builder.Clock
	owner Owner
}

func newClocks(options ...builder.Option) *clocks {
	clock := builder.NewClock()
	return &clocks{&Reconciler{Engine: engine.Engine{State: &engine.StateCache{Clock: clock}}}, clock, demoOwner(options...)}
}

func (c *clocks) observed() Observed {
	o := Observed{Now: c.Now()}
	c.observeClocks(c.owner, &o)
	return o
}

// await is a reconcile that ends with a reason.
func (c *clocks) await(reason string) Observed {
	o := c.observed()
	var condition *engine.Condition
	if reason != "" {
		condition = ptr.To(unmet(reason))
	}
	c.AwaitTimeout(&Plan{Owner: c.owner}, &o, nil, condition, false)
	return o
}

func TestForHowLongAReasonPersists(t *testing.T) {
	c := newClocks()
	assert.Equal(t, reasons.Grace, c.reached(infrav1.InvalidVersionReason))
	c.Pass(time.Minute)
	assert.Equal(t, Running{Reason: infrav1.InvalidVersionReason, Persists: time.Minute}, c.observed().Running)
	assert.Equal(t, time.Minute, c.reached(infrav1.InvalidVersionReason))
	c.await(infrav1.WaitTimeoutReason)
	assert.Equal(t, infrav1.InvalidVersionReason, c.observed().Running.Reason, "the wait goes on")
	c.await("")
	assert.Empty(t, c.observed().Running.Reason)
	c.owner.SetConditions([]metav1.Condition{condition("Ready", metav1.ConditionFalse, "Late", builder.Created), condition("Failed", metav1.ConditionTrue, "Late", builder.Created)})
	assert.Empty(t, c.observed().Running.Reason, "it was measured")
	o := c.observed()
	c.AwaitTimeout(&Plan{Owner: c.owner}, &o, &Timeout{Limit: time.Minute}, nil, false)
	assert.Equal(t, time.Minute, o.requeueAfter)
	c.await(infrav1.InvalidVersionReason)
	c.Pass(time.Minute)
	c.owner.SetAnnotations(map[string]string{naming.RetryAnnotation: "1"})
	assert.Zero(t, c.observed().Running.Persists, "a retry starts it again")
}

// reached is the time until the next reconcile of one that ends with a reason.
func (c *clocks) reached(reason string) time.Duration {
	o := c.await(reason)
	return o.requeueAfter
}

// After a restart of the manager, what status reports to have taken too long still does.
func TestWhatARestartedManagerKnows(t *testing.T) {
	for name, row := range map[string]struct {
		conditions []metav1.Condition
		retry      bool
		want       Running
	}{
		"nothing":        {nil, false, Running{}},
		"Ready":          {[]metav1.Condition{condition("Ready", metav1.ConditionFalse, "Late", builder.Created)}, false, Running{}},
		"Failed":         {[]metav1.Condition{condition("Ready", metav1.ConditionFalse, "Late", builder.Created), condition("Failed", metav1.ConditionTrue, "Late", builder.Created)}, false, Running{Reason: "Late", Persists: longestTimeout}},
		"Degraded":       {[]metav1.Condition{condition("Ready", metav1.ConditionFalse, "Late", builder.Created), condition("Degraded", metav1.ConditionTrue, "Late", builder.Created)}, false, Running{Reason: "Late", Persists: longestTimeout}},
		"not Failed":     {[]metav1.Condition{condition("Ready", metav1.ConditionFalse, "Late", builder.Created), condition("Failed", metav1.ConditionFalse, "Late", builder.Created)}, false, Running{}},
		"before a retry": {[]metav1.Condition{condition("Ready", metav1.ConditionFalse, "Late", builder.Created), condition("Failed", metav1.ConditionTrue, "Late", builder.Created)}, true, Running{}},
		"another reason is Failed": {[]metav1.Condition{condition("Ready", metav1.ConditionFalse, "WriteRefused", builder.Created), condition("Failed", metav1.ConditionTrue, "Other", builder.Created)}, false,
			Running{Reason: "WriteRefused", Persists: longestTimeout}},
	} {
		c := newClocks()
		c.owner.SetConditions(row.conditions)
		if row.retry {
			c.owner.GetLifecycle().Recovery.RetryTime = ptr.To(metav1.NewTime(builder.Created.Add(time.Minute)))
		}
		assert.Equal(t, row.want, c.observed().Running, name)
	}
}

func TestTheClockOfADeletion(t *testing.T) {
	late := condition(infrav1.DeletionTimedOutCondition, metav1.ConditionTrue, infrav1.DeletionTimeoutReason, builder.Created.Add(time.Minute))
	for name, row := range map[string]struct {
		change func(o Owner, late *metav1.Condition)
		long   bool
	}{
		"it took too long":        {func(Owner, *metav1.Condition) {}, true},
		"it did not":              {func(_ Owner, late *metav1.Condition) { late.Status = metav1.ConditionFalse }, false},
		"with an earlier timeout": {func(_ Owner, late *metav1.Condition) { late.ObservedGeneration = 0 }, false},
		"before a retry": {func(o Owner, _ *metav1.Condition) {
			o.GetLifecycle().Recovery.RetryTime = ptr.To(metav1.NewTime(builder.Created.Add(time.Hour)))
		}, false},
		"before a retry just made": {func(o Owner, _ *metav1.Condition) { o.SetAnnotations(map[string]string{naming.RetryAnnotation: "1"}) }, false},
	} {
		c, late := newClocks(builder.Deleting()), late
		c.Pass(2 * time.Hour)
		row.change(c.owner, &late)
		c.owner.SetConditions([]metav1.Condition{late})
		assert.Equal(t, row.long, *c.observed().Running.Deletion == longestTimeout, name)
	}
	c := newClocks()
	assert.Nil(t, c.observed().Running.Deletion, "it is not deleted")
	assert.Nil(t, c.Elapsed(c.owner, c.Now(), "any", "Late", nil))
}

// An operation is measured from its start, or from a later retry.
func TestTheClockOfTerraform(t *testing.T) {
	c := newClocks()
	started := metav1.NewTime(c.Now())
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	measure := func() Running {
		o := Observed{Now: c.Now(), Apply: Facts{Live: apply}}
		c.ObserveRunning(c.owner, &o, "Late")
		return o.Running
	}
	assert.Zero(t, measure())
	apply.Status.StartedTime = &started
	apply.Status.Conditions = []metav1.Condition{condition(infrav1.SyncedCondition, metav1.ConditionTrue, "", started.Time)}
	assert.Zero(t, *measure().Terraform)
	c.Pass(time.Minute)
	assert.Equal(t, Running{Terraform: ptr.To(time.Minute)}, measure())
	apply.Status.Conditions[0].Status = metav1.ConditionFalse
	measure()
	c.Pass(time.Minute)
	assert.Equal(t, Running{Terraform: ptr.To(2 * time.Minute), Failing: ptr.To(time.Minute)}, measure())
	c.owner.GetLifecycle().Recovery.RetryTime = ptr.To(metav1.NewTime(c.Now()))
	assert.Zero(t, *measure().Terraform)
	assert.Zero(t, func() Running { o := Observed{Now: c.Now()}; c.ObserveRunning(c.owner, &o, "Late"); return o.Running }())
}

// At rest, and where nothing is estimated, no other objects are read.
func TestWhoseDurationsAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		change func(o *Observed, captCluster *infrav1.CAPTCluster)
		read   bool
	}{
		"at rest":              {func(*Observed, *infrav1.CAPTCluster) {}, false},
		"edited":               {func(_ *Observed, c *infrav1.CAPTCluster) { c.Generation++ }, true},
		"not Ready":            {func(_ *Observed, c *infrav1.CAPTCluster) { c.Status.State = infrav1.StateConfiguring }, true},
		"new":                  {func(_ *Observed, c *infrav1.CAPTCluster) { c.Status.Conditions = nil }, true},
		"Terraform runs":       {func(o *Observed, _ *infrav1.CAPTCluster) { o.Apply.Live.Generation++ }, true},
		"paused":               {func(o *Observed, c *infrav1.CAPTCluster) { c.Generation++; o.Paused = "annotation" }, false},
		"edited and then gone": {func(_ *Observed, c *infrav1.CAPTCluster) { c.Generation++; builder.Deleting()(c) }, false},
	} {
		o, owner := &Observed{Apply: Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil))}}, demoOwner()
		captCluster := owner.Object.(*infrav1.CAPTCluster)
		captCluster.Status.State = infrav1.StateReady
		captCluster.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue, "Ready", builder.Created)}
		row.change(o, captCluster)
		r := &Reconciler{Engine: engine.Engine{Client: down()}}
		assert.Equal(t, row.read, r.ObserveEarlier(t.Context(), owner, o, &infrav1.CAPTClusterList{}) != nil, name)
	}
}

// lives reports a life with a step, and returns the progress.
func lives(o *Observed, p *Plan, l Life, step progress.Step) *infrav1.Progress {
	o.ReportLife(p, &l, step)
	return p.Owner.GetLifecycle().Progress
}

func TestTheProgressOfAnObject(t *testing.T) {
	creating := Life{Unmet: unmet(infrav1.ProvisioningReason), Working: true}
	begun := builder.Created.Add(time.Minute)
	running := func() (*Observed, *Plan) {
		o := &Observed{Now: builder.Created.Add(time.Hour), Cluster: builder.Cluster("demo"), Apply: Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", builder.WithGeneration(4),
			builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.StartedTime = ptr.To(metav1.NewTime(begun)) }))}}
		return o, &Plan{Facts: &o.Apply, Owner: demoOwner()}
	}
	o, p := running()
	got := lives(o, p, creating, progress.Workspace)
	require.NotNil(t, got)
	assert.Equal(t, infrav1.OperationCreation, got.CurrentOperation)
	assert.Equal(t, int64(4), got.Revision)
	assert.Equal(t, begun, got.History[0].StartTime.Time, "when Terraform started")

	got = lives(o, p, Life{Unmet: unmet(infrav1.WaitingForDependenciesReason)}, progress.Workspace)
	assert.Equal(t, infrav1.OperationCreation, got.CurrentOperation, "what is new and waits has not failed")
	got = lives(o, p, Life{Unmet: unmet(infrav1.ApplyFailedReason), Failed: true}, progress.Workspace)
	assert.Equal(t, infrav1.OutcomeFailed, got.History[0].Outcome)
	assert.Equal(t, "why", got.History[0].Message)

	for name, row := range map[string]struct {
		change func(*Observed)
		life   Life
		step   progress.Step
		want   infrav1.Operation
	}{
		"during a pause":                   {func(o *Observed) { o.Paused = "annotation" }, creating, progress.Workspace, ""},
		"what it waits for does not exist": {func(*Observed) {}, Life{Unmet: unmet(infrav1.WaitingForControlPlaneReason), Blocked: true}, progress.Validation, ""},
		"what it waits for is created":     {func(*Observed) {}, Life{Unmet: unmet(infrav1.WaitingForControlPlaneReason), Blocked: true, Working: true}, progress.Validation, infrav1.OperationCreation},
		"its status was lost":              {func(o *Observed) { o.Apply.Live.Status.Applied = metav1.ConditionTrue }, creating, progress.Workspace, ""},
		"its status was lost, a revision":  {func(o *Observed) { o.Apply.Live.Status.LastAppliedRevision = "1" }, creating, progress.Workspace, ""},
		"nothing exists":                   {func(o *Observed) { o.Apply.Live = nil }, creating, progress.Workspace, infrav1.OperationCreation},
		"it serves, and is updated":        {func(*Observed) {}, Life{Unmet: unmet(infrav1.ProvisioningReason), Initialized: true, Working: true}, progress.Workspace, infrav1.OperationUpdate},
		"it serves, and an update fails":   {func(*Observed) {}, Life{Unmet: unmet(infrav1.ApplyFailedReason), Initialized: true}, progress.Workspace, ""},
	} {
		o, p := running()
		row.change(o)
		got := ptr.Deref(lives(o, p, row.life, row.step), infrav1.Progress{})
		assert.Equal(t, row.want, got.CurrentOperation, name)
	}

	// What was applied before the first error does not show that status was lost.
	o, p = running()
	lives(o, p, creating, progress.Workspace)
	o.Apply.Live.Status.Applied = metav1.ConditionTrue
	lives(o, p, Life{Unmet: unmet(infrav1.ApplyFailedReason), Failed: true}, progress.Workspace)
	assert.Equal(t, infrav1.OperationCreation, lives(o, p, creating, progress.Workspace).CurrentOperation)
}

// Each of these ends with what another object does.
func TestWhichReasonsAreWaits(t *testing.T) {
	o := &Observed{}
	for reason, want := range map[string]bool{
		infrav1.WaitingForOwnerReason: true, infrav1.WaitingForControlPlaneReason: true, controlplanev1.WaitingForInfrastructureReason: true, infrav1.WaitingForDependenciesReason: true,
		infrav1.WaitingForRolloutReason: true, infrav1.WorkspaceNotReconciledReason: true, infrav1.ProvisioningReason: false, infrav1.ApplyFailedReason: false,
	} {
		condition := unmet(reason)
		assert.Equal(t, want, o.WaitTimeout(&Plan{Owner: demoOwner()}, &condition, false) != nil, reason)
		assert.Nil(t, o.WaitTimeout(&Plan{Owner: demoOwner()}, &condition, true), "an object of CAPT has timeouts of its own")
	}
}
