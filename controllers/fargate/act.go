// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Act creates, updates and deletes the profiles. A profile that cannot be written does not block the others.
func (p *Plan) Act(ctx context.Context, c client.Client) error {
	switch {
	case p.Paused != "":
		return nil
	case len(p.Profiles)+len(p.Obsolete) == 0:
		return ownerOf(p.controlPlane, "").Release(ctx, c)
	}
	if err := p.hold(ctx, c); err != nil {
		return err
	}
	return errors.Join(p.deleteObsolete(ctx, c), p.writeProfiles(ctx, c))
}

// hold adds the finalizer before the first profile is created.
func (p *Plan) hold(ctx context.Context, c client.Client) error {
	exists := func(profile PlannedProfile) bool { return profile.Apply.Apply != nil || p.mayWrite(&profile) }
	if !p.controlPlane.DeletionTimestamp.IsZero() || len(p.Obsolete) == 0 && !slices.ContainsFunc(p.Profiles, exists) {
		return nil
	}
	return ownerOf(p.controlPlane, "").Hold(ctx, c, nil)
}

func (p *Plan) deleteObsolete(ctx context.Context, c client.Client) error {
	var errs []error
	for i := range p.Obsolete {
		if apply := &p.Obsolete[i].Apply; apply.Apply.DeletionTimestamp.IsZero() {
			errs = append(errs, apply.Delete(ctx, c))
		}
	}
	return errors.Join(errs...)
}

func (p *Plan) writeProfiles(ctx context.Context, c client.Client) error {
	var errs []error
	for i := range p.Profiles {
		profile := &p.Profiles[i]
		changes := p.mayWrite(profile)
		if !changes && (profile.Apply.Differs || p.blocked() != nil) {
			continue
		}
		// Without a difference, this restores lost managedFields.
		if err := profile.Apply.Write(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("writing Fargate profile %s: %w", profile.Name, err))
			continue
		}
		p.Busy = p.Busy || changes
	}
	return errors.Join(errs...)
}

// mayWrite reports whether a profile is created or changed now.
func (p *Plan) mayWrite(profile *PlannedProfile) bool {
	return p.blocked() == nil && profile.isPending(p.Busy)
}
