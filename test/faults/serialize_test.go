// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// quotaReached is an error that the user must correct, and beingChanged one that passes: EKS changes another profile.
	quotaReached = "\nError: creating EKS Fargate Profile (demo:a): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, ResourceLimitExceededException: Fargate Profile limit exceeded for cluster.\n"
	beingChanged = "\nError: creating EKS Fargate Profile (demo:a): operation error EKS: CreateFargateProfile, https response error StatusCode: 409, ResourceInUseException: Cannot create Fargate Profile a because cluster demo currently has Fargate profile b in status CREATING\n"
	// aWhile is how long an operation takes in these stories: what could overlap would.
	aWhile = 400 * time.Millisecond
)

// profiles are serialized.
var profiles = []string{"profile-a", "profile-b", "profile-c"}

// slow lets every operation take its time.
var slow = scripted.Script{Apply: scripted.Step{Delay: aWhile}, Destroy: scripted.Step{Delay: aWhile}}

// profile is a WorkspaceTemplateApply of the series of this file: those of a Cluster with this label are serialized.
func profile(name, cidr string) string {
	labels := fmt.Sprintf("metadata: {labels: {%s: demo, %s: %s}, ", clusterv1.ClusterNameLabel, naming.SerializeLabel, naming.FargateProfilesGroup)
	return strings.Replace(workspaceTemplateApply(name, cidr), "metadata: {", labels, 1)
}

// beginProfiles makes all profiles at once.
func (env *environment) beginProfiles() {
	env.Helper()
	env.user(env.template())
	for _, name := range profiles {
		env.user(profile(name, before))
	}
}

// operations are those of a kind on Workspaces of these names, in the order in which they began.
func (env *environment) operations(kind scripted.Operation, names ...string) []scripted.Entry {
	env.Helper()
	journal, err := env.Scripts.Journal()
	require.NoError(env, err)
	return slices.DeleteFunc(journal, func(entry scripted.Entry) bool {
		ours := slices.ContainsFunc(names, func(name string) bool { return entry.Of(env.WorkspaceKey(name)) })
		return entry.Operation != kind || !ours
	})
}

// requireTurnsTaken proves that Terraform has applied and destroyed so many times, and that nothing of it overlapped.
func (env *environment) requireTurnsTaken(applies, destroys int, names ...string) {
	env.Helper()
	applied, destroyed := env.operations(scripted.Apply, names...), env.operations(scripted.Destroy, names...)
	require.Len(env, applied, applies)
	require.Len(env, destroyed, destroys)
	all := append(applied, destroyed...)
	slices.SortFunc(all, func(a, b scripted.Entry) int { return a.Start.Compare(b.Start) })
	for i, next := range all[1:] {
		last := all[i]
		require.False(env, last.End.IsZero() || last.End.After(next.Start), "%s of %s began at %s, %s of %s ended at %s",
			next.Operation, next.Name, next.Start, last.Operation, last.Name, last.End)
	}
}

// hasWaited reports whether a WorkspaceTemplateApply ever reported in that condition that it was queued.
func (env *environment) hasWaited(name, conditionType string) bool {
	return slices.ContainsFunc(env.control.history.applyVersions(env.applyKey(name)), func(version *infrav1.WorkspaceTemplateApply) bool {
		condition := meta.FindStatusCondition(version.Status.Conditions, conditionType)
		return condition != nil && condition.Reason == infrav1.QueuedReason
	})
}

// awaitRevision waits until a WorkspaceTemplateApply is Ready with another revision than before.
func (env *environment) awaitRevision(name, cidr, was string) string {
	env.Helper()
	env.eventually(tick, func() string {
		apply := env.get(name)
		return fixture.Unless(apply != nil && apply.Status.LastAppliedRevision != was, "%s has no other revision", name)
	})
	return env.awaitReady(name, cidr).Status.LastAppliedRevision
}

