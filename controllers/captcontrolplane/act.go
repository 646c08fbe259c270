/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package captcontrolplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

func (r *Reconciler) act(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	switch decide(controlPlane, f) {
	case Provision:
		return r.provision(ctx, controlPlane, f)
	case Configure:
		return r.configure(ctx, controlPlane, f)
	case Destroy:
		return f.Apply.Delete(ctx, r.Client)
	case Release:
		return r.patch(ctx, controlPlane, func() {
			controllerutil.RemoveFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
		})
	case Observe:
	}
	return nil
}

// provision writes down which WorkspaceTemplateApply is ours, and only then makes it: whatever happens between the two,
// there is never a second one.
func (r *Reconciler) provision(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	err := r.patch(ctx, controlPlane, func() {
		controllerutil.AddFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
		if controlPlane.Spec.WorkspaceTemplateApplyRef == nil {
			controlPlane.Spec.WorkspaceTemplateApplyRef = &infrav1.WorkspaceTemplateApplyReference{Name: f.Apply.Desired.GetName()}
		}
	})
	if err != nil {
		return err
	}
	return f.Apply.Write(ctx, r.Client, manager)
}

// configure publishes the kubeconfigs before the endpoint: Cluster API connects as soon as it knows the endpoint, and waits
// half a minute when it finds no kubeconfig then.
func (r *Reconciler) configure(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	// One that was adopted, or restored from a backup, did not come by here through provision.
	if err := r.patch(ctx, controlPlane, func() {
		controllerutil.AddFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
	}); err != nil {
		return err
	}
	for name, published := range map[string]*Published{
		naming.KubeconfigSecret(f.Cluster.Name):     &f.Kubeconfig,
		naming.UserKubeconfigSecret(f.Cluster.Name): &f.UserKubeconfig,
	} {
		if err := r.writeKubeconfig(ctx, controlPlane, f.Cluster.Name, name, published); err != nil {
			return err
		}
	}
	endpoint, err := f.endpoint()
	if err != nil || endpoint.IsZero() {
		return nil //nolint:nilerr // Status tells; a retry would find the same output.
	}
	return r.patch(ctx, controlPlane, func() {
		if !controlPlane.Spec.ControlPlaneEndpoint.IsValid() {
			controlPlane.Spec.ControlPlaneEndpoint = endpoint
		}
	})
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
	published.Written = true
	return nil
}

// patch writes metadata and spec, if change changes them. It is refused when our cache was behind.
func (r *Reconciler) patch(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, change func()) error {
	original := controlPlane.DeepCopy()
	if change(); equality.Semantic.DeepEqual(original, controlPlane) {
		return nil
	}
	patch := client.MergeFromWithOptions(original, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, controlPlane, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing finalizer, workspaceTemplateApplyRef or controlPlaneEndpoint: %w", err)
	}
	return nil
}
