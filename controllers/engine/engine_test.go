// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// facts of the tests: the conditions that status shall set.
type facts struct{ conditions []Condition }

// testReconciler is a reconciler of CAPTClusters with one object, which counts the writes of status.
type testReconciler struct {
	*testing.T
	engine   Engine
	recorder *events.FakeRecorder
	request  ctrl.Request
	phases   Phases[*infrav1.CAPTCluster, facts, struct{}]
	// writes of status that were tried, and what the next of them fails with.
	writes int
	refuse error
	// acted counts the reconciles that came as far as acting.
	acted int
}

func newTestReconciler(t *testing.T, objects ...client.Object) *testReconciler {
	s := &testReconciler{T: t, recorder: events.NewFakeRecorder(16)}
	api := builder.NewAPI(builder.Clients(objects...).WithStatusSubresource(&infrav1.CAPTCluster{}))
	api.Refuse = func(write string) error {
		if write != "status" {
			return nil
		}
		s.writes++
		return s.refuse
	}
	s.engine = Engine{Client: api, Recorder: s.recorder, State: &StateCache{}, Gate: OpenGate{}}
	s.request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}}
	s.phases = Phases[*infrav1.CAPTCluster, facts, struct{}]{
		Observe: func(context.Context, *infrav1.CAPTCluster, GateDecision) (*facts, error) { return &facts{}, nil },
		Act: func(context.Context, *infrav1.CAPTCluster, *facts, struct{}) error {
			s.acted++
			return nil
		},
		Plan:            func(*infrav1.CAPTCluster, *facts) (struct{}, error) { return struct{}{}, nil },
		Status:          func(obj *infrav1.CAPTCluster, f *facts, _ struct{}) { Set(obj, f.conditions...) },
		EventConditions: []string{"Ready"},
	}
	return s
}

// show makes the next reconciles set these conditions.
func (s *testReconciler) show(conditions ...Condition) {
	s.phases.Observe = func(context.Context, *infrav1.CAPTCluster, GateDecision) (*facts, error) {
		return &facts{conditions}, nil
	}
}

// ends makes the next reconciles end with an error.
func (s *testReconciler) ends(err error) {
	s.phases.Act = func(context.Context, *infrav1.CAPTCluster, *facts, struct{}) error {
		s.acted++
		return err
	}
}

func (s *testReconciler) reconcile() (ctrl.Result, error) {
	return Run(context.Background(), s.engine, s.request, &infrav1.CAPTCluster{}, s.phases)
}

func (s *testReconciler) mustReconcile() {
	s.Helper()
	got, err := s.reconcile()
	require.NoError(s, err)
	require.Equal(s, ctrl.Result{}, got)
}

func (s *testReconciler) get() *infrav1.CAPTCluster {
	s.Helper()
	captCluster := &infrav1.CAPTCluster{}
	require.NoError(s, s.engine.Client.Get(context.Background(), s.request.NamespacedName, captCluster))
	return captCluster
}

// recorded returns the events since its last call.
func (s *testReconciler) recorded() []string {
	var recorded []string
	for len(s.recorder.Events) > 0 {
		recorded = append(recorded, <-s.recorder.Events)
	}
	return recorded
}

func TestStatusIsWrittenOnceWhenItChanged(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"), True("VPCReady", "VPCReady", ""))
	s.mustReconcile()
	version := s.get().ResourceVersion
	s.mustReconcile()
	assert.Equal(t, 2, s.acted, "an up-to-date cache is reconciled")
	assert.Equal(t, 1, s.writes)
	assert.Equal(t, version, s.get().ResourceVersion)
	assert.Equal(t, map[string]string{"Ready": "False Provisioning", "VPCReady": "True VPCReady"}, builder.ConditionSummary(s.get().Status.Conditions))
}

func TestAnObjectThatDoesNotExistIsDone(t *testing.T) {
	s := newTestReconciler(t)
	s.mustReconcile()
	assert.Zero(t, s.acted)
	assert.Zero(t, s.writes)
}

func TestAStaleStatusNeverOverwritesANewerOne(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.phases.Act = func(ctx context.Context, _ *infrav1.CAPTCluster, _ *facts, _ struct{}) error {
		// Another client writes between the read and the write.
		other := s.get()
		other.Labels = map[string]string{"another": "client"}
		return s.engine.Client.Update(ctx, other)
	}
	s.mustReconcile()
	assert.Equal(t, 1, s.writes, "the write was tried")
	assert.Empty(t, s.get().Status.Conditions, "and refused")
}

