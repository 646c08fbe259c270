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
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// secret makes a Secret, or changes it.
func (env *environment) secret(name string, data map[string]string) {
	env.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}, StringData: data}
	err := env.Create(env.Context(), secret)
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		err = env.Update(env.Context(), secret)
	}
	require.NoError(env, err)
}

// missing waits until exactly these messages say what is missing, and returns since when each is.
func (env *environment) missing(name string, messages ...string) map[string]metav1.Time {
	env.Helper()
	since := map[string]metav1.Time{}
	env.eventually(tick, func() string {
		clear(since)
		apply := env.get(name)
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
		return fixture.Unless(len(since) == len(messages), "more is reported: %v", since)
	})
	for message, at := range since {
		reported := fmt.Sprintf("%s (since %s)", message, at.UTC().Format(time.RFC3339))
		env.awaitNotReady(name, infrav1.WaitingForDependenciesReason, reported)
		env.await(name, infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason, reported)
	}
	return since
}

func TestEachMissingDependencyIsNamedWithSinceWhen(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		workspace := env.WorkspaceKey("base").Name
		waits := []string{
			"waitForSecrets: [{name: account, keys: [id, key]}, {name: other}]",
			"waitForWorkspaces: [{name: " + workspace + "}]",
		}
		began := time.Now().Truncate(time.Second)
		env.user(env.template(), workspaceTemplateApply("late", before, waits...))
		since := env.missing("late", "Secret account does not exist: it needs a value for key id and key key", "Secret other does not exist", "Workspace "+workspace+" does not exist")
		for _, at := range since {
			require.False(env, at.Time.Before(began))
			require.False(env, at.After(time.Now()))
		}
		account, base := since["Secret account does not exist: it needs a value for key id and key key"], since["Workspace "+workspace+" does not exist"]

		// A dependency that exists is no longer reported. A missing one keeps its start time, whatever changes meanwhile.
		env.awaitLaterSecond(account.Time)
		env.secret("account", map[string]string{"id": "1", "key": ""})
		env.secret("other", nil)
		since = env.missing("late", "Secret account has no value for key key", "Secret other is empty", "Workspace "+workspace+" does not exist")
		require.Equal(env, account, since["Secret account has no value for key key"])
		env.user(workspaceTemplateApply("late", after, waits...))
		env.setScript("base", scripted.Script{Apply: scripted.Step{Hang: true}})
		env.user(workspaceTemplateApply("base", before))
		env.secret("other", map[string]string{"any": "x"})
		since = env.missing("late", "Secret account has no value for key key", "Workspace "+workspace+" is not up to date")
		require.Equal(env, account, since["Secret account has no value for key key"])
		require.Equal(env, base, since["Workspace "+workspace+" is not up to date"])
		env.secret("account", map[string]string{"id": "1", "key": "2"})
		env.missing("late", "Workspace "+workspace+" is not up to date")
		env.requireWorkspaces(1, "base")

		env.clearScript("base")
		late := env.awaitReady("late", after)
		require.Empty(env, late.Status.MissingDependencies)
		env.await("late", infrav1.DependenciesReadyCondition, metav1.ConditionTrue, infrav1.DependenciesReadyReason)
		env.end("late", "base")
	})
}

// awaitLaterSecond waits until the clock shows another second: times in status have no parts of it.
func (env *environment) awaitLaterSecond(than time.Time) {
	env.Helper()
	env.eventually(tick, func() string { return fixture.Unless(time.Now().Unix() > than.Unix(), "the clock stands still") })
}

// What was needed to make a Workspace is needed again to change it, and not in between.
func TestALostDependencyHoldsUpChangesAlone(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		waits := "waitForSecrets: [{name: account}]"
		env.secret("account", map[string]string{"id": "1"})
		env.user(env.template(), workspaceTemplateApply("demo", before, waits))
		env.awaitReady("demo", before)

		env.remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "account"}})
		env.await("demo", infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason, "Secret account does not exist")
		require.True(env, env.ready("demo"))
		env.user(workspaceTemplateApply("demo", after, waits))
		env.missing("demo", "Secret account does not exist")
		require.Len(env, env.writes("demo"), 1)

		env.secret("account", map[string]string{"id": "1"})
		env.awaitReady("demo", after)
		require.Len(env, env.writes("demo"), 2)
		env.end("demo")
	})
}

// The provider makes the connection Secret before it applies, and fills it afterwards.
func TestAConnectionSecretIsWaitedForUntilItIsFilled(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.setScript("base", scripted.Script{Apply: scripted.Step{Hang: true}})
		env.user(env.template(), workspaceTemplateApply("base", before, "writeConnectionSecretToRef: {name: base}"),
			workspaceTemplateApply("key", before, "waitForSecrets: [{name: base, keys: [cidr]}]"),
			workspaceTemplateApply("any", before, "waitForSecrets: [{name: base}]"))
		env.awaitOperation("base", scripted.Apply, 1)
		secret := &corev1.Secret{}
		require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: env.Namespace, Name: "base"}, secret))
		require.Empty(env, secret.Data)
		env.missing("key", "Secret base has no value for key cidr")
		env.missing("any", "Secret base is empty")
		env.requireWorkspaces(1, "base")

		env.clearScript("base")
		for _, name := range []string{"base", "key", "any"} {
			env.awaitReady(name, before)
			require.Len(env, env.writes(name), 1)
		}
		env.end("base", "key", "any")
	})
}
