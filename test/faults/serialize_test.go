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
func (w *world) beginProfiles() {
	w.Helper()
	w.user(w.template())
	for _, name := range profiles {
		w.user(profile(name, before))
	}
}

// operations are those of a kind on Workspaces of these names, in the order in which they began.
func (w *world) operations(kind scripted.Operation, names ...string) []scripted.Entry {
	w.Helper()
	journal, err := w.scripts.Journal()
	require.NoError(w, err)
	return slices.DeleteFunc(journal, func(entry scripted.Entry) bool {
		ours := slices.ContainsFunc(names, func(name string) bool { return entry.Of(w.workspaceKey(name)) })
		return entry.Operation != kind || !ours
	})
}

// requireTurnsTaken proves that Terraform has applied and destroyed so many times, and that nothing of it overlapped.
func (w *world) requireTurnsTaken(applies, destroys int, names ...string) {
	w.Helper()
	applied, destroyed := w.operations(scripted.Apply, names...), w.operations(scripted.Destroy, names...)
	require.Len(w, applied, applies)
	require.Len(w, destroyed, destroys)
	all := append(applied, destroyed...)
	slices.SortFunc(all, func(a, b scripted.Entry) int { return a.Start.Compare(b.Start) })
	for i, next := range all[1:] {
		last := all[i]
		require.False(w, last.End.IsZero() || last.End.After(next.Start), "%s of %s began at %s, %s of %s ended at %s",
			next.Operation, next.Name, next.Start, last.Operation, last.Name, last.End)
	}
}

// hasWaited reports whether a WorkspaceTemplateApply ever reported in that condition that it was queued.
func (w *world) hasWaited(name, conditionType string) bool {
	return slices.ContainsFunc(w.history.applyVersions(w.applyKey(name)), func(version *infrav1.WorkspaceTemplateApply) bool {
		condition := meta.FindStatusCondition(version.Status.Conditions, conditionType)
		return condition != nil && condition.Reason == infrav1.QueuedReason
	})
}

// awaitRevision waits until a WorkspaceTemplateApply is Ready with another revision than before.
func (w *world) awaitRevision(name, cidr, was string) string {
	w.Helper()
	w.insist(tick, func() string {
		if apply := w.get(name); apply == nil || apply.Status.LastAppliedRevision == was {
			return name + " has no other revision"
		}
		return ""
	})
	return w.awaitReady(name, cidr).Status.LastAppliedRevision
}

// The whole life of a series: made, changed by an edit of the template and by edits of each, and deleted, each time all at once.
func TestSerializedAppliesRunOneAtATime(t *testing.T) {
	withEachProvider(t, func(w *world) {
		for _, name := range profiles {
			w.play(name, slow)
		}
		w.beginProfiles()
		revisions := map[string]string{}
		for _, name := range profiles {
			revisions[name] = w.awaitReady(name, before).Status.LastAppliedRevision
		}
		w.requireTurnsTaken(3, 0, profiles...)
		require.True(w, w.hasWaited(profiles[2], infrav1.ReadyCondition))
		w.awaitQuiet(2 * time.Second)

		w.user(w.templateWith(templateName, sandbox.ProviderConfigName, module+"# edited\n"))
		for _, name := range profiles {
			revisions[name] = w.awaitRevision(name, before, revisions[name])
		}
		w.requireTurnsTaken(6, 0, profiles...)

		for _, name := range profiles {
			w.user(profile(name, after))
		}
		for _, name := range profiles {
			w.awaitRevision(name, after, revisions[name])
			require.Len(w, w.writes(name), 3, "one to make it, and two to change it")
		}
		w.requireTurnsTaken(9, 0, profiles...)

		for _, name := range profiles {
			w.removeApply(name)
		}
		for _, name := range profiles {
			w.awaitGone(name)
		}
		w.requireTurnsTaken(9, 3, profiles...)
		w.end(profiles...)
	})
}

