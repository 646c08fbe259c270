// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
)

const capiUser = "capi-controller-manager"

var (
	clusterKind     = clusterv1.GroupVersion.WithKind("Cluster")
	machinePoolKind = clusterv1.GroupVersion.WithKind("MachinePool")
	captClusterKind = infrav1.GroupVersion.WithKind("CAPTCluster")
	poolKind        = infrav1.GroupVersion.WithKind("CAPTMachinePool")
	templateKind    = infrav1.GroupVersion.WithKind("WorkspaceTemplate")
	applyKind       = infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")
	captPlaneKind   = controlplanev1.GroupVersion.WithKind("CAPTControlPlane")
	workspaceKind   = terraform.ScopeNamespaced.GroupVersionKind()
	namespaceKind   = corev1.SchemeGroupVersion.WithKind("Namespace")
)

// core is the part of Cluster API that its contract describes.
type core struct{ world *World }

// peek reads an object without a copy: it must not be changed.
func peek[O client.Object](w *World, gvk schema.GroupVersionKind, namespace, name string) (found O) {
	if object := w.store.of(gvk).objects[types.NamespacedName{Namespace: namespace, Name: name}]; object != nil {
		return object.(O)
	}
	return found
}

// edit changes an object as a client does that has just read it.
func edit[O client.Object](w *World, user string, object O, status bool, change func(O)) error {
	copied := object.DeepCopyObject().(O)
	if change(copied); engine.Equal(object, copied) {
		return nil
	}
	copied.SetResourceVersion("")
	_, err := w.store.update(&write{user: user, manager: user, verb: "update", status: status}, copied)
	return err
}

func (c core) step(gvk schema.GroupVersionKind, key types.NamespacedName) {
	switch object := c.world.store.of(gvk).objects[key].(type) {
	case *clusterv1.Cluster:
		c.cluster(object)
	case *clusterv1.MachinePool:
		c.machinePool(object)
	}
}

func (c core) cluster(cluster *clusterv1.Cluster) {
	if ptr.Deref(cluster.Spec.Paused, false) || annotations.HasPaused(cluster) {
		return
	}
	if !cluster.DeletionTimestamp.IsZero() {
		c.deleteCluster(cluster)
		return
	}
	if !controllerutil.ContainsFinalizer(cluster, clusterv1.ClusterFinalizer) {
		_ = edit(c.world, capiUser, cluster, false, func(o *clusterv1.Cluster) { controllerutil.AddFinalizer(o, clusterv1.ClusterFinalizer) })
		return
	}
	infra := peek[*infrav1.CAPTCluster](c.world, captClusterKind, cluster.Namespace, cluster.Spec.InfrastructureRef.Name)
	plane := peek[*controlplanev1.CAPTControlPlane](c.world, captPlaneKind, cluster.Namespace, cluster.Spec.ControlPlaneRef.Name)
	if infra != nil {
		c.own(infra, cluster, clusterKind, cluster.Name)
	}
	if plane != nil {
		c.own(plane, cluster, clusterKind, cluster.Name)
	}
	c.copyContract(cluster, infra, plane)
}

func (c core) copyContract(cluster *clusterv1.Cluster, infra *infrav1.CAPTCluster, plane *controlplanev1.CAPTControlPlane) {
	endpoint, status := cluster.Spec.ControlPlaneEndpoint, cluster.Status.Initialization
	if infra != nil && ptr.Deref(infra.Status.Initialization.Provisioned, false) {
		status.InfrastructureProvisioned = ptr.To(true)
	}
	if plane != nil && ptr.Deref(plane.Status.Initialization.ControlPlaneInitialized, false) {
		status.ControlPlaneInitialized = ptr.To(true)
	}
	if plane != nil && endpoint.IsZero() {
		endpoint = plane.Spec.ControlPlaneEndpoint
	}
	if endpoint != cluster.Spec.ControlPlaneEndpoint {
		_ = edit(c.world, capiUser, cluster, false, func(o *clusterv1.Cluster) { o.Spec.ControlPlaneEndpoint = endpoint })
		cluster = peek[*clusterv1.Cluster](c.world, clusterKind, cluster.Namespace, cluster.Name)
	}
	if ptr.Deref(status.InfrastructureProvisioned, false) != ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false) ||
		ptr.Deref(status.ControlPlaneInitialized, false) != ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		_ = edit(c.world, capiUser, cluster, true, func(o *clusterv1.Cluster) { o.Status.Initialization = status })
	}
}

// own makes an object controlled by a Cluster or a MachinePool.
func (c core) own(object, owner client.Object, kind schema.GroupVersionKind, cluster string) {
	if metav1.GetControllerOf(object) != nil && metav1.GetControllerOf(object).UID != owner.GetUID() {
		return // Another object controls it: Cluster API reports an error.
	}
	if metav1.IsControlledBy(object, owner) && object.GetLabels()[clusterv1.ClusterNameLabel] == cluster {
		return
	}
	_ = edit(c.world, capiUser, object, false, func(o client.Object) {
		references := slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == kind.Kind && r.Name == owner.GetName() })
		o.SetOwnerReferences(append(references, *metav1.NewControllerRef(owner, kind)))
		labels := map[string]string{clusterv1.ClusterNameLabel: cluster}
		for key, value := range o.GetLabels() {
			if labels[key] == "" {
				labels[key] = value
			}
		}
		o.SetLabels(labels)
	})
}

