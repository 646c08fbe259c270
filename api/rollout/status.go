// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
)

// Template is a WorkspaceTemplate, and what its rollout depends on.
type Template struct {
	*infrav1.WorkspaceTemplate
	Policy infrav1.WorkspaceTemplateRollout
	// History has the stored revisions, and first the current one, which may not be stored yet.
	History History
	// Unreadable is why the revisions cannot be read; nil if they were.
	Unreadable error
	Users      []User
	// Deleting are the users that are being deleted. They do not take part in the rollout.
	Deleting []string
	Applies  map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
}

// String is how texts name the template.
func (t *Template) String() string { return "WorkspaceTemplate " + t.Argument() }

// Argument is how commands name the template.
func (t *Template) Argument() string { return t.Namespace + "/" + t.Name }

// Target is the current revision.
func (t *Template) Target() *Revision { return &t.History[0] }

// Reported is the rollout status that the manager wrote for the current revision; zero if it has not observed that yet. The manager sees all users, and
// the user of the command may not.
func (t *Template) Reported() infrav1.WorkspaceTemplateRolloutStatus {
	if t.Status.Rollout.Revision != t.Target().Hash {
		return infrav1.WorkspaceTemplateRolloutStatus{}
	}
	return t.Status.Rollout
}

// Next decides how the rollout continues.
func (t *Template) Next(now time.Time) Decision {
	return Next(FactsOf(t.WorkspaceTemplate, t.Policy, t.History, t.Users, now))
}

// IsStopped reports whether a failure stops the rollout, or it waits for users, so that a resume continues it.
func (t *Template) IsStopped(decision Decision) bool {
	condition := meta.FindStatusCondition(t.Status.Conditions, infrav1.RollingOutCondition)
	if t.Reported().Revision == "" || condition == nil || t.Annotations[naming.ResumeAnnotation] == t.Target().Hash {
		return decision.Resumable
	}
	waits := &Status{Reason: condition.Reason, State: t.Policy.State, Stage: t.Reported().Stage}
	return decision.Resumable || condition.Reason == infrav1.RolloutStoppedReason || waits.waitsForResume()
}

// Status is how far the rollout of a WorkspaceTemplate has come.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	// DeletionTime is when the deletion of the template was requested; absent if it was not. It ends when the last user is deleted.
	DeletionTime *metav1.Time `json:"deletionTime,omitempty"`
	// Strategy, RequiredApproval and State are those of the policy, or their defaults.
	Strategy         infrav1.RolloutStrategy `json:"strategy"`
	RequiredApproval infrav1.RolloutApproval `json:"requiredApproval,omitempty"`
	State            infrav1.RolloutState    `json:"state,omitempty"`
	// Revision is the hash of the current content, and Number its number; absent without a staged rollout.
	Revision string `json:"revision"`
	Number   int64  `json:"number,omitempty"`
	// Stage, StartTime and SoakUntil are what the manager reported; absent without a staged rollout, and until it has observed the revision.
	Stage     infrav1.RolloutStage `json:"stage,omitempty"`
	StartTime *metav1.Time         `json:"startTime,omitempty"`
	SoakUntil *metav1.Time         `json:"soakUntil,omitempty"`
	// Approval is who approved the revision; absent if it is not approved.
	Approval *Approval `json:"approval,omitempty"`
	// Reason and Message are those of condition RollingOut, or of Valid if a write was rejected.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// NextStep is what to do if the rollout does not proceed.
	NextStep *overview.Next    `json:"nextStep,omitempty"`
	Counts   map[UserState]int `json:"counts"` // Counts has the number of users by state.
	Users    []UserStatus      `json:"users"`  // Users are sorted by namespace and name, in the order in which they follow.
	// Deleting are NAMESPACE/NAME of users that are being deleted. They do not take part in the rollout, and the template cannot be deleted before them.
	Deleting  []string         `json:"deleting,omitempty"`
	Revisions []RevisionStatus `json:"revisions"` // Revisions that are stored, the newest first.
	// Observed is true if the manager has observed the current content.
	Observed bool `json:"observed"`
}

