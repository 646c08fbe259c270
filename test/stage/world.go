// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const (
	// Patience is how long a test waits for what comes in a moment, on a machine that has much else to do.
	Patience = 5 * time.Minute
	// tick is how often it looks.
	tick = 400 * time.Millisecond
)

// World is the namespace of one test, with Workspaces of one scope.
type World struct {
	*testing.T
	client.Client
	*Stage
	Namespace string
	Scope     terraform.Scope
}

// NewWorld makes a namespace, and a ProviderConfig for it alone.
func (s *Stage) NewWorld(t *testing.T, scope terraform.Scope) *World {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, s.API.Create(t.Context(), namespace))
	w := &World{T: t, Client: s.API, Stage: s, Namespace: namespace.Name, Scope: scope}
	w.User(w.ProviderConfig())
	return w
}

// InBothScopes runs a test with Workspaces of either scope, side by side.
func (s *Stage) InBothScopes(t *testing.T, test func(w *World)) {
	t.Helper()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			test(s.NewWorld(t, scope))
		})
	}
}

// In is the world in a test of its own.
func (w *World) In(t *testing.T) *World {
	moved := *w
	moved.T = t
	return &moved
}

// User applies documents as a user would.
func (w *World) User(documents ...string) {
	w.Helper()
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		require.NoError(w, yaml.UnmarshalStrict([]byte(document), &object.Object), document)
		if !strings.HasSuffix(object.GetKind(), "ProviderConfig") {
			object.SetNamespace(w.Namespace)
		}
		require.NoError(w, w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership), document)
	}
}

// Edit patches an object as a user would, with a JSON merge patch.
func (w *World) Edit(object client.Object, name, patch string) {
	w.Helper()
	object.SetNamespace(w.Namespace)
	object.SetName(name)
	require.NoError(w, w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user")))
}

// Remove deletes an object as a user would.
func (w *World) Remove(object client.Object, name string, options ...client.DeleteOption) {
	w.Helper()
	object.SetNamespace(w.Namespace)
	object.SetName(name)
	require.NoError(w, w.Delete(w.Context(), object, options...))
}

// Exists reads an object, and tells whether it is there.
func (w *World) Exists(object client.Object, name string) bool {
	w.Helper()
	err := w.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, object)
	if !engine.Absent(err) {
		require.NoError(w, err)
	}
	return err == nil
}

// Insist waits until lack returns "": what is still missing.
func (w *World) Insist(lack func() string) {
	w.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(w.Context(), tick, Patience, true, func(context.Context) (bool, error) {
		missing = lack()
		return missing == "", nil
	})
	require.NoError(w, err, missing)
}

// Lacks says in what a condition of an object is not as wanted; "" when it is. An empty reason is any.
func (w *World) Lacks(object engine.Object, name, conditionType string, status metav1.ConditionStatus, reason string, parts ...string) string {
	w.Helper()
	if !w.Exists(object, name) {
		return fmt.Sprintf("%T %s is not there", object, name)
	}
	c := meta.FindStatusCondition(object.GetConditions(), conditionType)
	if c == nil {
		return fmt.Sprintf("%T %s has no condition %s", object, name, conditionType)
	}
	told := fmt.Sprintf("%T %s: %s is %s/%s: %s", object, name, conditionType, c.Status, c.Reason, c.Message)
	if c.Status != status || (reason != "" && c.Reason != reason) {
		return told
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			return fmt.Sprintf("%s, and nothing of %q", told, part)
		}
	}
	return ""
}

// Await waits until a condition has a status and a reason, and its message holds the parts.
func (w *World) Await(object engine.Object, name, conditionType string, status metav1.ConditionStatus, reason string, parts ...string) {
	w.Helper()
	w.Insist(func() string { return w.Lacks(object, name, conditionType, status, reason, parts...) })
}

// AwaitState waits until the control plane of the Cluster is in a state, for a reason if one is given.
func (w *World) AwaitState(state controlplanev1.State, reason string) *controlplanev1.CAPTControlPlane {
	w.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	w.Insist(func() string {
		if !w.Exists(controlPlane, Demo) {
			return "the control plane is not there"
		}
		ready := meta.FindStatusCondition(controlPlane.Status.Conditions, controlplanev1.ReadyCondition)
		if ready == nil || controlPlane.Status.ObservedGeneration != controlPlane.Generation {
			return "the control plane was not looked at"
		}
		if controlPlane.Status.State != state || (reason != "" && ready.Reason != reason) {
			return fmt.Sprintf("the control plane is %s: %s: %s", controlPlane.Status.State, ready.Reason, ready.Message)
		}
		return ""
	})
	return controlPlane
}

