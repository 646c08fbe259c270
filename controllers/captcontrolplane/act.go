// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
)

func (r *Reconciler) act(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	// A token is renewed whatever else can be done, or goes wrong; and a profile that is refused keeps nobody from the cluster.
	if err := errors.Join(r.renew(ctx, controlPlane, f), r.carryOut(ctx, controlPlane, f), r.actOnProfiles(ctx, controlPlane, f)); err != nil {
		return err
	}
	if f.awaitTimeouts(controlPlane); f.again == 0 {
		return nil
	}
	return engine.Wait("what no watch can tell", f.again)
}

func (r *Reconciler) actOnProfiles(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	metrics.FargateProfiles.Observe(client.ObjectKeyFromObject(controlPlane), f.Fargate.Measured(), f.Now)
	// The profiles go first, and are as gone as what is not to be deleted.
	if f.Apply.RetainConflict != "" || f.Apply.AwaitsAdoption && controlPlane.DeletionTimestamp.IsZero() {
		return nil
	}
	return f.Fargate.Act(ctx, r.Client, controlPlane)
}

func (r *Reconciler) carryOut(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	switch decide(controlPlane, f) {
	case Provision:
		return r.provision(ctx, controlPlane, f)
	case Configure:
		// Nothing differs then: this restores managedFields that were lost.
		return errors.Join(f.Apply.Write(ctx, r.Client, manager), r.configure(ctx, controlPlane, f))
	case Hold:
		return engine.Patch(ctx, r.Client, controlPlane, func() {
			controllerutil.AddFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
		})
	case Destroy:
		return f.Apply.DeleteNext(ctx, r.Client)
	case Release:
		return engine.Patch(ctx, r.Client, controlPlane, func() {
			controllerutil.RemoveFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
		})
	case Observe:
	}
	return nil
}

// provision writes down which WorkspaceTemplateApply is ours, and only then makes it: whatever happens between the two,
// there is never a second one.
func (r *Reconciler) provision(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	err := engine.Patch(ctx, r.Client, controlPlane, func() {
		controllerutil.AddFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
		if !controlPlane.Spec.WorkspaceTemplateApplyRef.IsDefined() {
			controlPlane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: f.Apply.Desired.GetName()}
		}
		controlPlane.Spec.ControlPlaneEndpoint = owners.Endpoint(controlPlane.Spec.ControlPlaneEndpoint)
	})
	if err != nil {
		return err
	}
	return f.Apply.Write(ctx, r.Client, manager)
}

// configure publishes the kubeconfigs before the endpoint: Cluster API connects as soon as it knows the endpoint, and waits
// half a minute when it finds no kubeconfig then. An endpoint that is known stays, but for the form in which the older CAPT
// wrote it.
func (r *Reconciler) configure(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	if err := r.writeKubeconfig(ctx, controlPlane, f.Cluster.Name, naming.KubeconfigSecret(f.Cluster.Name), &f.Kubeconfig); err != nil {
		return err
	}
	if err := r.writeKubeconfig(ctx, controlPlane, f.Cluster.Name, naming.UserKubeconfigSecret(f.Cluster.Name), &f.UserKubeconfig); err != nil {
		return err
	}
	endpoint := owners.Endpoint(controlPlane.Spec.ControlPlaneEndpoint)
	if !endpoint.IsValid() {
		var err error
		if endpoint, err = f.endpoint(); err != nil || endpoint.IsZero() {
			return nil //nolint:nilerr // Status tells; a retry would find the same output.
		}
	}
	return engine.Patch(ctx, r.Client, controlPlane, func() { controlPlane.Spec.ControlPlaneEndpoint = endpoint })
}

// renew writes a new token in place of one that is published.
func (r *Reconciler) renew(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	if f.Paused != "" || !f.Kubeconfig.renewal() {
		return nil
	}
	return r.writeKubeconfig(ctx, controlPlane, f.Cluster.Name, naming.KubeconfigSecret(f.Cluster.Name), &f.Kubeconfig)
}

func (r *Reconciler) writeKubeconfig(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, cluster, name string, published *Published) error {
	if published.Data == nil || published.Written {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Writing kubeconfig", "Secret", klog.KRef(controlPlane.Namespace, name))
	config, err := engine.Unstructured(kubeconfigSecret(controlPlane, cluster, name, published.Data))
	if err != nil {
		return err
	}
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), client.FieldOwner(manager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", name, err)
	}
	if err := engine.Reclaim(ctx, r.Client, config, manager); err != nil {
		return err
	}
	published.Written = true
	return nil
}
