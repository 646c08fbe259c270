// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
)

// Plan is what one reconcile does.
type Plan struct {
	// Cycle describes objects of the dependency graph that depend on each other; empty when there are none.
	Cycle string
	// Broken are the objects that the control plane depends on and that have a problem.
	Broken string
	// Apply is the plan for the WorkspaceTemplateApply of the control plane.
	Apply owner.Plan
	// Kubeconfig is the plan for the kubeconfig Secrets.
	Kubeconfig kubeconfigsecret.Plan
	// PublishEndpoint is true when spec.controlPlaneEndpoint is written.
	PublishEndpoint bool
	// Fargate is the plan for the Fargate profiles; SkipFargate is true while they must not be modified.
	Fargate     fargate.Plan
	SkipFargate bool
}

// plan decides what to do. It is pure.
func plan(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (p *Plan, err error) {
	c := f.desired(controlPlane)
	p = &Plan{}
	if f.Graph != nil {
		c.Cycle, c.CycleBlocks = f.Graph.Cycle()
		p.Cycle, p.Broken = c.Cycle, f.Graph.Broken()
	}
	in := owner.PlanInput{Owner: ownerOf(controlPlane), BlockOwnDeletion: len(f.Fargate.Obsolete) > 0}
	if p.Apply, err = f.Observed.Plan(in, c, controlplanev1.DependenciesReadyCondition); err != nil {
		return p, err
	}
	ready := p.Apply.Ready()
	publish := ready && p.Apply.Step == owner.Provision // Not while paused, and not during deletion.
	p.PublishEndpoint = publish
	p.Kubeconfig = f.kubeconfigPlan(controlPlane, ready)
	p.Kubeconfig.Write = publish
	p.SkipFargate = f.Apply.HeldBy != nil || f.Apply.RetainConflict != "" || f.Apply.Held && controlPlane.DeletionTimestamp.IsZero()
	p.Fargate, err = f.Fargate.Plan(controlPlane, fargate.PlanInput{Paused: f.Paused, Blocked: p.Apply.Blocked != nil, Ready: ready && p.Apply.Blocked == nil})
	p.Apply.Recovery = f.recoveryPlan(controlPlane, p)
	return p, err
}

func ownerOf(controlPlane *controlplanev1.CAPTControlPlane) owner.Owner {
	return owner.Owner{
		Object: controlPlane, Kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), Ref: &controlPlane.Spec.WorkspaceTemplateApplyRef,
		Finalizer: controlplanev1.CAPTControlPlaneFinalizer, FieldManager: fieldManager, Creates: "the control plane",
		Strategy: controlPlane.Spec.Recovery, Timeouts: controlPlane.Spec.Timeouts.WaitTimeouts,
	}
}

// kubeconfigPlan returns the plan for the kubeconfig Secrets: publish them once Terraform is done, and only renew tokens before that.
func (f *Facts) kubeconfigPlan(controlPlane *controlplanev1.CAPTControlPlane, ready bool) kubeconfigsecret.Plan {
	p := kubeconfigsecret.Plan{Paused: f.Paused != "", NameConflict: f.NameConflict, Now: f.Now}
	switch {
	case f.Cluster == nil || f.Apply.Live == nil:
		return kubeconfigsecret.Plan{}
	case ready:
		p.Mode = kubeconfigsecret.Publish
	case f.CreatesTokens:
		p.Mode = kubeconfigsecret.RenewToken
	}
	p.Cluster = kubeconfigsecret.Cluster{
		ControlPlane: controlPlane, Name: f.Cluster.Name, EKSName: f.Apply.Live.Spec.Variables.Text(naming.ClusterVariable),
		Region: f.desired(controlPlane).EKSCluster().Region, Outputs: f.outputs(),
	}
	return p
}

func (f *Facts) desired(controlPlane *controlplanev1.CAPTControlPlane) *desired.ControlPlane {
	c := desired.NewControlPlane(controlPlane, f.Cluster, f.Infrastructure)
	c.Existing, c.Template, c.OtherClaims, c.NodeGroups = f.Apply.Existing(), &f.Template, f.OtherClaims, f.NodeGroups
	return c
}

// reconcileControlPlane holds, provisions, destroys or releases the WorkspaceTemplateApply of the control plane.
func (r *Reconciler) reconcileControlPlane(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, _ *Facts, p *Plan) error {
	return p.Apply.Act(ctx, r.Client, r.Uncached, func() {
		controlPlane.Spec.ControlPlaneEndpoint = validation.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint)
	})
}

func (r *Reconciler) reconcileKubeconfig(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	publisher := kubeconfigsecret.Publisher{Client: r.Client, Tokens: r.Tokens, Secrets: r.Secrets}
	after, err := publisher.Publish(ctx, p.Kubeconfig, &f.Kubeconfig, &f.UserKubeconfig)
	f.RequeueWithin(after)
	expiry, _ := kubeconfig.Expiry(f.Kubeconfig.Published(controlPlane))
	r.Kubeconfigs.Report(client.ObjectKeyFromObject(controlPlane), expiry)
	return err
}