// UserStatus is a WorkspaceTemplateApply that uses the template. Revisions are hashes.
type UserStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
	Owner     string `json:"owner,omitempty"` // Owner is its controller, for example CAPTMachinePool/workers.
	// State is how far it has come with the current revision.
	State  UserState `json:"state"`
	Canary bool      `json:"canary,omitempty"` // Canary is true for users that follow first.
	Paused bool      `json:"paused,omitempty"` // Paused users keep their revision.
	// LeftBehind is true for users that the rollout does not wait for any more.
	LeftBehind bool `json:"leftBehind,omitempty"`
	// Assigned is the revision that it should run, Written the one that its Workspace was written with, Applied the one that Terraform applied
	// last.
	Assigned string `json:"assigned,omitempty"`
	Written  string `json:"written,omitempty"`
	Applied  string `json:"applied,omitempty"`
	// Reason and Message are those of condition Ready. While that is True, they are PlanFailed or PlanUnavailable and why, if the current revision
	// cannot be planned.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// IsComplete reports whether all users that the rollout waits for have the current revision.
func (s *Status) IsComplete() bool {
	if s.Strategy == infrav1.RolloutStaged {
		return s.Stage == infrav1.RolloutComplete
	}
	return s.Observed && s.Counts[UserCurrent] == len(s.Users)
}

// planFails reports whether the current revision cannot be planned for users.
func (s *Status) planFails() bool {
	return slices.ContainsFunc(s.Users, func(u UserStatus) bool {
		return u.State == UserFailed && u.Reason == planPrefix+string(infrav1.PreviewFailed)
	})
}

// planPrefix begins the reason of a user without a plan.
const planPrefix = "Plan"

// RevisionStatus is a content that the template had.
type RevisionStatus struct {
	Number int64  `json:"number"`
	Hash   string `json:"hash"`
	// Created is when it was first stored; absent if it is not stored yet.
	Created  *metav1.Time `json:"created,omitempty"`
	Approval *Approval    `json:"approval,omitempty"` // Approval is who approved it; absent if it was not approved.
	Users    int          `json:"users"`              // Users is how many Workspaces are written with it.
	// Target is true for the current content.
	Target bool `json:"target,omitempty"`
	// RolledOut is true if all users had it once, and ForNewUsers if new ones get it.
	RolledOut   bool `json:"rolledOut,omitempty"`
	ForNewUsers bool `json:"forNewUsers,omitempty"`
}

// StatusOf returns the status of a template. Its users are as the manager left them: what the manager does next is not shown.
func (t *Template) StatusOf(now time.Time) *Status {
	target, reported, decision := t.Target(), t.Reported(), t.Next(now)
	status := &Status{
		Namespace: t.Namespace, Name: t.Name, DeletionTime: t.DeletionTimestamp,
		Strategy: cmp.Or(t.Policy.Strategy, infrav1.RolloutImmediate), Revision: target.Hash,
		Counts: map[UserState]int{}, Users: []UserStatus{}, Deleting: t.Deleting, Revisions: []RevisionStatus{},
	}
	observed := t.Status.Revision == target.Hash
	if t.Policy.IsStaged() {
		observed = reported.Revision != ""
		status.Number, status.Approval = target.Number, target.Approval.orNil()
		status.RequiredApproval, status.State = cmp.Or(t.Policy.Approval, infrav1.RolloutApprovalNone), cmp.Or(t.Policy.State, infrav1.RolloutRunning)
		status.Stage, status.StartTime, status.SoakUntil = reported.Stage, reported.StartTime, reported.SoakUntil
		if t.Unreadable != nil {
			status.Number = reported.Number
		} else {
			status.Revisions = t.revisions()
		}
	}
	status.Observed = observed
	if condition := meta.FindStatusCondition(t.Status.Conditions, infrav1.RollingOutCondition); condition != nil && observed {
		status.Reason, status.Message = condition.Reason, condition.Message
	}
	if valid := ptr.Deref(meta.FindStatusCondition(t.Status.Conditions, infrav1.ValidCondition), metav1.Condition{}); valid.Reason == infrav1.WriteRefusedReason {
		status.Reason, status.Message = valid.Reason, valid.Message // Such as a revision that cannot be stored.
	}
	for _, user := range t.Users {
		of := t.userStatus(user, &decision)
		status.Counts[of.State]++
		status.Users = append(status.Users, of)
	}
	status.NextStep = nextStep(status, t.Policy.IsPreviewed(), t.destroys())
	return status
}

