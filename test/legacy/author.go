// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
)

// Field managers of a legacy fleet.
const (
	// FieldManager is that of CAPT v0.3.
	FieldManager = "older"
	// CoreFieldManager is that of Cluster API, and ProviderFieldManager that of provider-terraform.
	CoreFieldManager     = "core"
	ProviderFieldManager = "provider"
)

// lastApplied is where kubectl keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Applier is the field manager that applies the manifests that a team keeps in Git.
type Applier string

// Appliers of manifests.
const (
	// Kubectl applies on the client's side, as it does by default.
	Kubectl Applier = "kubectl-client-side-apply"
	// Flux applies on the server's side, and labels what it applies.
	Flux Applier = "kustomize-controller"
	// ArgoCD applies like kubectl, and labels what it applies.
	ArgoCD Applier = "argocd-controller"
	// Topology is Cluster API, for a Cluster of a ClusterClass.
	Topology Applier = "capi-topology"
)

// author writes the objects of a fleet, in the order of their lives. After an error it writes nothing more.
type author struct {
	ctx     context.Context //nolint:containedctx // it lives as long as one call of Create
	client  client.Client
	applier Applier
	quick   bool
	objects *Objects
	err     error
}

// declare writes an object as it is in Git. With quick, CAPT v0.3's part is in it from the beginning.
func (a *author) declare(manifest *unstructured.Unstructured, grow func(*unstructured.Unstructured)) *unstructured.Unstructured {
	a.objects.Manifests = append(a.objects.Manifests, manifest.DeepCopy())
	if a.quick {
		grow(manifest)
		return a.make(manifest, FieldManager)
	}
	if a.err != nil {
		return manifest
	}
	switch a.applier {
	case Flux:
		label(manifest, "kustomize.toolkit.fluxcd.io/name", "clusters")
		label(manifest, "kustomize.toolkit.fluxcd.io/namespace", "flux-system")
		return a.apply(manifest)
	case Topology:
		return a.apply(manifest)
	case ArgoCD:
		label(manifest, "app.kubernetes.io/instance", "clusters")
		fallthrough
	case Kubectl:
		a.annotateApplied(manifest)
	}
	return a.make(manifest, string(a.applier))
}

func (a *author) annotateApplied(manifest *unstructured.Unstructured) {
	content, err := json.Marshal(manifest.Object)
	a.fail("encoding", manifest, err)
	annotations.AddAnnotations(manifest, map[string]string{lastApplied: string(content) + "\n"})
}

func (a *author) apply(object *unstructured.Unstructured) *unstructured.Unstructured {
	a.fail("applying", object, a.client.Apply(a.ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(string(a.applier)), client.ForceOwnership))
	return object
}

// make creates an object whole.
func (a *author) make(object *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	if a.err == nil {
		a.fail("creating", object, a.client.Create(a.ctx, object, client.FieldOwner(manager)))
	}
	return object
}

// grow lets a controller add to an object. Where it has nothing to add, it writes nothing.
func (a *author) grow(object *unstructured.Unstructured, manager string, change func(*unstructured.Unstructured)) {
	if a.err != nil {
		return
	}
	a.fail("changing", object, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before := object.DeepCopy()
		change(object)
		if equality.Semantic.DeepEqual(before.Object, object.Object) {
			return nil
		}
		return a.retryable(object, a.client.Update(a.ctx, object, client.FieldOwner(manager)))
	}))
}

// report writes status.
func (a *author) report(object *unstructured.Unstructured, manager string, status map[string]any) {
	if a.err != nil {
		return
	}
	a.fail("reporting", object, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object.Object["status"] = runtime.DeepCopyJSON(status)
		return a.retryable(object, a.client.Status().Update(a.ctx, object, client.FieldOwner(manager)))
	}))
}

