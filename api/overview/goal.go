// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/version"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
)

// Kinds of goals.
const (
	goalReady   = "ready"
	goalDeleted = "deleted"
	goalVersion = "version"
)

// Goal is what is waited for: a state of a Cluster.
type Goal struct {
	kind    string
	version *version.Version
}

// ParseGoal reads ready, deleted, or version=VERSION.
func ParseGoal(text string) (g Goal, err error) {
	kind, value, valued := strings.Cut(text, "=")
	g.kind = kind
	switch {
	case (kind == goalReady || kind == goalDeleted) && !valued:
		return g, nil
	case kind == goalVersion && value != "":
		if g.version, err = version.ParseGeneric(value); err != nil {
			err = fmt.Errorf("%q is not a Kubernetes version. Use for example v1.31.0: %w", value, err)
		}
		return g, err
	}
	return g, fmt.Errorf("must be ready, deleted or version=VERSION, not %q", text)
}

// IsDeletion reports whether a Cluster that does not exist is the goal.
func (g Goal) IsDeletion() bool { return g.kind == goalDeleted }

// IsReached reports whether objects that exist have reached the goal. c is their summary. A status of an older spec does not count.
func (g Goal) IsReached(o *Objects, c *Cluster) bool {
	switch g.kind {
	case goalReady:
		return c.State == infrav1.StateReady && c.Cause == nil && o.isObserved()
	case goalVersion:
		return g.isVersion(c.Version) && o.isObserved() && meta.IsStatusConditionTrue(o.ControlPlane.Status.Conditions, infrav1.ReadyCondition)
	}
	return false
}

// isVersion compares minor versions: EKS has no others.
func (g Goal) isVersion(text string) bool {
	applied, err := version.ParseGeneric(text)
	return err == nil && applied.Major() == g.version.Major() && applied.Minor() == g.version.Minor()
}

// NeedsUser reports whether the Cluster has failed, and does not continue before a user acts.
func (c *Cluster) NeedsUser(o *Objects) bool {
	return c.State == infrav1.StateFailed && c.Cause != nil && c.Cause.Actor == reasons.User && o.isObserved()
}

// isObserved reports whether the status of the CAPTCluster and of the CAPTControlPlane is of their current spec.
func (o *Objects) isObserved() bool {
	return (o.CAPTCluster == nil || o.CAPTCluster.Status.ObservedGeneration == o.CAPTCluster.Generation) &&
		(o.ControlPlane == nil || o.ControlPlane.Status.ObservedGeneration == o.ControlPlane.Generation)
}