func TestAReleasedObjectGetsNoStatus(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo", builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting()))
	s.show(True("Ready", "Ready", "never written"))
	s.phases.Act = func(ctx context.Context, obj *infrav1.CAPTCluster, _ *facts, _ struct{}) error {
		original := obj.DeepCopy()
		obj.Finalizers = nil
		return s.engine.Client.Patch(ctx, obj, client.MergeFrom(original))
	}
	s.mustReconcile()
	assert.Zero(t, s.writes)
	assert.Empty(t, s.recorded())
	s.mustReconcile() // The event of its deletion.
}

func TestAnObjectDeletedDuringTheReconcileIsDone(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.phases.Act = func(ctx context.Context, obj *infrav1.CAPTCluster, _ *facts, _ struct{}) error {
		return s.engine.Client.Delete(ctx, obj.DeepCopy())
	}
	s.mustReconcile()
	assert.Empty(t, s.recorded())
}

func TestEventsOfConditionTransitions(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.phases.IsWarning = func(condition metav1.Condition) bool { return condition.Reason == "ApplyFailed" }
	s.phases.EventConditions = []string{"Ready", "Silent"}
	for _, moment := range []struct {
		name string
		show []Condition
		want []string
	}{
		{"it appears with something to say", []Condition{False("Ready", "Provisioning", "at work")}, []string{"Normal Provisioning at work"}},
		{"only its message changes", []Condition{False("Ready", "Provisioning", "still at work")}, nil},
		{"another condition appears", []Condition{True("VPCReady", "VPCReady", "no event")}, nil},
		{"one appears without a message", []Condition{True("Silent", "Silent", "")}, nil},
		{"its reason changes, for the worse; the message is not a format", []Condition{False("Ready", "ApplyFailed", "100%d of %s")}, []string{"Warning ApplyFailed 100%d of %s"}},
		{"it comes true, without a message", []Condition{True("Ready", "Ready", "")}, []string{"Normal Ready condition Ready has changed to True"}},
		{"nothing changes", []Condition{True("Ready", "Ready", "")}, nil},
	} {
		s.show(moment.show...)
		s.mustReconcile()
		assert.Equal(t, moment.want, s.recorded(), moment.name)
	}
}

func TestEventsFollowThoseOfConditions(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "at work"))
	s.phases.Events = func(before, after *infrav1.CAPTCluster) []Event {
		assert.Empty(t, before.Status.Conditions)
		assert.Len(t, after.Status.Conditions, 1)
		return []Event{
			{Type: corev1.EventTypeNormal, Reason: "PartCreated", Action: "Create", Message: "part 100%d"},
			{Type: corev1.EventTypeWarning, Reason: "PartFailed", Action: "Create", Message: strings.Repeat("x", 2*maxEventLength)},
		}
	}
	s.mustReconcile()
	assert.Equal(t, []string{
		"Normal Provisioning at work", "Normal PartCreated part 100%d", "Warning PartFailed " + strings.Repeat("x", maxEventLength-len("…")) + "…",
	}, s.recorded())

	s.phases.Events = func(*infrav1.CAPTCluster, *infrav1.CAPTCluster) []Event {
		t.Error("nothing changed")
		return nil
	}
	s.mustReconcile()
}

// Status is written whether Act succeeds or not. Who waits for half an hour would show the old status for as long, so that a write that
// fails is tried again, but for a conflict and a deletion. No write, no events.
func TestHowAReconcileEnds(t *testing.T) {
	clusters := infrav1.GroupVersion.WithResource("captclusters").GroupResource()
	cause, down := errors.New("no route to host"), apierrors.NewServiceUnavailable("later")
	for name, row := range map[string]struct {
		observe, act, refuse error
		want                 ctrl.Result
		fails                error
		writes, events       int
	}{
		"done":                                 {writes: 1, events: 2},
		"Observe fails":                        {observe: cause, fails: cause},
		"Act waits":                            {act: Wait("the kind", time.Second), want: ctrl.Result{RequeueAfter: time.Second}, writes: 1, events: 2},
		"Act fails, and the write of status":   {act: cause, refuse: down, fails: cause, writes: 1},
		"Act waits, the write of status fails": {act: Wait("a timeout", time.Hour), refuse: down, fails: down, writes: 1},
		"the write of status fails":            {refuse: down, fails: down, writes: 1},
		"another view":                         {refuse: apierrors.NewConflict(clusters, "demo", errors.New("changed")), writes: 1},
		"gone":                                 {refuse: apierrors.NewNotFound(clusters, "demo"), writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestReconciler(t, builder.CAPTCluster("demo"))
			s.ends(row.act)
			s.phases.Observe = func(context.Context, *infrav1.CAPTCluster, GateDecision) (*facts, error) {
				return &facts{[]Condition{False("Ready", "Provisioning", "at work")}}, row.observe
			}
			s.phases.Events = func(*infrav1.CAPTCluster, *infrav1.CAPTCluster) []Event {
				return []Event{{Type: corev1.EventTypeNormal, Reason: "PartCreated", Action: "Create", Message: "a part"}}
			}
			s.refuse = row.refuse
			got, err := s.reconcile()
			require.ErrorIs(t, err, row.fails)
			if errors.Is(row.fails, down) {
				require.ErrorContains(t, err, "writing status")
			}
			assert.Equal(t, row.want, got)
			assert.Equal(t, row.observe == nil, s.acted == 1)
			assert.Equal(t, row.writes, s.writes)
			assert.Len(t, s.recorded(), row.events)
		})
	}
}

