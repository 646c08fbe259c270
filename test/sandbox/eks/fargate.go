// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// FargateProfile is a simulated Fargate profile with the field names of EKS. It is a file in the directory of its cluster. No
// pods run on it; it exists to enforce EKS's rules for profiles.
type FargateProfile struct {
	Name string `json:"fargateProfileName"`
	operation
	Selectors []FargateSelector `json:"selectors,omitempty"`
	Subnets   []string          `json:"subnets,omitempty"`
}

// FargateSelector selects pods.
type FargateSelector struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// refusals begin EKS's error messages while it creates or deletes another profile, by the requested operation.
var refusals = map[Status]string{Creating: "Cannot create", Deleting: "Cannot Delete"}

// profilePattern also rejects paths.
var profilePattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,100}$`)

// Validate checks the name.
func (p FargateProfile) Validate() error {
	if !profilePattern.MatchString(p.Name) {
		return fmt.Errorf("%q is not a name of a Fargate profile: must be 1 to 100 letters, digits, '-' and '_'", p.Name)
	}
	return nil
}

func (s Server) profiles() files[FargateProfile] {
	return files[FargateProfile]{s.file("fargate"), ".json"}
}

// FargateProfiles returns the profiles of the cluster.
func (s Server) FargateProfiles() ([]FargateProfile, error) { return s.profiles().list() }

// CreateFargateProfile creates a profile, which takes the given time. Like EKS, it fails while another profile of the cluster
// is created or deleted. An existing profile is replaced, so that a killed apply can be repeated.
func (s Server) CreateFargateProfile(ctx context.Context, profile FargateProfile, takes time.Duration) error {
	return s.work(ctx, profile, Creating, takes, func() error {
		profile.operation = operation{Status: Active}
		return s.profiles().write(profile.Name, profile)
	})
}

// DeleteFargateProfile deletes a profile, under the same rule. A missing profile is not an error, so that a destroy can be
// repeated.
func (s Server) DeleteFargateProfile(ctx context.Context, name string, takes time.Duration) error {
	profile, err := s.profiles().read(name)
	if err != nil || profile == nil {
		return err
	}
	return s.work(ctx, *profile, Deleting, takes, func() error { return s.profiles().remove(name) })
}

// work records the operation, waits and completes it. If it is interrupted, the profile keeps the status of the operation,
// without a worker.
func (s Server) work(ctx context.Context, profile FargateProfile, status Status, takes time.Duration, end func() error) error {
	if err := errors.Join(s.Validate(), profile.Validate()); err != nil {
		return err
	}
	err := s.exclusively(ctx, func() (err error) {
		if err := s.requireNoOtherOperation(profile, status); err != nil {
			return err
		}
		if profile.operation, err = began(status); err != nil {
			return err
		}
		return s.profiles().write(profile.Name, profile)
	})
	if err != nil {
		return err
	}
	if err := pause(ctx, takes); err != nil {
		profile.operation = operation{Status: status}
		return errors.Join(err, s.profiles().write(profile.Name, profile))
	}
	return end()
}

// requireNoOtherOperation returns the error of EKS for a concurrent operation.
func (s Server) requireNoOtherOperation(profile FargateProfile, status Status) error {
	others, err := s.FargateProfiles()
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.inFlight() {
			return fmt.Errorf("ResourceInUseException: %s Fargate Profile %s because cluster %s currently has Fargate profile %s in status %s",
				refusals[status], profile.Name, s.Name, other.Name, other.Status)
		}
	}
	return nil
}

// requireNoProfiles returns the error of EKS for deleting a cluster that has Fargate profiles.
func (s Server) requireNoProfiles() error {
	profiles, err := s.FargateProfiles()
	if err != nil {
		return err
	}
	for _, profile := range profiles {
		if profile.Status == Active || profile.inFlight() {
			return errors.New("ResourceInUseException: Cluster has Fargate Profiles in ACTIVE/CREATING state")
		}
	}
	return nil
}
