// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// right is "verb group/resource", with the subresource if there is one.
type right string

func newRight(verb, group, resource, subresource string) right {
	return right(verb + " " + group + "/" + path.Join(resource, subresource))
}

// shipped returns the rights of each role in config/rbac.
func shipped(t *testing.T) map[string][]right {
	t.Helper()
	return rightsIn(t, "../../config/rbac")
}

// rightsIn returns the rights of each role in a directory.
func rightsIn(t *testing.T, directory string) map[string][]right {
	t.Helper()
	objects, err := manifests.Load(directory)
	require.NoError(t, err)
	roles := map[string][]right{}
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		role := rbacv1.ClusterRole{} // A Role has the same rules.
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						roles[role.Name] = append(roles[role.Name], newRight(verb, group, resource, ""))
					}
				}
			}
		}
	}
	return roles
}

// usage is which rights a user needed.
type usage struct {
	lock sync.Mutex
	used map[right]int
}

// add adds the requests of a user of a sandbox since a time. None may have been forbidden.
func (u *usage) add(t *testing.T, s *sandbox.Sandbox, user string, since time.Time) {
	t.Helper()
	u.lock.Lock()
	defer u.lock.Unlock()
	if u.used == nil {
		u.used = map[right]int{}
	}
	events := fixture.AuditEvents(t, s, audit.Filter{User: user, Since: since})
	require.NotEmpty(t, events)
	for _, event := range events {
		ref := event.ObjectRef
		// For up to 30 s, an API server with OwnerReferencesPermissionEnforcement does not know a new version of a kind. The manager retries.
		if ref == nil || strings.Contains(event.ResponseStatus.Message, "cannot find RESTMapping") {
			continue
		}
		assert.NotEqual(t, int32(http.StatusForbidden), event.ResponseStatus.Code, "%s %s: %s", event.Verb, event.RequestURI, event.ResponseStatus.Message)
		u.used[newRight(event.Verb, ref.APIGroup, ref.Resource, ref.Subresource)]++
		if event.Verb == "patch" && event.ResponseStatus.Code == http.StatusCreated { // Server-side apply of a new object needs both.
			u.used[newRight("create", ref.APIGroup, ref.Resource, ref.Subresource)]++
		}
	}
}

// requireExact requires that each right of some roles was used, or is known not to be seen.
func (u *usage) requireExact(t *testing.T, roles map[string][]right, names ...string) {
	t.Helper()
	unseen, rare := implied(), occasional()
	for _, name := range names {
		require.NotEmpty(t, roles[name], name)
		for _, r := range roles[name] {
			switch {
			case u.used[r] == 0 && unseen[r] == "" && rare[r] == "":
				assert.Fail(t, "unused right", "no request needed %q of %s: remove it, or add the request to this test", r, name)
			case name == "capt-migrate-owners":
				assert.Zero(t, u.used[r], "captctl sends no such request: %q", r)
			}
		}
	}
}
