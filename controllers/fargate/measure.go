// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import "github.com/capt-provider/capt/controllers/metrics"

// Measured is what metrics tell of the profiles.
func (f *Facts) Measured() []metrics.Profile {
	profiles := make([]metrics.Profile, 0, len(f.Profiles)+len(f.Leaving))
	for i := range f.Profiles {
		profiles = append(profiles, measured(&f.Profiles[i], f.view(&f.Profiles[i])))
	}
	for i := range f.Leaving {
		profiles = append(profiles, measured(&f.Leaving[i], f.leaving(&f.Leaving[i])))
	}
	return profiles
}

func measured(p *Profile, v view) metrics.Profile {
	profile := metrics.Profile{Ready: v.stage == ready, Failed: v.stage == failed}
	apply := p.Apply.Apply
	if apply == nil {
		return profile
	}
	profile.UID, profile.FirstTime = apply.UID, apply.Status.LastAppliedTime == nil
	if apply.Status.StartedTime != nil {
		profile.StartedAt = apply.Status.StartedTime.Time
	}
	if apply.DeletionTimestamp != nil {
		profile.DeletedAt = apply.DeletionTimestamp.Time
	}
	return profile
}
