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

package workspace

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
)

// Secrets are values that what Terraform says about a Workspace may quote.
type Secrets struct {
	Values [][]byte
	// Unknown is true when a Secret could not be read, so that its values can not be recognised.
	Unknown bool
}

// Secrets reads the values that a failed Workspace gets from Secrets, and its sensitive outputs. A Workspace without an error
// says nothing, so nothing is read for it.
func (c *Client) Secrets(ctx context.Context, live *Live) Secrets {
	var secrets Secrets
	if !live.failed() {
		return secrets
	}
	read := func(namespace, name string) map[string][]byte {
		if namespace == "" {
			namespace = live.object.GetNamespace()
		}
		secret := &corev1.Secret{}
		err := c.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "A Secret that Terraform's error may quote can not be read", "Secret", name)
			secrets.Unknown = true
		}
		return secret.Data
	}
	for _, ref := range live.secretKeys() {
		if value := read(ref.Namespace, ref.Name)[ref.Key]; len(value) > 0 {
			secrets.Values = append(secrets.Values, value)
		}
	}
	if ref := live.typed.Spec.WriteConnectionSecretToRef; ref != nil {
		for name, value := range read(ref.Namespace, ref.Name) {
			if _, shown := live.typed.Status.AtProvider.Outputs[name]; !shown {
				secrets.Values = append(secrets.Values, value)
			}
		}
	}
	return secrets
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
