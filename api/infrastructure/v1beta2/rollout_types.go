// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutStrategy is how an edit of a template reaches its users.
// +kubebuilder:validation:Enum=Immediate;Staged
type RolloutStrategy string

const (
	// RolloutImmediate makes all users follow at once, as without spec.rollout.
	RolloutImmediate RolloutStrategy = "Immediate"
	// RolloutStaged makes the users follow in stages.
	RolloutStaged RolloutStrategy = "Staged"
)

// RolloutPreview is whether the plan of Terraform is observed before a user is assigned a revision.
// +kubebuilder:validation:Enum=Never;Always
type RolloutPreview string

const (
	// RolloutPreviewNever runs no plan before the apply.
	RolloutPreviewNever RolloutPreview = "Never"
	// RolloutPreviewAlways runs a plan for each user before it is assigned the revision.
	RolloutPreviewAlways RolloutPreview = "Always"
)

// PreviewResult is what the preview of a revision showed.
// +kubebuilder:validation:Enum=Empty;Changes;Failed;Unavailable
type PreviewResult string

const (
	// PreviewEmpty: Terraform would change nothing.
	PreviewEmpty PreviewResult = "Empty"
	// PreviewChanges: Terraform would change something.
	PreviewChanges PreviewResult = "Changes"
	// PreviewFailed: the plan fails.
	PreviewFailed PreviewResult = "Failed"
	// PreviewUnavailable: the revision cannot be previewed.
	PreviewUnavailable PreviewResult = "Unavailable"
)

// RolloutApproval is whether an edit of a template must be approved.
// +kubebuilder:validation:Enum=None;OnDestroy;OnChanges;Always
type RolloutApproval string

const (
	// RolloutApprovalNone starts the rollout at once.
	RolloutApprovalNone RolloutApproval = "None"
	// RolloutApprovalOnDestroy is as Always, except that users follow without an approval for which Terraform would neither replace nor delete a resource.
	RolloutApprovalOnDestroy RolloutApproval = "OnDestroy"
	// RolloutApprovalOnChanges is as Always, except that users for which the plan of Terraform is empty follow without an approval.
	RolloutApprovalOnChanges RolloutApproval = "OnChanges"
	// RolloutApprovalAlways starts the rollout when a user has approved the revision.
	RolloutApprovalAlways RolloutApproval = "Always"
)

// RolloutFailurePolicy is what a failure does to a rollout.
// +kubebuilder:validation:Enum=Stop;Continue
type RolloutFailurePolicy string

const (
	// RolloutFailureStop stops the rollout while it fails for a user, unless a user resumes it.
	RolloutFailureStop RolloutFailurePolicy = "Stop"
	// RolloutFailureContinue continues, except that each canary must succeed.
	RolloutFailureContinue RolloutFailurePolicy = "Continue"
)

// RolloutState is whether a rollout proceeds.
// +kubebuilder:validation:Enum=Running;Paused
type RolloutState string

const (
	// RolloutRunning is the default.
	RolloutRunning RolloutState = "Running"
	// RolloutPaused starts the update of no further user.
	RolloutPaused RolloutState = "Paused"
)

// RolloutStage is how far a rollout has come.
// +kubebuilder:validation:Enum=Previewing;WaitingForApproval;Canary;Soaking;Remaining;Complete
type RolloutStage string

const (
	// RolloutPreviewing: Terraform plans the revision for each user.
	RolloutPreviewing RolloutStage = "Previewing"
	// RolloutWaitingForApproval: a user must approve the revision.
	RolloutWaitingForApproval RolloutStage = "WaitingForApproval"
	// RolloutCanary: the canaries follow.
	RolloutCanary RolloutStage = "Canary"
	// RolloutSoaking: all canaries have the revision and are Ready, but not for long enough.
	RolloutSoaking RolloutStage = "Soaking"
	// RolloutRemaining: the other users follow.
	RolloutRemaining RolloutStage = "Remaining"
	// RolloutComplete: all users have the revision.
	RolloutComplete RolloutStage = "Complete"
)

