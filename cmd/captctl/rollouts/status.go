// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
)

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
	// Reason and Message are those of condition RollingOut.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// NextStep is what to do if the rollout does not proceed.
	NextStep *view.Next                `json:"nextStep,omitempty"`
	Counts   map[rollout.UserState]int `json:"counts"` // Counts has the number of users by state.
	Users    []User                    `json:"users"`  // Users are sorted by namespace and name, in the order in which they follow.
	// Deleting are NAMESPACE/NAME of users that are being deleted. They do not take part in the rollout, and the template cannot be deleted before them.
	Deleting  []string   `json:"deleting,omitempty"`
	Revisions []Revision `json:"revisions"` // Revisions that are stored, the newest first.
}

// Approval is who approved a revision, and when, as the webhooks recorded it.
type Approval struct {
	By string `json:"by,omitempty"`
	At string `json:"at,omitempty"` // At is a time, RFC 3339.
}

// User is a WorkspaceTemplateApply that uses the template. Revisions are hashes.
type User struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
	// State is how far it has come with the current revision.
	State  rollout.UserState `json:"state"`
	Canary bool              `json:"canary,omitempty"` // Canary is true for users that follow first.
	Paused bool              `json:"paused,omitempty"` // Paused users keep their revision.
	// LeftBehind is true for users that the rollout does not wait for any more.
	LeftBehind bool `json:"leftBehind,omitempty"`
	// Assigned is the revision that it should run, Written the one that its Workspace was written with, Applied the one that Terraform applied
	// last.
	Assigned string `json:"assigned,omitempty"`
	Written  string `json:"written,omitempty"`
	Applied  string `json:"applied,omitempty"`
	// Reason and Message are those of condition Ready, unless it is True.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Revision is a content that the template had.
