// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// Reasons of findings. docs/migration.md describes each of them. The list is stable: programs may rely on it.
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
