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

// ProfileStatus is what EKS says of a Fargate profile.
type ProfileStatus string

// What the stand-in knows of them.
const (
	ProfileCreating ProfileStatus = "CREATING"
	ProfileActive   ProfileStatus = "ACTIVE"
	ProfileDeleting ProfileStatus = "DELETING"
)

// FargateProfile is a Fargate profile in the words of EKS. No pods ever run on one here: it stands for the rules that EKS
// has for profiles, and it is a file in the folder of its cluster that people can look at.
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

// Where the profiles of a cluster are, in its folder: one file each.
const (
	profilesFolder = "fargate"
	profileSuffix  = ".json"
)

// refusals are how EKS says no to those who come while it works on another profile, by what they came for.
var refusals = map[ProfileStatus]string{ProfileCreating: "Cannot create", ProfileDeleting: "Cannot Delete"}

// profilePattern also keeps the name from being a path.
var profilePattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,100}$`)

// Validate checks the name.
func (p FargateProfile) Validate() error {
	if !profilePattern.MatchString(p.Name) {
		return fmt.Errorf("%q is not a name of a Fargate profile: want 1 to 100 letters, digits, '-' and '_'", p.Name)
	}
	return nil
}

// inFlight says whether somebody works on the profile. One whose worker was killed is left as it was then, and in
// nobody's way.
func (p FargateProfile) inFlight() bool { return p.Worker.Alive() }

// CreateFargateProfile makes a profile, in the time that it takes. EKS refuses that while another profile of the cluster is
// created or deleted. One that is there already is made anew: an apply that was killed can be repeated.
func (s Server) CreateFargateProfile(ctx context.Context, profile FargateProfile, takes time.Duration) error {
	return s.work(ctx, profile, ProfileCreating, takes, func() error {
		profile.Status = ProfileActive
		return s.writeProfile(profile)
	})
}

// DeleteFargateProfile removes a profile, under the same rule. One that is not there is not an error, so that a destroy can
// be repeated.
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
			continue // It is being written.
		}
		data, err := os.ReadFile(filepath.Join(s.file(profilesFolder), entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was deleted meanwhile.
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

// work writes down that the profile is worked on, takes its time, and ends with the result. Interrupted, it leaves the
// profile as one whose worker is gone.
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

// begin takes the turn of the cluster for this process, or says who has it, in the words of EKS.
func (s Server) begin(ctx context.Context, profile FargateProfile, status ProfileStatus) error {
	if err := errors.Join(s.Validate(), profile.Validate()); err != nil {
		return err
	}
	// Looked at before anything is locked: a lock has a folder, and a folder is a cluster.
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

// requireNoProfiles says what EKS says to those who delete a cluster before its Fargate profiles.
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
