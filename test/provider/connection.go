// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/executor"
)

// secretTypeConnection is the type of the Secrets outputs are published in.
const secretTypeConnection corev1.SecretType = "connection.crossplane.io/v1alpha1"

// publish writes all outputs, sensitive ones too, into the connection Secret, creating it even when there are none.
// Keys are only ever added or changed: what a module no longer has as an output stays in the Secret.
func (r *reconciler) publish(ctx context.Context, w workspace, outputs []executor.Output) error {
	key := w.connectionSecret()
	if key == nil {
		return nil
	}
	if err := r.publishTo(ctx, w, *key, connectionDetails(outputs)); err != nil {
		return fmt.Errorf("cannot create or update connection secret: %w", err)
	}
	return nil
}

func (r *reconciler) publishTo(ctx context.Context, w workspace, key types.NamespacedName, data map[string][]byte) error {
	desired := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{controllerReference(w, r.scope)},
		},
		Type: secretTypeConnection,
		Data: data,
	}
	current := &corev1.Secret{}
	err := r.reader.Get(ctx, key, current)
	switch {
	case apierrors.IsNotFound(err):
		return r.client.Create(ctx, desired)
	case err != nil:
		return err
	}
	if err := mayPublish(current, w); err != nil {
		return err
	}
	if holds(current.Data, data) {
		return nil
	}
	before := current.DeepCopy()
	current.OwnerReferences = desired.OwnerReferences
	if current.Data == nil {
		current.Data = map[string][]byte{}
	}
	for k, v := range data {
		current.Data[k] = v
	}
	return r.client.Patch(ctx, current, client.MergeFrom(before))
}

// mayPublish refuses Secrets that belong to another owner.
func mayPublish(s *corev1.Secret, w workspace) error {
	switch owner := metav1.GetControllerOf(s); {
	case owner == nil && s.Type != secretTypeConnection:
		return fmt.Errorf("refusing to modify uncontrolled secret of type %q", s.Type)
	case owner != nil && owner.UID != w.object().GetUID():
		return fmt.Errorf("existing secret is not controlled by UID %q", w.object().GetUID())
	}
	return nil
}

func holds(have, want map[string][]byte) bool {
	for k, v := range want {
		if current, ok := have[k]; !ok || string(current) != string(v) {
			return false
		}
	}
	return true
}

// connectionDetails are strings as they are and everything else as JSON.
func connectionDetails(outputs []executor.Output) map[string][]byte {
	data := make(map[string][]byte, len(outputs))
	for _, o := range outputs {
		if s, ok := o.Value.(string); ok && o.String {
			data[o.Name] = []byte(s)
			continue
		}
		if j, err := json.Marshal(o.Value); err == nil {
			data[o.Name] = j
		}
	}
	return data
}
