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
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Holder is a run that has the lock.
type Holder struct {
	Identity string
	// Since is when it took the lock, and Until when its lease runs out unless it is renewed, both by its own clock.
	Since, Until time.Time
}

func (h Holder) String() string {
	return fmt.Sprintf("%s, since %s, until %s unless it goes on", h.Identity, h.Since.Format(time.RFC3339), h.Until.Format(time.RFC3339))
}

// Held tells who has the lock, by the clocks of both hosts; nil for nobody. It is for people: only Acquire knows.
func Held(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Holder, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Lease %s/%s: %w", namespace, Name, err)
	}
	holder := holderOf(lease)
	if holder.Identity == "" || !now.Before(holder.Until) {
		return nil, nil
	}
	return &holder, nil
}

func holderOf(lease *coordinationv1.Lease) Holder {
	return Holder{
		Identity: ptr.Deref(lease.Spec.HolderIdentity, ""),
		Since:    ptr.Deref(lease.Spec.AcquireTime, metav1.MicroTime{}).Time,
		Until:    ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Add(duration(lease)),
	}
}

func lockedBy(lease *coordinationv1.Lease) error {
	return migrate.Locked.Errorf("another run is under way: %s", holderOf(lease))
}

// duration of a lease; one that says none is none of ours, and treated as one of ours.
func duration(lease *coordinationv1.Lease) time.Duration {
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return DefaultDuration
}
