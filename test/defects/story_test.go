// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// eventLines are the events about an object of a kind, in the order in which they happened: type, reason, and the condition.
func eventLines(w *fixture.World, kind string) []string {
	w.Helper()
	list := &eventsv1.EventList{}
	require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.Namespace)))
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var story []string
	for i := range list.Items {
		if event := &list.Items[i]; event.Regarding.Kind == kind {
			story = append(story, event.Type+" "+event.Action+" "+event.Reason)
		}
	}
	return story
}

// What "kubectl describe" shows at 3 a.m. is the story of the object, in order and without noise. CAPT v0.3 sent an event
// every ten seconds (defect 23).
func TestDefect23EventsReportTransitionsInOrder(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *fixture.World) {
		w.Play(fixture.VPC, hangs)
		w.User(w.Everything()...)
		w.AwaitState(controlplanev1.StateValidating, controlplanev1.WaitingForInfrastructureReason)
		w.Play(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		w.Play(fixture.VPC, scripted.Script{})
		w.AwaitState(controlplanev1.StateProvisioning, infrav1.ApplyFailedReason)
		w.Play(fixture.ControlPlane, scripted.Script{})
		w.AwaitState(controlplanev1.StateReady, "")
		w.Play(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"a":"b"}}}`)
		w.AwaitState(controlplanev1.StateDegraded, infrav1.ApplyFailedReason)
		w.Play(fixture.ControlPlane, scripted.Script{})
		w.AwaitState(controlplanev1.StateReady, "")
		w.Remove(&clusterv1.Cluster{}, fixture.Demo)
		w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)

		// What passes quickly may never be seen: Cluster API and Terraform can be faster than a look.
		story := slices.DeleteFunc(eventLines(w, "CAPTControlPlane"), func(event string) bool {
			return event == "Normal Ready WaitingForOwner" || event == "Normal Ready Provisioning"
		})
		assert.Equal(w, []string{
			"Normal Ready WaitingForInfrastructure",
			"Normal FieldsConsumed FieldsWithoutEffect", // The template of this test ignores the version.
			"Warning Ready ApplyFailed",
			"Normal Initialized Initialized",
			"Normal Ready Ready",
			"Warning Ready ApplyFailed",
			"Warning Degraded Degraded",
			"Normal Ready Ready",
			"Normal Degraded NotDegraded",
			"Normal Ready Deleting",
			"Normal Deleting WaitingForWorkspaceTemplateApplyDeletion",
		}, story)
	})
}
