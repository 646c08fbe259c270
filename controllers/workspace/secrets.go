// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Explain explains the error of the Workspace of a WorkspaceTemplateApply, without the secrets that it may quote. complete is false when the
// text of Terraform is omitted, because some secrets are not known.
func (c *Client) Explain(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, live *Live) (report failure.Report, complete bool) {
	failed := live.typed.Failure()
	if failed == nil {
		return failure.Report{}, true
	}
	secrets := c.secrets(ctx, live)
	return failure.Explain(failed.Message, secrets, failure.Command(apply)), secrets.Missing == nil
}

// secrets reads the secrets that the error of a Workspace may quote.
func (c *Client) secrets(ctx context.Context, live *Live) failure.Secrets {
	return failure.SecretsOf(&live.typed, func(key types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		err := c.Uncached.Get(ctx, key, secret)
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot read a Secret that an error of Terraform may quote: details of the error are omitted", "Secret", klog.KRef(key.Namespace, key.Name))
		}
		return secret, err
	})
}
