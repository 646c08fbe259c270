// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

// conditionSet has the conditions from which the summary conditions, the state and the phase are derived.
type conditionSet struct {
	dependencies, workspace, endpoint, kubeconfig, fargate engine.Condition
	// profiles is the report of the Fargate profiles.
	profiles fargate.Report
	// health has the results of the health checks. unhealthy is the reason and message for Ready if a probe affects it; else it is zero.
	health    *controlplanev1.Health
	unhealthy engine.Condition
	// initialized is true once endpoint and kubeconfig were there, and the API server answered if that is required. down is true when an
	// initialized cluster does not answer.
	initialized, down bool
	// working is true while Terraform runs and nothing is wrong.
	working bool
	// failed is true when a timeout has passed, or something is wrong that the user must repair.
	failed bool
	// cause is why the VPC is Failed that the control plane waits for; the zero value if it is not.
	cause engine.Condition
	// recovering is true while a recovery action runs.
	recovering bool
	// notStarted is true while nothing was created because the object is paused.
	notStarted bool
}

func conditionsOf(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) conditionSet {
	c := conditionSet{
		dependencies: engine.True(controlplanev1.DependenciesReadyCondition, infrav1.DependenciesReadyReason, ""),
		workspace:    p.Apply.Condition(controlplanev1.WorkspaceReadyCondition, controlplanev1.WorkspaceReadyReason),
		endpoint:     endpointAvailable(controlPlane, f, p),
		kubeconfig:   kubeconfigReady(f, p),
		fargate:      engine.True(controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileReadyReason, ""),
		profiles:     p.Fargate.Report(f.Now),
		notStarted:   f.Paused != "" && f.Apply.Live == nil,
	}
	if len(c.profiles.Conditions) > 0 {
		c.fargate = c.profiles.Conditions[0]
	}
	if p.Apply.Blocked != nil {
		c.dependencies = *p.Apply.Blocked
	}
	if c.notStarted && f.Apply.Conflict == "" {
		c.workspace = engine.False(controlplanev1.WorkspaceReadyCondition, clusterv1.PausedReason, engine.PausedMessage("created", f.Paused))
	}
	c.recovering = p.Apply.Recovery.Kind == recovery.Running || f.Recovered
	c.applyTimeout(controlPlane, f, p)
	c.cause = f.vpcFailed(c.firstUnmet())
	c.failed = f.Fails(&p.Apply, c.firstUnmet(), wasInitialized(controlPlane)) || c.cause.Reason != ""
	c.working = !c.failed && c.inProgress(f)
	c.addHealth(controlPlane, f, p)
	return c
}

// vpcFailed is why the VPC is Failed that the control plane waits for; the zero value if it is not.
func (f *Facts) vpcFailed(unmet *engine.Condition) engine.Condition {
	if f.Infrastructure == nil || unmet == nil || unmet.Reason != controlplanev1.WaitingForInfrastructureReason {
		return engine.Condition{}
	}
	return owner.Owner{Object: f.Infrastructure, Kind: infrav1.GroupVersion.WithKind("CAPTCluster")}.Failure()
}

// Delays of status writes that only change details. They are longer while Terraform creates or updates the control plane, because another
// change follows.
const (
	detailsDelay         = 1500 * time.Millisecond
	progressDetailsDelay = owner.StartDelay
)

// details restores what may be written later: dependencies, the remaining time, when Terraform started, checks of which none fails, and that
// Cluster API has not reported a VPC that is ready, which it usually does immediately.
func details(before, after *controlplanev1.CAPTControlPlane, f *Facts) time.Duration {
	was, is := &before.Status, &after.Status
	is.Dependencies = was.Dependencies
	owner.KeepEstimate(before, after)
	if was.WorkspaceTemplateApply != nil { // It is never removed.
		owner.KeepStart(&was.WorkspaceTemplateApply.WorkspaceTemplateApplySummary, &is.WorkspaceTemplateApply.WorkspaceTemplateApplySummary)
	}
	if health.NoneFails(was.Health) && health.NoneFails(is.Health) {
		is.Health = was.Health
	}
	waits := conditions.GetReason(after, controlplanev1.ReadyCondition) == controlplanev1.WaitingForInfrastructureReason
	if waits && f.Infrastructure != nil && conditions.IsTrue(f.Infrastructure, infrav1.ReadyCondition) {
		keepMessages(before, after)
	}
	if is.Phase == controlplanev1.PhaseCreating {
		return progressDetailsDelay
	}
	return detailsDelay
}

func keepMessages(before, after *controlplanev1.CAPTControlPlane) {
	for i := range after.Status.Conditions {
		condition := &after.Status.Conditions[i]
		if known := conditions.Get(before, condition.Type); known != nil && known.Reason == condition.Reason {
			condition.Message = known.Message
		}
	}
}

