// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// NodeGroup is a simulated managed node group with the field names of EKS. It is a file in the directory of its cluster, and its nodes are
// Node objects in the cluster, which kwok keeps alive.
type NodeGroup struct {
	Name string `json:"nodegroupName"`
	operation
	Version       string            `json:"version"`
	Scaling       Scaling           `json:"scalingConfig"`
	Region        string            `json:"region"`
	InstanceTypes []string          `json:"instanceTypes"`
	Subnets       []string          `json:"subnets"`
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []Taint           `json:"taints,omitempty"`
	Issues        []Issue           `json:"issues,omitempty"`
}

// Scaling is the size of a node group.
type Scaling struct {
	Min     int `json:"minSize"`
	Max     int `json:"maxSize"`
	Desired int `json:"desiredSize"`
}

// Taint is a taint with an effect of EKS, such as NO_SCHEDULE.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Issue is a health issue of a node group.
type Issue struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// edits counts the changes of a size without Terraform, in a file that modules read: they cannot see otherwise that something is to be
// corrected. The file outlives its node group, because Terraform reads it again while it replaces the node group.
type edits struct {
	Bounds int `json:"bounds"`
	Size   int `json:"size"`
}

// groupPattern also rejects paths.
var groupPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$`)

// Validate checks the name.
func (g NodeGroup) Validate() error {
	if !groupPattern.MatchString(g.Name) {
		return fmt.Errorf("%q is not a name of a node group: must be 1 to 63 letters, digits, '-' and '_', beginning with a letter or digit", g.Name)
	}
	return nil
}

func (s Server) groups() files[NodeGroup] { return files[NodeGroup]{s.file("nodegroups"), ".json"} }

func (s Server) edits() files[edits] { return files[edits]{s.groups().dir, ".edits"} }

// NodeGroups returns the node groups of the cluster.
func (s Server) NodeGroups() ([]NodeGroup, error) { return s.groups().list() }

// NodeGroup returns a node group, or the error of EKS.
func (s Server) NodeGroup(name string) (NodeGroup, error) {
	group, err := s.groups().read(name)
	if err == nil && group == nil {
		err = fmt.Errorf("ResourceNotFoundException: No node group found for name: %s.", name) //nolint:staticcheck,revive // The text of EKS.
	}
	if err != nil {
		return NodeGroup{}, err
	}
	return *group, nil
}

// ApplyNodeGroup creates a node group or updates it, and waits, as Terraform's AWS provider does. Each step takes the given time: all nodes
// are created or removed in one step, but replaced one by one.
func (s Server) ApplyNodeGroup(ctx context.Context, wanted NodeGroup, takes time.Duration) error {
	if err := errors.Join(s.Validate(), wanted.Validate()); err != nil {
		return err
	}
	previous := wanted
	err := s.exclusively(ctx, func() error {
		cluster, err := s.Recorded()
		if err != nil {
			return err
		}
		existing, err := s.groups().read(wanted.Name)
		if err != nil {
			return err
		}
		if existing != nil {
			previous = *existing
		}
		if wanted, err = admit(existing, wanted, cluster.Version); err != nil {
			return err
		}
		if err := s.startKwok(ctx, cluster); err != nil {
			return err
		}
		if wanted.operation, err = began(wanted.Status); err != nil {
			return err
		}
		return s.groups().write(wanted.Name, wanted)
	})
	if err != nil {
		return err
	}
	return s.finish(wanted, previous, s.rollOut(ctx, wanted, previous, takes))
}

// finish records how an operation ended. A node group whose update failed stays Active with its version. An interrupted operation can be repeated.
func (s Server) finish(group, previous NodeGroup, failed error) error {
	switch {
	case failed == nil:
		group.operation, group.Issues = operation{Status: Active}, nil
	case errors.As(failed, &failure{}) && group.Status == Updating:
		group.operation, group.Version = operation{Status: Active}, previous.Version
	case errors.As(failed, &failure{}):
		group.operation = operation{Status: CreateFailed}
		group.Issues = []Issue{{Code: "NodeCreationFailure", Message: "Instances failed to join the kubernetes cluster"}}
	default:
		group.operation = operation{Status: group.Status}
	}
	return errors.Join(failed, s.groups().write(group.Name, group))
}

// DeleteNodeGroup deletes a node group and its nodes. A missing node group is not an error, so that a destroy can be repeated.
func (s Server) DeleteNodeGroup(ctx context.Context, name string, takes time.Duration) error {
	group, err := s.groups().read(name)
	if err != nil || group == nil {
		return err
	}
	err = s.exclusively(ctx, func() error {
		if group, err = s.groups().read(name); err != nil || group == nil {
			return err
		}
		if group.inFlight() {
			return fmt.Errorf("ResourceInUseException: Nodegroup cannot be deleted as it is currently in %s state", group.Status)
		}
		if group.operation, err = began(Deleting); err != nil {
			return err
		}
		return s.groups().write(name, *group)
	})
	if err != nil || group == nil {
		return err
	}
	group.Scaling = Scaling{}
	if err := s.rollOut(ctx, *group, *group, takes); err != nil {
		return s.finish(*group, *group, err)
	}
	return s.groups().remove(name)
}

// Rescale changes the scaling without Terraform, as an autoscaler or a user of the AWS console does. A negative size is not changed.
func (s Server) Rescale(ctx context.Context, name string, scaling Scaling) error {
	group, err := s.NodeGroup(name)
	if err != nil {
		return err
	}
	wanted := func(size, current int) int {
		if size < 0 {
			return current
		}
		return size
	}
	edited, err := s.edits().read(name)
	if err != nil {
		return err
	}
	if edited == nil {
		edited = &edits{}
	}
	current := group.Scaling
	group.Scaling = Scaling{Min: wanted(scaling.Min, current.Min), Max: wanted(scaling.Max, current.Max), Desired: wanted(scaling.Desired, current.Desired)}
	if group.Scaling.Desired != current.Desired {
		edited.Size++
	}
	if group.Scaling.Min != current.Min || group.Scaling.Max != current.Max {
		edited.Bounds++
	}
	if err := s.ApplyNodeGroup(ctx, group, 0); err != nil {
		return err
	}
	return s.edits().write(name, *edited)
}

// maxSkew is how many minor versions nodes may be older than the control plane.
const maxSkew = 3

// admit returns the node group as it is during the operation, or the error of EKS. A node group without a version has that of the cluster.
func admit(existing *NodeGroup, wanted NodeGroup, cluster string) (NodeGroup, error) {
	wanted.operation, wanted.Version = operation{Status: Creating}, cmp.Or(wanted.Version, cluster)
	allowed := "Cluster kubernetes version " + cluster
	if existing != nil {
		if existing.inFlight() || existing.Status == Degraded {
			return wanted, errors.New("ResourceInUseException: Nodegroup cannot be updated as it is currently not in Active State")
		}
		allowed += " or NodeGroup kubernetes version " + existing.Version
		// What UpdateNodegroupConfig and UpdateNodegroupVersion cannot change.
		wanted.InstanceTypes, wanted.Subnets, wanted.Region = existing.InstanceTypes, existing.Subnets, existing.Region
		if existing.Status == Active || existing.Status == Updating {
			wanted.Status = Updating
		}
	}
	if err := admitSize(wanted.Scaling, existing != nil); err != nil {
		return wanted, err
	}
	minor, err := minorVersion(wanted.Version)
	if err != nil {
		return wanted, err
	}
	wanted.Version = minor.String()
	// EKS documents only the version of the cluster for a new node group. Older nodes are what a cluster has that was upgraded.
	if behind, err := minorsBehind(wanted.Version, cluster); err != nil || behind < 0 || behind > maxSkew {
		return wanted, errors.Join(err, fmt.Errorf("InvalidParameterException: Nodegroup Kubernetes version should be equal to %s", allowed))
	}
	return wanted, nil
}

// admitSize has other texts for the update of a node group than for its creation, as EKS has.
func admitSize(size Scaling, update bool) error {
	text := ""
	switch {
	case size.Min < 0 || size.Max < 1:
		text = "minSize must be at least 0, and maxSize at least 1"
	case size.Desired > size.Max:
		text = "desiredSize can't be greater than maxSize"
	case size.Min > size.Desired && update:
		text = fmt.Sprintf("Minimum capacity %d can't be greater than desired size %d", size.Min, size.Desired)
	case size.Min > size.Desired:
		text = "minSize can't be greater than desiredSize"
	default:
		return nil
	}
	return errors.New("InvalidParameterException: " + text)
}

// minorsBehind is how many minor versions a version is older than another one.
func minorsBehind(older, newer string) (int, error) {
	a, err := version.ParseGeneric(older)
	if err != nil {
		return 0, err
	}
	b, err := version.ParseGeneric(newer)
	if err != nil {
		return 0, err
	}
	return int(b.Minor()) - int(a.Minor()), nil
}

// requireNodesFor returns the error of EKS for a version of the control plane that does not fit to the nodes: they may be three minor
// versions older, but not newer, as after a rollback.
func (s Server) requireNodesFor(wanted, running string) error {
	groups, err := s.NodeGroups()
	if err != nil {
		return err
	}
	var old, young []string
	for _, group := range groups {
		behind, err := minorsBehind(group.Version, wanted)
		switch {
		case err != nil:
			return err
		case behind > maxSkew:
			old = append(old, group.Name)
		case behind < 0:
			young = append(young, group.Name)
		}
	}
	if len(old) > 0 {
		return fmt.Errorf("InvalidParameterException: Nodegroups %s must be updated to match cluster version %s before updating cluster version",
			strings.Join(old, ", "), running)
	}
	if len(young) > 0 {
		return fmt.Errorf("InvalidRequestException: Nodegroups %s must be rolled back to version %s before rolling back the cluster version",
			strings.Join(young, ", "), wanted)
	}
	return nil
}

// requireNoGroups returns the error of EKS for deleting a cluster that has node groups.
func (s Server) requireNoGroups() error {
	groups, err := s.NodeGroups()
	if err == nil && len(groups) > 0 {
		err = errors.New("ResourceInUseException: Cluster has nodegroups attached")
	}
	return err
}

// Failure is what a user of the sandbox breaks.
type Failure string

// The failures of node groups. All but FailHealth concern the operations to come.
const (
	FailNothing Failure = "none"
	FailCreate  Failure = "create"
	FailUpdate  Failure = "update"
	// FailHang makes an operation wait until another failure is set.
	FailHang   Failure = "hang"
	FailHealth Failure = "health"
)

// Failures are all failures.
func Failures() []Failure {
	return []Failure{FailNothing, FailCreate, FailUpdate, FailHang, FailHealth}
}

// failure is the failure of an operation, as Terraform's AWS provider reports it.
type failure struct{ text string }

func (f failure) Error() string { return f.text }

func (s Server) failureFile(group string) string { return s.groups().path(group) + ".failure" }

func (s Server) failing(group string, failure Failure) bool {
	data, err := os.ReadFile(s.failureFile(group))
	return err == nil && Failure(data) == failure
}

// BreakNodeGroup sets what fails. A node group that does not exist yet can fail to be created.
func (s Server) BreakNodeGroup(ctx context.Context, name string, failure Failure) error {
	return s.exclusively(ctx, func() error {
		if err := (NodeGroup{Name: name}).Validate(); err != nil {
			return err
		}
		if err := os.MkdirAll(s.groups().dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(s.failureFile(name), []byte(failure), 0o600); err != nil {
			return err
		}
		group, err := s.groups().read(name)
		if err != nil || group == nil || group.inFlight() {
			return err
		}
		switch {
		case failure == FailHealth && group.Status == Active:
			group.Status = Degraded
			group.Issues = []Issue{{Code: "AsgInstanceLaunchFailures", Message: "Could not launch On-Demand Instances. InsufficientInstanceCapacity"}}
		case failure != FailHealth && group.Status == Degraded:
			group.Status, group.Issues = Active, nil
		default:
			return nil
		}
		return s.groups().write(name, *group)
	})
}

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
