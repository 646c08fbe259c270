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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// keep renews the lease three times within its duration, and ends the run when that fails for all of it.
func (l *Lock) keep(ctx context.Context) {
	defer close(l.stopped)
	pause := l.Duration / 3
	for l.wait(ctx, pause) == nil {
		err := l.renew(ctx)
		if ctx.Err() != nil {
			return
		}
		lost := l.Check() != nil
		switch {
		case lost:
			l.lose(errors.Join(fmt.Errorf("it could not be renewed for %s", l.Duration), err))
			return
		case errors.Is(err, errTaken):
			l.lose(err)
			return
		case err == nil:
			pause = l.Duration / 3
		default:
			pause = l.Duration / 15
		}
	}
}

func (l *Lock) lose(why error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lost = fmt.Errorf("the lock is lost: %w", why)
	l.cancel(migrate.Partly.Errorf("%w", l.lost))
}

// errOutdated is why a renewal failed before which another one had arrived, of which the answer was lost.
var errOutdated = errors.New("the Lease was not what it was taken for")

// renew writes the time. After an answer that was lost, what stands there decides.
func (l *Lock) renew(ctx context.Context) error {
	sent := l.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, l.left(sent)))
	defer cancel()
	lease := l.lease.DeepCopy()
	now := metav1.NewMicroTime(sent)
	lease.Spec.RenewTime = &now
	err := l.Client.Update(ctx, lease, client.FieldOwner(migrate.FieldManager))
	if apierrors.IsConflict(err) {
		if lease, err = l.read(ctx); err == nil && (lease == nil || l.other(lease) != "" || lease.Spec.HolderIdentity == nil) {
			return errTaken
		}
		if err == nil { // Nothing was written this time; the next time, which is soon, it is.
			sent, err = l.renewed, errOutdated
		}
	}
	if err != nil && !errors.Is(err, errOutdated) {
		return fmt.Errorf("renewing Lease %s/%s: %w", l.Namespace, Name, err)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lease, l.renewed = lease, sent
	return err
}

// left is what remains of the lease. The wall clock counts as well as the monotonic one, which stands still while a machine
// sleeps.
func (l *Lock) left(now time.Time) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	elapsed := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	return l.Duration - elapsed
}

// Check is asked before each write: it fails once the lock is lost, or may be.
func (l *Lock) Check() error {
	if left := l.left(l.Clock.Now()); left <= 0 {
		return migrate.Partly.Errorf("the lock is lost: it could not be renewed for %s", l.Duration)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.lost
}
