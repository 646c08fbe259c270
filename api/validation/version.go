// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// KubernetesVersion is a Kubernetes version in the forms of Cluster API and of EKS.
type KubernetesVersion struct {
	// Semantic is the full form, for example v1.31.0 or v1.31.2-eks-1, as Cluster API's contract requires it. A version in this form is
	// not normalized: the topology controller of Cluster API writes it, and would revert a change.
	Semantic string
	// EKS is the form that EKS accepts, for example 1.31.
	EKS string
}

// kubernetesVersion has the same pattern as the CRD of CAPTControlPlane. The parser alone would accept 1.31.x as 1.31.
var kubernetesVersion = regexp.MustCompile(`^v?[1-9][0-9]*\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?([-+].*)?$`)

// ParseKubernetesVersion parses a version in one of the forms 1.31, v1.31, 1.31.0 and v1.31.0; the last two may have a suffix. The error is
// for users, and quotes the text.
func ParseKubernetesVersion(text string) (KubernetesVersion, error) {
	if !kubernetesVersion.MatchString(text) {
		return KubernetesVersion{}, fmt.Errorf("%q is not a Kubernetes version. Use for example v1.31.0", text)
	}
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return KubernetesVersion{}, fmt.Errorf("%q is not a Kubernetes version. Use for example v1.31.0: %w", text, err)
	}
	semantic := fmt.Sprintf("v%d.%d.%d", parsed.Major(), parsed.Minor(), parsed.Patch())
	if suffix := kubernetesVersion.FindStringSubmatch(text)[4]; suffix != "" {
		if _, err := version.ParseSemantic(semantic + suffix); err == nil {
			semantic += suffix
		}
	}
	return KubernetesVersion{Semantic: semantic, EKS: fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor())}, nil
}

// The minor versions of Kubernetes 1 in standard or extended support of EKS when this release of CAPT was tested: see "Understand the
// Kubernetes version lifecycle on EKS" in the user guide of Amazon EKS. Other versions are only a warning, so that users do not have to
// wait for a release of CAPT.
const (
	oldestEKSMinor = 30
	newestEKSMinor = 35
)

// isTestedWithEKS reports whether a version is among those that this release was tested with.
func isTestedWithEKS(v KubernetesVersion) bool {
	minor, ok := minorOf(v.EKS)
	return ok && minor.major == 1 && minor.minor >= oldestEKSMinor && minor.minor <= newestEKSMinor
}

// Versions are the Kubernetes versions from which a version change starts, in the form of EKS, for example 1.31.
type Versions struct {
	// Running is the version that EKS runs, as Terraform reported after a complete apply; empty when it is unknown.
	Running string
	// Requested is the version in the WorkspaceTemplateApply, which Terraform may not have applied yet; empty when there is none.
	Requested string
	// Failed is true when Terraform tried to apply the version Requested and failed.
	Failed bool
}

func (v *Versions) changesTo(version string) bool {
	target, ok := minorOf(version)
	requested, known := minorOf(v.Requested)
	return ok && known && requested != target
}

