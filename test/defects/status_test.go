// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// throttled is the error of AWS for too many requests.
const throttled = "\nError: creating EKS Cluster (demo): ThrottlingException: Rate exceeded\n"

// history collects every version of a control plane.
type history struct {
	lock     sync.Mutex
	versions []*controlplanev1.CAPTControlPlane
}

func follow(w *fixture.World) *history {
	w.Helper()
	watcher, err := w.API.Watch(w.Context(), &controlplanev1.CAPTControlPlaneList{}, client.InNamespace(w.Namespace))
	require.NoError(w, err)
	w.Cleanup(watcher.Stop)
	h := &history{}
	go func() {
		for event := range watcher.ResultChan() {
			if version, ok := event.Object.(*controlplanev1.CAPTControlPlane); ok {
				h.lock.Lock()
				h.versions = append(h.versions, version)
				h.lock.Unlock()
			}
		}
	}()
	return h
}

func (h *history) all() []*controlplanev1.CAPTControlPlane {
	h.lock.Lock()
	defer h.lock.Unlock()
	return slices.Clone(h.versions)
}

// Ready was written, and then Failed, in one reconcile; and a control plane that had been initialized was so no more.
func TestDefect20StatusIsNeverTwoThingsAtOnce(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		h := follow(w)
		w.User(w.Everything()...)
		w.AwaitState(controlplanev1.StateReady, "")
		for range 3 {
			w.Play(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
			w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"at":"`+time.Now().Format("150405.000")+`"}}}`)
			w.AwaitState(controlplanev1.StateDegraded, infrav1.ApplyFailedReason)
			w.Play(fixture.ControlPlane, scripted.Script{})
			w.AwaitState(controlplanev1.StateReady, "")
		}

		initialized := false
		versions := h.all()
		require.NotEmpty(w, versions)
		for _, version := range versions {
			was := initialized
			initialized = initialized || ptr.Deref(version.Status.Initialization.ControlPlaneInitialized, false)
			require.Equal(w, initialized, ptr.Deref(version.Status.Initialization.ControlPlaneInitialized, false), "initialization was reverted")
			is := func(condition string) bool { return meta.IsStatusConditionTrue(version.Status.Conditions, condition) }
			require.Equal(w, version.Status.State == controlplanev1.StateReady, is(controlplanev1.ReadyCondition), "%+v", version.Status)
			require.Equal(w, version.Status.State == controlplanev1.StateDegraded, is(controlplanev1.DegradedCondition), "%+v", version.Status)
			require.False(w, is(controlplanev1.FailedCondition))
			if was {
				require.True(w, is(controlplanev1.AvailableCondition), "the cluster answers all the time")
			}
		}
		require.True(w, initialized)
	})
}

// An error that heals by itself was a terminal failure, and stayed one.
func TestDefect22FailureIsClearedWhenItIsHealed(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		w.Play(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		w.User(w.Everything()...)
		failed := w.AwaitState(controlplanev1.StateProvisioning, infrav1.ApplyFailedReason)
		require.Contains(w, failed.Status.WorkspaceTemplateApply.LastFailureMessage, "ThrottlingException")
		require.NotEmpty(w, failed.Status.WorkspaceTemplateApply.LastFailedRevision)

		w.Play(fixture.ControlPlane, scripted.Script{})
		healed := w.AwaitState(controlplanev1.StateReady, "")
		require.Empty(w, healed.Status.WorkspaceTemplateApply.LastFailureMessage)
		require.Empty(w, healed.Status.WorkspaceTemplateApply.LastFailedRevision)
		require.False(w, meta.IsStatusConditionTrue(healed.Status.Conditions, controlplanev1.FailedCondition))
		for _, condition := range healed.Status.Conditions {
			require.NotContains(w, condition.Message, "Throttling", condition.Type)
		}
	})
}

// Waiting was an error, so that each look at what was not there yet made the next one later.
func TestDefect22WaitingIsNotAnError(t *testing.T) {
	w := shared.Exclusive(t).NewWorld(t, terraform.ScopeNamespaced)
	before := w.AwaitRest(time.Second)
	w.Play(fixture.VPC, scripted.Script{Apply: scripted.Step{Hang: true}})
	w.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	w.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
	w.AwaitState(controlplanev1.StateValidating, controlplanev1.WaitingForInfrastructureReason)
	waiting := w.AwaitRest(time.Second)
	for _, object := range []client.Object{&infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}} {
		for range 10 {
			w.Edit(object, fixture.Demo, `{"metadata":{"annotations":{"look":"`+time.Now().String()+`"}}}`)
		}
	}
	looked := w.AwaitRest(3 * time.Second)
	require.Positive(w, looked.Since(waiting)["captcluster"])
	require.Positive(w, looked.Since(waiting)["captcontrolplane"])

	w.User(w.Templates()...)
	w.AwaitOperation(fixture.VPC, scripted.Apply)
	w.AwaitRest(3 * time.Second)
	w.Play(fixture.VPC, scripted.Script{})
	w.AwaitState(controlplanev1.StateReady, "")
	require.Empty(w, w.AwaitRest(time.Second).ErrorsSince(before))
}

// A pause was ignored.
func TestDefect23PauseIsHonoured(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		w.User(w.Everything()...)
		w.AwaitState(controlplanev1.StateReady, "")
		w.User(fixture.Cluster("paused: true"))
		paused := &controlplanev1.CAPTControlPlane{}
		w.Await(paused, fixture.Demo, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
		w.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)

		before, apply := w.Workspace(fixture.ControlPlane), &infrav1.WorkspaceTemplateApply{}
		require.True(w, w.Exists(apply, fixture.ControlPlane))
		w.Edit(paused, fixture.Demo, `{"spec":{"additionalTags":{"Team":"other"}}}`)
		w.Insist(func() string { // Status is the last that a reconcile writes.
			if !w.Exists(paused, fixture.Demo) || paused.Status.ObservedGeneration != paused.Generation {
				return "the change was not looked at"
			}
			return ""
		})
		generation := apply.Generation
		require.True(w, w.Exists(apply, fixture.ControlPlane))
		require.Equal(w, generation, apply.Generation)
		require.Equal(w, before.GetResourceVersion(), w.Workspace(fixture.ControlPlane).GetResourceVersion())

		w.User(fixture.Cluster("paused: false"))
		w.Insist(func() string {
			if w.Workspace(fixture.ControlPlane).GetGeneration() == before.GetGeneration() {
				return "the change was not made"
			}
			return ""
		})
		w.AwaitState(controlplanev1.StateReady, "")
	})
}

// The time of the last transition was that of the last reconcile, and an event came with each. Reconciles of other
// objects would be counted, too.
func TestDefect23ReconcilesMoveNoTimesAndSendNoEvents(t *testing.T) {
	w := shared.Exclusive(t).NewWorld(t, terraform.ScopeNamespaced)
	w.User(w.Everything()...)
	before := w.AwaitState(controlplanev1.StateReady, "")
	w.Insist(func() string { // Its endpoint does not exist, and the first probe reports that.
		require.True(w, w.Exists(before, fixture.Demo))
		if check := health.Find(before.Status.Health, health.APIServer); check == nil || !strings.Contains(check.Message, "refuses connections") {
			return "the API server was not probed yet"
		}
		return ""
	})
	looked := w.AwaitRest(3 * time.Second) // Times have whole seconds, and events are written a moment after what they report.
	sent := len(events(w))
	require.Positive(w, sent)
	for range 10 {
		for kind, object := range map[string]client.Object{"captcontrolplane": &controlplanev1.CAPTControlPlane{}, "captcluster": &infrav1.CAPTCluster{}} {
			w.Edit(object, fixture.Demo, `{"metadata":{"annotations":{"look":"`+time.Now().String()+`"}}}`)
			w.Insist(func() string {
				now, err := w.Activity(w.Context())
				require.NoError(w, err)
				if now.Since(looked)[kind] == 0 {
					return "no reconcile yet"
				}
				return ""
			})
			looked = w.AwaitRest(300 * time.Millisecond)
		}
	}
	after := &controlplanev1.CAPTControlPlane{}
	require.True(w, w.Exists(after, fixture.Demo))
	require.Equal(w, before.Status, after.Status)
	w.AwaitRest(3 * time.Second)
	require.Len(w, events(w), sent)
}

// events are those of CAPT in the namespace.
func events(w *fixture.World) []eventsv1.Event {
	w.Helper()
	list := &eventsv1.EventList{}
	require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.Namespace)))
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return !strings.HasPrefix(e.Regarding.APIVersion, "infrastructure") && e.Regarding.Kind != "CAPTControlPlane"
	})
}
