// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/migrate"
)

func TestTransientErrorsAreRetried(t *testing.T) {
	resource := schema.GroupResource{Resource: "captclusters"}
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"throttled":              {apierrors.NewTooManyRequests("", 1), true},
		"restarting":             {fmt.Errorf("get: %w", syscall.ECONNREFUSED), true},
		"the answer was lost":    {fmt.Errorf("read: %w", syscall.ECONNRESET), true},
		"a webhook is away":      {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"a proxy answered":       {apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", resource, "", "", 0, false), true},
		"marked":                 {fmt.Errorf("writing: %w", migrate.Again(errors.New("conflict"))), true},
		"a version is new":       {apierrors.NewForbidden(resource, "a", errors.New("cannot find RESTMapping for APIVersion x")), true},
		"a conflict":             {apierrors.NewConflict(resource, "a", nil), false},
		"refused":                {apierrors.NewForbidden(resource, "a", nil), false},
		"the lock is lost":       {errors.New("lost"), false},
		"the caller has no time": {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, migrate.Transient(row.err))
			tries := 0
			err := migrate.Retry(t.Context(), func(context.Context) error {
				if tries++; tries == 1 {
					return row.err
				}
				return nil
			})
			if !row.want {
				require.ErrorIs(t, err, row.err)
				assert.Equal(t, 1, tries)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, 2, tries)
		})
	}
}

func TestAnInterruptedRetryReturnsItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the lock is lost")
	err := migrate.Retry(ctx, func(context.Context) error {
		cancel(why)
		return migrate.Again(errors.New("conflict"))
	})
	require.ErrorIs(t, err, why)
}