// deleteCluster deletes the machine pools, then the control plane, then the infrastructure.
func (c core) deleteCluster(cluster *clusterv1.Cluster) {
	for _, key := range c.world.store.of(machinePoolKind).keys {
		pool := peek[*clusterv1.MachinePool](c.world, machinePoolKind, key.Namespace, key.Name)
		if pool.Namespace == cluster.Namespace && pool.Spec.ClusterName == cluster.Name {
			c.delete(machinePoolKind, pool)
			return
		}
	}
	if plane := peek[*controlplanev1.CAPTControlPlane](c.world, captPlaneKind, cluster.Namespace, cluster.Spec.ControlPlaneRef.Name); plane != nil && metav1.IsControlledBy(plane, cluster) {
		c.delete(captPlaneKind, plane)
		return
	}
	if infra := peek[*infrav1.CAPTCluster](c.world, captClusterKind, cluster.Namespace, cluster.Spec.InfrastructureRef.Name); infra != nil && metav1.IsControlledBy(infra, cluster) {
		c.delete(captClusterKind, infra)
		return
	}
	if controllerutil.ContainsFinalizer(cluster, clusterv1.ClusterFinalizer) {
		_ = edit(c.world, capiUser, cluster, false, func(o *clusterv1.Cluster) { controllerutil.RemoveFinalizer(o, clusterv1.ClusterFinalizer) })
	}
}

func (c core) delete(gvk schema.GroupVersionKind, object client.Object) {
	if object.GetDeletionTimestamp().IsZero() {
		_ = c.world.store.remove(capiUser, gvk, client.ObjectKeyFromObject(object), nil)
	}
}

// deleteMachinePool deletes the infrastructure of a machine pool, then its finalizer.
func (c core) deleteMachinePool(pool *clusterv1.MachinePool, infra *infrav1.CAPTMachinePool) {
	switch {
	case infra != nil && metav1.IsControlledBy(infra, pool):
		c.delete(poolKind, infra)
	case controllerutil.ContainsFinalizer(pool, clusterv1.MachinePoolFinalizer):
		_ = edit(c.world, capiUser, pool, false, func(o *clusterv1.MachinePool) { controllerutil.RemoveFinalizer(o, clusterv1.MachinePoolFinalizer) })
	}
}

func (c core) machinePool(pool *clusterv1.MachinePool) {
	infra := peek[*infrav1.CAPTMachinePool](c.world, poolKind, pool.Namespace, pool.Spec.Template.Spec.InfrastructureRef.Name)
	cluster := peek[*clusterv1.Cluster](c.world, clusterKind, pool.Namespace, pool.Spec.ClusterName)
	if cluster != nil && ptr.Deref(cluster.Spec.Paused, false) || annotations.HasPaused(pool) {
		return
	}
	if !pool.DeletionTimestamp.IsZero() {
		c.deleteMachinePool(pool, infra)
		return
	}
	if cluster == nil {
		return
	}
	if !controllerutil.ContainsFinalizer(pool, clusterv1.MachinePoolFinalizer) || pool.Labels[clusterv1.ClusterNameLabel] == "" {
		_ = edit(c.world, capiUser, pool, false, func(o *clusterv1.MachinePool) {
			controllerutil.AddFinalizer(o, clusterv1.MachinePoolFinalizer)
			o.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}}
		})
		return
	}
	if infra == nil {
		return
	}
	c.own(infra, pool, machinePoolKind, cluster.Name)
	if ptr.Deref(infra.Status.Initialization.Provisioned, false) && !ptr.Deref(pool.Status.Initialization.InfrastructureProvisioned, false) {
		_ = edit(c.world, capiUser, pool, true, func(o *clusterv1.MachinePool) { o.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })
	}
}

// collect is the garbage collector: it deletes one object whose owners are all gone. It returns false if there is none.
func (w *World) collect() bool {
	known := map[types.UID]bool{}
	for _, r := range w.store.order {
		for _, object := range r.objects {
			known[object.GetUID()] = true
		}
	}
	for _, r := range w.store.order {
		for _, key := range r.keys {
			object := r.objects[key]
			references := object.GetOwnerReferences()
			if len(references) > 0 && object.GetDeletionTimestamp().IsZero() && !slices.ContainsFunc(references, func(o metav1.OwnerReference) bool { return known[o.UID] }) {
				w.tracef("gc %s %s", r.gvk.Kind, key)
				_ = w.store.remove("gc", r.gvk, key, nil)
				return true
			}
		}
	}
	return false
}

// terminate is the controller of namespaces: it deletes one object of a namespace that is being deleted.
func (w *World) terminate() bool {
	namespaces := w.store.of(namespaceKind)
	for _, name := range namespaces.keys {
		namespace := namespaces.objects[name]
		if namespace.GetDeletionTimestamp().IsZero() {
			continue
		}
		left := false
		for _, r := range w.store.order {
			for _, key := range r.keys {
				if key.Namespace != name.Name {
					continue
				}
				left = true
				if r.objects[key].GetDeletionTimestamp().IsZero() {
					w.tracef("namespace deletes %s %s", r.gvk.Kind, key)
					_ = w.store.remove("gc", r.gvk, key, nil)
					return true
				}
			}
		}
		if !left {
			_ = edit(w, "namespace-controller", namespace, false, func(o client.Object) { o.SetFinalizers(nil) })
			return true
		}
	}
	return false
}
