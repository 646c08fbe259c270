// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
)

func (s state) status(name string, apply *infrav1.WorkspaceTemplateApply) controlplanev1.FargateProfileStatus {
	status := controlplanev1.FargateProfileStatus{Name: name, State: s.stage, Ready: infrav1.ConditionStatus(s.stage == ready)}
	if apply != nil {
		status.WorkspaceTemplateApplyName = apply.Name
	}
	switch s.stage {
	case failed:
		status.FailureReason, status.FailureMessage = controlplanev1.FargateProfileFailedReason, s.message
	case dependencyMissing:
		status.FailureReason, status.FailureMessage = controlplanev1.FargateProfileDependencyReason, s.message
	case waiting, creating, ready, deleting:
	}
	return status
}

// Report is the part of a control plane's status that is about its profiles.
type Report struct {
	// Statuses are those of the profiles of spec, in its order, then of obsolete ones. A profile that was not started is left out.
	Statuses []controlplanev1.FargateProfileStatus
	// Conditions are FargateProfileReady, FargateProfileCreating and FargateProfileFailed, in this order; none without profiles.
	Conditions []engine.Condition
	// Working is true while Terraform runs for a profile, or is about to, and nothing is wrong with any.
	Working bool
	// Now is the time of the report.
	Now metav1.Time
}

// maxStatuses is the limit of the API, which is higher than that of profiles in spec.
const maxStatuses = 64

// ConditionTypes returns the types of the conditions of a Report.
func ConditionTypes() []string {
	return []string{controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileFailedCondition}
}

func (p *Plan) forEach(visit func(name string, apply *infrav1.WorkspaceTemplateApply, s state)) {
	for i := range p.Profiles {
		visit(p.Profiles[i].Name, p.Profiles[i].Apply.Live, p.stateOf(&p.Profiles[i]))
	}
	for i := range p.Obsolete {
		visit(p.Obsolete[i].Name, p.Obsolete[i].Apply.Live, p.deletionState(&p.Obsolete[i].Apply))
	}
}

// Report is a pure function of the plan and the results of its writes.
func (p *Plan) Report(now time.Time) (r Report) {
	r.Now = metav1.NewTime(now).Rfc3339Copy()
	byStage := map[stage][]string{}
	p.forEach(func(name string, apply *infrav1.WorkspaceTemplateApply, s state) {
		byStage[s.stage] = append(byStage[s.stage], s.describe(name))
		if begun := s.stage != waiting || apply != nil; begun && len(r.Statuses) < maxStatuses && statusOf(r.Statuses, name).Name == "" {
			r.Statuses = append(r.Statuses, s.status(name, apply))
		}
	})
	if len(byStage) == 0 {
		return r
	}
	created, broken := byStage[creating], byStage[failed]
	r.Conditions = []engine.Condition{
		p.readyCondition(byStage),
		engine.True(controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileCreatingReason, listProfiles("creating or updating Fargate profile", created)).If(len(created) > 0, controlplanev1.FargateProfileNotCreatingReason),
		engine.True(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileFailedReason, listProfiles("failed Fargate profile", broken)).If(len(broken) > 0, controlplanev1.FargateProfileNotFailedReason),
	}
	r.Working = len(byStage[failed]) == 0 && len(byStage[dependencyMissing]) == 0 && len(byStage[creating])+len(byStage[deleting])+len(byStage[waiting]) > 0
	return r
}

// describe names a profile, with the message of its state.
func (s state) describe(name string) string {
	if s.message == "" {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, s.message)
}

// listProfiles returns a text that ends with "profile", in singular or plural, followed by the names of profiles.
func listProfiles(text string, profiles []string) string {
	if len(profiles) > 1 {
		text += "s"
	}
	return text + " " + strings.Join(profiles, "; ")
}

// readyCondition has the reason that the user must look at first.
func (p *Plan) readyCondition(byStage map[stage][]string) engine.Condition {
	no := func(reason, text string, profiles []string) engine.Condition {
		return engine.False(controlplanev1.FargateProfileReadyCondition, reason, listProfiles(text, profiles))
	}
	switch {
	case len(byStage[failed]) > 0:
		return no(controlplanev1.FargateProfileFailedReason, "failed Fargate profile", byStage[failed])
	case len(byStage[dependencyMissing]) > 0:
		return no(controlplanev1.FargateProfileDependencyReason, "missing dependency of Fargate profile", byStage[dependencyMissing])
	case len(byStage[creating]) > 0:
		return no(controlplanev1.FargateProfileCreatingReason, "creating or updating Fargate profile", byStage[creating])
	case len(byStage[deleting]) > 0:
		return no(controlplanev1.FargateProfileDeletingReason, "deleting Fargate profile", byStage[deleting])
	case len(byStage[waiting]) > 0 && p.Paused != "":
		return no(clusterv1.PausedReason, "pending Fargate profile", byStage[waiting])
	case len(byStage[waiting]) > 0:
		return no(controlplanev1.WaitingForWorkspaceReason, "pending Fargate profile", byStage[waiting])
	}
	return engine.True(controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileReadyReason, "")
}

