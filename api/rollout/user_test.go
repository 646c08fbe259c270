// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestUsersAreSortedWithoutThoseThatAreDeleted(t *testing.T) {
	applies := []*infrav1.WorkspaceTemplateApply{
		builder.WorkspaceTemplateApply("b"), builder.WorkspaceTemplateApply("z", builder.WithNamespace("a")), builder.WorkspaceTemplateApply("a"),
		builder.WorkspaceTemplateApply("gone", builder.Deleting()),
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
