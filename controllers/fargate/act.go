// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// Act makes, changes and deletes the profiles, unless the control plane is paused. One that can not be written does not hold up
// the others.
func (f *Facts) Act(ctx context.Context, c client.Client, controlPlane *controlplanev1.CAPTControlPlane) error {
	if f.Paused != "" {
		return nil
	}
	if f.none() {
		return engine.Patch(ctx, c, controlPlane, func() {
			controllerutil.RemoveFinalizer(controlPlane, controlplanev1.FargateProfileFinalizer)
		})
	}
	if err := f.hold(ctx, c, controlPlane); err != nil {
		return err
	}
	var errs []error
	for i := range f.Leaving {
		if apply := f.Leaving[i].Apply; apply.Apply.DeletionTimestamp.IsZero() {
			errs = append(errs, apply.Delete(ctx, c))
		}
	}
	for i := range f.Profiles {
		profile := &f.Profiles[i]
		changes := f.mayWrite(profile)
		if !changes && (profile.differs() || f.heldUp() != nil) {
			continue
		}
		if err := profile.Apply.Write(ctx, c, manager); err != nil {
			errs = append(errs, fmt.Errorf("writing Fargate profile %s: %w", profile.Name, err))
			continue
		}
		f.Busy = f.Busy || changes
	}
	return errors.Join(errs...)
}

// mayWrite tells whether a profile is to be made or changed now. What is being deleted is made anew when it is gone.
func (f *Facts) mayWrite(p *Profile) bool {
	return f.heldUp() == nil && f.due(p)
}

// hold keeps the control plane until its profiles are gone, and only then are they made: none is left behind.
func (f *Facts) hold(ctx context.Context, c client.Client, controlPlane *controlplanev1.CAPTControlPlane) error {
	exists := func(p Profile) bool { return p.Apply.Apply != nil || f.mayWrite(&p) }
	if !controlPlane.DeletionTimestamp.IsZero() || len(f.Leaving) == 0 && !slices.ContainsFunc(f.Profiles, exists) {
		return nil
	}
	return engine.Patch(ctx, c, controlPlane, func() {
		controllerutil.AddFinalizer(controlPlane, controlplanev1.FargateProfileFinalizer)
	})
}

// due tells whether it is a profile's turn to be made, or it is there and to be changed.
func (f *Facts) due(p *Profile) bool {
	if p.Apply.Apply == nil {
		return !f.Busy && p.differs()
	}
	return p.differs() && p.Apply.Apply.DeletionTimestamp.IsZero()
}

func (p *Profile) differs() bool { return p.Apply.Differs(manager) }

// unwritten tells whether a profile is not there, or not as spec wants it.
func (p *Profile) unwritten() bool { return p.Apply.Apply == nil || p.differs() }