// The whole life of a series: made, changed by an edit of the template and by edits of each, and deleted, each time all at once.
func TestSerializedAppliesRunOneAtATime(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		for _, name := range profiles {
			env.setScript(name, slow)
		}
		env.beginProfiles()
		revisions := map[string]string{}
		for _, name := range profiles {
			revisions[name] = env.awaitReady(name, before).Status.LastAppliedRevision
		}
		env.requireTurnsTaken(3, 0, profiles...)
		require.True(env, env.hasWaited(profiles[2], infrav1.ReadyCondition))
		env.awaitQuiet(2 * time.Second)

		env.user(env.templateWith(sandbox.ProviderConfigName, module+"# edited\n"))
		for _, name := range profiles {
			revisions[name] = env.awaitRevision(name, before, revisions[name])
		}
		env.requireTurnsTaken(6, 0, profiles...)

		for _, name := range profiles {
			env.user(profile(name, after))
		}
		for _, name := range profiles {
			env.awaitRevision(name, after, revisions[name])
			require.Len(env, env.writes(name), 3, "one to make it, and two to change it")
		}
		env.requireTurnsTaken(9, 0, profiles...)

		env.removeApply(profiles...)
		env.awaitGone(profiles...)
		env.requireTurnsTaken(9, 3, profiles...)
		env.end(profiles...)
	})
}

