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
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// late is a step that does not end.
type late struct {
	// begin makes the step begin now.
	begin func(env *environment)
	// end ends it.
	end    func(env *environment)
	limit  time.Duration
	reason string
	// shown is the condition that reports it.
	shown string
	// then is the state after its end.
	then infrav1.State
	// raise gives it more time.
	raise func(timeouts *controlplanev1.Timeouts)
}

// change writes an object as another client does.
func change[O client.Object](env *environment, name string, object O, change func(O)) {
	env.Helper()
	found := read(env, name, object)
	change(found)
	require.NoError(env, env.Client.Update(context.Background(), found))
}

func started(at time.Time) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.StartedTime = ptr.To(metav1.NewTime(at)) })
}

func lates() map[string]late {
	return map[string]late{
		"the VPC": {
			begin: func(env *environment) {
				at := env.clock.Now()
				change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) {
					c.Status.VPC.ID, c.Status.WorkspaceTemplateApply.StartedTime = "", ptr.To(metav1.NewTime(at))
				})
			},
			end: func(env *environment) {
				change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" })
			},
			limit: 15 * time.Minute, reason: "VPCReadyTimeout", shown: "DependenciesReady", then: infrav1.StateProvisioning,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.VPCReadySeconds = 7200 },
		},
		"the control plane": {
			begin: func(env *environment) {
				env.reconcile()
				env.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "Terraform applies"))
				env.terraform(started(env.clock.Now()))
			},
			end:   func(env *environment) { env.terraformMade() },
			limit: 30 * time.Minute, reason: "ControlPlaneTimeout", shown: "WorkspaceReady", then: infrav1.StateReady,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.ControlPlaneSeconds = 7200 },
		},
		"a CAPTCluster that does not exist": {
			begin: func(env *environment) { require.NoError(env, env.Delete(env.T.Context(), vpc())) },
			end: func(env *environment) {
				created := vpc()
				created.ResourceVersion = ""
				require.NoError(env, env.Create(env.T.Context(), created))
			},
			limit: 15 * time.Minute, reason: "WaitTimeout", shown: "DependenciesReady", then: infrav1.StateProvisioning,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.WaitSeconds = 7200 },
		},
		"a Secret that it waits for": {
			begin: func(env *environment) {
				env.reconcile()
				env.terraform(builder.NotUpToDate(infrav1.WaitingForDependenciesReason, "Secret network is missing"))
				at := metav1.NewTime(env.clock.Now())
				env.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
					apply.Status.MissingDependencies = []infrav1.MissingDependency{{Kind: "Secret", Name: "network", Message: "is missing", Since: &at}}
				}))
			},
			end:   func(env *environment) { env.terraformMade() },
			limit: 5 * time.Minute, reason: "SecretTimeout", shown: "WorkspaceReady", then: infrav1.StateReady,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.SecretSeconds = 7200 },
		},
		"the connection Secret": {
			begin: func(env *environment) {
				env.reconcile()
				at := metav1.NewTime(env.clock.Now())
				env.terraform(builder.UpToDate(outputs()))
				env.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.Conditions[0].LastTransitionTime = at }))
			},
			end:   func(env *environment) { env.terraformMade() },
			limit: 5 * time.Minute, reason: "SecretTimeout", shown: "KubeconfigReady", then: infrav1.StateReady,
			raise: func(timeouts *controlplanev1.Timeouts) { timeouts.SecretSeconds = 7200 },
		},
	}
}

func (env *environment) summary() map[string]string {
	return builder.ConditionSummary(env.get().Status.Conditions)
}

// reach lets the time of a step pass, with the reconciles that the reconciler requested.
func (env *environment) reach(l late) {
	env.Helper()
	l.begin(env)
	env.reconcile()
	require.NotEqual(env, infrav1.StateFailed, env.get().Status.State)
	for left := l.limit; left > 0; {
		require.NotZero(env, env.again, "no watch reports it")
		require.LessOrEqual(env, env.again, left)
		env.clock.Pass(env.again)
		left -= env.again
		env.reconcile()
	}
	require.Equal(env, infrav1.StateFailed, env.get().Status.State)
}

