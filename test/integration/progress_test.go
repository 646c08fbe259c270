// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// percentages records status.progress of the control plane until the end of the test. The returned function stops recording and returns it.
func (env environment) percentages() func() []infrav1.Progress {
	env.Helper()
	watcher, err := env.API.Watch(env.Context(), &controlplanev1.CAPTControlPlaneList{}, client.InNamespace(env.Namespace))
	require.NoError(env, err)
	var seen []infrav1.Progress
	var done sync.WaitGroup
	done.Go(func() {
		for event := range watcher.ResultChan() {
			if event.Type != watch.Added && event.Type != watch.Modified {
				continue
			}
			if progress := event.Object.(*controlplanev1.CAPTControlPlane).Status.Progress; progress != nil {
				seen = append(seen, *progress)
			}
		}
	})
	return func() []infrav1.Progress {
		watcher.Stop()
		done.Wait()
		return seen
	}
}

// awaitOperation waits until the last operation of the control plane has succeeded, which is the given number of its history.
func (env environment) awaitOperation(number int) {
	env.Helper()
	env.Eventually(func() string {
		controlPlane := &controlplanev1.CAPTControlPlane{}
		if env.Exists(controlPlane, fixture.Demo) && controlPlane.Status.Progress != nil {
			history := controlPlane.Status.Progress.History
			if len(history) == number && history[number-1].Outcome == infrav1.OutcomeSucceeded {
				return ""
			}
		}
		return "the operation has not succeeded"
	})
}

// Within an operation the percentage only grows, and while Terraform runs, status is not written.
func TestProgressOnlyGrows(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	stop := env.percentages()
	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
	env.User(env.Everything()...)
	env.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	env.AwaitState(infrav1.StateProvisioning, "")
	user, err := env.InstalledManagerUser()
	require.NoError(t, err)
	writes := audit.Filter{User: user, Verbs: audit.Writes, Resource: "captcontrolplanes", Namespace: env.Namespace}
	env.Eventually(func() string { // Cluster API may still report the VPC.
		writes.Since = time.Now().Add(-10 * time.Second)
		events, err := env.AuditEvents(writes)
		require.NoError(env, err)
		if len(events) > 0 {
			return "the control plane was written in the last ten seconds"
		}
		return ""
	})
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.awaitOperation(1)
	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"changed":"true"}}}`)
	env.awaitOperation(2)

	seen := stop()
	require.Greater(t, len(seen), 4)
	for i := 1; i < len(seen); i++ {
		if before, after := seen[i-1], seen[i]; len(before.History) == len(after.History) {
			assert.GreaterOrEqual(t, ptr.Deref(after.PercentComplete, 0), ptr.Deref(before.PercentComplete, 0), "%+v after %+v", after, before)
		}
	}
}

// A template reports how far a change of it is, and what keeps it.
func TestATemplateReportsItsRollout(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(append(env.Templates(), fixture.ClusterWithoutControlPlane(fixture.Demo), fixture.CAPTCluster(fixture.Demo))...)
	env.AwaitVPC()
	env.SetScript(fixture.VPC, scripted.Script{Plan: scripted.Step{Stderr: "\nError: Unsupported argument\n"}})
	env.User(env.VPCTemplate(fixture.VPCModule + "# edited\n"))
	template := &infrav1.WorkspaceTemplate{}
	env.Await(template, fixture.VPCTemplate, infrav1.RollingOutCondition, metav1.ConditionTrue, infrav1.RolloutFailingReason, env.Namespace+"/"+fixture.VPC)
	env.SetScript(fixture.VPC, scripted.Script{})
	env.Await(template, fixture.VPCTemplate, infrav1.RollingOutCondition, metav1.ConditionFalse, infrav1.RolledOutReason)
	assert.Equal(t, ptr.To(int32(0)), template.Status.OutdatedUsers)
}
