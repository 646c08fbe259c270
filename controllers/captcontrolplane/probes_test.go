// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

// Results of probes.
var (
	answers  = health.Probed{APIServer: health.Healthy(), Version: health.Healthy(), Credentials: health.Healthy()}
	silent   = health.Probed{APIServer: health.Unhealthy("the API server refuses connections")}
	unseen   = health.Probed{APIServer: health.Unknown("the API server refuses connections")}
	rejects  = health.Probed{APIServer: health.Unknown("it rejects the credentials"), Credentials: health.Unhealthy("rejected (401)")}
	outdated = health.Probed{APIServer: health.Healthy(), Credentials: health.Healthy(), Version: health.Unhealthy("it runs 1.30")}
)

// TestEffectOfProbes is the table of docs/status.md, for a control plane that was never Ready and for one that was.
func TestEffectOfProbes(t *testing.T) {
	const (
		ready      = "Ready; Available True Available; Ready True Ready"
		waiting    = "Configuring; Available False NotAvailable; Ready False WaitingForAPIServer"
		down       = "Degraded; Available False APIServerNotAnswering; Ready False APIServerNotAnswering; Degraded True APIServerNotAnswering"
		unhealthy  = "Degraded; Available True Available; Ready False HealthCheckFailed; Degraded True HealthCheckFailed"
		bestEffort = controlplanev1.EndpointProbeBestEffort
		required   = controlplanev1.EndpointProbeRequired
		disabled   = controlplanev1.EndpointProbeDisabled
	)
	for name, row := range map[string]struct {
		probe         controlplanev1.EndpointProbe
		probed        health.Probed
		first, before string
	}{
		"best effort, no result":     {bestEffort, health.Probed{}, ready, ready},
		"best effort, answers":       {bestEffort, answers, ready, ready},
		"best effort, never seen":    {bestEffort, unseen, ready, ready},
		"best effort, silent":        {bestEffort, silent, down, down},
		"best effort, rejects":       {bestEffort, rejects, unhealthy, unhealthy},
		"best effort, old version":   {bestEffort, outdated, unhealthy, unhealthy},
		"best effort, no credential": {bestEffort, health.NotProbed("aws eks get-token"), ready, ready},
		"absent is best effort":      {"", silent, down, down},
		"required, no result":        {required, health.Probed{}, waiting, ready},
		"required, answers":          {required, answers, ready, ready},
		"required, silent":           {required, silent, waiting, down},
		"required, rejects":          {required, rejects, waiting, unhealthy},
		"required, no kubeconfig":    {required, health.NotProbed("aws eks get-token"), waiting, ready},
		"disabled":                   {disabled, health.Probed{}, ready, ready},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{false, true} {
				o, want := configured(t), row.first
				if before {
					o, want = onceReady(t), row.before
				}
				o.EndpointProbe, o.Probed = row.probe, row.probed
				got := o.status()
				text := string(got.State)
				for _, conditionType := range []string{"Available", "Ready", "Degraded"} {
					if condition := meta.FindStatusCondition(got.Conditions, conditionType); condition != nil {
						text += "; " + conditionType + " " + string(condition.Status) + " " + condition.Reason
					}
				}
				assert.Equal(t, want, text, "before=%v", before)
				assert.Equal(t, want != waiting, ptr.Deref(got.Initialization.ControlPlaneInitialized, false))
				if row.probe == disabled {
					assert.Empty(t, health.Status(got.Health, health.APIServer))
				}
			}
		})
	}
}

func TestAFailingProbeIsNamed(t *testing.T) {
	o := onceReady(t)
	o.Probed = silent
	got := o.status()
	for _, conditionType := range []string{controlplanev1.ReadyCondition, infrav1.DegradedCondition, controlplanev1.AvailableCondition} {
		assert.Contains(t, meta.FindStatusCondition(got.Conditions, conditionType).Message, "health check APIServer fails: the API server refuses connections. Check")
	}
	o.Probed = outdated
	assert.Contains(t, meta.FindStatusCondition(o.status().Conditions, controlplanev1.ReadyCondition).Message, "health check Version fails: it runs 1.30. Set spec.version")
}