func TestATimeoutIsReportedUntilARetry(t *testing.T) {
	for name, l := range lates() {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, prepared()...)
			l.begin(env)
			env.reconcile()
			env.clock.Pass(l.limit - time.Second)
			env.reconcile()
			assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State, "a second before")
			assert.Equal(t, time.Second, env.again)

			env.clock.Pass(time.Second)
			env.reconcile()
			got := env.get().Status
			assert.Equal(t, infrav1.StateFailed, got.State)
			assert.Equal(t, controlplanev1.PhaseFailed, got.Phase)
			summary := builder.ConditionSummary(got.Conditions)
			assert.Equal(t, "True "+l.reason, summary["Failed"])
			assert.Equal(t, "False "+l.reason, summary[l.shown])
			assert.Equal(t, "False "+l.reason, summary["Ready"])
			message := meta.FindStatusCondition(got.Conditions, "Failed").Message
			assert.Contains(t, message, "timed out after "+duration.HumanDuration(l.limit))
			assert.Contains(t, message, naming.RetryAnnotation)

			assert.Empty(t, env.reconcile(), "it is reported once")
			assert.Zero(t, env.again, "nothing changes with time any more")

			env.clock.Pass(time.Second)
			env.State = &engine.StateCache{Clock: env.clock}
			assert.Empty(t, env.reconcile(), "a manager that is restarted does not revert it")

			for _, value := range []string{"1", "2"} {
				env.spec(func(c *controlplanev1.CAPTControlPlane) {
					c.Annotations = map[string]string{naming.RetryAnnotation: value}
				})
				env.reconcile()
				assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State)
				assert.Equal(t, controlplanev1.PhaseCreating, env.get().Status.Phase)
				assert.Equal(t, "False NotFailed", env.summary()["Failed"])
				assert.Equal(t, value, env.get().Status.Recovery.Retry)
				assert.Empty(t, env.reconcile(), "a retry is noted once")

				env.clock.Pass(l.limit)
				env.reconcile()
				assert.Equal(t, "True "+l.reason, env.summary()["Failed"], "the timer was restarted")
			}
		})
	}
}

// The timeout was raised, or a retry asked for, while no manager ran; or Terraform succeeds late.
func TestWhatEndsATimeout(t *testing.T) {
	for name, l := range lates() {
		for how, end := range map[string]func(env *environment){
			"raised": func(env *environment) {
				env.spec(func(c *controlplanev1.CAPTControlPlane) { l.raise(&c.Spec.Timeouts); c.Generation++ })
			},
			"retry": func(env *environment) {
				env.spec(func(c *controlplanev1.CAPTControlPlane) {
					c.Annotations = map[string]string{naming.RetryAnnotation: "1"}
				})
			},
			"success": l.end,
		} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", how, " restarted=", restarted), func(t *testing.T) {
					env := newEnvironment(t, prepared()...)
					env.reach(l)
					if restarted {
						env.clock.Pass(time.Minute)
						env.State = &engine.StateCache{Clock: env.clock}
					}
					end(env)
					env.reconcile()
					assert.Equal(t, "False NotFailed", env.summary()["Failed"])
					if how == "success" {
						assert.Equal(t, l.then, env.get().Status.State)
					}
					if how == "raised" && !restarted {
						assert.Equal(t, 2*time.Hour-l.limit, env.again)
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
			"waitSeconds": 900, "deletionSeconds": 3600, "fargateProfileSeconds": 1800,
			"vpcReadySeconds": defaultVPCReadySeconds, "controlPlaneSeconds": defaultControlPlaneSeconds, "secretSeconds": defaultSecretSeconds,
		} {
			assert.Contains(t, timeouts[field].Description, "the default is "+strconv.Itoa(want)+".", field)
			assert.LessOrEqual(t, *timeouts[field].Maximum, (24 * time.Hour).Seconds(), field)
		}
	}
}

// A spec that changes the Workspace is a new attempt.
func TestAChangeOfTheWorkspaceRestartsTheTimeout(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reach(lates()["the control plane"])
	env.terraform(started(env.clock.Now()))
	env.reconcile()
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	assert.Equal(t, 30*time.Minute, env.again)
}

// A control plane that is made for a WorkspaceTemplateApply which has been Ready for a month begins to wait now.
func TestTheSecretTimeoutStartsWithTheControlPlane(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraform(builder.UpToDate(outputs()))
	env.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions[0].LastTransitionTime = metav1.NewTime(builder.Created.Add(-30 * 24 * time.Hour))
	}))
	env.reconcile()
	assert.Equal(t, infrav1.StateConfiguring, env.get().Status.State)
	assert.Equal(t, 5*time.Minute, env.again)
}

