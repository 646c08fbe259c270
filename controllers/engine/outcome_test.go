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
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
)

var (
	secrets  = schema.GroupResource{Resource: "secrets"}
	conflict = apierrors.NewConflict(secrets, "demo", errors.New("changed"))
)

func TestOutcomesThatEndWithoutAnError(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want ctrl.Result
	}{
		"done":                    {nil, ctrl.Result{}},
		"wait":                    {Wait("the Workspace kind", 10*time.Second), ctrl.Result{RequeueAfter: 10 * time.Second}},
		"wait, wrapped":           {fmt.Errorf("act: %w", Wait("a token", time.Minute)), ctrl.Result{RequeueAfter: time.Minute}},
		"the object changed":      {stale(conflict), ctrl.Result{}},
		"the same, wrapped":       {fmt.Errorf("writing: %w", stale(conflict)), ctrl.Result{}},
		"the same, while waiting": {errors.Join(stale(conflict), Wait("a token", time.Minute)), ctrl.Result{RequeueAfter: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := result(context.Background(), row.err)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

// No watch reports when what these conflicts are about is over.
func TestSafety21OnlyAConflictOnTheReconciledObjectIsNotRetried(t *testing.T) {
	quota := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "compute", errors.New("the object has been modified"))
	for name, err := range map[string]error{
		"on a Secret":                        fmt.Errorf("writing Secret demo: %w", conflict),
		"on a UID":                           apierrors.NewConflict(schema.GroupResource{Resource: "workspaces"}, "demo", errors.New("precondition failed: UID in precondition: a, UID in object meta: b")),
		"on a ResourceQuota":                 quota,
		"on a ResourceQuota, of this object": stale(quota),
		"beside what waits":                  errors.Join(Wait("a token", time.Hour), conflict),
		"beside one on the object":           errors.Join(stale(conflict), conflict),
	} {
		t.Run(name, func(t *testing.T) {
			assert.True(t, isTransient(err))
			got, failed := result(context.Background(), err)
			assert.Equal(t, ctrl.Result{}, got)
			require.ErrorIs(t, failed, err)
		})
	}
}

func TestAnyOtherErrorIsRetriedWithBackoff(t *testing.T) {
	for _, cause := range []error{
		errors.New("no route to host"),
		apierrors.NewNotFound(secrets, "demo"),
		apierrors.NewServiceUnavailable("later"),
		context.DeadlineExceeded,
	} {
		got, err := result(context.Background(), cause)
		assert.Equal(t, ctrl.Result{}, got)
		require.ErrorIs(t, err, cause)
	}
}
