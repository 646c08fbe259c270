// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

// failingEnvironment is an environment whose first apply fails, with recovery.
func failingEnvironment(t *testing.T, class string, options ...builder.Option) *environment {
	env := newEnvironment(t, prepared(options...)...)
	env.Recovery, env.Workspaces = metrics.NewRecovery(prometheus.NewRegistry()), workspaces(func() string { return "" })
	env.reconcile()
	env.fail(class)
	return env
}

// workspaces returns what shows that a Workspace does not fail any more.
type workspaces func() string

func (w workspaces) NotFailing(context.Context, *infrav1.WorkspaceTemplateApply) (string, error) {
	return w(), nil
}

// fail makes the WorkspaceTemplateApply fail.
func (env *environment) fail(class string) {
	env.Helper()
	apply := read(env, applyName, &infrav1.WorkspaceTemplateApply{})
	builder.NotUpToDate(infrav1.ApplyFailedReason, "Terraform apply failed")(apply)
	apply.Spec.WorkspaceName = apply.Name
	apply.Status.WorkspaceRef, apply.Status.LastFailureClass, apply.Status.FailureInputs = &infrav1.WorkspaceReference{UID: "workspace"}, class, "1"
	require.NoError(env, env.Client.Update(env.Context(), apply))
}

func (env *environment) recovering() string {
	if env.get() == nil {
		return ""
	}
	return env.summary()[infrav1.RecoveringCondition]
}

func (env *environment) requested() string {
	if apply := read(env, applyName, &infrav1.WorkspaceTemplateApply{}); apply != nil {
		return apply.Annotations[naming.RecoveryAnnotation]
	}
	return ""
}

func TestRecovery(t *testing.T) {
	env := failingEnvironment(t, "Network")
	env.reconcile()
	assert.Equal(t, "False WaitingForRetry", env.recovering())
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	assert.Contains(t, env.message("Ready"), "recovery attempt 1 of 5 (Reapply) starts at ")
	assert.Empty(t, env.requested())
	assert.Empty(t, env.reconcile(), "nothing is written while it waits")

	env.clock.Pass(3 * time.Minute)
	assert.Equal(t, []string{"patch", "status"}, env.reconcile())
	assert.True(t, strings.HasPrefix(env.requested(), "Reapply/workspace/"), env.requested())
	assert.Equal(t, "True Recovering", env.recovering())
	assert.Equal(t, infrav1.StateRecovering, env.get().Status.State)
	assert.Equal(t, controlplanev1.PhaseCreating, env.get().Status.Phase)
	assert.Equal(t, controlplanev1.PhaseReady, phase(infrav1.StateRecovering, true), "of one that was initialized")
	assert.Equal(t, int32(1), *env.get().Status.Recovery.Attempts)
	assert.Empty(t, env.reconcile(), "nothing is written while it runs")

	env.terraformMade()
	env.reconcile()
	assert.Equal(t, "False Recovered", env.recovering())
	assert.Equal(t, "Succeeded", env.get().Status.Recovery.LastOutcome)
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	assert.Empty(t, env.reconcile())
}

func TestARecoveryIsTheStateAgainAfterItWasBlocked(t *testing.T) {
	env := failingEnvironment(t, "Network")
	env.reconcile()
	env.clock.Pass(3 * time.Minute)
	env.reconcile()
	require.Equal(t, infrav1.StateRecovering, env.get().Status.State)

	id := read(env, "demo", &infrav1.CAPTCluster{}).Status.VPC.ID
	change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "" })
	env.reconcile()
	require.Equal(t, infrav1.StateValidating, env.get().Status.State)
	change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = id })
	env.reconcile()
	assert.Equal(t, "True Recovering", env.recovering())
	assert.Equal(t, infrav1.StateRecovering, env.get().Status.State)
}

func TestNothingIsRecovered(t *testing.T) {
	for name, change := range map[string]func(*environment){
		"while paused":                 func(env *environment) { env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) }) },
		"with a manager that does not": func(env *environment) { env.Recovery = nil },
		"without retries": func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.Recovery = &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](0)}
			})
		},
		"while it is deleted":      func(env *environment) { require.NoError(env, env.Client.Delete(env.Context(), env.get())) },
		"of an error for the user": func(env *environment) { env.fail("Auth") },
		"while the VPC is missing": func(env *environment) {
			change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "" })
		},
		"before the adoption": func(env *environment) {
			change(env, applyName, &infrav1.WorkspaceTemplateApply{}, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.WorkspaceName = "" })
		},
		"for another shard": func(env *environment) { env.WatchFilterValue = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			env := failingEnvironment(t, "Network")
			change(env)
			for range 4 {
				env.reconcile()
				env.clock.Pass(time.Hour)
			}
			assert.Empty(t, env.requested())
			assert.NotEqual(t, "True Recovering", env.recovering())
		})
	}
}

