// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
)

// Secrets are secret values that the output of Terraform may contain.
type Secrets struct {
	Values [][]byte
	// Missing is why some of the values are not known; nil if all are. Then the text of Terraform is omitted.
	Missing error
}

// ReadSecret reads a Secret from the API server, and returns its errors.
type ReadSecret func(types.NamespacedName) (*corev1.Secret, error)

// SecretsOf reads the values that a failed Workspace takes from Secrets, and its sensitive outputs. Some are missing when a Secret cannot be
// read, no longer exists, or has changed since the error.
func SecretsOf(workspace *terraform.Workspace, read ReadSecret) (found Secrets) {
	reportedAt := workspace.LastStatus()
	if failed := workspace.Failure(); reportedAt.IsZero() && failed != nil {
		reportedAt = failed.LastTransitionTime.Time
	}
	get := func(namespace, name string) (*corev1.Secret, types.NamespacedName) {
		key := types.NamespacedName{Namespace: cmp.Or(namespace, workspace.Namespace), Name: name}
		secret, err := read(key)
		switch {
		case apierrors.IsNotFound(err):
			return &corev1.Secret{}, key
		case err != nil:
			found.Missing = cmp.Or(found.Missing, fmt.Errorf("reading Secret %s: %w", key, err))
			return &corev1.Secret{}, key
		}
		return secret, key
	}
	for _, ref := range workspace.Spec.SecretKeys() {
		secret, name := get(ref.Namespace, ref.Name)
		value, ok := secret.Data[ref.Key]
		switch { // The error may quote an earlier value.
		case !ok:
			found.Missing = cmp.Or(found.Missing, fmt.Errorf("the Secret %s has no key %s", name, ref.Key))
			continue
		case lastWrite(secret).After(reportedAt):
			found.Missing = cmp.Or(found.Missing, fmt.Errorf("the Secret %s has changed since the error", name))
		}
		found.Values = append(found.Values, value)
	}
	if ref := workspace.Spec.WriteConnectionSecretToRef; ref != nil {
		secret, _ := get(ref.Namespace, ref.Name)
		for name, value := range secret.Data {
			if _, shown := workspace.Status.AtProvider.Outputs[name]; !shown {
				found.Values = append(found.Values, value)
			}
		}
	}
	return found
}

// lastWrite is when a Secret was created, or last changed.
func lastWrite(secret *corev1.Secret) time.Time {
	last := terraform.LatestWrite(secret, func(metav1.ManagedFieldsEntry) bool { return true })
	if secret.CreationTimestamp.After(last) {
		return secret.CreationTimestamp.Time
	}
	return last
}