// destroys reports whether the approval of the current revision must include what a plan destroys.
func (t *Template) destroys() bool {
	return slices.ContainsFunc(t.Users, func(u User) bool {
		return u.Preview.TemplateRevision == t.Target().Hash && needsDestroyApproval(t.Policy, u.Preview) && len(forbidden(t.Policy, u.Preview)) == 0
	})
}

func (t *Template) userStatus(u User, decision *Decision) UserStatus {
	apply, name := t.Applies[u.Key], u.Key.String()
	user := UserStatus{
		Namespace: u.Key.Namespace, Name: u.Key.Name, Cluster: apply.Labels[clusterv1.ClusterNameLabel], Paused: u.Paused,
		Assigned: u.Assigned, Written: u.Written, Applied: u.Applied,
	}
	if owner := metav1.GetControllerOfNoCopy(apply); owner != nil {
		user.Owner = owner.Kind + "/" + owner.Name
	}
	if t.Policy.IsStaged() {
		user.Canary, user.LeftBehind = slices.Contains(decision.Canaries, name), slices.Contains(decision.LeftBehind, name)
		user.State = cmp.Or(decision.States[u.Key], u.State(t.Target().Hash))
	} else {
		u.Assigned = t.Target().Hash // All users follow at once.
		user.State = u.State(u.Assigned)
	}
	if ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		user.Reason, user.Message = ready.Reason, ready.Message
	} else if result := u.Preview.Result; u.Preview.TemplateRevision == t.Target().Hash && (result == infrav1.PreviewFailed || result == infrav1.PreviewUnavailable) {
		user.Reason, user.Message = planPrefix+string(result), u.Preview.Message
	}
	return user
}

func (t *Template) revisions() (revisions []RevisionStatus) {
	stable := t.History.Stable()
	for i := range t.History {
		r := &t.History[i]
		revision := RevisionStatus{
			Number: r.Number, Hash: r.Hash, Approval: r.Approval.orNil(), Target: i == 0, RolledOut: r.RolledOut, ForNewUsers: r.Hash == stable,
		}
		if !r.Created.IsZero() {
			revision.Created = &r.Created
		}
		for j := range t.Users {
			if t.Users[j].Written == r.Hash {
				revision.Users++
			}
		}
		revisions = append(revisions, revision)
	}
	return revisions
}

// nextStep is what to do; nil if the rollout proceeds, or its message alone says it. previewed is true if the revision has plans, and destroys if its
// approval must include what they destroy.
func nextStep(s *Status, previewed, destroys bool) *overview.Next {
	name, staged := s.Namespace+"/"+s.Name, s.Strategy == infrav1.RolloutStaged
	switch {
	case s.DeletionTime != nil:
		return &overview.Next{Step: "The template is being deleted, which cannot be reverted: no rollout of it proceeds, and no other object can use it. It is deleted after its last user. " +
			"To keep the users, create a template with another name, and let their owners refer to it."}
	case s.Reason == infrav1.WriteRefusedReason:
		return &overview.Next{Step: "Change what the message names: a policy, a webhook, a quota or a role. CAPT retries within minutes."}
	case !s.Observed:
		return &overview.Next{Step: "The manager has not observed the current content yet. If this takes longer than a minute, check that it runs."}
	case !staged:
		return nil
	case s.Reason == infrav1.RolloutStoppedReason:
		return &overview.Next{Step: s.afterStop(), Commands: append(s.failures(), "captctl template rollback "+name, "captctl template resume "+name)}
	case s.planFails() && s.waitsForApproval(): // With onFailure: Continue.
		return &overview.Next{Step: "See why the revision cannot be planned for some users. Then edit the template again, or roll back.", Commands: append(s.failures(), "captctl template rollback "+name)}
	case s.waitsForApproval():
		return s.toApprove(previewed, destroys)
	case s.waitsForResume():
		return &overview.Next{Step: "Remove what the message names, or continue without it.", Commands: []string{"captctl template resume " + name}}
	case s.State == infrav1.RolloutPaused && s.Stage != infrav1.RolloutComplete:
		return &overview.Next{Step: "The rollout is paused. Resume it when the reason for the pause has ended.", Commands: []string{"captctl template resume " + name}}
	}
	return nil
}

