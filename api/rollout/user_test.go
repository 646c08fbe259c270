// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestUsersAreSortedWithoutThoseThatAreDeleted(t *testing.T) {
	applies := []*infrav1.WorkspaceTemplateApply{
		builder.WorkspaceTemplateApply("b"), builder.WorkspaceTemplateApply("z", builder.WithNamespace("a")), builder.WorkspaceTemplateApply("a"),
		builder.WorkspaceTemplateApply("gone", builder.Deleting()),
		builder.WorkspaceTemplateApply("unadopted", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceName = "x" })),
	}
	users, err := UsersOf(applies, nil, func(apply *infrav1.WorkspaceTemplateApply) (labels.Set, error) {
		return labels.Set{"of": apply.Name}, nil
	})
	require.NoError(t, err)
	var names []string
	for _, user := range users {
		names = append(names, user.Key.String()+" "+user.Labels["of"])
	}
	assert.Equal(t, []string{"a/z z", "default/a a", "default/b b"}, names)
	_, err = UsersOf(applies, nil, func(*infrav1.WorkspaceTemplateApply) (labels.Set, error) { return nil, errors.New("unreadable") })
	assert.EqualError(t, err, "unreadable")
}

func TestStatesOfAUser(t *testing.T) {
	for name, row := range map[string]struct {
		user User
		want UserState
	}{
		"no Workspace":      {User{Assigned: target}, UserCreating},
		"never applied":     {User{Created: true, Assigned: target}, UserCreating},
		"another revision":  {on("a", before), UserWaiting},
		"assigned":          {on("a", before, assigned), UserUpdating},
		"Terraform fails":   {on("a", before, failing), UserFailed},
		"cannot be written": {on("a", before, assigned, func(u *User) { u.Blocked = true }), UserFailed},
		"applied":           {on("a", target), UserCurrent},
	} {
		assert.Equal(t, row.want, row.user.State(target), name)
	}
}

// Terraform may still be applying another revision, so that the user takes a place among those that are updated.
func TestWhoIsInFlight(t *testing.T) {
	inFlight := func(u *User) { u.Assigned, u.Written = "another", "another" }
	for name, row := range map[string]struct {
		change func(*User)
		want   bool
	}{
		"another revision is applied":           {inFlight, true},
		"nothing was applied before":            {func(u *User) { inFlight(u); u.Applied = "" }, false},
		"nothing is assigned after a failure":   {func(u *User) { u.Assigned, u.Written, u.Failed = "", "", "another" }, false},
		"nothing is assigned":                   {func(u *User) { u.Assigned, u.Written = "", "" }, false},
		"it gets the target":                    {assigned, false},
		"it was applied":                        {func(*User) {}, false},
		"Terraform fails with it":               {func(u *User) { inFlight(u); u.Failed = "another" }, false},
		"it cannot be written":                  {func(u *User) { inFlight(u); u.Blocked = true }, false},
		"it takes too long":                     {func(u *User) { inFlight(u); u.overdue = true }, false},
		"paused, and not written":               {func(u *User) { inFlight(u); u.Written, u.Paused = before, true }, false},
		"with a change of its own, not written": {func(u *User) { inFlight(u); u.Written, u.Held = before, true }, false},
		"paused after it was written":           {func(u *User) { inFlight(u); u.Paused = true }, true},
		"not written yet, but about to be":      {func(u *User) { inFlight(u); u.Written = before }, true},
	} {
		user := on("a", before, row.change)
		assert.Equal(t, row.want, user.inFlight(target), name)
	}
}

func TestStatesOfAUserWithTheTarget(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*User)
		want   UserState
	}{
		"it took too long":                     {func(u *User) { assigned(u); u.overdue = true }, UserStalled},
		"paused before it was written":         {func(u *User) { assigned(u); u.Paused = true }, UserWaiting},
		"paused after it was written":          {func(u *User) { assigned(u); u.Written, u.Paused = target, true }, UserUpdating},
		"applied, and written with another":    {func(u *User) { assigned(u); u.Applied = target }, UserUpdating},
		"the API server rejects the target":    {func(u *User) { u.Refused = []string{target} }, UserFailed},
		"the API server rejects another":       {func(u *User) { u.Refused = []string{"another"} }, UserWaiting},
		"the preview fails":                    {func(u *User) { u.plan = infrav1.PreviewFailed }, UserFailed},
		"the preview fails after the rollout":  {func(u *User) { assigned(u); u.plan = infrav1.PreviewFailed }, UserUpdating},
		"its Workspace was deleted":            {func(u *User) { assigned(u); u.Created = false }, UserCreating},
		"its Workspace was deleted, and fails": {func(u *User) { failing(u); u.Created = false }, UserCreating},
	} {
		user := on("a", before, row.change)
		assert.Equal(t, row.want, user.State(target), name)
	}
}