// CurrentVersions returns the versions of a control plane, from the control plane and its WorkspaceTemplateApply, which may be nil.
//
// The output cluster_version is reliable only after a complete apply: after an apply that failed half-way, an output that repeats the
// variable already has the new value. Otherwise Running is status.version of the control plane, which the controller sets only after a
// complete apply; it is empty if this WorkspaceTemplateApply was never applied completely.
func CurrentVersions(controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) Versions {
	if apply == nil {
		return Versions{}
	}
	v := Versions{Requested: apply.Spec.Variables.Text(naming.VersionVariable)}
	ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition)
	current := ready != nil && apply.Status.ObservedGeneration == apply.Generation
	if current && ready.Status == metav1.ConditionTrue {
		v.Running = v.Requested
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

// nothingBuilt reports whether Terraform never completed, and there is no evidence of an EKS cluster. Then the first version of a new
// control plane, which EKS may not offer, can be corrected to any other.
func nothingBuilt(apply *infrav1.WorkspaceTemplateApply) bool {
	applied := apply.Status.Applied == metav1.ConditionTrue
	return !applied && apply.Status.LastAppliedRevision == "" && len(apply.Status.Outputs) == 0
}

// ValidateVersionChange returns an error for a version change that EKS does not support (more than one minor version at a time), and for a
// change to an earlier version while Terraform applies a later one. The allowed versions are:
//
//   - from Requested to the minor version after Running;
//   - also Running, if Terraform failed to apply Requested;
//   - the minor version before Running, with a warning: EKS rolls back only within seven days of an upgrade
//     (https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html);
//   - Requested and the minor version after it, if Running is unknown;
//   - any, if both are empty.
//
// It ignores versions that cannot be parsed, which ParseKubernetesVersion reports.
func ValidateVersionChange(from Versions, to string) (warning string, err error) {
	target, ok := minorOf(to)
	running, known := minorOf(from.Running)
	requested, isRequested := minorOf(from.Requested)
	switch {
	case !ok, !known && !isRequested:
		return "", nil
	case !known:
		return "", changeFromRequested(requested, target, from.Failed)
	case !isRequested:
		requested = running
	}
	next := running.next()
	switch {
	case target.next().before(running):
		return "", fmt.Errorf("the cluster runs %s and EKS rolls back by one minor version at most, not to %s. Restore the version", running, target)
	case target.before(requested) && !from.Failed && running.before(requested):
		return "", beingAppliedError(requested)
	case next.before(target):
		first := fmt.Sprintf("Upgrade to %s first", next)
		if running.before(requested) {
			first = fmt.Sprintf("Wait until the upgrade to %s is complete", requested)
		}
		return "", fmt.Errorf("the cluster runs %s and EKS upgrades one minor version at a time. %s", running, first)
	case target.before(running):
		return fmt.Sprintf("the cluster runs %[1]s. EKS rolls it back to %[2]s only within seven days of the upgrade from %[2]s to %[1]s, and does not roll back nodes and add-ons", running, target), nil
	}
	return "", nil
}

// changeFromRequested is ValidateVersionChange for an unknown running version.
func changeFromRequested(requested, target minorVersion, failed bool) error {
	next := requested.next()
	switch {
	case target.before(requested) && failed:
		return fmt.Errorf("the upgrade to %s failed and the running version is unknown. EKS cannot downgrade it to %s. Restore the version, or wait until Terraform reports the running version", requested, target)
	case target.before(requested):
		return beingAppliedError(requested)
	case next.before(target):
		return fmt.Errorf("the cluster is being created with %s and EKS upgrades one minor version at a time. Upgrade to %s first", requested, next)
	}
	return nil
}

// beingAppliedError returns the error for a change to an earlier version while Terraform applies a later one.
func beingAppliedError(requested minorVersion) error {
	return fmt.Errorf("the change to %s is pending or in progress. Wait until it has completed or failed", requested)
}

// maxNodeSkew is how many minor versions nodes may be behind the control plane (https://kubernetes.io/releases/version-skew-policy/#kubelet).
const maxNodeSkew = 3

// ValidateNodeVersion returns an error for nodes of a version that a control plane of another version does not support: they must not be newer, and at
// most three minor versions older. It ignores versions that cannot be parsed.
func ValidateNodeVersion(nodes, controlPlane string) error {
	node, ok := minorOf(nodes)
	runs, known := minorOf(controlPlane)
	switch {
	case !ok || !known:
		return nil
	case runs.before(node):
		return fmt.Errorf("the control plane has %s, and nodes cannot be newer. Upgrade the control plane to %s first", runs, node)
	case node.isTooOldFor(runs):
		return fmt.Errorf("the control plane has %s, and nodes can be at most %d minor versions older. Use %s or newer", runs, maxNodeSkew, minorVersion{runs.major, runs.minor - maxNodeSkew})
	}
	return nil
}

// isTooOldFor reports whether nodes of this version are too old for a control plane of another one.
func (v minorVersion) isTooOldFor(controlPlane minorVersion) bool {
	return minorVersion{v.major, v.minor + maxNodeSkew}.before(controlPlane)
}

// minorVersion is the part of a version that users of EKS can choose.
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