// A cluster that does not answer is Degraded, whatever runs; and it is never Failed.
func TestAClusterThatDoesNotAnswerIsDegradedInEveryCase(t *testing.T) {
	for _, r := range rows() {
		o := r.observation(t, true)
		o.Probed = silent
		if o.Apply.ResourcesAbsent() {
			o.Probed = health.NotProbed("Terraform has not created the cluster, or is destroying it") // As reconcileProbes does.
		}
		got := o.status()
		if !o.controlPlane.DeletionTimestamp.IsZero() {
			continue
		}
		assert.False(t, meta.IsStatusConditionTrue(got.Conditions, controlplanev1.AvailableCondition), r.name)
		if o.Apply.ResourcesAbsent() {
			assert.NotEqual(t, infrav1.StateFailed, got.State, r.name)
		} else {
			assert.Equal(t, infrav1.StateDegraded, got.State, r.name)
			assert.Equal(t, "False APIServerNotAnswering", builder.ConditionSummary(got.Conditions)["Ready"], r.name)
		}
	}
}

// What is wrong with a new control plane is more important than that its API server does not answer.
func TestAnAPIServerThatDoesNotAnswerHidesNothingOfANewControlPlane(t *testing.T) {
	o := newObservation(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": "http://x/y"}))
	o.Probed = silent
	got := builder.ConditionSummary(o.status().Conditions)
	assert.Equal(t, "False EndpointInvalid", got["Ready"])
	assert.Equal(t, "False NotAvailable", got["Available"])
}

func TestChecksThatRepeatConditions(t *testing.T) {
	for name, row := range map[string]struct {
		observation *observation
		want        map[string]controlplanev1.HealthState
	}{
		"all there":             {onceReady(t), map[string]controlplanev1.HealthState{"Workspace": "Healthy", "Dependencies": "Healthy", "Fargate": "Healthy"}},
		"Terraform running":     {onceReady(t).apply(working), map[string]controlplanev1.HealthState{"Workspace": "Unknown", "Dependencies": "Healthy"}},
		"a change is held":      {onceReady(t).apply(builder.NotUpToDate(infrav1.WaitingForApprovalReason, "")), map[string]controlplanev1.HealthState{"Workspace": "Healthy", "Dependencies": "Healthy"}},
		"apply fails":           {onceReady(t).apply(failing), map[string]controlplanev1.HealthState{"Workspace": "Unhealthy"}},
		"being created":         {newObservation(t).apply(working), map[string]controlplanev1.HealthState{"Workspace": "Unknown"}},
		"creation fails":        {newObservation(t).apply(failing), map[string]controlplanev1.HealthState{"Workspace": "Unhealthy"}},
		"no VPC yet":            {newObservation(t).with(func(f *Facts) { f.Infrastructure.Status.VPC.ID = "" }), map[string]controlplanev1.HealthState{"Dependencies": "Unknown"}},
		"the VPC is gone":       {onceReady(t).with(func(f *Facts) { f.Infrastructure.Status.VPC.ID = "" }), map[string]controlplanev1.HealthState{"Dependencies": "Unhealthy"}},
		"a missing template":    {onceReady(t).apply(builder.NotUpToDate(infrav1.TemplateNotFoundReason, "")), map[string]controlplanev1.HealthState{"Workspace": "Unhealthy"}},
		"an invalid dependency": {newObservation(t).apply(failing).with(func(f *Facts) { f.Apply.Conflict = "other" }), map[string]controlplanev1.HealthState{"Dependencies": "Unhealthy", "Workspace": "Unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.observation.status()
			for check, want := range row.want {
				assert.Equal(t, want, health.Status(got.Health, check), check)
			}
		})
	}
	o := onceReady(t).apply(failing)
	assert.NotContains(t, health.Find(o.status().Health, health.Workspace).Message, "class")
	o.Apply.Live.Status.LastFailureClass = "Quota"
	assert.Contains(t, health.Find(o.status().Health, health.Workspace).Message, "condition WorkspaceReady has the reason ApplyFailed (class Quota)")
}

// An object that a control plane depends on, and that fails, makes a check fail if the control plane serves, and hides nothing else.
func TestABrokenDependencyOfAControlPlane(t *testing.T) {
	invalid := onceReady(t)
	invalid.controlPlane.Spec.Version = "latest"
	for name, row := range map[string]struct {
		observation *observation
		want        string
	}{
		"it serves":     {onceReady(t), "not ready: CAPTCluster demo. See the message of the condition"},
		"it is new":     {configured(t), ""},
		"it is invalid": {invalid, "condition DependenciesReady has the reason InvalidVersion. See the message of the condition"},
	} {
		p := row.observation.plan()
		p.Broken = "CAPTCluster demo"
		c := conditionsOf(row.observation.controlPlane, row.observation.Facts, p)
		assert.Equal(t, row.want, health.Find(c.health, health.Dependencies).Message, name)
	}
}

// probing is an environment whose control plane is Ready, and has a kubeconfig that runs aws: the pool knows its result without a request.
func probing(t *testing.T) *environment {
	env := newEnvironment(t, prepared()...)
	env.Probes = probe.NewPool(metrics.NewHealth(prometheus.NewRegistry()), env.mustProbe)
	env.reconcile()
	env.terraformMade()
	env.reconcile()
	env.reconcile()
	require.Contains(t, health.Find(env.get().Status.Health, health.Credentials).Message, "aws eks get-token")
	require.Empty(t, env.reconcile(), "nothing is written at rest")
	return env
}

func (env *environment) results() health.Probed {
	return env.Probes.Results(client.ObjectKeyFromObject(env.get()))
}

func TestWhichAPIServersAreProbed(t *testing.T) {
	change := func(change builder.Option) func(*environment) {
		return func(env *environment) { env.spec(func(c *controlplanev1.CAPTControlPlane) { change(c) }) }
	}
	terraform := func(reason string) func(*environment) {
		return func(env *environment) { env.terraform(builder.NotUpToDate(reason, "")) }
	}
	for name, row := range map[string]struct {
		change func(*environment)
		probed bool
	}{
		"as it is":                   {func(*environment) {}, true},
		"during an update":           {terraform(infrav1.ProvisioningReason), true},
		"after a failure":            {terraform(infrav1.ApplyFailedReason), true},
		"being destroyed":            {terraform(infrav1.WorkspaceDeletingReason), false},
		"paused":                     {change(builder.Paused()), false},
		"captctl migrate is at work": {change(builder.WithAnnotation(clusterv1.PausedAnnotation, naming.MigrationPause)), false},
		"clusterctl moves it":        {change(builder.WithAnnotation("clusterctl.cluster.x-k8s.io/delete-for-move", "")), false},
		"disabled":                   {change(builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointProbe = controlplanev1.EndpointProbeDisabled })), false},
		"being deleted": {func(env *environment) {
			require.NoError(env, env.Delete(env.Context(), builder.Cluster("demo")))
			require.NoError(env, env.Delete(env.Context(), env.get()))
		}, false},
		"its kubeconfig was deleted": {func(env *environment) {
			require.NoError(env, env.Client.Delete(env.Context(), builder.SecretWith(naming.KubeconfigSecret("demo"), nil)))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := probing(t)
			row.change(env)
			env.reconcile()
			assert.Equal(t, row.probed, env.results() != health.Probed{})
		})
	}
	env := probing(t)
	env.forget(demo()[0].NamespacedName)
	assert.Zero(t, env.results())
}