// What the status of a WorkspaceTemplateApply says about a user.
func TestTheUserOfAWorkspaceTemplateApply(t *testing.T) {
	for name, row := range map[string]struct {
		change func(a *infrav1.WorkspaceTemplateApply)
		want   func(u *User)
	}{
		"Ready":                          {func(*infrav1.WorkspaceTemplateApply) {}, func(*User) {}},
		"without a condition":            {func(a *infrav1.WorkspaceTemplateApply) { a.Status.Conditions = nil }, func(u *User) { u.Observed, u.ReadySince = false, time.Time{} }},
		"not observed":                   {func(a *infrav1.WorkspaceTemplateApply) { a.Generation++ }, func(u *User) { u.ReadySince = time.Time{} }},
		"not Ready":                      {notReady(infrav1.ApplyFailedReason), func(u *User) { u.ReadySince = time.Time{} }},
		"applied again later":            {func(a *infrav1.WorkspaceTemplateApply) { a.Status.LastAppliedTime = later(1) }, func(u *User) { u.ReadySince = later(1).Time }},
		"applied before":                 {func(a *infrav1.WorkspaceTemplateApply) { a.Status.LastAppliedTime = later(-1) }, func(*User) {}},
		"a change waits for an approval": {notReady(infrav1.WaitingForApprovalReason), func(u *User) { u.Held, u.ReadySince = true, time.Time{} }},
		"the revision cannot be written": {func(a *infrav1.WorkspaceTemplateApply) {
			notReady(infrav1.TemplateInvalidReason)(a)
			a.Spec.TemplateRevision = target
		}, func(u *User) { u.Assigned, u.Blocked, u.ReadySince = target, true, time.Time{} }},
		"what was written cannot be again": {notReady(infrav1.TemplateInvalidReason), func(u *User) { u.ReadySince = time.Time{} }},
		"restored without status": {func(a *infrav1.WorkspaceTemplateApply) {
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, naming.ExternalNameAnnotation, "x")
			a.Status.WorkspaceRef = nil
		}, func(u *User) { u.Created, u.Unrecorded = false, true }},
		"with status": {func(a *infrav1.WorkspaceTemplateApply) {
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, naming.ExternalNameAnnotation, "x")
		}, func(*User) {}},
	} {
		apply := builder.WorkspaceTemplateApply("a", builder.UpToDate(nil))
		apply.Spec.TemplateRevision = before
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "a"}
		apply.Status.TemplateRevision, apply.Status.WrittenTemplateRevision = before, before
		apply.Status.Conditions[0].LastTransitionTime = *later(0)
		want := UserOf(apply, nil)
		require.Equal(t, later(0).Time, want.ReadySince)
		row.change(apply)
		row.want(&want)
		assert.Equal(t, want, UserOf(apply, nil), name)
	}
}

func later(minutes int) *metav1.Time {
	return ptr.To(metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute)))
}

func notReady(reason string) func(a *infrav1.WorkspaceTemplateApply) {
	return func(a *infrav1.WorkspaceTemplateApply) {
		a.Status.Conditions[0].Status, a.Status.Conditions[0].Reason = metav1.ConditionFalse, reason
	}
}

// The content of a user is the current one unless rollouts are staged, and else that of its revision.
func TestTheContentOfAUser(t *testing.T) {
	former, object := storedContent(t, "# 1")
	template := builder.WorkspaceTemplate("vpc", builder.WithModule("# 2"))
	none := Store{First: func(...types.NamespacedName) (*appsv1.ControllerRevision, error) { return nil, nil }}
	object = builder.StoredEarlier(object)
	one, broken := none, none
	one.First = func(...types.NamespacedName) (*appsv1.ControllerRevision, error) { return object, nil }
	one.All = func(string) ([]appsv1.ControllerRevision, error) { return []appsv1.ControllerRevision{*object}, nil }
	broken.First = func(...types.NamespacedName) (*appsv1.ControllerRevision, error) {
		return object, errors.New("no answer")
	}
	broken.All = func(string) ([]appsv1.ControllerRevision, error) { return nil, errors.New("no answer") }
	staged := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}
	whole, short := HashOf(former), terraform.ShortRevision(HashOf(former))
	for name, row := range map[string]struct {
		assigned string
		policy   infrav1.WorkspaceTemplateRollout
		store    Store
		module   string // Empty if the content is not known.
		revision string
		fails    bool
	}{
		"not staged":                     {whole, infrav1.WorkspaceTemplateRollout{}, none, "# 2", HashOf(template), false},
		"none is assigned":               {"", staged, none, "# 2", "", false},
		"the current one":                {HashOf(template), staged, none, "# 2", HashOf(template), false},
		"a former one":                   {whole, staged, one, "# 1", whole, false},
		"a former one, abbreviated":      {short, staged, one, "# 1", whole, false},
		"one that is not stored":         {whole, staged, none, "", whole, false},
		"one that cannot be read":        {whole, staged, broken, "", whole, true},
		"an abbreviated one, unreadable": {short, staged, broken, "", short, true},
		"another content is stored":      {HashOf(builder.WorkspaceTemplate("vpc", builder.WithModule("# 3"))), staged, one, "", HashOf(builder.WorkspaceTemplate("vpc", builder.WithModule("# 3"))), false},
	} {
		apply := builder.WorkspaceTemplateApply("a")
		apply.Spec.TemplateRevision = row.assigned
		at, revision, err := ContentFor(apply, template, row.policy, row.store)
		assert.Equal(t, row.fails, err != nil, name)
		assert.Equal(t, row.revision, revision, name)
		module := ""
		if at != nil {
			module = at.Spec.Template.Spec.ForProvider.Module
		}
		assert.Equal(t, row.module, module, name)
	}
	for assigned, want := range map[string]bool{whole: false, short: true} {
		apply := builder.WorkspaceTemplateApply("a")
		apply.Spec.TemplateRevision = assigned
		users, err := UsersOf([]*infrav1.WorkspaceTemplateApply{apply}, HistoryOf(template, []appsv1.ControllerRevision{*object}), func(*infrav1.WorkspaceTemplateApply) (labels.Set, error) { return nil, nil })
		require.NoError(t, err)
		assert.Equal(t, whole, users[0].Assigned)
		assert.Equal(t, want, users[0].Abbreviated)
	}
}
