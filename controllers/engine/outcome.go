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

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waitError ends a reconcile that must look again after a while, because nothing it could watch will wake it.
type waitError struct {
	reason string
	after  time.Duration
}

func (e *waitError) Error() string {
	return fmt.Sprintf("waiting for %s, looking again in %s", e.reason, e.after)
}

// Wait ends a reconcile that must look again after a while, because no watch can wake it.
func Wait(reason string, after time.Duration) error { return &waitError{reason: reason, after: after} }

// terminalError ends a reconcile that no retry can help.
type terminalError struct {
	reason string
	err    error
}

func (e *terminalError) Error() string { return fmt.Sprintf("%s: %v", e.reason, e.err) }
func (e *terminalError) Unwrap() error { return e.err }

// Terminal ends a reconcile that no retry can help: the error is recorded, and the next change of the object or of what it
// depends on starts anew.
func Terminal(reason string, err error) error { return &terminalError{reason: reason, err: err} }

// retried tells whether an error is transient: it makes the work queue try again soon.
func retried(err error) bool {
	var wait *waitError
	var terminal *terminalError
	return err != nil && !errors.Is(err, errGone) && !errors.As(err, &wait) && !errors.As(err, &terminal) && !apierrors.IsConflict(err)
}

// result turns the error of a reconcile into one of three outcomes: done (a watch will wake us), wait, or terminal. Any
// other error is transient and retried with exponential backoff by the work queue.
func result(ctx context.Context, err error) (ctrl.Result, error) {
	var wait *waitError
	var terminal *terminalError
	switch {
	case err == nil, errors.Is(err, errGone):
		return ctrl.Result{}, nil
	case errors.As(err, &wait):
		ctrl.LoggerFrom(ctx).V(4).Info("Waiting", "reason", wait.reason, "after", wait.after)
		return ctrl.Result{RequeueAfter: wait.after}, nil
	case errors.As(err, &terminal):
		return ctrl.Result{}, reconcile.TerminalError(err)
	case apierrors.IsConflict(err):
		// Somebody changed the object after our cache saw it. That change is on its way to us and wakes us again.
		ctrl.LoggerFrom(ctx).V(4).Info("The object changed in the meantime", "error", err.Error())
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}