// addHealth evaluates the health checks. Those that repeat a condition only report it; docs/status.md has the effect of the others.
func (c *conditionSet) addHealth(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) {
	c.initialized = wasInitialized(controlPlane) ||
		c.endpoint.Status == metav1.ConditionTrue && c.kubeconfig.Status == metav1.ConditionTrue
	c.health = health.Evaluate(&health.Facts{
		Probed: f.Probed, Disabled: f.EndpointProbe == controlplanev1.EndpointProbeDisabled,
		Workspace: c.asCheck(&c.workspace, f.failureClass()), Dependencies: c.checkDependencies(controlPlane, f, p), Fargate: c.asCheck(&c.fargate, ""),
	}, controlPlane.Status.Health, f.Now)
	apiServer := health.Find(c.health, health.APIServer)
	if apiServer == nil {
		return
	}
	set := func(reason, prefix string, check *controlplanev1.HealthCheck) {
		c.unhealthy = engine.False(controlplanev1.ReadyCondition, reason, prefix+check.Message)
	}
	first := !wasInitialized(controlPlane)
	switch {
	case first && f.EndpointProbe == controlplanev1.EndpointProbeRequired && apiServer.Status != controlplanev1.HealthHealthy:
		c.initialized = false
		set(controlplanev1.WaitingForAPIServerReason, "waiting for the API server to answer, because spec.endpointProbe is Required: ", apiServer)
	case !c.initialized:
	case apiServer.Status == controlplanev1.HealthUnhealthy:
		c.down = true
		set(controlplanev1.APIServerNotAnsweringReason, "health check APIServer fails: ", apiServer)
	default:
		for _, name := range []string{health.Version, health.Credentials} {
			if check := health.Find(c.health, name); check.Status == controlplanev1.HealthUnhealthy {
				set(controlplanev1.HealthCheckFailedReason, "health check "+name+" fails: ", check)
			}
		}
	}
}

// checkDependencies returns the result of the check Dependencies. Only a replaced VPC affects Ready: with other dependencies that fail, the control plane serves.
func (c *conditionSet) checkDependencies(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) health.Result {
	if replaced := f.vpcReplaced(); replaced.Status == metav1.ConditionTrue {
		c.unhealthy = engine.False(controlplanev1.ReadyCondition, replaced.Reason, replaced.Message)
		return health.Unhealthy("condition VPCReplaced is True")
	}
	result := c.asCheck(&c.dependencies, "")
	if wasInitialized(controlPlane) && p.Broken != "" && result.Status == controlplanev1.HealthHealthy {
		return health.Unhealthy("not ready: " + p.Broken)
	}
	return result
}

// asCheck returns a condition as the result of a health check. What is in progress, or waits for another condition, does not fail. While a change
// is held, what exists is as it was before.
func (c *conditionSet) asCheck(condition *engine.Condition, detail string) health.Result {
	if condition.Status == metav1.ConditionTrue || c.initialized && infrav1.IsHeld(condition.Reason) {
		return health.Healthy()
	}
	message := fmt.Sprintf("condition %s has the reason %s%s", condition.Type, condition.Reason, detail)
	if condition == c.firstUnmet() && !c.working && (c.initialized || c.failed || reasons.IsProblem(condition.Reason)) {
		return health.Unhealthy(message)
	}
	return health.Unknown(message)
}

// failureClass describes the class of Terraform's last failure; empty when there is none.
func (f *Facts) failureClass() string {
	if f.Apply.Live == nil || f.Apply.Live.Status.LastFailureClass == "" {
		return ""
	}
	return fmt.Sprintf(" (class %s)", f.Apply.Live.Status.LastFailureClass)
}

// inProgress reports whether Terraform is working on what the control plane waits for, or the infrastructure has not reported its state yet.
func (c *conditionSet) inProgress(f *Facts) bool {
	switch c.firstUnmet() {
	case &c.dependencies:
		return c.dependencies.Reason == controlplanev1.WaitingForInfrastructureReason && f.infrastructureUnreported() && f.Apply.Working()
	case &c.workspace:
		return f.Apply.Working()
	case &c.kubeconfig:
		return f.Kubeconfig.Problem == "" // It is about to be written, after a pause if there is one.
	case &c.fargate:
		return c.profiles.Working
	}
	return false
}

// firstUnmet is the first condition that is not True, in the order in which they become True; nil when all are.
func (c *conditionSet) firstUnmet() *engine.Condition {
	for _, condition := range []*engine.Condition{&c.dependencies, &c.workspace, &c.endpoint, &c.kubeconfig, &c.fargate} {
		if condition.Status != metav1.ConditionTrue {
			return condition
		}
	}
	return nil
}

