// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// Tell puts the error that a Workspace shows into words, without the secrets that it may quote. complete is false when what
// Terraform said is left out, since not all of them are known.
func (c *Client) Tell(ctx context.Context, live *Live) (told failure.Told, complete bool) {
	if !live.failed() {
		return failure.Told{}, true
	}
	secrets := c.secrets(ctx, live)
	return failure.Tell(live.condition(conditionSynced).Message, secrets.values, secrets.unknown), !secrets.unknown
}

// secrets are values that what Terraform says about a Workspace may quote.
type secrets struct {
	values [][]byte
	// unknown is true when a value can not be recognised: its Secret can not be read, is gone, or has changed since.
	unknown bool
}

// secrets reads the values that a failed Workspace gets from Secrets, and its sensitive outputs.
func (c *Client) secrets(ctx context.Context, live *Live) secrets {
	var found secrets
	told := lastStatus(live)
	if told.IsZero() {
		told = live.condition(conditionSynced).LastTransitionTime.Time
	}
	read := func(namespace, name string) *corev1.Secret {
		if namespace == "" {
			namespace = live.object.GetNamespace()
		}
		secret := &corev1.Secret{}
		err := c.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "A Secret that Terraform's error may quote can not be read", "Secret", name)
			found.unknown = true
		}
		return secret
	}
	for _, ref := range live.secretKeys() {
		secret := read(ref.Namespace, ref.Name)
		value, ok := secret.Data[ref.Key]
		if ok {
			found.values = append(found.values, value)
		}
		// The error may quote a value that is not there any more.
		found.unknown = found.unknown || !ok || changed(secret).After(told)
	}
	if ref := live.typed.Spec.WriteConnectionSecretToRef; ref != nil {
		for name, value := range read(ref.Namespace, ref.Name).Data {
			if _, shown := live.typed.Status.AtProvider.Outputs[name]; !shown {
				found.values = append(found.values, value)
			}
		}
	}
	return found
}

// changed is when a Secret was made, or last changed.
func changed(secret *corev1.Secret) time.Time {
	last := newest(secret, func(metav1.ManagedFieldsEntry) bool { return true })
	if secret.CreationTimestamp.After(last) {
		return secret.CreationTimestamp.Time
	}
	return last
}

// secretKeys lists the keys of Secrets that the Workspace takes values from.
func (l *Live) secretKeys() []terraform.KeyReference {
	var refs []terraform.KeyReference
	for _, file := range l.typed.Spec.ForProvider.VarFiles {
		if file.SecretKeyRef != nil {
			refs = append(refs, *file.SecretKeyRef)
		}
	}
	for _, env := range l.typed.Spec.ForProvider.Env {
		if env.SecretKeyRef != nil {
			refs = append(refs, *env.SecretKeyRef)
		}
	}
	return refs
}
