// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Versions are what a change of the Kubernetes version starts from.
type Versions struct {
	// Running is what EKS runs, as Terraform reported when it had applied everything; empty when it is not known.
	Running string
	// Given is what was handed to Terraform last, which may not be applied yet; empty when nothing was.
	Given string
	// Failed is true when Terraform has tried to apply what it was given, and could not.
	Failed bool
}

// VersionsOf reads the versions of a control plane from it and from the WorkspaceTemplateApply in use, which may be nil.
//
// An output says what runs only when the apply is through: after one that failed half-way, an output that just repeats the
// variable has the new value already. Until then status.version is used, which the controller takes over from such an apply
// only. It is empty when this WorkspaceTemplateApply never had one.
func VersionsOf(controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) Versions {
	if apply == nil {
		return Versions{}
	}
	v := Versions{Given: apply.Spec.Variables[naming.VersionVariable]}
	ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition)
	current := ready != nil && apply.Status.ObservedGeneration == apply.Generation
	if current && ready.Status == metav1.ConditionTrue {
		v.Running = v.Given
		if reported, err := ParseKubernetesVersion(apply.Status.Outputs[terraform.OutputClusterVersion]); err == nil {
			v.Running = reported.EKS
		}
		return v
	}
	if apply.Status.LastAppliedRevision != "" {
		v.Running = controlPlane.Status.Version
	}
	v.Failed = current && (ready.Reason == infrav1.ApplyFailedReason || ready.Reason == infrav1.PlanFailedReason)
	if v.Failed && controlPlane.Status.Version == "" && nothingBuilt(apply) {
		return Versions{}
	}
	return v
}

// nothingBuilt reports whether Terraform never completed, and left no evidence of a cluster: the version that
// a new control plane began with may be one that EKS does not have, and can be corrected to any other.
func nothingBuilt(apply *infrav1.WorkspaceTemplateApply) bool {
	applied := apply.Status.Applied == metav1.ConditionTrue
	return !applied && apply.Status.LastAppliedRevision == "" && len(apply.Status.Outputs) == 0
}

// KubernetesVersionStep refuses what EKS cannot do, a downgrade or more than one minor version at a time, and what would
// become a downgrade when Terraform is done with what it has. So a version may be anything from the one that Terraform was
// given to the one that follows the running one; and, when the given one could not be applied, the running one again. What
// runs is taken for what was given while it is not known. As long as nothing was given, any version will do. Versions that
// cannot be parsed are reported by ParseKubernetesVersion.
func KubernetesVersionStep(from Versions, to string) error {
	target, ok := minorOf(to)
	running, known := minorOf(from.Running)
	given, handed := minorOf(from.Given)
	switch {
	case !ok, !known && !handed:
		return nil
	case !known:
		return stepFromGiven(given, target, from.Failed)
	case !handed:
		given = running
	}
	next := running.next()
	switch {
	case target.before(running):
		return fmt.Errorf("the cluster runs %s and EKS cannot downgrade it to %s. Restore the version", running, target)
	case target.before(given) && !from.Failed:
		return beingApplied(given)
	case next.before(target) && running.before(given):
		return fmt.Errorf("the cluster runs %s and EKS upgrades one minor version at a time. Wait until the upgrade to %s is complete", running, given)
	case next.before(target):
		return fmt.Errorf("the cluster runs %s and EKS upgrades one minor version at a time. Upgrade to %s first", running, next)
	}
	return nil
}

// stepFromGiven is the rule for when it is not known what runs.
func stepFromGiven(given, target minorVersion, failed bool) error {
	next := given.next()
	switch {
	case target.before(given) && failed:
		return fmt.Errorf("the upgrade to %s failed and the running version is unknown. EKS cannot downgrade it to %s. Restore the version, or wait until Terraform reports the running version", given, target)
	case target.before(given):
		return beingApplied(given)
	case next.before(target):
		return fmt.Errorf("the cluster is being created with %s and EKS upgrades one minor version at a time. Upgrade to %s first", given, next)
	}
	return nil
}

func beingApplied(given minorVersion) error {
	return fmt.Errorf("the change to %s is pending or in progress. Wait until it has completed or failed", given)
}

// minorVersion is as much of a version as EKS lets choose.
type minorVersion struct{ major, minor uint }

func minorOf(text string) (minorVersion, bool) {
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return minorVersion{}, false // Empty, or not a version.
	}
	return minorVersion{parsed.Major(), parsed.Minor()}, true
}

func (v minorVersion) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v minorVersion) next() minorVersion { return minorVersion{v.major, v.minor + 1} }

func (v minorVersion) before(other minorVersion) bool {
	return v.major < other.major || v.major == other.major && v.minor < other.minor
}
