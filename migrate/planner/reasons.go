// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/capt-provider/capt/migrate"

// Reasons of findings. Reasons describes each of them.
const (
	ReasonSkipped                        = "Skipped"
	ReasonBeingDeleted                   = "BeingDeleted"
	ReasonMultipleCandidates             = "MultipleCandidates"
	ReasonReferenceDiffers               = "ReferenceDiffers"
	ReasonWorkspaceTemplateApplyNotFound = "WorkspaceTemplateApplyNotFound"
	ReasonNeverBuilt                     = "NeverBuilt"
	ReasonWorkspaceShared                = "WorkspaceShared"
	ReasonWorkspaceNotFound              = "WorkspaceNotFound"
	ReasonWorkspaceClaimed               = "WorkspaceClaimed"
	ReasonWorkspaceTemplateNotFound      = "WorkspaceTemplateNotFound"
	ReasonTooManyNamespaces              = "TooManyNamespaces"
	ReasonRenderFailed                   = "RenderFailed"
	ReasonWorkspaceDiffers               = "WorkspaceDiffers"
	ReasonPinFailed                      = "PinFailed"
	ReasonFargateProfileConflict         = "FargateProfileConflict"
	ReasonDeletionPolicyDiffers          = "DeletionPolicyDiffers"
	ReasonMachineNotAdopted              = "MachineNotAdopted"
	ReasonPendingChange                  = "PendingChange"
	ReasonPaused                         = "Paused"
	ReasonPermissionGranted              = "PermissionGranted"
	ReasonInvalidClusterEndpoint         = "InvalidClusterEndpoint"
	ReasonTemplateKindRenamed            = "TemplateKindRenamed"
)

// Reason describes why there is a finding. The list is stable: programs may rely on it.
type Reason struct {
	Name string
	// Severities that findings of this reason have.
	Severities []migrate.Severity
	Meaning    string
	// WayOut is what to do until the finding is gone.
	WayOut string
}

