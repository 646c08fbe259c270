// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
)

// secret makes one that belongs to another object. Whatever else is in it, it has the canary.
func (a *author) secret(namespace, name string, kind corev1.SecretType, data map[string]string, owner *unstructured.Unstructured, apiVersion string) {
	if a.err != nil || a.quick {
		return
	}
	secret := &corev1.Secret{ObjectMeta: meta(namespace, name), Type: kind, StringData: map[string]string{"canary": Canary}}
	for key, value := range data {
		secret.StringData[key] = value
	}
	if kind == clusterv1.ClusterSecretType {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: owner.GetName()}
	}
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: apiVersion, Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}
	if err := a.client.Create(a.ctx, secret, client.FieldOwner(FieldManager)); err != nil {
		a.err = fmt.Errorf("creating Secret %s/%s: %w", namespace, name, err)
	}
}

// state makes the Secret in which Terraform keeps its state of a Workspace.
func (a *author) state(workspace string) {
	if a.err != nil || a.quick {
		return
	}
	name := "tfstate-" + workspace + "-" + sandbox.ProviderConfigName
	secret := &corev1.Secret{ObjectMeta: meta(sandbox.ProviderNamespace, name), StringData: map[string]string{"tfstate": Canary}}
	secret.Labels = map[string]string{
		"app.kubernetes.io/managed-by": "terraform", "tfstate": "true",
		"tfstateSecretSuffix": sandbox.ProviderConfigName, "tfstateWorkspace": workspace,
	}
	if err := a.client.Create(a.ctx, secret, client.FieldOwner(ProviderFieldManager)); err != nil {
		a.err = fmt.Errorf("creating Secret %s: %w", name, err)
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

// patience is how long a provider may take for a Workspace, and tick how often it is polled.
const (
	patience = 5 * time.Minute
	tick     = 100 * time.Millisecond
)

// await returns when a provider has run a Workspace, or failed to.
func (a *author) await(workspace *unstructured.Unstructured, of outcome) {
	if a.err != nil {
		return
	}
	a.fail("waiting for", workspace, wait.PollUntilContextTimeout(a.ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		if err := a.client.Get(ctx, client.ObjectKeyFromObject(workspace), workspace); err != nil {
			return false, err
		}
		if of != succeeded {
			return conditionStatus(workspace, "Synced") == "False", nil
		}
		return conditionStatus(workspace, "Ready") == "True" && conditionStatus(workspace, "Synced") == "True", nil
	}))
}

func conditionStatus(object *unstructured.Unstructured, conditionType string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == conditionType {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}