// A Workspace that provider-terraform does not begin with has the timeout of waits, as for a VPC: the provider may not run.
func TestAProviderThatDoesNotBeginIsATimeout(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraform(builder.NotUpToDate(infrav1.WorkspaceNotReconciledReason, "not yet claimed"))
	env.reconcile()
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	assert.Equal(t, 15*time.Minute, env.again)
	env.clock.Pass(env.again)
	env.reconcile()
	assert.Equal(t, "True WaitTimeout", env.summary()["Failed"])
	env.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "Terraform applies"))
	env.reconcile()
	assert.Equal(t, "False NotFailed", env.summary()["Failed"])
}

func TestNoTimeoutIsReportedWhilePaused(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reach(lates()["the control plane"])
	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	env.reconcile()
	assert.Equal(t, "False NotFailed", env.summary()["Failed"])
	assert.Equal(t, "True Paused", env.summary()["Paused"])
}

func TestNoFalseTimeoutWhenClocksJump(t *testing.T) {
	for name, l := range lates() {
		for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			t.Run(name+" "+jump.String(), func(t *testing.T) {
				env := newEnvironment(t, prepared()...)
				l.begin(env)
				env.reconcile()
				env.clock.Pass(time.Minute)
				env.clock.Jump(jump)
				env.reconcile()
				assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State)

				env.State = &engine.StateCache{Clock: env.clock} // The manager restarts, and knows the wrong clock only.
				env.reconcile()
				assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State, "after a restart")
				env.clock.Pass(l.limit)
				env.reconcile()
				assert.Equal(t, infrav1.StateFailed, env.get().Status.State, "a timeout is only late")
			})
		}
	}
}

// A control plane whose VPC is Failed is Failed with that cause, as long as the VPC is.
func TestAFailedVPCFailsItsControlPlane(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	set := func(status metav1.ConditionStatus) {
		change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) {
			c.Status.VPC.ID = ""
			meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: "Failed", Status: status, Reason: "TemplateNotFound", Message: "WorkspaceTemplate vpc does not exist"})
			meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "TemplateNotFound", Message: "WorkspaceTemplate vpc does not exist"})
		})
		env.reconcile()
	}
	set(metav1.ConditionFalse)
	assert.Equal(t, infrav1.StateValidating, env.get().Status.State)
	assert.Zero(t, env.again, "the VPC has timeouts of its own")
	set(metav1.ConditionTrue)
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
	assert.Equal(t, "True TemplateNotFound", env.summary()["Failed"])
	assert.Equal(t, "CAPTCluster demo has failed: WorkspaceTemplate vpc does not exist", meta.FindStatusCondition(env.get().Status.Conditions, "Failed").Message)
	assert.Equal(t, "False WaitingForInfrastructure", env.summary()["Ready"])
	assert.EqualValues(t, "Unhealthy", health.Status(env.get().Status.Health, health.Dependencies))
	assert.Empty(t, env.reconcile())
	set(metav1.ConditionFalse)
	assert.Equal(t, infrav1.StateValidating, env.get().Status.State)

	o := newObservation(t).with(func(f *Facts) {
		conditions.Set(f.Infrastructure, metav1.Condition{Type: "Failed", Status: metav1.ConditionTrue, Reason: "TemplateNotFound"})
	})
	o.controlPlane.Spec.Version = "latest"
	assert.Equal(t, infrav1.StateValidating, o.status().State, "it does not wait for the VPC")
}

func TestAProfileThatTakesTooLong(t *testing.T) {
	o := configured(t)
	of(profile("a", working))(o)
	o.Fargate.Profiles[0].Running = ptr.To(30*time.Minute - time.Second)
	assert.Equal(t, controlplanev1.FargateProfileStateCreating, o.status().FargateProfiles[0].State)
	o.Fargate.Profiles[0].Running = ptr.To(30 * time.Minute)
	got := o.status()
	assert.Equal(t, controlplanev1.FargateProfileStateFailed, got.FargateProfiles[0].State)
	assert.Contains(t, got.FargateProfiles[0].FailureMessage, "timed out after 30m (spec.timeouts.fargateProfileSeconds): waiting for Terraform to create Fargate profile a")
	assert.Equal(t, "True FargateProfileFailed", builder.ConditionSummary(got.Conditions)["FargateProfileFailed"])
	o.Paused = "annotation"
	assert.Equal(t, controlplanev1.FargateProfileStateCreating, o.status().FargateProfiles[0].State, "timeouts are not reported while paused")
	o.Paused, o.controlPlane.Spec.Timeouts.FargateProfileSeconds = "", 7200
	assert.Equal(t, controlplanev1.FargateProfileStateCreating, o.status().FargateProfiles[0].State)
}