// Set writes a report into the status of a control plane.
func (r Report) Set(controlPlane *controlplanev1.CAPTControlPlane) {
	r.SetStatuses(controlPlane)
	for i, condition := range r.Conditions {
		if i == 0 {
			engine.Set(controlPlane, condition)
			continue
		}
		engine.SetNegativePolarity(controlPlane, condition)
	}
	if len(r.Conditions) == 0 {
		for _, conditionType := range ConditionTypes() {
			meta.RemoveStatusCondition(&controlPlane.Status.Conditions, conditionType)
		}
	}
}

// SetStatuses writes the statuses of profiles into the status of a control plane. One whose state has not changed keeps its transition time.
func (r Report) SetStatuses(controlPlane *controlplanev1.CAPTControlPlane) {
	for i := range r.Statuses {
		status := &r.Statuses[i]
		before := statusOf(controlPlane.Status.FargateProfiles, status.Name)
		if status.LastTransitionTime = before.LastTransitionTime; before.State != status.State || before.LastTransitionTime == nil {
			status.LastTransitionTime = ptr.To(r.Now)
		}
	}
	controlPlane.Status.FargateProfiles = r.Statuses
}

// Deleting is the condition of a control plane whose deletion waits for profiles; nil when it does not.
func (p *Plan) Deleting() *engine.Condition {
	if len(p.Obsolete) == 0 {
		return nil
	}
	if p.Paused != "" {
		condition := engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, engine.PausedMessage("deleted", p.Paused))
		return &condition
	}
	reason, profiles := controlplanev1.FargateProfileDeletingReason, make([]string, len(p.Obsolete))
	for i := range p.Obsolete {
		s := p.deletionState(&p.Obsolete[i].Apply)
		if profiles[i] = s.describe(p.Obsolete[i].Name); s.stage == failed {
			reason = controlplanev1.FargateProfileFailedReason
		}
	}
	condition := engine.True(infrav1.DeletingCondition, reason, listProfiles("the control plane is deleted after its Fargate profiles; deleting Fargate profile", profiles))
	return &condition
}

// MetricProfiles returns the profiles as the metrics count them.
func (p *Plan) MetricProfiles() (profiles []metrics.Profile) {
	p.forEach(func(_ string, apply *infrav1.WorkspaceTemplateApply, s state) {
		profile := metrics.Profile{Ready: s.stage == ready, Failed: s.stage == failed, DependencyMissing: s.stage == dependencyMissing}
		if apply != nil {
			profile.UID, profile.FirstTime = apply.UID, apply.Status.LastAppliedTime == nil
			if apply.Status.StartedTime != nil {
				profile.StartedAt = apply.Status.StartedTime.Time
			}
			if apply.DeletionTimestamp != nil {
				profile.DeletedAt = apply.DeletionTimestamp.Time
			}
		}
		profiles = append(profiles, profile)
	})
	return profiles
}

// stage is the stage of a profile's life cycle.
type stage = controlplanev1.FargateProfileState

const (
	waiting           = controlplanev1.FargateProfileStateWaiting
	creating          = controlplanev1.FargateProfileStateCreating
	ready             = controlplanev1.FargateProfileStateReady
	dependencyMissing = controlplanev1.FargateProfileStateDependencyMissing
	failed            = controlplanev1.FargateProfileStateFailed
	deleting          = controlplanev1.FargateProfileStateDeleting
)

type state struct {
	stage
	// message is why it is not ready.
	message string
}

func (p *Plan) stateOf(profile *PlannedProfile) state {
	apply := &profile.Apply
	switch {
	case apply.Ready():
		return state{stage: ready}
	case apply.Block != nil:
		return state{failed, apply.Block.Message}
	case apply.Conflict != "", apply.Refused != nil:
		return state{failed, apply.Condition("", "").Message}
	case apply.Live != nil && !apply.Live.DeletionTimestamp.IsZero():
		return p.deletionState(apply.Facts)
	case (apply.Live == nil || apply.Differs) && p.blocked() != nil:
		return *p.blocked()
	case apply.Working() && !profile.Timeout.Passed():
		return state{stage: creating}
	case apply.Working():
		return state{failed, profile.Timeout.Condition(apply.Condition("", "")).Message}
	}
	return failureState(apply)
}

