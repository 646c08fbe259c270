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
	// PreviewChanges: Terraform would change something. It is not known what.
	PreviewChanges PreviewResult = "Changes"
	// PreviewFailed: the plan fails.
	PreviewFailed PreviewResult = "Failed"
	// PreviewUnavailable: the revision cannot be previewed.
	PreviewUnavailable PreviewResult = "Unavailable"
)

// RolloutApproval is whether an edit of a template must be approved.
// +kubebuilder:validation:Enum=None;OnChanges;Always
type RolloutApproval string

const (
	// RolloutApprovalNone starts the rollout at once.
	RolloutApprovalNone RolloutApproval = "None"
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

// defaultMaxConcurrent is the default of WorkspaceTemplateRollout.MaxConcurrent.
const defaultMaxConcurrent = 5

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

	// approval is None (the default), OnChanges or Always. Always starts the rollout of a revision when the annotation
	// capt.cluster.x-k8s.io/approve of the template is the hash of the revision. OnChanges requires this only for users for which the plan
	// of Terraform has changes; it requires preview Always.
	// +optional
	Approval RolloutApproval `json:"approval,omitempty"`

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
	return r.Approval == RolloutApprovalAlways || r.Approval == RolloutApprovalOnChanges
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

	// completionTime is when the result was observed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
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
