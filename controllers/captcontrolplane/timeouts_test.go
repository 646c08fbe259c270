// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// late is a step that does not end.
type late struct {
	// begin makes the step begin now.
	begin func(w *world)
	// end ends it.
	end    func(w *world)
	limit  time.Duration
	reason string
	// shown is the condition that reports it.
	shown string
	// then is the state after its end.
	then controlplanev1.State
	// raise gives it more time.
	raise func(timeouts *controlplanev1.Timeouts)
}

// change writes an object as another client does.
func change[O client.Object](w *world, name string, object O, change func(O)) {
	w.Helper()
	found := read(w, name, object)
	change(found)
	require.NoError(w, w.Client.Update(context.Background(), found))
}

func started(at time.Time) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.StartedTime = ptr.To(metav1.NewTime(at)) })
}

func lates() map[string]late {
	return map[string]late{
		"the VPC": {
			begin: func(w *world) {
				at := w.clock.Now()
				change(w, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) {
					c.Status.VPC.ID, c.Status.WorkspaceTemplateApply.StartedTime = "", ptr.To(metav1.NewTime(at))
				})
			},
			end: func(w *world) {
				change(w, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" })
			},
			limit: 15 * time.Minute, reason: "VPCReadyTimeout", shown: "DependenciesReady", then: controlplanev1.StateProvisioning,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.VPCReadySeconds = 7200 },
		},
		"the control plane": {
			begin: func(w *world) {
				w.reconcile()
				w.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "Terraform applies"))
				w.terraform(started(w.clock.Now()))
			},
			end:   func(w *world) { w.terraformMade() },
			limit: 30 * time.Minute, reason: "ControlPlaneTimeout", shown: "WorkspaceReady", then: controlplanev1.StateReady,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.ControlPlaneSeconds = 7200 },
		},
		"a Secret that it waits for": {
			begin: func(w *world) {
				w.reconcile()
				w.terraform(builder.NotUpToDate(infrav1.WaitingForDependenciesReason, "Secret network is missing"))
				at := metav1.NewTime(w.clock.Now())
				w.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
					apply.Status.MissingDependencies = []infrav1.MissingDependency{{Kind: "Secret", Name: "network", Message: "is missing", Since: &at}}
				}))
			},
			end:   func(w *world) { w.terraformMade() },
			limit: 5 * time.Minute, reason: "SecretTimeout", shown: "WorkspaceReady", then: controlplanev1.StateReady,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.SecretSeconds = 7200 },
		},
		"the connection Secret": {
			begin: func(w *world) {
				w.reconcile()
				at := metav1.NewTime(w.clock.Now())
				w.terraform(builder.UpToDate(outputs()))
				w.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.Conditions[0].LastTransitionTime = at }))
			},
			end:   func(w *world) { w.terraformMade() },
			limit: 5 * time.Minute, reason: "SecretTimeout", shown: "KubeconfigReady", then: controlplanev1.StateReady,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.SecretSeconds = 7200 },
		},
	}
}

func (w *world) story() map[string]string { return builder.ConditionSummary(w.get().Status.Conditions) }

// reach lets the time of a step pass, with the wake-up that the reconciler asked for, and reconciles.
func (w *world) reach(l late) {
	w.Helper()
	l.begin(w)
	w.reconcile()
	require.NotEqual(w, controlplanev1.StateFailed, w.get().Status.State)
	require.NotZero(w, w.again, "no watch reports it")
	require.LessOrEqual(w, w.again, l.limit)
	w.clock.Pass(w.again)
	w.reconcile()
	require.Equal(w, controlplanev1.StateFailed, w.get().Status.State)
}

func TestATimeoutIsReported(t *testing.T) {
	for name, l := range lates() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, prepared()...)
			l.begin(w)
			w.reconcile()
			w.clock.Pass(l.limit - time.Second)
			w.reconcile()
			assert.NotEqual(t, controlplanev1.StateFailed, w.get().Status.State, "a second before")
			assert.Equal(t, time.Second, w.again)

			w.clock.Pass(time.Second)
			w.reconcile()
			got := w.get().Status
			assert.Equal(t, controlplanev1.StateFailed, got.State)
			assert.Equal(t, controlplanev1.PhaseFailed, got.Phase)
			story := builder.ConditionSummary(got.Conditions)
			assert.Equal(t, "True "+l.reason, story["Failed"])
			assert.Equal(t, "False "+l.reason, story[l.shown])
			assert.Equal(t, "False "+l.reason, story["Ready"])
			message := meta.FindStatusCondition(got.Conditions, "Failed").Message
			assert.Contains(t, message, "timed out after "+duration.HumanDuration(l.limit))
			assert.Contains(t, message, naming.RetryAnnotation)

			assert.Empty(t, w.reconcile(), "it is reported once")
			assert.Zero(t, w.again, "nothing changes with time any more")

			w.clock.Pass(time.Second)
			w.State = &engine.StateCache{Clock: w.clock}
			assert.Empty(t, w.reconcile(), "a manager that is restarted does not revert it")
		})
	}
}

