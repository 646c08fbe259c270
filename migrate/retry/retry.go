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

// Package retry tries requests again that failed for a reason that passes: an API server that restarts or throttles, a webhook
// that is being rolled out, an answer that was lost. Whoever tries a write again must be able to tell that the first one arrived.
package retry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capt-provider/capt/api/retriable"
)

// backoff tries for about a minute: as long as an API server or a webhook takes to come back.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 12}
}

// Do calls attempt until it succeeds, fails for a reason that does not pass, or a minute has gone by. The error is that of the
// last attempt, or why ctx ended.
func Do(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff(), func(ctx context.Context) (bool, error) {
		last = attempt(ctx)
		switch {
		case last == nil:
			return true, nil
		case Transient(last):
			return false, nil
		}
		return false, last
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return last
}

// again marks an error as one that passes.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// Again marks an error as one that passes, though it does not look like one.
func Again(err error) error { return again{err} }

// Transient tells whether an error is likely to pass. An internal error is, since that is what an API server calls a webhook
// that does not answer.
func Transient(err error) bool {
	for _, passes := range []func(error) bool{
		apierrors.IsTooManyRequests, apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsServiceUnavailable, apierrors.IsInternalError,
		utilnet.IsConnectionRefused, utilnet.IsConnectionReset, utilnet.IsProbableEOF, utilnet.IsHTTP2ConnectionLost, isTimeout, isGateway, retriable.IsUnknownOwnerVersion,
	} {
		if passes(err) {
			return true
		}
	}
	var marked again
	return errors.As(err, &marked)
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() && !errors.Is(err, context.DeadlineExceeded)
}

// isGateway tells whether a proxy in front of the API server answered in its place.
func isGateway(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Code == http.StatusBadGateway || status.Status().Code == http.StatusGatewayTimeout)
}