func TestExhaustedRecovery(t *testing.T) {
	once := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Recovery = &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](1)}
	})
	env := failingEnvironment(t, "Network", once)
	for range 3 {
		env.reconcile()
		env.clock.Pass(10 * time.Minute)
	}
	assert.Equal(t, "False RecoveryExhausted", env.recovering())
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
	assert.Empty(t, env.reconcile())

	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.WithAnnotation(naming.RetryAnnotation, "1")(c) })
	env.reconcile()
	assert.Equal(t, "False WaitingForRetry", env.recovering(), "the annotation starts again")
	env.clock.Pass(time.Second)
	env.reconcile()
	assert.Equal(t, infrav1.StateRecovering, env.get().Status.State)
}

// recreates has the only action RecreateWorkspace.
func recreates() builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Recovery = &infrav1.RecoveryStrategy{Actions: []infrav1.RecoveryAction{{
			Type: infrav1.RecoveryRecreateWorkspace, Parameters: map[string]string{infrav1.AllowDestroyParameter: "true"},
		}}}
	})
}

// neverInitialized makes the WorkspaceTemplateApply one of which nothing shows that it was ever applied.
func (env *environment) neverInitialized() {
	env.Helper()
	apply := read(env, applyName, &infrav1.WorkspaceTemplateApply{})
	builder.WithAnnotation(naming.ExternalNameUIDAnnotation, string(apply.UID))(apply)
	apply.Finalizers, apply.CreationTimestamp = []string{infrav1.WorkspaceTemplateApplyFinalizer}, metav1.NewTime(builder.Created.Add(time.Hour))
	require.NoError(env, env.Client.Update(env.Context(), apply))
}

func TestRecreateWorkspace(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(*environment)
		deleted bool
	}{
		"never initialized": {func(*environment) {}, true},
		"protected": {func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) {
				builder.WithDeletionProtection(infrav1.DeletionProtectionEnabled)(c)
			})
		}, false},
		"a protected CAPTCluster": {func(env *environment) {
			change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { builder.WithDeletionProtection(infrav1.DeletionProtectionEnabled)(c) })
		}, false},
		"a Workspace that does not fail any more": {func(env *environment) {
			env.Workspaces = workspaces(func() string { return "Workspace demo was applied" })
		}, false},
		"a kubeconfig": {func(env *environment) {
			require.NoError(env, env.Client.Create(env.Context(), builder.SecretWith(naming.KubeconfigSecret("demo"), nil)))
		}, false},
		"an endpoint": {func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.WithEndpoint("x", 443)(c) })
		}, false},
		"an empty connection Secret": {func(env *environment) { require.NoError(env, env.Client.Create(env.Context(), connection(nil))) }, true},
		"outputs":                    {func(env *environment) { require.NoError(env, env.Client.Create(env.Context(), connection(outputs()))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := failingEnvironment(t, "Network", recreates())
			env.neverInitialized()
			row.change(env)
			env.reconcile()
			env.clock.Pass(time.Hour)
			env.reconcile()
			assert.Equal(t, row.deleted, !read(env, applyName, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero())
			assert.Equal(t, row.deleted, env.sent("Warning RecreatingControlPlane Terraform destroys and recreates the control plane"))
		})
	}
}

// A retry of the provider can succeed between the decision and the deletion, and the cache shows that later.
func TestTheControlPlaneIsNotRecreatedIfARetryHasJustSucceeded(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(*environment)
		message string
	}{
		"the Workspace": {func(*environment) {}, "Workspace demo was applied"},
		"the CAPTCluster is protected": {func(env *environment) {
			env.Uncached = builder.NewAPI(builder.Clients(env.get(), read(env, applyName, &infrav1.WorkspaceTemplateApply{}), read(env, "demo", &clusterv1.Cluster{}),
				builder.CAPTCluster("demo", builder.WithDeletionProtection(infrav1.DeletionProtectionEnabled))))
		}, "spec.deletionProtection of CAPTCluster demo is Enabled. To allow the action, set it to Disabled"},
		"the control plane is another one": {func(env *environment) {
			another := env.get()
			another.UID = "another"
			env.Uncached = builder.NewAPI(builder.Clients(another, read(env, applyName, &infrav1.WorkspaceTemplateApply{}), read(env, "demo", &clusterv1.Cluster{}), vpc()))
		}, "was deleted or recreated"},
		"its WorkspaceTemplateApply is another one": {func(env *environment) {
			another := read(env, applyName, &infrav1.WorkspaceTemplateApply{})
			another.UID = "another"
			env.Uncached = builder.NewAPI(builder.Clients(env.get(), another, read(env, "demo", &clusterv1.Cluster{}), vpc()))
		}, "was deleted or recreated"},
		"its Cluster was deleted": {func(env *environment) {
			env.Uncached = builder.NewAPI(builder.Clients(env.get(), read(env, applyName, &infrav1.WorkspaceTemplateApply{}), vpc()))
		}, "was deleted or recreated"},
	} {
		t.Run(name, func(t *testing.T) {
			env := failingEnvironment(t, "Network", recreates())
			env.neverInitialized()
			env.reconcile()
			env.clock.Pass(time.Hour)
			row.change(env)
			reads := 0
			env.Workspaces = workspaces(func() string {
				if reads++; reads > 1 { // The first one is for the decision.
					return "Workspace demo was applied"
				}
				return ""
			})
			env.reconcile()
			assert.True(t, read(env, applyName, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero())
			assert.Equal(t, "False RecoveryBlocked", env.recovering())
			assert.Contains(t, env.message(infrav1.RecoveringCondition), row.message)
		})
	}
}

