// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
)

// reconcileControlPlane holds, provisions, destroys or releases the WorkspaceTemplateApply of the control plane.
func (r *Reconciler) reconcileControlPlane(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, _ *Facts, p *Plan) error {
	return p.Apply.Act(ctx, r.Client, func() {
		controlPlane.Spec.ControlPlaneEndpoint = owners.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint)
	})
}

// reconcileKubeconfig publishes the kubeconfigs, and renews tokens.
func (r *Reconciler) reconcileKubeconfig(ctx context.Context, _ *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	publisher := kubeconfigsecret.Publisher{Client: r.Client, Tokens: r.Tokens}
	after, err := publisher.Publish(ctx, p.Kubeconfig, &f.Kubeconfig, &f.UserKubeconfig)
	f.requeueWithin(after)
	return err
}

// publishEndpoint sets spec.controlPlaneEndpoint. It must run after the kubeconfigs are published: Cluster API connects as soon as it has the
// endpoint, and waits 30 seconds if there is no kubeconfig then. An endpoint that is set is not changed, unless it has the invalid form of
// CAPT v0.3.
func (r *Reconciler) publishEndpoint(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	if !p.PublishEndpoint {
		return nil
	}
	endpoint := owners.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint)
	if !endpoint.IsValid() {
		var err error
		if endpoint, err = f.outputs().Endpoint(); err != nil || endpoint.IsZero() {
			return nil //nolint:nilerr // The condition EndpointAvailable reports it; a retry would read the same output.
		}
	}
	return engine.Patch(ctx, r.Client, controlPlane, func() { controlPlane.Spec.ControlPlaneEndpoint = endpoint })
}

// reconcileFargateProfiles creates, changes and deletes Fargate profiles.
func (r *Reconciler) reconcileFargateProfiles(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	r.Metrics.Observe(client.ObjectKeyFromObject(controlPlane), p.Fargate.MetricProfiles(), f.Now)
	if p.SkipFargate {
		return nil
	}
	return p.Fargate.Act(ctx, r.Client)
}

// awaitTimeouts requeues the object for the next time at which a timeout or a token expires, which no watch reports.
func (r *Reconciler) awaitTimeouts(_ context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	if p.AwaitTemplate {
		f.requeueWithin(owner.TemplateInterval)
	}
	f.requeueWithin(f.nextTimeout(controlPlane, p))
	if f.requeueAfter == 0 {
		return nil
	}
	return engine.Wait("a timeout, a token or a template", f.requeueAfter)
}