func TestARetryRestartsATimeout(t *testing.T) {
	for name, l := range lates() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, prepared()...)
			w.reach(l)
			for _, value := range []string{"1", "2"} {
				w.spec(func(c *controlplanev1.CAPTControlPlane) {
					c.Annotations = map[string]string{naming.RetryAnnotation: value}
				})
				w.reconcile()
				assert.NotEqual(t, controlplanev1.StateFailed, w.get().Status.State)
				assert.Equal(t, controlplanev1.PhaseCreating, w.get().Status.Phase)
				assert.Equal(t, "False NotFailed", w.story()["Failed"])
				assert.Equal(t, value, w.get().Status.Recovery.Retry)
				assert.Empty(t, w.reconcile(), "a retry is noted once")

				w.clock.Pass(l.limit)
				w.reconcile()
				assert.Equal(t, "True "+l.reason, w.story()["Failed"], "the timer was restarted")
			}
		})
	}
}

// The timeout was raised, or a retry asked for, while no manager ran; or Terraform succeeds late.
func TestWhatEndsATimeout(t *testing.T) {
	for name, l := range lates() {
		for how, end := range map[string]func(w *world){
			"raised": func(w *world) {
				w.spec(func(c *controlplanev1.CAPTControlPlane) { l.raise(&c.Spec.Timeouts); c.Generation++ })
			},
			"retry": func(w *world) {
				w.spec(func(c *controlplanev1.CAPTControlPlane) {
					c.Annotations = map[string]string{naming.RetryAnnotation: "1"}
				})
			},
			"success": l.end,
		} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", how, " restarted=", restarted), func(t *testing.T) {
					w := newWorld(t, prepared()...)
					w.reach(l)
					if restarted {
						w.clock.Pass(time.Minute)
						w.State = &engine.StateCache{Clock: w.clock}
					}
					end(w)
					w.reconcile()
					assert.Equal(t, "False NotFailed", w.story()["Failed"])
					if how == "success" {
						assert.Equal(t, l.then, w.get().Status.State)
					}
					if how == "raised" && !restarted {
						assert.Equal(t, 2*time.Hour-l.limit, w.again)
					}
				})
			}
		}
	}
}

func TestDescriptionsOfTimeoutsGiveTheDefaults(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "controlplane.cluster.x-k8s.io_captcontrolplanes.yaml"))
	require.NoError(t, err)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.Unmarshal(data, definition))
	for _, version := range definition.Spec.Versions {
		if version.Name != controlplanev1.GroupVersion.Version {
			continue
		}
		timeouts := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["timeouts"].Properties
		for field, want := range map[string]int{
			"vpcReadySeconds": defaultVPCReadySeconds, "controlPlaneSeconds": defaultControlPlaneSeconds, "secretSeconds": defaultSecretSeconds,
		} {
			assert.Contains(t, timeouts[field].Description, "the default is "+strconv.Itoa(want)+".", field)
			assert.LessOrEqual(t, *timeouts[field].Maximum, longestTimeout.Seconds(), field)
		}
	}
}

// A spec that changes the Workspace is a new attempt.
func TestAChangeOfTheWorkspaceRestartsTheTimeout(t *testing.T) {
	w := newWorld(t, prepared()...)
	w.reach(lates()["the control plane"])
	w.terraform(started(w.clock.Now()))
	w.reconcile()
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)
	assert.Equal(t, 30*time.Minute, w.again)
}

// A control plane that is made for a WorkspaceTemplateApply which has been Ready for a month begins to wait now.
func TestTheSecretTimeoutStartsWithTheControlPlane(t *testing.T) {
	w := newWorld(t, prepared()...)
	w.reconcile()
	w.terraform(builder.UpToDate(outputs()))
	w.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions[0].LastTransitionTime = metav1.NewTime(builder.Created.Add(-30 * 24 * time.Hour))
	}))
	w.reconcile()
	assert.Equal(t, controlplanev1.StateConfiguring, w.get().Status.State)
	assert.Equal(t, 5*time.Minute, w.again)
}

// A queue is not late: provider-terraform applies one Workspace at a time.
func TestAQueuedApplyHasNoTimeout(t *testing.T) {
	w := newWorld(t, prepared()...)
	w.reconcile()
	w.terraform(builder.NotUpToDate(infrav1.WorkspaceUnclaimedReason, "not yet claimed"))
	w.clock.Pass(24 * time.Hour)
	w.reconcile()
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)
	assert.Zero(t, w.again)
}

func TestNoTimeoutIsReportedWhilePaused(t *testing.T) {
	w := newWorld(t, prepared()...)
	w.reach(lates()["the control plane"])
	w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	w.reconcile()
	assert.Equal(t, "False NotFailed", w.story()["Failed"])
	assert.Equal(t, "True Paused", w.story()["Paused"])
}

func TestNoFalseTimeoutWhenClocksJump(t *testing.T) {
	for name, l := range lates() {
		for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			t.Run(name+" "+jump.String(), func(t *testing.T) {
				w := newWorld(t, prepared()...)
				l.begin(w)
				w.reconcile()
				w.clock.Pass(time.Minute)
				w.clock.Jump(jump)
				w.reconcile()
				assert.NotEqual(t, controlplanev1.StateFailed, w.get().Status.State)

				w.State = &engine.StateCache{Clock: w.clock} // The manager restarts, and knows the wrong clock only.
				w.reconcile()
				assert.NotEqual(t, controlplanev1.StateFailed, w.get().Status.State, "after a restart")
				w.clock.Pass(l.limit)
				w.reconcile()
				assert.Equal(t, controlplanev1.StateFailed, w.get().Status.State, "a timeout is only late")
			})
		}
	}
}
