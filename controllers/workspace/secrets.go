// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// Explain explains the error of a Workspace, without the secrets that it may quote. complete is false when the text of Terraform is omitted,
// because some secrets are not known.
func (c *Client) Explain(ctx context.Context, live *Live) (report failure.Report, complete bool) {
	if !live.failed() {
		return failure.Report{}, true
	}
	secrets := c.secrets(ctx, live)
	return failure.Explain(live.condition(conditionSynced).Message, secrets, live.describeCommand()), !secrets.Incomplete
}

// describeCommand is the command that shows the complete error.
func (l *Live) describeCommand() string {
	kind := "workspaces." + l.object.GroupVersionKind().Group
	if namespace := l.object.GetNamespace(); namespace != "" {
		return fmt.Sprintf("kubectl -n %s describe %s %s", namespace, kind, l.object.GetName())
	}
	return fmt.Sprintf("kubectl describe %s %s", kind, l.object.GetName())
}

// secrets reads the values that a failed Workspace takes from Secrets, and its sensitive outputs. The result is incomplete when a Secret cannot
// be read, no longer exists, or has changed since the error.
func (c *Client) secrets(ctx context.Context, live *Live) failure.Secrets {
	var found failure.Secrets
	reportedAt := lastStatus(live)
	if reportedAt.IsZero() {
		reportedAt = live.condition(conditionSynced).LastTransitionTime.Time
	}
	read := func(namespace, name string) *corev1.Secret {
		if namespace == "" {
			namespace = live.object.GetNamespace()
		}
		secret := &corev1.Secret{}
		err := c.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot read a Secret that an error of Terraform may quote: details of the error are omitted", "Secret", klog.KRef(namespace, name))
			found.Incomplete = true
		}
		return secret
	}
	for _, ref := range live.secretKeys() {
		secret := read(ref.Namespace, ref.Name)
		value, ok := secret.Data[ref.Key]
		if ok {
			found.Values = append(found.Values, value)
		}
		// The error may quote an earlier value.
		found.Incomplete = found.Incomplete || !ok || lastWrite(secret).After(reportedAt)
	}
	if ref := live.typed.Spec.WriteConnectionSecretToRef; ref != nil {
		for name, value := range read(ref.Namespace, ref.Name).Data {
			if _, shown := live.typed.Status.AtProvider.Outputs[name]; !shown {
				found.Values = append(found.Values, value)
			}
		}
	}
	return found
}

// lastWrite is when a Secret was created, or last changed.
func lastWrite(secret *corev1.Secret) time.Time {
	last := latestWrite(secret, func(metav1.ManagedFieldsEntry) bool { return true })
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
