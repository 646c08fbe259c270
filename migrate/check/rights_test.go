/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package check_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const (
	rolesFile = "../../config/rbac/captctl.yaml"
	journal   = "capt-system"
)

// TestTheRolesGrantWhatIsAskedForAndNothingElse holds the table of permissions against what users bind.
func TestTheRolesGrantWhatIsAskedForAndNothingElse(t *testing.T) {
	want := map[string][]string{}
	for role, phases := range map[string][]check.Phase{
		"capt-migrate":          {check.Inspect, check.Adopt, check.Storage},
		"capt-migrate-finalize": {check.Finalize},
		"capt-migrate-backup":   {check.Backup},
		"capt-migrate-crds":     {check.Definitions},
	} {
		for _, right := range check.Rights(journal, phases...) {
			role := role
			if right.Namespace != "" { // The namespace of the journal has a role of its own.
				continue
			}
			if right.Optional == check.OwnerReferences { // Most API servers do not ask for it.
				role = "capt-migrate-owners"
			}
			want[role] = append(want[role], right.String())
		}
	}
	for _, right := range check.Rights(journal, check.Inspect, check.Adopt, check.Storage, check.Finalize) {
		if right.Namespace != "" {
			want["capt-migrate-journal"] = append(want["capt-migrate-journal"], right.String())
		}
	}

	roles := clusterRoles(t)
	require.Len(t, roles, len(want))
	for _, role := range roles {
		var got []string
		for _, right := range granted(role) {
			if role.Name == "capt-migrate-journal" {
				right.Namespace = journal
			}
			got = append(got, right.String())
		}
		assert.ElementsMatch(t, want[role.Name], got, role.Name)
	}
}

func clusterRoles(t *testing.T) []*rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile(rolesFile)
	require.NoError(t, err)
	objects, err := manifests.Decode(data)
	require.NoError(t, err)
	roles := make([]*rbacv1.ClusterRole, len(objects))
	for i, object := range objects {
		roles[i] = &rbacv1.ClusterRole{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, roles[i]))
	}
	return roles
}

// granted are the single permissions of a role.
func granted(role *rbacv1.ClusterRole) (rights []check.Right) {
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						right := check.Right{Verb: verb, Group: group, Name: name}
						right.Resource, right.Subresource, _ = strings.Cut(resource, "/")
						rights = append(rights, right)
					}
				}
			}
		}
	}
	return rights
}

func TestARightReadsAsOneWouldSayIt(t *testing.T) {
	for right, want := range map[check.Right]string{
		{Verb: "list", Resource: "namespaces"}: "list namespaces",
		{Verb: "patch", Group: "infrastructure.cluster.x-k8s.io", Resource: "captclusters", Subresource: "status"}: "patch captclusters/status.infrastructure.cluster.x-k8s.io",
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "capt-system"}:               "create leases.coordination.k8s.io in namespace capt-system",
		{Verb: "delete", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "x.y.z"}:      "delete customresourcedefinitions.apiextensions.k8s.io x.y.z",
	} {
		assert.Equal(t, want, right.String())
	}
}
