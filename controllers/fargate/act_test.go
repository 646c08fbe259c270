// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

var resource = schema.GroupResource{Resource: "workspacetemplateapplies"}

// answering lets the API server answer the first writes of WorkspaceTemplateApplies with an error each.
func (w *world) answering(errs ...error) {
	w.Cached = interceptor.NewClient(w.Cached.(client.WithWatch), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if len(errs) > 0 {
				err := errs[0]
				errs = errs[1:]
				return err
			}
			return c.Apply(ctx, object, options...)
		},
	})
}

// The others are created, and the user who can correct it sees what the API server reported.
func TestARefusedProfileDoesNotBlockOthers(t *testing.T) {
	w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("a", "b")), vpcSecret())
	w.answering(apierrors.NewForbidden(resource, "demo-a-fargate-apply", nil))
	f := w.plan(cluster())
	require.ErrorContains(t, f.Act(ctx, w.Cached), "writing Fargate profile a")
	require.Len(t, w.applies(), 1)
	assert.Equal(t, "b", w.applies()[0].Spec.Variables["profile_name"])
	status := f.Report().Statuses[0]
	assert.Equal(t, controlplanev1.FargateProfileFailedReason, status.FailureReason)
	assert.Contains(t, status.FailureMessage, "the API server rejected the WorkspaceTemplateApply")
}

// Errors of the API server are not errors of the profile: they are retried and not reported.
func TestAnErrorOfTheAPIServerIsRetried(t *testing.T) {
	for name, err := range map[string]error{
		"an API server that is busy": apierrors.NewTooManyRequests("later", 1),
		"a conflict of versions":     apierrors.NewConflict(resource, "demo-a-fargate-apply", nil),
		"no answer":                  context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret())
			w.answering(err)
			f := w.plan(cluster())
			require.ErrorIs(t, f.Act(ctx, w.Cached), err)
			assert.Equal(t, creating, f.stateOf(&f.Profiles[0]).stage)
			w.act(w.plan(cluster()))
			assert.Len(t, w.applies(), 1)
		})
	}
}