// sent reports whether an event begins with a text; it drains those that were sent.
func (env *environment) sent(text string) (found bool) {
	for recorder := env.Recorder.(*events.FakeRecorder); len(recorder.Events) > 0; {
		found = strings.HasPrefix(<-recorder.Events, text) || found
	}
	return found
}

func TestTheMetricsOfRecovery(t *testing.T) {
	once := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Recovery = &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](1)}
	})
	env, registry := failingEnvironment(t, "Network", once), prometheus.NewRegistry()
	env.Recovery = metrics.NewRecovery(registry)
	value := func(name string) (found *float64) {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == name {
				metric := family.GetMetric()[0]
				found = ptr.To(metric.GetGauge().GetValue() + metric.GetCounter().GetValue())
				if name == "capt_recovery_attempts_total" {
					assert.Equal(t, `label:{name:"action" value:"Reapply"} label:{name:"class" value:"Network"} label:{name:"kind" value:"CAPTControlPlane"} label:{name:"result" value:"TimedOut"}`,
						strings.TrimSpace(strings.ReplaceAll(strings.Split(metric.String(), " counter:")[0], "  ", " ")))
				}
			}
		}
		return found
	}
	env.reconcile()
	assert.Equal(t, ptr.To(float64(env.get().Status.Recovery.NextAttemptTime.Unix())), value("capt_recovery_next_attempt_timestamp_seconds"))
	env.clock.Pass(10 * time.Minute)
	env.reconcile()
	for _, name := range []string{"capt_recovery_next_attempt_timestamp_seconds", "capt_recovery_exhausted", "capt_recovery_attempts_total"} {
		assert.Nil(t, value(name), "%s while the attempt runs", name)
	}
	env.clock.Pass(10 * time.Minute)
	for range 3 {
		env.reconcile()
	}
	assert.Equal(t, ptr.To(1.0), value("capt_recovery_exhausted"))
	assert.Equal(t, ptr.To(1.0), value("capt_recovery_attempts_total"), "it is counted once")
	assert.Nil(t, value("capt_recovery_next_attempt_timestamp_seconds"))
	env.terraformMade()
	env.reconcile()
	assert.Nil(t, value("capt_recovery_exhausted"))
}

// brokenVPC makes the VPC fail.
func (env *environment) brokenVPC(reason string) {
	change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) {
		conditions.Set(c, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason})
	})
}

// What a control plane depends on fails: it still serves, and Terraform runs once.
func TestABrokenDependencyIsReportedAndReapplied(t *testing.T) {
	for name, row := range map[string]struct {
		reason   string
		strategy *infrav1.RecoveryStrategy
		status   controlplanev1.HealthState
		requests bool
	}{
		"a user must correct what the VPC needs": {"blocked", nil, "Unhealthy", false},
		"the VPC fails":                          {infrav1.ApplyFailedReason, nil, "Unhealthy", true},
		"the VPC is being updated":               {infrav1.ProvisioningReason, nil, "Healthy", false},
		"recovery is off":                        {infrav1.ApplyFailedReason, &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](0)}, "Unhealthy", false},
		"only for the API server":                {infrav1.ApplyFailedReason, &infrav1.RecoveryStrategy{OnUnhealthy: []infrav1.RecoveryCheck{"APIServer"}}, "Unhealthy", false},
		"also for the dependencies":              {infrav1.ApplyFailedReason, &infrav1.RecoveryStrategy{OnUnhealthy: []infrav1.RecoveryCheck{"APIServer", "Dependencies"}}, "Unhealthy", true},
	} {
		t.Run(name, func(t *testing.T) {
			env := built(t)
			env.Recovery = metrics.NewRecovery(prometheus.NewRegistry())
			apply := read(env, applyName, &infrav1.WorkspaceTemplateApply{})
			apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = apply.Name, &infrav1.WorkspaceReference{UID: "workspace"}
			require.NoError(t, env.Client.Update(t.Context(), apply))
			env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Recovery = row.strategy })
			if row.reason == "blocked" {
				row.reason = infrav1.ApplyFailedReason
				change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) {
					conditions.Set(c, metav1.Condition{Type: infrav1.RecoveringCondition, Status: metav1.ConditionFalse, Reason: infrav1.RecoveryBlockedReason})
				})
			}
			env.brokenVPC(row.reason)
			env.reconcile()
			env.clock.Pass(3 * time.Minute)
			env.reconcile()
			check := health.Find(env.get().Status.Health, health.Dependencies)
			assert.Equal(t, row.status, check.Status)
			assert.Equal(t, row.status == "Unhealthy", strings.Contains(check.Message, "not ready: CAPTCluster demo (ApplyFailed)"), check.Message)
			assert.Equal(t, "True Ready", env.summary()["Ready"], "it serves")
			assert.Equal(t, row.requests, strings.HasPrefix(env.requested(), "Reapply/workspace/"))
			assert.Equal(t, row.requests, env.recovering() == "True Recovering")
			assert.Empty(t, env.reconcile())
		})
	}
}