// blocked is the state of profiles that cannot be created or changed now; nil when they can.
func (p *Plan) blocked() *state {
	switch {
	case p.Missing != "":
		return &state{dependencyMissing, p.Missing}
	case p.Paused != "":
		return &state{waiting, engine.PausedMessage("created or updated", p.Paused)}
	case !p.Ready:
		return &state{waiting, desired.WaitingForControlPlane}
	}
	return nil
}

func failureState(apply *owner.Plan) state {
	condition := apply.Condition("", "")
	switch condition.Reason {
	case infrav1.WaitingForDependenciesReason, infrav1.TemplateNotFoundReason, infrav1.WorkspaceKindMissingReason,
		infrav1.ProviderConfigFailedReason, infrav1.WorkspaceNotReconciledReason, infrav1.WorkspacePausedReason, infrav1.StateNotSavedReason, infrav1.LookupFailedReason:
		return state{dependencyMissing, condition.Message}
	}
	if dependency, ok := failedDependency(condition.Message); ok {
		return state{dependencyMissing, dependency + " cannot be used: " + condition.Message}
	}
	return state{failed, condition.Message}
}

// deletionState is the state of a profile that is being deleted, or is about to be.
func (p *Plan) deletionState(facts *owner.Facts) state {
	apply := facts.Live
	if p.Paused != "" && apply.DeletionTimestamp.IsZero() {
		return state{waiting, engine.PausedMessage("deleted", p.Paused)}
	}
	cause := conditions.Get(apply, infrav1.DeletingCondition)
	if cause == nil || apply.DeletionTimestamp.IsZero() || cause.Reason == infrav1.NotDeletingReason {
		return state{stage: deleting}
	}
	message := fmt.Sprintf("WorkspaceTemplateApply %s: %s", apply.Name, cause.Message)
	if reasons.IsProblem(cause.Reason) {
		return state{failed, message}
	}
	return state{deleting, message}
}

const (
	// deletedReason is the reason of an event for which there is no condition.
	deletedReason = "FargateProfileDeleted"
	action        = "FargateProfile"
)

// Events returns an event for each profile whose status changed.
func Events(before, after *controlplanev1.CAPTControlPlane) (events []engine.Event) {
	for i := range after.Status.FargateProfiles {
		is := after.Status.FargateProfiles[i]
		if event := profileEvent(after, statusOf(before.Status.FargateProfiles, is.Name), is); event.Reason != "" {
			event.Related = fieldOf(after, is.Name)
			events = append(events, event)
		}
	}
	for _, was := range before.Status.FargateProfiles {
		if deleted := statusOf(after.Status.FargateProfiles, was.Name).Name == ""; deleted && was.WorkspaceTemplateApplyName != "" {
			event := newEvent(corev1.EventTypeNormal, deletedReason, "Fargate profile %s was deleted", was.Name)
			event.Related = fieldOf(after, was.Name)
			events = append(events, event)
		}
	}
	return events
}

// fieldOf returns a reference to the field of a profile, in the way in which events of a Pod refer to a container.
func fieldOf(controlPlane *controlplanev1.CAPTControlPlane, profile string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "CAPTControlPlane", UID: controlPlane.UID,
		Namespace: controlPlane.Namespace, Name: controlPlane.Name, FieldPath: fmt.Sprintf("spec.fargateProfiles{%s}", profile),
	}
}

func newEvent(eventType, reason, format string, args ...any) engine.Event {
	return engine.Event{Type: eventType, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

// profileEvent is the event for the change of a profile's status; empty when there is none.
func profileEvent(controlPlane *controlplanev1.CAPTControlPlane, was, is controlplanev1.FargateProfileStatus) engine.Event {
	wasReady, isReady := was.Ready == metav1.ConditionTrue, is.Ready == metav1.ConditionTrue
	started := was.WorkspaceTemplateApplyName == "" && is.WorkspaceTemplateApplyName != ""
	obsolete := !controlPlane.DeletionTimestamp.IsZero() || !slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool { return p.Name == is.Name })
	switch {
	case is.FailureReason != "" && is.FailureReason != was.FailureReason:
		return newEvent(corev1.EventTypeWarning, is.FailureReason, "Fargate profile %s: %s", is.Name, is.FailureMessage)
	case isReady && !wasReady:
		return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileReadyReason, "Fargate profile %s is ready", is.Name)
	case isReady == wasReady && !started && (!obsolete || is.FailureReason == was.FailureReason):
		return engine.Event{}
	case obsolete:
		return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileDeletingReason, "deleting Fargate profile %s", is.Name)
	}
	return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileCreatingReason, startedText(wasReady)+" Fargate profile %s; see WorkspaceTemplateApply %s", is.Name, is.WorkspaceTemplateApplyName)
}