// delaying is a reconciler whose messages may wait for two seconds.
func delaying(t *testing.T) (*testReconciler, *builder.Clock) {
	s, clock := newTestReconciler(t, builder.CAPTCluster("demo")), builder.NewClock()
	s.engine.State.Clock = clock
	s.phases.Details = func(before, after *infrav1.CAPTCluster, _ *facts) time.Duration {
		for i := range after.Status.Conditions {
			if known := conditions.Get(before, after.Status.Conditions[i].Type); known != nil {
				after.Status.Conditions[i].Message = known.Message
			}
		}
		return 2 * time.Second
	}
	s.show(False("Ready", "Provisioning", "first"))
	s.mustReconcile()
	return s, clock
}

func (s *testReconciler) requireWaits(want time.Duration, writes int) {
	s.Helper()
	got, err := s.reconcile()
	require.NoError(s, err)
	require.Equal(s, want, got.RequeueAfter)
	require.Equal(s, writes, s.writes)
}

func TestDetailsAreWrittenWithTheNextChangeOrAfterADelay(t *testing.T) {
	s, clock := delaying(t)
	s.show(False("Ready", "Provisioning", "second"))
	s.requireWaits(2*time.Second, 1)
	clock.Pass(1500 * time.Millisecond)
	s.show(False("Ready", "Provisioning", "third"))
	s.requireWaits(500*time.Millisecond, 1)
	clock.Pass(500 * time.Millisecond)
	s.requireWaits(0, 2)
	assert.Equal(t, "third", conditions.GetMessage(s.get(), "Ready"))
	s.requireWaits(0, 2)

	s.show(False("Ready", "Provisioning", "fourth"))
	s.requireWaits(2*time.Second, 2)
	s.show(True("Ready", "Ready", ""))
	s.requireWaits(0, 3)

	s.show(True("Ready", "Ready", "a detail that disappears"))
	s.requireWaits(2*time.Second, 3)
	clock.Pass(time.Second)
	s.show(True("Ready", "Ready", ""))
	s.requireWaits(0, 3)
	s.show(True("Ready", "Ready", "a later one waits as long"))
	s.requireWaits(2*time.Second, 3)
}

// A manager that is restarted has no record of the delay, and begins another one.
func TestDelayedDetailsSurviveARestart(t *testing.T) {
	s, clock := delaying(t)
	s.show(False("Ready", "Provisioning", "second"))
	s.requireWaits(2*time.Second, 1)
	s.engine.State = &StateCache{Clock: clock}
	s.requireWaits(2*time.Second, 1)
	clock.Pass(2 * time.Second)
	s.requireWaits(0, 2)
}

func TestDetailsDoNotReplaceOtherWaitsAndAreWrittenWithErrors(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		want   time.Duration
		writes int
	}{
		"an earlier reconcile": {Wait("a token", time.Second), time.Second, 1},
		"a later reconcile":    {Wait("a timeout", time.Minute), 2 * time.Second, 1},
		"a joined wait":        {errors.Join(Wait("a timeout", time.Minute)), time.Minute, 2},
		"a conflict":           {MarkStale(apierrors.NewConflict(schema.GroupResource{}, "demo", nil)), 0, 1}, // The status would describe an older version.
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := delaying(t)
			s.show(False("Ready", "Provisioning", "second"))
			s.ends(row.err)
			s.requireWaits(row.want, row.writes)
		})
	}
	s, _ := delaying(t)
	s.show(False("Ready", "Provisioning", "second"))
	s.ends(errors.New("the backoff of the queue may be longer than the delay"))
	_, err := s.reconcile()
	require.Error(t, err)
	assert.Equal(t, 2, s.writes)
}
