// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
)

const (
	// users is how many send requests at the same time.
	users = 6
	// pause is how long each waits after a request.
	pause = 20 * time.Millisecond
	// many is how many requests must be answered before a subtest continues.
	many = 100
)

// traffic is what users do all the time: they create, change, read and list, in both versions.
type traffic struct {
	*environment
	stop context.CancelFunc
	done sync.WaitGroup

	// lock guards everything below.
	lock     sync.Mutex
	answered int
	failed   []string
	// interrupted are requests that were sent at the moment when a replica closed an idle connection. HTTP/1.1 cannot exclude that.
	interrupted []string
	slowest     time.Duration
}

// newTraffic sends requests until rest is called.
func newTraffic(f *fleet) *traffic {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	tr := &traffic{environment: f.environment, stop: stop}
	for user := range users {
		prefix := fmt.Sprintf("user-%d-", user)
		f.make(f.Namespace, prefix)
		tr.done.Go(func() { tr.work(ctx, prefix) })
	}
	for name, balancer := range f.balancers {
		tr.done.Go(func() { tr.connect(ctx, name, balancer) })
	}
	f.Cleanup(func() {
		stop()
		tr.done.Wait()
	})
	return tr
}

// connect is what the API server does when it has not called a Service for a while: it makes a new connection.
func (tr *traffic) connect(ctx context.Context, service string, balancer *balancer) {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // The requests show which server answers.
	for pausing(ctx) {
		began := time.Now()
		connection, err := dialer.DialContext(context.WithoutCancel(ctx), "tcp", balancer.Address().String())
		if err == nil {
			err = connection.Close()
		}
		if err != nil {
			err = fmt.Errorf("connecting to %s: %w", service, err)
		}
		tr.note(time.Since(began), err)
	}
}

// pausing waits between two requests, and reports whether there shall be another.
func pausing(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// work runs the operations one after the other, with each kind.
func (tr *traffic) work(ctx context.Context, prefix string) {
	for round := 0; ; round++ {
		for _, k := range kinds() {
			for _, do := range tr.operations(k, prefix, round) {
				if !pausing(ctx) {
					return
				}
				// One that was begun is finished.
				began := time.Now()
				err := do(context.WithoutCancel(ctx))
				tr.note(time.Since(began), err)
			}
		}
	}
}

// operations are what one user does with objects of one kind.
func (tr *traffic) operations(k kind, prefix string, round int) []func(context.Context) error {
	own := empty(k.current)
	own.SetNamespace(tr.Namespace)
	own.SetName(prefix + k.current.Version)
	operations := []func(context.Context) error{
		func(ctx context.Context) error {
			return tr.Create(ctx, k.object(k.current, tr.Namespace, prefix+"new"), client.DryRunAll)
		},
		func(ctx context.Context) error { return tr.Patch(ctx, own, k.changed(fmt.Sprintf("%d", round))) },
		func(ctx context.Context) error {
			return tr.List(ctx, list(k.current), client.InNamespace(tr.Namespace))
		},
	}
	if k.legacy.Empty() {
		return operations
	}
	return append(operations,
		func(ctx context.Context) error {
			return tr.Create(ctx, k.object(k.legacy, tr.Namespace, prefix+"new"), client.DryRunAll)
		},
		func(ctx context.Context) error { return tr.Get(ctx, client.ObjectKeyFromObject(own), empty(k.legacy)) },
		func(ctx context.Context) error { return tr.List(ctx, list(k.legacy), client.InNamespace(tr.Namespace)) },
		func(ctx context.Context) error {
			legacy := empty(k.legacy)
			legacy.SetNamespace(tr.Namespace)
			legacy.SetName(prefix + k.legacy.Version)
			return tr.Patch(ctx, legacy, mergePatch(fmt.Sprintf(labels, fmt.Sprint(round))))
		},
	)
}

func (tr *traffic) note(took time.Duration, err error) {
	tr.lock.Lock()
	defer tr.lock.Unlock()
	tr.answered++
	tr.slowest = max(tr.slowest, took)
	if err == nil {
		return
	}
	list := &tr.failed
	if strings.HasSuffix(err.Error(), ": EOF") {
		list = &tr.interrupted
	}
	*list = append(*list, fmt.Sprintf("%s %v", time.Now().Format("15:04:05.000"), err))
}

func (tr *traffic) count() int {
	tr.lock.Lock()
	defer tr.lock.Unlock()
	return tr.answered
}

// resume waits until many more requests were answered, and shows that none has failed so far.
func (tr *traffic) resume(t *testing.T) {
	t.Helper()
	from := tr.count()
	fixture.EventuallyTrue(t, tick, func() bool { return tr.count()-from >= many }, "fewer than %d more requests were answered", many)
	tr.noneFailed(t)
}

func (tr *traffic) noneFailed(t *testing.T) {
	t.Helper()
	tr.lock.Lock()
	defer tr.lock.Unlock()
	require.Empty(t, tr.failed, "%d of %d requests failed", len(tr.failed), tr.answered)
	require.LessOrEqual(t, len(tr.interrupted), 2, "%s", tr.interrupted)
}

// rest ends the traffic, and shows that no request failed.
func (tr *traffic) rest() {
	tr.Helper()
	tr.stop()
	tr.done.Wait()
	tr.Logf("%d requests, the slowest took %s", tr.answered, tr.slowest.Round(time.Millisecond))
	tr.noneFailed(tr.T)
}