func startedText(wasReady bool) string {
	if wasReady {
		return "updating"
	}
	return "creating"
}

func statusOf(statuses []controlplanev1.FargateProfileStatus, name string) controlplanev1.FargateProfileStatus {
	i := slices.IndexFunc(statuses, func(s controlplanev1.FargateProfileStatus) bool { return s.Name == name })
	if i < 0 {
		return controlplanev1.FargateProfileStatus{}
	}
	return statuses[i]
}

// Dependencies of Fargate profiles, as messages name them.
const (
	podRole        = "its pod execution role"
	vpcOrSubnets   = "the VPC or its subnets"
	eksCluster     = "the EKS cluster"
	templateSecret = "a Secret that its template reads"
)

type symptom struct {
	dependency string
	// codes and phrases are those of failure.Matches.
	codes, phrases []string
	// alsoContains is a phrase that must occur, too.
	alsoContains string
}

// symptoms returns the errors of AWS, its Terraform provider and provider-terraform that are caused by a dependency, with their sources. Any
// other error counts as a failure of the profile itself. Ambiguous errors are left out, because the profile would wait for a dependency that
// may be correct.
func symptoms() []symptom {
	return []symptom{
		{dependency: podRole,
			codes: []string{
				"AWSServiceRoleForAmazonEKSForFargate", // A service-linked role that EKS creates, and needs in addition to the pod execution role (aws-controllers-k8s/community issue 1821).
			},
			phrases: []string{
				"misconfigured podexecutionrole trust policy", // EKS (terraform-provider-aws, internal/service/eks/fargate_profile.go).
				"iam:passrole",                      // IAM: the identity that creates the profile may not pass the role (EKS user guide, "Troubleshooting IAM"; aws-cdk issue 8546).
				"cross-account pass role",           // IAM (from moto, a mock of AWS).
				"could not be assumed because",      // EKS: the role does not exist, or trusts another principal (terraform-provider-aws, internal/service/eks/cluster.go).
				"error in role params", "rolearn, ", // EKS: the role does not exist, or the ARN is not that of a role (same file).
				"the role with name ", // IAM: "… cannot be found" (terraform-provider-aws, data source aws_iam_role).
			}},
		{dependency: podRole, phrases: []string{"reading iam role ("}, alsoContains: "couldn't find resource"}, // terraform-provider-aws, data source aws_iam_role.
		{dependency: vpcOrSubnets,
			codes: []string{ // EC2 (API reference, "Error codes"); EKS quotes them, too. Suffixes like .NotFound follow.
				"InvalidSubnetID", "InvalidVpcID",
				"InsufficientFreeAddressesInSubnet",
			},
			phrases: []string{
				"provided in fargate profile is not a private subnet", // EKS (awslabs/eks-perf-tests issue 195).
				"invalidsubnet: ",                                           // EC2: the subnet was not found (terraform-provider-aws issue 2443).
				"no matching ec2 subnet found", "no matching ec2 vpc found", // terraform-provider-aws, data sources (aws-samples/eks-workshop-v2 issue 1543).
			}},
		{dependency: eksCluster,
			phrases: []string{
				"no cluster found for name:",          // EKS (terraform-provider-aws, internal/service/eks/cluster.go).
				"' is not in active status",           // EKS (from moto, a mock of AWS).
				"currently has an update in progress", // EKS: another update of the cluster (terraform-aws-eks issue 2194).
			}},
		{dependency: eksCluster, phrases: []string{"reading eks cluster ("}, alsoContains: "couldn't find resource"}, // terraform-provider-aws, data source aws_eks_cluster (terraform-aws-eks issue 2045).
		{dependency: templateSecret, phrases: []string{"cannot get tfvars"}},                                         // provider-terraform: a Secret in varFiles.
	}
}

// failedDependency returns the dependency that is wrong according to an error of Terraform; false when the error has another cause. Once the
// dependency is repaired, the profile can be created unchanged. Other errors require a change of the profile, the template or a quota, or a
// retry.
func failedDependency(message string) (what string, ok bool) {
	for _, c := range symptoms() {
		if failure.Matches(message, c.codes, c.phrases) && (c.alsoContains == "" || failure.Matches(message, nil, []string{c.alsoContains})) {
			return c.dependency, true
		}
	}
	return "", false
}
