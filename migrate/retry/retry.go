// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package retry retries requests that failed for a transient reason, such as an API server that restarts, or a response that was lost. A write that is
// retried must recognize that the first attempt may have succeeded.
package retry

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/ssa"
)

// Do calls attempt until it succeeds, fails for a reason that is not transient, or a minute has passed. It returns the last error, or the cause of the context.
func Do(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	// About a minute, in which an API server or a webhook usually restarts.
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 12}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		if last = attempt(ctx); last != nil && !Transient(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return last
}

// Reader returns a reader that retries each request.
func Reader(from client.Reader) client.Reader {
	if _, retries := from.(reader); retries {
		return from
	}
	return reader{from}
}

type reader struct{ client.Reader }

func (r reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return Do(ctx, func(ctx context.Context) error { return r.Reader.Get(ctx, key, object, options...) })
}

func (r reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return Do(ctx, func(ctx context.Context) error { return r.Reader.List(ctx, list, options...) })
}

// again marks an error as transient.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// Again marks an error as transient that Transient would not recognize.
func Again(err error) error { return again{err} }

// Transient reports whether a retry is likely to succeed. For a webhook that does not respond, the API server returns an internal error.
func Transient(err error) bool {
	for _, passes := range []func(error) bool{
		apierrors.IsTooManyRequests, apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsServiceUnavailable, apierrors.IsInternalError,
		utilnet.IsConnectionRefused, utilnet.IsConnectionReset, utilnet.IsProbableEOF, utilnet.IsHTTP2ConnectionLost, isTimeout, isGateway, ssa.IsUnknownOwnerVersion,
	} {
		if passes(err) {
			return true
		}
	}
	var marked again
	return errors.As(err, &marked)
}

func isTimeout(err error) bool {
	return utilnet.IsTimeout(err) && !errors.Is(err, context.DeadlineExceeded)
}

func isGateway(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Code == http.StatusBadGateway || status.Status().Code == http.StatusGatewayTimeout)
}
