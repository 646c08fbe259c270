// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

// leases stops the elector once the lock is lost: it would acquire the Lease again, or release that of another run.
type leases struct {
	coordinationv1client.LeaseInterface // Only the methods below are called.
	*Lock
	seen string // The resourceVersion of another run's Lease when this run began to wait; empty if it does not wait.
}

func (l *leases) Leases(string) coordinationv1client.LeaseInterface { return l }

// Get implements LeaseInterface.
func (l *leases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	read := func(ctx context.Context) error {
		return l.Reader.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, lease)
	}
	if l.holding() {
		_, err := l.send(func() error { return read(ctx) })
		if apierrors.IsNotFound(err) || err == nil && holderOf(lease).Identity != l.Identity {
			err = l.stop(Lost(errTaken))
		}
		return lease, err
	}
	switch err, holder := retry.Do(ctx, read), holderOf(lease); {
	case apierrors.IsNotFound(err): // The elector creates it.
		return nil, err
	case err != nil:
		return nil, l.stop(fmt.Errorf("reading Lease %s/%s: %w", l.Namespace, Name, err))
	case holder.Identity == "" || holder.Identity == l.Identity:
	case l.seen != "" && l.seen != lease.ResourceVersion:
		return nil, l.stop(migrate.Failed.Errorf("another run is in progress: %s. Run the same command again when it has ended, or stop it on its host", holder))
	case l.seen == "": // This run waits for the other one.
		l.seen = lease.ResourceVersion
		l.Waiting(holder)
	}
	return lease, nil
}

// Create implements LeaseInterface.
func (l *leases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return lease, l.write(func() error { return l.Client.Create(ctx, lease, client.FieldOwner(migrate.FieldManager)) })
}

// Update implements LeaseInterface.
func (l *leases) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return lease, l.write(func() error { return l.Client.Update(ctx, lease, client.FieldOwner(migrate.FieldManager)) })
}

func (l *leases) write(request func() error) error {
	sent, err := l.send(request)
	switch {
	case err == nil:
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.renewed = sent
		return nil
	case l.holding(), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), retry.Transient(err): // The elector tries again.
		return err
	case apierrors.IsNotFound(err):
		return l.stop(fmt.Errorf("taking the lock: namespace %s does not exist; create it, or name another one with --journal-namespace", l.Namespace))
	case apierrors.IsForbidden(err):
		return l.stop(migrate.Failed.Errorf("taking the lock: %w", err))
	}
	return l.stop(fmt.Errorf("taking the lock: %w", err))
}

// send sends a request unless the lock is lost, and keeps its error, which the elector only logs.
func (l *Lock) send(request func() error) (sent time.Time, err error) {
	if err := l.Check(); err != nil {
		return sent, err
	}
	sent, err = time.Now(), request()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.failure = err
	return sent, err
}

func (l *Lock) holding() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return !l.renewed.IsZero()
}

// Holder is a run that has the lock.
type Holder struct {
	Identity string      `json:"holder"`
	Since    metav1.Time `json:"since"` // Since is when it took the lock, by its own clock.
	Until    metav1.Time `json:"until"` // Until is when its lease expires unless it is renewed, by its own clock.
}

func (h Holder) String() string {
	return fmt.Sprintf("%s (host/process), since %s, Lease until %s unless it is renewed", h.Identity, h.Since.Format(time.RFC3339), h.Until.Format(time.RFC3339))
}

// Held is the run that has the lock, by the clocks of both hosts; nil if none has. It is for reports: only Acquire decides.
func Held(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Holder, error) {
	lease := &coordinationv1.Lease{}
	if err := client.IgnoreNotFound(reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, lease)); err != nil {
		return nil, fmt.Errorf("reading Lease %s/%s: %w", namespace, Name, err)
	}
	holder := holderOf(lease)
	if holder.Identity == "" || !now.Before(holder.Until.Time) {
		return nil, nil
	}
	return &holder, nil
}

func holderOf(lease *coordinationv1.Lease) Holder {
	spec := lease.Spec
	lasts := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second
	return Holder{
		Identity: ptr.Deref(spec.HolderIdentity, ""),
		Since:    metav1.NewTime(ptr.Deref(spec.AcquireTime, metav1.MicroTime{}).Time),
		Until:    metav1.NewTime(ptr.Deref(spec.RenewTime, metav1.MicroTime{}).Add(lasts)),
	}
}