// WorkspaceTemplateRollout is how an edit of a template reaches its users.
// +kubebuilder:validation:MinProperties=1
type WorkspaceTemplateRollout struct {
	// strategy is Immediate or Staged. Immediate is the same as no spec.rollout: all users follow at once. With Staged, each user keeps its
	// revision of the template until the rollout reaches it.
	// +required
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// preview is Never (the default) or Always. Always makes Terraform plan a revision for each user before any user with changes follows.
	// Users for which the plan is empty follow at once.
	// +optional
	Preview RolloutPreview `json:"preview,omitempty"`

	// approval is None (the default), OnDestroy, OnChanges or Always. Always starts the rollout of a revision when the annotation
	// capt.cluster.x-k8s.io/approve of the template is the hash of the revision. OnChanges requires this only for users for which the plan
	// of Terraform has changes, and OnDestroy for those for which it would replace or delete a resource, or for which that is not known; both
	// require preview Always. Where an approval is needed and the plan would replace or delete a resource, the annotation
	// capt.cluster.x-k8s.io/approve-destroy must have the hash, too.
	// +optional
	Approval RolloutApproval `json:"approval,omitempty"`

	// neverDestroy are types of resources, for example aws_rds_cluster, that no approval allows to be replaced or deleted: with preview Always, a user
	// for which Terraform would do so keeps its revision. Absent means aws_eks_cluster, aws_vpc, aws_db_instance, aws_s3_bucket,
	// aws_dynamodb_table and aws_efs_file_system. A list replaces these: "None" alone is the empty list.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	NeverDestroy []string `json:"neverDestroy,omitempty"`

	// canary are the users that follow first. Absent means that there are none.
	// +optional
	Canary RolloutCanaries `json:"canary,omitempty,omitzero"`

	// maxConcurrent is how many users are updated at the same time. The default is 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// onFailure is Stop (the default) or Continue. Stop starts the update of no further user while the update of one fails, until the
	// annotation capt.cluster.x-k8s.io/resume of the template is the hash of the revision. With Continue, only a canary that fails stops
	// the rollout.
	// +optional
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`

	// state is Running (the default) or Paused. Paused starts the update of no further user; those that have started continue.
	// +optional
	State RolloutState `json:"state,omitempty"`
}

// RolloutCanaries select the users that follow first: the first count users whose Clusters match the selector.
// +kubebuilder:validation:MinProperties=1
type RolloutCanaries struct {
	// selector selects users by the labels of their Clusters. Absent selects all users.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// count is how many of the selected users are canaries, in the order of namespace and name. Absent means all of them.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Count int32 `json:"count,omitempty"`

	// soakSeconds is for how long all canaries must be Ready with the revision before other users follow. The default is not to wait.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
}

// IsDefined reports whether there are canaries.
func (c RolloutCanaries) IsDefined() bool { return c.Selector != nil || c.Count > 0 }

// IsStaged reports whether users follow in stages.
func (r WorkspaceTemplateRollout) IsStaged() bool { return r.Strategy == RolloutStaged }

// RequiresApproval reports whether a revision needs an approval, if only for users for which the plan of Terraform has changes.
func (r WorkspaceTemplateRollout) RequiresApproval() bool {
	return r.Approval != "" && r.Approval != RolloutApprovalNone
}

// IsPreviewed reports whether Terraform plans a revision before it is assigned.
func (r WorkspaceTemplateRollout) IsPreviewed() bool {
	return r.IsStaged() && r.Preview == RolloutPreviewAlways
}

// HoldsChanges reports whether a change of one user is held until it is previewed, approved, or both.
func (r WorkspaceTemplateRollout) HoldsChanges() bool {
	return r.IsPreviewed() || r.IsStaged() && r.RequiresApproval()
}

// ConcurrencyLimit returns maxConcurrent or its default.
func (r WorkspaceTemplateRollout) ConcurrencyLimit() int {
	const defaultMaxConcurrent = 5 // The default of WorkspaceTemplateRollout.MaxConcurrent.
	return int(cmp.Or(r.MaxConcurrent, defaultMaxConcurrent))
}

// WorkspaceTemplateRolloutStatus is the state of the rollout of a revision. Users that are being created are not counted.
// +kubebuilder:validation:MinProperties=1
type WorkspaceTemplateRolloutStatus struct {
	// revision is the hash of the revision that users should get.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Revision string `json:"revision,omitempty"`

	// number of the revision: 1 for the first one. A rollback gives the restored revision a new number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number,omitempty"`

	// stage is Previewing, WaitingForApproval, Canary, Soaking, Remaining or Complete. Condition RollingOut shows why a rollout does not proceed.
	// +optional
	Stage RolloutStage `json:"stage,omitempty"`

	// approvedBy is the user whose request approved the revision.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ApprovedBy string `json:"approvedBy,omitempty"`

	// current is for how many users Terraform has applied the revision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Current *int32 `json:"current,omitempty"`

	// updating is how many users have been assigned the revision, and Terraform has not applied it yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Updating *int32 `json:"updating,omitempty"`

	// waiting is how many users have another revision and have not been assigned this one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Waiting *int32 `json:"waiting,omitempty"`

	// failed is for how many users the revision fails.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed *int32 `json:"failed,omitempty"`

	// stalled is how many users have been assigned the revision, and did not finish the update in time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Stalled *int32 `json:"stalled,omitempty"`

	// leftBehind is for how many users the rollout does not wait any more: they are paused or have a change of their own for a long time, or the
	// rollout was resumed although they cannot be previewed or did not finish the update.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LeftBehind *int32 `json:"leftBehind,omitempty"`

	// previewedEmpty is for how many users the plan of the revision was empty.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PreviewedEmpty *int32 `json:"previewedEmpty,omitempty"`

	// previewedChanges is for how many users the plan of the revision had changes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PreviewedChanges *int32 `json:"previewedChanges,omitempty"`

	// previewedDestroy is for how many users the plan of the revision would replace or delete a resource, or may do so because that is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PreviewedDestroy *int32 `json:"previewedDestroy,omitempty"`

	// previewFailed is for how many users the plan of the revision failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PreviewFailed *int32 `json:"previewFailed,omitempty"`

	// defaultPolicy is the policy of the manager (--default-rollout), which applies because spec.rollout is absent; absent otherwise.
	// +optional
	DefaultPolicy WorkspaceTemplateRollout `json:"defaultPolicy,omitempty,omitzero"`

	// startTime is when the template was first observed with the revision.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// soakUntil is until when the canaries must stay Ready; absent outside stage Soaking.
	// +optional
	SoakUntil *metav1.Time `json:"soakUntil,omitempty"`
}