// The garbage collector deletes all that an owner had at the same moment.
func TestWhatTheGarbageCollectorDeletesIsDestroyedOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, current, terraform.ScopeNamespaced)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
	require.NoError(w, w.Create(w.Context(), owner))
	w.beginProfiles()
	for _, name := range profiles {
		w.play(name, slow)
		w.editApply(name, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"%s"}]}}`, owner.UID))
	}
	for _, name := range profiles {
		w.awaitReady(name, before)
	}
	w.remove(owner)
	for _, name := range profiles {
		w.awaitGone(name)
	}
	w.requireTurnsTaken(3, 3, profiles...)
	// Requests one after the other could find that the Workspace before is gone already.
	require.True(w, slices.ContainsFunc(profiles, func(name string) bool { return w.hasWaited(name, infrav1.DeletingCondition) }))
	w.end(profiles...)
}

// So does the deletion of the namespace. Workspaces that are in the namespace it deletes itself, all at once, before any controller
// can order them; cluster-wide ones are left to their owners.
func TestDeletingANamespaceDestroysOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, current, terraform.ScopeCluster)
	for _, name := range profiles {
		w.play(name, slow)
	}
	w.beginProfiles()
	for _, name := range profiles {
		w.awaitReady(name, before)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	require.NoError(t, sandbox.AllowDelete(t.Context(), w.Client, namespace))
	w.remove(namespace)
	for _, name := range profiles {
		w.awaitGone(name)
	}
	w.requireTurnsTaken(3, 3, profiles...)
	require.Empty(w, w.resources())
}

// A profile that cannot be made as it is does not hold the others up, although Terraform tries again and again.
func TestAnErrorThatNeedsTheUserDoesNotBlockTheOthers(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("profile-a", scripted.Script{Apply: scripted.Step{Delay: aWhile, Stderr: quotaReached}})
		w.beginProfiles()
		broken := w.awaitNotReady("profile-a", infrav1.ApplyFailedReason, "limit exceeded")
		require.Equal(w, "Quota", broken.Status.LastFailureClass)
		w.awaitReady("profile-b", before)
		w.awaitReady("profile-c", before)
		w.awaitNotReady("profile-a", infrav1.ApplyFailedReason)

		w.play("profile-a", scripted.Script{Destroy: scripted.Step{Stderr: dependencyViolation}})
		w.awaitReady("profile-a", before)
		for _, name := range profiles {
			w.removeApply(name)
		}
		w.awaitDeleting("profile-a", infrav1.DestroyFailedReason)
		w.awaitGone("profile-b")
		w.awaitGone("profile-c")
		w.end(profiles...)
	})
}

// Where a retry is expected to come through, the others wait for it. That costs no write, however often it is tried.
func TestARetriedApplyKeepsTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, current, terraform.ScopeNamespaced)
	w.play("profile-a", scripted.Script{Apply: scripted.Step{Stderr: beingChanged}})
	w.beginProfiles()
	locked := w.awaitNotReady("profile-a", infrav1.ApplyFailedReason, "Another run holds the lock of the Terraform state")
	require.Equal(w, "Lock", locked.Status.LastFailureClass)
	for _, name := range profiles[1:] {
		w.awaitNotReady(name, infrav1.QueuedReason, "queued: Terraform changes one WorkspaceTemplateApply of Cluster demo")
	}
	w.awaitTriedWithoutWrites("profile-a", 2)
	for _, name := range profiles[1:] {
		require.Nil(w, w.workspace(name))
		w.awaitNotReady(name, infrav1.QueuedReason)
		require.Nil(w, w.get(name).Status.StartedTime)
	}

	w.clearScript("profile-a")
	for _, name := range profiles {
		w.awaitReady(name, before)
		require.Len(w, w.writes(name), 1)
	}
	w.end(profiles...)
}

// awaitTriedWithoutWrites waits until Terraform tried to apply again that many times in a row while nothing was written. An event
// of an earlier change may be written late, so more than one such span is looked at.
func (w *world) awaitTriedWithoutWrites(name string, times int) {
	w.Helper()
	since, tried := time.Now(), w.count(name, scripted.Apply)
	w.insist(slowTick, func() string {
		if writes := w.allWrites(since); len(writes) > 0 {
			since, tried = time.Now(), w.count(name, scripted.Apply)
			return fmt.Sprintf("written while Terraform tried again: %v", writes)
		}
		if w.count(name, scripted.Apply) < tried+times {
			return name + " is not tried again"
		}
		return ""
	})
}

// What could not even be planned is destroyed all the same, and the error of before does not release the lock.
func TestDestroyOfAFailedApplyIsSerialized(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.beginProfiles()
		for _, name := range profiles {
			w.awaitReady(name, before)
		}
		for _, name := range profiles {
			w.play(name, scripted.Script{Plan: scripted.Step{Stderr: unsupported}, Destroy: scripted.Step{Delay: aWhile}})
			w.edit(name, `{"metadata":{"annotations":{"look":"again"}}}`)
			w.awaitNotReady(name, infrav1.PlanFailedReason)
		}
		for _, name := range profiles {
			w.removeApply(name)
		}
		for _, name := range profiles {
			w.awaitGone(name)
		}
		w.requireTurnsTaken(3, 3, profiles...)
		w.end(profiles...)
	})
}

// A restarted manager does not know which object is being applied before it has read all of them.
func TestTheSerializerStartsNoSecondApplyAfterARestart(t *testing.T) {
	var worlds []*world
	for _, scope := range terraform.Scopes() {
		w := newWorld(t, current, scope)
		w.play("profile-a", scripted.Script{Apply: scripted.Step{Hang: true}, Destroy: scripted.Step{Delay: aWhile}})
		w.beginProfiles()
		w.awaitOperation("profile-a", scripted.Apply, 1)
		for _, name := range profiles[1:] {
			w.play(name, slow)
			w.awaitNotReady(name, infrav1.QueuedReason)
		}
		worlds = append(worlds, w)
	}
	require.NoError(t, current.Restart(t.Context(), sandbox.Manager))
	t.Parallel() // The manager was restarted: other tests may run.

	for _, w := range worlds {
		t.Run(string(w.scope), func(t *testing.T) {
			t.Parallel()
			w.T = t
			w.user(workspaceTemplateApply("probe", before))
			w.awaitReady("probe", before) // So the manager is at work.
			w.user(profile("profile-b", after))
			w.awaitNotReady("profile-b", infrav1.QueuedReason)
			for _, name := range profiles[1:] {
				require.Nil(w, w.workspace(name), "it was made beside one that Terraform is at work on")
			}
			w.play("profile-a", slow)
			w.awaitReady("profile-a", before)
			w.awaitReady("profile-b", after)
			w.awaitReady("profile-c", before)
			w.requireTurnsTaken(3, 0, profiles...)
			w.end(append(profiles, "probe")...)
		})
	}
}
