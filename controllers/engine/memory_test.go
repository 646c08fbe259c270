// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// behind makes the cache show an object as it was.
func (s *stage) behind(old *infrav1.CAPTCluster) {
	s.engine.Client = interceptor.NewClient(s.engine.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			old.DeepCopyInto(obj.(*infrav1.CAPTCluster))
			return nil
		},
	})
}

func TestSafety24ACacheThatLagsBehindOurOwnWriteIsLookedAtAgain(t *testing.T) {
	s := newStage(t, builder.CAPTCluster("demo"))
	old := s.get()
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.mustReconcile()
	require.Equal(t, 1, s.acted)

	s.behind(old)
	got, err := s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, memorySpan, got.RequeueAfter, "after a restore of etcd, no event comes")
	assert.Equal(t, 1, s.acted)
	assert.Equal(t, 1, s.writes)
}

func TestACacheThatCaughtUpIsActedUponAgain(t *testing.T) {
	s := newStage(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.mustReconcile()
	s.mustReconcile()
	assert.Equal(t, 2, s.acted)
}

func TestMemory(t *testing.T) {
	const (
		nine = "9"
		ten  = "10" // Compared as numbers: as text, 10 would be less than 9.
	)
	version := func(version string) client.Object {
		return builder.CAPTCluster("demo", builder.WithResourceVersion(version))
	}
	memory := &Memory{}
	assert.False(t, memory.Newer(version(nine)), "nothing was written yet")

	memory.Remember(version(ten))
	assert.True(t, memory.Newer(version(nine)))
	assert.False(t, memory.Newer(version(ten)))
	assert.False(t, memory.Newer(version("11")))
	assert.False(t, memory.Newer(builder.CAPTCluster("other", builder.WithResourceVersion(nine))), "another object")
	assert.False(t, memory.Newer(builder.CAPTCluster("demo", builder.WithNamespace("other"), builder.WithResourceVersion(nine))), "another namespace")

	memory.Forget(client.ObjectKeyFromObject(version(ten)))
	assert.False(t, memory.Newer(version(nine)), "an object that was deleted is forgotten")
}

// Versions go back when etcd is restored from a backup.
func TestMemoryFades(t *testing.T) {
	old := builder.CAPTCluster("demo", builder.WithResourceVersion("9"))
	memory := &Memory{}
	memory.versions.Store(client.ObjectKeyFromObject(old), seen{version: "10", at: time.Now().Add(-memorySpan / 2)})
	assert.True(t, memory.Newer(old))
	memory.versions.Store(client.ObjectKeyFromObject(old), seen{version: "10", at: time.Now().Add(-2 * memorySpan)})
	assert.False(t, memory.Newer(old))
}

func TestADeletedObjectIsForgotten(t *testing.T) {
	s := newStage(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.mustReconcile()
	require.NoError(t, s.engine.Client.Delete(context.Background(), s.get()))
	s.mustReconcile()
	assert.False(t, s.engine.Written.Newer(builder.CAPTCluster("demo", builder.WithResourceVersion("1"))))
}

// The work queue logs what it is given as an error, and retries it soon.
func TestSafety24ARefusalIsAnErrorOnce(t *testing.T) {
	s := newStage(t, builder.CAPTCluster("demo"))
	act := func(err error) (ctrl.Result, error) {
		s.steps.Act = func(context.Context, *infrav1.CAPTCluster, *facts) error { return err }
		return s.reconcile()
	}
	forbidden := fmt.Errorf("applying: %w", apierrors.NewForbidden(secrets, "demo", errors.New("quota exceeded")))
	_, err := act(forbidden)
	require.ErrorIs(t, err, forbidden)
	got, err := act(forbidden)
	require.NoError(t, err)
	assert.Equal(t, firstRefusedRetry, got.RequeueAfter)

	s.engine.Written.refused.Store(s.request.NamespacedName, refusal{why: forbidden.Error(), since: time.Now().Add(-time.Hour)})
	got, err = act(forbidden)
	require.NoError(t, err)
	assert.Equal(t, lastRefusedRetry, got.RequeueAfter)

	other := apierrors.NewForbidden(secrets, "demo", errors.New("a policy"))
	_, err = act(other)
	require.ErrorIs(t, err, other, "another cause is worth another word")
	_, err = act(errors.Join(other, conflict))
	require.ErrorIs(t, err, conflict, "what else is wrong is retried soon")
	_, err = act(other)
	require.ErrorIs(t, err, other, "it was something else in between")

	_, err = act(nil)
	require.NoError(t, err)
	_, err = act(other)
	require.ErrorIs(t, err, other, "it was accepted in between")
}
