// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package versions has the rules for Kubernetes versions.
package versions

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/version"
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

// OldestEKS is the oldest EKS version that this release was tested with.
func OldestEKS() string { return fmt.Sprintf("1.%d", oldestEKSMinor) }

// NewestEKS is the newest EKS version that this release was tested with.
func NewestEKS() string { return fmt.Sprintf("1.%d", newestEKSMinor) }

// IsTestedWithEKS reports whether a version is among those that this release was tested with.
func IsTestedWithEKS(v KubernetesVersion) bool {
	for minor := oldestEKSMinor; minor <= newestEKSMinor; minor++ {
		if v.EKS == fmt.Sprintf("1.%d", minor) {
			return true
		}
	}
	return false
}
