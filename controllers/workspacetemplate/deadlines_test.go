// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// A tenant excludes its object from all managers after it was assigned the revision, so that nothing records since when.
func TestAUserThatDoesNotFinishIsReportedAndAResumeGoesOnWithoutIt(t *testing.T) {
	for name, recorded := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			s := newStaging(t, infrav1.WorkspaceTemplateRollout{MaxConcurrent: 1, Canary: infrav1.RolloutCanaries{Count: 1}}, user("a"), user("b"))
			revision := s.settle().Status.Rollout.Revision
			require.Equal(t, "a", s.assigned(revision))
			if recorded {
				stuck := s.users()[0]
				at := metav1.NewTime(s.clock.Now())
				stuck.Status.Assignment = infrav1.RevisionAssignment{TemplateRevision: revision, Time: &at}
				require.NoError(t, s.Client.Update(t.Context(), &stuck))
			}
			_, wait := s.reconcile()
			assert.InDelta(t, 2*time.Hour, wait, float64(2*time.Second), "one reconcile at the deadline")
			s.clock.Pass(2 * time.Hour)
			template := s.settle()
			condition := meta.FindStatusCondition(template.Status.Conditions, infrav1.RollingOutCondition)
			assert.Equal(t, infrav1.RolloutStoppedReason, condition.Reason)
			assert.Contains(t, condition.Message, "stalled: default/a; waiting: default/b. The rollout stopped because users have not finished the update within 2 hours")
			assert.Equal(t, int32(1), *template.Status.Rollout.Stalled)
			version := template.ResourceVersion
			s.clock.Pass(time.Hour)
			require.Equal(t, version, s.settle().ResourceVersion, "at rest nothing is written")

			s.edit(func(template *infrav1.WorkspaceTemplate) {
				template.Annotations = map[string]string{naming.ResumeAnnotation: revision}
			})
			s.settle()
			require.Equal(t, "a b", s.assigned(revision))
			s.apply("b")
			template = s.settle()
			assert.Equal(t, infrav1.RolloutComplete, template.Status.Rollout.Stage)
			assert.Equal(t, int32(1), *template.Status.Rollout.LeftBehind)
			condition = meta.FindStatusCondition(template.Status.Conditions, infrav1.RollingOutCondition)
			assert.Contains(t, condition.Message, "1 of 2 users have revision "+terraform.ShortRevision(revision)+"; left behind: default/a")
			s.apply("a")
			template = s.settle()
			assert.Zero(t, *template.Status.Rollout.LeftBehind, "it has finished after all")
		})
	}
}

// A user can make an object nearly as large as the API server stores it, so that it cannot be assigned a revision.
func TestAUserThatCannotBeAssignedARevisionStopsNoOther(t *testing.T) {
	for name, row := range map[string]struct {
		policy infrav1.WorkspaceTemplateRollout
		resume bool
	}{
		"with a resume": {infrav1.WorkspaceTemplateRollout{MaxConcurrent: 1}, true},
		"Continue":      {infrav1.WorkspaceTemplateRollout{MaxConcurrent: 1, OnFailure: infrav1.RolloutFailureContinue}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaging(t, row.policy, user("a"), user("b"))
			s.Client = interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if object.GetName() == "a" {
						return apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
					}
					return c.Patch(ctx, object, patch, options...)
				},
			})
			request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}}
			_, err := s.Reconcile(t.Context(), request)
			require.ErrorContains(t, err, "request is too large")
			template := s.settle()
			target := template.Status.Rollout.Revision
			if row.resume {
				assert.Empty(t, s.assigned(target))
				condition := meta.FindStatusCondition(template.Status.Conditions, infrav1.RollingOutCondition)
				assert.Equal(t, infrav1.RolloutStoppedReason, condition.Reason)
				assert.Contains(t, condition.Message, "default/a")
				s.edit(func(template *infrav1.WorkspaceTemplate) {
					template.Annotations = map[string]string{naming.ResumeAnnotation: target}
				})
				s.settle()
			}
			assert.Equal(t, "b", s.assigned(target))
		})
	}
}

// An object without a Workspace takes no part in the rollout, but gets the revision that was rolled out.
func TestAnObjectThatCannotBeAssignedTheFirstRevisionIsNotTriedAgainBeforeItChanges(t *testing.T) {
	s, tries := newStaging(t, infrav1.WorkspaceTemplateRollout{}), 0
	s.settle()
	s.Client = interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			tries++
			return apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
		},
	})
	large := builder.WorkspaceTemplateApply("large")
	require.NoError(t, s.Client.Create(t.Context(), large))
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}}
	for want := 1; want <= 2; want++ {
		_, err := s.Reconcile(t.Context(), request)
		require.ErrorContains(t, err, "request is too large")
		_, err = s.Reconcile(t.Context(), request)
		require.NoError(t, err)
		assert.Equal(t, want, tries)
		large.Labels = map[string]string{"changed": "true"}
		require.NoError(t, s.Client.Update(t.Context(), large))
	}
	require.NoError(t, s.Client.Delete(t.Context(), large))
	s.settle()
	assert.Empty(t, engine.StateOf[assignments](s.State, request.NamespacedName).refused)
}
