// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Holder is a run that has the lock.
type Holder struct {
	Identity string      `json:"holder"`
	Since    metav1.Time `json:"since"` // Since is when it took the lock, by its own clock.
	Until    metav1.Time `json:"until"` // Until is when its lease runs out unless it is renewed, by its own clock.
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
