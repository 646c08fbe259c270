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

package check

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LockName is the name of the Lease that a run of captctl migrate holds.
const LockName = "captctl-migrate"

// tolerableSkew is by how much the clocks may differ before somebody should know: leases and plans live for longer than that.
const tolerableSkew = 30 * time.Second

// serverTime is the API server's time, in seconds, and how far our own clock is behind it. It is in the header of every answer,
// so that no permission is needed.
func serverTime(ctx context.Context, config *rest.Config, own clock.PassiveClock) (time.Time, time.Duration, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("connecting to the API server: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("reading the API server's address: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return time.Time{}, 0, err
	}
	var response *http.Response
	err = ask(func() (err error) {
		response, err = httpClient.Do(request)
		return err
	})
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("asking the API server for its time: %w", err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("reading the API server's time: %w", err)
	}
	return now, now.Sub(own.Now().Truncate(time.Second)), nil
}

func (l *look) clock(context.Context) (Check, error) {
	if l.skew.Abs() > tolerableSkew {
		return Check{Status: Warning, Message: fmt.Sprintf(
			"this machine's clock differs by %s from the API server's; plans expire, and locks are released, by the clock", l.skew.Abs())}, nil
	}
	return Check{Status: OK, Message: "this machine's clock and the API server's agree"}, nil
}

func (l *look) lock(ctx context.Context) (Check, error) {
	key := client.ObjectKey{Namespace: l.options.JournalNamespace, Name: LockName}
	var lease coordinationv1.Lease
	if err := l.client.Get(ctx, key, &lease); apierrors.IsNotFound(err) {
		return Check{Status: OK, Message: "nobody holds the lock"}, nil
	} else if err != nil {
		return Check{}, err
	}
	holder, until := heldUntil(&lease)
	switch {
	case holder == "" || !until.After(l.now):
		return Check{Status: OK, Message: "nobody holds the lock"}, nil
	case holder == l.options.Holder:
		return Check{Status: OK, Message: "this run holds the lock"}, nil
	}
	return Check{Status: Failed, Objects: []string{"Lease " + key.String()}, Message: fmt.Sprintf(
		"another run holds the lock: %s, until %s unless it renews it; wait until it has ended", holder, until.UTC().Format(time.RFC3339))}, nil
}

// heldUntil is who holds a lock, and until when if it is not renewed.
func heldUntil(lease *coordinationv1.Lease) (string, time.Time) {
	spec := lease.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return "", time.Time{}
	}
	return *spec.HolderIdentity, spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
}
