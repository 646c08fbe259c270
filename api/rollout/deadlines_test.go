// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// shared is a template that namespaces share. Its users are objects, and the manager and Terraform write their status.
type shared struct {
	testing.TB
	policy          infrav1.WorkspaceTemplateRollout
	now             time.Time
	history         History
	started         time.Time
	approve, resume string
	users           []*infrav1.WorkspaceTemplateApply
	// tenant changes the objects of one namespace each minute. The manager does not reconcile those in unmanaged.
	tenant    func(s *shared, minute int)
	unmanaged map[string]bool
	decision  Decision
	// seen is since when the manager has seen assignments that no status records.
	seen map[string]time.Time
}

// hostile is the object of the tenant. By its name and labels it follows first.
const hostile = "a-hostile"

// use creates a user that has had the former revision for a day.
func (s *shared) use(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	apply := builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.CreationTimestamp = metav1.NewTime(s.now.Add(-24 * time.Hour))
		a.Spec.TemplateRevision, a.Spec.WorkspaceName = before, name
		a.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: name}
		a.Status.TemplateRevision, a.Status.WrittenTemplateRevision = before, before
	})}, options...)...)
	s.report(apply, metav1.ConditionTrue, infrav1.UpToDateReason)
	s.users = append(s.users, apply)
	return apply
}

// report writes the status of an object.
func (s *shared) report(apply *infrav1.WorkspaceTemplateApply, ready metav1.ConditionStatus, reason string) {
	was := apply.Status.Conditions
	since := metav1.NewTime(s.now)
	if len(was) > 0 && was[0].Status == ready {
		since = was[0].LastTransitionTime
	}
	apply.Status.ObservedGeneration = apply.Generation
	apply.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: ready, Reason: reason, LastTransitionTime: since}}
}

func (s *shared) find(name string) *infrav1.WorkspaceTemplateApply {
	if i := slices.IndexFunc(s.users, func(a *infrav1.WorkspaceTemplateApply) bool { return a.Name == name }); i >= 0 {
		return s.users[i]
	}
	return nil
}

// each changes the hostile object each minute.
func each(change func(s *shared, a *infrav1.WorkspaceTemplateApply, minute int)) func(*shared, int) {
	return func(s *shared, minute int) {
		if a := s.find(hostile); a != nil {
			change(s, a, minute)
		}
	}
}

// once changes it before the rollout.
func once(change func(s *shared, a *infrav1.WorkspaceTemplateApply)) func(*shared, int) {
	return each(func(s *shared, a *infrav1.WorkspaceTemplateApply, minute int) {
		if minute == 0 {
			change(s, a)
		}
	})
}

// always makes the manager report a reason whatever happens.
func always(reason string) func(*shared, int) {
	return each(func(s *shared, a *infrav1.WorkspaceTemplateApply, _ int) {
		s.unmanaged[hostile] = true
		a.Status.Assignment = s.assignmentOf(a)
		s.report(a, metav1.ConditionFalse, reason)
	})
}

func (s *shared) assignmentOf(a *infrav1.WorkspaceTemplateApply) infrav1.RevisionAssignment {
	if a.Status.Assignment.TemplateRevision == a.Spec.TemplateRevision {
		return a.Status.Assignment
	}
	now := metav1.NewTime(s.now)
	return infrav1.RevisionAssignment{TemplateRevision: a.Spec.TemplateRevision, Time: &now}
}

func annotate(a *infrav1.WorkspaceTemplateApply, key string) {
	metav1.SetMetaDataAnnotation(&a.ObjectMeta, key, "x")
}