// A Secret of another owner may have the kubeconfig of another cluster.
func TestAnAPIServerIsNotProbedWithoutItsKubeconfig(t *testing.T) {
	env := probing(t)
	change(env, "demo-kubeconfig", &corev1.Secret{}, func(s *corev1.Secret) {
		s.OwnerReferences = nil
		builder.OwnedBy(builder.CAPTControlPlane("another"))(s)
	})
	env.settle()
	assert.Zero(t, env.results())
	assert.Equal(t, "waiting for the kubeconfig", health.Find(env.get().Status.Health, health.APIServer).Message)
}

// While Terraform runs, or something blocks a change, it is not known which version the API server must have.
func TestWhatIsProbed(t *testing.T) {
	for name, row := range map[string]struct {
		change   func(o *observation)
		required bool
		version  string
	}{
		"best effort":             {func(o *observation) { o.EndpointProbe = controlplanev1.EndpointProbeBestEffort }, false, "1.31"},
		"required":                {func(o *observation) { o.EndpointProbe = controlplanev1.EndpointProbeRequired }, true, "1.31"},
		"Terraform runs":          {func(o *observation) { o.apply(working) }, false, ""},
		"the change is not made":  {func(o *observation) { o.unwritten = true; o.controlPlane.Spec.Version = "v1.32.0" }, false, ""},
		"the VPC is not reported": {func(o *observation) { o.Infrastructure.Status.VPC.ID = "" }, false, ""},
	} {
		o := onceReady(t)
		row.change(o)
		want := probe.Target{Kubeconfig: []byte("k"), Required: row.required, Version: row.version, Last: o.controlPlane.Status.Health}
		assert.Equal(t, want, o.probeTarget(o.controlPlane, o.plan(), []byte("k")), name)
		assert.NotNil(t, want.Last)
	}
}

