// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// History is what shows whether a control plane was ever initialized.
type History struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	// Cluster and Apply are nil if they do not exist.
	Cluster *clusterv1.Cluster
	Apply   *infrav1.WorkspaceTemplateApply
	// Origin is engine.Gate.Origin.
	Origin func(*infrav1.WorkspaceTemplateApply) string
	// CAPTCluster is nil if the Cluster has another infrastructure, or its CAPTCluster does not exist.
	CAPTCluster *infrav1.CAPTCluster
	// Workspace is what shows that the Workspace does not fail any more, or is not the recorded one; empty if nothing does.
	Workspace string
	// Secret is the name of a Secret that exists only after Terraform created a cluster: a kubeconfig, or a connection Secret with values;
	// empty if there is none.
	Secret string
}

// RefuseRecreation returns why RecreateWorkspace must not run; empty if it may. It is the only place that decides this. RecreateWorkspace
// destroys the control plane, so it needs confirmation in the spec, and it is impossible for a control plane that was ever initialized.
// Status alone does not count, because it can be lost in a restore or a move: any other evidence refuses, and so does an unknown history.
func RefuseRecreation(action infrav1.RecoveryAction, h *History) string {
	switch {
	case action.Parameters[infrav1.AllowDestroyParameter] != "true":
		return `it would destroy the control plane, and its parameter allowDestroy is not "true"`
	case h == nil || h.ControlPlane == nil || h.Cluster == nil || h.Apply == nil:
		return "the history of the control plane is unknown"
	case h.Apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain:
		return "spec.deletionPolicy of WorkspaceTemplateApply " + h.Apply.Name + " is Retain"
	case h.protected() != "":
		return "spec.deletionProtection of " + h.protected() + " is Enabled. To allow the action, set it to Disabled"
	case h.Secret != "":
		return "the control plane may have been initialized: Secret " + h.Secret + " exists"
	}
	for _, evidence := range []string{controlPlaneEvidence(h.ControlPlane), clusterEvidence(h.Cluster), h.applyEvidence(), h.Workspace} {
		if evidence != "" {
			return "the control plane may have been initialized: " + evidence
		}
	}
	return ""
}

// protected is the object that protects the control plane from deletion; empty if there is none.
func (h *History) protected() string {
	switch {
	case h.ControlPlane.IsDeletionProtected():
		return "CAPTControlPlane " + h.ControlPlane.Name
	case h.CAPTCluster != nil && h.CAPTCluster.IsDeletionProtected():
		return "CAPTCluster " + h.CAPTCluster.Name
	}
	return ""
}

func controlPlaneEvidence(c *controlplanev1.CAPTControlPlane) string {
	s := &c.Status
	switch summary := s.WorkspaceTemplateApply; {
	case c.Spec.ControlPlaneEndpoint != clusterv1.APIEndpoint{}:
		return "spec.controlPlaneEndpoint is set"
	case ptr.Deref(s.Initialization.ControlPlaneInitialized, false):
		return "status.initialization.controlPlaneInitialized is true"
	case s.Version != "", len(s.Versions) > 0, s.Endpoint != "":
		return "status has a version or an endpoint"
	case summary != nil && (summary.LastAppliedRevision != "" || summary.LastAppliedTime != nil || len(summary.Outputs) > 0):
		return "status.workspaceTemplateApply shows that Terraform created it"
	case s.ObservedGeneration == 0:
		return "the CAPTControlPlane has no status, so its history is unknown"
	}
	return ""
}

func clusterEvidence(c *clusterv1.Cluster) string {
	switch {
	case c.Spec.ControlPlaneEndpoint != clusterv1.APIEndpoint{}:
		return "spec.controlPlaneEndpoint of the Cluster is set"
	case ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false):
		return "status.initialization.controlPlaneInitialized of the Cluster is true"
	case c.Status.ControlPlane != nil && len(c.Status.ControlPlane.Versions) > 0:
		return "status.controlPlane of the Cluster has a version"
	}
	return ""
}

// applyEvidence also refuses WorkspaceTemplateApplies that were moved or restored, have another origin, or are older than the control plane: their
// cloud resources may be older than what the objects record.
func (h *History) applyEvidence() string {
	a := h.Apply
	s, name, origin := &a.Status, "WorkspaceTemplateApply "+a.Name, h.Origin(a)
	switch {
	case a.Spec.TerraformState.Name != "":
		return name + " has a Terraform state that existed before it"
	case s.Applied == metav1.ConditionTrue, s.LastAppliedRevision != "", s.LastAppliedTime != nil:
		return name + " was applied"
	case len(s.Outputs) > 0:
		return name + " has outputs"
	case s.WorkspaceRef == nil:
		return name + " has no status, so its history is unknown"
	case a.Annotations[naming.ExternalNameUIDAnnotation] != string(a.UID):
		return name + " was moved, restored or adopted"
	case origin != "":
		return name + " was created by " + origin
	case a.CreationTimestamp.Before(&h.ControlPlane.CreationTimestamp):
		return name + " is older than the control plane"
	}
	return ""
}