func TestWhichTimeoutAConditionHas(t *testing.T) {
	running := ptr.To(time.Minute)
	const dependencies, workspace, kubeconfig = controlplanev1.DependenciesReadyCondition, controlplanev1.WorkspaceReadyCondition, controlplanev1.KubeconfigReadyCondition
	for name, row := range map[string]struct {
		conditionType, reason string
		change                func(f *Facts)
		want                  string
	}{
		"the VPC":                      {dependencies, controlplanev1.WaitingForInfrastructureReason, func(f *Facts) { f.RunningVPC = running }, "spec.timeouts.vpcReadySeconds"},
		"a VPC that does not run":      {dependencies, controlplanev1.WaitingForInfrastructureReason, func(*Facts) {}, ""},
		"a VPC of another provider":    {dependencies, controlplanev1.WaitingForInfrastructureReason, func(f *Facts) { f.Infrastructure = nil }, "spec.timeouts.waitSeconds"},
		"the Cluster":                  {dependencies, infrav1.WaitingForOwnerReason, func(f *Facts) { f.RunningVPC = running }, "spec.timeouts.waitSeconds"},
		"a Secret":                     {workspace, infrav1.WaitingForDependenciesReason, func(f *Facts) { f.RunningSecret = running }, "spec.timeouts.secretSeconds"},
		"another object":               {workspace, infrav1.WaitingForDependenciesReason, func(*Facts) {}, "spec.timeouts.waitSeconds"},
		"a provider that never began":  {workspace, infrav1.WorkspaceNotReconciledReason, func(*Facts) {}, "spec.timeouts.waitSeconds"},
		"a provider that began":        {workspace, infrav1.WorkspaceNotReconciledReason, func(f *Facts) { f.Running.Terraform = running }, "spec.timeouts.controlPlaneSeconds"},
		"Terraform":                    {workspace, infrav1.ProvisioningReason, func(f *Facts) { f.Running.Terraform, f.RunningVPC = running, running }, "spec.timeouts.controlPlaneSeconds"},
		"an output":                    {kubeconfig, controlplanev1.KubeconfigMissingReason, func(f *Facts) { f.RunningSecret = running }, "spec.timeouts.secretSeconds"},
		"an output, since an hour":     {kubeconfig, controlplanev1.KubeconfigMissingReason, func(*Facts) {}, ""},
		"profiles have one of each":    {controlplanev1.FargateProfileReadyCondition, "x", func(f *Facts) { f.RunningSecret = running }, ""},
		"nothing times out in a pause": {kubeconfig, controlplanev1.KubeconfigMissingReason, func(f *Facts) { f.RunningSecret, f.Paused = running, "annotation" }, ""},
	} {
		o := newObservation(t)
		o.Running, o.RunningVPC, o.RunningSecret = owner.Running{}, nil, nil
		row.change(o.Facts)
		condition, field := engine.False(row.conditionType, row.reason, ""), ""
		if timeout := o.timeoutOf(o.controlPlane, &Plan{Apply: owner.Plan{Owner: ownerOf(o.controlPlane)}}, &condition); timeout != nil {
			field = timeout.Field
		}
		assert.Equal(t, row.want, field, name)
	}
}

