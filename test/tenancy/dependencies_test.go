// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// waiting waits until a WorkspaceTemplateApply of the tenant waits for something, and returns what the tenant sees.
func (w *world) waiting(name string, names ...string) string {
	w.Helper()
	w.awaitRefused(name, infrav1.DependenciesReadyCondition, infrav1.WaitingForDependenciesReason)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.await(apply, w.a, name, func() string { return "" })
	return w.view(apply, append([]string{name}, names...)...)
}

func TestASecretOfAnotherNamespaceIsAsGoodAsMissing(t *testing.T) {
	for name, keys := range map[string]string{"any key": "[]", "a key that is there": "[value]", "a key that is not": "[other]"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(w.a, echo("mine", ""))
			for _, secret := range []string{"canary", "absent"} {
				w.apply(w.a, uses("waits-for-"+secret, w.a, "mine", says("hello")+fmt.Sprintf("\n  waitForSecrets: [{name: %s, namespace: %s, keys: %s}]", secret, w.b, keys)))
			}
			require.Equal(t, w.waiting("waits-for-absent", "absent"), w.waiting("waits-for-canary", "canary"))
			w.requireNothingLeaked()
		})
	}
}

func TestAWorkspaceOfAnotherNamespaceLooksTheSameNotReadyOrMissing(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			w := newWorld(t)
			theirs := w.unready(scope)
			w.apply(w.a, echo("mine", ""))
			for name, workspace := range map[string]string{"waits-for-theirs": theirs, "waits-for-absent": "absent"} {
				w.apply(w.a, uses(name, w.a, "mine", says("hello")+fmt.Sprintf("\n  waitForWorkspaces: [{name: %s, namespace: %s}]", workspace, w.b)))
			}
			require.Equal(t, w.waiting("waits-for-absent", "absent"), w.waiting("waits-for-theirs", theirs))
			w.requireNothingLeaked()
		})
	}
}

// A Workspace in the cluster scope has no namespace, so that its name alone finds it.
func TestAClusterWideWorkspaceOfAnotherNamespaceIsNotFoundByItsName(t *testing.T) {
	w := newWorld(t)
	theirs := w.unready(terraform.ScopeCluster)
	w.apply(w.a, echo("mine", ""))
	for name, workspace := range map[string]string{"waits-for-theirs": theirs, "waits-for-absent": "absent"} {
		w.apply(w.a, uses(name, w.a, "mine", says("hello")+fmt.Sprintf("\n  waitForWorkspaces: [{name: %s}]", workspace)))
	}
	require.Equal(t, w.waiting("waits-for-absent", "absent"), w.waiting("waits-for-theirs", theirs))
}

// unready makes a Workspace of the other namespace that Terraform never gets done with, and returns its name.
func (w *world) unready(scope terraform.Scope) string {
	w.Helper()
	apply := types.NamespacedName{Namespace: w.b, Name: "theirs"}
	name := naming.Workspace(scope, apply)
	key := types.NamespacedName{Namespace: w.b, Name: name}
	if scope == terraform.ScopeCluster {
		key.Namespace = ""
	}
	require.NoError(w, stage.Play(key, scripted.Script{Plan: scripted.Step{Stderr: "Error: not today\n"}}))
	w.apply(w.b, echo("theirs", "workspaceScope: "+string(scope)), uses("theirs", w.b, "theirs", says("secret")))
	w.awaitCondition(&infrav1.WorkspaceTemplateApply{}, w.b, "theirs", infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.PlanFailedReason)
	return name
}

func TestOutputsAreWrittenToNoOtherNamespace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			w := newWorld(t)
			before := w.secrets(w.b)
			w.apply(w.a, echo("mine", "workspaceScope: "+string(scope)))
			for name, secret := range map[string]string{"overwrites": "canary", "adds": "new"} {
				w.apply(w.a, uses(name, w.a, "mine", says("hello")+fmt.Sprintf("\n  writeConnectionSecretToRef: {name: %s, namespace: %s}", secret, w.b)))
			}
			overwrites := w.awaitRefused("overwrites", infrav1.RenderedCondition, infrav1.TemplateInvalidReason)
			require.Contains(t, overwrites, "must be \""+w.a+"\", the namespace of the WorkspaceTemplateApply")
			require.Equal(t, overwrites, w.awaitRefused("adds", infrav1.RenderedCondition, infrav1.TemplateInvalidReason))
			require.Equal(t, before, w.secrets(w.b))
		})
	}
}

// secrets lists the Secrets of a namespace with their versions.
func (w *world) secrets(namespace string) map[string]string {
	w.Helper()
	var list corev1.SecretList
	require.NoError(w, w.List(w.Context(), &list, client.InNamespace(namespace)))
	versions := map[string]string{}
	for i := range list.Items {
		versions[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return versions
}
