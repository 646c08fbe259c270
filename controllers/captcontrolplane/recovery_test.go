// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

// failingWorld is a world whose first apply fails, with recovery.
func failingWorld(t *testing.T, class string, options ...builder.Option) *world {
	w := newWorld(t, prepared(options...)...)
	w.Recovery = metrics.NewRecovery(prometheus.NewRegistry())
	w.reconcile()
	w.fail(class)
	return w
}

// fail makes the WorkspaceTemplateApply fail.
func (w *world) fail(class string) {
	w.Helper()
	apply := read(w, applyName, &infrav1.WorkspaceTemplateApply{})
	builder.NotUpToDate(infrav1.ApplyFailedReason, "Terraform apply failed")(apply)
	apply.Spec.WorkspaceName = apply.Name
	apply.Status.WorkspaceRef, apply.Status.LastFailureClass, apply.Status.FailureInputs = &infrav1.WorkspaceReference{UID: "workspace"}, class, "1"
	require.NoError(w, w.Client.Update(w.Context(), apply))
}

func (w *world) recovering() string {
	controlPlane := w.get()
	if controlPlane == nil {
		return ""
	}
	c := meta.FindStatusCondition(controlPlane.Status.Conditions, controlplanev1.RecoveringCondition)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func (w *world) requested() string {
	if apply := read(w, applyName, &infrav1.WorkspaceTemplateApply{}); apply != nil {
		return apply.Annotations[naming.RecoveryAnnotation]
	}
	return ""
}

func TestRecovery(t *testing.T) {
	w := failingWorld(t, "Network")
	w.reconcile()
	assert.Equal(t, "False WaitingForRetry", w.recovering())
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)
	assert.Contains(t, meta.FindStatusCondition(w.get().Status.Conditions, "Ready").Message, "recovery attempt 1 of 5 (Reapply) starts at ")
	assert.Empty(t, w.requested())
	assert.Empty(t, w.reconcile(), "nothing is written while it waits")

	w.clock.Pass(3 * time.Minute)
	assert.Equal(t, []string{"patch", "status"}, w.reconcile())
	assert.True(t, strings.HasPrefix(w.requested(), "Reapply/workspace/"), w.requested())
	assert.Equal(t, "True Recovering", w.recovering())
	assert.Equal(t, controlplanev1.StateRecovering, w.get().Status.State)
	assert.Equal(t, controlplanev1.PhaseCreating, w.get().Status.Phase)
	assert.Equal(t, int32(1), *w.get().Status.Recovery.Attempts)
	assert.Empty(t, w.reconcile(), "nothing is written while it runs")

	w.terraformMade()
	w.reconcile()
	assert.Equal(t, "False Recovered", w.recovering())
	assert.Equal(t, "Succeeded", w.get().Status.Recovery.LastOutcome)
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	assert.Empty(t, w.reconcile())
}

func TestNothingIsRecovered(t *testing.T) {
	for name, change := range map[string]func(*world){
		"while paused":                 func(w *world) { w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) }) },
		"with a manager that does not": func(w *world) { w.Recovery = nil },
		"without retries": func(w *world) {
			w.spec(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.Recovery = &controlplanev1.RecoveryStrategy{MaxRetries: ptr.To[int32](0)}
			})
		},
		"while it is deleted":      func(w *world) { require.NoError(w, w.Client.Delete(w.Context(), w.get())) },
		"of an error for the user": func(w *world) { w.fail("Auth") },
		"for another shard":        func(w *world) { w.WatchFilterValue = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := failingWorld(t, "Network")
			change(w)
			for range 4 {
				w.reconcile()
				w.clock.Pass(time.Hour)
			}
			assert.Empty(t, w.requested())
			assert.NotEqual(t, "True Recovering", w.recovering())
		})
	}
}

func TestExhaustedRecovery(t *testing.T) {
	once := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Recovery = &controlplanev1.RecoveryStrategy{MaxRetries: ptr.To[int32](1)}
	})
	w := failingWorld(t, "Network", once)
	for range 3 {
		w.reconcile()
		w.clock.Pass(10 * time.Minute)
	}
	assert.Equal(t, "False RecoveryExhausted", w.recovering())
	assert.Equal(t, controlplanev1.StateFailed, w.get().Status.State)
	assert.Empty(t, w.reconcile())

	w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.WithAnnotation(naming.RetryAnnotation, "1")(c) })
	w.reconcile()
	assert.Equal(t, "False WaitingForRetry", w.recovering(), "the annotation starts again")
	w.clock.Pass(time.Second)
	w.reconcile()
	assert.Equal(t, controlplanev1.StateRecovering, w.get().Status.State)
}

func TestRecreateWorkspace(t *testing.T) {
	recreate := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Recovery = &controlplanev1.RecoveryStrategy{Actions: []controlplanev1.RecoveryAction{{
			Type: controlplanev1.RecoveryRecreateWorkspace, Parameters: map[string]string{controlplanev1.AllowDestroyParameter: "true"},
		}}}
	})
	for name, row := range map[string]struct {
		change  func(*world)
		deleted bool
	}{
		"never initialized": {func(*world) {}, true},
		"a kubeconfig": {func(w *world) {
			require.NoError(w, w.Client.Create(w.Context(), builder.SecretWith(naming.KubeconfigSecret("demo"), nil)))
		}, false},
		"an endpoint":                {func(w *world) { w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.WithEndpoint("x", 443)(c) }) }, false},
		"an empty connection Secret": {func(w *world) { require.NoError(w, w.Client.Create(w.Context(), connection(nil))) }, true},
		"outputs":                    {func(w *world) { require.NoError(w, w.Client.Create(w.Context(), connection(outputs()))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := failingWorld(t, "Network", recreate)
			apply := read(w, applyName, &infrav1.WorkspaceTemplateApply{})
			builder.WithAnnotation(naming.ExternalNameUIDAnnotation, string(apply.UID))(apply)
			apply.Finalizers, apply.CreationTimestamp = []string{infrav1.WorkspaceTemplateApplyFinalizer}, metav1.NewTime(builder.Created.Add(time.Hour))
			require.NoError(t, w.Client.Update(t.Context(), apply))
			row.change(w)
			w.reconcile()
			w.clock.Pass(time.Hour)
			w.reconcile()
			assert.Equal(t, row.deleted, !read(w, applyName, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero())
		})
	}
}