// No event reports that an object was moved to another shard.
func TestObjectsOfOthersAreNotProbed(t *testing.T) {
	key := demo()[0].NamespacedName
	for name, row := range map[string]struct {
		options []builder.Option
		filter  string
		want    bool
	}{
		"all":               {nil, "", true},
		"this shard":        {[]builder.Option{builder.WithLabel(clusterv1.WatchLabel, "a")}, "a", true},
		"another shard":     {[]builder.Option{builder.WithLabel(clusterv1.WatchLabel, "b")}, "a", false},
		"no shard":          {nil, "a", false},
		"externally":        {[]builder.Option{builder.WithAnnotation(clusterv1.ManagedByAnnotation, "other")}, "", false},
		"paused":            {[]builder.Option{builder.Paused()}, "", false},
		"being deleted now": {[]builder.Option{builder.Deleting(), builder.WithFinalizers("x/y")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.CAPTControlPlane("demo", row.options...))
			env.WatchFilterValue = row.filter
			assert.Equal(t, row.want, env.mustProbe(t.Context(), key))
		})
	}
	assert.False(t, newEnvironment(t).mustProbe(t.Context(), key), "it is gone")
	env := newEnvironment(t)
	env.Client = builder.FailingGet[*controlplanev1.CAPTControlPlane](env.API, errors.New("timeout"))
	assert.True(t, env.mustProbe(t.Context(), key), "it may be there")
}

