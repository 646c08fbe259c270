// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// secret makes a Secret, or changes it.
func (w *world) secret(name string, data map[string]string) {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: data}
	err := w.Create(w.Context(), secret)
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		err = w.Update(w.Context(), secret)
	}
	require.NoError(w, err)
}

// missing waits until exactly these messages say what is missing, and returns since when each is.
func (w *world) missing(name string, messages ...string) map[string]metav1.Time {
	w.Helper()
	since := map[string]metav1.Time{}
	w.insist(tick, func() string {
		clear(since)
		apply := w.get(name)
		if apply == nil || apply.Status.ObservedGeneration != apply.Generation {
			return "it was not looked at"
		}
		for _, missing := range apply.Status.MissingDependencies {
			since[missing.Message] = *missing.Since
		}
		for _, message := range messages {
			if _, reported := since[message]; !reported {
				return fmt.Sprintf("%q is not reported, but %v", message, since)
			}
		}
		if len(since) != len(messages) {
			return fmt.Sprintf("more is reported: %v", since)
		}
		return ""
	})
	for message, at := range since {
		reported := fmt.Sprintf("%s (since %s)", message, at.UTC().Format(time.RFC3339))
		w.awaitNotReady(name, infrav1.WaitingForDependenciesReason, reported)
		w.await(name, infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason, reported)
	}
	return since
}

func TestEachMissingDependencyIsNamedWithSinceWhen(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		workspace := w.workspaceKey("base").Name
		waits := []string{
			"waitForSecrets: [{name: account, keys: [id, key]}, {name: other}]",
			"waitForWorkspaces: [{name: " + workspace + "}]",
		}
		began := time.Now().Truncate(time.Second)
		w.user(w.template(), workspaceTemplateApply("late", before, waits...))
		since := w.missing("late", "Secret account does not exist", "Secret other does not exist", "Workspace "+workspace+" does not exist")
		for _, at := range since {
			require.False(w, at.Time.Before(began))
			require.False(w, at.After(time.Now()))
		}
		account, base := since["Secret account does not exist"], since["Workspace "+workspace+" does not exist"]

		// A dependency that exists is no longer reported. A missing one keeps its start time, whatever changes meanwhile.
		w.awaitLaterSecond(account.Time)
		w.secret("account", map[string]string{"id": "1", "key": ""})
		w.secret("other", nil)
		since = w.missing("late", "Secret account has no value for key key", "Secret other is empty", "Workspace "+workspace+" does not exist")
		require.Equal(w, account, since["Secret account has no value for key key"])
		w.user(workspaceTemplateApply("late", after, waits...))
		w.play("base", scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(workspaceTemplateApply("base", before))
		w.secret("other", map[string]string{"any": "x"})
		since = w.missing("late", "Secret account has no value for key key", "Workspace "+workspace+" is not up to date")
		require.Equal(w, account, since["Secret account has no value for key key"])
		require.Equal(w, base, since["Workspace "+workspace+" is not up to date"])
		w.secret("account", map[string]string{"id": "1", "key": "2"})
		w.missing("late", "Workspace "+workspace+" is not up to date")
		w.requireWorkspaces(1, "base")

		w.clearScript("base")
		late := w.awaitReady("late", after)
		require.Empty(w, late.Status.MissingDependencies)
		w.await("late", infrav1.DependenciesReadyCondition, metav1.ConditionTrue, infrav1.DependenciesReadyReason)
		w.end("late", "base")
	})
}

// awaitLaterSecond waits until the clock shows another second: times in status have no parts of it.
func (w *world) awaitLaterSecond(than time.Time) {
	w.Helper()
	w.insist(tick, func() string {
		if time.Now().Unix() > than.Unix() {
			return ""
		}
		return "the clock stands still"
	})
}

// What was needed to make a Workspace is needed again to change it, and not in between.
func TestALostDependencyHoldsUpChangesAlone(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		waits := "waitForSecrets: [{name: account}]"
		w.secret("account", map[string]string{"id": "1"})
		w.user(w.template(), workspaceTemplateApply("demo", before, waits))
		w.awaitReady("demo", before)

		w.remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "account"}})
		w.await("demo", infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason, "Secret account does not exist")
		require.True(w, w.ready("demo"))
		w.user(workspaceTemplateApply("demo", after, waits))
		w.missing("demo", "Secret account does not exist")
		require.Len(w, w.writes("demo"), 1)

		w.secret("account", map[string]string{"id": "1"})
		w.awaitReady("demo", after)
		require.Len(w, w.writes("demo"), 2)
		w.end("demo")
	})
}

// The provider makes the connection Secret before it applies, and fills it afterwards.
func TestAConnectionSecretIsWaitedForUntilItIsFilled(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("base", scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(w.template(), workspaceTemplateApply("base", before, "writeConnectionSecretToRef: {name: base}"),
			workspaceTemplateApply("key", before, "waitForSecrets: [{name: base, keys: [cidr]}]"),
			workspaceTemplateApply("any", before, "waitForSecrets: [{name: base}]"))
		w.awaitOperation("base", scripted.Apply, 1)
		secret := &corev1.Secret{}
		require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "base"}, secret))
		require.Empty(w, secret.Data)
		w.missing("key", "Secret base has no value for key cidr")
		w.missing("any", "Secret base is empty")
		w.requireWorkspaces(1, "base")

		w.clearScript("base")
		for _, name := range []string{"base", "key", "any"} {
			w.awaitReady(name, before)
			require.Len(w, w.writes(name), 1)
		}
		w.end("base", "key", "any")
	})
}