type Revision struct {
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

// statusOptions are the options of template status.
type statusOptions struct {
	cli.View
	cli.Selected
}

func newStatus(environment *cli.Environment) *cobra.Command {
	o := &statusOptions{cli.NewView(environment), newSelected(environment)}
	command := &cobra.Command{
		Use:   "status [NAMESPACE/]NAME",
		Short: "Show how far the rollout of a WorkspaceTemplate has come, and what to do",
		Long: `Shows the current revision of a WorkspaceTemplate, the stage of its rollout, who approved it, what
it waits for and what to do next, one line for each WorkspaceTemplateApply that uses the template,
and the stored revisions. REVISION of a user is the one that its Workspace was written with; -o wide
also shows hashes.

Without NAMESPACE, --namespace or the namespace of the kubeconfig's context is used.`,
		Example: `  captctl template status team-a/vpc
  captctl template status vpc -n team-a --watch

  # In a script: is it complete?
  captctl template status team-a/vpc -o json | jq -e '.stage == "Complete"'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteTemplates(),
		RunE:              cli.Run(o),
	}
	o.AddFlags(command)
	return command
}

// Validate checks the argument and the flags.
func (o *statusOptions) Validate() error {
	return errors.Join(o.Selected.Validate(), o.View.Validate())
}

// Run reads and prints, once or until it is interrupted.
func (o *statusOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	reader := &reader{Reader: connected, warnings: o.ErrOut}
	watched := cli.Watched{Kinds: []schema.GroupVersionKind{
		infrav1.GroupVersion.WithKind("WorkspaceTemplate"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
	}}
	return cli.Show(ctx, &o.View, connected, watched, func(ctx context.Context) (*staged, error) {
		s, err := reader.read(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name})
		if err == nil && s.unreadable != nil {
			reader.warn("stored revisions are not shown: " + s.unreadable.Error())
		}
		return s, err
	}, func(p *output.Printer, s *staged) error {
		status := statusOf(s, rollout.Next(rollout.FactsOf(s.template, s.policy, s.history, s.users, o.Clock.Now())))
		return p.Document(status, func(p *output.Printer) { status.show(p, o.Clock.Now()) })
	})
}

// statusOf returns the status of a template. Its users are as the manager left them: of the decision, what the manager does next is not shown.
func statusOf(s *staged, decision rollout.Decision) *Status {
	policy, target, reported := &s.policy, s.target(), s.reported()
	status := &Status{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "TemplateStatus"}, Namespace: s.template.Namespace, Name: s.template.Name,
		DeletionTime: s.template.DeletionTimestamp,
		Strategy:     cmp.Or(policy.Strategy, infrav1.RolloutImmediate), Revision: target.Hash,
		Counts: map[rollout.UserState]int{}, Users: []User{}, Deleting: s.deleting, Revisions: []Revision{},
	}
	observed := s.template.Status.Revision == target.Hash
	if policy.IsStaged() {
		status.Number, status.Approval = target.Number, approvalOf(target.Approval)
		status.RequiredApproval, status.State = cmp.Or(policy.Approval, infrav1.RolloutApprovalNone), cmp.Or(policy.State, infrav1.RolloutRunning)
		status.Stage, status.StartTime, status.SoakUntil = reported.Stage, reported.StartTime, reported.SoakUntil
		observed = reported.Revision != ""
		if status.Revisions = revisionsOf(s); s.unreadable != nil {
			status.Number, status.Revisions = reported.Number, []Revision{}
		}
	}
	if condition := meta.FindStatusCondition(s.template.Status.Conditions, infrav1.RollingOutCondition); condition != nil && observed {
		status.Reason, status.Message = condition.Reason, condition.Message
	}
	for i := range s.users {
		user := userOf(s, s.users[i], policy.IsStaged(), &decision)
		status.Counts[user.State]++
		status.Users = append(status.Users, user)
	}
	status.NextStep = nextStep(status, observed)
	return status
}

func approvalOf(approval rollout.Approval) *Approval {
	if approval == (rollout.Approval{}) {
		return nil
	}
	return &Approval{By: approval.By, At: approval.At}
}

func userOf(s *staged, u rollout.User, isStaged bool, decision *rollout.Decision) User {
	apply, name := s.applies[u.Key], u.Key.String()
	user := User{
		Namespace: u.Key.Namespace, Name: u.Key.Name, Cluster: apply.Labels[clusterv1.ClusterNameLabel], Paused: u.Paused,
		Canary: isStaged && slices.Contains(decision.Canaries, name), LeftBehind: isStaged && slices.Contains(decision.LeftBehind, name), Assigned: u.Assigned, Written: u.Written, Applied: u.Applied,
	}
	if !isStaged {
		u.Assigned = s.target().Hash // All users follow at once.
	}
	user.State = u.State(s.target().Hash)
	if state, takesPart := decision.States[u.Key]; isStaged && takesPart {
		user.State = state
	}
	if ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		user.Reason, user.Message = ready.Reason, ready.Message
	}
	return user
}

func revisionsOf(s *staged) (revisions []Revision) {
	stable := s.history.Stable()
	for i := range s.history {
		r := &s.history[i]
		revision := Revision{
			Number: r.Number, Hash: r.Hash, Approval: approvalOf(r.Approval), Target: i == 0, RolledOut: r.RolledOut, ForNewUsers: r.Hash == stable,
		}
		if !r.Created.IsZero() {
			revision.Created = &r.Created
		}
		for j := range s.users {
			if s.users[j].Written == r.Hash {
				revision.Users++
			}
		}
		revisions = append(revisions, revision)
	}
	return revisions
}

// nextStep is what to do; nil if the rollout proceeds, or its message alone says it.
func nextStep(s *Status, observed bool) *view.Next {
	name, staged := s.Namespace+"/"+s.Name, s.Strategy == infrav1.RolloutStaged
	switch {
	case s.DeletionTime != nil:
		return &view.Next{Step: "The template is being deleted, which cannot be reverted: no rollout of it proceeds, and no other object can use it. It is deleted after its last user. " +
			"To keep the users, create a template with another name, and let their owners refer to it."}
	case !observed:
		return &view.Next{Step: "The manager has not observed the current content yet. If this takes longer than a minute, check that it runs."}
	case !staged:
		return nil
	case s.Stage == infrav1.RolloutWaitingForApproval:
		return &view.Next{Step: "See what the revision changes, and approve it, or roll back.", Commands: []string{
			"captctl template approve " + name + " --revision " + s.Revision, "captctl template rollback " + name,
		}}
	case s.Reason == infrav1.RolloutStoppedReason && s.Counts[rollout.UserFailed] == 0 && s.Counts[rollout.UserStalled] > 0:
		return &view.Next{Step: "See why users do not finish the update. Then edit the template again, roll back, or continue without them.", Commands: append(s.failures(),
			"captctl template rollback "+name, "captctl template resume "+name)}
	case s.Reason == infrav1.RolloutStoppedReason:
		return &view.Next{Step: "See why the revision fails. Then edit the template again, roll back, or continue although it fails.", Commands: append(s.failures(),
			"captctl template rollback "+name, "captctl template resume "+name)}
	case s.waitsForResume():
		return &view.Next{Step: "Remove what the message names, or continue without it.", Commands: []string{"captctl template resume " + name}}
	case s.State == infrav1.RolloutPaused && s.Stage != infrav1.RolloutComplete:
		return &view.Next{Step: "The rollout is paused. Resume it when the reason for the pause has ended.", Commands: []string{"captctl template resume " + name}}
	}
	return nil
}

// waitsForResume reports whether the rollout waits, although nothing fails, for canaries or for users that cannot be previewed.
func (s *Status) waitsForResume() bool {
	return s.Reason == infrav1.RolloutWaitingReason && s.State != infrav1.RolloutPaused && (s.Stage == infrav1.RolloutPreviewing || s.Stage == infrav1.RolloutCanary)
}

// failures is the command that shows why the first failed user fails.
func (s *Status) failures() []string {
	i := slices.IndexFunc(s.Users, func(u User) bool { return u.State == rollout.UserFailed || u.State == rollout.UserStalled })
	switch {
	case i < 0:
		return nil
	case s.Users[i].Cluster != "":
		return []string{"captctl logs " + s.Users[i].Namespace + "/" + s.Users[i].Cluster}
	}
	return []string{"captctl logs workspacetemplateapply/" + s.Users[i].Namespace + "/" + s.Users[i].Name}
}