// A user has to find out first which VPC exists: Terraform could destroy what it has in the other one.
func TestAControlPlaneInAVPCThatWasReplacedIsNotReapplied(t *testing.T) {
	for replacedBy, want := range map[string]string{"": health.Dependencies, "vpc-2": ""} {
		o := onceReady(t)
		o.Apply.Live.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "workspace"}
		p := o.plan()
		p.Broken = "CAPTCluster demo (ApplyFailed)"
		o.Infrastructure.Status.VPC.ReplacedBy = replacedBy
		assert.Equal(t, want, o.failing(o.controlPlane, p).Check, replacedBy)
	}
}

// The user must act about the Workspace, so that another run of Terraform cannot help.
func TestWhatAUserMustRepairIsNotReapplied(t *testing.T) {
	for reason, want := range map[string]bool{
		infrav1.WorkspaceNotReconciledReason: true, infrav1.StateNotSavedReason: false, infrav1.WorkspacePausedReason: false, infrav1.WorkspaceConflictReason: false, infrav1.TemplateInvalidReason: false,
	} {
		env := built(t)
		env.Recovery = metrics.NewRecovery(prometheus.NewRegistry())
		apply := read(env, applyName, &infrav1.WorkspaceTemplateApply{})
		builder.NotUpToDate(reason, "why")(apply)
		apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = apply.Name, &infrav1.WorkspaceReference{UID: "workspace"}
		require.NoError(t, env.Client.Update(t.Context(), apply))
		require.Contains(t, env.reconcile(), "status")
		require.Equal(t, infrav1.StateDegraded, env.get().Status.State)
		assert.Equal(t, controlplanev1.HealthUnhealthy, health.Status(env.get().Status.Health, health.Workspace), reason)
		env.clock.Pass(3 * time.Minute)
		env.reconcile()
		assert.Equal(t, want, env.requested() != "", reason)
	}
}

// A Secret that is missing for long does not come with another run of Terraform.
func TestOnlyATimeoutOfTerraformIsRecovered(t *testing.T) {
	for reason, want := range map[string]failure.Class{infrav1.ProvisioningReason: failure.ClassTimeout, infrav1.WaitingForDependenciesReason: ""} {
		o := newObservation(t).apply(builder.NotUpToDate(reason, ""))
		o.Apply.Live.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "workspace"}
		o.Running.Terraform, o.RunningSecret = ptr.To(time.Hour), ptr.To(time.Hour)
		p := o.plan()
		o.Apply.Live = p.Apply.Live
		assert.Equal(t, want, o.failing(o.controlPlane, p).Class, reason)
	}
}

// A Fargate profile is recovered while nothing else fails, and the first one that fails first.
func TestAFailingFargateProfileIsRecovered(t *testing.T) {
	fails := func(name, uid string) fargate.Profile {
		p := profile(name, failing)
		p.Apply.Live.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: types.UID(uid)}
		return p
	}
	o := onceReady(t)
	of(profile("a", builder.UpToDate(nil)), fails("b", "b"), fails("c", "c"))(o)
	got := o.failing(o.controlPlane, o.plan())
	assert.Equal(t, "b", got.Profile)
	assert.EqualValues(t, "b", got.Workspace)
	assert.Equal(t, failure.ClassUnknown, got.Class)
	o.apply(failing)
	o.Apply.Live.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "workspace"}
	assert.Empty(t, o.failing(o.controlPlane, o.plan()).Profile, "the control plane fails, too")
}
