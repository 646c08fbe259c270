// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// ProfileStatus is the status of a Fargate profile in EKS.
type ProfileStatus string

// The simulated statuses.
const (
	ProfileCreating ProfileStatus = "CREATING"
	ProfileActive   ProfileStatus = "ACTIVE"
	ProfileDeleting ProfileStatus = "DELETING"
)

// FargateProfile is a simulated Fargate profile with the field names of EKS. It is a file in the directory of its cluster. No
// pods run on it; it exists to enforce EKS's rules for profiles.
type FargateProfile struct {
	Name      string            `json:"fargateProfileName"`
	Status    ProfileStatus     `json:"status,omitempty"`
	Selectors []FargateSelector `json:"selectors,omitempty"`
	Subnets   []string          `json:"subnets,omitempty"`
	// Worker is the process that creates or deletes the profile.
	Worker process.ID `json:"worker,omitzero"`
}

// FargateSelector selects pods.
type FargateSelector struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// The files of the profiles in the directory of their cluster.
const (
	profilesFolder = "fargate"
	profileSuffix  = ".json"
)

// refusals begin EKS's error messages while it creates or deletes another profile, by the requested operation.
var refusals = map[ProfileStatus]string{ProfileCreating: "Cannot create", ProfileDeleting: "Cannot Delete"}

// profilePattern also rejects paths.
var profilePattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,100}$`)

// Validate checks the name.
func (p FargateProfile) Validate() error {
	if !profilePattern.MatchString(p.Name) {
		return fmt.Errorf("%q is not a name of a Fargate profile: must be 1 to 100 letters, digits, '-' and '_'", p.Name)
	}
	return nil
}

// inFlight reports whether the profile is being created or deleted. A profile whose worker was killed keeps its status and
// does not block others.
func (p FargateProfile) inFlight() bool { return p.Worker.Alive() }

// CreateFargateProfile creates a profile, which takes the given time. Like EKS, it fails while another profile of the cluster
// is created or deleted. An existing profile is replaced, so that a killed apply can be repeated.
func (s Server) CreateFargateProfile(ctx context.Context, profile FargateProfile, takes time.Duration) error {
	return s.work(ctx, profile, ProfileCreating, takes, func() error {
		profile.Status = ProfileActive
		return s.writeProfile(profile)
	})
}

// DeleteFargateProfile deletes a profile, under the same rule. A missing profile is not an error, so that a destroy can be
// repeated.
func (s Server) DeleteFargateProfile(ctx context.Context, name string, takes time.Duration) error {
	profiles, err := s.FargateProfiles()
	if err != nil {
		return err
	}
	for _, profile := range profiles {
		if profile.Name == name {
			return s.work(ctx, profile, ProfileDeleting, takes, func() error { return os.Remove(s.profileFile(name)) })
		}
	}
	return nil
}

// FargateProfiles returns the profiles of the cluster.
func (s Server) FargateProfiles() ([]FargateProfile, error) {
	entries, err := os.ReadDir(s.file(profilesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var profiles []FargateProfile
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != profileSuffix {
			continue // A temporary file.
		}
		data, err := os.ReadFile(filepath.Join(s.file(profilesFolder), entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Deleted concurrently.
		}
		if err != nil {
			return nil, err
		}
		profile := FargateProfile{}
		if err := json.Unmarshal(data, &profile); err != nil {
			return nil, fmt.Errorf("reading Fargate profile %s: %w", entry.Name(), err)
		}
		profiles = append(profiles, profile)
	}
	return profiles, nil
}

// work records the operation, waits and completes it. If it is interrupted, the profile keeps the status of the operation,
// without a worker.
func (s Server) work(ctx context.Context, profile FargateProfile, status ProfileStatus, takes time.Duration, end func() error) error {
	if err := s.begin(ctx, profile, status); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		profile.Status = status
		return errors.Join(context.Cause(ctx), s.writeProfile(profile))
	case <-time.After(takes):
		return end()
	}
}

// begin records this process as the worker of the cluster, or returns the error of EKS for a concurrent operation.
func (s Server) begin(ctx context.Context, profile FargateProfile, status ProfileStatus) error {
	if err := errors.Join(s.Validate(), profile.Validate()); err != nil {
		return err
	}
	// Check before locking: the lock creates the directory of the cluster.
	if s.Endpoint() == "" {
		return fmt.Errorf("ResourceNotFoundException: No cluster found for name: %s", s.Name)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
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
	if err := os.MkdirAll(s.file(profilesFolder), 0o700); err != nil {
		return err
	}
	profile.Status = status
	if profile.Worker, err = process.Identify(os.Getpid()); err != nil {
		return err
	}
	return s.writeProfile(profile)
}

// requireNoProfiles returns the error of EKS for deleting a cluster that has Fargate profiles.
func (s Server) requireNoProfiles() error {
	profiles, err := s.FargateProfiles()
	if err != nil {
		return err
	}
	for _, profile := range profiles {
		if profile.Status == ProfileActive || profile.inFlight() {
			return errors.New("ResourceInUseException: Cluster has Fargate Profiles in ACTIVE/CREATING state")
		}
	}
	return nil
}

func (s Server) profileFile(name string) string {
	return filepath.Join(s.file(profilesFolder), name+profileSuffix)
}

func (s Server) writeProfile(profile FargateProfile) error {
	data, err := json.MarshalIndent(profile, "", "  ")
	if err != nil {
		return err
	}
	return state.WriteFile(s.profileFile(profile.Name), append(data, '\n'))
}
