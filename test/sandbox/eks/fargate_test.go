// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// demo is a cluster with an endpoint, which is all that Fargate profiles require.
func demo(t *testing.T) eks.Server {
	t.Helper()
	server := eks.Server{Dir: t.TempDir(), Name: "demo"}
	require.NoError(t, os.MkdirAll(server.Folder(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(server.Folder(), "endpoint"), []byte("https://127.0.0.1:1"), 0o600))
	return server
}

func profile(name string) eks.FargateProfile {
	return eks.FargateProfile{Name: name, Selectors: []eks.FargateSelector{{Namespace: "default"}}, Subnets: []string{"subnet-1"}}
}

// statuses returns the statuses of the cluster's profiles by name.
func statuses(t *testing.T, server eks.Server) map[string]eks.Status {
	t.Helper()
	profiles, err := server.FargateProfiles()
	require.NoError(t, err)
	found := map[string]eks.Status{}
	for _, p := range profiles {
		found[p.Name] = p.Status
	}
	return found
}

// begin starts an operation on a profile and returns when it is visible. The operation lasts until interrupt is called.
func begin(t *testing.T, server eks.Server, name string, status eks.Status, work func(context.Context) error) (interrupt func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	require.Eventually(t, func() bool { return statuses(t, server)[name] == status }, time.Minute, 10*time.Millisecond)
	return func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestFargateProfilesOfAClusterAreChangedOneAtATime(t *testing.T) {
	server, other := demo(t), demo(t)
	ctx := t.Context()
	require.NoError(t, server.CreateFargateProfile(ctx, profile("old"), 0))

	interrupt := begin(t, server, "slow", eks.Creating, func(ctx context.Context) error {
		return server.CreateFargateProfile(ctx, profile("slow"), time.Hour)
	})
	require.EqualError(t, server.CreateFargateProfile(ctx, profile("new"), 0),
		"ResourceInUseException: Cannot create Fargate Profile new because cluster demo currently has Fargate profile slow in status CREATING")
	require.EqualError(t, server.DeleteFargateProfile(ctx, "old", 0),
		"ResourceInUseException: Cannot Delete Fargate Profile old because cluster demo currently has Fargate profile slow in status CREATING")
	require.NoError(t, other.CreateFargateProfile(ctx, profile("new"), 0), "clusters do not wait for each other")
	interrupt()

	interrupt = begin(t, server, "old", eks.Deleting, func(ctx context.Context) error {
		return server.DeleteFargateProfile(ctx, "old", time.Hour)
	})
	require.ErrorContains(t, server.CreateFargateProfile(ctx, profile("new"), 0), "currently has Fargate profile old in status DELETING")
	interrupt()

	// Interrupted operations do not block others and can be repeated.
	require.NoError(t, server.CreateFargateProfile(ctx, profile("slow"), 0))
	require.NoError(t, server.DeleteFargateProfile(ctx, "old", 0))
	require.NoError(t, server.DeleteFargateProfile(ctx, "old", 0))
	require.Equal(t, map[string]eks.Status{"slow": eks.Active}, statuses(t, server))
}

func TestAProfileWhoseWorkerWasKilledDoesNotBlockOthers(t *testing.T) {
	server := demo(t)
	dead := profile("dead")
	dead.Status, dead.Worker = eks.Creating, process.ID{PID: os.Getpid(), Started: "at another time"}
	data, err := json.Marshal(dead)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(server.Folder(), "fargate"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(server.Folder(), "fargate", "dead.json"), data, 0o600))

	require.NoError(t, server.CreateFargateProfile(t.Context(), profile("alive"), 0))

	require.Equal(t, map[string]eks.Status{"alive": eks.Active, "dead": eks.Creating}, statuses(t, server))
}

func TestAClusterWithFargateProfilesIsNotStopped(t *testing.T) {
	server := demo(t)
	require.NoError(t, server.CreateFargateProfile(t.Context(), profile("default"), 0))
	const refusal = "ResourceInUseException: Cluster has Fargate Profiles in ACTIVE/CREATING state"

	require.EqualError(t, server.Stop(t.Context()), refusal)

	interrupt := begin(t, server, "default", eks.Deleting, func(ctx context.Context) error {
		return server.DeleteFargateProfile(ctx, "default", time.Hour)
	})
	require.EqualError(t, server.Stop(t.Context()), refusal)
	interrupt()
	require.FileExists(t, filepath.Join(server.Folder(), "endpoint"))
}

func TestFargateProfilesNeedAClusterAndAValidName(t *testing.T) {
	server := eks.Server{Dir: t.TempDir(), Name: "demo"}
	require.ErrorContains(t, server.CreateFargateProfile(t.Context(), profile("default"), 0), "No cluster found for name: demo")
	require.NoDirExists(t, server.Folder())
	require.NoError(t, server.DeleteFargateProfile(t.Context(), "default", 0))
	for _, name := range []string{"", "../demo", "a/b", "a.b"} {
		require.ErrorContains(t, demo(t).CreateFargateProfile(t.Context(), profile(name), 0), "is not a name of a Fargate profile")
	}
}