// unmet is what Ready reports: the first condition that is not True, or a failing probe; zero when there is none. A cluster that does not
// answer is more important than an update.
func (c *conditionSet) unmet() engine.Condition {
	first := c.firstUnmet()
	if first == nil || c.down {
		return c.unhealthy
	}
	return *first
}

func endpointAvailable(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) engine.Condition {
	no := func(reason, format string, args ...any) engine.Condition {
		return engine.False(controlplanev1.EndpointAvailableCondition, reason, fmt.Sprintf(format, args...))
	}
	yes := func(message string) engine.Condition {
		return engine.True(controlplanev1.EndpointAvailableCondition, controlplanev1.EndpointKnownReason, message)
	}
	written := validation.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint)
	known := written.IsValid()
	switch {
	case !p.Apply.Ready() && known:
		return yes("")
	case !p.Apply.Ready():
		return no(controlplanev1.WaitingForWorkspaceReason, "waiting for Terraform to create the control plane")
	}
	endpoint, err := f.outputs().Endpoint()
	switch {
	case err != nil:
		return no(controlplanev1.EndpointInvalidReason, "output %q is invalid: %v. Correct it in the module of WorkspaceTemplate %s", terraform.OutputClusterEndpoint, err, f.Template.Key)
	case endpoint.IsZero():
		_, returned := f.outputs().Published[terraform.OutputClusterEndpoint]
		return no(controlplanev1.EndpointMissingReason, "%s", f.Template.MissingOutput(terraform.OutputClusterEndpoint, "", returned))
	case known && endpoint != written:
		return no(controlplanev1.EndpointChangedReason, "output %q of WorkspaceTemplate %s is %s, but spec.controlPlaneEndpoint is %s, which CAPT did not write or the kubeconfig does not confirm. "+
			"If the cluster was replaced on purpose, set spec.controlPlaneEndpoint of the CAPTControlPlane, then that of the Cluster, to the new endpoint; otherwise find out what replaced it",
			terraform.OutputClusterEndpoint, f.Template.Key, endpoint.String(), written.String())
	case !known:
		return no(controlplanev1.WaitingForWorkspaceReason, "waiting for spec.controlPlaneEndpoint to be written")
	}
	return yes(f.otherEndpoint(written))
}

// otherEndpoint returns the message that the Cluster has another endpoint; empty if it does not. Cluster API copies the endpoint only once, and
// keeps that of a deleted control plane.
func (f *Facts) otherEndpoint(written clusterv1.APIEndpoint) string {
	if f.Cluster == nil || !f.Cluster.Spec.ControlPlaneEndpoint.IsValid() || f.Cluster.Spec.ControlPlaneEndpoint == written {
		return ""
	}
	if stored := f.Cluster.Spec.ControlPlaneEndpoint; strings.Contains(stored.Host, "://") {
		return fmt.Sprintf("spec.controlPlaneEndpoint.host of Cluster %s is the URL %s, which CAPT v0.3 wrote: clients cannot connect to a URL. Set spec.controlPlaneEndpoint of the Cluster to %s, or run captctl migrate apply with --fix-cluster-endpoints",
			f.Cluster.Name, stored.Host, written.String())
	}
	return fmt.Sprintf(`Cluster %[1]s still has the endpoint %[2]s of an earlier control plane. Run: kubectl patch -n %[3]s cluster %[1]s --type merge -p '{"spec":{"controlPlaneEndpoint":{"host":%[4]q,"port":%[5]d}}}'`,
		f.Cluster.Name, f.Cluster.Spec.ControlPlaneEndpoint.String(), f.Cluster.Namespace, written.Host, written.Port)
}

func kubeconfigReady(f *Facts, p *Plan) engine.Condition {
	no := func(reason, message string) engine.Condition {
		return engine.False(controlplanev1.KubeconfigReadyCondition, reason, message)
	}
	switch {
	case f.Cluster == nil, !p.Apply.Ready() && f.Kubeconfig.Problem == "":
		return no(controlplanev1.WaitingForWorkspaceReason, "waiting for Terraform to apply the control plane")
	case f.Kubeconfig.Problem != "":
		return no(f.Kubeconfig.Reason, f.Kubeconfig.Problem)
	case !f.Kubeconfig.Written:
		return no(controlplanev1.KubeconfigMissingReason, fmt.Sprintf("waiting for Secret %s to be written", naming.KubeconfigSecret(f.Cluster.Name)))
	}
	warning := f.Kubeconfig.Warning
	if warning == "" && f.UserKubeconfig.Problem != "" {
		warning = "there is no kubeconfig for users: " + f.UserKubeconfig.Problem
	}
	return engine.True(controlplanev1.KubeconfigReadyCondition, controlplanev1.KubeconfigReadyReason, warning)
}