// stops are the ways in which the objects of one namespace could stop a rollout.
func stops() map[string]func(*shared, int) {
	type object = infrav1.WorkspaceTemplateApply
	return map[string]func(*shared, int){
		"nothing":            func(*shared, int) {},
		"paused":             once(func(_ *shared, a *object) { annotate(a, clusterv1.PausedAnnotation) }),
		"managed by another": once(func(_ *shared, a *object) { annotate(a, clusterv1.ManagedByAnnotation) }),
		"its Cluster is paused": each(func(_ *shared, a *object, _ int) {
			a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue})
		}),
		"paused after the assignment": each(func(_ *shared, a *object, _ int) {
			if a.Spec.TemplateRevision == target {
				annotate(a, clusterv1.PausedAnnotation)
			}
		}),
		"paused every other minute": each(func(_ *shared, a *object, minute int) {
			if annotate(a, clusterv1.PausedAnnotation); minute%2 == 0 {
				delete(a.Annotations, clusterv1.PausedAnnotation)
			}
		}),
		"in deletion, with a finalizer": once(func(s *shared, a *object) {
			now := metav1.NewTime(s.now)
			a.DeletionTimestamp, a.Finalizers = &now, []string{"example.com/mine"}
		}),
		"missing dependencies":            always(infrav1.WaitingForDependenciesReason),
		"render errors":                   always(infrav1.TemplateInvalidReason),
		"a rejected Workspace":            always(infrav1.WorkspaceRejectedReason),
		"the Workspace of another object": always(infrav1.WorkspaceConflictReason),
		"not adopted": once(func(_ *shared, a *object) {
			a.Spec.WorkspaceName = ""
			a.Finalizers, a.Status.WorkspaceRef = []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}, nil
		}),
		"an annotation without a record": once(func(s *shared, a *object) {
			annotate(a, naming.ExternalNameAnnotation)
			a.Status, s.unmanaged[hostile] = infrav1.WorkspaceTemplateApplyStatus{}, true
		}),
		"an annotation without a record, observed": each(func(s *shared, a *object, _ int) {
			annotate(a, naming.ExternalNameAnnotation)
			a.Status.WorkspaceRef, s.unmanaged[hostile] = nil, true
			s.report(a, metav1.ConditionFalse, infrav1.WaitingForRolloutReason)
		}),
		"edited each second":    each(func(_ *shared, a *object, _ int) { a.Generation = a.Status.ObservedGeneration + 1 }),
		"a change that is held": always(infrav1.WaitingForApprovalReason),
		"a missing ProviderConfig": each(func(s *shared, a *object, _ int) {
			s.unmanaged[hostile] = true
			s.record(a, infrav1.PreviewFailed)
			if a.Status.Assignment = s.assignmentOf(a); a.Spec.TemplateRevision == target {
				a.Status.WrittenTemplateRevision, a.Status.FailedTemplateRevision = target, target
			}
			s.report(a, metav1.ConditionFalse, infrav1.ProviderConfigFailedReason)
		}),
		"a preview that is not possible": each(func(s *shared, a *object, _ int) { s.record(a, infrav1.PreviewUnavailable) }),
		"a result that changes": each(func(s *shared, a *object, minute int) {
			s.record(a, []infrav1.PreviewResult{"", infrav1.PreviewFailed, infrav1.PreviewUnavailable, infrav1.PreviewChanges}[minute%4])
		}),
		"never reconciled": once(func(s *shared, _ *object) { s.unmanaged[hostile] = true }),
		"Terraform does not end": each(func(s *shared, a *object, _ int) {
			if a.Spec.TemplateRevision == target {
				s.unmanaged[hostile] = true
				a.Status.Assignment, a.Status.WrittenTemplateRevision = s.assignmentOf(a), target
				s.report(a, metav1.ConditionFalse, infrav1.ProvisioningReason)
			}
		}),
		"not Ready every other minute": each(func(s *shared, a *object, minute int) {
			if a.Status.TemplateRevision == target {
				s.unmanaged[hostile] = true
				s.report(a, []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}[minute%2], infrav1.ApplyFailedReason)
			}
		}),
		"new objects each minute": func(s *shared, minute int) {
			name := fmt.Sprint("a-", minute)
			if s.find(name) != nil {
				return
			}
			s.use(name, builder.WithCreation(s.now), builder.With(func(a *object) { a.Spec.TemplateRevision = s.history.Stable() }))
			s.unmanaged[name] = true
			s.report(s.find(name), metav1.ConditionFalse, infrav1.ProvisioningReason)
		},
		"recreated every ten minutes": func(s *shared, minute int) {
			if minute%10 == 0 {
				s.users = slices.DeleteFunc(s.users, func(a *object) bool { return a.Name == hostile })
				s.use(hostile, builder.WithCreation(s.now))
			}
		},
	}
}

// record records the result of a preview.
func (s *shared) record(a *infrav1.WorkspaceTemplateApply, result infrav1.PreviewResult) {
	if s.policy.IsPreviewed() {
		a.Status.Preview = infrav1.RevisionPreview{TemplateRevision: target, Result: result, Message: "why"}
	}
}

// manage lets the manager and Terraform work for a minute: a preview, an update.
func (s *shared) manage() {
	for _, a := range s.users {
		_, paused := a.Annotations[clusterv1.PausedAnnotation]
		_, elsewhere := a.Annotations[clusterv1.ManagedByAnnotation]
		if s.unmanaged[a.Name] || paused || elsewhere || !a.DeletionTimestamp.IsZero() {
			continue
		}
		a.Status.Assignment = s.assignmentOf(a)
		switch assigned := a.Spec.TemplateRevision; {
		case a.Status.WrittenTemplateRevision != assigned:
			a.Status.WrittenTemplateRevision = assigned
			s.report(a, metav1.ConditionFalse, infrav1.ProvisioningReason)
		case a.Status.TemplateRevision != assigned:
			a.Status.TemplateRevision = assigned
			s.report(a, metav1.ConditionTrue, infrav1.UpToDateReason)
		default:
			s.report(a, metav1.ConditionTrue, infrav1.UpToDateReason)
			if a.Status.Preview.TemplateRevision != target {
				s.record(a, infrav1.PreviewChanges)
			}
		}
	}
}