// RevisionPreview is the result of the preview of a revision of a template.
type RevisionPreview struct {
	// templateRevision is the revision of the WorkspaceTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	TemplateRevision string `json:"templateRevision,omitempty"`

	// renderedRevision is the hash of the rendered Workspace that was planned.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	RenderedRevision string `json:"renderedRevision,omitempty"`

	// proof is the value of the annotation capt.cluster.x-k8s.io/prove-adoption that requested the preview; absent for a staged rollout.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Proof string `json:"proof,omitempty"`

	// result is Empty, Changes, Failed or Unavailable.
	// +required
	Result PreviewResult `json:"result,omitempty"`

	// message is why the preview failed or is unavailable, or why the plan is not known to be empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// changes are what Terraform would change, if result is Changes; absent before they were read.
	// +optional
	Changes *PlannedChanges `json:"changes,omitempty"`

	// completionTime is when the result was observed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// PlanAction is what Terraform would do with a resource.
// +kubebuilder:validation:Enum=Replace;Delete;Forget;Update;Create;Import;Move
type PlanAction string

const (
	// PlanReplace: Terraform destroys the resource and creates another one, in any order.
	PlanReplace PlanAction = "Replace"
	// PlanDelete: Terraform destroys the resource.
	PlanDelete PlanAction = "Delete"
	// PlanForget: Terraform no longer manages the resource, and does not destroy it.
	PlanForget PlanAction = "Forget"
	// PlanUpdate: Terraform changes the resource in place.
	PlanUpdate PlanAction = "Update"
	// PlanCreate: Terraform creates the resource.
	PlanCreate PlanAction = "Create"
	// PlanImport: Terraform takes over a resource that exists.
	PlanImport PlanAction = "Import"
	// PlanMove: the resource gets another address in the state.
	PlanMove PlanAction = "Move"
)

// PlannedChanges are what Terraform would change. They have no values of attributes, variables or outputs.
// +kubebuilder:validation:MinProperties=1
type PlannedChanges struct {
	// unknown is why the changes are not known; the other fields are then absent. Changes that are not known count as destructive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Unknown string `json:"unknown,omitempty"`

	// counts are the numbers of resources by action; actions without resources are absent. A resource that is imported and updated counts as both.
	// +optional
	// +listType=map
	// +listMapKey=action
	// +kubebuilder:validation:MaxItems=7
	Counts []PlannedCount `json:"counts,omitempty"`

	// destroys are the types of the resources that would be replaced or deleted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Destroys []string `json:"destroys,omitempty"`

	// resources are the first 50 resources that would change: those that would be replaced or deleted first, then by address.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Resources []PlannedResource `json:"resources,omitempty"`

	// drifted is the number of resources that were changed outside of Terraform.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Drifted int32 `json:"drifted,omitempty"`

	// outputs is the number of outputs that would change.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Outputs int32 `json:"outputs,omitempty"`
}

// PlannedCount is how many resources have an action.
type PlannedCount struct {
	// action of Terraform.
	// +required
	Action PlanAction `json:"action,omitempty"`

	// count of the resources.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
}

// PlannedResource is a resource that would change.
type PlannedResource struct {
	// address of the resource in the module; a longer one is cut.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Address string `json:"address,omitempty"`

	// type of the resource, for example aws_eks_cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Type string `json:"type,omitempty"`

	// action of Terraform.
	// +required
	Action PlanAction `json:"action,omitempty"`

	// reason that Terraform gives, for example cannot_update; absent for most changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// Count returns the number of resources with an action.
func (c *PlannedChanges) Count(action PlanAction) int32 {
	for i := range c.Counts {
		if c.Counts[i].Action == action {
			return c.Counts[i].Count
		}
	}
	return 0
}

// IsDestructive reports whether Terraform would replace or delete a resource, or may do so because its changes are not known.
func (p *RevisionPreview) IsDestructive() bool {
	switch {
	case p.Result != PreviewChanges:
		return false
	case p.Changes == nil, p.Changes.Unknown != "":
		return true
	}
	return p.Changes.Count(PlanReplace)+p.Changes.Count(PlanDelete) > 0
}

// Outcome is the result of a preview with what it would do: Empty, Changes, Destroys, Unknown, Failed or Unavailable; empty without a result.
func (p *RevisionPreview) Outcome() string {
	switch {
	case !p.IsDestructive():
		return string(p.Result)
	case p.Changes == nil, p.Changes.Unknown != "":
		return "Unknown"
	}
	return "Destroys"
}

// RevisionAssignment is since when a WorkspaceTemplateApply has the revision that a staged rollout assigned to it.
// +kubebuilder:validation:MinProperties=1
type RevisionAssignment struct {
	// templateRevision is the revision of the WorkspaceTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	TemplateRevision string `json:"templateRevision,omitempty"`

	// time is when the manager first observed it.
	// +required
	Time *metav1.Time `json:"time,omitempty"`
}

// HeldChange is a change of a WorkspaceTemplateApply that its template holds until it is previewed, approved, or both.
// +kubebuilder:validation:MinProperties=1
type HeldChange struct {
	// revision is the hash of the rendered Workspace. The annotation capt.cluster.x-k8s.io/approve with this value approves the change.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Revision string `json:"revision,omitempty"`

	// preview is the plan of Terraform for the change; absent before there is a result.
	// +optional
	Preview RevisionPreview `json:"preview,omitempty,omitzero"`
}
