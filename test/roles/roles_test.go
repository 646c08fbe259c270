// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package roles_test compares the roles of config/rbac with what the manager and captctl request from a real API server during the whole life of
// clusters, and of a fleet of CAPT v0.3: no request is forbidden, and no right is superfluous.
package roles_test

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is a control plane whose audit log has all requests. Its manager is configured as in config/manager, and creates tokens with made-up keys.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) {
		audited(o, "")
	}))
}

// audited are the options of a control plane whose audit log has all requests.
func audited(o *sandbox.Options, installation string, managerArgs ...string) {
	o.Installation, o.AuditPolicy, o.AuditLog = installation, nil, true
	o.ManagerArgs = slices.Concat(leaderElection(), []string{"--eks-tokens"}, managerArgs)
	o.ManagerEnv = []string{
		"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=made-up", "AWS_SESSION_TOKEN=", "AWS_PROFILE=",
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		"KUBE_FEATURE_WatchListClient=false", // Caches list objects, as with API servers that cannot stream lists.
	}
}

func leaderElection() []string {
	return []string{"--leader-elect", "--leader-elect-namespace=" + sandbox.ManagerNamespace}
}

// implied returns the rights that the audit log never has, because the API server checks them for another request.
func implied() map[right]string {
	const blocks = "admission checks it for an owner reference that blocks the deletion of the owner"
	return map[right]string{
		"update infrastructure.cluster.x-k8s.io/captclusters/finalizers":       blocks,
		"update infrastructure.cluster.x-k8s.io/workspacetemplates/finalizers": blocks,
		"update controlplane.cluster.x-k8s.io/captcontrolplanes/finalizers":    blocks,
		"update infrastructure.cluster.x-k8s.io/captmachinepools/finalizers":   blocks,
		"delete /secrets": "admission checks it for a write of the owner references of a Secret; see capt-migrate-owners",
		"delete infrastructure.cluster.x-k8s.io/workspacetemplateapplies": "the same for captctl, which deletes none",
		"bypass capt.cluster.x-k8s.io/guards":                             "policies recognize the manager by it",
		"migrate capt.cluster.x-k8s.io/guards":                            "policies and webhooks check it when captctl rolls back",
	}
}

// occasional returns the rights for requests that depend on timing, so that a run of this test may have none.
func occasional() map[right]string {
	return map[right]string{
		"get cluster.x-k8s.io/clusters":                               "a Cluster that the cache does not have yet, and before RecreateWorkspace",
		"get cluster.x-k8s.io/machinepools":                           "a MachinePool that the cache does not have yet",
		"get apps/controllerrevisions":                                "a revision that the cache does not have yet",
		"get controlplane.cluster.x-k8s.io/captcontrolplanetemplates": "the CRD migrator reads an object again after a conflict",
		"get infrastructure.cluster.x-k8s.io/captclustertemplates":    "the same",
		"get infrastructure.cluster.x-k8s.io/planrequests":            "a PlanRequest that the cache does not have yet",
		"delete infrastructure.cluster.x-k8s.io/planrequests":         "a PlanRequest is deleted an hour after it was completed",
		"patch events.k8s.io/events":                                  "an event that repeats",
		"get tf.m.upbound.io/workspaces":                              "captctl: a Workspace that this version created for a Cluster that is adopted partly",
	}
}

func TestNoRequestIsForbiddenAndNoRightIsUnused(t *testing.T) {
	manager, captctl := &usage{}, &usage{}
	t.Run("life", func(t *testing.T) {
		t.Run("a fleet of CAPT v0.3", func(t *testing.T) {
			t.Parallel()
			adoptFleet(t, manager, captctl)
		})
		for _, scope := range terraform.Scopes() {
			t.Run("clusters with Workspaces of scope "+string(scope), func(t *testing.T) {
				t.Parallel()
				createAndDeleteClusters(shared.NewEnvironment(t, scope), shared.NewEnvironment(t, scope))
			})
		}
		t.Run("a second replica, and its metrics", func(t *testing.T) {
			t.Parallel()
			readMetrics(t)
		})
	})
	if t.Failed() {
		return // Its requests are missing.
	}
	manager.add(t, shared.Sandbox, sandbox.ManagerUser, time.Time{})
	roles := shipped(t)
	manager.requireExact(t, roles, "capt-manager-role", "capt-leader-election")
	captctl.requireExact(t, roles, "capt-migrate-reader", "capt-migrate-watcher", "capt-migrate-journal-reader", "capt-migrate", "capt-migrate-journal",
		"capt-migrate-endpoints", "capt-migrate-owners")
	for r := range implied() {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(roles)), func(rights []right) bool { return slices.Contains(rights, r) }), "no role has %q", r)
	}
}