// decide lets the manager decide, and an administrator approve what is asked for, and resume what has waited for ten minutes.
func (s *shared) decide(waited *int) {
	users, err := UsersOf(s.users, s.history, func(a *infrav1.WorkspaceTemplateApply) (labels.Set, error) {
		return labels.Set{"canary": map[bool]string{true: "yes"}[a.Name == hostile || a.Name == "m"]}, nil
	})
	require.NoError(s, err)
	for i := range users { // As the manager does.
		u := &users[i]
		if seen := s.seen[u.Key.Name+u.Assigned]; u.AssignedAt.IsZero() && seen.IsZero() {
			s.seen[u.Key.Name+u.Assigned] = s.now
		} else if u.AssignedAt.IsZero() {
			u.AssignedAt = seen
		}
	}
	d := Next(Facts{Now: s.now, Policy: s.policy, Target: target, History: s.history, Started: s.started, Approve: s.approve, Resume: s.resume, Users: users})
	for _, assignment := range d.Assign {
		s.assign(s.find(assignment.User.Name), assignment.Revision)
	}
	if testing.Verbose() {
		s.Logf("%s %s %s %v: %s", s.now.Format("15:04"), d.Stage, d.Reason, d.Assign, d.Message)
	}
	if s.decision = d; d.RolledOut {
		s.history[0].RolledOut = true
	}
	if d.Stage == infrav1.RolloutWaitingForApproval {
		s.approve = target
	}
	if *waited++; !d.Resumable {
		*waited = 0
	}
	if *waited > 10 {
		s.resume = target
	}
}

// assign checks that the user may get a revision.
func (s *shared) assign(a *infrav1.WorkspaceTemplateApply, revision string) {
	if revision == target && !s.history[0].RolledOut {
		preview := a.Status.Preview
		known := preview.TemplateRevision == target && (preview.Result == infrav1.PreviewChanges || preview.Result == infrav1.PreviewFailed && s.resume == target)
		require.True(s, known || !s.policy.IsPreviewed(), "%s was not previewed", a.Name)
		require.True(s, s.policy.Approval != infrav1.RolloutApprovalAlways || s.approve == target, "%s: not approved", a.Name)
		require.True(s, s.policy.Approval != infrav1.RolloutApprovalOnChanges || s.approve == target, "%s: not approved", a.Name)
	}
	a.Spec.TemplateRevision = revision
	a.Generation++
}

// Whatever the objects of one namespace say or fail to do, the others get the revision, and new users, too. An administrator resumes at most once.
func TestNoUserOfATemplateStopsTheOthers(t *testing.T) {
	preview := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways}
	for title, policy := range map[string]infrav1.WorkspaceTemplateRollout{
		"plain":                                {MaxConcurrent: 1},
		"the failures of others do not matter": {MaxConcurrent: 1, OnFailure: infrav1.RolloutFailureContinue},
		"approved":                             {Approval: infrav1.RolloutApprovalAlways},
		"the first is a canary":                {Canary: infrav1.RolloutCanaries{Count: 1, SoakSeconds: 600}},
		"canaries by label":                    {Canary: infrav1.RolloutCanaries{Selector: selecting(), SoakSeconds: 600}},
		"previewed":                            preview,
		"previewed, approved on changes, with a canary": func() infrav1.WorkspaceTemplateRollout {
			p := preview
			p.Approval, p.Canary = infrav1.RolloutApprovalOnChanges, infrav1.RolloutCanaries{Count: 1, SoakSeconds: 600}
			return p
		}(),
	} {
		for name, tenant := range stops() {
			t.Run(title+"/"+name, func(t *testing.T) {
				s := &shared{TB: t, policy: policy, now: now, started: now, history: history(before), tenant: tenant, unmanaged: map[string]bool{}, seen: map[string]time.Time{}}
				honest := []string{"m", "n", "o"}
				for _, user := range append([]string{hostile}, honest...) {
					s.use(user)
				}
				waited, ended := 0, 0
				for minute := 0; minute < 8*60 && ended < 30; minute++ { // Half an hour after its end nothing has changed.
					tenant(s, minute)
					s.decide(&waited)
					s.manage()
					tenant(s, minute)
					s.now = s.now.Add(time.Minute)
					if ended++; !s.history[0].RolledOut {
						ended = 0
					}
				}
				d := s.decision
				require.True(t, s.history[0].RolledOut, "%s: %s", d.Stage, d.Message)
				for _, user := range honest {
					assert.Equal(t, target, s.find(user).Status.TemplateRevision, "%s: %s", user, d.Message)
				}
				if a := s.find(hostile); a.Status.TemplateRevision != target && a.DeletionTimestamp.IsZero() && a.Status.WorkspaceRef != nil {
					assert.Contains(t, d.Message, "default/"+hostile, "it is reported")
				}
				if name == "nothing" {
					assert.Empty(t, s.resume)
				}
			})
		}
	}
}
