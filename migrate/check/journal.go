// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/retry"
)

func (l *look) journal(ctx context.Context) (Check, error) {
	name := l.options.JournalNamespace
	var namespace corev1.Namespace
	err := l.client.Get(ctx, client.ObjectKey{Name: name}, &namespace)
	switch {
	case apierrors.IsNotFound(err):
		return Check{Status: l.blocks(), Commands: []string{"kubectl create namespace " + name}, Message: fmt.Sprintf(
			"namespace %s does not exist. captctl keeps its Lease and its journals there. Create it, or name another one with --journal-namespace", name)}, nil
	case err != nil:
		return Check{}, err
	case namespace.DeletionTimestamp != nil:
		return Check{Status: Failed, Message: fmt.Sprintf(
			"namespace %s is being deleted. captctl keeps its Lease and its journals there. Name another one with --journal-namespace", name)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("namespace %s exists", name)}, nil
}

// blocks is the status of what the next stage needs: before this version is installed there is time.
func (l *look) blocks() Status {
	if l.options.Before == Untouched {
		return Warning
	}
	return Failed
}

func (l *look) lock(ctx context.Context) (Check, error) {
	holder, err := lock.Held(ctx, l.client, l.options.JournalNamespace, l.now)
	switch {
	case err != nil:
		return Check{}, err
	case holder == nil:
		return Check{Status: OK, Message: "no run is in progress"}, nil
	case holder.Identity == l.options.Holder:
		return Check{Status: OK, Message: "this run holds the Lease"}, nil
	}
	return Check{Status: Failed, Objects: []string{"Lease " + l.options.JournalNamespace + "/" + lock.Name},
		Message: fmt.Sprintf("another run is in progress: %s. Wait until it has ended", holder)}, nil
}

// tolerableSkew is shorter than what depends on the clocks of several hosts.
const tolerableSkew = 30 * time.Second

func (l *look) clock(context.Context) (Check, error) {
	if l.skew.Abs() > tolerableSkew {
		return Check{Status: Warning, Message: fmt.Sprintf(
			"the clock of this host differs from that of the API server by %s. Times in reports and journals are wrong. Synchronize it", l.skew.Abs())}, nil
	}
	return Check{Status: OK, Message: "the clocks of this host and of the API server agree"}, nil
}

// serverTime is the API server's time, in seconds, and how far the clock of this host is behind it. It is in the header of every
// response, so that no right is needed.
func serverTime(ctx context.Context, config *rest.Config, own clock.PassiveClock) (time.Time, time.Duration, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("connecting to the API server: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("reading the address of the API server: %w", err)
	}
	var now time.Time
	err = retry.Do(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath("version").String(), http.NoBody)
		if err != nil {
			return err
		}
		response, err := httpClient.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		now, err = http.ParseTime(response.Header.Get("Date"))
		return err
	})
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("reading the time of the API server: %w", err)
	}
	return now, now.Sub(own.Now().Truncate(time.Second)), nil
}