// The garbage collector deletes all that an owner had at the same moment.
func TestWhatTheGarbageCollectorDeletesIsDestroyedOneAtATime(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, current, terraform.ScopeNamespaced)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "owner"}}
	require.NoError(env, env.Create(env.Context(), owner))
	env.beginProfiles()
	for _, name := range profiles {
		env.setScript(name, slow)
		env.editApply(name, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"%s"}]}}`, owner.UID))
	}
	env.awaitAllReady(before, profiles...)
	env.remove(owner)
	env.awaitGone(profiles...)
	env.requireTurnsTaken(3, 3, profiles...)
	// Requests one after the other could find that the Workspace before is gone already.
	require.True(env, slices.ContainsFunc(profiles, func(name string) bool { return env.hasWaited(name, infrav1.DeletingCondition) }))
	env.end(profiles...)
}

// So does the deletion of the namespace. Workspaces that are in the namespace it deletes itself, all at once, before any controller
// can order them; cluster-wide ones are left to their owners.
func TestDeletingANamespaceDestroysOneAtATime(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, current, terraform.ScopeCluster)
	for _, name := range profiles {
		env.setScript(name, slow)
	}
	env.beginProfiles()
	env.awaitAllReady(before, profiles...)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	require.NoError(t, sandbox.AllowDelete(t.Context(), env.Client, namespace))
	env.remove(namespace)
	env.awaitGone(profiles...)
	env.requireTurnsTaken(3, 3, profiles...)
	require.Empty(env, env.Cloud())
}

// A profile that cannot be made as it is does not hold the others up, although Terraform tries again and again.
func TestAnErrorThatNeedsTheUserDoesNotBlockTheOthers(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.setScript("profile-a", scripted.Script{Apply: scripted.Step{Delay: aWhile, Stderr: quotaReached}})
		env.beginProfiles()
		broken := env.awaitNotReady("profile-a", infrav1.ApplyFailedReason, "limit exceeded")
		require.Equal(env, "Quota", broken.Status.LastFailureClass)
		env.awaitAllReady(before, profiles[1:]...)
		env.awaitNotReady("profile-a", infrav1.ApplyFailedReason)

		env.setScript("profile-a", scripted.Script{Destroy: scripted.Step{Stderr: dependencyViolation}})
		env.awaitReady("profile-a", before)
		env.removeApply(profiles...)
		env.awaitDeleting("profile-a", infrav1.DestroyFailedReason)
		env.awaitGone(profiles[1:]...)
		env.end(profiles...)
	})
}

// Where a retry is expected to come through, the others wait for it. That costs no write, however often it is tried.
func TestARetriedApplyKeepsTheLock(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, current, terraform.ScopeNamespaced)
	env.setScript("profile-a", scripted.Script{Apply: scripted.Step{Stderr: beingChanged}})
	env.beginProfiles()
	locked := env.awaitNotReady("profile-a", infrav1.ApplyFailedReason, "AWS is changing the same resource")
	require.Equal(env, "Lock", locked.Status.LastFailureClass)
	for _, name := range profiles[1:] {
		env.awaitNotReady(name, infrav1.QueuedReason, "queued: Terraform changes one WorkspaceTemplateApply of Cluster demo")
	}
	env.awaitTriedWithoutWrites("profile-a", 2)
	for _, name := range profiles[1:] {
		require.Nil(env, env.Workspace(name))
		env.awaitNotReady(name, infrav1.QueuedReason)
		require.Nil(env, env.get(name).Status.StartedTime)
	}

	env.clearScript("profile-a")
	for _, name := range profiles {
		env.awaitReady(name, before)
		require.Len(env, env.writes(name), 1)
	}
	env.end(profiles...)
}

// awaitTriedWithoutWrites waits until Terraform tried to apply again that many times in a row while nothing was written. An event
// of an earlier change may be written late, so more than one such span is looked at.
func (env *environment) awaitTriedWithoutWrites(name string, times int) {
	env.Helper()
	since, tried := time.Now(), env.count(name, scripted.Apply)
	env.eventually(slowTick, func() string {
		if writes := env.allWrites(since); len(writes) > 0 {
			since, tried = time.Now(), env.count(name, scripted.Apply)
			return fmt.Sprintf("written while Terraform tried again: %v", writes)
		}
		return fixture.Unless(env.count(name, scripted.Apply) >= tried+times, "%s is not tried again", name)
	})
}

// What could not even be planned is destroyed all the same, and the error of before does not release the lock.
func TestDestroyOfAFailedApplyIsSerialized(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.beginProfiles()
		env.awaitAllReady(before, profiles...)
		for _, name := range profiles {
			env.setScript(name, scripted.Script{Plan: scripted.Step{Stderr: unsupported}, Destroy: scripted.Step{Delay: aWhile}})
			env.edit(name, `{"metadata":{"annotations":{"look":"again"}}}`)
			env.awaitNotReady(name, infrav1.PlanFailedReason)
		}
		env.removeApply(profiles...)
		env.awaitGone(profiles...)
		env.requireTurnsTaken(3, 3, profiles...)
		env.end(profiles...)
	})
}

// A restarted manager does not know which object is being applied before it has read all of them.
func TestTheSerializerStartsNoSecondApplyAfterARestart(t *testing.T) {
	var environments []*environment
	for _, scope := range terraform.Scopes() {
		env := newEnvironment(t, current, scope)
		env.setScript("profile-a", scripted.Script{Apply: scripted.Step{Hang: true}, Destroy: scripted.Step{Delay: aWhile}})
		env.beginProfiles()
		env.awaitOperation("profile-a", scripted.Apply, 1)
		for _, name := range profiles[1:] {
			env.setScript(name, slow)
			env.awaitNotReady(name, infrav1.QueuedReason)
		}
		environments = append(environments, env)
	}
	require.NoError(t, current.Restart(t.Context(), sandbox.Manager))
	t.Parallel() // The manager was restarted: other tests may run.

	for _, env := range environments {
		t.Run(string(env.Scope), func(t *testing.T) {
			t.Parallel()
			env.T = t
			env.user(workspaceTemplateApply("probe", before))
			env.awaitReady("probe", before) // So the manager is at work.
			env.user(profile("profile-b", after))
			env.awaitNotReady("profile-b", infrav1.QueuedReason)
			for _, name := range profiles[1:] {
				require.Nil(env, env.Workspace(name), "it was made beside one that Terraform is at work on")
			}
			env.setScript("profile-a", slow)
			env.awaitReady("profile-a", before)
			env.awaitReady("profile-b", after)
			env.awaitReady("profile-c", before)
			env.requireTurnsTaken(3, 0, profiles...)
			env.end(append(profiles, "probe")...)
		})
	}
}