// The cluster was recreated, by Terraform or outside of CAPT: it has another endpoint.
func TestTheEndpointOfARecreatedClusterIsFollowed(t *testing.T) {
	const other = "OTHER.gr7.ap-northeast-1.eks.amazonaws.com"
	show := func(env *environment, option builder.Option) {
		env.Helper()
		env.terraform(option)
		env.reconcile()
	}
	changed := builder.UpToDate(map[string]string{"cluster_endpoint": "https://" + other, "cluster_name": "demo"})
	for name, row := range map[string]struct {
		seen   []string
		absent bool
		// change is made before the endpoint changes; refused is true if spec keeps the first one then.
		change  func(*environment)
		refused bool
	}{
		"destroyed and recreated":              {seen: []string{infrav1.WorkspaceDeletingReason, infrav1.WorkspaceNotFoundReason}, absent: true},
		"with a provider that does not answer": {seen: []string{infrav1.WorkspaceDeletingReason, infrav1.WorkspaceNotReconciledReason}, absent: true},
		"updated":                              {seen: []string{infrav1.ApplyFailedReason}},
		"outside of CAPT":                      {},
		"the kubeconfig is for another cluster": {change: func(env *environment) {
			data, err := kubeconfig.ForToken("demo", "https://third.example.com", builder.CA(), "t")
			require.NoError(env, err)
			change(env, "demo-eks-connection", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["kubeconfig"] = data })
		}, refused: true},
		"the kubeconfig cannot be made": {change: func(env *environment) {
			change(env, "demo-eks-connection", &corev1.Secret{}, func(s *corev1.Secret) { s.Data = nil })
		}, refused: true},
		"a user wrote the endpoint": {change: func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.ControlPlaneEndpoint.Host = "proxy.example.com" })
		}, refused: true},
		"the status is that of another version": {change: func(env *environment) {
			controlPlane := env.get()
			controlPlane.Status.ObservedGeneration = 0
			require.NoError(env, env.Client.Status().Update(env.Context(), controlPlane))
		}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			env := built(t)
			recorder := events.NewFakeRecorder(100)
			env.Recorder = recorder
			for _, reason := range row.seen {
				show(env, builder.NotUpToDate(reason, "why"))
				assert.Equal(t, row.absent, env.summary()["Available"] == "False NotAvailable", reason)
			}
			want := other
			if row.change != nil {
				row.change(env)
			}
			if row.refused {
				want = env.get().Spec.ControlPlaneEndpoint.Host
			}
			show(env, changed)
			close(recorder.Events)
			sent := []string{}
			for event := range recorder.Events {
				sent = append(sent, event)
			}
			assert.Equal(t, want, env.get().Spec.ControlPlaneEndpoint.Host)
			assert.Equal(t, "https://"+other, env.get().Status.WorkspaceTemplateApply.Outputs["cluster_endpoint"], "it is decided")
			assert.Equal(t, row.refused, env.summary()["EndpointAvailable"] == "False EndpointChanged")
			assert.Equal(t, "True Available", env.summary()["Available"])
			assert.Equal(t, !row.absent && !row.refused, strings.Contains(fmt.Sprint(sent), "Warning EndpointChanged Output \"cluster_endpoint\" changed from "+host+":443 to "+other+":443"), sent)
			env.Recorder = events.NewFakeRecorder(100)
			assert.Empty(t, env.reconcile())
		})
	}
}

// A change that is not followed at once, because Terraform fails, a write does or CAPT is paused, is followed later.
func TestAnEndpointIsFollowedLater(t *testing.T) {
	const other = "OTHER.gr7.ap-northeast-1.eks.amazonaws.com"
	endpoint := map[string]string{"cluster_endpoint": "https://" + other, "cluster_name": "demo"}
	fail := func(write string) func(*environment) {
		return func(env *environment) {
			env.FailOn(write, errors.New("a failure"))
			env.terraform(builder.UpToDate(endpoint))
			require.Error(env, env.try())
			env.Refuse = nil
		}
	}
	for name, first := range map[string]func(*environment){
		"Terraform fails": func(env *environment) {
			env.terraform(builder.UpToDate(endpoint))
			env.terraform(builder.NotUpToDate(infrav1.ApplyFailedReason, "why"))
			env.settle()
			assert.Empty(env, env.reconcile())
			env.terraform(builder.UpToDate(endpoint))
		},
		"it is paused": func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
			env.terraform(builder.UpToDate(endpoint))
			env.settle()
			assert.Empty(env, env.reconcile())
			env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
		},
		"the kubeconfig is not written": fail("apply demo-kubeconfig"),
		"the endpoint is not written":   fail("patch"),
	} {
		t.Run(name, func(t *testing.T) {
			env := built(t)
			first(env)
			require.Equal(t, host, env.get().Spec.ControlPlaneEndpoint.Host)
			env.reconcile()
			assert.Equal(t, other, env.get().Spec.ControlPlaneEndpoint.Host)
			env.reconcile()
			assert.Equal(t, endpoint["cluster_endpoint"], env.get().Status.WorkspaceTemplateApply.Outputs["cluster_endpoint"])
			assert.Empty(t, env.reconcile())
		})
	}
}
