// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// waiting waits until a WorkspaceTemplateApply of the tenant waits for something, and returns what the tenant sees.
func (w *world) waiting(name string, names ...string) string {
	w.Helper()
	w.awaitRefused(name, infrav1.DependenciesReadyCondition, infrav1.WaitingForDependenciesReason)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.read(apply, w.a, name)
	return w.view(apply, append([]string{name}, names...)...)
}

func TestASecretOfAnotherNamespaceIsAsGoodAsMissing(t *testing.T) {
	for name, keys := range map[string]string{"any key": "[]", "a key that is there": "[value]", "a key that is not": "[other]"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, terraform.ScopeNamespaced)
			w.requireSameAsMissing("canary", fmt.Sprintf("waitForSecrets: [{name: NAME, namespace: %s, keys: %s}]", w.b, keys))
		})
	}
}

// requireSameAsMissing proves that a tenant who waits for an object of the other namespace sees the same as for one that does not exist.
func (w *world) requireSameAsMissing(theirs, waits string) {
	w.Helper()
	w.apply(w.a, echo("mine", ""))
	for name, waitsFor := range map[string]string{"waits-for-theirs": theirs, "waits-for-absent": "absent"} {
		w.apply(w.a, uses(name, w.a, "mine", says("hello")+"\n  "+strings.ReplaceAll(waits, "NAME", waitsFor)))
	}
	require.Equal(w, w.waiting("waits-for-absent", "absent"), w.waiting("waits-for-theirs", theirs))
	w.requireNothingLeaked()
}

func TestAWorkspaceOfAnotherNamespaceLooksTheSameNotReadyOrMissing(t *testing.T) {
	inBothScopes(t, func(_ *testing.T, w *world) {
		w.requireSameAsMissing(w.unready(), "waitForWorkspaces: [{name: NAME, namespace: "+w.b+"}]")
	})
}

// A Workspace in the cluster scope has no namespace, so that its name alone finds it.
func TestAClusterWideWorkspaceOfAnotherNamespaceIsNotFoundByItsName(t *testing.T) {
	w := newWorld(t, terraform.ScopeCluster)
	w.requireSameAsMissing(w.unready(), "waitForWorkspaces: [{name: NAME}]")
}

// unready makes a Workspace of the other namespace that Terraform never gets done with, and returns its name.
func (w *world) unready() string {
	w.Helper()
	there := *w.World
	there.Namespace = w.b
	there.Play("theirs", scripted.Script{Plan: scripted.Step{Stderr: "Error: not today\n"}})
	w.apply(w.b, echo("theirs", "workspaceScope: "+string(w.Scope)), uses("theirs", w.b, "theirs", says("secret")))
	w.awaitCondition(&infrav1.WorkspaceTemplateApply{}, w.b, "theirs", infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.PlanFailedReason)
	return there.WorkspaceKey("theirs").Name
}

func TestOutputsAreWrittenToNoOtherNamespace(t *testing.T) {
	inBothScopes(t, func(t *testing.T, w *world) {
		before := w.secrets(w.b)
		w.apply(w.a, echo("mine", "workspaceScope: "+string(w.Scope)))
		for name, secret := range map[string]string{"overwrites": "canary", "adds": "new"} {
			w.apply(w.a, uses(name, w.a, "mine", says("hello")+fmt.Sprintf("\n  writeConnectionSecretToRef: {name: %s, namespace: %s}", secret, w.b)))
		}
		overwrites := w.awaitRefused("overwrites", infrav1.RenderedCondition, infrav1.TemplateInvalidReason)
		require.Contains(t, overwrites, "must be \""+w.a+"\", the namespace of the WorkspaceTemplateApply")
		require.Equal(t, overwrites, w.awaitRefused("adds", infrav1.RenderedCondition, infrav1.TemplateInvalidReason))
		require.Equal(t, before, w.secrets(w.b))
	})
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