func TestSinceWhenASecretIsMissing(t *testing.T) {
	at := func(minutes int) *metav1.Time {
		return ptr.To(metav1.NewTime(builder.Created.Add(time.Duration(minutes) * time.Minute)))
	}
	missing := func(kind string, minutes int) infrav1.MissingDependency {
		return infrav1.MissingDependency{Kind: kind, Since: at(minutes)}
	}
	done := func(minutes int) builder.Option {
		return builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			builder.UpToDate(nil)(a)
			a.Status.Conditions[0].LastTransitionTime = *at(minutes)
		})
	}
	waits := func(all ...infrav1.MissingDependency) builder.Option {
		return builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			builder.NotUpToDate(infrav1.WaitingForDependenciesReason, "")(a)
			a.Status.MissingDependencies = all
		})
	}
	for name, row := range map[string]struct {
		apply builder.Option
		want  *metav1.Time
	}{
		"Terraform is done":               {done(10), at(10)},
		"Terraform was done before":       {done(2), at(5)},
		"a Secret":                        {waits(missing("Secret", 7)), at(7)},
		"two Secrets":                     {waits(missing("Secret", 8), missing("Secret", 7), missing("Secret", 9)), at(7)},
		"a Secret and another object":     {waits(missing("Workspace", 6), missing("Secret", 7)), at(7)},
		"another object":                  {waits(missing("Workspace", 6)), nil},
		"nothing, although it is running": {builder.NotUpToDate(infrav1.ProvisioningReason, ""), nil},
	} {
		o := newObservation(t, builder.WithCreation(at(5).Time)).apply(row.apply)
		assert.Equal(t, row.want, o.secretMissingSince(o.controlPlane), name)
		o.controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		assert.Nil(t, o.secretMissingSince(o.controlPlane), "it is reported at once: "+name)
	}
	o := newObservation(t).with(func(f *Facts) { f.Apply.Live = nil })
	assert.Nil(t, o.secretMissingSince(o.controlPlane))
}

func TestSinceWhenAVPCIsCreated(t *testing.T) {
	o := newObservation(t)
	o.Infrastructure.Status.WorkspaceTemplateApply.StartedTime = ptr.To(metav1.NewTime(builder.Created))
	assert.Equal(t, builder.Created, o.vpcStarted().Time)
	o.Infrastructure.Status.WorkspaceTemplateApply = nil
	assert.Nil(t, o.vpcStarted())
	o.Infrastructure = nil
	assert.Nil(t, o.vpcStarted())
}

// What a reconcile waits for has its own time, which is not that of what goes on meanwhile.
func TestWhenAControlPlaneIsReconciledAgain(t *testing.T) {
	running := func(o *observation) { o.Running.Terraform = ptr.To(20 * time.Minute) }
	invalid := func(o *observation) {
		o.controlPlane.Spec.Version = "latest"
		o.Running.Reason, o.Running.Persists = infrav1.InvalidVersionReason, time.Second
	}
	profileSince := func(option builder.Option) func(o *observation) {
		p := profile("a", option)
		p.Running = ptr.To(20 * time.Minute)
		return of(p)
	}
	for name, row := range map[string]struct {
		observation *observation
		is          []func(o *observation)
		want        time.Duration
	}{
		"at rest":                  {onceReady(t), nil, 0},
		"Terraform runs":           {newObservation(t).apply(working), []func(o *observation){running}, 10 * time.Minute},
		"nothing during a pause":   {newObservation(t).apply(working), []func(o *observation){running, func(o *observation) { o.Paused = "annotation" }}, 0},
		"a profile is created":     {onceReady(t), []func(o *observation){profileSince(working)}, 10 * time.Minute},
		"a profile that is ready":  {onceReady(t), []func(o *observation){profileSince(builder.UpToDate(nil))}, 0},
		"one that is new, invalid": {newObservation(t), []func(o *observation){invalid}, time.Minute + 59*time.Second},
		"one that serves, invalid": {onceReady(t), []func(o *observation){invalid}, 0},
		"a deletion during a run":  {newObservation(t).apply(working), []func(o *observation){running, func(o *observation) { builder.Deleting()(o.controlPlane); o.Running.Deletion = ptr.To(time.Minute) }}, 59 * time.Minute},
	} {
		for _, is := range row.is {
			is(row.observation)
		}
		r := &Reconciler{Reconciler: owner.Reconciler{Engine: engine.Engine{State: &engine.StateCache{}}}}
		if err := r.await(t.Context(), row.observation.controlPlane, row.observation.Facts, row.observation.plan()); row.want == 0 {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, "next reconcile in "+row.want.String(), name)
		}
	}
}

// A pause does not count: what is waited for could not happen.
func TestAWaitIsMeasuredWithoutPauses(t *testing.T) {
	env := newEnvironment(t, prepared(builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "latest" }))...)
	env.reconcile()
	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	env.reconcile()
	env.clock.Pass(time.Hour)
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	env.reconcile()
	assert.Equal(t, infrav1.StateValidating, env.get().Status.State)
	env.clock.Pass(env.again)
	env.reconcile()
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
}