// AwaitVPC waits until the VPC of the Cluster is there.
func (w *World) AwaitVPC() *infrav1.CAPTCluster {
	w.Helper()
	captCluster := &infrav1.CAPTCluster{}
	w.Await(captCluster, Demo, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	return captCluster
}

// AwaitGone waits until an object no longer exists.
func (w *World) AwaitGone(object client.Object, name string) {
	w.Helper()
	w.Insist(func() string {
		if w.Exists(object, name) {
			return fmt.Sprintf("%T %s is still there: %+v", object, name, object)
		}
		return ""
	})
}

// WorkspaceKey is the key of the Workspace of a WorkspaceTemplateApply.
func (w *World) WorkspaceKey(apply string) types.NamespacedName {
	key := types.NamespacedName{Namespace: w.Namespace, Name: naming.Workspace(w.Scope, types.NamespacedName{Namespace: w.Namespace, Name: apply})}
	if w.Scope == terraform.ScopeCluster {
		key.Namespace = ""
	}
	return key
}

// Workspace is the Workspace of a WorkspaceTemplateApply; nil when it is not there.
func (w *World) Workspace(apply string) *unstructured.Unstructured {
	w.Helper()
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(w.Scope.GroupVersionKind())
	err := w.Get(w.Context(), w.WorkspaceKey(apply), workspace)
	if engine.Absent(err) {
		return nil
	}
	require.NoError(w, err)
	return workspace
}

// Play gives the Workspace of a WorkspaceTemplateApply a script, before or while it is there.
func (w *World) Play(apply string, script scripted.Script) {
	w.Helper()
	require.NoError(w, w.Scripts.Play(w.WorkspaceKey(apply), script))
}

// Operations are those of Terraform for the Workspace of a WorkspaceTemplateApply, in the order in which they began.
func (w *World) Operations(apply string, operation scripted.Operation) []scripted.Entry {
	w.Helper()
	journal, err := w.Scripts.Journal()
	require.NoError(w, err)
	var entries []scripted.Entry
	for _, entry := range journal {
		if entry.Operation == operation && entry.Of(w.WorkspaceKey(apply)) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// AwaitOperation waits until Terraform has begun an operation.
func (w *World) AwaitOperation(apply string, operation scripted.Operation) {
	w.Helper()
	w.Insist(func() string {
		if len(w.Operations(apply, operation)) == 0 {
			return fmt.Sprintf("no %s of %s was begun", operation, apply)
		}
		return ""
	})
}

// Cloud lists the resources of the world in the cloud.
func (w *World) Cloud() []scripted.Resource {
	w.Helper()
	cloud, err := w.Scripts.Cloud()
	require.NoError(w, err)
	var ours []scripted.Resource
	for _, resource := range cloud {
		if strings.Contains(resource.ExternalName, w.Namespace) {
			ours = append(ours, resource)
		}
	}
	return ours
}

// RequireNothingLeft proves that the world has nothing in the cloud, and that Terraform has no state of it.
func (w *World) RequireNothingLeft() {
	w.Helper()
	require.Empty(w, w.Cloud())
	states, err := w.Scripts.States()
	require.NoError(w, err)
	for name := range states {
		require.NotContains(w, name, w.Namespace, "a state is left behind")
	}
}

// RequireDestroyedInOrder proves that nothing of the VPC was destroyed before the control plane was.
func (w *World) RequireDestroyedInOrder(vpc, controlPlane string) {
	w.Helper()
	first := w.Operations(vpc, scripted.Destroy)
	for _, last := range w.Operations(controlPlane, scripted.Destroy) {
		require.NotEmpty(w, first, "the control plane was destroyed, and the VPC is left")
		require.False(w, last.End.IsZero())
		require.True(w, last.End.Before(first[0].Start), "the VPC was destroyed under the control plane")
	}
}