// Reasons lists every reason, in the order of the documentation (docs/migration.md).
func Reasons() []Reason {
	var (
		ambiguous, blocked, warning = migrate.Ambiguous, migrate.Blocked, migrate.Warning
		of                          = func(severities ...migrate.Severity) []migrate.Severity { return severities }
	)
	return []Reason{
		{ReasonMultipleCandidates, of(ambiguous), "The evidence does not decide which WorkspaceTemplateApply belongs to which owner.",
			"Decide `take: UID` for the owner whose Workspace it is. If an owner without a reference was never built, set `spec.workspaceTemplateApplyRef` to a new name once this version is installed."},
		{ReasonWorkspaceShared, of(ambiguous, warning), "Several WorkspaceTemplateApplies refer to one cluster-wide Workspace: equal names in two namespaces, or `x` and `x-apply`; or the decision about it is wrong.",
			"Decide `belongsTo: UID` for the Workspace, once. The other owners need no decision. If `belongsTo` is wrong, the message says what to write instead."},
		{ReasonBeingDeleted, of(ambiguous, warning), "The owner, its WorkspaceTemplateApply or its Workspace is being deleted.",
			"Let CAPT v0.3 finish the deletion. If this version is installed, set what the condition `AdoptionRequired` of the object names, so that the manager finishes the deletion. Plan again."},
		{ReasonReferenceDiffers, of(blocked), "`spec` of the owner refers to another WorkspaceTemplateApply than the one that belongs to it. The manager would use or create that one, and the reference cannot be changed in v1beta2.",
			"Set `spec.workspaceTemplateApplyName` to the match, while the definitions of CAPT v0.3 are installed and its manager is stopped, and plan again."},
		{ReasonWorkspaceTemplateApplyNotFound, of(blocked), "The owner was built, and no WorkspaceTemplateApply of its namespace belongs to it. The manager would build it a second time.",
			"Restore the WorkspaceTemplateApply from a backup or from Git, and plan again."},
		{ReasonWorkspaceNotFound, of(blocked, warning), "The Workspace of the WorkspaceTemplateApply does not exist. The manager would create what it describes a second time.",
			"Restore the Workspace from a backup, and plan again. A Warning needs no action: nothing is adopted."},
		{ReasonWorkspaceClaimed, of(blocked, warning), "This version of CAPT created the Workspace for another WorkspaceTemplateApply, which the annotation `capt.cluster.x-k8s.io/workspace-template-apply` names.",
			"Correct `status.workspaceName` of the WorkspaceTemplateApply or, if it is wrong, the annotation of the Workspace, and plan again."},
		{ReasonWorkspaceTemplateNotFound, of(blocked, warning), "The WorkspaceTemplate does not exist, so that what the manager would write is not known.",
			"Restore the WorkspaceTemplate, or decide `pin: true`."},
		{ReasonWorkspaceDiffers, of(blocked, warning), "The live Workspace differs from what template and spec render today. CAPT v0.3 never re-applied templates and versions.",
			"Revert the edit that the differences show, or decide `pin: true`."},
		{ReasonRenderFailed, of(blocked, warning), "The Workspace cannot be rendered, for the reason in the message.",
			"Correct the field that the message names. If it is in the template, `pin: true` is a way out as well."},
		{ReasonPinFailed, of(blocked), "The decision is `pin: true`, and a WorkspaceTemplate cannot say what the message names.",
			"Change the field that the message names, or delete or rename the WorkspaceTemplate of an earlier plan that it names, and plan again."},
		{ReasonDeletionPolicyDiffers, of(blocked), "The WorkspaceTemplateApply retains the VPC, and the CAPTCluster does not: the manager writes what the CAPTCluster says.",
			"Set `spec.vpc.template.deletionPolicy: Retain` on the CAPTCluster, or `Delete` on the WorkspaceTemplateApply."},
		{ReasonFargateProfileConflict, of(blocked), "The WorkspaceTemplateApply was created by hand for a Fargate profile that a CAPTControlPlane lists by now.",
			"Remove the profile from the spec of the CAPTControlPlane, migrate, and add it again."},
		{ReasonTooManyNamespaces, of(blocked), "More namespaces use a WorkspaceTemplate than `spec.allowedNamespaces.names` can hold.",
			"Allow them with `spec.allowedNamespaces.selector`, or `\"*\"`, and plan again."},
		{ReasonSkipped, of(migrate.Skipped), "A decision leaves the object as it is. The manager reports `AdoptionRequired`, and writes nothing.",
			"Remove the decision, and plan again."},
		{ReasonNeverBuilt, of(warning), "Nothing was ever built: the owner has no WorkspaceTemplateApply, CAPT v0.3 never created the Workspace of its WorkspaceTemplateApply, or that only has the name of a Workspace that belongs to another one. The rest of the unit is adopted.",
			"None is needed for an owner without a WorkspaceTemplateApply: the manager creates it. The manager neither builds nor deletes a WorkspaceTemplateApply of CAPT v0.3: stop CAPT v0.3, install this version, check that nothing of it exists in AWS, set its `spec.deletionPolicy: Retain`, and delete it."},
		{ReasonMachineNotAdopted, of(warning), "CAPT v0.3 created the WorkspaceTemplateApply for a CaptMachine. This version does not have that kind.",
			"None is needed: it stays as it is. To adopt it, decide `take` with its own UID: it is retained when the CaptMachine is removed."},
		{ReasonPendingChange, of(warning), "The object is adopted, and spec or template were edited since, while the manager was stopped: it would have Terraform apply the edit.",
			"Revert the edit. If it is intended, start the manager."},
		{ReasonPaused, of(warning), "The owner or its Cluster is paused. It is adopted, and the manager does not reconcile it until it is resumed.",
			"Resume it when it suits you."},
		{ReasonPermissionGranted, of(warning), "Other namespaces use the WorkspaceTemplate. The plan permits them in `spec.allowedNamespaces`.",
			"None is needed: the plan grants it."},
		{ReasonInvalidClusterEndpoint, of(warning), "`spec.controlPlaneEndpoint.host` of the Cluster is a URL, as CAPT v0.3 wrote it, so that clients cannot connect.",
			"Apply the plan with `--fix-cluster-endpoints`, or remove the scheme with the command in the message."},
		{ReasonTemplateKindRenamed, of(warning), "Objects of the kind `CaptControlPlaneTemplate` exist. Cluster API could never use them, and the spelling of a kind cannot be changed in place.",
			"Stop CAPT v0.3, then export the objects and delete the definition with the two commands in the message."},
	}
}
