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

package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

// Name of the Lease.
const Name = "captctl-migrate"

// DefaultDuration is how long a run that died keeps others waiting.
const DefaultDuration = 15 * time.Second

// Options say which lock to take, and how.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself.
	Reader    client.Reader
	Namespace string
	// Identity of this run; one of Identity by default.
	Identity string
	// Duration is in whole seconds, and DefaultDuration by default.
	Duration time.Duration
	Clock    clock.Clock
}

// Identity tells runs apart, and people where to look: host, process, and something that no other run has.
func Identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.String(6))
}

// Lock is held by this run until it is released or lost.
type Lock struct {
	Options
	cancel  context.CancelCauseFunc
	stopped chan struct{}

	mutex sync.Mutex
	lease *coordinationv1.Lease
	// renewed is when the last renewal that succeeded was sent.
	renewed time.Time
	lost    error
}

// errTaken is why a renewal failed when another run has the lock.
var errTaken = errors.New("another run has taken the lock")

// Acquire takes the lock, and keeps it until Release. The context that it returns ends when the lock is lost; its cause says how.
//
// A lock that another run has is waited for as long as that run shows no sign of life: if it died, the lock is taken over after
// the duration of its lease. Only this process' clock counts, since clocks of hosts differ. If it lives, the outcome is Locked.
func Acquire(ctx context.Context, o Options) (*Lock, context.Context, error) {
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.Identity == "" {
		o.Identity = Identity()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Duration = time.Duration(math.Ceil(o.Duration.Seconds())) * time.Second
	l := &Lock{Options: o, stopped: make(chan struct{})}
	if err := l.acquire(ctx); err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	go l.keep(held)
	return l, held, nil
}

// acquire waits for a sign of life of whoever has the lock, and takes it if there is none.
func (l *Lock) acquire(ctx context.Context) error {
	var seen *coordinationv1.Lease
	var since time.Time
	for {
		lease, err := l.read(ctx)
		if err != nil {
			return err
		}
		if other := l.other(lease); other != "" {
			switch {
			case seen == nil:
				seen, since = lease, l.Clock.Now()
			case seen.ResourceVersion != lease.ResourceVersion:
				return lockedBy(lease)
			}
			if l.Clock.Since(since) < duration(lease) {
				if err := l.wait(ctx, duration(lease)/10); err != nil {
					return err
				}
				continue
			}
		}
		if taken, err := l.take(ctx, lease); taken || err != nil {
			return err
		}
	}
}

func (l *Lock) wait(ctx context.Context, d time.Duration) error {
	timer := l.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// read is the Lease; nil when there is none.
func (l *Lock) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := retry.Do(ctx, func(ctx context.Context) error {
		return l.Reader.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: Name}, lease)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Lease %s/%s: %w", l.Namespace, Name, err)
	}
	return lease, nil
}

// other is who else has the lock.
func (l *Lock) other(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != l.Identity {
		return holder
	}
	return ""
}

// take takes a lock that nobody has. It did not, without an error, when another run was quicker or the answer was lost.
func (l *Lock) take(ctx context.Context, lease *coordinationv1.Lease) (bool, error) {
	sent := l.Clock.Now()
	now := metav1.NewMicroTime(sent)
	mine := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: Name}}
	if lease != nil {
		mine = lease.DeepCopy()
	}
	mine.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &l.Identity, LeaseDurationSeconds: ptr.To(int32(l.Duration.Seconds())),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To(ptr.Deref(mine.Spec.LeaseTransitions, 0) + 1),
	}
	var err error
	if lease == nil {
		err = l.Client.Create(ctx, mine, client.FieldOwner(migrate.FieldManager))
	} else {
		err = l.Client.Update(ctx, mine, client.FieldOwner(migrate.FieldManager))
	}
	switch {
	case err == nil:
		l.lease, l.renewed = mine, sent
		return true, nil
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return false, nil
	case retry.Transient(err):
		return false, l.wait(ctx, l.Duration/10)
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("taking the lock: namespace %s does not exist; make it, or name another one with --journal-namespace", l.Namespace)
	case apierrors.IsForbidden(err):
		return false, migrate.NotPermitted.Errorf("taking the lock: %w", err)
	}
	return false, fmt.Errorf("taking the lock: %w", err)
}

// Release gives the lock back, so that the next run need not wait. It is no harm if it fails: the lease runs out.
func (l *Lock) Release(ctx context.Context) error {
	l.cancel(nil)
	<-l.stopped
	if l.Check() != nil {
		return nil // It may be somebody else's.
	}
	l.lease.Spec.HolderIdentity = nil
	if err := l.Client.Update(ctx, l.lease, client.FieldOwner(migrate.FieldManager)); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("releasing Lease %s/%s: %w", l.Namespace, Name, err)
	}
	return nil
}