// isWarning reports whether the event for a transition is a warning, because the user must act.
func isWarning(condition metav1.Condition) bool {
	if condition.Type == infrav1.DegradedCondition {
		return condition.Status == metav1.ConditionTrue
	}
	return reasons.IsProblem(condition.Reason)
}

// Defaults of spec.timeouts, for objects that were stored without them.
const (
	defaultVPCReadySeconds     = 900
	defaultControlPlaneSeconds = 1800
	defaultSecretSeconds       = 300
)

func (r *Reconciler) observeTimeouts(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	o := ownerOf(controlPlane)
	r.ObserveRunning(o, &f.Observed, controlplanev1.ControlPlaneTimeoutReason)
	f.RunningVPC = r.Elapsed(o, f.Now, "vpc", infrav1.VPCReadyTimeoutReason, f.vpcStarted())
	f.RunningSecret = r.Elapsed(o, f.Now, "secret", controlplanev1.SecretTimeoutReason, f.secretMissingSince(controlPlane))
}

// vpcStarted returns when the creation of the VPC began; nil if CAPT does not create one.
func (f *Facts) vpcStarted() *metav1.Time {
	if f.Infrastructure == nil || f.Infrastructure.Status.WorkspaceTemplateApply == nil {
		return nil
	}
	return f.Infrastructure.Status.WorkspaceTemplateApply.StartedTime
}

// secretMissingSince returns the time from which the timeout for Secrets counts: since when a Secret is missing, or since when Terraform is done and
// the connection Secret, the endpoint and the kubeconfig should exist. It is nil for an initialized cluster, where missing ones are reported
// immediately.
func (f *Facts) secretMissingSince(controlPlane *controlplanev1.CAPTControlPlane) (since *metav1.Time) {
	if f.Apply.Live == nil || wasInitialized(controlPlane) {
		return nil
	}
	if f.Apply.UpToDate() {
		ready := &meta.FindStatusCondition(f.Apply.Live.Status.Conditions, infrav1.ReadyCondition).LastTransitionTime
		if created := &controlPlane.CreationTimestamp; ready.Before(created) {
			return created // The WorkspaceTemplateApply is older.
		}
		return ready
	}
	for i := range f.Apply.Live.Status.MissingDependencies {
		if missing := &f.Apply.Live.Status.MissingDependencies[i]; missing.Kind == "Secret" && (since == nil || missing.Since.Before(since)) {
			since = missing.Since
		}
	}
	return since
}

func (f *Facts) timeoutOf(controlPlane *controlplanev1.CAPTControlPlane, p *Plan, condition *engine.Condition) *owner.Timeout {
	spec := controlPlane.Spec.Timeouts
	switch {
	case condition == nil, condition.Type == controlplanev1.FargateProfileReadyCondition, f.Paused != "":
		return nil
	case condition.Reason == controlplanev1.WaitingForInfrastructureReason && f.RunningVPC != nil:
		return owner.NewTimeout("spec.timeouts.vpcReadySeconds", infrav1.VPCReadyTimeoutReason, spec.VPCReadySeconds, defaultVPCReadySeconds, f.RunningVPC)
	case condition.Type == controlplanev1.DependenciesReadyCondition, condition.Reason == infrav1.WaitingForDependenciesReason && f.RunningSecret == nil:
		return f.WaitTimeout(&p.Apply, condition, condition.Reason == controlplanev1.WaitingForInfrastructureReason && f.Infrastructure != nil)
	case condition.Reason == infrav1.WorkspaceNotReconciledReason && f.Running.Terraform == nil:
		return f.WaitTimeout(&p.Apply, condition, false)
	case condition.Type == controlplanev1.WorkspaceReadyCondition && condition.Reason != infrav1.WaitingForDependenciesReason:
		return owner.NewTimeout("spec.timeouts.controlPlaneSeconds", controlplanev1.ControlPlaneTimeoutReason, spec.ControlPlaneSeconds, defaultControlPlaneSeconds, f.Running.Terraform).Of(&f.Apply)
	}
	return owner.NewTimeout("spec.timeouts.secretSeconds", controlplanev1.SecretTimeoutReason, spec.SecretSeconds, defaultSecretSeconds, f.RunningSecret)
}

// applyTimeout replaces the reason of the condition that is waited for when its timeout has passed. Timeouts are not reported while paused.
func (c *conditionSet) applyTimeout(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) {
	if first := c.firstUnmet(); first != nil {
		*first = f.timeoutOf(controlPlane, p, first).Condition(*first)
	}
}

func wasInitialized(controlPlane *controlplanev1.CAPTControlPlane) bool {
	return ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false)
}