// publishEndpoint sets spec.controlPlaneEndpoint. It must run after the kubeconfigs are published: Cluster API connects as soon as it has the
// endpoint, and waits 30 seconds if there is no kubeconfig then. An endpoint that is set is not changed, unless it has an invalid form,
// or the cluster was recreated, by Terraform or outside of CAPT.
func (r *Reconciler) publishEndpoint(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	if !p.PublishEndpoint {
		return nil
	}
	written := validation.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint)
	endpoint, unknown := written, !written.IsValid() || recreated(&controlPlane.Status)
	follow := !unknown && f.endpointMoved(controlPlane)
	f.EndpointKept = !follow
	if unknown || follow {
		if endpoint, _ = f.outputs().Endpoint(); endpoint.IsZero() { // Missing or invalid: the condition EndpointAvailable reports it.
			return nil
		}
	}
	if err := engine.Patch(ctx, r.Client, controlPlane, func() { controlPlane.Spec.ControlPlaneEndpoint = endpoint }); err != nil || !follow {
		return err
	}
	r.Recorder.Eventf(controlPlane, nil, corev1.EventTypeWarning, controlplanev1.EndpointChangedReason, controlplanev1.EndpointAvailableCondition,
		"Output %q changed from %s to %s: the EKS cluster was replaced outside of CAPT. spec.controlPlaneEndpoint follows it", terraform.OutputClusterEndpoint, written.String(), endpoint.String())
	return nil
}

// endpointMoved reports whether Terraform reported the endpoint of spec before, and now reports another one, for which the kubeconfig is. An endpoint
// that a user, a manifest or another version wrote is not replaced.
func (f *Facts) endpointMoved(controlPlane *controlplanev1.CAPTControlPlane) bool {
	now, moved := f.otherOutput(controlPlane)
	if !moved || controlPlane.Status.ObservedGeneration == 0 {
		return false
	}
	_, address, err := kubeconfig.AnonymousConfig(f.Kubeconfig.Data)
	if err != nil {
		return false
	}
	host, port, _ := terraform.ParseEndpoint(address.Host) // Empty if it is invalid.
	return now == clusterv1.APIEndpoint{Host: host, Port: port}
}

// otherOutput returns the endpoint that Terraform reports if it differs from the one of spec, which status reports as the one before.
func (f *Facts) otherOutput(controlPlane *controlplanev1.CAPTControlPlane) (clusterv1.APIEndpoint, bool) {
	last, written := controlPlane.Status.WorkspaceTemplateApply, validation.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint)
	if last == nil || !written.IsValid() {
		return clusterv1.APIEndpoint{}, false
	}
	before, _ := kubeconfigsecret.Outputs{Published: last.Outputs}.Endpoint() // Zero if it is invalid.
	now, _ := f.outputs().Endpoint()
	return now, before == written && !now.IsZero() && now != written
}

func (r *Reconciler) reconcileFargateProfiles(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	r.FargateMetrics.Observe(client.ObjectKeyFromObject(controlPlane), p.Fargate.MetricProfiles(), f.Now)
	if p.SkipFargate {
		return nil
	}
	return p.Fargate.Act(ctx, r.Client, r.Uncached)
}

// reconcileProbes starts, changes or stops the probes of the API server, and reads their results.
func (r *Reconciler) reconcileProbes(_ context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	key := client.ObjectKeyFromObject(controlPlane)
	kubeconfig := f.Kubeconfig.Published(controlPlane)
	switch {
	case r.Probes == nil:
		return nil
	case !controlPlane.DeletionTimestamp.IsZero(), f.GateDecision.KeepsStatus(controlPlane, situation(controlPlane, f, p)):
		r.Probes.Forget(key)
		return nil
	case f.EndpointProbe == controlplanev1.EndpointProbeDisabled, f.Paused != "":
		r.Probes.Stop(key)
	case f.Apply.ResourcesAbsent():
		r.Probes.Stop(key)
		f.Probed = health.NotProbed("Terraform has not created the cluster, or is destroying it")
	case kubeconfig == nil:
		r.Probes.Stop(key)
		f.Probed = health.NotProbed("waiting for the kubeconfig")
	default:
		r.Probes.Track(key, f.probeTarget(controlPlane, p, kubeconfig))
		f.Probed = r.Probes.Results(key)
	}
	r.Probes.Report(key, conditionsOf(controlPlane, f, p).health)
	return nil
}

// probeTarget is what is probed. The version is known while Terraform has applied what spec wants.
func (f *Facts) probeTarget(controlPlane *controlplanev1.CAPTControlPlane, p *Plan, kubeconfig []byte) probe.Target {
	target := probe.Target{Kubeconfig: kubeconfig, Required: f.EndpointProbe == controlplanev1.EndpointProbeRequired, Last: controlPlane.Status.Health}
	if p.Apply.Ready() && p.Apply.Blocked == nil {
		target.Version = f.desired(controlPlane).Version.EKS
	}
	return target
}

// mustProbe reports whether this manager still has to probe the API server of a control plane.
func (r *Reconciler) mustProbe(ctx context.Context, key client.ObjectKey) bool {
	controlPlane := &controlplanev1.CAPTControlPlane{}
	if err := r.Client.Get(ctx, key, controlPlane); err != nil {
		return !engine.Absent(err)
	}
	return r.Watches(controlPlane) && controlPlane.DeletionTimestamp.IsZero() && desired.Paused(nil, controlPlane) == ""
}

// await repeats the reconcile for timeouts, tokens and templates, which no watch reports.
func (r *Reconciler) await(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	if f.Paused == "" && controlPlane.DeletionTimestamp.IsZero() {
		c := conditionsOf(controlPlane, f, p)
		r.AwaitTimeout(&p.Apply, &f.Observed, f.timeoutOf(controlPlane, p, c.firstUnmet()), c.firstUnmet(), wasInitialized(controlPlane))
		for i := range p.Fargate.Profiles {
			if profile := &p.Fargate.Profiles[i]; !profile.Apply.Ready() {
				f.AwaitEnd(profile.Timeout)
			}
		}
	}
	return f.Await(ctx, &p.Apply)
}
