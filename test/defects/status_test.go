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

func follow(env *fixture.Environment) *history {
	env.Helper()
	watcher, err := env.API.Watch(env.Context(), &controlplanev1.CAPTControlPlaneList{}, client.InNamespace(env.Namespace))
	require.NoError(env, err)
	env.Cleanup(watcher.Stop)
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
func TestStatusIsNeverTwoThingsAtOnce(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		h := follow(env)
		env.User(env.Everything()...)
		env.AwaitState(infrav1.StateReady, "")
		for range 3 {
			env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
			env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"at":"`+time.Now().Format("150405.000")+`"}}}`)
			env.AwaitState(infrav1.StateDegraded, infrav1.ApplyFailedReason)
			env.SetScript(fixture.ControlPlane, scripted.Script{})
			env.AwaitState(infrav1.StateReady, "")
		}

		initialized := false
		versions := h.all()
		require.NotEmpty(env, versions)
		for _, version := range versions {
			was := initialized
			initialized = initialized || ptr.Deref(version.Status.Initialization.ControlPlaneInitialized, false)
			require.Equal(env, initialized, ptr.Deref(version.Status.Initialization.ControlPlaneInitialized, false), "initialization was reverted")
			is := func(condition string) bool { return meta.IsStatusConditionTrue(version.Status.Conditions, condition) }
			require.Equal(env, version.Status.State == infrav1.StateReady, is(controlplanev1.ReadyCondition), "%+v", version.Status)
			require.Equal(env, version.Status.State == infrav1.StateDegraded, is(infrav1.DegradedCondition), "%+v", version.Status)
			require.False(env, is(infrav1.FailedCondition))
			if was {
				require.True(env, is(controlplanev1.AvailableCondition), "the cluster answers all the time")
			}
		}
		require.True(env, initialized)
	})
}

// An error that heals by itself was a terminal failure, and stayed one.
func TestFailureIsClearedWhenItIsHealed(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		env.User(env.Everything()...)
		failed := env.AwaitState(infrav1.StateProvisioning, infrav1.ApplyFailedReason)
		require.Contains(env, failed.Status.WorkspaceTemplateApply.LastFailureMessage, "ThrottlingException")
		require.NotEmpty(env, failed.Status.WorkspaceTemplateApply.LastFailedRevision)

		env.SetScript(fixture.ControlPlane, scripted.Script{})
		healed := env.AwaitState(infrav1.StateReady, "")
		require.Empty(env, healed.Status.WorkspaceTemplateApply.LastFailureMessage)
		require.Empty(env, healed.Status.WorkspaceTemplateApply.LastFailedRevision)
		require.False(env, meta.IsStatusConditionTrue(healed.Status.Conditions, infrav1.FailedCondition))
		for _, condition := range healed.Status.Conditions {
			require.NotContains(env, condition.Message, "Throttling", condition.Type)
		}
	})
}

// Waiting was an error, so that each look at what was not there yet made the next one later.
func TestWaitingIsNotAnError(t *testing.T) {
	env := shared.Exclusive(t).NewEnvironment(t, terraform.ScopeNamespaced)
	before := env.AwaitRest()
	env.SetScript(fixture.VPC, scripted.Script{Apply: scripted.Step{Hang: true}})
	env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
	env.AwaitState(infrav1.StateValidating, controlplanev1.WaitingForInfrastructureReason)
	waiting := env.AwaitRest()
	for _, object := range []client.Object{&infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}} {
		for range 10 {
			env.Edit(object, fixture.Demo, `{"metadata":{"annotations":{"look":"`+time.Now().String()+`"}}}`)
		}
	}
	looked := env.AwaitRest()
	require.Positive(env, looked.Since(waiting)["captcluster"])
	require.Positive(env, looked.Since(waiting)["captcontrolplane"])

	env.User(env.Templates()...)
	env.AwaitOperation(fixture.VPC, scripted.Apply)
	env.AwaitRest()
	env.SetScript(fixture.VPC, scripted.Script{})
	env.AwaitState(infrav1.StateReady, "")
	require.Empty(env, env.AwaitRest().ErrorsSince(before))
}

// A pause was ignored.
func TestPauseIsHonoured(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		env.User(env.Everything()...)
		env.AwaitState(infrav1.StateReady, "")
		env.User(fixture.Cluster("paused: true"))
		paused := &controlplanev1.CAPTControlPlane{}
		env.Await(paused, fixture.Demo, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
		env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)

		before, apply := env.Workspace(fixture.ControlPlane), &infrav1.WorkspaceTemplateApply{}
		require.True(env, env.Exists(apply, fixture.ControlPlane))
		env.Edit(paused, fixture.Demo, `{"spec":{"additionalTags":{"Team":"other"}}}`)
		env.Eventually(func() string { // Status is the last that a reconcile writes.
			return fixture.Unless(env.Exists(paused, fixture.Demo) && paused.Status.ObservedGeneration == paused.Generation,
				"the change was not looked at")
		})
		generation := apply.Generation
		require.True(env, env.Exists(apply, fixture.ControlPlane))
		require.Equal(env, generation, apply.Generation)
		require.Equal(env, before.GetResourceVersion(), env.Workspace(fixture.ControlPlane).GetResourceVersion())

		env.User(fixture.Cluster("paused: false"))
		env.Eventually(func() string {
			return fixture.Unless(env.Workspace(fixture.ControlPlane).GetGeneration() != before.GetGeneration(), "the change was not made")
		})
		env.AwaitState(infrav1.StateReady, "")
	})
}

// The time of the last transition was that of the last reconcile, and an event came with each. Reconciles of other
// objects would be counted, too.
func TestReconcilesMoveNoTimesAndSendNoEvents(t *testing.T) {
	env := shared.Exclusive(t).NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Everything()...)
	before := env.AwaitState(infrav1.StateReady, "")
	env.Eventually(func() string { // Its endpoint does not exist, and the first probe reports that.
		require.True(env, env.Exists(before, fixture.Demo))
		if check := health.Find(before.Status.Health, health.APIServer); check == nil || !strings.Contains(check.Message, "refuses connections") {
			return "the API server was not probed yet"
		}
		return fixture.ClusterPending(before)
	})
	looked := env.AwaitRest() // Times have whole seconds, and events are written a moment after what they report.
	sent := len(events(env))
	require.Positive(env, sent)
	for range 10 {
		for kind, object := range map[string]client.Object{"captcontrolplane": &controlplanev1.CAPTControlPlane{}, "captcluster": &infrav1.CAPTCluster{}} {
			env.Edit(object, fixture.Demo, `{"metadata":{"annotations":{"look":"`+time.Now().String()+`"}}}`)
			env.Eventually(func() string {
				now, err := env.Activity(env.Context())
				require.NoError(env, err)
				if now.Since(looked)[kind] == 0 || now.Pending > 0 {
					return "no reconcile yet"
				}
				looked = now
				return ""
			})
		}
	}
	after := &controlplanev1.CAPTControlPlane{}
	require.True(env, env.Exists(after, fixture.Demo))
	require.Equal(env, before.Status, after.Status)
	env.AwaitRest()
	require.Len(env, events(env), sent)
}

// events are those of CAPT in the namespace.
func events(env *fixture.Environment) []eventsv1.Event {
	env.Helper()
	return slices.DeleteFunc(env.Events(), func(e eventsv1.Event) bool {
		return !strings.HasPrefix(e.Regarding.APIVersion, "infrastructure") && e.Regarding.Kind != "CAPTControlPlane"
	})
}