// retryable reads an object again that another client has changed.
func (a *author) retryable(object *unstructured.Unstructured, err error) error {
	if apierrors.IsConflict(err) {
		if err := a.client.Get(a.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
	}
	return err
}

// done records objects as they are in the end.
func (a *author) done(objects ...*unstructured.Unstructured) {
	for _, object := range objects {
		a.objects.Items = append(a.objects.Items, *object)
	}
}

func (a *author) fail(what string, object *unstructured.Unstructured, err error) {
	if a.err == nil && err != nil {
		a.err = fmt.Errorf("%s %s %s/%s: %w", what, object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
}

// untyped is the form in which objects are written: typed ones would be sent with fields that the test did not set.
func untyped(kind schema.GroupVersionKind, typed any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(fmt.Sprintf("legacy: %s: %v", kind.Kind, err)) // A mistake in this package.
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	delete(object.Object, "status")
	return object
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func label(object *unstructured.Unstructured, key, value string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	object.SetLabels(labels)
}

// owned adds an owner reference in the version of CAPT v0.3's own kinds.
func owned(object, owner *unstructured.Unstructured, apiVersion string, controller bool) {
	ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}
	if controller {
		ref.Controller, ref.BlockOwnerDeletion = &controller, &controller
	}
	object.SetOwnerReferences(util.EnsureOwnerRef(object.GetOwnerReferences(), ref))
}

// set a field of an object.
func set(object *unstructured.Unstructured, value any, fields ...string) {
	if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
		panic(fmt.Sprintf("legacy: %s: %v", object.GetKind(), err)) // A mistake in this package.
	}
}

// secret makes one that belongs to another object. Whatever else is in it, it has the canary.
func (a *author) secret(namespace, name string, kind corev1.SecretType, data map[string]string, owner *unstructured.Unstructured, apiVersion string) {
	secret := &corev1.Secret{ObjectMeta: meta(namespace, name), Type: kind, StringData: map[string]string{"canary": Canary}}
	maps.Copy(secret.StringData, data)
	if kind == clusterv1.ClusterSecretType {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: owner.GetName()}
	}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.FromAPIVersionAndKind(apiVersion, owner.GetKind()))}
	a.makeSecret(secret, FieldManager)
}

// state makes the Secret in which Terraform keeps its state of a Workspace.
func (a *author) state(workspace string) {
	name := "tfstate-" + workspace + "-" + sandbox.ProviderConfigName
	secret := &corev1.Secret{ObjectMeta: meta(sandbox.ProviderNamespace, name), StringData: map[string]string{"tfstate": Canary}}
	secret.Labels = map[string]string{
		"app.kubernetes.io/managed-by": "terraform", "tfstate": "true",
		"tfstateSecretSuffix": sandbox.ProviderConfigName, "tfstateWorkspace": workspace,
	}
	a.makeSecret(secret, ProviderFieldManager)
}

func (a *author) makeSecret(secret *corev1.Secret, manager string) {
	if a.err != nil || a.quick {
		return
	}
	if err := a.client.Create(a.ctx, secret, client.FieldOwner(manager)); err != nil {
		a.err = fmt.Errorf("creating Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
}

// delete begins the deletion of an object, which its finalizers hold back.
func (a *author) delete(object *unstructured.Unstructured) {
	if a.err != nil {
		return
	}
	a.fail("deleting", object, a.client.Delete(a.ctx, object))
	a.fail("reading", object, a.client.Get(a.ctx, client.ObjectKeyFromObject(object), object))
}

// timeout is how long a provider may take for a Workspace, and tick how often it is polled.
const (
	timeout = 5 * time.Minute
	tick    = 300 * time.Millisecond
)

// await returns when a provider has run a Workspace, or failed to.
func (a *author) await(workspace *unstructured.Unstructured, of outcome) {
	if a.err != nil {
		return
	}
	a.fail("waiting for", workspace, wait.PollUntilContextTimeout(a.ctx, tick, timeout, true, func(ctx context.Context) (bool, error) {
		if err := a.client.Get(ctx, client.ObjectKeyFromObject(workspace), workspace); err != nil {
			return false, err
		}
		reported, _ := conditions.UnstructuredGetAll(workspace) // It may have none yet.
		if of != succeeded {
			return apimeta.IsStatusConditionFalse(reported, "Synced"), nil
		}
		return apimeta.IsStatusConditionTrue(reported, "Ready") && apimeta.IsStatusConditionTrue(reported, "Synced"), nil
	}))
}