// toApprove is how to approve the revision, or why no approval helps.
func (s *Status) toApprove(previewed, destroys bool) *overview.Next {
	name := s.Namespace + "/" + s.Name
	approve, rollback := "captctl template approve "+name+" --revision "+s.Revision, "captctl template rollback "+name
	next := &overview.Next{Step: "See what the revision changes, and approve it, or roll back.", Commands: []string{approve, rollback}}
	switch {
	case strings.Contains(s.Message, neverAllowed):
		next.Step = "No approval releases users for which Terraform would destroy what spec.rollout.neverDestroy names. Correct the template, roll back, or change that list."
		next.Commands[0] = fmt.Sprintf("kubectl edit workspacetemplate -n %s %s", s.Namespace, s.Name)
	case previewed && destroys:
		next.Step = "See what the revision changes and destroys, and approve both, or roll back."
		next.Commands[0] = approve + " --allow-destroy"
	}
	if s.isRolledBack() {
		next.Step, next.Commands = strings.NewReplacer(", or roll back", "", ", roll back", "").Replace(next.Step)+" It is the content of an earlier revision again.", next.Commands[:1]
	}
	if previewed {
		next.Commands = append([]string{"captctl template plan " + name}, next.Commands...)
	}
	return next
}

// isRolledBack reports whether the current content is that of a revision that all users had before.
func (s *Status) isRolledBack() bool {
	return len(s.Revisions) > 1 && s.Revisions[0].Target && s.Revisions[0].RolledOut
}

// afterStop is what to do when the rollout has stopped.
func (s *Status) afterStop() string {
	switch {
	case s.planFails():
		return "See why the revision cannot be planned. Then edit the template again, roll back, or continue although the plan fails."
	case s.Stalls():
		return "See why users do not finish the update. Then edit the template again, roll back, or continue without them."
	}
	return "See why the revision fails. Then edit the template again, roll back, or continue although it fails."
}

// waitsForApproval reports whether an approval continues the rollout, if it is not stopped.
func (s *Status) waitsForApproval() bool { return s.Stage == infrav1.RolloutWaitingForApproval }

// waitsForResume reports whether the rollout waits, although nothing fails, for canaries or for users that cannot be previewed.
func (s *Status) waitsForResume() bool {
	return s.Reason == infrav1.RolloutWaitingReason && s.State != infrav1.RolloutPaused && (s.Stage == infrav1.RolloutPreviewing || s.Stage == infrav1.RolloutCanary)
}

// failures is the command that shows why the first failed user fails, or why plans do.
func (s *Status) failures() []string {
	if s.planFails() {
		return []string{"captctl template plan " + s.Namespace + "/" + s.Name}
	}
	i := slices.IndexFunc(s.Users, func(u UserStatus) bool { return u.State == UserFailed || u.State == UserStalled })
	switch {
	case i < 0:
		return nil
	case s.Users[i].Cluster != "":
		return []string{"captctl logs " + s.Users[i].Namespace + "/" + s.Users[i].Cluster}
	}
	return []string{"captctl logs workspacetemplateapply/" + s.Users[i].Namespace + "/" + s.Users[i].Name}
}

// Stalls reports whether users that do not finish the update are what stops the rollout, if it is stopped.
func (s *Status) Stalls() bool { return s.Counts[UserFailed] == 0 && s.Counts[UserStalled] > 0 }
